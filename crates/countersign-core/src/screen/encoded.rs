//! What a text says once it is decoded: escapes, base64, hex, letters apart, digits for letters, rot13, and from back to front. Each is
//! one pass over the text.

use super::derived::Derived;
use super::words::{Hit, Meaning, REVERSED, ROTATED};
use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use std::ops::Range;

/// Shorter runs of base64 and hex say too little.
const RUN_MIN: usize = 20;
/// So many letters apart in a row are a word.
const SINGLES_MIN: usize = 6;
/// So many digits within words.
const LEET_MIN: usize = 2;
/// So many words of rules in a code.
const WORDS_MIN: usize = 2;

/// The form of letters that stand apart, which digits of a card can be in too.
pub(super) const SPACED: &str = "spaced";

/// The signs that escapes begin with: in URLs, in JSON and programs, in HTML.
pub(super) const ESCAPES: &[char] = &['%', '\\', '&'];
/// Those of JSON.
pub(super) const OF_JSON: &[char] = &['\\'];

/// The text with one round of escapes taken off; `None` where there are none. What is no UTF-8 behind percent signs is taken byte by
/// byte.
pub(super) fn unescaped(text: &str, signs: &[char]) -> Option<Derived> {
    let mut out = Derived::default();
    let (mut at, mut done) = (0_usize, 0_usize);
    while let Some(sign) = text.get(at..).and_then(|rest| rest.find(signs)) {
        let begins = at.saturating_add(sign);
        let rest = text.get(begins..).unwrap_or_default();
        let at_sign = rest.as_bytes().first();
        let char = if at_sign == Some(&b'&') { entity(rest) } else { backslash(rest) };
        let percents = percents(rest);
        let len = char.map_or(percents.len().saturating_mul(3), |(len, _)| len);
        if len > 0 {
            out.push_str(text.get(done..begins).unwrap_or_default(), done);
            char.into_iter().for_each(|(_, char)| out.push(char, begins));
            push_bytes(&mut out, &percents, begins);
            done = begins.saturating_add(len);
        }
        at = begins.saturating_add(len.max(1));
    }
    if done == 0 {
        return None;
    }
    out.push_str(text.get(done..).unwrap_or_default(), done);
    out.mark(text.len());
    Some(out)
}

/// The bytes of the percent signs that a text begins with.
fn percents(text: &str) -> Vec<u8> {
    let groups = text.as_bytes().chunks(3).map_while(|group| match group {
        [b'%', digits @ ..] if digits.len() == 2 && digits.iter().all(u8::is_ascii_hexdigit) => byte(digits),
        _ => None,
    });
    groups.collect()
}

/// Adds bytes of each of which three stand in the original.
fn push_bytes(out: &mut Derived, bytes: &[u8], mut from: usize) {
    for chunk in bytes.utf8_chunks() {
        let invalid = chunk.invalid().iter().map(|byte| (char::from(*byte), 1));
        for (char, len) in chunk.valid().chars().map(|char| (char, char.len_utf8())).chain(invalid) {
            out.push(char, from);
            from = from.saturating_add(len.saturating_mul(3));
        }
    }
}

/// `&#105;`, `&#x69;` and the few names that stand for signs of ASCII.
fn entity(text: &str) -> Option<(usize, char)> {
    let end = text.bytes().take(12).position(|byte| byte == b';')?;
    let char = match text.get(1..end)? {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        name => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)?
        }
    };
    Some((end.saturating_add(1), char))
}

/// `\u0069`, also in two halves, `\u{69}`, `\x69`, `\n` and what JSON puts a backslash before.
fn backslash(text: &str) -> Option<(usize, char)> {
    if !text.starts_with('\\') {
        return None;
    }
    let hex = |from: usize, to: usize| {
        let digits = text.get(from..to).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        u32::from_str_radix(digits, 16).ok()
    };
    match (text.as_bytes().get(1)?, text.as_bytes().get(2)) {
        (b'u', Some(b'{')) => {
            let end = text.bytes().take(12).position(|byte| byte == b'}')?;
            Some((end.saturating_add(1), char::from_u32(hex(3, end)?)?))
        }
        (b'u', _) => {
            let high = hex(2, 6)?;
            let low = text.get(6..8).filter(|next| *next == "\\u").and_then(|_| hex(8, 12));
            match low {
                Some(low @ 0xdc00..=0xdfff) if (0xd800..0xdc00).contains(&high) => {
                    let both = (high.saturating_sub(0xd800) << 10).saturating_add(low.saturating_sub(0xdc00));
                    Some((12, char::from_u32(both.saturating_add(0x10000))?))
                }
                _ => Some((6, char::from_u32(high)?)),
            }
        }
        (b'x', _) => Some((4, char::from_u32(hex(2, 4)?)?)),
        (b'n', _) => Some((2, '\n')),
        (b'r', _) => Some((2, '\r')),
        (b't', _) => Some((2, '\t')),
        (escaped @ (b'"' | b'\'' | b'\\' | b'/'), _) => Some((2, char::from(*escaped))),
        _ => None,
    }
}

