//! How much of a call an entry holds. What the other side answers is of any length, and a payload is not: whatever goes into an
//! entry is cut, or counted, here.

use super::{Evidence, Send};
use crate::limits::{RESULT_BYTES_MAX, SUMMARY_BYTES_MAX};
use crate::record::Judged;
use crate::screen::visible::one_line;
use crate::value::{Attributes, Value};
use serde_json::Value as Json;

/// A control character takes six bytes in JSON.
const ESCAPED_BYTES: usize = 6;
/// What the names of members, numbers and brackets around a part take at most.
const AROUND_BYTES: usize = 256;

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
