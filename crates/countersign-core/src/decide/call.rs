//! Rendering a call: from the pact's rule, the parameters and the facts, to exactly what is sent.

use super::{Deciding, Snapshot, Stage};
use crate::action::Action;
use crate::call::{Call, EffectId, ExternalHow, ExternalRead, OnError, Probe, Send, Statement, external_key};
use crate::decimal;
use crate::decision::{Dispatched, InFlight, RestsOn, Write};
use crate::expression::{EvalError, Expression, Inputs};
use crate::ids::FactId;
use crate::json::parse_answer;
use crate::limits::CALL_TEXT_BYTES_MAX;
use crate::pact::{BodyRule, CallRule, FactSource, IdPart, SendRule, SourceRead, TextPart};
use crate::reason::{EffectProblem, Reason};
use crate::value::Value;
use serde_json::{Map, Value as Json};
use smol_str::SmolStr;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

impl Deciding<'_> {
    /// What a call comes to at this stage.
    pub(super) fn in_flight(
        &self,
        rule: &CallRule,
        writes: Vec<Write>,
        inputs: &Inputs<'_>,
    ) -> Result<InFlight, Reason> {
        if self.is_intent() && self.snapshot.effects_at_capacity(&self.action.agent) {
            return Err(Reason::TooManyEffects);
        }
        // What rests on readings is decided again once they were read again.
        if self.is_intent() && (rule.after_ms > 0 || self.kind.guard.is_some()) {
            return Ok(InFlight::Cooling { dispatch_at_ms: self.now_ms.saturating_add(rule.after_ms) });
        }
        let outside = self.outside();
        let is_known = outside.is_empty() || self.is_judgement();
        let probe = rule.probe.as_ref().map(|probe| {
            let send = self.send(&probe.send, inputs)?;
            Ok(Probe { send, absent_after_ms: probe.absent_after_ms, at: probe.at.clone() })
        });
        let call = Call {
            adapter: self.adapter(rule)?,
            send: if is_known { Some(self.send(&rule.send, inputs)?) } else { None },
            timeout_ms: rule.timeout_ms,
            retries: rule.retries,
            deadline_ms: self.now_ms.saturating_add(rule.deadline_ms).min(self.fresh_until_ms()),
            probe: probe.transpose()?,
            undo: rule.undo.as_ref().map(|(undo, _)| undo.clone()),
            outside,
        };
        Ok(InFlight::Dispatched(Dispatched { call, fenced: self.fenced(), writes, rests_on: RestsOn::default() }))
    }

    /// The adapter that makes the call: the one that the pact names, or that a parameter does.
    fn adapter(&self, rule: &CallRule) -> Result<SmolStr, Reason> {
        match &rule.send {
            SendRule::AnyTool { server, .. } => self.text_param(server),
            _ => Ok(rule.adapter.clone()),
        }
    }

    fn text_param(&self, name: &str) -> Result<SmolStr, Reason> {
        match self.params.get(name) {
            Some(Value::String(text)) => Ok(text.clone()),
            _ => Err(invalid(EffectProblem::TextMissing)),
        }
    }

    /// The external facts, in the order in which they are read: by their ids, so that no two workers wait for each other.
    fn outside(&self) -> Vec<ExternalRead> {
        let reads = self.kind.reads.iter().zip(&self.reads);
        let outside = reads.filter_map(|(read, resolved)| Some((read.outside.as_ref()?, &resolved.id)));
        // An id that its source cannot have was refused when the fact was resolved.
        let mut outside: Vec<ExternalRead> = outside.filter_map(|(source, fact)| external_read(source, fact)).collect();
        outside.sort_by(|one, other| one.fact.cmp(&other.fact));
        outside.dedup();
        outside
    }

    fn send(&self, rule: &SendRule, inputs: &Inputs<'_>) -> Result<Send, Reason> {
        let send = match rule {
            SendRule::Http { method, path, body } => {
                Send::Http { method: method.clone(), path: self.path(path)?, body: self.body(body, inputs)? }
            }
            SendRule::Command { args } => Send::Command { args: self.args(args)? },
            SendRule::Sql { statements } => {
                let statement = |(sql, params): &(Arc<str>, Vec<_>)| {
                    let params = params.iter().map(|param: &Expression| param.value(inputs));
                    let params = params.collect::<Result<_, _>>().map_err(|error| not_computed(None, error))?;
                    Ok(Statement { sql: Arc::clone(sql), params })
                };
                Send::Sql { statements: statements.iter().map(statement).collect::<Result<_, Reason>>()? }
            }
            SendRule::Tool { tool, arguments, versions, fails_on_error } => {
                let mut arguments = self.body(arguments, inputs)?.unwrap_or_else(|| Json::Object(Map::new()));
                for version in versions {
                    let fact = self.reads.get(version.read).and_then(super::Resolved::live);
                    let value = fact.and_then(|fact| fact.value.as_ref()?.get(&version.attribute));
                    let (argument, attribute) = (&version.argument, &version.attribute);
                    let missing = || {
                        invalid(EffectProblem::NoVersion { argument: argument.clone(), attribute: attribute.clone() })
                    };
                    let value = value.ok_or_else(missing)?.to_json();
                    if let Some(arguments) = arguments.as_object_mut() {
                        arguments.insert(version.argument.to_string(), value);
                    }
                }
                let on_error = if *fails_on_error { OnError::Failed } else { OnError::InDoubt };
                Send::Tool { tool: tool.clone(), arguments, on_error }
            }
            SendRule::AnyTool { tool, arguments, .. } => {
                let (tool, arguments) = (self.text_param(tool)?, self.text_param(arguments)?);
                // Each number keeps its digits. What looks like the mark of one, and is none, would be sent as another value.
                let not_allowed = |_| invalid(EffectProblem::TextNotAllowed);
                let sent: Json =
                    serde_json::from_str(&arguments).map_err(|_| invalid(EffectProblem::TextNotAllowed))?;
                let arguments = parse_answer(&arguments).map_err(not_allowed)?;
                if !arguments.is_object() || decimal::has_mark(&sent) {
                    return Err(invalid(EffectProblem::TextNotAllowed));
                }
                // Its answer is the agent's to read, and no fact waits to be written. A tool that failed half-way says the same as
                // one that did nothing (I6).
                Send::Tool { tool, arguments, on_error: OnError::Over }
            }
        };
        Ok(send)
    }

    /// The arguments of a command. One that begins with something filled in must not begin with `-`, or a parameter could become an
    /// option; after a `--` of the pact's own there are no options.
    fn args(&self, rules: &[Vec<TextPart>]) -> Result<Vec<SmolStr>, Reason> {
        let is_literal = |arg: &[TextPart]| matches!(arg.first(), None | Some(TextPart::Literal(_)));
        let mut has_ended = false;
        let arg = |(at, arg): (usize, &Vec<TextPart>)| {
            let text = self.text(arg, Ok)?;
            if text.starts_with('-') && !is_literal(arg) && !has_ended {
                return Err(invalid(EffectProblem::LooksLikeOption { argument: at as u64 + 1 }));
            }
            has_ended = has_ended || (text == "--" && is_literal(arg));
            Ok(text.into())
        };
        rules.iter().enumerate().map(arg).collect()
    }

    fn body(&self, rule: &BodyRule, inputs: &Inputs<'_>) -> Result<Option<Json>, Reason> {
        match rule {
            BodyRule::None => Ok(None),
            BodyRule::Params => Ok(Some(self.action.params())),
            BodyRule::Members(members) => {
                let member = |(name, expression): &(SmolStr, Expression)| {
                    let value = expression.value(inputs).map_err(|error| not_computed(Some(name.clone()), error))?;
                    Ok((name.to_string(), value.to_json()))
                };
                let members = members.iter().map(member).collect::<Result<Map<_, _>, Reason>>()?;
                Ok(Some(Json::Object(members)))
            }
        }
    }

    fn path(&self, parts: &[TextPart]) -> Result<String, Reason> {
        self.text(parts, |value| {
            // What stands for a step up, or for nothing, would lead to another place.
            if value.is_empty() || value.chars().all(|c| c == '.') {
                return Err(invalid(EffectProblem::PathPart { value }));
            }
            Ok(percent_encoded(&value))
        })
    }

    /// The idempotency key that the outside is given.
    fn key(&self) -> Cow<'_, str> {
        let effect = match self.stage {
            Stage::Judgement(key) => return Cow::Borrowed(key),
            Stage::Dispatch(effect, _) => effect,
            // An effect has the number of the entry that begins it.
            Stage::Intent(_) => EffectId(self.snapshot.next_entry()),
        };
        Cow::Owned(external_key(self.snapshot.origin(), effect, &self.action.id))
    }

    fn text(&self, parts: &[TextPart], filled: impl Fn(String) -> Result<String, Reason>) -> Result<String, Reason> {
        let mut text = String::new();
        for part in parts {
            let value = match part {
                TextPart::Literal(literal) => {
                    text.push_str(literal);
                    continue;
                }
                TextPart::Key => {
                    text.push_str(&self.key());
                    continue;
                }
                TextPart::Param(name) => self.params.get(name),
                TextPart::Attribute { read, attribute } => {
                    let fact = self.reads.get(*read).and_then(super::Resolved::live);
                    fact.and_then(|fact| fact.value.as_ref()).and_then(|value| value.get(attribute))
                }
            };
            text.push_str(&filled(match value {
                Some(Value::String(value)) => value.to_string(),
                Some(Value::Long(number)) => number.to_string(),
                _ => return Err(invalid(EffectProblem::TextMissing)),
            })?);
        }
        if text.len() > CALL_TEXT_BYTES_MAX || text.chars().any(char::is_control) {
            return Err(invalid(EffectProblem::TextNotAllowed));
        }
        Ok(text)
    }
}

