//! A walk over JSON that tells of every text in it and where that is. It does not recurse, so no depth is too deep for it, and builds no
//! tree.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Numbers with fewer characters pay for nothing.
const NUMBER_BYTES_MIN: usize = 12;
/// How much of a path is told.
const POINTER_BYTES_MAX: usize = 256;

/// How much there was.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub depth: usize,
    pub items: usize,
}

/// Where the walk is within one object or list.
enum Step<'a> {
    Member(Option<Cow<'a, str>>),
    Item(usize),
}

struct Walk<'a> {
    text: &'a str,
    at: usize,
    path: Vec<Step<'a>>,
    extent: Extent,
}

/// Tells of every text, name and long number: what it says, its pointer, and whether it is a name. `None` for what is no JSON; some of it
/// may have been told by then.
pub(super) fn walk(json: &str, mut tell: impl FnMut(&str, &str, bool)) -> Option<Extent> {
    let mut walk = Walk { text: json, at: 0, path: Vec::new(), extent: Extent::default() };
    let mut is_begun = false;
    while let Some(byte) = walk.next() {
        if is_begun && walk.path.is_empty() {
            return None;
        }
        is_begun = true;
        match byte {
            b'{' => walk.open(Step::Member(None)),
            b'[' => walk.open(Step::Item(0)),
            b'}' => walk.close(|step| matches!(step, Step::Member(_)))?,
            b']' => walk.close(|step| matches!(step, Step::Item(_)))?,
            b',' => walk.go_on()?,
            b':' => walk.at = walk.at.saturating_add(1),
            b'"' => {
                let text = walk.string()?;
                if let Some(Step::Member(name @ None)) = walk.path.last_mut() {
                    *name = Some(text.clone());
                    tell(&text, &walk.pointer(), true);
                } else {
                    tell(&text, &walk.pointer(), false);
                }
            }
            _ => {
                let scalar = walk.scalar()?;
                if scalar.len() >= NUMBER_BYTES_MIN {
                    tell(scalar, &walk.pointer(), false);
                }
            }
        }
    }
    (is_begun && walk.path.is_empty()).then_some(walk.extent)
}

impl<'a> Walk<'a> {
    /// The next byte that is no space.
    fn next(&mut self) -> Option<u8> {
        let rest = self.text.as_bytes().get(self.at..)?;
        let spaces = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
        self.at = self.at.saturating_add(spaces);
        rest.get(spaces).copied()
    }

    fn count(&mut self) {
        self.extent.items = self.extent.items.saturating_add(1);
    }

    fn open(&mut self, step: Step<'a>) {
        self.path.push(step);
        self.extent.depth = self.extent.depth.max(self.path.len());
        self.count();
        self.at = self.at.saturating_add(1);
    }

    fn close(&mut self, is_same: impl Fn(&Step<'a>) -> bool) -> Option<()> {
        self.path.pop().filter(is_same)?;
        self.at = self.at.saturating_add(1);
        Some(())
    }

    fn go_on(&mut self) -> Option<()> {
        match self.path.last_mut()? {
            Step::Member(name) => *name = None,
            Step::Item(at) => *at = at.saturating_add(1),
        }
        self.count();
        self.at = self.at.saturating_add(1);
        Some(())
    }

    fn string(&mut self) -> Option<Cow<'a, str>> {
        let begins = self.at.saturating_add(1);
        let rest = self.text.as_bytes().get(begins..)?;
        let mut is_escaped = false;
        let mut has_escapes = false;
        let len = rest.iter().position(|byte| {
            let ends = *byte == b'"' && !is_escaped;
            is_escaped = *byte == b'\\' && !is_escaped;
            has_escapes |= is_escaped;
            ends
        })?;
        let written = self.text.get(begins..begins.saturating_add(len))?;
        self.at = begins.saturating_add(len).saturating_add(1);
        Some(if has_escapes { Cow::Owned(unescaped(written)) } else { Cow::Borrowed(written) })
    }

