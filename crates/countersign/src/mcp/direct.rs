//! The gateway as a client of its own: to read a server's tools before anyone is shown them, and to call what a pact maps.

use super::buffers::{Buffers, Held};
use super::message::{Kind, METHOD_NOT_FOUND, Members, Message, NOT_SENT, Raw, raw};
use super::session::next_cursor;
use super::settings::Place;
use super::tool::Tool;
use super::upstream::{self, Alive, Event, Inlet};
use countersign_core::call::{Found, FoundCode};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// The revision that is asked for first, by handshake.
const HANDSHAKE: &str = "2025-11-25";
/// The revision that is spoken with servers that know no handshake any more.
const STATELESS: &str = "2026-07-28";
/// How long a server may take to introduce itself: some are compiled or fetched first.
const INTRODUCES_WITHIN: Duration = Duration::from_secs(60);
/// How long it may take to list its tools.
const LISTS_WITHIN: Duration = Duration::from_secs(30);
/// A list of more pages than this does not end.
const PAGES_MAX: usize = 100;

/// A link to one server, with no one else on it.
pub struct Direct {
    link: mpsc::Sender<Message>,
    events: mpsc::Receiver<(usize, u64, Event)>,
    stateless: bool,
    next: u64,
    /// The room that they take.
    held: Option<Held>,
}

/// What a link is made of, for whoever speaks over it from here on.
pub(super) struct Parts {
    pub(super) link: mpsc::Sender<Message>,
    pub(super) events: mpsc::Receiver<(usize, u64, Event)>,
    pub(super) stateless: bool,
    /// The last id that was used.
    pub(super) next: u64,
}