/// What runs of base64 and hex in a text say, one a line; `None` where none says anything.
pub(super) fn runs(text: &str) -> Option<Derived> {
    let is_run = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_');
    let mut out = Derived::default();
    let mut at = 0_usize;
    for run in text.as_bytes().split(|byte| !is_run(byte)) {
        let range = at..at.saturating_add(run.len());
        at = range.end.saturating_add(1);
        if run.len() < RUN_MIN {
            continue;
        }
        if let Some(says) = hex(run).or_else(|| from_base64(run)) {
            add_line(&mut out, &says, &range);
            continue;
        }
        // A path before it shifts what follows.
        let mut at = range.start;
        for part in run.split(|byte| *byte == b'/') {
            let range = at..at.saturating_add(part.len());
            at = range.end.saturating_add(1);
            if part.len() >= RUN_MIN
                && let Some(says) = from_base64(part)
            {
                add_line(&mut out, &says, &range);
            }
        }
    }
    (!out.text.is_empty()).then_some(out)
}

fn add_line(out: &mut Derived, says: &str, range: &Range<usize>) {
    out.push_whole(says, range);
    out.push('\n', range.end);
}

/// Padding is no matter, and neither are bits that are left over where it was cut.
static ANY_BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Decodes base64 in either alphabet. `None` for what is no text.
pub(super) fn from_base64(run: &[u8]) -> Option<String> {
    let is_over = run.len() % 4 == 1;
    let run = run.get(..run.len().saturating_sub(usize::from(is_over)))?;
    let letter = |byte: &u8| match byte {
        b'-' => b'+',
        b'_' => b'/',
        other => *other,
    };
    text_of(ANY_BASE64.decode(run.iter().map(letter).collect::<Vec<u8>>()).ok()?)
}

/// Decodes hex, with or without `0x` before it.
fn hex(run: &[u8]) -> Option<String> {
    let digits = run.strip_prefix(b"0x").unwrap_or(run);
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    text_of(digits.chunks_exact(2).filter_map(byte).collect())
}

fn byte(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Bytes as a text without control characters. A cut in the middle of its last character is no reason to see nothing.
fn text_of(mut bytes: Vec<u8>) -> Option<String> {
    if bytes.iter().any(|byte| *byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r')) {
        return None;
    }
    if let Err(error) = std::str::from_utf8(&bytes) {
        let whole = error.valid_up_to();
        if bytes.len().saturating_sub(whole) > 3 {
            return None;
        }
        bytes.truncate(whole);
    }
    String::from_utf8(bytes).ok()
}

/// What a text says in other letters: apart, with digits for some, and in the two simple codes if words of rules stand in it in one.
pub(super) fn disguised(text: &str, hits: &[Hit]) -> Vec<(&'static str, Derived)> {
    let mut all = Vec::new();
    if has_singles(text) {
        all.push((SPACED, together(text)));
    }
    let is_letter = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphabetic);
    let is_leet = |three: &[u8]| {
        is_letter(three.first()) && three.get(1).is_some_and(u8::is_ascii_digit) && is_letter(three.get(2))
    };
    if text.as_bytes().windows(3).filter(|three| is_leet(three)).nth(LEET_MIN.saturating_sub(1)).is_some() {
        all.extend(['i', 'l'].map(|one| ("leet", each(text, |char| letter(char, one)))));
    }
    let count = |says: Meaning| hits.iter().filter(|hit| hit.says & says != 0).take(WORDS_MIN).count();
    if count(ROTATED) == WORDS_MIN {
        all.push(("rot13", each(text, rotated)));
    }
    if count(REVERSED) == WORDS_MIN {
        let mut derived = Derived::default();
        derived.push_whole(&text.chars().rev().collect::<String>(), &(0..text.len()));
        all.push(("reversed", derived));
    }
    all
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

/// The letter that a digit or a sign stands for. `1` is one of two.
fn letter(char: char, one: char) -> char {
    match char {
        '0' => 'o',
        '1' | '!' | '|' => one,
        '3' => 'e',
        '4' | '@' => 'a',
        '5' | '$' => 's',
        '7' => 't',
        other => other,
    }
}

/// Whether enough letters in a row stand alone.
fn has_singles(text: &str) -> bool {
    let words = text.as_bytes().split(|byte| !byte.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut row = 0_usize;
    words.map(<[u8]>::len).any(|len| {
        row = if len == 1 { row.saturating_add(1) } else { 0 };
        row >= SINGLES_MIN
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
