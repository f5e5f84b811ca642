//! Texts and numbers in one spelling each, so that one that is written in another way is still found.

use super::CHARS_MIN;
use smol_str::SmolStr;
use std::collections::BTreeSet;
use unicode_normalization::UnicodeNormalization as _;

/// The fewest digits of a number that is a value.
const DIGITS_MIN: usize = 4;
/// How far an exponent moves the point at most: more than any amount needs.
const EXPONENT_MAX: usize = 64;
/// The longest group of those that a blank is between.
const GROUP_CHARS_MAX: usize = 4;
/// The most groups that are one value: an account number of 34 characters has nine groups of four.
const GROUPS_MAX: usize = 9;

/// A text in the one form in which texts are compared.
pub(crate) fn normal(text: &str) -> String {
    // Most texts are that, and all else below leaves them as this does.
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
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

/// Tells what a text says in groups, without what is between them: short ones with digits in them that a blank is between, and any that a
/// hyphen is. Of more than two, each beginning and each end could be a value of its own, so each is told, and whether it is a number, until
/// that is enough.
pub(crate) fn joined(text: &str, mut tell: impl FnMut(&str, bool) -> bool) {
    each_run(text, |groups| join(groups, &mut tell));
}

/// The same with all groups that follow each other at once: what any of them say together is in it.
pub(super) fn joined_whole(text: &str, mut tell: impl FnMut(&str)) {
    each_run(text, |groups| {
        if groups.len() > 1 {
            tell(&groups.concat());
        }
        true
    });
}

/// Groups that belong together, for as long as more are asked for.
fn each_run<'a>(text: &'a str, mut take: impl FnMut(&[&'a str]) -> bool) {
    let (mut groups, mut rest) = (Vec::new(), text);
    loop {
        let end = rest.find(|c| !is_of_group(c)).unwrap_or(rest.len());
        let (group, after) = rest.split_at_checked(end).unwrap_or_default();
        if !group.is_empty() {
            groups.push(group);
        }
        let mut chars = after.chars();
        let (between, next) = (chars.next(), chars.as_str());
        let following = next.split(|c| !is_of_group(c)).next().unwrap_or_default();
        let is_joined = match between {
            Some(' ') => is_short(group) && is_short(following),
            Some('-' | '\u{2010}'..='\u{2015}') => !group.is_empty() && !following.is_empty(),
            _ => false,
        };
        if !is_joined {
            if !take(&groups) {
                return;
            }
            groups.clear();
        }
        if between.is_none() {
            return;
        }
        rest = next;
    }
}

fn join(groups: &[&str], tell: &mut impl FnMut(&str, bool) -> bool) -> bool {
    for start in 0..groups.len() {
        let from = groups.get(start..).unwrap_or_default();
        for end in 2..=from.len().min(GROUPS_MAX) {
            let some = from.get(..end).unwrap_or_default();
            let (text, is_number) = (some.concat(), is_number(some));
            let is_value = is_number || text.chars().nth(CHARS_MIN.saturating_sub(1)).is_some();
            if is_value && !tell(&text, is_number) {
                return false;
            }
        }
    }
    true
}

/// Whether something is a group of an account, a card or a telephone number, or of digits: longer ones are words, of which texts are full.
fn is_short(group: &str) -> bool {
    let whole = group.split('.').next().unwrap_or_default();
    whole.contains(|c: char| c.is_ascii_digit()) && whole.chars().nth(GROUP_CHARS_MAX).is_none()
}

/// Whether groups are those of one number: up to three digits, then three each, with a fraction at the end.
fn is_number(groups: &[&str]) -> bool {
    let digits = |group: &str, fits: &dyn Fn(usize) -> bool| {
        fits(group.len()) && group.bytes().all(|byte| byte.is_ascii_digit())
    };
    let (Some((first, rest)), Some((last, _))) = (groups.split_first(), groups.split_last()) else { return false };
    let whole = last.split('.').next().unwrap_or_default();
    let between = rest.get(..rest.len().saturating_sub(1)).unwrap_or_default();
    digits(first, &|digits| (1..=3).contains(&digits))
        && between.iter().all(|group| digits(group, &|digits| digits == 3))
        && digits(whole, &|digits| digits == 3)
}

fn is_of_group(char: char) -> bool {
    char.is_alphanumeric() || matches!(char, '.' | ',')
}

/// The numbers in a text, each in one form: without sign and exponent, without zeros in front or at the end of a fraction. Commas are left
/// out: they group digits.
pub(crate) fn numbers(text: &str) -> BTreeSet<SmolStr> {
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
