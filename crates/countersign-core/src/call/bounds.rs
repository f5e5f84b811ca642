//! How much of a call an entry holds. What the other side answers is of any length, and a payload is not: whatever goes into an
//! entry is cut, or counted, here.

use super::{Evidence, Send};
use crate::limits::{RESULT_BYTES_MAX, SUMMARY_BYTES_MAX};
use crate::record::Judged;
use crate::value::{Attributes, Value};
use serde_json::Value as Json;

/// A control character takes six bytes in JSON.
const ESCAPED_BYTES: usize = 6;
/// What the names of members, numbers and brackets around a part take at most.
const AROUND_BYTES: usize = 256;

/// A text on one line, of so many bytes at most. Control characters, and those that turn the direction of what follows, are escaped: the
/// text is shown in terminals and logs, and others wrote it.
pub fn one_line(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max && !text.contains(is_odd) {
        return text.to_owned();
    }
    let room = bytes_max.saturating_sub('…'.len_utf8());
    let mut out = String::with_capacity(text.len().min(bytes_max));
    let mut whole_until = 0;
    for char in text.chars() {
        match is_odd(char) {
            true => out.extend(char.escape_default()),
            false => out.push(char),
        }
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

fn is_odd(char: char) -> bool {
    let turns = matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || char.is_control() || matches!(char, '\u{2028}' | '\u{2029}')
}

impl Evidence {
    /// The same within what an entry keeps, whatever an adapter put into it.
    #[must_use]
    pub fn bounded(self) -> Self {
        let too_long = self.result.as_ref().map(String::len).filter(|bytes| *bytes > RESULT_BYTES_MAX);
        Self {
            found: Box::new(self.found.bounded()),
            unkept: self.unkept.or(too_long.map(|bytes| bytes as u64)),
            result: self.result.filter(|_| too_long.is_none()),
            is_cut: self.is_cut && too_long.is_none(),
            receipt: self.receipt.map(|receipt| one_line(&receipt, SUMMARY_BYTES_MAX)),
            ..self
        }
    }
}

impl Send {
    /// How many bytes it has in a payload at the most, without writing it.
    pub fn bytes_bound(&self) -> usize {
        let around = |bytes: usize| bytes.saturating_add(AROUND_BYTES);
        match self {
            Self::Http { method, path, body } => {
                around(escaped(method).saturating_add(escaped(path)).saturating_add(body.as_ref().map_or(0, json)))
            }
            Self::Command { args } => args.iter().map(|arg| escaped(arg)).fold(AROUND_BYTES, usize::saturating_add),
            Self::Sql { statements } => {
                let statement = |sql: &str, params: &[Value]| {
                    let params = params.iter().map(|param| param.bytes_bound().saturating_add(1));
                    around(params.fold(escaped(sql), usize::saturating_add))
                };
                let statements = statements.iter().map(|each| statement(&each.sql, &each.params));
                statements.fold(AROUND_BYTES, usize::saturating_add)
            }
            Self::Tool { tool, arguments, .. } => around(escaped(tool).saturating_add(json(arguments))),
        }
    }
}

impl Judged {
    /// How many bytes what was read and sent has in a payload at the most, without writing it.
    pub fn bytes_bound(&self) -> usize {
        let fact = |(fact, value): &(crate::ids::FactId, Option<Attributes>)| {
            let value = value.as_ref().map_or(4, Attributes::bytes_bound);
            fact.id().len().saturating_mul(4).saturating_add(value).saturating_add(AROUND_BYTES)
        };
        let facts = self.facts.iter().map(fact).fold(AROUND_BYTES, usize::saturating_add);
        facts.saturating_add(self.send.as_ref().map_or(0, Send::bytes_bound))
    }
}

fn escaped(text: &str) -> usize {
    text.len().saturating_mul(ESCAPED_BYTES).saturating_add(3)
}

fn json(value: &Json) -> usize {
    match value {
        Json::Null | Json::Bool(_) => 6,
        Json::Number(_) => 32,
        Json::String(text) => escaped(text),
        Json::Array(items) => items.iter().map(json).fold(3, usize::saturating_add),
        Json::Object(members) => {
            let member = |(name, value): (&String, &Json)| escaped(name).saturating_add(json(value)).saturating_add(1);
            members.iter().map(member).fold(3, usize::saturating_add)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::FoundCode;

    #[test]
    fn what_another_side_says_is_one_line_of_bounded_length() {
        assert_eq!(one_line("plain – text", 1024), "plain – text");
        assert_eq!(one_line("a\nhint: b\u{1b}[2J\u{202e}c", 1024), "a\\nhint: b\\u{1b}[2J\\u{202e}c");
        assert_eq!(one_line("abcdef", 6), "abcdef");
        assert_eq!(one_line("abcdefg", 6), "abc…");
        assert_eq!(one_line("ääää", 6), "ä…");
        assert_eq!(one_line("\n\n\n\n", 6), "\\n…");
        for max in 3..40 {
            let line = one_line(&"a\u{0}ä".repeat(20), max);
            assert!(line.len() <= max && line.ends_with('…'), "{max}: {line}");
            assert_eq!(one_line(&line, max), line);
        }
    }

    #[test]
    fn evidence_of_any_length_is_bounded() {
        let long = "\u{1}".repeat(17_000_000);
        let found = FoundCode::NoAnswer.said(&*long);
        let evidence = Evidence { result: Some(long.clone()), receipt: Some(long.clone()), ..Evidence::of(found) };
        assert!(evidence.found.said.as_ref().is_some_and(|said| said.len() <= SUMMARY_BYTES_MAX));
        let evidence = evidence.bounded();
        assert_eq!((evidence.result.as_deref(), evidence.unkept), (None, Some(17_000_000)));
        assert!(evidence.receipt.as_ref().is_some_and(|receipt| receipt.len() <= SUMMARY_BYTES_MAX));
        let mut out = crate::canonical::Canonical::new();
        evidence.write(&mut out);
        assert!(out.as_str().len() < 16_384);
        assert_eq!(evidence.clone().bounded(), evidence);
    }
}
