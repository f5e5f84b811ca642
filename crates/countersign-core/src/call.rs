//! External calls: what is sent, and what became of it.
//!
//! A call is rendered at its dispatch, from the pact's `call` and the facts as they are then, and never again: every attempt,
//! before and after a crash, sends the same under the same key (I6). Adapters carry it out; this only says what it is.

mod bounds;
mod found;

pub use found::{Found, FoundCode, KeepsNoText};

use crate::canonical::Canonical;
use crate::ids::{ActionId, ActionName, Digest, FactId, numbered};
use crate::value::Value;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::sync::Arc;

/// The name of an external effect: `eff_` and the entry of its intent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EffectId(pub u64);

impl fmt::Display for EffectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "eff_{}", self.0)
    }
}

/// Text that names no effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the name of an effect, such as eff_813")]
pub struct NotAnEffect(pub String);

crate::ids::serde_as_text!(EffectId);

impl FromStr for EffectId {
    type Err = NotAnEffect;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        numbered("eff_", text).map(Self).ok_or_else(|| NotAnEffect(text.chars().take(80).collect()))
    }
}

/// A call, rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The adapter, by its name in the gate's settings.
    pub adapter: SmolStr,
    /// What is sent; `None` where it depends on external facts, which are read first.
    pub send: Option<Send>,
    /// How long one attempt may take.
    pub timeout_ms: u64,
    /// How often it may be tried again when no one knows whether it happened; 0 unless it is idempotent.
    pub retries: u32,
    /// Until when an attempt may begin, in ledger milliseconds.
    pub deadline_ms: u64,
    /// How to find out whether it happened.
    pub probe: Option<Probe>,
    /// The action type that undoes it.
    pub undo: Option<ActionName>,
    /// External facts that are read, in order, before anything is sent.
    pub outside: Vec<ExternalRead>,
}

/// What is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Send {
    /// An HTTP request to a path below the adapter's base.
    Http {
        method: SmolStr,
        /// The path, with its parts percent-encoded.
        path: String,
        /// The body as JSON; `None` for no body.
        body: Option<Json>,
    },
    /// A command: the adapter's program with these arguments after its own.
    Command {
        /// The arguments.
        args: Vec<SmolStr>,
    },
    /// SQL statements, in the transaction in which the facts were read.
    Sql {
        /// The statements, each of which must change exactly one row.
        statements: Vec<Statement>,
    },
    /// A call of an MCP tool.
    Tool {
        tool: SmolStr,
        /// Its arguments, an object.
        arguments: Json,
        /// What an error that it answers with says.
        on_error: OnError,
    },
}

/// What an error that a tool answers with says about the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// Nothing: no one knows what became of it.
    #[default]
    InDoubt,
    /// That nothing was done: its pact says so.
    Failed,
    /// That it is over, and not what it did: no pact says anything of the tool, and nothing waits for its outcome.
    Over,
}

/// One SQL statement with its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// The text, with `$1`, `$2`, …
    pub sql: Arc<str>,
    /// Their values.
    pub params: Vec<Value>,
}

/// A read call that tells whether a call happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// What is sent.
    pub send: Send,
    /// How long after the last attempt *absent* counts as *did not happen*.
    pub absent_after_ms: u64,
    /// Where in a tool's result to look, as a JSON pointer.
    pub at: Option<SmolStr>,
}

/// An external fact that an action reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalRead {
    pub fact: FactId,
    /// The adapter it is read by.
    pub adapter: SmolStr,
    /// How: a query with the fact's id as `$1`, or a path, or a tool with its arguments.
    pub how: ExternalHow,
}

/// How an external fact is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExternalHow {
    /// A query that gives one row, with the fact's id as `$1`.
    Query(Arc<str>),
    /// A path below the adapter's base.
    Path(String),
    /// An MCP tool, its arguments, and where in its result the value is, as a JSON pointer.
    Tool {
        tool: SmolStr,
        /// Its arguments, an object.
        arguments: Json,
        /// The place of the value in the result.
        at: SmolStr,
        /// Where that holds a list: the member of the element that is meant, and what it is.
        key: Option<(SmolStr, SmolStr)>,
    },
}

