//! JSON-RPC messages as they stand: only the outermost members are looked at, everything below stays the text that was sent.
//!
//! What the gateway does not have to understand it must not rewrite: a parser of typed messages drops what it does not know
//! (docs/adr/0012). And what two readers could understand differently is refused: a duplicate name would let a call
//! look like one tool to the gateway and like another to the server.

mod members;
mod names;

pub use members::Members;

use super::buffers::{Held, counted};
use super::delivery::Delivery;
use axum::body::Bytes;
use countersign_core::call::{Found, FoundCode};
use countersign_engine::outbox::Leave;
use serde_json::value::{RawValue, to_raw_value};
use std::sync::Arc;
use std::time::Instant;

/// JSON text that no one has looked into.
pub type Raw = Box<RawValue>;

/// The code of JSON-RPC for text that is not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// The code of JSON-RPC for JSON that is no message.
pub const INVALID_REQUEST: i64 = -32600;
/// The code of JSON-RPC for a method that no one has.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The code of JSON-RPC for params that do not fit.
pub const INVALID_PARAMS: i64 = -32602;
/// The code that stands for one of a server's own that only the gateway may use.
pub const SERVER_ERROR: i64 = -32000;
/// The code for a server behind the gateway that gives no answer: it may have done what it was asked.
pub const UPSTREAM_FAILED: i64 = -32001;
/// The code for what the gate does not let pass.
pub const REFUSED: i64 = -32003;
/// The code for what did not leave the gateway.
pub const NOT_SENT: i64 = -32004;
/// The codes that only the gateway answers with.
pub const OWN_CODES: [i64; 3] = [UPSTREAM_FAILED, REFUSED, NOT_SENT];

/// The longest id of a request, or of an event, that is accepted.
pub const ID_BYTES_MAX: usize = 256;

/// What kind of message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Asks for something, and has an id.
    Request,
    /// Tells something.
    Notification,
    /// Answers a request.
    Response,
}

/// One message.
#[derive(Debug, Clone)]
pub struct Message {
    members: Members,
    kind: Kind,
    /// Its method, where it has one.
    pub method: String,
    /// Headers that came with it over HTTP and belong to its content (`mcp-param-…`).
    pub headers: Box<[(String, String)]>,
    /// Where a message of a client stands: see [`crate::mcp::delivery::arrivals`].
    pub place: u64,
    /// The room that it takes, where someone else sent it.
    pub held: Option<Held>,
    /// What is to be told when it has gone to the client, of answers that count as read from then on.
    pub delivery: Option<Arc<Delivery>>,
    /// When the verdict that lets it pass is too old for it to be sent any more.
    pub not_after: Option<Instant>,
    /// What is asked right before its first byte, of calls that the gate itself makes.
    pub leave: Option<Box<Leave>>,
    /// Whether the gateway itself says it.
    is_own: bool,
    /// Why there is no answer of the server, where the gateway itself says so.
    pub why: Option<Box<Found>>,
}

/// Why text is no message.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Not JSON.
    #[error("not JSON: {0}")]
    NotJson(serde_json::Error),
    /// JSON, but no message.
    #[error("not one JSON-RPC message: {0}")]
    NotAMessage(String),
    /// A message whose members another reader could take for others.
    #[error("refused, because readers of JSON can understand it differently: {why}")]
    Ambiguous {
        /// Its id, where it is a request.
        id: Option<Raw>,
        /// The code of JSON-RPC.
        code: i64,
        /// What is wrong with it.
        why: String,
    },
}

impl Refused {
    /// The code of JSON-RPC.
    pub fn code(&self) -> i64 {
        match self {
            Self::NotJson(_) => PARSE_ERROR,
            Self::NotAMessage(_) => INVALID_REQUEST,
            Self::Ambiguous { code, .. } => *code,
        }
    }

