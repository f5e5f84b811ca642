//! Questions to several upstreams, or for several pages, whose answers make one.

use super::lists::next_cursor;
use super::{Purpose, Session};
use crate::mcp::buffers::Held;
use crate::mcp::delivery::Delivery;
use crate::mcp::message::{Members, Message, Raw, UPSTREAM_FAILED, raw};
use crate::mcp::refusal::Refusal;
use crate::mcp::settings::SEPARATOR;
use crate::mcp::tool::Tool;
use crate::mcp::upstream::MESSAGE_BYTES_MAX;
use serde_json::json;
use std::sync::Arc;

/// A list of more pages than this is cut: a server that never comes to an end must not keep anyone waiting.
const PAGES_MAX: usize = 100;

/// What a request of a stateless revision must say of its client.
const META: [&str; 3] = [
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/clientCapabilities",
];

/// One such question.
pub struct Gather {
    parts: Vec<Part>,
    method: String,
    meta: Option<Raw>,
    then: Then,
}

struct Part {
    slot: usize,
    pages: Vec<Members>,
    bytes: usize,
    /// The room that its pages take.
    held: Option<Held>,
    error: Option<Raw>,
    done: bool,
}

enum Then {
    /// The client is answered.
    Answer { id: Raw },
    /// A call that waits to know what it calls goes on.
    Call {
        id: Raw,
        call: Message,
        /// Goes with its answer, from the moment that it came.
        delivery: Arc<Delivery>,
    },
}

impl Part {
    fn new(slot: usize) -> Self {
        Self { slot, pages: Vec::new(), bytes: 0, held: None, error: None, done: false }
    }
}

impl Gather {
    /// For the tools of one upstream, because of a call.
    pub fn for_call(slot: usize, id: Raw, call: Message, delivery: Arc<Delivery>) -> Self {
        let (meta, then) = (meta(&call), Then::Call { id, call, delivery });
        Self { parts: vec![Part::new(slot)], method: "tools/list".to_owned(), meta, then }
    }

    /// Nothing follows from it any more.
    pub fn cancel(self) {
        if let Then::Call { delivery, .. } = self.then {
            // The gate was not asked yet.
            delivery.tells_nothing();
        }
    }

    /// For a list of all these upstreams, which the client asked for.
    pub fn for_list(slots: std::ops::Range<usize>, id: Raw, list: &Message) -> Self {
        let parts = slots.map(Part::new).collect();
        Self { parts, method: list.method.clone(), meta: meta(list), then: Then::Answer { id } }
    }

    /// Whether a request of the client's waits for it, by the client's id.
    pub fn is_for(&self, id: &str) -> bool {
        let (Then::Answer { id: known } | Then::Call { id: known, .. }) = &self.then;
        known.get() == id
    }

    /// What says which client asks, in a stateless revision.
    pub fn meta(&self) -> Option<Raw> {
        self.meta.clone()
    }
}

/// Of the `_meta` of a request of a stateless revision, what says which client asks, and in which revision.
fn meta(message: &Message) -> Option<Raw> {
    message.stateless_revision()?;
    let meta = message.params_members().ok()?.object("_meta")?;
    let mut kept = Members::default();
    for name in META {
        if let Some(value) = meta.get(name) {
            kept.set(name, value.to_owned());
        }
    }
    Some(kept.to_raw())
}

impl Session {
    /// Asks every upstream, and answers the client with what they say together.
    pub(super) async fn spread(&mut self, id: Raw, message: Message) {
        if !self.is_namespaced() {
            return self.forward(0, message, Purpose::Relay { id }).await;
        }
        let gather = self.next_id();
        let parts = (0..self.slots.len()).map(Part::new).collect();
        let meta = meta(&message);
        self.gathers.insert(gather, Gather { parts, method: message.method.clone(), meta, then: Then::Answer { id } });
        for slot in 0..self.slots.len() {
            self.forward(slot, message.clone(), Purpose::Gather { gather }).await;
        }
    }

