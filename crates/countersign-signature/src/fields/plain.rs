//! A list of strings with parameters, as signers nearly always write it: canonical, without escapes, all values strings or integers.
//!
//! It is read in one pass and borrowed. Whatever is written in any other way is `None`, and left to the general parser, which says what is
//! wrong with it; so nothing is accepted here that is not accepted there (`tests.rs` compares the two).

use super::{FIELD_BYTES_MAX, Parameter};
use std::borrow::Cow;

/// The most digits of an integer in a structured field.
const DIGITS_MAX: usize = 15;

/// A list and its parameters.
pub(super) struct Plain<'a> {
    pub(super) strings: Vec<&'a str>,
    /// In order, each name once.
    pub(super) parameters: Vec<(Cow<'a, str>, Parameter<'a>)>,
}

/// The one member of a dictionary, if that is such a list: its label, its value as it is written, and what that says.
pub(super) fn member(field: &str) -> Option<(&str, &str, Plain<'_>)> {
    if field.len() > FIELD_BYTES_MAX {
        return None;
    }
    let (label, rest) = key(field)?;
    let text = rest.strip_prefix('=')?;
    Some((label, text, list(text)?))
}

/// A list by itself.
pub(super) fn list(text: &str) -> Option<Plain<'_>> {
    let mut rest = text.strip_prefix('(')?;
    let mut strings = Vec::with_capacity(8);
    loop {
        let (string, after) = quoted(rest)?;
        strings.push(string);
        match after.strip_prefix(' ') {
            Some(more) => rest = more,
            None => break rest = after.strip_prefix(')')?,
        }
    }
    let mut parameters: Vec<(Cow<'_, str>, Parameter<'_>)> = Vec::with_capacity(6);
    while !rest.is_empty() {
        let (name, after) = key(rest.strip_prefix(';')?)?;
        let value = after.strip_prefix('=')?;
        let (value, after) = match quoted(value) {
            Some((text, after)) => (Parameter::Text(text.into()), after),
            None => integer(value).map(|(integer, after)| (Parameter::Integer(integer), after))?,
        };
        if parameters.iter().any(|(known, _)| known == name) {
            return None;
        }
        parameters.push((name.into(), value));
        rest = after;
    }
    Some(Plain { strings, parameters })
}

/// A text in two, where the first byte is that does not fit.
fn while_fits(text: &str, fits: impl Fn(u8) -> bool) -> Option<(&str, &str)> {
    text.split_at_checked(text.bytes().position(|byte| !fits(byte)).unwrap_or(text.len()))
}

fn key(text: &str) -> Option<(&str, &str)> {
    let (key, rest) =
        while_fits(text, |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte))?;
    let begins_well = key.starts_with(|first: char| first.is_ascii_lowercase() || first == '*');
    begins_well.then_some((key, rest))
}

fn quoted(text: &str) -> Option<(&str, &str)> {
    let (inside, rest) =
        while_fits(text.strip_prefix('"')?, |byte| matches!(byte, b' '..=b'~') && !b"\"\\".contains(&byte))?;
    Some((inside, rest.strip_prefix('"')?))
}

fn integer(text: &str) -> Option<(i64, &str)> {
    let (digits, rest) = while_fits(text, |byte| byte.is_ascii_digit())?;
    let is_canonical = digits == "0" || !digits.starts_with('0') && digits.len() <= DIGITS_MAX;
    // A point would make it a decimal.
    if !is_canonical || rest.starts_with('.') {
        return None;
    }
    Some((digits.parse().ok()?, rest))
}
