//! Values that are known, and must not stand in a text: secrets of adapters in what comes back, canaries in what leaves.
//!
//! A value is found as it is, in base64 (at any place in what was encoded), in hex, and in any of these behind escapes of JSON, of URLs
//! and of HTML, mixed and repeated, whatever the case of its letters is. A planted one is also found with anything between its letters,
//! and from back to front. All forms of all values are one search through the text.

use super::derived::Derived;
use super::encoded::{ESCAPES, unescaped};
use aho_corasick::AhoCorasick;
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

/// How often escapes are taken off, one in another: JSON in a string of JSON in a URL.
pub(super) const ROUNDS_MAX: usize = 4;
/// The fewest letters and digits of a planted value; shorter ones occur by chance.
const LETTERS_MIN: usize = 6;

/// Known values, in all their forms.
#[derive(Clone, Default)]
pub struct Known {
    forms: BTreeSet<Vec<u8>>,
    exact: Option<AhoCorasick>,
    letters: BTreeSet<String>,
    spelled: Option<AhoCorasick>,
}

impl Known {
    /// Adds a value. Short ones are found in everything, so callers leave them out.
    pub fn add(&mut self, value: &str) {
        // One that looks like something escaped must be found after escapes were taken off the text.
        for bytes in rounds(value) {
            self.forms.insert(bytes.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect());
            self.forms.extend((0..3).flat_map(|before| in_base64(&bytes, before)));
            self.forms.insert(bytes);
        }
        self.exact = searcher(&self.forms);
    }

    /// Adds a value that is to be found however it is spelled; one with fewer than six letters and digits is left out.
    pub fn plant(&mut self, value: &str) {
        let letters: String = letters(value).text;
        if letters.chars().count() < LETTERS_MIN {
            return;
        }
        self.letters.insert(letters.chars().rev().collect());
        self.letters.insert(letters);
        self.spelled = searcher(&self.letters);
        self.add(value);
    }

    /// Where any of these values stands in a text, in order; what overlaps is one place.
    pub fn find(&self, text: &str) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        let Some(exact) = &self.exact else { return found };
        let mut texts: Vec<Derived> = Vec::new();
        loop {
            // From the last round back to the text.
            let back = |range: Range<usize>| texts.iter().rev().fold(range, |range, derived| derived.origin(&range));
            let text = texts.last().map_or(text, |last| last.text.as_str());
            found.extend(joined(exact, text).into_iter().map(&back));
            if let Some(spelled) = &self.spelled {
                let letters = letters(text);
                let place = |place: Range<usize>| {
                    let first = letters.origin(&place).start;
                    // What stands behind the last letter is no part of it.
                    let last = letters.origin(&(place.end.saturating_sub(1)..place.end)).start;
                    back(first..text.ceil_char_boundary(last.saturating_add(1)))
                };
                found.extend(joined(spelled, &letters.text).into_iter().map(place));
            }
            match unescaped(text, ESCAPES).filter(|_| texts.len() < ROUNDS_MAX) {
                Some(next) => texts.push(next),
                None => break,
            }
        }
        merged(found)
    }

    /// Whether a text holds a value.
    pub fn is_in(&self, text: &str) -> bool {
        !self.find(text).is_empty()
    }

    /// How long a value can be in a text: an escape takes six bytes for one, and seldom is one in another.
    pub fn reach(&self) -> usize {
        self.forms.iter().map(Vec::len).max().unwrap_or_default().saturating_mul(6)
    }
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} forms", self.forms.len())
    }
}

/// What is found in a text, what overlaps as one. Places come in the order of their ends, so few are kept of a text full of them.
fn joined(searcher: &AhoCorasick, text: &str) -> Vec<Range<usize>> {
    let mut joined: Vec<Range<usize>> = Vec::new();
    for place in searcher.find_overlapping_iter(text) {
        let mut start = place.start();
        while let Some(last) = joined.pop_if(|last| last.end > place.start()) {
            start = start.min(last.start);
        }
        joined.push(start..place.end());
    }
    joined
}

/// Ranges in order, those that overlap as one.
pub(super) fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// Searches for all of these, whatever the case of their letters is; `None` for nothing.
fn searcher<F: AsRef<[u8]>>(forms: &BTreeSet<F>) -> Option<AhoCorasick> {
    // As many as do not fit into memory are no settings of a gate.
    AhoCorasick::builder().ascii_case_insensitive(true).build(forms).ok().filter(|_| !forms.is_empty())
}

/// The bytes of a value as it is, and with one round of escapes after the other taken off.
fn rounds(value: &str) -> impl Iterator<Item = Vec<u8>> {
    let texts = std::iter::successors(Some(value.to_owned()), |text| unescaped(text, ESCAPES).map(|next| next.text));
    texts.take(ROUNDS_MAX.saturating_add(1)).map(String::into_bytes)
}

/// Only letters and digits, in lower case.
fn letters(text: &str) -> Derived {
    let mut letters = Derived::with_room_for(text.len());
    for (at, char) in text.char_indices().filter(|(_, char)| char.is_alphanumeric()) {
        char.to_lowercase().for_each(|lower| letters.push(lower, at));
    }
    letters.mark(text.len());
    letters
}

/// What base64 has in it wherever these bytes stand behind `before` others, modulo three: the letters that depend on them alone.
fn in_base64(bytes: &[u8], before: usize) -> Vec<Vec<u8>> {
    let all = [&vec![0; before], bytes].concat();
    let (from, to) = (before.saturating_mul(8).div_ceil(6), all.len().saturating_mul(8) / 6);
    let inside = |text: String| text.get(from..to).map(|inside| inside.as_bytes().to_vec());
    [BASE64_STANDARD.encode(&all), BASE64_URL_SAFE.encode(&all)].into_iter().filter_map(inside).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planted_value_is_found_in_any_spelling() {
        let mut known = Known::default();
        known.plant("Blue-Heron 7741");
        known.plant("ab12");
        let hex: String = "Blue-Heron 7741".bytes().map(|byte| format!("{byte:02x}")).collect();
        for text in [
            "it is blue-heron 7741, right",
            "BLUE HERON7741",
            "b.l.u.e.h.e.r.o.n.7.7.4.1",
            "1477noreheulb",
            "Qmx1ZS1IZXJvbiA3NzQx",
            "eEJsdWUtSGVyb24gNzc0MQ==",
            "eHhCbHVlLUhlcm9uIDc3NDE=",
            "%42lue\\u002dHeron&#32;7741",
            &hex,
            &hex.to_uppercase(),
        ] {
            assert!(known.is_in(text), "{text}");
        }
        assert!(!known.is_in("a blue heron, 774 of them, ab12"));
        assert_eq!(known.find("the B l u e Heron 7741!").first(), Some(&(4..22)));
        assert!(!Known::default().is_in("anything"));
    }

    #[test]
    fn an_exact_value_is_not_found_in_other_spellings() {
        let mut known = Known::default();
        known.add("blue-heron-7741");
        assert!(known.is_in("x BLUE-heron-7741") && !known.is_in("blue heron 7741"));
        assert!(!format!("{known:?}").contains("heron") && known.reach() >= 15);
    }
}
