//! What came of a call, as data: a code, what the code speaks of, why, and what others said. Words are made from it where it is shown.

mod codes;

pub use codes::FoundCode;

use super::Evidence;
use crate::disclose::Disclosure;
use crate::limits::SUMMARY_BYTES_MAX;
use crate::screen::visible::one_line;
use crate::utc::Utc;
use crate::value::ValueError;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What an attempt, a probe, a reading or a person found. The gate's own part is codes and data: no sentence of its own is in it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Stored")]
pub struct Found {
    /// What the code speaks of: a tool, a fact, a program, an address, an adapter, a reason's code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// What it follows from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<Box<Found>>,
    /// Of which kind it is.
    #[serde(rename = "found")]
    pub code: FoundCode,
    /// A number that its words speak of: a status, a count, a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<i64>,
    /// What the other side, a library or a person said; only codes that quote keep it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
}

/// A finding as it is read back.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    about: Option<String>,
    because: Option<Box<Found>>,
    found: FoundCode,
    number: Option<i64>,
    said: Option<String>,
}

impl TryFrom<Stored> for Found {
    type Error = KeepsNoText;

    fn try_from(stored: Stored) -> Result<Self, KeepsNoText> {
        let Stored { about, because, found: code, number, said } = stored;
        Self { code, about, number, because, said }.checked()
    }
}

/// A code that quotes no one, with a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("finding `{}` cannot hold text", .0.as_str())]
pub struct KeepsNoText(FoundCode);

impl FoundCode {
    /// Reads it back.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == text)
    }

    /// A finding that needs no more than its code.
    pub fn alone(self) -> Found {
        Found { code: self, ..Found::default() }
    }

    /// A finding about something.
    pub fn about(self, about: impl ToString) -> Found {
        Found { about: Some(about.to_string()), ..self.alone() }
    }

    /// A finding with a number that its words speak of.
    pub fn number(self, number: impl TryInto<i64>) -> Found {
        self.alone().with_number(number)
    }

    /// A finding with the one that it follows from.
    pub fn because(self, because: Found) -> Found {
        self.alone().and_because(because)
    }

    /// A finding in the words of others.
    pub fn said(self, said: impl ToString) -> Found {
        self.alone().and_said(said)
    }
}

impl Found {
    /// Nothing was sent, for this reason.
    pub fn not_sent(why: Self) -> Self {
        match why.code {
            // They say it themselves.
            FoundCode::NotSent | FoundCode::Stopped | FoundCode::Late | FoundCode::LogLost => why,
            _ => FoundCode::NotSent.because(why),
        }
    }

    /// The same, with a number.
    #[must_use]
    pub fn with_number(self, number: impl TryInto<i64>) -> Self {
        Self { number: Some(number.try_into().unwrap_or(i64::MAX)), ..self }
    }

    /// The same, with the finding that it follows from.
    #[must_use]
    pub fn and_because(self, because: Self) -> Self {
        Self { because: Some(Box::new(because)), ..self }
    }

    /// The same, with the words of others; a code that quotes no one keeps none.
    #[must_use]
    pub fn and_said(self, said: impl ToString) -> Self {
        let said = self.code.quotes().then(|| said.to_string());
        Self { said, ..self }
    }

    /// The same, unless it has a text that its code does not keep.
    pub(crate) fn checked(self) -> Result<Self, KeepsNoText> {
        if self.said.is_some() && !self.code.quotes() { Err(KeepsNoText(self.code)) } else { Ok(self) }
    }

    /// The same with every text changed: secrets hidden, or lengths bounded.
    #[must_use]
    pub fn map(self, change: impl Fn(String) -> String) -> Self {
        self.map_by(&change)
    }

