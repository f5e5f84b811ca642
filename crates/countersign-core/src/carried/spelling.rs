//! Texts and numbers in one spelling each, so that one that is written in another way is still found.

use super::CHARS_MIN;
use smol_str::SmolStr;
use std::collections::BTreeSet;
use unicode_normalization::UnicodeNormalization as _;

/// The fewest digits of a number that is a value.
const DIGITS_MIN: usize = 4;
/// How far an exponent moves the point at most: more than any amount needs.
const EXPONENT_MAX: usize = 64;
/// The most groups that are one value: an account number of 34 characters has nine groups of four.
const GROUPS_MAX: usize = 9;

/// A text in the one form in which texts are compared.
pub(super) fn normal(text: &str) -> String {
    // Upper case first: some letters have two forms in lower case.
    let seen = text.nfkc().filter(|c| !is_ignorable(*c));
    let folded = seen.flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    folded.collect::<String>().nfkc().collect()
}

/// Whether nothing is seen of a character (`Default_Ignorable_Code_Point`).
fn is_ignorable(char: char) -> bool {
    matches!(u32::from(char),
        0xAD | 0x34F | 0x61C | 0x115F..=0x1160 | 0x17B4..=0x17B5 | 0x180B..=0x180F | 0x200B..=0x200F | 0x202A..=0x202E
        | 0x2060..=0x206F | 0x3164 | 0xFE00..=0xFE0F | 0xFEFF | 0xFFA0 | 0xFFF0..=0xFFF8 | 0x1_BCA0..=0x1_BCA3
        | 0x1_D173..=0x1_D17A | 0xE_0000..=0xE_0FFF)
}

/// What a text says in groups, each without what is between them: groups with digits in them that a blank is between, and any that a hyphen
/// is. Of more than two groups, each beginning and each end could be a value of its own.
pub(super) fn joined(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut groups: Vec<&str> = Vec::new();
    let mut rest = text;
    loop {
        let (group, after) =
            rest.split_at_checked(rest.find(|c| !is_of_group(c)).unwrap_or(rest.len())).unwrap_or_default();
        if !group.is_empty() {
            groups.push(group);
        }
        let mut chars = after.chars();
        let (between, next) = (chars.next(), chars.as_str());
        let following = next.split(|c| !is_of_group(c)).next().unwrap_or_default();
        let has_digit = |group: &str| group.contains(|c: char| c.is_ascii_digit());
        let is_joined = match between {
            Some(' ') => has_digit(group) && has_digit(following),
            Some('-' | '\u{2010}'..='\u{2015}') => !group.is_empty() && !following.is_empty(),
            _ => false,
        };
        if !is_joined {
            for start in 0..groups.len() {
                let windows = groups.get(start..).unwrap_or_default();
                for end in 2..=windows.len().min(GROUPS_MAX) {
                    found.insert(windows.get(..end).unwrap_or_default().concat());
                }
            }
            groups.clear();
        }
        if between.is_none() {
            break;
        }
        rest = next;
    }
    found.retain(|joined| joined.chars().nth(DIGITS_MIN.min(CHARS_MIN).saturating_sub(1)).is_some());
    found
}

fn is_of_group(char: char) -> bool {
    char.is_alphanumeric() || matches!(char, '.' | ',')
}

/// The numbers in a text, each in one form: without sign and exponent, without zeros in front or at the end of a fraction. Commas are left
/// out: they group digits.
pub(super) fn numbers(text: &str) -> BTreeSet<SmolStr> {
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | '\'' | '_');
    let mut found = BTreeSet::new();
    let mut add = |number: &str| {
        let digits = number.trim_start_matches('0').bytes().filter(u8::is_ascii_digit).count();
        if digits >= DIGITS_MIN {
            found.insert(one_form(number));
        }
    };
    let mut rest = text;
    while let Some((_, from)) = rest.find(|c: char| c.is_ascii_digit()).and_then(|at| rest.split_at_checked(at)) {
        let end = from.find(|c| !is_part(c)).unwrap_or(from.len());
        let Some((run, after)) = from.split_at_checked(end) else { break };
        let together: String = run.chars().filter(|c| c.is_ascii_digit() || *c == '.').collect();
        run.split([',', '\'', '_']).for_each(|apart| add(apart.trim_matches('.')));
        add(together.trim_matches('.'));
        if let Some(number) = exponent(after).and_then(|exponent| moved(together.trim_matches('.'), exponent)) {
            add(&number);
        }
        rest = after;
    }
    found
}

/// The exponent that follows a number.
fn exponent(after: &str) -> Option<isize> {
    let after = after.strip_prefix('e')?;
    let (is_negative, digits) = match after.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, after.strip_prefix('+').unwrap_or(after)),
    };
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let (digits, next) = digits.split_at_checked(end)?;
    let exponent = digits.parse::<isize>().ok().filter(|_| !next.starts_with(char::is_alphanumeric))?;
    Some(if is_negative { exponent.saturating_neg() } else { exponent })
}

/// A number with its point moved to the right.
fn moved(number: &str, by: isize) -> Option<String> {
    if by.unsigned_abs() > EXPONENT_MAX {
        return None;
    }
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    let point = isize::try_from(whole.len()).ok()?.saturating_add(by);
    let zeros = |count: isize| "0".repeat(usize::try_from(count).unwrap_or(0));
    let behind = point.saturating_sub(isize::try_from(digits.len()).ok()?);
    Some(match usize::try_from(point) {
        Ok(point) => match digits.split_at_checked(point) {
            Some((whole, fraction)) => format!("{whole}.{fraction}"),
            None => digits + &zeros(behind),
        },
        Err(_) => format!("0.{}{digits}", zeros(point.saturating_neg())),
    })
}

fn one_form(number: &str) -> SmolStr {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    if fraction.is_empty() { whole.into() } else { format!("{whole}.{fraction}").into() }
}
