//! A history as plain data: what was asked when, what was answered when, and what the log holds.

use serde_json::Value as Json;

/// One operation of a client. Moments are counted by the recorder: a smaller number is earlier in real time.
#[derive(Debug, Clone)]
pub struct Operation {
    /// Who asked.
    pub by: String,
    /// The key that signed, by its public name; `None` where nobody did.
    pub signed_with: Option<String>,
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
    Act { body: String },
    /// Several actions at once, by their raw bodies; with `atomic`, all or none.
    Many { bodies: Vec<String>, atomic: bool },
    /// A new value for a fact; `None` deletes.
    Feed {
        fact: String,
        value: Option<Json>,
        /// The version it must have.
        if_match: Option<u64>,
    },
    /// A new version of the pact.
    Publish {
        version: u64,
        /// The text.
        source: String,
    },
    /// The erasure of payloads.
    Erase { entries: Vec<u64> },
    /// To stop a scope.
    Halt { scope: String },
    /// To let a scope go on.
    Resume { scope: String },
    /// To be shown an action that waits for a person.
    Show {
        /// The entry that parked it.
        review: u64,
    },
    /// That what was shown is done.
    Approve {
        /// The entry that parked it.
        review: u64,
        /// When it was shown, in ledger time.
        shown_at_ms: u64,
        /// Until when the approval is good.
        until_ms: u64,
    },
    /// That an action which waits for a person is not done.
    Refuse {
        /// The entry that parked it.
        review: u64,
    },
    /// That the wall clock is right.
    ConfirmClock,
    /// That the log goes on with another key.
    Rotate { log_key: String },
    /// To be shown facts.
    Observe { facts: Vec<String> },
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
    /// Of several actions, what each came to; `None` where nobody can know. A group that was rejected is `Entered`.
    Many(Vec<Option<Answered>>),
    /// A part of a group had been decided before.
    GroupRepeats,
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
        fact: String,
    },
    /// An entry was charged to a window that was still open, or waited for a person.
    InForce {
        /// The entry.
        index: u64,
    },
    /// The scope was not halted.
    NotHalted,
    /// An action that waits was shown.
    ReviewShown {
        /// The position shown.
        position: u64,
        /// When, in ledger time.
        at_ms: u64,
        /// The facts that it reads, with their versions.
        facts: Vec<(String, u64)>,
        /// The failed preconditions that an approval would waive.
        waives: Vec<String>,
    },
    /// The review could not be decided in this way.
    ReviewRefused(ReviewRefused),
    /// Whoever asked may not do this.
    NotAuthorised,
    /// No grant lets the agent see these facts.
    NotObservable { facts: Vec<String> },
    /// There was no clock step to confirm.
    ClockSteady,
    /// Facts were shown.
    Observed {
        /// The position shown: entries before this index.
        position: u64,
        /// When, in ledger time.
        at_ms: u64,
        facts: Vec<Shown>,
    },
}

/// Why a review could not be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewRefused {
    /// There is no such review, or it is forgotten.
    NotFound,
    /// It had ended.
    Closed,
    /// Nobody had decided in time.
    Expired,
    /// Something was no longer as it was shown.
    Void,
    /// The approval came too late after the showing.
    Late,
    /// The reviewer is a member of the acting chain.
    Own,
}

/// One fact as it was shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    pub fact: String,
    /// Its version; 0 for none.
    pub version: u64,
    /// What the agent may see of its value.
    pub value: Option<Json>,
    /// The attributes that it may not see.
    pub withheld: Vec<String>,
}

/// One entry of the log.
#[derive(Debug, Clone)]
pub struct LogEntry {
    pub leaf: Json,
    /// The payload; for an erased one, as it was before.
    pub payload: Json,
    /// Whether the log no longer holds the payload.
    pub is_erased: bool,
}