    /// One of the answers.
    pub(super) async fn gathered(&mut self, gather: u64, slot: usize, answer: Message) {
        let Some(found) = self.gathers.get_mut(&gather) else { return };
        let method = found.method.clone();
        let Some(part) = found.parts.iter_mut().find(|part| part.slot == slot) else { return };
        let mut cursor = None;
        join(&mut part.held, answer.held.clone());
        part.bytes += answer.result_raw().map_or(0, |result| result.get().len());
        match answer.result_raw().map(|result| Members::parse(result.get())) {
            Some(_) if part.bytes > MESSAGE_BYTES_MAX => {
                part.error = Some(raw(&json!({"code": UPSTREAM_FAILED, "message": "its list is too long"})));
            }
            Some(Ok(page)) => {
                cursor = next_cursor(&page).filter(|_| method.ends_with("/list"));
                part.pages.push(page);
                if part.pages.len() > PAGES_MAX && cursor.take().is_some() {
                    let name = self.slots.get(slot).map_or("?", |slot| slot.name.as_str());
                    self.gateway.note_once(format!("{method} of `{name}` is cut after {PAGES_MAX} pages"));
                }
            }
            Some(Err(error)) => part.error = Some(raw(&json!({"code": UPSTREAM_FAILED, "message": error.to_string()}))),
            None => part.error = answer.error_raw().map(ToOwned::to_owned),
        }
        if cursor.is_some() {
            let list = Message::request(0, &method, self.list_params(gather, cursor));
            return Box::pin(self.forward(slot, list, Purpose::Gather { gather })).await;
        }
        part.done = true;
        if found.parts.iter().all(|part| part.done)
            && let Some(found) = self.gathers.remove(&gather)
        {
            self.all_gathered(found).await;
        }
    }

    async fn all_gathered(&mut self, gather: Gather) {
        match gather.then {
            Then::Call { id, call, delivery } => self.call_after_list(gather.parts, id, call, delivery).await,
            Then::Answer { id } => {
                let error = gather.parts.iter().find_map(|part| part.error.clone());
                if gather.parts.iter().all(|part| part.pages.is_empty()) {
                    let error = error.unwrap_or_default();
                    let mut answer = Message::error(&id, UPSTREAM_FAILED, "no server answers");
                    answer.set_error(error);
                    return self.answer(answer).await;
                }
                self.answer_together(&gather.method, gather.parts, id).await;
            }
        }
    }

    /// A call goes on once the list that it has waited for is there.
    async fn call_after_list(&mut self, parts: Vec<Part>, id: Raw, call: Message, delivery: Arc<Delivery>) {
        // A call waits for the list of one server.
        let Some(part) = parts.into_iter().next() else { return };
        let failed = part.error.as_ref().map(|error| error.get().to_owned());
        let tools = failed.map_or_else(|| Tool::parse_pages(part.pages.iter()), Err);
        let tools = match tools {
            Ok(tools) => tools,
            Err(why) => {
                let refusal = Refusal::no_list(self.name(part.slot), &why);
                delivery.tells_nothing();
                return self.answer(Message::result(&id, refusal.result())).await;
            }
        };
        if let Some(slot) = self.slots.get_mut(part.slot) {
            slot.remember_tools(&tools, part.held);
        }
        let Ok(params) = call.params_members() else { return };
        let Some((slot, tool)) = params.text("name").and_then(|name| self.route(&name)) else { return };
        self.listed_call((slot, &tool), id, call, &params, delivery).await;
    }

