//! Secrets on their way out: keys and tokens by their shape, cards, and values next to a word such as `password`. What is found is told by
//! rule and place and never copied. Values that are known are looked for in [`super::known`].

mod card;
mod token;
mod word;

use std::ops::Range;

/// Tells of every secret in a text: the rule and the place.
pub(super) fn look(text: &str, tell: &mut impl FnMut(&'static str, Range<usize>)) {
    token::look(text, tell);
    card::look(text, tell);
}

/// What a value is made of.
#[derive(Debug, Default, Clone, Copy)]
struct Makeup {
    digits: usize,
    letters: usize,
    /// How many different characters of ASCII it has.
    different: u32,
}

impl Makeup {
    fn of(value: &[u8]) -> Self {
        let (mut digits, mut letters, mut seen) = (0_usize, 0_usize, 0_u128);
        for byte in value {
            digits = digits.saturating_add(usize::from(byte.is_ascii_digit()));
            letters = letters.saturating_add(usize::from(byte.is_ascii_alphabetic()));
            seen |= 1_u128 << (byte & 0x7f);
        }
        Self { digits, letters, different: seen.count_ones() }
    }
}

#[cfg(test)]
mod tests;