    /// What the sender is answered.
    pub fn answer(&self) -> Message {
        let id = match self {
            Self::Ambiguous { id: Some(id), .. } => id,
            _ => RawValue::NULL,
        };
        Message::error(id, self.code(), &self.to_string())
    }
}

impl Message {
    /// Reads one message of a client. What goes on to a server has no members but those of JSON-RPC, under their exact names.
    pub fn parse_from_client(text: &str) -> Result<Self, Refused> {
        let message = Self::parse(text)?;
        match names::only_known(&message.members, message.kind) {
            Ok(()) => Ok(message),
            Err(why) => Err(message.ambiguous(INVALID_REQUEST, why)),
        }
    }

    /// Reads one message.
    pub fn parse(text: &str) -> Result<Self, Refused> {
        let members = Members::parse(text).map_err(|error| match error.classify() {
            serde_json::error::Category::Data if text.trim_start().starts_with('[') => {
                Refused::NotAMessage("batches are not taken; send one message at a time".to_owned())
            }
            serde_json::error::Category::Data => Refused::NotAMessage(error.to_string()),
            _ => Refused::NotJson(error),
        })?;
        let wrong = |why: &str| Refused::NotAMessage(why.to_owned());
        if members.text("jsonrpc").as_deref() != Some("2.0") {
            return Err(wrong("`jsonrpc` must be \"2.0\""));
        }
        let id = members.get("id").filter(|id| id.get() != "null");
        if id.is_some_and(|id| id.get().starts_with(['{', '[', 't', 'f'])) {
            return Err(wrong("an id is a number or a string"));
        }
        // It is kept as long as its answer is awaited, and counts nowhere.
        if id.is_some_and(|id| id.get().len() > ID_BYTES_MAX) {
            return Err(wrong("its id is too long"));
        }
        let method = members.text("method");
        let (result, error) = (members.get("result").is_some(), members.get("error").is_some());
        let kind = match (&method, id) {
            (Some(_), Some(_)) if !result && !error => Kind::Request,
            (Some(_), None) if !result && !error && members.get("id").is_none() => Kind::Notification,
            // An error without an id is about something that could not be read.
            (None, _) if result != error && members.get("method").is_none() => Kind::Response,
            _ => return Err(wrong("it is neither a request, a notification nor a response")),
        };
        let message = Self {
            members,
            kind,
            method: method.unwrap_or_default(),
            headers: Box::default(),
            place: 0,
            held: None,
            delivery: None,
            not_after: None,
            leave: None,
            is_own: false,
            why: None,
        };
        if let Err(why) = names::outer(&message.members) {
            return Err(message.ambiguous(INVALID_REQUEST, why));
        }
        if let Err(why) = names::params(&message.members) {
            return Err(message.ambiguous(INVALID_PARAMS, why));
        }
        match (names::answer(&message.members), message.id()) {
            (Ok(()), _) => Ok(message),
            // Anyone who waits for it must not wait forever.
            (Err(why), Some(id)) => {
                let error =
                    Self::error(id, UPSTREAM_FAILED, &format!("what is answered can be read in two ways: {why}"));
                Ok(Self { why: Some(Box::new(FoundCode::NotJson.alone())), ..error })
            }
            (Err(why), None) => Err(message.ambiguous(INVALID_REQUEST, why)),
        }
    }

    fn ambiguous(&self, code: i64, why: String) -> Refused {
        let id = self.id().filter(|_| self.kind == Kind::Request).map(ToOwned::to_owned);
        Refused::Ambiguous { id, code, why }
    }

    /// A request of our own.
    pub fn request(id: u64, method: &str, params: Option<Raw>) -> Self {
        let mut message = Self::notification(method, params);
        message.kind = Kind::Request;
        message.set_id(number(id));
        message
    }

