//! Secrets on their way out: keys and tokens by their shape, numbers that pay, values next to a word such as `password`, and planted
//! canaries. What is found is told by rule and place and never copied.

mod canary;
mod entropy;
mod number;
mod token;
mod word;

use super::profile::Profile;
pub(super) use canary::Canaries;
use std::ops::Range;

/// From so few digits on there is no number that pays.
const DIGITS_MIN: usize = 8;

/// Tells of every secret in a text: the rule and the place.
pub(super) fn look(
    text: &str,
    profile: &Profile,
    canaries: &Canaries,
    tell: &mut impl FnMut(&'static str, Range<usize>),
) {
    token::look(text, tell);
    if profile.digits >= DIGITS_MIN {
        number::look(text, tell);
    }
    canaries.look(text, tell);
}

#[cfg(test)]
mod tests;
