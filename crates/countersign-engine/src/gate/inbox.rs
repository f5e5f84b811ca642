//! Inboxes for their owners: what waits, as it may be handed out now.
//!
//! What a message says is in the entry that delivered it and nowhere else, so a page of an inbox is read from the log. Reading changes
//! nothing: a message stays, under its one name, until it is acknowledged. What was erased, or is withheld because of a halt or because
//! its sender is no longer active, keeps its place and is shown without its content.

use super::{Gate, LogError};
use crate::request::Refusal;
use crate::view::Synced;
use countersign_core::action::{Action, ActionRequest};
use countersign_core::decide::{Withheld, withheld};
use countersign_core::decision::PactRef;
use countersign_core::fence::check_holder;
use countersign_core::identity::Auth;
use countersign_core::ids::{ActionName, AgentId};
use countersign_core::json::to_map;
use countersign_core::message::{Message, MessageId};
use countersign_core::record::{Entry, Event};
use serde_json::{Map, Value as Json};
use std::sync::Arc;

/// Most bytes of bodies of actions that are read for one page; one message is always read. A slow
/// reader that follows its inbox has a page in memory.
const PAGE_BYTES: usize = 256 << 10;

/// A page of an inbox.
#[derive(Debug)]
pub struct InboxPage {
    /// The position of the ledger that it shows.
    pub position: u64,
    /// The messages, oldest first.
    pub messages: Vec<Received>,
    /// Whether more wait behind the last of these.
    pub has_more: bool,
    /// How many wait in all.
    pub waiting: usize,
}

/// A message as its recipient is given it.
#[derive(Debug)]
pub struct Received {
    /// Its name.
    pub id: MessageId,
    /// When it was delivered, in ledger milliseconds.
    pub at_ms: u64,
    /// Who sent it.
    pub from: AgentId,
    /// How that is known.
    pub auth: &'static str,
    /// On whose behalf, root first and the sender last; empty where it was sent in its own right, or where that is erased.
    pub chain: Vec<AgentId>,
    /// The pact that allowed it.
    pub pact: Option<PactRef>,
    /// The action type; `None` where it is erased.
    pub action: Option<ActionName>,
    /// Who approved it, where a person had to.
    pub approved_by: Option<AgentId>,
    /// What it says.
    pub content: Content,
}

/// What a message says.
#[derive(Debug)]
pub enum Content {
    /// The parameters that its pact delivers.
    Body(Map<String, Json>),
    /// It was erased.
    Erased,
    /// It is not handed out now.
    Withheld(Withheld),
}

/// Why an inbox is not shown.
#[derive(Debug, thiserror::Error)]
pub enum InboxError {
    /// The agent may not read it now.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
}

impl Gate {
    /// What waits for an agent behind a message, oldest first.
    ///
    /// # Errors
    /// If the agent may not act now, or the log cannot be read.
    pub fn inbox(
        &self,
        agent: &AgentId,
        auth: &Auth,
        after: Option<MessageId>,
        limit: usize,
    ) -> Result<InboxPage, InboxError> {
        let now_ms = self.now_ms();
        let (position, named, waiting, mut has_more) = {
            let view = self.view();
            check_holder(&view.rest, agent, auth, now_ms).map_err(Refusal::from)?;
            let inbox = view.rest.inboxes.waiting_for(agent);
            let mut rest = inbox.iter().filter(|waiting| Some(waiting.id) > after);
            let named: Vec<_> = rest.by_ref().take(limit).map(|waiting| (waiting.id, waiting.from.clone())).collect();
            (view.position, named, inbox.len(), rest.next().is_some())
        };
        let mut read = Vec::with_capacity(named.len());
        let mut bytes = 0usize;
        for (id, from) in named {
            if bytes >= PAGE_BYTES {
                has_more = true;
                break;
            }
            let stored = self.sent(id, from)?;
            bytes = bytes.saturating_add(stored.body().map_or(0, str::len));
            read.push(stored);
        }
        // Asked behind the reading: who was halted or revoked, or what was erased or taken out meanwhile, is not told.
        let view = self.view();
        check_holder(&view.rest, agent, auth, now_ms).map_err(Refusal::from)?;
        let inbox = view.rest.inboxes.waiting_for(agent);
        let still = read.into_iter().filter(|sent| inbox.contains(sent.id));
        let messages = still.map(|sent| sent.received(&view)).collect();
        Ok(InboxPage { position, messages, has_more, waiting })
    }

