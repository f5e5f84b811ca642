//! Canonical JSON (RFC 8785) as it is written, not sorted afterwards.
//!
//! Callers name keys in ascending order, which for our ASCII keys is JCS order; a test of the engine holds the entries
//! of a log against the generic writer below. No generic
//! serialiser runs on the commit path: a record of known shape is written straight into its bytes.

use crate::ids::FactId;

/// A writer of canonical JSON.
#[derive(Debug, Clone, Default)]
pub struct Canonical {
    out: String,
    first: bool,
}

impl Canonical {
    /// An empty writer.
    pub fn new() -> Self {
        Self::with_buffer(String::new())
    }

    /// Writes into a buffer that is reused; it is emptied first.
    pub fn with_buffer(mut buffer: String) -> Self {
        buffer.clear();
        Self { out: buffer, first: true }
    }

    /// What was written.
    pub fn as_str(&self) -> &str {
        &self.out
    }

    /// What was written, taken.
    pub fn into_string(self) -> String {
        self.out
    }

    /// Opens an object or array.
    #[inline]
    pub fn open(&mut self, bracket: char) {
        self.out.push(bracket);
        self.first = true;
    }

    /// Closes an object or array.
    #[inline]
    pub fn close(&mut self, bracket: char) {
        self.out.push(bracket);
        self.first = false;
    }

    /// Starts the next element of an array.
    #[inline]
    pub fn element(&mut self) {
        if !self.first {
            self.out.push(',');
        }
        self.first = false;
    }

    /// Starts the next member of an object; keys must come in ascending order, and hold nothing that needs an escape: the
    /// format's own names, and names of attributes.
    #[inline]
    pub fn key(&mut self, key: &str) {
        self.element();
        self.out.push('"');
        self.out.push_str(key);
        self.out.push_str("\":");
    }

    /// Starts the next member under a key that may hold anything.
    pub fn any_key(&mut self, key: &str) {
        self.element();
        self.string(key);
        self.out.push(':');
    }

    /// A string, with the escapes RFC 8785 prescribes and no others.
    pub fn string(&mut self, text: &str) {
        self.out.push('"');
        if has_escapes(text) {
            self.escaped(text);
        } else {
            self.out.push_str(text);
        }
        self.out.push('"');
    }

    #[cold]
    fn escaped(&mut self, text: &str) {
        let mut plain_from = 0;
        for (at, byte) in text.bytes().enumerate() {
            if !is_escaped(byte) {
                continue;
            }
            self.out.push_str(text.get(plain_from..at).unwrap_or_default());
            plain_from = at + 1;
            match byte {
                b'"' => self.out.push_str("\\\""),
                b'\\' => self.out.push_str("\\\\"),
                b'\n' => self.out.push_str("\\n"),
                b'\r' => self.out.push_str("\\r"),
                b'\t' => self.out.push_str("\\t"),
                0x08 => self.out.push_str("\\b"),
                0x0c => self.out.push_str("\\f"),
                control => {
                    self.out.push_str("\\u00");
                    self.hex(&[control]);
                }
            }
        }
        self.out.push_str(text.get(plain_from..).unwrap_or_default());
    }

    /// Bytes as a string of lower-case hexadecimal.
    pub fn hex_string(&mut self, bytes: &[u8]) {
        self.out.push('"');
        self.hex(bytes);
        self.out.push('"');
    }