    /// A number, `true`, `false` or `null`.
    fn scalar(&mut self) -> Option<&'a str> {
        let rest = self.text.get(self.at..)?;
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        let len = rest.bytes().take_while(is_part).count();
        let scalar = rest.get(..len)?;
        let is_number = scalar.starts_with(|char: char| char.is_ascii_digit() || char == '-');
        self.at = self.at.saturating_add(len);
        (is_number || matches!(scalar, "true" | "false" | "null")).then_some(scalar)
    }

    fn pointer(&self) -> String {
        let mut pointer = String::new();
        for step in &self.path {
            if pointer.len() > POINTER_BYTES_MAX {
                pointer.push_str("/…");
                break;
            }
            // Writing to a string cannot fail.
            let _ = match step {
                Step::Item(at) => write!(pointer, "/{at}"),
                Step::Member(name) => {
                    let name = name.as_deref().unwrap_or_default();
                    let front = name.get(..name.floor_char_boundary(POINTER_BYTES_MAX)).unwrap_or_default();
                    write!(pointer, "/{}", front.replace('~', "~0").replace('/', "~1"))
                }
            };
        }
        pointer
    }
}

/// A string without its escapes. Halves of characters become U+FFFD, as they do in most readers.
fn unescaped(written: &str) -> String {
    let mut out = String::with_capacity(written.len());
    let mut rest = written;
    while let Some(at) = rest.find('\\') {
        let (plain, escape) = rest.split_at(at);
        out.push_str(plain);
        let (char, len) = one_escape(escape);
        out.push(char);
        rest = escape.get(len..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

fn one_escape(escape: &str) -> (char, usize) {
    let char = match escape.chars().nth(1) {
        Some('n') => '\n',
        Some('t') => '\t',
        Some('r') => '\r',
        Some('b') => '\u{8}',
        Some('f') => '\u{c}',
        Some('u') => return unicode_escape(escape),
        Some(other) => return (other, 1_usize.saturating_add(other.len_utf8())),
        None => '\\',
    };
    (char, 2)
}

fn unicode_escape(escape: &str) -> (char, usize) {
    let unit = |at: usize| {
        let digits = escape.get(at..at.saturating_add(6))?.strip_prefix("\\u")?;
        u32::from_str_radix(digits, 16).ok()
    };
    let Some(first) = unit(0) else { return (char::REPLACEMENT_CHARACTER, 2) };
    if let Some(char) = char::from_u32(first) {
        return (char, 6);
    }
    let second = unit(6).filter(|second| (0xdc00..0xe000).contains(second) && first < 0xdc00);
    let both = second.and_then(|second| {
        let high = first.saturating_sub(0xd800) << 10;
        char::from_u32(high.saturating_add(second.saturating_sub(0xdc00)).saturating_add(0x10000))
    });
    both.map_or((char::REPLACEMENT_CHARACTER, 6), |char| (char, 12))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(json: &str) -> (Option<Extent>, Vec<String>) {
        let mut told = Vec::new();
        let extent = walk(json, |text, pointer, in_name| {
            told.push(format!("{pointer}{}{text}", if in_name { " name " } else { " = " }));
        });
        (extent, told)
    }

    #[test]
    fn every_text_is_told_with_its_place() {
        let json =
            r#"{"a/b": "x\n\"y\" \u00e9 \ud83d\ude00 \ud800", "c": [1, "z", {"~": true}], "n": 4111111111111111}"#;
        let (extent, told) = told(json);
        assert_eq!(extent, Some(Extent { depth: 3, items: 7 }));
        assert_eq!(
            told,
            [
                "/a~1b name a/b",
                "/a~1b = x\n\"y\" é 😀 \u{fffd}",
                "/c name c",
                "/c/1 = z",
                "/c/2/~0 name ~",
                "/n name n",
                "/n = 4111111111111111",
            ]
        );
        assert_eq!(told_depth(5000), Some(5000));
    }

    fn told_depth(depth: usize) -> Option<usize> {
        told(&format!("{}{}", "[".repeat(depth), "]".repeat(depth))).0.map(|extent| extent.depth)
    }

    #[test]
    fn what_is_no_json_is_not_walked() {
        for text in ["", "plain text", "{", "[1}", "\"open", "{} {}", "[1, 2", "hello: {}"] {
            assert_eq!(told(text).0, None, "{text}");
        }
        assert!(told("\"a text\"").0.is_some() && told(" 12 ").0.is_some());
    }
}
