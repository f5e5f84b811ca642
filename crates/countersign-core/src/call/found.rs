//! What came of a call, as data: a code, what the code speaks of, and what others said. Words are made from it where it is shown.

use super::Evidence;
use crate::disclose::Disclosure;
use crate::limits::SUMMARY_BYTES_MAX;
use crate::screen::visible::one_line;
use serde::Deserialize;

/// What an attempt, a probe or a person found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// Of which kind it is.
    pub code: FoundCode,
    /// What the code speaks of, in the gate's own terms: a tool, a fact, a program, an adapter, a reason's code.
    pub about: Option<String>,
    /// What the other side, a library or a person said.
    pub said: Option<String>,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal,)*) => {
        /// The kinds of findings, as they stand in records.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
        pub enum FoundCode {
            $($(#[$doc])* #[serde(rename = $code)] $name,)*
        }

        impl FoundCode {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// As it stands in records.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $code,)*
                }
            }
        }
    };
}

codes! {
    /// An operator said what became of it.
    #[default]
    Resolved = "resolved",
    /// A service answered with a status.
    Answered = "answered",
    /// A command ended with an exit status.
    Exited = "exited",
    /// A signal ended a command.
    Signalled = "signalled",
    /// A command took too long and was ended.
    TimedOut = "timed_out",
    /// A program could not be started.
    NotStarted = "not_started",
    /// The call must not leave: a halt, a revocation, or another reason that the code in `about` names.
    Stopped = "stopped",
    /// The facts, as read right before the call, do not allow it.
    Blocked = "blocked",
    /// The deadline passed before it could be sent.
    Late = "late",
    /// The ledger takes no more entries.
    LogLost = "log_lost",
    /// Nothing was sent, for a reason that `said` gives.
    NotSent = "not_sent",
    /// The service has failed too often; it is left alone for a while.
    Resting = "resting",
    /// It was sent, and the answer was incomplete or never arrived.
    NoAnswer = "no_answer",
    /// The request cannot be made.
    Unsendable = "unsendable",
    /// The adapter cannot carry out a call of this kind.
    WrongKind = "wrong_kind",
    /// The settings name no such adapter.
    NoAdapter = "no_adapter",
    /// The server cannot be reached.
    Unreachable = "unreachable",
    /// A fact could not be read.
    Unread = "unread",
    /// The gate ended while the call was under way.
    Interrupted = "interrupted",
    /// The adapter itself failed: it panicked.
    Panicked = "panicked",
    /// What was read and sent is too long to keep.
    TooLong = "too_long",
    /// A database committed it.
    Committed = "committed",
    /// A database committed it, as a receipt shows that was found afterwards.
    FoundCommitted = "found_committed",
    /// A void receipt keeps it from ever happening.
    Void = "void",
    /// The receipt under its key belongs to another call.
    ForeignReceipt = "foreign_receipt",
    /// Whether a database committed it cannot be found out now.
    CommitUnknown = "commit_unknown",
    /// The receipts cannot be read.
    ReceiptsUnread = "receipts_unread",
    /// A database answered with the error whose code is in `about`.
    Database = "database",
    /// A fact of a database is not as the pact says, or its query is not one that a pact may have.
    Misfit = "misfit",
    /// A statement would have changed another number of rows than one.
    NotOneRow = "not_one_row",
    /// A tool was called and completed.
    ToolCalled = "tool_called",
    /// A tool says that it did nothing.
    ToolFailed = "tool_failed",
    /// A tool answered with an error, and nothing waits for what it did.
    ToolOver = "tool_over",
    /// A tool answered with an error.
    ToolError = "tool_error",
    /// A tool gave an answer that does not say whether it completed.
    ToolUnclear = "tool_unclear",
    /// The tool is not the one that was approved.
    NotApproved = "not_approved",
    /// A probe finds it.
    ProbeFound = "probe_found",
    /// A probe finds nothing.
    ProbeAbsent = "probe_absent",
    /// A probe gave no clear answer.
    ProbeUnclear = "probe_unclear",
}