    /// A notification of our own.
    pub fn notification(method: &str, params: Option<Raw>) -> Self {
        let mut members = Members::default();
        members.set("jsonrpc", raw(&"2.0"));
        members.set("method", raw(&method));
        if let Some(params) = params {
            members.set("params", params);
        }
        Self {
            members,
            kind: Kind::Notification,
            method: method.to_owned(),
            headers: Box::default(),
            place: 0,
            held: None,
            delivery: None,
            not_after: None,
            leave: None,
            is_own: true,
            why: None,
        }
    }

    /// An answer of our own.
    pub fn result(id: &RawValue, result: Raw) -> Self {
        Self::answer(id, "result", result)
    }

    /// An error of our own.
    pub fn error(id: &RawValue, code: i64, message: &str) -> Self {
        Self::answer(id, "error", raw(&serde_json::json!({"code": code, "message": message})))
    }

    /// What is answered to a request in the place of its server.
    pub fn unanswered(id: &RawValue, code: i64, why: Found) -> Self {
        let said = match code {
            NOT_SENT => format!("not sent: {}", why.why()),
            _ => why.to_string(),
        };
        Self { why: Some(Box::new(why)), ..Self::error(id, code, &said) }
    }

    /// Why it must not leave now. Asked once a connection takes it, right before its first byte.
    pub fn held_back(&self) -> Option<Found> {
        if self.not_after.is_some_and(|not_after| Instant::now() > not_after) {
            return Some(FoundCode::TakenTooLate.alone());
        }
        self.leave.as_ref().and_then(|leave| leave.held_back())
    }

    /// What is answered to a request that was not sent.
    pub fn not_sent(&self, why: Found) -> Option<Self> {
        let id = self.id().filter(|_| self.kind == Kind::Request)?;
        Some(Self::unanswered(id, NOT_SENT, why))
    }

    /// The code of the error that it is, if it is one.
    pub fn error_code(&self) -> Option<i64> {
        Members::parse(self.error_raw()?.get()).ok()?.get("code")?.get().parse().ok()
    }

    fn answer(id: &RawValue, name: &str, value: Raw) -> Self {
        let mut members = Members::default();
        members.set("jsonrpc", raw(&"2.0"));
        members.set("id", id.to_owned());
        members.set(name, value);
        Self {
            members,
            kind: Kind::Response,
            method: String::new(),
            headers: Box::default(),
            place: 0,
            held: None,
            delivery: None,
            not_after: None,
            leave: None,
            is_own: true,
            why: None,
        }
    }

    /// Whether the gateway itself says it, and not a server or a client.
    pub fn is_own(&self) -> bool {
        self.is_own
    }

    /// What kind it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its id, as it stands.
    pub fn id(&self) -> Option<&RawValue> {
        self.members.get("id")
    }

    /// Its params, as they stand.
    pub fn params(&self) -> Option<&RawValue> {
        self.members.get("params")
    }

    /// The members of its params; empty where it has none.
    pub fn params_members(&self) -> Result<Members, serde_json::Error> {
        self.params().map_or_else(|| Ok(Members::default()), |params| Members::parse(params.get()))
    }

    /// What it answers, as it stands.
    pub fn result_raw(&self) -> Option<&RawValue> {
        self.members.get("result")
    }

    /// The error it answers with, as it stands.
    pub fn error_raw(&self) -> Option<&RawValue> {
        self.members.get("error")
    }

    /// Gives it another id.
    pub fn set_id(&mut self, id: Raw) {
        self.members.set("id", id);
    }

    /// Gives it other params.
    pub fn set_params(&mut self, params: Raw) {
        self.members.set("params", params);
    }

    /// Gives it another result.
    pub fn set_result(&mut self, result: Raw) {
        self.members.set("result", result);
    }

    /// Gives it another error.
    pub fn set_error(&mut self, error: Raw) {
        self.members.set("error", error);
    }

    /// Its text on one line.
    pub fn line(&self) -> String {
        on_one_line(self.members.to_text())
    }

    /// The same as bytes, which take room until they have left.
    pub fn bytes(&self) -> Bytes {
        counted(self.line(), self.held.clone())
    }