    /// Answers the client with what several upstreams said.
    async fn answer_together(&mut self, method: &str, parts: Vec<Part>, id: Raw) {
        let held: Vec<Option<Held>> = parts.iter().map(|part| part.held.clone()).collect();
        let named: Vec<(String, Vec<Members>)> =
            parts.into_iter().map(|part| (self.name(part.slot).to_owned(), part.pages)).collect();
        let first = named.iter().find_map(|(_, pages)| pages.first().cloned()).unwrap_or_default();
        let mut answer = Message::result(&id, first.to_raw());
        held.iter().for_each(|held| join(&mut answer.held, held.clone()));
        let mut result = first;
        result.remove("nextCursor");
        let is_namespaced = self.is_namespaced();
        match method {
            "tools/list" => {
                let mut all = Vec::new();
                for ((slot, (name, pages)), held) in named.iter().enumerate().zip(held) {
                    let tools = match Tool::parse_pages(pages.iter()) {
                        Err(why) if !is_namespaced => return self.answer_error(&id, UPSTREAM_FAILED, &why).await,
                        tools => tools.unwrap_or_default(),
                    };
                    if let Some(slot) = self.slots.get_mut(slot) {
                        slot.remember_tools(&tools, held);
                    }
                    all.push((name.clone(), tools));
                }
                return self.show(all, result, answer);
            }
            // One page stays as it stands.
            _ if matches!(named.as_slice(), [(_, pages)] if pages.len() == 1) => {}
            "prompts/list" => result.set("prompts", raw(&together(&named, "prompts", is_namespaced))),
            "resources/list" => result.set("resources", raw(&together(&named, "resources", false))),
            "resources/templates/list" => {
                result.set("resourceTemplates", raw(&together(&named, "resourceTemplates", false)));
            }
            "initialize" | "server/discover" => introduce(&named, &mut result),
            _ => {}
        }
        answer.set_result(result.to_raw());
        self.answer(answer).await;
    }
}

/// The room of both.
fn join(one: &mut Option<Held>, other: Option<Held>) {
    match (one.as_mut(), other) {
        (Some(one), Some(other)) => one.absorb(other),
        (None, other) => *one = other,
        (Some(_), None) => {}
    }
}

/// The items of all lists; with the name of their upstream in front, where they have names to call them by.
fn together(named: &[(String, Vec<Members>)], list: &str, renamed: bool) -> Vec<Raw> {
    let mut all = Vec::new();
    for (upstream, pages) in named {
        for page in pages {
            let items: Vec<Raw> =
                page.get(list).and_then(|items| serde_json::from_str(items.get()).ok()).unwrap_or_default();
            for item in items {
                let members = Members::parse(item.get()).ok();
                match members.and_then(|members| Some((members.text("name")?, members))) {
                    Some((name, mut members)) if renamed => {
                        members.set("name", raw(&format!("{upstream}{SEPARATOR}{name}")));
                        all.push(members.to_raw());
                    }
                    _ => all.push(item),
                }
            }
        }
    }
    all
}

/// One introduction for several servers: what any of them can, in the oldest revision that one of them speaks.
fn introduce(named: &[(String, Vec<Members>)], result: &mut Members) {
    let mut capabilities = Members::default();
    let mut instructions = String::new();
    let mut versions: Vec<String> = Vec::new();
    let mut supported: Option<Vec<String>> = None;
    for (upstream, page) in named.iter().filter_map(|(name, pages)| pages.first().map(|page| (name, page))) {
        for (name, value) in page.object("capabilities").iter().flat_map(Members::iter) {
            let mut inner = capabilities.object(name).unwrap_or_default();
            for (name, value) in Members::parse(value.get()).iter().flat_map(Members::iter) {
                inner.set(name, value.to_owned());
            }
            capabilities.set(name, inner.to_raw());
        }
        if let Some(text) = page.text("instructions") {
            instructions.push_str(&format!("{upstream}: {text}\n"));
        }
        versions.extend(page.text("protocolVersion"));
        let known =
            page.get("supportedVersions").and_then(|known| serde_json::from_str::<Vec<String>>(known.get()).ok());
        supported = match (supported, known) {
            (Some(both), Some(known)) => Some(both.into_iter().filter(|version| known.contains(version)).collect()),
            (one, other) => one.or(other),
        };
    }
    let names: Vec<&str> = named.iter().map(|(name, _)| name.as_str()).collect();
    let title = format!("Countersign in front of {}", names.join(", "));
    let info = json!({"name": "countersign", "title": title, "version": env!("CARGO_PKG_VERSION")});
    result.set("capabilities", capabilities.to_raw());
    if result.get("serverInfo").is_some() {
        result.set("serverInfo", raw(&info));
    }
    if let Some(oldest) = versions.iter().min() {
        result.set("protocolVersion", raw(oldest));
    }
    if let Some(supported) = supported {
        result.set("supportedVersions", raw(&supported));
    }
    if !instructions.is_empty() {
        result.set("instructions", raw(&instructions));
    }
}