    fn map_by(self, change: &dyn Fn(String) -> String) -> Self {
        let because = self.because.map(|because| Box::new(because.map_by(change)));
        Self { about: self.about.map(change), because, said: self.said.map(change), ..self }
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
            if let Some(because) = &mut self.because {
                because.withhold(disclosure);
            }
            return false;
        }
        let is_withheld = self.said.is_some() || self.because.is_some();
        if is_withheld {
            (self.because, self.said) = (None, Some("…".to_owned()));
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

    /// Whether it follows from the end of the program that was to answer.
    pub fn is_exit(&self) -> bool {
        let because = std::iter::successors(self.because.as_deref(), |found| found.because.as_deref());
        because.last().is_some_and(|found| found.code == FoundCode::OutputClosed)
    }

    /// In a sentence, with the status that came with it.
    pub fn words(&self, status: Option<i64>) -> String {
        let about = self.about.as_deref().unwrap_or("it");
        let number = self.number.or(status);
        let said = self.said.as_deref();
        match (self.code, number) {
            // A person's reason stands for itself.
            (FoundCode::Resolved, _) => return said.unwrap_or_default().to_owned(),
            (FoundCode::NoAnswer, _) if self.is_exit() => return "the server exited before it answered".to_owned(),
            (FoundCode::Database, _) => {
                return format!("PostgreSQL: {} ({about}){}", said.unwrap_or_default(), database_hint(about));
            }
            _ => {}
        }
        let number_or_0 = number.unwrap_or_default();
        let time = Utc(u64::try_from(number_or_0).unwrap_or_default());
        let mut words = self.code.template().replace("{number}", &number_or_0.to_string());
        words = words.replace("{time}", &time.to_string());
        match (self.code, number) {
            (FoundCode::Answered, Some(status)) => words.push_str(meaning(status)),
            (FoundCode::ToolError, Some(code)) => words.push_str(&format!(" {code}")),
            _ => {}
        }
        // Last: what others named may hold anything.
        words = words.replace("{about}", about);
        for more in [self.because.as_ref().map(|because| because.words(None)), said.map(str::to_owned)] {
            words.extend(more.map(|more| format!(": {more}")));
        }
        words
    }
}

impl std::error::Error for Found {}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words(None))
    }
}

/// Why a value does not fit its type.
impl From<ValueError> for Found {
    fn from(error: ValueError) -> Self {
        match error {
            ValueError::Type { at, expected, .. } => {
                FoundCode::WrongType.about(at).and_because(FoundCode::ExpectedType.about(expected))
            }
            ValueError::Number(at) => FoundCode::NotWhole.about(at),
            ValueError::Digits { at, scale } => FoundCode::TooManyDigits.about(at).with_number(scale),
            ValueError::Unknown(at) => FoundCode::UnknownAttribute.about(at),
            ValueError::Missing(at) => FoundCode::MissingAttribute.about(at),
        }
    }
}

/// What a status of HTTP means for a call.
fn meaning(status: i64) -> &'static str {
    match status {
        200..=299 => "",
        300..=399 => ": a redirect, and none is followed",
        408 => ": it, or something on the way, stopped waiting",
        409 => ": it sees a conflict, perhaps with an earlier attempt",
        412 => ": what was read there has changed since",
        425 => ": the service rejected it as too early",
        429 => ": too much at once; nothing was done",
        400..=499 => ": the service rejected the request",
        500..=599 => ": it failed, and does not say how far it had come",
        _ => ": an unexpected status",
    }
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
    fn only_what_others_said_is_kept_as_text() {
        let quoted = FoundCode::TlsFailed.about("a.example").and_said("certificate expired");
        assert_eq!(quoted.to_string(), "TLS with a.example failed: certificate expired");
        let ours = FoundCode::NotSent.said("a sentence of the gate");
        assert_eq!(ours, FoundCode::NotSent.alone());
        let why = FoundCode::Unread.about("Account::\"42\"").and_because(FoundCode::Answered.number(503));
        let record = r#"{"about":"Account::\"42\"","because":{"found":"answered","number":503},"found":"unread"}"#;
        assert_eq!(serde_json::to_string(&why).unwrap(), record);
        assert_eq!(serde_json::from_str::<Found>(record).unwrap(), why);
        let words = "Account::\"42\" could not be read: the service answered 503: it failed, and does not say how far it had come";
        assert_eq!(why.to_string(), words);
    }

    #[test]
    fn a_text_of_the_gate_is_not_read_back_either() {
        let forged = r#"{"found":"not_sent","said":"a sentence of the gate"}"#;
        assert!(serde_json::from_str::<Found>(forged).is_err());
    }

    #[test]
    fn the_limit_of_a_fact_is_as_it_is_told() {
        let words = FoundCode::FactTooLarge.number(20_000).to_string();
        assert!(words.ends_with(&format!("at most {}", crate::limits::FACT_BYTES_MAX)), "{words}");
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
