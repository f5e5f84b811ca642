//! Findings of letters that stand for others: a Cyrillic `а` in a Latin word, a whole name in Cyrillic before `.com`, digits of two
//! systems in one number, letters that are mathematical signs.
//!
//! What looks like what is the data of Unicode (UTS 39), by `unicode-security`. Words of one script are no finding in any script, mixed
//! words neither as long as no letter is mistaken for another (`PDFки`, `kΩ`, `iPhone手机`).

use std::ops::Range;
use std::sync::LazyLock;
use unicode_script::{Script, UnicodeScript as _};
use unicode_security::skeleton;

/// Shorter words of two scripts are units and formulas more often than names.
const LETTERS_MIN: usize = 4;
/// From so many digits on, letters and digits are an account number.
const DIGITS_MIN: usize = 6;
/// So many letters that are signs are a word.
const STYLED_MIN: usize = 4;

/// The blocks in which such letters are: later Latin, Greek, Cyrillic, Armenian, Cherokee and others; Lisu, Cherokee again. Hebrew and
/// Arabic are not among them, whose letters look like strokes and rings and are prefixes of Latin words, and neither are ideographs.
const BLOCKS: [Range<u32>; 3] = [0x250..0x590, 0x900..0x3000, 0xa000..0xac00];
/// All of them, looked up once.
static LOOKALIKES: LazyLock<Vec<Option<char>>> =
    LazyLock::new(|| BLOCKS.into_iter().flatten().map(|code| char::from_u32(code).and_then(by_skeleton)).collect());

/// The letter or digit of ASCII that a character of another script looks like.
pub(super) fn ascii_lookalike(char: char) -> Option<char> {
    let mut before = 0_u32;
    for block in BLOCKS {
        if block.contains(&u32::from(char)) {
            let at = before.saturating_add(u32::from(char).saturating_sub(block.start));
            return LOOKALIKES.get(usize::try_from(at).ok()?).copied().flatten();
        }
        before = before.saturating_add(block.end.saturating_sub(block.start));
    }
    None
}

fn by_skeleton(char: char) -> Option<char> {
    if !char.is_alphabetic() {
        return None;
    }
    let mut buffer = [0; 4];
    let mut looks = skeleton(char.encode_utf8(&mut buffer));
    let first = looks.next().filter(char::is_ascii_alphanumeric)?;
    looks.next().is_none().then_some(first)
}

