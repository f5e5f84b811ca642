//! Characters that people do not see and models do, and how they are shown: the one place that knows them.
//!
//! A zero-width space makes two names look like one, a bidirectional control turns the order of what is read, an escape character moves
//! the cursor of a terminal. Definitions of tools that hold one are not approved; wherever people read what others wrote, each is spelled
//! out (`\u{200b}`). Joiners and selectors may stay where they belong to a picture; anywhere else, two names could look the same and be
//! others.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// How many kinds of characters are named at most.
const NAMED_MAX: usize = 8;

/// The characters in these texts that are not seen, by their numbers; `None` where there are none.
pub fn hidden<'a>(texts: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut found = BTreeSet::new();
    for text in texts {
        found.extend(marked(text).filter(|(_, is_hidden)| *is_hidden).map(|(char, _)| char));
    }
    let mut named = String::new();
    for char in found.iter().take(NAMED_MAX) {
        let comma = if named.is_empty() { "" } else { ", " };
        // Writing into a string does not fail.
        let _ = write!(named, "{comma}U+{:04X} ({})", u32::from(*char), kind(*char));
    }
    if found.len() > NAMED_MAX {
        let _ = write!(named, " and {} more", found.len() - NAMED_MAX);
    }
    (!found.is_empty()).then_some(named)
}

/// Each character, and whether people would not see it.
pub fn marked(text: &str) -> impl Iterator<Item = (char, bool)> {
    let mut before = None;
    let mut chars = text.chars().peekable();
    std::iter::from_fn(move || {
        let char = chars.next()?;
        let is_hidden = is_hidden(char) && !is_part_of_a_picture(before, char, chars.peek().copied());
        before = Some(char);
        Some((char, is_hidden))
    })
}

/// Adds a character to what is shown on one line.
pub(crate) fn push_spelled(out: &mut String, char: char, is_hidden: bool) {
    match char {
        '\n' => out.push_str("\\n"),
        '\t' => out.push_str("\\t"),
        '\r' => out.extend(char.escape_unicode()),
        _ if is_hidden => out.extend(char.escape_unicode()),
        _ => out.push(char),
    }
}

/// A text on one line, with what people would not see spelled out: for names, reasons and messages, which could otherwise go on with a
/// line that looks like ours.
pub fn inline(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    marked(text).for_each(|(char, is_hidden)| push_spelled(&mut out, char, is_hidden));
    out
}

/// The same in so many bytes at most; what was cut off leaves `…`.
pub fn one_line(text: &str, bytes_max: usize) -> String {
    let room = bytes_max.saturating_sub('…'.len_utf8());
    let mut out = String::with_capacity(text.len().min(bytes_max));
    let mut whole_until = 0;
    for (char, is_hidden) in marked(text) {
        push_spelled(&mut out, char, is_hidden);
        if out.len() <= room {
            whole_until = out.len();
        } else if out.len() > bytes_max {
            out.truncate(whole_until);
            out.push('…');
            break;
        }
    }
    out
}

/// One joiner between two pictures, or one selector right behind one.
pub fn is_part_of_a_picture(before: Option<char>, char: char, after: Option<char>) -> bool {
    let joined = |char: Option<char>| char.is_some_and(|char| is_picture(char) || char == '\u{FE0F}');
    match char {
        '\u{200D}' => joined(before) && joined(after),
        '\u{FE0E}' | '\u{FE0F}' => before.is_some_and(is_picture),
        _ => false,
    }
}

/// The blocks in which emoji are, and the few of them elsewhere: what `emoji-variation-sequences.txt` and `emoji-zwj-sequences.txt`
/// of Unicode 16 name, but for digits. Scripts are not among them, CJK ideographs neither.
fn is_picture(char: char) -> bool {
    matches!(char,
        '\u{203C}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2190}'..='\u{21FF}' | '\u{2300}'..='\u{23FF}' | '\u{24C2}'
        | '\u{25A0}'..='\u{27BF}' | '\u{2934}' | '\u{2935}' | '\u{2B05}'..='\u{2B55}' | '\u{3030}' | '\u{303D}' | '\u{3297}'
        | '\u{3299}' | '\u{1F000}'..='\u{1FAFF}')
}

