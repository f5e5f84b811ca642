//! A form of a text in which a reviewer can read it: nothing hidden, nothing turned, no look-alike that passes, no secret.

use super::Suspicion;
use super::visible::{marked, one_line, push_spelled};
use std::ops::Range;

/// The text on one line, cut to so many bytes: hidden characters and look-alikes as `\u{…}`, secrets as `[secret_card: 19 bytes]`.
pub(super) fn safe(text: &str, places: &[(Suspicion, &'static str, Range<usize>)], bytes_max: usize) -> String {
    let secrets = merged(places);
    let mut secrets = secrets.iter().peekable();
    let mut alike: Vec<&Range<usize>> =
        places.iter().filter(|(suspicion, ..)| *suspicion != Suspicion::Secret).map(|(.., range)| range).collect();
    alike.sort_by_key(|range| (range.start, range.end));
    let mut alike = alike.into_iter().peekable();
    let mut out = Bounded::new(text.len().min(bytes_max), bytes_max);
    let (mut at, mut masked_until) = (0_usize, 0_usize);
    for (char, is_hidden) in marked(text) {
        let here = at;
        at = at.saturating_add(char.len_utf8());
        while alike.next_if(|range| range.end <= here).is_some() {}
        if let Some((rule, range)) = secrets.next_if(|(_, range)| range.start <= here) {
            let from = range.start.max(masked_until);
            out.add(&format!("[{rule}: {} bytes]", range.end.saturating_sub(from)));
            masked_until = range.end;
        }
        if here < masked_until {
            continue;
        }
        let is_alike = !char.is_ascii() && alike.peek().is_some_and(|range| range.contains(&here));
        let is_kept = if is_alike { out.add(&char.escape_unicode().to_string()) } else { out.spell(char, is_hidden) };
        if !is_kept {
            break;
        }
    }
    // A joiner may have lost the picture beside it.
    if marked(&out.text).any(|(_, is_hidden)| is_hidden) { one_line(&out.text, bytes_max) } else { out.text }
}

/// The secrets in order, those that overlap as one.
fn merged(places: &[(Suspicion, &'static str, Range<usize>)]) -> Vec<(&'static str, Range<usize>)> {
    let secrets = places.iter().filter(|(suspicion, ..)| *suspicion == Suspicion::Secret);
    let mut secrets: Vec<_> = secrets.map(|(_, rule, range)| (*rule, range.clone())).collect();
    secrets.sort_by_key(|(_, range)| (range.start, range.end));
    let mut merged: Vec<(&'static str, Range<usize>)> = Vec::with_capacity(secrets.len());
    for (rule, range) in secrets {
        match merged.last_mut() {
            Some((_, last)) if range.start < last.end => last.end = last.end.max(range.end),
            _ => merged.push((rule, range)),
        }
    }
    merged
}

/// A text that is cut where it gets too long.
struct Bounded {
    text: String,
    bytes_max: usize,
    /// Up to where there would still be room for a sign that something was cut.
    whole_until: usize,
}

impl Bounded {
    fn new(room: usize, bytes_max: usize) -> Self {
        Self { text: String::with_capacity(room), bytes_max, whole_until: 0 }
    }

    fn add(&mut self, part: &str) -> bool {
        self.text.push_str(part);
        self.checked()
    }

    fn spell(&mut self, char: char, is_hidden: bool) -> bool {
        push_spelled(&mut self.text, char, is_hidden);
        self.checked()
    }

    /// Whether it still fits; what does not is cut, and `…` says so.
    fn checked(&mut self) -> bool {
        let room = self.bytes_max.saturating_sub('…'.len_utf8());
        if self.text.len() <= room {
            self.whole_until = self.text.len();
        } else if self.text.len() > self.bytes_max {
            self.text.truncate(self.whole_until);
            if self.bytes_max >= '…'.len_utf8() {
                self.text.push('…');
            }
            return false;
        }
        true
    }
}
