//! Planted values: what no one should ever send, found in any case, with anything between its letters, from back to front, and in base64
//! and hex.

use aho_corasick::{AhoCorasick, MatchKind};
use std::ops::Range;
use std::str::CharIndices;

/// The fewest letters and digits of a canary; shorter ones occur by chance.
pub(in crate::screen) const LETTERS_MIN: usize = 6;

/// What is looked for: all forms of all canaries.
#[derive(Debug, Clone, Default)]
pub(in crate::screen) struct Canaries {
    forms: Option<AhoCorasick>,
}

impl Canaries {
    /// Those of which enough is letters and digits.
    pub fn new<'a>(canaries: impl IntoIterator<Item = &'a str>) -> Self {
        let forms: Vec<String> =
            canaries.into_iter().flat_map(forms_of).filter(|form| form.len() >= LETTERS_MIN).collect();
        if forms.is_empty() {
            return Self::default();
        }
        let searcher = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(forms);
        Self { forms: searcher.ok() }
    }

    /// Tells of every canary: the rule and the place.
    pub fn look(&self, text: &str, tell: &mut impl FnMut(&'static str, Range<usize>)) {
        let Some(forms) = &self.forms else { return };
        let squeezed = squeezed(text);
        let mut places = Places { rest: text.char_indices(), squeezed: 0 };
        for found in forms.find_iter(&squeezed) {
            let range = places.of(found.start()).zip(places.of(found.end().saturating_sub(1)));
            if let Some((from, to)) = range {
                tell("secret_canary", from..text.ceil_char_boundary(to.saturating_add(1)));
            }
        }
    }
}

/// Only letters and digits, in lower case.
fn squeezed(text: &str) -> String {
    if text.is_ascii() {
        let mut squeezed = Vec::with_capacity(text.len());
        // Lower case by one bit, which all digits have too.
        squeezed.extend(text.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte | 0x20));
        // ASCII in, ASCII out.
        return String::from_utf8(squeezed).unwrap_or_default();
    }
    text.chars().filter(|char| char.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Where bytes of a squeezed text come from, asked for in their order. Few texts hold a canary, so nothing is kept for it.
struct Places<'a> {
    rest: CharIndices<'a>,
    /// How many bytes of the squeezed text came before the rest.
    squeezed: usize,
}

impl Places<'_> {
    fn of(&mut self, byte: usize) -> Option<usize> {
        loop {
            let (at, char) = self.rest.clone().next()?;
            let bytes = if char.is_alphanumeric() { char.to_lowercase().map(char::len_utf8).sum() } else { 0 };
            if self.squeezed.saturating_add(bytes) > byte {
                return Some(at);
            }
            self.squeezed = self.squeezed.saturating_add(bytes);
            self.rest.next();
        }
    }
}

fn forms_of(canary: &str) -> Vec<String> {
    let plain = squeezed(canary);
    if plain.chars().count() < LETTERS_MIN {
        return Vec::new();
    }
    let hex = canary.bytes().map(|byte| format!("{byte:02x}")).collect();
    let encoded = (0..3).map(|before| squeezed(&base64_within(canary.as_bytes(), before)));
    let backwards = plain.chars().rev().collect();
    encoded.chain([plain.clone(), hex, backwards]).collect()
}

/// What stands in base64 for these bytes, wherever so many others before them: without the characters that others have a part in.
fn base64_within(bytes: &[u8], before: usize) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let all: Vec<u8> = std::iter::repeat_n(0, before).chain(bytes.iter().copied()).collect();
    let digits = all.chunks(3).flat_map(|group| {
        let bits = (0..3).fold(0_u32, |bits, at| bits << 8 | u32::from(group.get(at).copied().unwrap_or_default()));
        let count = group.len().saturating_add(1);
        (0..count).map(move |at| bits >> (18_usize.saturating_sub(at.saturating_mul(6))) & 63)
    });
    let digits: Vec<u32> = digits.collect();
    let begins = before.saturating_mul(8).div_ceil(6);
    let ends = all.len().saturating_mul(8) / 6;
    let own = digits.get(begins..ends).unwrap_or_default().iter();
    own.filter_map(|digit| ALPHABET.get(usize::try_from(*digit).ok()?)).map(|byte| char::from(*byte)).collect()
}
