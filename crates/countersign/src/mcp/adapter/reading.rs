//! Readings: what tools that only read answer, and what resources hold, for agents and to be compared.

use super::compared::Rules;
use super::{May, McpAdapter, OBSERVED_WITHIN, RESOURCE};
use crate::mcp::connection::Connection;
use crate::mcp::direct::NoAnswer;
use crate::mcp::gate::{AS_READ, SERVER_TYPE, tool_fact};
use crate::mcp::message::raw;
use countersign_core::call::{Found, FoundCode};
use countersign_core::ids::{FactId, FactType};
use countersign_core::session::Place;
use countersign_core::value::{Attributes, Value as FactValue};
use countersign_engine::outbox::ToolAnswer;
use serde_json::{Value, json};
use std::time::Instant;

impl McpAdapter {
    /// What a tool that was approved as one that only reads answers, or what a resource holds. An error that the server answers with is
    /// an answer; no answer is none.
    pub(super) fn read_place(&self, link: &Connection, place: &Place) -> Result<ToolAnswer, Found> {
        let until = Instant::now() + OBSERVED_WITHIN;
        let arguments: Value = serde_json::from_str(&place.arguments).map_err(|_| FoundCode::BadArguments.alone())?;
        let (answered, rules) = if place.tool == RESOURCE {
            if !self.may_be_used() {
                return Err(FoundCode::OnlyTools.about(&self.name));
            }
            let within = until.saturating_duration_since(Instant::now());
            let asked = link.request(RESOURCE, Some(raw(&arguments)), within, None);
            let answered = self.threads.handle.block_on(asked);
            (answered.map(|answer| answer.result_raw().map(|result| result.get().to_owned())), Rules::default())
        } else {
            self.check_approved(link, &place.tool, until, May::OnlyRead).map_err(NoAnswer::found)?;
            let rules = self.reading_rules(&place.tool)?;
            let answered = self.call(link, &place.tool, &arguments, None, until);
            (answered.map(|answered| Some(answered.text)), rules)
        };
        let answer = match answered {
            Ok(Some(answer)) => answer,
            Ok(None) => return Err(FoundCode::NotAnObject.alone()),
            // That there is no such resource is a reading: if there is one later, that is a change.
            Err(NoAnswer::Error { code, message }) if place.tool == RESOURCE => {
                json!({"error": {"code": code, "message": message}}).to_string()
            }
            Err(NoAnswer::Error { code, message }) => {
                let text = format!("error {code}: {message}");
                json!({"content": [{"type": "text", "text": text}], "isError": true}).to_string()
            }
            Err(error) => {
                self.unanswered(link, &error);
                return Err(error.found());
            }
        };
        if self.known().is_in(&answer) {
            return Err(FoundCode::HoldsSecret.alone());
        }
        let (compared, projection) = (rules.compared(&answer), rules.name());
        Ok(ToolAnswer { answer, compared, projection, connection: link.number })
    }

    /// Whether an operator lets agents use the server otherwise than by its tools.
    fn may_be_used(&self) -> bool {
        let fact = FactType::new(SERVER_TYPE).ok().and_then(|ty| FactId::new(ty, self.name.as_str()).ok());
        let value = fact.and_then(|fact| self.fact(&fact));
        let is_guarded = |value: &Attributes| value.get("guard") == Some(&FactValue::String(AS_READ.into()));
        value.is_some_and(|value| value.get("uses") == Some(&FactValue::Bool(true)) && is_guarded(&value))
    }

    /// What an operator said of the answers of a tool that only reads.
    pub(super) fn reading_rules(&self, tool: &str) -> Result<Rules, Found> {
        let value = tool_fact(&self.name, tool).ok().and_then(|fact| self.fact(&fact)).unwrap_or_default();
        let is_guarded = value.get("guard") == Some(&FactValue::String(AS_READ.into()));
        if value.get("read_only") != Some(&FactValue::Bool(true)) || !is_guarded {
            return Err(FoundCode::ToolNotRead.about(format!("{}/{tool}", self.name)));
        }
        let paths = |name: &str| match value.get(name) {
            Some(FactValue::Set(paths)) => {
                let path = |path: &FactValue| match path {
                    FactValue::String(path) => Some(path.clone()),
                    _ => None,
                };
                paths.iter().filter_map(path).collect()
            }
            _ => Vec::new(),
        };
        Ok(Rules { ignore: paths("ignore"), only: paths("only") })
    }
}
