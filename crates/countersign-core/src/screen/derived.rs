//! A text made from another one, and where each part of it came from: a finding in what was decoded or folded is told by its place in
//! what was sent.

use super::lookalike::ascii_lookalike;
use super::visible::is_hidden;
use std::ops::Range;
use unicode_normalization::char::{decompose_compatible, is_combining_mark};

/// The text, and at which of its bytes which byte of the original begins. Between two marks both go on alike.
#[derive(Debug, Default)]
pub(super) struct Derived {
    pub text: String,
    marks: Vec<(usize, usize)>,
    /// Where all of it came from, if its parts cannot be told apart.
    whole: Option<Range<usize>>,
}

impl Derived {
    pub fn with_room_for(bytes: usize) -> Self {
        Self { text: String::with_capacity(bytes), ..Self::default() }
    }

    /// A text that as a whole came from one range.
    pub fn of_range(text: String, range: &Range<usize>) -> Self {
        Self { text, marks: Vec::new(), whole: Some(range.clone()) }
    }

    /// Adds what came from a place in the original.
    pub fn push(&mut self, char: char, from: usize) {
        self.mark(from);
        self.text.push(char);
    }

    /// Notes where the next byte comes from.
    pub fn mark(&mut self, from: usize) {
        let expected = self.marks.last().map(|(at, of)| of.saturating_add(self.text.len().saturating_sub(*at)));
        if expected != Some(from) {
            self.marks.push((self.text.len(), from));
        }
    }

    /// Where a range of this text came from.
    pub fn origin(&self, range: &Range<usize>) -> Range<usize> {
        if let Some(whole) = &self.whole {
            return whole.clone();
        }
        let after = self.marks.partition_point(|(at, _)| *at <= range.start);
        let from = self.place(after.saturating_sub(1), range.start);
        let after = self.marks.partition_point(|(at, _)| *at < range.end);
        let to = match self.marks.get(after) {
            // The last byte came from right before the next part, whatever lies between them in the original.
            Some((at, of)) if *at == range.end => *of,
            _ => self.place(after.saturating_sub(1), range.end),
        };
        from..to.max(from)
    }

    fn place(&self, mark: usize, at: usize) -> usize {
        let Some((begins, of)) = self.marks.get(mark) else { return at };
        let place = of.saturating_add(at.saturating_sub(*begins));
        // One part may be longer here than there.
        self.marks.get(mark.saturating_add(1)).map_or(place, |(_, next)| place.min(*next.max(of)))
    }
}

/// The form in which words are looked for: lower case, no accents, one space between words, without what is not seen, and with plain
/// letters instead of those that look like them.
pub(super) fn folded(text: &str) -> Derived {
    if text.is_ascii() { folded_ascii(text) } else { folded_any(text) }
}

fn folded_ascii(text: &str) -> Derived {
    let mut out = Vec::with_capacity(text.len());
    let mut marks = vec![(0, 0)];
    let mut is_space = false;
    for (at, byte) in text.bytes().enumerate() {
        if byte > b' ' && byte != 0x7f {
            out.push(byte.to_ascii_lowercase());
            is_space = false;
        } else if !is_space && byte.is_ascii_whitespace() {
            out.push(b' ');
            is_space = true;
        } else {
            // This byte is left out: what follows comes from the next one.
            match marks.last_mut() {
                Some((begins, of)) if *begins == out.len() => *of = at.saturating_add(1),
                _ => marks.push((out.len(), at.saturating_add(1))),
            }
        }
    }
    // ASCII in, ASCII out.
    Derived { text: String::from_utf8(out).unwrap_or_default(), marks, whole: None }
}

fn folded_any(text: &str) -> Derived {
    let mut folded = Derived::with_room_for(text.len());
    let mut is_space = false;
    for (at, char) in text.char_indices() {
        if char.is_ascii_graphic() {
            folded.push(char.to_ascii_lowercase(), at);
            is_space = false;
        } else if char.is_whitespace() {
            if !is_space {
                folded.push(' ', at);
            }
            is_space = true;
        } else if is_ideograph(char) {
            folded.push(char, at);
            is_space = false;
        } else if !is_hidden(char) {
            decompose_compatible(char, |part| push_folded(&mut folded, part, at));
            is_space = folded.text.ends_with(' ');
        }
    }
    folded.mark(text.len());
    folded
}

fn push_folded(folded: &mut Derived, char: char, at: usize) {
    match char {
        '\u{2018}' | '\u{2019}' | '\u{2bc}' | '\u{2b9}' => folded.push('\'', at),
        _ if is_combining_mark(char) => {}
        _ => {
            for lower in char.to_lowercase() {
                // Of some letters only the capital looks like another.
                let plain = ascii_lookalike(lower).or_else(|| ascii_lookalike(char)).unwrap_or(lower);
                folded.push(plain.to_ascii_lowercase(), at);
            }
        }
    }
}

fn is_ideograph(char: char) -> bool {
    matches!(char, '\u{3400}'..='\u{9fff}')
}

/// The form in which secrets are looked for: case stays, what is not seen goes, and wide letters and digits are plain ones.
pub(super) fn plain(text: &str) -> Derived {
    let mut plain = Derived::with_room_for(text.len());
    for (at, char) in text.char_indices() {
        if char.is_ascii() || is_ideograph(char) {
            plain.push(char, at);
        } else if char.is_whitespace() && char != '\u{2028}' && char != '\u{2029}' {
            plain.push(' ', at);
        } else if !is_hidden(char) {
            decompose_compatible(char, |part| plain.push(part, at));
        }
    }
    plain.mark(text.len());
    plain
}

/// A text and its way back to what was sent.
#[derive(Clone, Copy)]
pub(super) enum Origin<'a> {
    /// It is what was sent.
    Sent,
    /// It was made from another.
    From(&'a Derived, &'a Origin<'a>),
}

impl Origin<'_> {
    /// Where a range stands in what was sent.
    pub fn of(&self, range: Range<usize>) -> Range<usize> {
        match self {
            Self::Sent => range,
            Self::From(derived, before) => before.of(derived.origin(&range)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_folded_text_is_a_place_in_the_original() {
        for text in
            ["Ignore   ALL\n\tprevious", "ígno\u{200b}re ＡＬＬ prevïous", "x  \u{1}\u{2} y", "ﬁle \u{3000} № ½ 忽略 A"]
        {
            let folded = folded(text);
            for (at, part) in folded.text.char_indices() {
                let origin = folded.origin(&(at..at + part.len_utf8()));
                assert!(origin.start < text.len() && origin.end <= text.len(), "{text:?} {part:?} {origin:?}");
            }
            let whole = folded.origin(&(0..folded.text.len()));
            assert_eq!((whole.start, whole.end), (0, text.len()), "{text:?}");
        }
        let text = "a\u{200b}b  Cé-d";
        let folded = folded(text);
        assert_eq!(folded.text, "ab ce-d");
        assert_eq!(&text[folded.origin(&(3..5))], "Cé");
        assert_eq!(&text[folded.origin(&(0..2))], "a\u{200b}b");
    }

    #[test]
    fn what_was_decoded_is_told_by_its_range() {
        let derived = Derived::of_range("decoded text".to_owned(), &(10..26));
        assert_eq!(derived.origin(&(3..5)), 10..26);
    }

    #[test]
    fn letters_that_look_alike_fold_to_one() {
        assert_eq!(folded("іgnоrе Ꭺll 𝐩𝐫𝐞𝐯𝐢𝐨𝐮𝐬 ＲＵＬＥＳ “don’t”").text, "ignore all previous rules “don't”");
    }
}
