//! Other spellings in which a text can say a value: percent-encoded, base64, hexadecimal, with other white space or separators, and
//! split over two texts.
//!
//! A spelling too many makes a source count that need not; one that is missed hides where a value came from. So everything that
//! decodes to something readable is looked at.

use std::ops::Range;

/// How often what was decoded is decoded again.
const DEPTH_MAX: usize = 2;
/// The shortest base64 and the shortest hexadecimal that can hold a value.
const BASE64_MIN: usize = 8;
const HEX_MIN: usize = 12;
/// The fewest characters in a row that make something decoded readable.
const READABLE_MIN: usize = 6;
/// Most texts of which each is put together with each other; of more, those beside each other.
const JOINED_MAX: usize = 12;
/// Most characters of each of two texts that are put together.
const EDGE_MAX: usize = 64;

/// A text without all that is neither letter nor digit: so white space and separators make no difference.
pub(super) fn bare(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

/// Tells what a text says when it is decoded, in each way that gives something readable.
pub(super) fn decoded(text: &str, tell: &mut impl FnMut(&str)) {
    let mut left = vec![(text.to_owned(), 0)];
    while let Some((text, depth)) = left.pop() {
        let found = once(&text);
        for text in found {
            tell(&text);
            if depth + 1 < DEPTH_MAX {
                left.push((text, depth + 1));
            }
        }
    }
}

/// What a text says when it is decoded once.
fn once(text: &str) -> Vec<String> {
    let mut found: Vec<String> = percent(text).into_iter().collect();
    // Lines of base64 are broken, and pairs of hexadecimal digits have separators.
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || "+/-_".contains(c);
    let unbroken: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    for text in if unbroken.len() == text.len() { vec![text] } else { vec![text, &unbroken] } {
        for run in text.split(|c: char| !is_base64(c)).filter(|run| run.len() >= BASE64_MIN) {
            found.extend((0..4).filter_map(|from| base64(run.get(from..)?)));
        }
    }
    let pairs = text.replace("\\x", "").replace("0x", "");
    let pairs = bare(&pairs);
    for text in [text, &pairs] {
        for run in text.split(|c: char| !c.is_ascii_hexdigit()).filter(|run| run.len() >= HEX_MIN) {
            found.extend((0..2).filter_map(|from| hex(run.get(from..)?)));
        }
    }
    found
}

fn percent(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    let mut is_any = false;
    while let Some(byte) = bytes.get(at) {
        let pair = text.get(at + 1..at + 3).filter(|_| *byte == b'%');
        match pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                (at, is_any) = (at + 3, true);
            }
            None => {
                decoded.push(if *byte == b'+' { b' ' } else { *byte });
                at += 1;
            }
        }
    }
    is_any.then(|| String::from_utf8_lossy(&decoded).into_owned())
}

/// Of either alphabet, with or without padding; what is left over at the end is left out.
fn base64(run: &str) -> Option<String> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    };
    let mut decoded = Vec::with_capacity(run.len());
    let (mut bits, mut held) = (0_u32, 0_u32);
    for byte in run.bytes() {
        held = ((held << 6) | u32::from(digit(byte)?)) & 0xffff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            decoded.push(u8::try_from((held >> bits) & 0xff).unwrap_or_default());
        }
    }
    readable(&decoded)
}

fn hex(run: &str) -> Option<String> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, _) = run.as_bytes().as_chunks::<2>();
    let decoded: Option<Vec<u8>> = pairs.iter().map(|[high, low]| Some((digit(high)? << 4) | digit(low)?)).collect();
    readable(&decoded?)
}

/// Bytes as a text, if enough of it in a row can be read.
fn readable(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let is_read = |c: char| !c.is_control() && c != char::REPLACEMENT_CHARACTER;
    let longest = text.split(|c: char| !is_read(c)).map(|run| run.chars().count()).max();
    longest.is_some_and(|longest| longest >= READABLE_MIN).then(|| text.into_owned())
}

/// Tells each two texts as one, as far as a value can be in both: with where the second begins.
pub(super) fn joined(texts: &[String], tell: &mut impl FnMut(&str)) {
    let pairs = |range: Range<usize>| range.flat_map(|one| (0..texts.len()).map(move |other| (one, other)));
    for (one, other) in pairs(0..texts.len()) {
        let is_near = texts.len() <= JOINED_MAX || one.abs_diff(other) == 1;
        let (Some(first), Some(second)) = (texts.get(one), texts.get(other)) else { continue };
        if one == other || !is_near || first.is_empty() || second.is_empty() {
            continue;
        }
        let skipped = first.chars().count().saturating_sub(EDGE_MAX);
        let edge: String = first.chars().skip(skipped).chain(second.chars().take(EDGE_MAX)).collect();
        tell(&edge);
    }
}
