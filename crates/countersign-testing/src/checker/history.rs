//! A history as plain data: what was asked when, what was answered when, and what the log holds.

use serde_json::Value as Json;

/// One operation of a client. Moments are counted by the recorder: a smaller number is earlier in real time.
#[derive(Debug, Clone)]
pub struct Operation {
    /// Who asked.
    pub by: String,
    /// What was asked.
    pub asked: Asked,
    /// When it was sent.
    pub started: u64,
    /// When the answer came; `None` if none did.
    pub ended: Option<u64>,
    /// The answer; `None` where nobody can know what became of it.
    pub answer: Option<Answered>,
}

/// What was asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    /// An action, by its raw body.
    Act {
        /// The body.
        body: String,
    },
    /// A new value for a fact; `None` deletes.
    Feed {
        /// The fact.
        fact: String,
        /// The value.
        value: Option<Json>,
        /// The version it must have.
        if_match: Option<u64>,
    },
    /// A new version of the pact.
    Publish {
        /// The version.
        version: u64,
        /// The text.
        source: String,
    },
    /// The erasure of payloads.
    Erase {
        /// The entries.
        entries: Vec<u64>,
    },
    /// To stop a scope.
    Halt {
        /// The scope.
        scope: String,
    },
    /// To let a scope go on.
    Resume {
        /// The scope.
        scope: String,
    },
    /// That the wall clock is right.
    ConfirmClock,
    /// That the log goes on with another key.
    Rotate {
        /// The key.
        log_key: String,
    },
    /// To be shown facts.
    Observe {
        /// The facts.
        facts: Vec<String>,
    },
}

/// What was answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Answered {
    /// It became an entry.
    Entered {
        /// The entry.
        index: u64,
        /// The verdict, for an action.
        verdict: Option<String>,
        /// The code, if it was blocked.
        code: Option<String>,
        /// The failed preconditions.
        failed: Vec<String>,
        /// The facts written, with their new versions.
        wrote: Vec<(String, u64)>,
    },
    /// The same action had been decided before.
    Repeated {
        /// In this entry.
        index: u64,
    },
    /// The key had been used for another action.
    KeyReused {
        /// In this entry.
        index: u64,
    },
    /// The fact had another version than was asked for.
    VersionMismatch {
        /// The version it had.
        current: u64,
    },
    /// The pact's version did not follow.
    NotNextVersion,
    /// No pact declared the type of the fact.
    UnknownType,
    /// An entry held the current version of a fact.
    CurrentValue {
        /// The entry.
        index: u64,
        /// The fact.
        fact: String,
    },
    /// An entry was charged to a window that was still open.
    WindowOpen {
        /// The entry.
        index: u64,
    },
    /// The scope was not halted.
    NotHalted,
    /// There was no clock step to confirm.
    ClockSteady,
    /// Facts were shown.
    Observed {
        /// The position shown: entries before this index.
        position: u64,
        /// When, in ledger time.
        at_ms: u64,
        /// The facts.
        facts: Vec<Shown>,
    },
}

/// One fact as it was shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// The fact.
    pub fact: String,
    /// Its version; 0 for none.
    pub version: u64,
    /// Its value.
    pub value: Option<Json>,
}

/// One entry of the log.
#[derive(Debug, Clone)]
pub struct LogEntry {
    /// The leaf.
    pub leaf: Json,
    /// The payload; for an erased one, as it was before.
    pub payload: Json,
    /// Whether the log no longer holds the payload.
    pub is_erased: bool,
}
