//! A secret in the forms in which an answer may hold it: as it is, in base64 (at any place in what was encoded), in hex, and in any
//! of these behind escapes of JSON and of URLs, mixed and repeated. Each form is one search through the text.
//!
//! Texts are compared as bytes, each of which stands as a character of its own: what is decoded need not be UTF-8.

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE};
use std::ops::Range;
use std::rc::Rc;

/// How often escapes are taken off, one in another: JSON in a string of JSON in a URL.
const ROUNDS_MAX: usize = 4;

/// The bytes that escapes of a text stand for, and where each of them begins in the text.
struct View {
    bytes: String,
    begins: Vec<u32>,
}

/// What is searched for: the forms of one secret.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Forms {
    exact: Vec<String>,
    /// Found whatever the case of its letters is.
    hex: Vec<String>,
}

impl Forms {
    pub(super) fn of(secret: &str) -> Self {
        let mut forms = Self { exact: Vec::new(), hex: Vec::new() };
        // A secret that looks like something escaped must be found after escapes were taken off the text.
        for spelled in views(secret) {
            let bytes: Vec<u8> = spelled.bytes.chars().filter_map(|char| u8::try_from(u32::from(char)).ok()).collect();
            forms.hex.push(bytes.iter().map(|byte| format!("{byte:02x}")).collect());
            forms.exact.extend((0..3).flat_map(|before| encoded(&bytes, before)));
            forms.exact.push(spelled.bytes.clone());
        }
        forms.exact.sort();
        forms.exact.dedup();
        forms
    }

    /// How long it can be in a text: an escape takes six bytes for one, and seldom is one in another.
    pub(super) fn longest(&self) -> usize {
        let longest = self.exact.iter().chain(&self.hex).map(String::len).max().unwrap_or_default();
        longest.saturating_mul(6)
    }
}

/// Where any of these secrets stands in a text, in order.
pub(super) fn find(text: &str, secrets: &[Forms]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for view in views(text) {
        let lower = view.bytes.to_ascii_lowercase();
        for forms in secrets {
            let exact = forms.exact.iter().flat_map(|form| view.bytes.match_indices(form.as_str()));
            let hex = forms.hex.iter().flat_map(|form| lower.match_indices(form.as_str()));
            found.extend(exact.chain(hex).filter_map(|(at, form)| view.place(at, form.len())));
        }
    }
    found.sort_by_key(|place| place.start);
    found
}

impl View {
    /// Where in the text something stands that was found here.
    fn place(&self, at: usize, len: usize) -> Option<Range<usize>> {
        let begins = |at: usize| usize::try_from(*self.begins.get(at)?).ok();
        Some(begins(at)?..begins(at + len)?)
    }

    fn push(&mut self, byte: u8, begins: u32) {
        self.bytes.push(char::from(byte));
        self.begins.resize(self.bytes.len(), begins);
    }

    /// The same with one more round of escapes taken off; `None` where there are none.
    fn unescaped(&self) -> Option<Self> {
        let mut plain = Self { bytes: String::with_capacity(self.bytes.len()), begins: Vec::new() };
        let mut at = 0;
        let mut is_other = false;
        while let Some(rest) = self.bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let begins = self.begins.get(at).copied()?;
            let (len, bytes) = match escape(rest) {
                Some((len, char)) => {
                    is_other = true;
                    (len, char)
                }
                None => {
                    let first = rest.chars().next()?;
                    (first.len_utf8(), vec![u8::try_from(u32::from(first)).ok()?])
                }
            };
            bytes.into_iter().for_each(|byte| plain.push(byte, begins));
            at += len;
        }
        plain.begins.push(*self.begins.last()?);
        is_other.then_some(plain)
    }
}

/// A text as it is, and with one round of escapes after the other taken off.
fn views(text: &str) -> impl Iterator<Item = Rc<View>> {
    let mut whole = View { bytes: String::with_capacity(text.len()), begins: Vec::with_capacity(text.len() + 1) };
    // What is kept of an answer is far below 4 GiB.
    text.bytes().zip(0..).for_each(|(byte, at)| whole.push(byte, at));
    whole.begins.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
    std::iter::successors(Some(Rc::new(whole)), |view| view.unescaped().map(Rc::new)).take(ROUNDS_MAX + 1)
}

/// The escape that a text begins with: how long it is, and the bytes that it stands for.
fn escape(text: &str) -> Option<(usize, Vec<u8>)> {
    let digits = |from: usize, to: usize| {
        let digits = text.get(from..to).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        u32::from_str_radix(digits, 16).ok()
    };
    let utf8 = |code: u32| char::from_u32(code).map(|char| char.to_string().into_bytes());
    match (text.as_bytes().first()?, text.as_bytes().get(1)?) {
        (b'%', _) => Some((3, vec![u8::try_from(digits(1, 3)?).ok()?])),
        (b'\\', b'u') => {
            let high = digits(2, 6)?;
            let low = text.get(6..8).filter(|next| *next == "\\u").and_then(|_| digits(8, 12));
            match low {
                Some(low @ 0xDC00..=0xDFFF) if (0xD800..0xDC00).contains(&high) => {
                    Some((12, utf8(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))?))
                }
                _ => Some((6, utf8(high)?)),
            }
        }
        (b'\\', escaped @ (b'"' | b'\\' | b'/')) => Some((2, vec![*escaped])),
        _ => None,
    }
}

/// What base64 has in it wherever these bytes stand behind `before` others, modulo three: the letters that depend on them alone.
fn encoded(bytes: &[u8], before: usize) -> Vec<String> {
    let all = [&vec![0; before], bytes].concat();
    let (from, to) = ((before * 8).div_ceil(6), all.len() * 8 / 6);
    let inside = |text: String| text.get(from..to).map(str::to_owned);
    [BASE64_STANDARD.encode(&all), BASE64_URL_SAFE.encode(&all)].into_iter().filter_map(inside).collect()
}