/// What a call came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It happened.
    Settled,
    /// It did not happen, and will not.
    Failed,
    /// No one knows.
    InDoubt,
}

impl Outcome {
    /// As it stands in records and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Settled => "settled",
            Self::Failed => "failed",
            Self::InDoubt => "in_doubt",
        }
    }

    /// Reads it back.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Settled, Self::Failed, Self::InDoubt].into_iter().find(|outcome| outcome.as_str() == text)
    }
}

/// Evidence for an outcome.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Evidence {
    /// How often it was tried.
    pub attempts: u32,
    /// What came of it; never holds a secret.
    pub found: Box<Found>,
    /// Whether the deadline passed before another attempt could be made.
    pub is_late: bool,
    /// The status that the service returned: of an HTTP answer, a command's exit, or an error's code.
    pub status: Option<i64>,
    /// What the service answered, as far as it is kept.
    pub result: Option<String>,
    /// Whether that is only the front of it.
    pub is_cut: bool,
    /// How many bytes of an answer were too long to keep.
    pub unkept: Option<u64>,
    /// The receipt that the service keeps: a row's number, an id.
    pub receipt: Option<String>,
    /// What was measured of a call that rests on what was read right before it.
    pub measured: Option<Box<Measured>>,
}

/// What was measured of a call that rests on what was read right before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Measured {
    /// How long it took to make them again, in all.
    pub reread_ms: Option<u64>,
    /// From when they were begun to be made again to when the call was answered: what was changed in that time past the gate, no one
    /// has compared.
    pub window_ms: Option<u64>,
}

impl Evidence {
    /// Writes it as it stands in a record.
    pub fn write(&self, out: &mut Canonical) {
        let text = |out: &mut Canonical, key, text: Option<&str>| {
            if let Some(text) = text {
                out.key(key);
                out.string(text);
            }
        };
        out.open('{');
        text(out, "about", self.found.about.as_deref());
        out.key("attempts");
        out.u64(self.attempts.into());
        if let Some(because) = &self.found.because {
            out.key("because");
            // Every member has a JSON form, so this cannot fail.
            out.json(&serde_json::to_value(because).unwrap_or_default());
        }
        if self.is_cut {
            out.key("cut");
            out.bool(true);
        }
        out.key("found");
        out.string(self.found.code.as_str());
        if self.is_late {
            out.key("late");
            out.bool(true);
        }
        if let Some(number) = self.found.number {
            out.key("number");
            out.i64(number);
        }
        text(out, "receipt", self.receipt.as_deref());
        let Measured { reread_ms, window_ms } = self.measured.as_deref().copied().unwrap_or_default();
        if let Some(reread_ms) = reread_ms {
            out.key("reread_ms");
            out.u64(reread_ms);
        }
        text(out, "result", self.result.as_deref());
        text(out, "said", self.found.said.as_deref());
        if let Some(status) = self.status {
            out.key("status");
            out.i64(status);
        }
        if let Some(bytes) = self.unkept {
            out.key("unkept");
            out.u64(bytes);
        }
        if let Some(window_ms) = window_ms {
            out.key("window_ms");
            out.u64(window_ms);
        }
        out.close('}');
    }
}

/// The idempotency key that the outside is given for an effect: the same for every attempt, and no other effect's, of this gate or
/// of any other. Two agents may send the same body, and two gates may call the same service: what one of them did must not answer
/// for the other.
pub fn external_key(origin: &str, effect: EffectId, action: &ActionId) -> String {
    // An origin holds no NUL, and what follows it has a fixed length.
    let parts = [b"countersign call\0".as_slice(), origin.as_bytes(), b"\0", &effect.0.to_be_bytes(), &action.0];
    let Digest(digest) = Digest::of_parts(&parts);
    let mut key = String::with_capacity(35);
    key.push_str("cs-");
    for byte in digest.iter().take(16) {
        // Writing to a String cannot fail.
        let _ = write!(key, "{byte:02x}");
    }
    key
}