    /// Takes along what is to be told when it has gone to the client.
    pub fn delivering(self, delivery: Option<Arc<Delivery>>) -> Self {
        Self { delivery, ..self }
    }

    /// All that a server is told by it, besides its method, as it is sent: its params or result, and below them the headers that
    /// repeat some of it.
    pub fn content(&self) -> String {
        let content = self.params().or_else(|| self.result_raw());
        let mut text = on_one_line(content.map(|content| content.get().to_owned()).unwrap_or_default());
        for (name, value) in &self.headers {
            text.extend(["\n", name, ": ", value]);
        }
        text
    }

    /// The revision of the protocol that it names in its `_meta`, where it is of a stateless revision.
    pub fn stateless_revision(&self) -> Option<String> {
        let meta = self.params_members().ok()?.object("_meta")?;
        meta.text("io.modelcontextprotocol/protocolVersion")
    }
}

/// Text in JSON holds no line feed as such, so only white space between is replaced.
fn on_one_line(text: String) -> String {
    if text.contains(['\n', '\r']) { text.replace(['\n', '\r'], " ") } else { text }
}

/// Anything that becomes JSON.
pub fn raw(value: &impl serde::Serialize) -> Raw {
    to_raw_value(value).unwrap_or_default()
}

/// JSON as it is sent to others: what is marked as an exact number is one.
pub fn sent(value: &serde_json::Value) -> Raw {
    RawValue::from_string(countersign_core::decimal::unmarked(value)).unwrap_or_default()
}

pub fn number(number: u64) -> Raw {
    raw(&number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_understood_stays_as_it_was_sent() {
        let text = r#"{"jsonrpc":"2.0","x":{"a": 1.0},"id":"a\u0062","method":"tools/call","params":{"n":12345678901234567890.5,"m":1e2}}"#;
        let mut message = Message::parse(text).expect("is a request");
        assert_eq!(message.line(), text);
        message.set_id(number(7));
        assert_eq!(message.line(), text.replace(r#""a\u0062""#, "7"));
    }

    #[test]
    fn a_line_stays_one_line() {
        let message =
            Message::parse("{\"jsonrpc\":\"2.0\",\n\"method\":\"a\",\"params\":{\r\n\"t\":\"x\\ny\"}}").expect("tells");
        assert_eq!(message.line(), "{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":{  \"t\":\"x\\ny\"}}");
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for (text, why) in [
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}"#, "`id` appears twice"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a","\u006dethod":"b"}"#, "`method` appears twice"),
            (r#"[{"jsonrpc":"2.0","method":"a"}]"#, "batches"),
            (r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#, "neither"),
            (r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#, "neither"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a","result":1}"#, "neither"),
            (r#"{"jsonrpc":"2.0","id":[1],"method":"a"}"#, "number or a string"),
            (r#"{"id":1,"method":"a"}"#, "2.0"),
            (r#"{"jsonrpc""#, "not JSON"),
        ] {
            let error = Message::parse(text).expect_err("is refused").to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        for (text, why) in [
            (r#"{"jsonrpc":"2.0","id":"s","method":"a","Method":"b"}"#, "`Method` can be read as `method`"),
            (r#"{"jsonrpc":"2.0","id":"s","method":"a","params":{"name":"a","name":"b"}}"#, "`name` appears twice"),
            (r#"{"jsonrpc":"2.0","id":"s","method":"a","x":1}"#, "`x` is no member"),
        ] {
            let refused = Message::parse_from_client(text).expect_err("is refused").answer();
            assert_eq!(refused.id().map(RawValue::get), Some("\"s\""), "{text}");
            assert!(refused.line().contains(why), "{}", refused.line());
        }
        let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"_meta":{},"_META":{"countersign":{}}}}"#;
        assert_eq!(Message::parse(answer).expect("answers").error_code(), Some(UPSTREAM_FAILED));
    }
}
