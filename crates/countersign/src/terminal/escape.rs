//! Text from elsewhere, made safe to look at.
//!
//! Names, parameters, reasons and answers of services are printed for people who decide on them. A control character moves the
//! cursor or hides a line, a bidirectional one turns the order of what is read. So every line for people is escaped here, the one
//! place that all of them pass, and JSON is escaped by JSON's own rules, which leaves its meaning alone.

pub use countersign_core::screen::visible::inline;
use countersign_core::screen::visible::{is_hidden, is_part_of_a_picture, marked};
use std::fmt::Write as _;
use std::sync::LazyLock;

/// What our own colours carry behind their escape character. It is drawn for each process, so nothing from elsewhere has it.
static MARK: LazyLock<Option<String>> = LazyLock::new(|| {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes.iter().fold(String::new(), |mark, byte| mark + &format!("{byte:02x}")))
});

/// A text in a colour of ours; as it is where there is no randomness to mark it with.
pub(super) fn coloured(code: &str, text: &str) -> String {
    match &*MARK {
        Some(mark) => format!("\u{1b}{mark}[{code}m{text}\u{1b}{mark}[0m"),
        None => text.to_owned(),
    }
}

/// Whether a character must not reach a terminal: what people would not see, and what writes over the line.
fn is_unsafe(before: Option<char>, char: char, after: Option<char>) -> bool {
    char == '\r' || (is_hidden(char) && !is_part_of_a_picture(before, char, after))
}

/// A text for people: what they would not see, or what would move what they see, is spelled out. Lines and tabs stay.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut before) = (text, None);
    while let Some(char) = rest.chars().next() {
        let after = rest.get(char.len_utf8()..).unwrap_or_default();
        let ours = MARK.as_deref().and_then(|mark| after.strip_prefix(mark)).filter(|_| char == '\u{1b}');
        rest = ours.unwrap_or(after);
        match (ours.is_some(), is_unsafe(before, char, rest.chars().next())) {
            (false, true) => out.extend(char.escape_unicode()),
            _ => out.push(char),
        }
        before = Some(char);
    }
    out
}

/// JSON with the same characters as JSON escapes. They can only stand in strings, so it still means the same.
pub(super) fn escaped_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for (char, is_hidden) in marked(json) {
        if !is_hidden && char != '\r' {
            out.push(char);
            continue;
        }
        for unit in char.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_move_or_hide_what_is_seen_is_spelled_out() {
        let cases = [
            ("plain – “text”, 日本語, עברית", "plain – “text”, 日本語, עברית"),
            ("two\nlines\tand a tab", "two\nlines\tand a tab"),
            ("a\u{1b}[2Jb\rc\u{7}", "a\\u{1b}[2Jb\\u{d}c\\u{7}"),
            ("a\u{9b}31mb\u{85}", "a\\u{9b}31mb\\u{85}"),
            ("pay \u{202e}0001\u{2066}", "pay \\u{202e}0001\\u{2066}"),
            ("a\u{e0041}b\u{200b}", "a\\u{e0041}b\\u{200b}"),
            // A reviewer must be able to tell these from `acme`.
            ("acme\u{200d} acme\u{200c}", "acme\\u{200d} acme\\u{200c}"),
            ("acme\u{fe0f} acme\u{fe0e}", "acme\\u{fe0f} acme\\u{fe0e}"),
            ("⚠\u{fe0f} 👩\u{200d}💻", "⚠\u{fe0f} 👩\u{200d}💻"),
        ];
        for (text, shown) in cases {
            assert_eq!(escaped(text), shown);
            assert_eq!(inline(text), shown.replace('\n', "\\n").replace('\t', "\\t"));
        }
        assert_eq!(inline("fine\n✓ committed\u{9b}K"), "fine\\n✓ committed\\u{9b}K");
    }

    #[test]
    fn our_own_colours_pass_and_copies_of_them_do_not() {
        assert_eq!(escaped(&coloured("1;31", "bad")), escaped(&coloured("1;31", "bad")));
        let shown = escaped(&format!("{} \u{1b}[1;32mgood\u{1b}[0m", coloured("1;31", "bad")));
        assert_eq!(shown, "\u{1b}[1;31mbad\u{1b}[0m \\u{1b}[1;32mgood\\u{1b}[0m");
    }

    #[test]
    fn json_means_the_same_as_before() {
        let value = serde_json::json!({"a\u{202e}": "\u{9b}31m\u{e0041}\u{1b}\n\"", "b": [1, "é"]});
        let shown = escaped_json(&value.to_string());
        assert!(!marked(&shown).any(|(_, is_hidden)| is_hidden), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
