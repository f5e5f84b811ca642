//! A form of a text in which a reviewer can read it: nothing hidden, nothing turned, no look-alike that passes, no secret.

use super::known::merged;
use super::visible::{marked, one_line, push_spelled};
use std::ops::Range;

/// The text on one line, cut to so many bytes: hidden characters and look-alikes as `\u{…}`, secrets as `[secret_card: 19 bytes]`.
pub(super) fn safe(
    text: &str,
    mut secrets: Vec<(&'static str, Range<usize>)>,
    alike: Vec<Range<usize>>,
    bytes_max: usize,
) -> String {
    secrets.sort_by_key(|(_, range)| (range.start, range.end));
    let (mut secrets, mut alike) = (secrets.into_iter().peekable(), merged(alike).into_iter().peekable());
    let mut out = String::with_capacity(text.len().min(bytes_max));
    let (mut at, mut masked_until) = (0_usize, 0_usize);
    for (char, is_hidden) in marked(text) {
        let here = at;
        at = at.saturating_add(char.len_utf8());
        while alike.next_if(|range| range.end <= here).is_some() {}
        if let Some((rule, range)) = secrets.next_if(|(_, range)| range.start <= here) {
            masked_until = range.end.max(masked_until);
            // What overlaps is one secret.
            while let Some((_, next)) = secrets.next_if(|(_, next)| next.start < masked_until) {
                masked_until = next.end.max(masked_until);
            }
            out.push_str(&format!("[{rule}: {} bytes]", masked_until.saturating_sub(range.start)));
        }
        if here < masked_until {
            continue;
        }
        let is_alike = !char.is_ascii() && alike.peek().is_some_and(|range| range.contains(&here));
        push_spelled(&mut out, char, is_hidden || is_alike);
        // What follows would be cut.
        if out.len() > bytes_max {
            break;
        }
    }
    // Cuts, and spells out a joiner that lost the picture beside it.
    one_line(&out, bytes_max)
}