/// Says that a server gave no list of its tools.
pub fn not_listed(server: &str, why: &str, is_exit: bool) -> String {
    match is_exit {
        true => format!("{server} exited before listing its tools"),
        false => format!("{server} did not list its tools: {why}"),
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// Nothing was sent.
    #[error("{0}")]
    NotSent(Found),
    /// It was sent, and no one knows what became of it.
    #[error("{0}")]
    Lost(Found),
    /// Nothing was sent, nor will be: the tool is not the one that was approved.
    #[error("{0}")]
    NotApproved(Found),
    /// The server answered with an error.
    #[error("the server returned error {code}: {message}")]
    Error {
        /// The code of JSON-RPC.
        code: i64,
        /// What it said.
        message: String,
    },
}

impl NoAnswer {
    /// None came in this time.
    pub(super) fn within(within: Duration) -> Self {
        Self::Lost(FoundCode::NoAnswerWithin.number(within.as_millis()))
    }

    /// What is known of it; nothing where the server answered.
    fn why(&self) -> Option<&Found> {
        match self {
            Self::NotSent(why) | Self::Lost(why) | Self::NotApproved(why) => Some(why),
            Self::Error { .. } => None,
        }
    }

    /// Whether the server's program has ended.
    pub fn is_exit(&self) -> bool {
        self.why().is_some_and(Found::is_exit)
    }

    /// Whether the server's program could not be started.
    pub fn is_not_started(&self) -> bool {
        self.why().is_some_and(|why| why.code == FoundCode::NotStarted)
    }

    /// The same as a finding.
    pub fn found(self) -> Found {
        match self {
            Self::NotSent(why) | Self::Lost(why) | Self::NotApproved(why) => why,
            Self::Error { code, message } => FoundCode::ErrorAnswer.number(code).and_said(message),
        }
    }
}

/// A list that is none, which the server's operator is told of in the log.
pub(super) fn unlisted(why: String) -> NoAnswer {
    tracing::warn!(why, "a server's list of tools cannot be read");
    NoAnswer::Lost(FoundCode::ToolListInvalid.alone())
}

impl Direct {
    /// Opens a link and introduces the gateway.
    pub async fn open(name: &str, place: &Place, alive: &Alive, buffers: &Arc<Buffers>) -> Result<Self, NoAnswer> {
        let (sender, events) = mpsc::channel(64);
        let inlet = Inlet::new(name, (0, 0), Arc::clone(buffers), sender);
        let link = upstream::open(place, inlet, alive.clone()).map_err(NoAnswer::NotSent)?;
        let mut direct = Self { link, events, stateless: false, next: 0, held: None };
        let client = json!({"name": "countersign", "version": env!("CARGO_PKG_VERSION")});
        let params = json!({"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": client});
        match direct.request("initialize", Some(raw(&params)), INTRODUCES_WITHIN).await {
            Ok(_) => {
                let done = Message::notification("notifications/initialized", None);
                direct.link.try_send(done).map_err(|_| not_read())?;
            }
            // A server of the stateless revisions alone has no such method, or names its revisions in an error of its own.
            Err(NoAnswer::Error { code: METHOD_NOT_FOUND | -32022, .. }) => direct.stateless = true,
            Err(error) => return Err(error),
        }
        Ok(direct)
    }

    /// Takes it apart.
    pub(super) fn into_parts(self) -> Parts {
        Parts { link: self.link, events: self.events, stateless: self.stateless, next: self.next }
    }

    /// What comes without being the answer that is waited for.
    fn overheard(&mut self, message: &Message) {
        if let (Kind::Request, Some(asked)) = (message.kind(), message.id()) {
            let refused = Message::error(asked, METHOD_NOT_FOUND, "this client answers no questions");
            // One that asks and does not read gets no more refusals.
            let _ = self.link.try_send(refused);
        }
    }

    /// All its tools.
    pub async fn tools(&mut self) -> Result<Vec<Tool>, NoAnswer> {
        let mut pages = Vec::new();
        let mut bytes = 0;
        self.held = None;
        let mut params = Members::default();
        for _ in 0..PAGES_MAX {
            let answer = self.request("tools/list", Some(params.to_raw()), LISTS_WITHIN).await?;
            let result = answer.result_raw().map(|result| Members::parse(result.get()));
            let Some(Ok(result)) = result else {
                return Err(NoAnswer::Lost(FoundCode::ToolListInvalid.alone()));
            };
            match (&mut self.held, answer.held.clone()) {
                (Some(held), Some(more)) => held.absorb(more),
                (held, more) => *held = more,
            }
            bytes += answer.result_raw().map_or(0, |result| result.get().len());
            if bytes > upstream::MESSAGE_BYTES_MAX {
                return Err(NoAnswer::Lost(FoundCode::ToolListTooLong.alone()));
            }
            let cursor = next_cursor(&result);
            pages.push(result);
            match cursor {
                Some(cursor) => params.set("cursor", cursor),
                None => return Tool::parse_pages(pages.iter()).map_err(unlisted),
            }
        }
        Err(NoAnswer::Lost(FoundCode::ToolListTooLong.alone()))
    }

    /// Asks, and waits for the answer; what else comes meanwhile is passed over, and questions are refused.
    pub async fn request(&mut self, method: &str, params: Option<Raw>, within: Duration) -> Result<Message, NoAnswer> {
        self.next += 1;
        let id = self.next;
        let params = if self.stateless { Some(with_meta(params)) } else { params };
        let request = Message::request(id, method, params);
        self.link.try_send(request).map_err(|_| not_read())?;
        tokio::time::timeout(within, self.answer(id)).await.unwrap_or_else(|_| Err(NoAnswer::within(within)))
    }

    async fn answer(&mut self, id: u64) -> Result<Message, NoAnswer> {
        loop {
            let message = match self.events.recv().await {
                Some((_, _, Event::Message(message))) => message,
                Some((_, _, Event::Ended(why))) => return Err(NoAnswer::Lost(FoundCode::ConnectionEnded.because(why))),
                None => return Err(NoAnswer::Lost(FoundCode::ConnectionEnded.alone())),
            };
            match (message.kind(), message.id()) {
                (Kind::Response, Some(found)) if found.get() == id.to_string() => return understood(message),
                _ => self.overheard(&message),
            }
        }
    }
}

fn not_read() -> NoAnswer {
    NoAnswer::NotSent(FoundCode::InputUnread.alone())
}

/// An answer that is an error says which.
pub(super) fn understood(message: Message) -> Result<Message, NoAnswer> {
    let Some(error) = message.error_raw() else { return Ok(message) };
    if message.is_own() {
        // The server said nothing: its link did.
        let is_sent = message.error_code() != Some(NOT_SENT);
        let why = message.why.map_or_else(|| FoundCode::ConnectionEnded.alone(), |why| *why);
        return Err(if is_sent { NoAnswer::Lost(why) } else { NoAnswer::NotSent(why) });
    }
    let members = Members::parse(error.get()).unwrap_or_default();
    let code = members.get("code").and_then(|code| code.get().parse().ok()).unwrap_or_default();
    Err(NoAnswer::Error { code, message: members.text("message").unwrap_or_default() })
}

/// What every request of a stateless revision says of its client.
pub(super) fn with_meta(params: Option<Raw>) -> Raw {
    let mut members = params.and_then(|params| Members::parse(params.get()).ok()).unwrap_or_default();
    let client = json!({"name": "countersign", "version": env!("CARGO_PKG_VERSION")});
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientInfo": client,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    members.set("_meta", raw(&meta));
    members.to_raw()
}
