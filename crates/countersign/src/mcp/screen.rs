//! Characters that people do not see and models do: what stands in a definition must be what its approver read.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// How many kinds of characters are named at most.
const NAMED_MAX: usize = 8;

/// From here on are arrows, symbols and pictures, in which a joiner or a selector has its ordinary use.
const SYMBOLS: char = '\u{2190}';

/// The characters in these texts that are not seen, by their numbers; `None` where there are none.
pub fn hidden<'a>(texts: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut found = BTreeSet::new();
    for text in texts {
        let mut before = None;
        let mut chars = text.chars().peekable();
        while let Some(char) = chars.next() {
            if is_hidden(char) && !is_part_of_a_picture(before, char, chars.peek().copied()) {
                found.insert(char);
            }
            before = Some(char);
        }
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

/// One joiner between two pictures, or one selector right behind one.
fn is_part_of_a_picture(before: Option<char>, char: char, after: Option<char>) -> bool {
    let picture =
        |char: Option<char>| char.is_some_and(|char| char >= SYMBOLS && (!is_hidden(char) || char == '\u{FE0F}'));
    match char {
        '\u{200D}' => picture(before) && picture(after),
        '\u{FE0E}' | '\u{FE0F}' => before.is_some_and(|before| before >= '\u{203C}' && !is_hidden(before)),
        _ => false,
    }
}

/// Whether a character is not seen, or turns what is.
pub fn is_hidden(char: char) -> bool {
    matches!(char,
        '\0'..='\u{8}' | '\u{B}' | '\u{C}' | '\u{E}'..='\u{1F}' | '\u{7F}'..='\u{9F}'
        | '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}' | '\u{180B}'..='\u{180F}'
        | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{2800}' | '\u{3164}'
        | '\u{E000}'..='\u{F8FF}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF0}'..='\u{FFFB}'
        | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{10FFFF}')
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
        ] {
            assert_eq!(hidden([text].into_iter()).as_deref(), Some(name), "{text:?}");
        }
    }
}