/// Tells of every word with look-alikes: the rule and the place.
pub(super) fn look(text: &str, tell: &mut impl FnMut(&'static str, Range<usize>)) {
    if text.is_ascii() {
        return;
    }
    let is_between = |char: char| char.is_whitespace() || "\"'`<>()[]{}|,;“”„«»‘’".contains(char);
    let mut at = 0_usize;
    for token in text.split(is_between) {
        if !token.is_ascii() {
            look_at_token(token, at, tell);
        }
        let end = at.saturating_add(token.len());
        let gap = text.get(end..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
        at = end.saturating_add(gap);
    }
}

fn look_at_token(token: &str, at: usize, tell: &mut impl FnMut(&'static str, Range<usize>)) {
    let has_latin = token.chars().any(|char| char.is_ascii_alphabetic());
    let is_address = has_latin && token.contains(['.', '@']);
    let mut is_told = false;
    for (begins, word) in words(token) {
        let rule = Word::of(word).rule(is_address);
        if let Some(rule) = rule {
            let from = at.saturating_add(begins);
            tell(rule, from..from.saturating_add(word.len()));
            is_told = true;
        }
    }
    if !is_told && let Some((begins, len)) = separator(token) {
        let from = at.saturating_add(begins);
        tell("lookalike_separator", from..from.saturating_add(len));
    }
}

/// The words of a token that hold more than ASCII, with where they begin.
fn words(token: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part =
        |char: char| char == '_' || char.is_alphanumeric() || unicode_normalization::char::is_combining_mark(char);
    let mut at = 0_usize;
    let parts = token.split(move |char: char| !is_part(char)).map(move |word| {
        let begins = at;
        let end = at.saturating_add(word.len());
        let gap = token.get(end..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
        at = end.saturating_add(gap);
        (begins, word)
    });
    parts.filter(|(_, word)| !word.is_ascii())
}

/// A sign between two names that looks like the dot or the slash of an address.
fn separator(token: &str) -> Option<(usize, usize)> {
    let is_sign = |char: char| {
        matches!(
            char,
            '\u{2024}'
                | '\u{2044}'
                | '\u{2215}'
                | '\u{29f8}'
                | '\u{fe52}'
                | '\u{ff0e}'
                | '\u{ff0f}'
                | '\u{3002}'
                | '\u{ff61}'
        )
    };
    let (at, sign) = token.match_indices(is_sign).find(|(at, sign)| {
        let before = token.get(..*at).unwrap_or_default();
        let after = token.get(at.saturating_add(sign.len())..).unwrap_or_default();
        let ends = |letters: Option<char>| letters.is_some_and(|char| char.is_ascii_alphabetic());
        ends(before.chars().next_back()) && ends(after.chars().next())
    })?;
    Some((at, sign.len()))
}

/// What stands in a word, by number.
#[derive(Default)]
struct Word {
    latin: usize,
    digits: usize,
    /// Letters of scripts that have look-alikes of Latin ones, and how many of them are such.
    others: usize,
    lookalikes: usize,
    /// Letters that are no letter of any language.
    styled: usize,
    wide: usize,
    other_digits: usize,
}

impl Word {
    fn of(word: &str) -> Self {
        let mut counted = Self::default();
        for char in word.chars() {
            let count = match char {
                'a'..='z' | 'A'..='Z' => &mut counted.latin,
                '0'..='9' => &mut counted.digits,
                '\u{ff21}'..='\u{ff3a}' | '\u{ff41}'..='\u{ff5a}' => &mut counted.wide,
                '\u{1d400}'..='\u{1d7cb}' | '\u{24b6}'..='\u{24e9}' | '\u{1f110}'..='\u{1f189}' => &mut counted.styled,
                _ if is_other_digit(char) => &mut counted.other_digits,
                _ if ascii_lookalike(char).is_some() => {
                    counted.lookalikes = counted.lookalikes.saturating_add(1);
                    &mut counted.others
                }
                _ if char.is_alphabetic() && char.script() != Script::Latin => &mut counted.others,
                _ => continue,
            };
            *count = count.saturating_add(1);
        }
        counted
    }

    fn rule(&self, is_address: bool) -> Option<&'static str> {
        let all_alike = self.lookalikes > 0 && self.lookalikes == self.others;
        let letters = self.latin.saturating_add(self.others);
        if all_alike && self.digits >= DIGITS_MIN {
            return Some("lookalike_account");
        }
        if all_alike && is_address && letters > 1 {
            return Some("lookalike_address");
        }
        if all_alike && self.latin > 0 && letters >= LETTERS_MIN {
            return Some("lookalike_word");
        }
        if self.digits > 0 && self.other_digits > 0 {
            return Some("lookalike_digits");
        }
        let is_styled = self.styled >= STYLED_MIN || self.styled > 0 && self.latin > 0;
        let is_wide = self.wide > 0 && self.latin > 0 && self.latin.saturating_add(self.wide) >= LETTERS_MIN;
        (is_styled || is_wide).then_some("lookalike_styled")
    }
}

/// Digits of other systems, and those that are signs.
fn is_other_digit(char: char) -> bool {
    let is_digit =
        matches!(char, '\u{660}'..='\u{669}' | '\u{6f0}'..='\u{6f9}' | '\u{966}'..='\u{96f}' | '\u{9e6}'..='\u{9ef}');
    is_digit || matches!(char, '\u{e50}'..='\u{e59}' | '\u{ff10}'..='\u{ff19}' | '\u{1d7ce}'..='\u{1d7ff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Vec<(&'static str, &str)> {
        let mut found = Vec::new();
        look(text, &mut |rule, range| found.push((rule, text.get(range).unwrap())));
        found
    }

    #[test]
    fn letters_that_stand_for_others_are_found() {
        for (text, rule, word) in [
            ("log in at pаypal now", "lookalike_word", "pаypal"),
            ("https://pаypal.com/login", "lookalike_address", "pаypal"),
            ("аррӏе.com", "lookalike_address", "аррӏе"),
            ("me@exаmple.com", "lookalike_address", "exаmple"),
            ("DЕ89370400440532013000", "lookalike_account", "DЕ89370400440532013000"),
            ("get_bаlance()", "lookalike_word", "get_bаlance"),
            ("no 4٢001", "lookalike_digits", "4٢001"),
            ("𝓹𝓪𝔂𝓹𝓪𝓵", "lookalike_styled", "𝓹𝓪𝔂𝓹𝓪𝓵"),
            ("ＰayＰal", "lookalike_styled", "ＰayＰal"),
            ("bank\u{2024}com", "lookalike_separator", "\u{2024}"),
            ("a.example\u{2215}login", "lookalike_separator", "\u{2215}"),
        ] {
            assert_eq!(rules(text), [(rule, word)], "{text}");
        }
    }

    #[test]
    fn words_of_one_script_and_ordinary_mixtures_are_not() {
        for text in [
            "PDFки и USB-кабель, сайт пример.рф, оса",
            "münchen.de, zoë@café.fr, Łódź.pl",
            "Δt = 5 ms, kΩ, 20 µm, αβ, E = mc², 10⁻³",
            "iPhone手机, API를, Pythonスクリプト, ＦＵＬＬ",
            "τα νέα, Ελλάδα, сосна",
            "١٢٣ and 456, ½ and/or 1⁄2",
            "x ∈ ℝ, 𝑥 + 𝑦",
            "İstanbul'daki ışık",
        ] {
            assert_eq!(rules(text), [], "{text}");
        }
    }
}