impl FoundCode {
    /// Reads it back.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == text)
    }

    /// A finding that needs no more than its code.
    pub fn alone(self) -> Found {
        Found { code: self, about: None, said: None }
    }

    /// A finding about something.
    pub fn about(self, about: impl ToString) -> Found {
        Found { about: Some(about.to_string()), ..self.alone() }
    }

    /// A finding in the words of others.
    pub fn said(self, said: impl Into<String>) -> Found {
        self.alone().and_said(said)
    }
}

impl Found {
    /// The same, with the words of others.
    #[must_use]
    pub fn and_said(self, said: impl Into<String>) -> Self {
        Self { said: Some(said.into()), ..self }
    }

    /// The same with every text changed: secrets hidden, or lengths bounded.
    #[must_use]
    pub fn map(self, change: impl Fn(String) -> String) -> Self {
        Self { about: self.about.map(&change), said: self.said.map(&change), ..self }
    }

    /// The same within what an entry keeps.
    #[must_use]
    pub fn bounded(self) -> Self {
        self.map(|text| one_line(&text, SUMMARY_BYTES_MAX))
    }

    /// Leaves out what its reader may not see; says whether something was left out.
    pub fn withhold(&mut self, disclosure: &Disclosure<'_>) -> bool {
        let mask = |text: &mut String| *text = disclosure.masked_text(text);
        self.about.iter_mut().for_each(mask);
        if disclosure.shows_sent() {
            self.said.iter_mut().for_each(mask);
            return false;
        }
        let is_withheld = self.said.is_some();
        if is_withheld {
            self.said = Some("…".to_owned());
        }
        is_withheld
    }

    /// Why nothing may leave, in the fewest words.
    pub fn why(&self) -> String {
        match (&self.about, self.code) {
            (Some(code), FoundCode::Stopped) => code.clone(),
            _ => self.words(None),
        }
    }

    /// In a sentence, with the status that came with it.
    pub fn words(&self, status: Option<i64>) -> String {
        let about = self.about.as_deref().unwrap_or("it");
        let number = status.map(|status| status.to_string()).unwrap_or_default();
        let ours = match self.code {
            // A person's reason stands for itself.
            FoundCode::Resolved => return self.said.clone().unwrap_or_default(),
            FoundCode::Answered => answered(status.unwrap_or_default()),
            FoundCode::Exited => format!("the command ended with exit {number}"),
            FoundCode::Signalled => format!("the command was ended by signal {about}"),
            FoundCode::TimedOut => "the command took too long and was ended".to_owned(),
            FoundCode::NotStarted => format!("{about} could not be started"),
            FoundCode::Stopped => format!("nothing was sent: {about}"),
            FoundCode::Blocked => about.to_owned(),
            FoundCode::Late => "its deadline passed before it could be sent".to_owned(),
            FoundCode::LogLost => "nothing was sent: the ledger takes no more entries".to_owned(),
            FoundCode::NotSent => "nothing was sent".to_owned(),
            FoundCode::Resting => {
                let rest = self.said.as_deref().unwrap_or("a while");
                return format!("{about} failed too often; no calls are sent to it for {rest}");
            }
            FoundCode::NoAnswer => "the answer was incomplete or never arrived".to_owned(),
            FoundCode::Unsendable => "this cannot be sent".to_owned(),
            FoundCode::WrongKind => format!("{about} cannot carry out a call of this kind"),
            FoundCode::NoAdapter => {
                format!(
                    "the gate has no adapter or MCP server `{about}`; add it to its countersign.toml and restart it"
                )
            }
            FoundCode::Unreachable => format!("{about} cannot be reached"),
            FoundCode::Unread => format!("{about} could not be read"),
            FoundCode::Interrupted => "the gate ended while the call was under way".to_owned(),
            FoundCode::Panicked => "the adapter failed with an internal error (a panic)".to_owned(),
            FoundCode::TooLong => "what was read and sent is too long to keep".to_owned(),
            FoundCode::Committed => format!("committed in PostgreSQL with receipt {about}"),
            FoundCode::FoundCommitted => {
                format!("committed in PostgreSQL with receipt {about}, which was found afterwards")
            }
            FoundCode::Void => {
                "the call did not happen: there was no receipt, and a void receipt now prevents it".to_owned()
            }
            FoundCode::ForeignReceipt => {
                format!("the call did not happen: the receipt under its key belongs to another call, {about}")
            }
            FoundCode::CommitUnknown => "it cannot be found out now whether it was committed".to_owned(),
            FoundCode::ReceiptsUnread => "the receipts cannot be read".to_owned(),
            FoundCode::Database => {
                let said = self.said.as_deref().unwrap_or_default();
                return format!("PostgreSQL: {said} ({about}){}", database_hint(about));
            }
            FoundCode::Misfit => format!("{about} does not fit the pact"),
            FoundCode::NotOneRow => {
                format!("a statement must change one row and would have changed {about}")
            }
            FoundCode::ToolCalled => format!("{about} was called"),
            FoundCode::ToolFailed => format!("{about} did nothing"),
            FoundCode::ToolOver => {
                format!("{about} answered with an error, and whether it did anything is not known")
            }
            FoundCode::ToolError if status.is_some() => format!("{about} answered with error {number}"),
            FoundCode::ToolError => format!("{about} answered with an error"),
            FoundCode::ToolUnclear => format!("{about} gave no clear answer"),
            FoundCode::NotApproved => {
                format!("the tool `{about}` is not approved, or its definition has changed since")
            }
            FoundCode::ProbeFound => format!("{about} finds it"),
            FoundCode::ProbeAbsent => format!("{about} finds nothing"),
            FoundCode::ProbeUnclear => format!("{about} gave no clear answer"),
        };
        match &self.said {
            Some(said) => format!("{ours}: {said}"),
            None => ours,
        }
    }
}

