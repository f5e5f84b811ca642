//! Lists of tools: a client is shown the tools that an operator has approved as they are, and no others. What was never shown to
//! a model cannot mislead it.

use super::calls::Verdict;
use super::gather::Gather;
use super::{Purpose, Session};
use crate::mcp::Gateway;
use crate::mcp::delivery::Delivery;
use crate::mcp::gate::Approval;
use crate::mcp::gated::continue_tool;
use crate::mcp::message::{INVALID_PARAMS, Members, Message, Raw, raw};
use crate::mcp::settings::SEPARATOR;
use crate::mcp::tool::Tool;
use std::sync::Arc;

impl Session {
    /// The client lists something. The gateway asks for all pages itself and gives them at once: a cursor would be a text of the
    /// client's own that a server reads and no entry has, and so would anything else in the params.
    pub(super) async fn list(&mut self, id: Raw, message: &Message) {
        let params = message.params_members().unwrap_or_default();
        if params.get("cursor").is_some_and(|cursor| cursor.get() != "null") {
            let why = "no list has a page with this cursor: the gateway gives all pages at once";
            return self.answer_error(&id, INVALID_PARAMS, why).await;
        }
        let gather = self.next_id();
        let slots = 0..self.slots.len();
        self.gathers.insert(gather, Gather::for_list(slots.clone(), id, message));
        for slot in slots {
            let list = Message::request(0, &message.method, self.list_params(gather, None));
            self.forward(slot, list, Purpose::Gather { gather }).await;
        }
    }

    /// Shows of these tools what is approved, once the gate has said what is.
    pub(super) fn show(&mut self, tools: Vec<(String, Vec<Tool>)>, mut result: Members, mut answer: Message) {
        let namespaced = self.is_namespaced();
        self.showing += 1;
        let (gateway, verdicts) = (Arc::clone(&self.gateway), self.verdicts.clone());
        tokio::spawn(async move {
            let shown = tokio::task::spawn_blocking(move || {
                let mut all: Vec<Raw> = Vec::new();
                let mut may_go_on = false;
                for (upstream, tools) in &tools {
                    let shown = shown(&gateway, upstream, tools, namespaced);
                    // Only where there are calls that may not be over at once.
                    may_go_on |= !shown.is_empty() && gateway.gate.makes_calls_of(upstream);
                    all.extend(shown);
                }
                let messages = gateway.gate.message_tools();
                all.extend((may_go_on || !messages.is_empty()).then(continue_tool));
                all.extend(messages);
                result.set("tools", raw(&all));
                answer.set_result(result.to_raw());
                answer
            });
            let _ = verdicts.send(Verdict::Shown(shown.await.ok())).await;
        });
    }

    /// Lists the tools of an upstream because a call names one that is not known yet.
    pub(super) async fn list_for_call(&mut self, slot: usize, id: Raw, call: Message, delivery: Arc<Delivery>) {
        let gather = self.next_id();
        self.gathers.insert(gather, Gather::for_call(slot, id, call, delivery));
        let list = Message::request(0, "tools/list", self.list_params(gather, None));
        self.forward(slot, list, Purpose::Gather { gather }).await;
    }

    /// The params of a list that the gateway itself asks for: those that say what the client is, and where the page begins.
    pub(super) fn list_params(&self, gather: u64, cursor: Option<Raw>) -> Option<Raw> {
        let meta = self.gathers.get(&gather).and_then(Gather::meta);
        let mut params = Members::default();
        if let Some(meta) = meta {
            params.set("_meta", meta);
        }
        if let Some(cursor) = cursor {
            params.set("cursor", cursor);
        }
        Some(params.to_raw())
    }
}

fn shown(gateway: &Gateway, upstream: &str, tools: &[Tool], namespaced: bool) -> Vec<Raw> {
    let approvals = match gateway.gate.approvals(upstream, tools) {
        Ok(approvals) => approvals,
        Err(error) => {
            gateway.note_once(format!("no tool of `{upstream}` is shown, because the gate cannot be asked: {error}"));
            return Vec::new();
        }
    };
    let mut shown = Vec::new();
    for (tool, approval) in tools.iter().zip(approvals) {
        let why = match (&tool.unfit, approval) {
            (Some(why), _) => why.clone(),
            (None, Approval::Changed) => "its definition has changed since it was approved".to_owned(),
            (None, Approval::Missing) => "it is not approved".to_owned(),
            (None, Approval::AsItIs) if namespaced => {
                shown.push(tool.renamed(&format!("{upstream}{SEPARATOR}{}", tool.name)));
                continue;
            }
            (None, Approval::AsItIs) => {
                shown.push(tool.raw());
                continue;
            }
        };
        gateway.note_once(format!("the tool {upstream}/{} is not shown: {why}", tool.name));
    }
    if shown.len() < tools.len() {
        gateway
            .note_once(format!("hint: read the tools of `{upstream}` and approve them with `countersign mcp approve`"));
    }
    shown
}

/// The cursor of the next page, where there is one.
pub fn next_cursor(result: &Members) -> Option<Raw> {
    result.get("nextCursor").filter(|cursor| cursor.get() != "null").map(ToOwned::to_owned)
}