    fn hex(&mut self, bytes: &[u8]) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        for chunk in bytes.chunks(32) {
            let mut text = [0; 64];
            for (pair, byte) in text.chunks_exact_mut(2).zip(chunk) {
                let digits =
                    [byte >> 4, byte & 15].map(|digit| DIGITS.get(usize::from(digit)).copied().unwrap_or(b'0'));
                pair.copy_from_slice(&digits);
            }
            let text = text.get(..2 * chunk.len()).and_then(|text| std::str::from_utf8(text).ok());
            self.out.push_str(text.unwrap_or_default());
        }
    }

    /// A signed integer.
    pub fn i64(&mut self, number: i64) {
        self.out.push_str(itoa::Buffer::new().format(number));
    }

    /// An unsigned integer.
    pub fn u64(&mut self, number: u64) {
        self.out.push_str(itoa::Buffer::new().format(number));
    }

    /// True or false.
    pub fn bool(&mut self, truth: bool) {
        self.out.push_str(if truth { "true" } else { "false" });
    }

    /// A fact id as a string, without building its text first where nothing in it needs an escape.
    pub fn fact(&mut self, fact: &FactId) {
        if has_escapes(fact.id()) {
            return self.string(&fact.to_string());
        }
        self.out.push('"');
        self.out.push_str(fact.ty().as_str());
        self.out.push_str("::\\\"");
        self.out.push_str(fact.id());
        self.out.push_str("\\\"\"");
    }

    /// Canonical JSON that was written elsewhere, as one value.
    pub fn raw(&mut self, canonical: &str) {
        self.out.push_str(canonical);
        self.first = false;
    }

    /// Any JSON value, with its keys sorted as RFC 8785 asks (by UTF-16 code units). Numbers must be integers.
    pub fn json(&mut self, json: &serde_json::Value) {
        use serde_json::Value as Json;
        match json {
            Json::Null => self.out.push_str("null"),
            Json::Bool(b) => self.bool(*b),
            Json::Number(n) => match (n.as_i64(), n.as_u64()) {
                (Some(signed), _) => self.i64(signed),
                (None, Some(unsigned)) => self.u64(unsigned),
                // Callers refuse fractions when they read; what is left has no canonical form and is kept as text.
                (None, None) => self.out.push_str(&n.to_string()),
            },
            Json::String(s) => self.string(s),
            Json::Array(items) => {
                self.open('[');
                for item in items {
                    self.element();
                    self.json(item);
                }
                self.close(']');
            }
            Json::Object(object) => {
                let mut members: Vec<_> = object.iter().collect();
                members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
                self.open('{');
                for (key, value) in members {
                    self.any_key(key);
                    self.json(value);
                }
                self.close('}');
            }
        }
    }
}

fn is_escaped(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Whether anything in a text is written otherwise than it is. Looks at eight bytes at once: nearly all texts have nothing.
fn has_escapes(text: &str) -> bool {
    let (eights, rest) = text.as_bytes().as_chunks::<8>();
    let is_any = |eight: &[u8; 8]| eight.iter().fold(false, |is_any, byte| is_any | is_escaped(*byte));
    eights.iter().any(is_any) || rest.iter().any(|byte| is_escaped(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_escape_exactly_what_rfc_8785_asks() {
        let mut out = Canonical::new();
        out.string("\u{20ac}$\u{f}\nA'B\"\\\\\"/\u{7f}");
        assert_eq!(out.as_str(), "\"\u{20ac}$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\u{7f}\"");
    }

    #[test]
    fn an_escape_is_found_wherever_it_is() {
        for len in 0..20 {
            let plain = "\u{e9}".repeat(len) + &"x".repeat(len);
            assert!(!has_escapes(&plain));
            for at in (0..=len).chain([2 * len, 3 * len]) {
                let Some((before, after)) = plain.split_at_checked(at) else { continue };
                for escaped in ["\"", "\\", "\n", "\u{1f}"] {
                    assert!(has_escapes(&format!("{before}{escaped}{after}")));
                }
                assert!(!has_escapes(&format!("{before} \u{7f}{after}")));
            }
        }
    }

    #[test]
    fn fact_ids_are_written_as_their_text_is() {
        for text in ["Account::\"42\"", "Account::\"a\\\"b\"", "Account::\"b\\\\s\"", "A::\"\u{fc}\""] {
            let fact: FactId = text.parse().unwrap();
            let (mut straight, mut by_text) = (Canonical::new(), Canonical::new());
            straight.fact(&fact);
            by_text.string(&fact.to_string());
            assert_eq!(straight.as_str(), by_text.as_str());
            assert_eq!(serde_json::from_str::<String>(straight.as_str()).unwrap(), text);
        }
    }

    #[test]
    fn generic_json_sorts_by_utf16() {
        let json: serde_json::Value =
            serde_json::from_str("{\"\u{20ac}\":1,\"\\r\":2,\"1\":3,\"\u{1f600}\":4,\"\u{fb33}\":5}").unwrap();
        let mut out = Canonical::new();
        out.json(&json);
        assert_eq!(out.as_str(), "{\"\\r\":2,\"1\":3,\"\u{20ac}\":1,\"\u{1f600}\":4,\"\u{fb33}\":5}");
    }
}