/// A status of HTTP, and what it means for a call.
fn answered(status: i64) -> String {
    let why = match status {
        200..=299 => "",
        300..=399 => ": a redirect, and none is followed",
        408 => ": it, or something on the way, stopped waiting",
        409 => ": it sees a conflict, perhaps with an earlier attempt",
        412 => ": what was read there has changed since",
        425 => ": it will not take it this early",
        429 => ": too much at once; nothing was done",
        400..=499 => ": it refuses",
        500..=599 => ": it failed, and does not say how far it had come",
        _ => ": an unexpected status",
    };
    format!("the service answered {status}{why}")
}

/// What to do about an error of PostgreSQL.
fn database_hint(code: &str) -> &'static str {
    match code {
        "42P01" | "3F000" => {
            "; check the name in the pact; if it is the receipts that are missing, run `countersign postgres init`"
        }
        "42501" => {
            "; the gate's user lacks this right; `countersign postgres init --guard TABLE`, run as the owner of the table, grants \
             what the gate needs"
        }
        _ => "",
    }
}

impl Evidence {
    /// Evidence that is a finding and nothing else.
    pub fn of(found: Found) -> Self {
        Self { found: Box::new(found.bounded()), ..Self::default() }
    }

    /// What came of the call, in a sentence.
    pub fn words(&self) -> String {
        let mut words = self.found.words(self.status);
        if let Some(bytes) = self.unkept {
            words.push_str(&format!("; its answer of {bytes} bytes is too long to keep"));
        }
        match self.is_late && self.found.code != FoundCode::Late {
            true => format!("{}; the latest attempt: {words}", FoundCode::Late.alone().words(None)),
            false => words,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_reads_back_and_has_words() {
        for code in FoundCode::ALL {
            assert_eq!(FoundCode::parse(code.as_str()), Some(*code));
            let words = code.about("it").and_said("they say").words(Some(7));
            assert!(!words.is_empty() && !words.contains("  "), "{code:?}: {words}");
        }
    }

    #[test]
    fn a_deadline_tells_what_the_latest_attempt_found() {
        let late = Evidence { is_late: true, ..Evidence::of(FoundCode::NoAnswer.said("it hung up")) };
        let expected = "its deadline passed before it could be sent; the latest attempt: the answer was incomplete or never \
                        arrived: it hung up";
        assert_eq!(late.words(), expected);
        let alone = Evidence { is_late: true, ..Evidence::of(FoundCode::Late.alone()) };
        assert_eq!(alone.words(), "its deadline passed before it could be sent");
    }
}