    fn sent(&self, id: MessageId, from: AgentId) -> Result<Sent, LogError> {
        let entry = self.entry(id.0)?;
        // An approval executes what was parked, and who sent that is in the entry that parked it.
        let review = match &entry.event {
            Event::Approval(approved) => Some(approved.shown.review.0),
            Event::Erased(leaf) => leaf.review,
            _ => None,
        };
        let parked = review.map(|review| self.entry(review)).transpose()?;
        Ok(Sent { id, from, entry, parked })
    }
}

/// A message as the log has it.
struct Sent {
    id: MessageId,
    from: AgentId,
    entry: Arc<Entry>,
    /// The entry that parked it, where a person had to decide.
    parked: Option<Arc<Entry>>,
}

impl Sent {
    /// The entry in which its sender asked for it.
    fn asked(&self) -> &Entry {
        self.parked.as_ref().unwrap_or(&self.entry)
    }

    /// The action as its sender asked for it; `None` where that is erased.
    fn action(&self) -> Option<&Action> {
        match &self.asked().event {
            Event::Action(decided) => Some(&decided.action),
            _ => None,
        }
    }

    fn body(&self) -> Option<&str> {
        match &self.entry.event {
            Event::Action(decided) => Some(&decided.action.body),
            Event::Approval(approved) => Some(&approved.action.body),
            _ => None,
        }
    }

    fn pact(&self) -> Option<PactRef> {
        match &self.entry.event {
            Event::Erased(leaf) => leaf.pact.clone(),
            event => event.decision().and_then(|decision| decision.pact.clone()),
        }
    }

    fn received(self, view: &Synced<'_>) -> Received {
        let (action, pact) = (self.action(), self.pact());
        let message = self.entry.event.decision().and_then(|decision| decision.message.as_ref());
        // What was parked holds the same body, so either one that is erased takes the message's content with it.
        let is_erased = [Some(&self.entry), self.parked.as_ref()]
            .into_iter()
            .flatten()
            .any(|it| view.rest.erased.contains(it.index));
        let members = || -> Box<dyn Iterator<Item = &AgentId> + '_> {
            match action {
                Some(action) => Box::new(action.members()),
                None => Box::new(std::iter::once(&self.from)),
            }
        };
        let content = match (message, self.body(), &pact) {
            (Some(message), Some(body), Some(pact)) if !is_erased => match withheld(&pact.name, members, view) {
                Some(withheld) => Content::Withheld(withheld),
                None => delivered(message, body).map_or(Content::Erased, Content::Body),
            },
            _ => Content::Erased,
        };
        let auth = match &self.asked().event {
            Event::Erased(leaf) => leaf.auth.as_str(),
            _ => self.asked().auth.as_str(),
        };
        Received {
            id: self.id,
            at_ms: self.entry.time_ms,
            from: self.from.clone(),
            auth,
            chain: action
                .and_then(|it| it.chain.as_ref())
                .map_or_else(Vec::new, |chain| chain.agents().cloned().collect()),
            action: action.map(|action| action.action.clone()),
            approved_by: self.parked.as_ref().map(|_| self.entry.by.clone()),
            content,
            pact,
        }
    }
}

/// The parameters that a message delivers, of those that were sent.
fn delivered(message: &Message, body: &str) -> Option<Map<String, Json>> {
    // The body was parsed before, so it parses again.
    let sent = to_map(&ActionRequest::parse(body).ok()?.params);
    Some(message.body.iter().filter_map(|name| Some((name.to_string(), sent.get(name.as_str())?.clone()))).collect())
}