fn invalid(why: EffectProblem) -> Reason {
    Reason::EffectInvalid { why }
}

fn not_computed(name: Option<SmolStr>, error: EvalError) -> Reason {
    invalid(EffectProblem::Member { name, error })
}

/// How an external fact is read; `None` where its source has no fact of this id.
pub fn external_read(source: &FactSource, fact: &FactId) -> Option<ExternalRead> {
    let text = |parts: &[IdPart], id: &str| {
        parts.iter().fold(String::new(), |text, part| match part {
            IdPart::Literal(literal) => text + literal,
            IdPart::Id => text + id,
        })
    };
    let how = match &source.read {
        SourceRead::Query(query) => ExternalHow::Query(Arc::clone(query)),
        SourceRead::Path(parts) => ExternalHow::Path(text(parts, &percent_encoded(fact.id()))),
        SourceRead::Tool(source) => {
            let (arguments, key) = source.arguments_for(fact.id())?;
            let (tool, arguments, at) = (source.tool.clone(), Json::Object(arguments), source.at.clone());
            ExternalHow::Tool { tool, arguments, at, key }
        }
    };
    Some(ExternalRead { fact: fact.clone(), adapter: source.adapter.clone(), how })
}

/// Where an action calls, and which tool if it is one: as its pact names them, or one of its parameters does.
pub fn target(action: &Action, snapshot: &dyn Snapshot) -> Option<(SmolStr, Option<SmolStr>)> {
    let rule = snapshot.pact(&action.pact)?.actions.get(&action.action)?.call.as_ref()?;
    match &rule.send {
        SendRule::AnyTool { server, tool, .. } => {
            let params = action.params();
            let text = |name: &SmolStr| params.get(name.as_str())?.as_str().map(SmolStr::new);
            Some((text(server)?, text(tool)))
        }
        SendRule::Tool { tool, .. } => Some((rule.adapter.clone(), Some(tool.clone()))),
        _ => Some((rule.adapter.clone(), None)),
    }
}

/// A text as one segment of a path: everything but letters, digits and `-_~.` is escaped; a text of dots alone, all of it.
pub fn percent_encoded(text: &str) -> String {
    let is_dots = text.bytes().all(|byte| byte == b'.');
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => out.push(char::from(byte)),
            b'.' if !is_dots => out.push('.'),
            // Writing to a string cannot fail.
            _ => drop(write!(out, "%{byte:02X}")),
        }
        out
    })
}
