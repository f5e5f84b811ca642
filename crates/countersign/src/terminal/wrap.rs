//! Lines for people on a terminal that is narrower than they are: broken between words, and indented where they go on.
//!
//! Only for a terminal: what a pipe carries stays one record a line. What stands between backticks is a command or a name to copy, and
//! is never broken.

use super::Stream;
use std::io::IsTerminal as _;

/// How far a line that goes on is indented, beyond its own indentation.
const INDENT: usize = 4;
/// Below this there is no room to wrap in.
const WIDTH_MIN: usize = 20;

/// The columns of the terminal behind a stream: what `COLUMNS` says, or else what the terminal says. `None` where there is none.
pub(super) fn width(stream: Stream) -> Option<usize> {
    let (is_terminal, size) = match stream {
        Stream::Out => (std::io::stdout().is_terminal(), rustix::termios::tcgetwinsize(std::io::stdout())),
        Stream::Err => (std::io::stderr().is_terminal(), rustix::termios::tcgetwinsize(std::io::stderr())),
    };
    let named = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let columns = named.or_else(|| size.ok().map(|size| usize::from(size.ws_col)));
    columns.filter(|columns| is_terminal && *columns >= WIDTH_MIN)
}

/// A text whose lines have at most so many columns, as far as its words allow.
pub(super) fn wrapped(text: &str, width: Option<usize>) -> String {
    let Some(width) = width else { return text.to_owned() };
    text.split('\n').map(|line| wrapped_line(line, width)).collect::<Vec<_>>().join("\n")
}

fn wrapped_line(line: &str, width: usize) -> String {
    if columns(line) <= width {
        return line.to_owned();
    }
    let own = line.len() - line.trim_start_matches(' ').len();
    let margin = " ".repeat((own + INDENT).min(width / 2));
    let (mut out, mut used) = (" ".repeat(own), own);
    let mut is_first = true;
    for (spaces, word) in words(line.trim_start_matches(' ')) {
        let long = columns(word);
        if !is_first && used + spaces + long > width {
            out.push('\n');
            out.push_str(&margin);
            used = margin.len();
        } else {
            out.push_str(&" ".repeat(spaces));
            used += spaces;
        }
        out.push_str(word);
        used += long;
        is_first = false;
    }
    out
}

/// The words of a line, each with how many spaces stand before it.
fn words(line: &str) -> Vec<(usize, &str)> {
    let (mut words, mut spaces, mut begins) = (Vec::new(), 0, None);
    let mut is_quoted = false;
    for (at, char) in line.char_indices() {
        is_quoted ^= char == '`';
        match (char == ' ' && !is_quoted, begins) {
            (true, Some(from)) => {
                words.push((spaces, line.get(from..at).unwrap_or_default()));
                (spaces, begins) = (1, None);
            }
            (true, None) => spaces += 1,
            (false, None) => begins = Some(at),
            (false, Some(_)) => {}
        }
    }
    if let Some(from) = begins {
        words.push((spaces, line.get(from..).unwrap_or_default()));
    }
    words
}

/// How many columns a text takes: colours take none.
fn columns(text: &str) -> usize {
    let (mut columns, mut is_colour) = (0, false);
    for char in text.chars() {
        match char {
            '\u{1b}' => is_colour = true,
            'm' if is_colour => is_colour = false,
            _ if is_colour => {}
            _ => columns += 1,
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_never_within_a_command() {
        let line = "rev_7  refund-1 does billing.refund, since 2026-11-16T08:21:39.246Z";
        let expected = "rev_7  refund-1 does billing.refund,\n    since 2026-11-16T08:21:39.246Z";
        assert_eq!(wrapped(line, Some(40)), expected);
        assert_eq!(wrapped(line, None), line);
        let hint = "  hint: run `countersign review approve rev_7 --yes` to go on";
        assert_eq!(
            wrapped(hint, Some(40)),
            "  hint: run\n      `countersign review approve rev_7 --yes`\n      to go on"
        );
        assert_eq!(wrapped("a\n\nb", Some(20)), "a\n\nb");
    }

    #[test]
    fn colours_take_no_room() {
        let line = "\u{1b}[1;31mhalted\u{1b}[0m agent:refund-1 now";
        assert_eq!(wrapped(line, Some(25)), line);
    }
}
