//! Numbers of cards, by issuer, length and check digit (Luhn).

use std::ops::Range;

/// Digits of the longest and the shortest card.
const DIGITS_MAX: usize = 19;
const DIGITS_MIN: usize = 13;

/// Tells of every card: the rule and the place.
pub(super) fn look(text: &str, tell: &mut impl FnMut(&'static str, Range<usize>)) {
    let bytes = text.as_bytes();
    let mut at = 0_usize;
    while let Some(rest) = bytes.get(at..) {
        let Some(begins) = rest.iter().position(u8::is_ascii_digit).map(|digit| at.saturating_add(digit)) else {
            return;
        };
        let is_within = begins.checked_sub(1).and_then(|before| bytes.get(before)).is_some_and(u8::is_ascii_alphabetic);
        let card = if is_within { None } else { card(bytes, begins) };
        if let Some(end) = card {
            tell("secret_card", begins..end);
        }
        at = card.unwrap_or_else(|| begins.saturating_add(group(bytes, begins)));
    }
}

/// How many digits stand at a place.
fn group(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..).unwrap_or_default().iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Where a card ends that begins here: in one piece, in groups of four, or as 4-6-4 and 4-6-5, with single separators.
fn card(bytes: &[u8], begins: usize) -> Option<usize> {
    let mut digits: Vec<u8> = Vec::new();
    let mut lens: Vec<usize> = Vec::new();
    let mut at = begins;
    loop {
        let len = group(bytes, at);
        lens.push(len);
        let is_usual = match lens.as_slice() {
            [len] => *len == 4 || (DIGITS_MIN..=DIGITS_MAX).contains(len),
            [4, fours @ .., last] => {
                fours.iter().all(|len| *len == 4) && *last <= 4 || matches!(lens.as_slice(), [4, 6] | [4, 6, 4 | 5])
            }
            _ => false,
        };
        if !is_usual || digits.len().saturating_add(len) > DIGITS_MAX {
            return None;
        }
        let end = at.saturating_add(len);
        digits.extend(bytes.get(at..end)?.iter().map(|digit| digit.saturating_sub(b'0')));
        let after = bytes.get(end);
        let goes_on =
            after.is_some_and(|byte| matches!(byte, b' ' | b'-' | b'.')) && group(bytes, end.saturating_add(1)) > 0;
        if is_card(&digits) && !after.is_some_and(u8::is_ascii_alphanumeric) {
            return Some(end);
        }
        if !goes_on {
            return None;
        }
        at = end.saturating_add(1);
    }
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
