//! Findings of characters that people do not see, where no way of writing needs them; and what such characters spell.
//!
//! Joiners belong to Persian and Hindi as they belong to emoji, marks of direction to Hebrew and Arabic, selectors to pictures and to Han
//! characters, zero-width spaces to scripts without spaces, soft hyphens to web pages. None of that is a finding.

use super::derived::Derived;
use super::visible::{is_hidden, is_part_of_a_picture};
use std::ops::Range;
use unicode_normalization::char::is_combining_mark;

/// More marks on one letter than any language writes.
const MARKS_MAX: usize = 6;
/// The rule about them.
pub(super) const MARKS: &str = "hidden_marks";

/// Tells of every run of hidden characters: the rule and the place.
pub(super) fn look(text: &str, tell: &mut impl FnMut(&'static str, Range<usize>)) {
    // Most texts are plain, and so is most of what is looked at.
    if text.bytes().all(|byte| byte.is_ascii_graphic() || matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) {
        return;
    }
    let reads_both_ways = text.chars().any(is_right_to_left);
    let (mut before, mut letter) = (None, None);
    let mut marks = 0_usize;
    let mut run: Option<(&'static str, Range<usize>)> = None;
    let mut chars = text.char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        let after = chars.peek().map(|(_, after)| *after);
        marks = if is_combining_mark(char) { marks.saturating_add(1) } else { 0 };
        let around = Around { at, before, letter, after, reads_both_ways };
        let rule = if marks > MARKS_MAX { Some(MARKS) } else { around.rule(char) };
        let end = at.saturating_add(char.len_utf8());
        match (&mut run, rule) {
            (Some((of, range)), Some(rule)) if *of == rule && range.end == at => range.end = end,
            (_, Some(rule)) => {
                if let Some((of, range)) = run.replace((rule, at..end)) {
                    tell(of, range);
                }
            }
            (_, None) => {}
        }
        if !is_hidden(char) && !is_combining_mark(char) {
            letter = Some(char);
        }
        before = Some(char);
    }
    if let Some((of, range)) = run {
        tell(of, range);
    }
}

/// What stands around a character.
struct Around {
    at: usize,
    before: Option<char>,
    /// The last one before it that is seen and is no mark on another.
    letter: Option<char>,
    after: Option<char>,
    reads_both_ways: bool,
}

impl Around {
    fn rule(&self, char: char) -> Option<&'static str> {
        if char.is_ascii_graphic() || matches!(char, ' ' | '\t' | '\n' | '\r') {
            return None;
        }
        let letter_is = |of: fn(char) -> bool| self.letter.is_some_and(of);
        let is_fine = match char {
            // A page break, a soft hyphen, and breaks of lines and paragraphs.
            '\u{c}' | '\u{ad}' | '\u{2028}' | '\u{2029}' => true,
            '\u{feff}' => self.at == 0,
            '\u{200b}' => letter_is(has_no_spaces),
            '\u{200c}' | '\u{200d}' => letter_is(joins) && self.before.is_none_or(|before| !is_hidden(before)),
            '\u{200e}' | '\u{200f}' | '\u{61c}' => self.reads_both_ways,
            '\u{fe0e}' | '\u{fe0f}' => {
                self.before.is_some_and(|before| before.is_ascii_digit() || matches!(before, '#' | '*' | '©' | '®'))
            }
            '\u{fe00}'..='\u{fe02}' | '\u{e0100}'..='\u{e01ef}' => self.before.is_some_and(is_han),
            '\u{180b}'..='\u{180f}' => letter_is(|letter| matches!(letter, '\u{1800}'..='\u{18af}')),
            // Flags of England, Scotland and Wales.
            '\u{e0020}'..='\u{e007f}' => self.letter == Some('\u{1f3f4}'),
            '\u{2800}' => letter_is(|letter| matches!(letter, '\u{2801}'..='\u{28ff}')),
            _ => !is_hidden(char),
        };
        if is_fine || is_part_of_a_picture(self.before, char, self.after) {
            return None;
        }
        Some(match char {
            '\0'..='\u{9f}' => "hidden_control",
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                "hidden_direction"
            }
            '\u{e0000}'..='\u{e007f}' => "hidden_tags",
            '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' | '\u{180b}'..='\u{180f}' => "hidden_selectors",
            '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}' => "hidden_private",
            _ => "hidden_zero_width",
        })
    }
}

/// Letters that are written from right to left.
fn is_right_to_left(char: char) -> bool {
    matches!(char, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}' | '\u{10800}'..='\u{10fff}'
        | '\u{1e800}'..='\u{1efff}')
}