/// Whether a character is not seen, or turns what is: controls, private use, and all of
/// - general category Cf (`DerivedGeneralCategory.txt`, Unicode 16), but for the signs U+0600..0605, U+06DD, U+0890, U+0891 and
///   U+08E2, which are drawn,
/// - `Default_Ignorable_Code_Point` (`DerivedCoreProperties.txt`), U+16FE4 beside it, which is drawn as nothing,
/// - `Noncharacter_Code_Point` (`PropList.txt`).
///
/// Compared with the data that Python's `unicodedata` and Perl's properties have (Unicode 14), every code point of it: none is missing.
/// What Unicode 15 and 16 added to Cf is U+13439..1343F.
pub fn is_hidden(char: char) -> bool {
    matches!(char,
        '\0'..='\u{8}' | '\u{B}' | '\u{C}' | '\u{E}'..='\u{1F}' | '\u{7F}'..='\u{9F}'
        | '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{70F}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
        | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{2800}'
        | '\u{3164}' | '\u{E000}'..='\u{F8FF}' | '\u{FDD0}'..='\u{FDEF}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}'
        | '\u{FFF0}'..='\u{FFFB}' | '\u{110BD}' | '\u{110CD}' | '\u{13430}'..='\u{13440}' | '\u{16FE4}'
        | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D159}' | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{10FFFF}')
        || u32::from(char) & 0xFFFE == 0xFFFE
}

fn kind(char: char) -> &'static str {
    match char {
        '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => {
            "turns the direction of text"
        }
        '\u{E0000}'..='\u{E007F}' => "tag",
        '\u{FE00}'..='\u{FE0F}' | '\u{E0100}'..='\u{E01EF}' | '\u{180B}'..='\u{180F}' => "selects a variant",
        '\0'..='\u{9F}' => "control",
        '\u{E000}'..='\u{F8FF}' | '\u{F0000}'..='\u{10FFFF}' => "private use",
        _ => "not seen",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_writing_passes() {
        for text in
            ["Read a file.\n\tUse it – “carefully”.", "日本語 العربية עברית हिन्दी", "⚠️ 👩‍💻 ❤️‍🔥", "\u{41f}\u{301}"]
        {
            assert_eq!(hidden([text].into_iter()), None, "{text:?}");
        }
    }

    #[test]
    fn what_is_not_seen_is_named() {
        for (text, name) in [
            ("a\u{202E}b", "U+202E (turns the direction of text)"),
            ("a\u{200D}b", "U+200D (not seen)"),
            ("\u{E0049}\u{E0067}", "U+E0049 (tag), U+E0067 (tag)"),
            ("a\u{FE01}", "U+FE01 (selects a variant)"),
            ("☺\u{FE0F}\u{FE0F}", "U+FE0F (selects a variant)"),
            ("a\u{1b}[31m", "U+001B (control)"),
            ("\u{2028}", "U+2028 (not seen)"),
            ("日\u{FE0F}本", "U+FE0F (selects a variant)"),
            ("日\u{200D}本", "U+200D (not seen)"),
            ("\u{70F}\u{110BD}\u{13430}", "U+070F (not seen), U+110BD (not seen), U+13430 (not seen)"),
            ("\u{13440}\u{16FE4}\u{1D159}", "U+13440 (not seen), U+16FE4 (not seen), U+1D159 (not seen)"),
            ("\u{FDD0}\u{FFFE}\u{1FFFF}", "U+FDD0 (not seen), U+FFFE (not seen), U+1FFFF (not seen)"),
        ] {
            assert_eq!(hidden([text].into_iter()).as_deref(), Some(name), "{text:?}");
        }
    }

    #[test]
    fn what_another_side_says_is_one_line_of_bounded_length() {
        assert_eq!(one_line("plain – text", 1024), "plain – text");
        assert_eq!(one_line("a\nhint: b\u{1b}[2J\u{202e}c", 1024), "a\\nhint: b\\u{1b}[2J\\u{202e}c");
        assert_eq!(one_line("abcdef", 6), "abcdef");
        assert_eq!(one_line("abcdefg", 6), "abc…");
        assert_eq!(one_line("ääää", 6), "ä…");
        assert_eq!(one_line("\n\n\n\n", 6), "\\n…");
        for max in 3..40 {
            let line = one_line(&"a\u{0}ä\u{200b}".repeat(20), max);
            assert!(line.len() <= max && line.ends_with('…'), "{max}: {line}");
            assert_eq!(one_line(&line, max), line);
        }
    }
}
