//! Numbers that pay: cards by issuer, length and check digit (Luhn), accounts by country, length and check digits (IBAN, ISO 13616).

use std::ops::Range;

/// Digits of the longest card.
const CARD_DIGITS_MAX: usize = 19;

/// Tells of every card and account: the rule and the place.
pub(super) fn look(text: &str, tell: &mut impl FnMut(&'static str, Range<usize>)) {
    let bytes = text.as_bytes();
    let mut at = 0_usize;
    while let Some(byte) = bytes.get(at) {
        if !byte.is_ascii_digit() {
            at = at.saturating_add(1);
            continue;
        }
        let account = at.checked_sub(2).and_then(|begins| iban(bytes, begins).map(|end| begins..end));
        if let Some(range) = account {
            at = range.end;
            tell("secret_iban", range);
            continue;
        }
        let groups = Groups::at(bytes, at);
        at = groups.end();
        if let Some(range) = groups.card(bytes) {
            tell("secret_card", range);
        }
    }
}

fn is_alnum(bytes: &[u8], at: Option<usize>) -> bool {
    at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_alphanumeric)
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b' ' | b'-' | b'.')
}

/// Digits with single separators between them.
struct Groups {
    groups: Vec<Range<usize>>,
}

impl Groups {
    fn at(bytes: &[u8], mut at: usize) -> Self {
        let mut groups = Vec::new();
        loop {
            let rest = bytes.get(at..).unwrap_or_default();
            let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            groups.push(at..at.saturating_add(len));
            let end = at.saturating_add(len);
            let goes_on = bytes.get(end).is_some_and(|byte| is_separator(*byte))
                && bytes.get(end.saturating_add(1)).is_some_and(u8::is_ascii_digit);
            if !goes_on {
                return Self { groups };
            }
            at = end.saturating_add(1);
        }
    }

    fn end(&self) -> usize {
        self.groups.last().map_or(0, |last| last.end)
    }

    /// A card among these groups: one that begins with a group and ends with one.
    fn card(&self, bytes: &[u8]) -> Option<Range<usize>> {
        (0..self.groups.len()).find_map(|first| {
            let begins = self.groups.get(first)?.start;
            if is_alnum(bytes, begins.checked_sub(1)) {
                return None;
            }
            let mut digits = Vec::with_capacity(CARD_DIGITS_MAX);
            for (count, group) in self.groups.iter().skip(first).enumerate() {
                if digits.len().saturating_add(group.len()) > CARD_DIGITS_MAX {
                    return None;
                }
                digits.extend(bytes.get(group.clone())?.iter().map(|byte| byte.saturating_sub(b'0')));
                let groups = self.groups.get(first..=first.saturating_add(count))?;
                if !is_alnum(bytes, Some(group.end)) && is_grouped(groups) && is_card(&digits) {
                    return Some(begins..group.end);
                }
            }
            None
        })
    }
}

/// Cards are written in one piece, in groups of one length, or as 4-6-5 and 4-6-4.
fn is_grouped(groups: &[Range<usize>]) -> bool {
    let lens: Vec<usize> = groups.iter().map(ExactSizeIterator::len).collect();
    let Some((last, others)) = lens.split_last() else { return false };
    let first = others.first().unwrap_or(last);
    let is_even = others.iter().all(|len| len == first) && last <= first;
    is_even || matches!(lens.as_slice(), [4, 6, 4 | 5])
}

fn is_card(digits: &[u8]) -> bool {
    let front = |count: usize| {
        digits.iter().take(count).fold(0_u32, |sum, digit| sum.saturating_mul(10).saturating_add(u32::from(*digit)))
    };
    let len = digits.len();
    let is_issued = match (front(1), front(2), front(3), front(4)) {
        (4, ..) => matches!(len, 16 | 19),
        (_, 34 | 37, ..) => len == 15,
        (_, 51..=55, ..) | (_, _, _, 2221..=2720) => len == 16,
        (_, _, _, 6011) | (_, _, 644..=649, _) | (_, 65, ..) => (16..=19).contains(&len),
        (_, _, 300..=305, _) | (_, 36 | 38 | 39, ..) => len == 14,
        (_, _, _, 3528..=3589) | (_, 62, ..) => (16..=19).contains(&len),
        (_, _, _, 5018 | 5020 | 5038 | 5893 | 6304 | 6759 | 6761..=6763) => (16..=19).contains(&len),
        _ => false,
    };
    is_issued && luhn(digits)
}

fn luhn(digits: &[u8]) -> bool {
    let sum = digits.iter().rev().enumerate().fold(0_u32, |sum, (at, digit)| {
        let doubled = u32::from(*digit).saturating_mul(if at % 2 == 1 { 2 } else { 1 });
        sum.saturating_add(if doubled > 9 { doubled.saturating_sub(9) } else { doubled })
    });
    sum % 10 == 0
}

/// How long accounts are, by country.
const COUNTRIES: &str = "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 DO28 EE20 EG29 ES24 FI18 \
    FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 \
    MD24 ME22 MK19 MR27 MT31 MU30 NL18 NO15 PK24 PL28 PS29 PT25 QA29 RO24 RS22 SA24 SC31 SE24 SI19 SK24 SM27 ST25 SV28 TL23 TN24 TR26 \
    UA29 VA22 VG24 XK20";

/// Where an account ends that begins here.
fn iban(bytes: &[u8], begins: usize) -> Option<usize> {
    let start = bytes.get(begins..begins.saturating_add(4))?;
    let [a, b, c, d] = start else { return None };
    let is_start = a.is_ascii_alphabetic() && b.is_ascii_alphabetic() && c.is_ascii_digit() && d.is_ascii_digit();
    if !is_start || is_alnum(bytes, begins.checked_sub(1)) {
        return None;
    }
    let country = [a.to_ascii_uppercase(), b.to_ascii_uppercase()];
    let len = COUNTRIES.split_ascii_whitespace().find_map(|entry| entry.as_bytes().strip_prefix(&country))?;
    let len: usize = std::str::from_utf8(len).ok()?.parse().ok()?;
    let mut account = Vec::with_capacity(len);
    let mut was_separator = false;
    for (at, byte) in bytes.iter().enumerate().skip(begins) {
        if byte.is_ascii_alphanumeric() {
            account.push(byte.to_ascii_uppercase());
            was_separator = false;
        } else if is_separator(*byte) && !was_separator {
            was_separator = true;
        } else {
            return None;
        }
        if account.len() == len {
            let end = at.saturating_add(1);
            return (!is_alnum(bytes, Some(end)) && mod_97(&account) == 1).then_some(end);
        }
    }
    None
}

/// The account as a number, its first four characters at the end and letters as numbers from 10, by 97.
fn mod_97(account: &[u8]) -> u32 {
    let (front, rest) = account.split_at_checked(4).unwrap_or((account, &[]));
    rest.iter().chain(front).fold(0, |rest, byte| {
        let (value, shift) = match byte {
            b'0'..=b'9' => (u32::from(byte.saturating_sub(b'0')), 10_u32),
            _ => (u32::from(byte.saturating_sub(b'A')).saturating_add(10), 100),
        };
        rest.saturating_mul(shift).saturating_add(value) % 97
    })
}
