//! What a text says once it is decoded: base64, hex, percent signs, entities, escapes, rot13, letters apart, digits for letters, and from
//! back to front. Each form is decoded where a text has enough of it, and what comes out is screened like the text itself.

use super::derived::Derived;
use super::profile::Profile;
use super::terms::{Hit, Meaning, REVERSED, ROTATED};
use std::ops::Range;

mod bytes;
mod escapes;

pub(super) use bytes::base64;

/// Shorter runs of base64 and hex say too little.
pub(super) const RUN_MIN: usize = 20;
/// How many runs of a text are decoded: each costs as much as it is long, and this bounds what is kept of them.
const RUNS_MAX: usize = 1024;
/// So many escapes are no accident.
const ESCAPES_MIN: usize = 3;
/// So many letters apart in a row are a word.
const SINGLES_MIN: usize = 6;
/// So many digits within words.
const LEET_MIN: usize = 2;
/// So many words of rules in a code.
const WORDS_MIN: usize = 2;
/// So many groups of two in a row.
const PAIRS_MIN: usize = 8;

/// A text that was made from another by decoding.
#[derive(Debug)]
pub(super) struct Decoded {
    /// From what.
    pub via: &'static str,
    pub derived: Derived,
    /// Whether everything in it was encoded: nobody writes an ordinary sentence like that.
    pub is_all: bool,
}

/// Everything that is encoded in a text.
pub(super) fn decoded(text: &str, profile: &Profile, hits: &[Hit]) -> Vec<Decoded> {
    let mut all = Vec::new();
    let mut add = |via: &'static str, is_all: bool, derived: Derived| {
        if !derived.text.is_empty() {
            all.push(Decoded { via, derived, is_all });
        }
    };
    if profile.run_max >= RUN_MIN {
        runs(text, &mut add);
    }
    if profile.pairs >= PAIRS_MIN {
        add("hex", true, bytes::pairs(text));
    }
    if profile.percents >= ESCAPES_MIN {
        add("percent", false, escapes::percent(text));
    }
    if profile.entities >= ESCAPES_MIN {
        add("entities", false, escapes::entities(text));
    }
    if profile.backslashes >= ESCAPES_MIN {
        add("escapes", false, escapes::backslashes(text));
    }
    if profile.singles >= SINGLES_MIN {
        add("spaced", false, together(text));
    }
    if profile.leet >= LEET_MIN {
        add("leet", false, letters(text, 'i'));
        add("leet", false, letters(text, 'l'));
    }
    let count = |says: Meaning| hits.iter().filter(|hit| hit.says & says != 0).count();
    if count(ROTATED) >= WORDS_MIN {
        add("rot13", true, each(text, rotated));
    }
    if count(REVERSED) >= WORDS_MIN {
        add("reversed", true, Derived::of_range(text.chars().rev().collect(), &(0..text.len())));
    }
    all
}

/// Runs of characters that base64 has, as base64 or hex.
fn runs(text: &str, add: &mut impl FnMut(&'static str, bool, Derived)) {
    let is_run = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_');
    let mut at = 0_usize;
    let mut count = 0_usize;
    for run in text.as_bytes().split(|byte| !is_run(byte)) {
        let range = at..at.saturating_add(run.len());
        at = range.end.saturating_add(1);
        if run.len() < RUN_MIN {
            continue;
        }
        count = count.saturating_add(1);
        if count > RUNS_MAX {
            return;
        }
        run_of(run, &range, add);
    }
}

fn run_of(run: &[u8], range: &Range<usize>, add: &mut impl FnMut(&'static str, bool, Derived)) {
    if let Some(text) = bytes::hex(run) {
        return add("hex", true, Derived::of_range(text, range));
    }
    if let Some(text) = base64(run) {
        return add("base64", true, Derived::of_range(text, range));
    }
    // A path before it shifts what follows.
    let mut at = range.start;
    for part in run.split(|byte| *byte == b'/') {
        let part_range = at..at.saturating_add(part.len());
        at = part_range.end.saturating_add(1);
        if part.len() >= RUN_MIN
            && part.len() < run.len()
            && let Some(text) = base64(part)
        {
            add("base64", true, Derived::of_range(text, &part_range));
        }
    }
}

/// The text with each character replaced, where that keeps its length.
fn each(text: &str, of: impl Fn(char) -> char) -> Derived {
    let mut out = Derived::with_room_for(text.len());
    text.char_indices().for_each(|(at, char)| out.push(of(char), at));
    out
}

fn rotated(char: char) -> char {
    let Ok(byte) = u8::try_from(char) else { return char };
    char::from(match byte {
        b'a'..=b'm' | b'A'..=b'M' => byte.saturating_add(13),
        b'n'..=b'z' | b'N'..=b'Z' => byte.saturating_sub(13),
        other => other,
    })
}

/// Letters for the digits that stand for them. `1` is two of them.
fn letters(text: &str, one: char) -> Derived {
    each(text, |char| match char {
        '0' => 'o',
        '1' | '!' | '|' => one,
        '3' => 'e',
        '4' | '@' => 'a',
        '5' | '$' => 's',
        '7' => 't',
        other => other,
    })
}

/// Letters that stand apart, put together. More than one separator, or another one than before, is a space.
fn together(text: &str) -> Derived {
    let is_gap = |char: char| char.is_whitespace() || matches!(char, '.' | '-' | '_' | '*' | '|' | ',');
    let mut out = Derived::with_room_for(text.len());
    let mut chars = text.char_indices().peekable();
    // The separators since the last letter: how many, where the first is and which.
    let (mut gaps, mut gap) = (0_usize, (0_usize, ' '));
    // Whether the letter before stood alone, and what stands between the letters of this word.
    let (mut was_alone, mut joint) = (false, None);
    while let Some((at, char)) = chars.next() {
        if is_gap(char) {
            gap = if gaps == 0 { (at, char) } else { gap };
            gaps = gaps.saturating_add(1);
            continue;
        }
        let begins = gaps > 0 || at == 0;
        let is_alone = begins && char.is_alphanumeric() && chars.peek().is_none_or(|(_, next)| is_gap(*next));
        let goes_on = gaps == 1 && was_alone && is_alone && joint.is_none_or(|joint| joint == gap.1);
        if gaps > 0 && !goes_on {
            out.push(' ', gap.0);
        }
        joint = goes_on.then_some(gap.1);
        out.push(char, at);
        was_alone = is_alone;
        gaps = 0;
    }
    out.mark(text.len());
    out
}

#[cfg(test)]
mod tests;