/// Scripts whose letters join: Arabic and its neighbours, those of India and of South East Asia, Mongolian.
fn joins(char: char) -> bool {
    matches!(char, '\u{600}'..='\u{109f}' | '\u{1780}'..='\u{18af}' | '\u{1900}'..='\u{1cff}' | '\u{a800}'..='\u{abff}'
        | '\u{fb50}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}' | '\u{11000}'..='\u{11fff}')
}

/// Scripts that are written without spaces between words.
fn has_no_spaces(char: char) -> bool {
    matches!(char, '\u{e00}'..='\u{fff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{1950}'..='\u{19df}'
        | '\u{3000}'..='\u{30ff}')
        || is_han(char)
}

fn is_han(char: char) -> bool {
    matches!(char, '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// What tag characters spell, and what selectors do of which each stands for a byte.
pub(super) fn spelled(text: &str) -> Vec<Derived> {
    if text.is_ascii() {
        return Vec::new();
    }
    let spelled = |read: fn(char) -> Option<u8>| {
        let mut out = Derived::with_room_for(64);
        for (at, char) in text.char_indices() {
            let printable = read(char).map(char::from).filter(|char| char.is_ascii_graphic() || *char == ' ');
            if let Some(char) = printable {
                out.push(char, at);
            }
        }
        out.mark(text.len());
        out
    };
    let both = [spelled(of_tag), spelled(of_selector)];
    both.into_iter().filter(|spelled| spelled.text.len() > 3).collect()
}

fn of_tag(char: char) -> Option<u8> {
    u32::from(char).checked_sub(0xe0000).and_then(|code| u8::try_from(code).ok()).filter(|byte| *byte < 0x80)
}

fn of_selector(char: char) -> Option<u8> {
    let code = u32::from(char);
    let byte = match code {
        0xfe00..=0xfe0f => code.checked_sub(0xfe00),
        0xe0100..=0xe01ef => code.checked_sub(0xe0100).and_then(|code| code.checked_add(16)),
        _ => None,
    };
    byte.and_then(|byte| u8::try_from(byte).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Vec<(&'static str, Range<usize>)> {
        let mut found = Vec::new();
        look(text, &mut |rule, range| found.push((rule, range)));
        found
    }

    #[test]
    fn what_no_way_of_writing_needs_is_found() {
        for (text, rule, range) in [
            ("a\u{200b}b", "hidden_zero_width", 1..4),
            ("a\u{200d}b", "hidden_zero_width", 1..4),
            ("ab\u{feff}c", "hidden_zero_width", 2..5),
            ("می\u{200c}\u{200c}خواهم", "hidden_zero_width", 7..10),
            ("pay \u{202e}001", "hidden_direction", 4..7),
            ("left \u{200f} right", "hidden_direction", 5..8),
            ("a\u{e0041}\u{e0042}", "hidden_tags", 1..9),
            ("☺\u{fe0f}\u{fe0f}", "hidden_selectors", 6..9),
            ("a\u{fe0f}", "hidden_selectors", 1..4),
            ("\u{e000}", "hidden_private", 0..3),
            ("\u{1b}[31m", "hidden_control", 0..1),
            ("a\u{9b}", "hidden_control", 1..3),
            ("\u{3164}", "hidden_zero_width", 0..3),
            ("o\u{300}\u{301}\u{302}\u{303}\u{304}\u{305}\u{306}\u{307}", "hidden_marks", 13..17),
        ] {
            assert_eq!(rules(text), [(rule, range)], "{text:?}");
        }
    }

    #[test]
    fn what_languages_and_pictures_need_is_not() {
        for text in [
            "می\u{200c}خواهم",
            "क्\u{200d}ष",
            "שלום\u{200f}! (1)\u{200e}",
            "ภาษา\u{200b}ไทย 日本\u{200b}語",
            "👩\u{200d}💻 ❤\u{fe0f} 1\u{fe0f}\u{20e3} ©\u{fe0f}",
            "🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
            "\u{feff}name,id\r\n\ta\u{c}b",
            "Donau\u{ad}dampf\u{ad}schiff",
            "葛\u{e0100}城市",
            "Việt Nam, e\u{301}\u{302}",
        ] {
            assert_eq!(rules(text), [], "{text:?}");
        }
    }

    #[test]
    fn what_tags_and_selectors_spell_is_read() {
        let tags: String = "hide".chars().filter_map(|c| char::from_u32(u32::from(c) + 0xe0000)).collect();
        assert_eq!(spelled(&format!("x{tags}"))[0].text, "hide");
        let selectors: String = "hide".bytes().filter_map(|b| char::from_u32(u32::from(b) - 16 + 0xe0100)).collect();
        assert_eq!(spelled(&format!("😀{selectors}"))[0].text, "hide");
        assert!(spelled("plain").is_empty());
    }
}
