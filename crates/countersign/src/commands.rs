//! One file for each subcommand, and what they share: how they end, and which gate or folder they work on.

pub mod act;
pub mod agent;
pub mod audit;
pub mod backup;
pub mod claim;
pub mod clock;
pub mod delegation;
pub mod effect;
pub mod fact;
pub mod halt;
pub mod identity;
pub mod inbox;
pub mod init;
pub mod key;
pub mod ledger;
pub mod mcp;
pub mod observe;
pub mod operator;
pub mod pact;
pub mod postgres;
pub mod replay;
pub mod review;
mod screened;
pub mod serve;
pub mod verdict;
pub mod verify;

use crate::client::Client;
use crate::config::Config;
use crate::terminal::Report;
use crate::tls::Files;
use anyhow::Result;
use clap::Args;
use countersign_api::{EffectState, ErrorCode, VerdictKind};
use countersign_core::ids::{FactId, FactType};
use std::fmt;
use std::path::PathBuf;

/// The operator that commands act as unless told otherwise.
pub const OPERATOR: &str = "operator";

/// How a command ended, when nothing stopped it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Done, or the answer is yes.
    Yes,
    /// The answer is no: a rejected action, a broken log, a pact with problems.
    No,
    /// The action waits for a person.
    Waiting,
    /// It may have happened, and no one knows.
    InDoubt,
    /// It is under way, and not over.
    InFlight,
    /// The call did not happen.
    Failed,
}

impl Outcome {
    pub fn code(self) -> u8 {
        match self {
            Self::Yes => 0,
            Self::No => 1,
            Self::Waiting => 4,
            Self::InDoubt => 5,
            Self::InFlight => 6,
            Self::Failed => 7,
        }
    }
}

impl From<VerdictKind> for Outcome {
    fn from(verdict: VerdictKind) -> Self {
        match verdict {
            VerdictKind::Committed | VerdictKind::Settled => Self::Yes,
            VerdictKind::Rejected => Self::No,
            VerdictKind::Review => Self::Waiting,
            VerdictKind::InFlight => Self::InFlight,
            VerdictKind::InDoubt => Self::InDoubt,
            VerdictKind::Failed => Self::Failed,
        }
    }
}

impl From<EffectState> for Outcome {
    fn from(state: EffectState) -> Self {
        match state {
            EffectState::Settled => Self::Yes,
            EffectState::Cooling | EffectState::Dispatched => Self::InFlight,
            EffectState::InDoubt => Self::InDoubt,
            EffectState::Failed => Self::Failed,
        }
    }
}

/// How a command ended otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The answer is no.
    No = 1,
    /// The command was not understood.
    Usage = 2,
    /// The command could not be carried out.
    Cannot = 3,
    /// It is not known whether what was asked for was done.
    Unknown = 5,
}

/// Why a command ended without its answer, with what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    message: String,
    hints: Vec<String>,
    /// The code that a gate refused with.
    code: Option<String>,
    /// The entry that it named as being in the way.
    entry: Option<u64>,
}

impl Failure {
    /// The answer is no.
    pub fn no(message: impl Into<String>) -> Self {
        Self { exit: Exit::No, message: message.into(), hints: Vec::new(), code: None, entry: None }
    }

    /// The command was not understood.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, ..Self::no(message) }
    }

    /// The command could not be carried out.
    pub fn cannot(message: impl Into<String>) -> Self {
        Self { exit: Exit::Cannot, ..Self::no(message) }
    }

    /// The same where an attempt may have been carried out: what went wrong last says nothing about that.
    pub fn into_unknown(self, what: &str, key: Option<&str>) -> Self {
        let key = key.map(|key| format!(", under idempotency key {key}")).unwrap_or_default();
        let message = format!("unknown: {what}{key}; the last attempt: {}", self.message);
        Self { exit: Exit::Unknown, ..Self::no(message) }
    }

    /// The same as another error says, and what it says to do about it.
    pub fn of(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self::of_report(exit, Report::of_error(&error.into()))
    }

    /// What a report says.
    pub fn of_report(exit: Exit, report: Report) -> Self {
        Self { exit, hints: report.hints, ..Self::no(report.message) }
    }

    /// Adds what an error that the message quotes says to do about it.
    pub fn hinted_by(mut self, error: &(dyn std::error::Error + 'static)) -> Self {
        self.hints.extend(Report::of_cause(error).hints);
        self
    }

    /// Adds what to do about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// What happened.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to do about it.
    pub fn hints(&self) -> &[String] {
        &self.hints
    }

    /// The code that a gate refused with.
    pub fn code(&self) -> Option<&str> {
        self.code.as_deref()
    }

    /// Says which code a gate refused with, and which entry is in the way.
    pub fn coded(self, code: String, entry: Option<u64>) -> Self {
        Self { code: Some(code), entry, ..self }
    }
}

/// Whether an error is a gate's refusal with this code.
pub fn is_refused_as(error: &anyhow::Error, code: ErrorCode) -> bool {
    error.downcast_ref::<Failure>().and_then(|failure| failure.code.as_deref()) == Some(code.as_str())
}

/// The entry that a gate's refusal names.
pub fn entry_of(error: &anyhow::Error) -> Option<u64> {
    error.downcast_ref::<Failure>().and_then(|failure| failure.entry)
}

/// Whether an error leaves open whether what was asked for was done.
pub fn is_unknown(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Failure>().is_some_and(|failure| failure.exit == Exit::Unknown)
}

/// Whether an error is a gate's refusal, and not the lack of an answer.
pub fn is_refused(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Failure>().is_some_and(|failure| failure.code.is_some())
}

/// Whether a gate was asked, and gave no answer.
pub fn is_unanswered(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Failure>().is_some_and(|failure| failure.exit == Exit::Cannot && failure.code.is_none())
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// The gate that a command talks to.
#[derive(Debug, Clone, Args)]
pub struct Connection {
    /// The gate to talk to, such as http://127.0.0.1:8420 or https://gate.example.com
    #[arg(long, value_name = "URL", env = "COUNTERSIGN_SERVER", hide_env_values = true, help_heading = "Gate")]
    pub server: Option<String>,
    /// Open this data folder instead of talking to a server; no other process may hold it
    #[arg(long, value_name = "DIR", help_heading = "Gate")]
    pub data: Option<PathBuf>,
    /// Over https, trust the authorities in this PEM file and no others [default: the public ones]
    #[arg(long, value_name = "FILE", env = "COUNTERSIGN_CA", hide_env_values = true, help_heading = "Gate")]
    pub ca: Option<PathBuf>,
    /// Sign with this key file; the signer is the caller
    #[arg(long, value_name = "FILE", env = "COUNTERSIGN_KEY", hide_env_values = true, help_heading = "Gate")]
    pub key: Option<PathBuf>,
}

impl Connection {
    /// Connects. A folder is opened only when the command line names one: settings for `serve` must not send a command
    /// past the gate that runs. Where nothing names a gate, the one that runs on the usual folder is called by its socket,
    /// or where its settings have it listen.
    pub fn client(&self, config: &Config) -> Result<Client> {
        let client = match (&self.data, self.server.as_deref().or(config.server.as_deref())) {
            (Some(data), _) => Client::embedded(data, config)?,
            (None, Some(server)) => Client::trusting(server, &self.trust(config))?,
            (None, None) => {
                let data = std::env::var_os("COUNTERSIGN_DATA").map(PathBuf::from);
                Client::of_folder(&config.data(data.as_deref()), config, &self.trust(config))?
            }
        };
        self.signed(client, config)
    }

    /// Whom to trust over TLS, and what to show.
    fn trust(&self, config: &Config) -> Files {
        Files { ca: self.ca.clone().or_else(|| config.trust.ca.clone()), ..config.trust.clone() }
    }

    /// The same client, signing with the key that is named, if one is.
    pub fn signed(&self, client: Client, config: &Config) -> Result<Client> {
        match self.key_file(config).map(crate::key_file::read).transpose()? {
            Some(key) => client.signing(key, config.origin.as_deref()),
            None => Ok(client),
        }
    }

    /// The key file to sign with, if there is one.
    pub fn key_file<'a>(&'a self, config: &'a Config) -> Option<&'a std::path::Path> {
        self.key.as_deref().or(config.key.as_deref())
    }
}

/// The data folder that a command works on.
#[derive(Debug, Clone, Args)]
pub struct Folder {
    /// The data folder [default: countersign-data]
    #[arg(long, value_name = "DIR", env = "COUNTERSIGN_DATA", hide_env_values = true)]
    pub data: Option<PathBuf>,
}

/// A fact named in two words (`Account 42`) or in one (`Account::"42"`).
pub fn fact_id(words: &[String]) -> Result<FactId> {
    let refuse = |error: &dyn fmt::Display| {
        Failure::usage(error.to_string()).hint("name a fact as `Account 42` or as 'Account::\"42\"'")
    };
    match words {
        [one] => Ok(one.parse().map_err(|error| refuse(&error))?),
        [ty, id] => {
            let ty = FactType::new(ty.as_str()).map_err(|error| refuse(&error))?;
            Ok(FactId::new(ty, id.as_str()).map_err(|error| refuse(&error))?)
        }
        _ => Err(refuse(&"a fact has a type and an id").into()),
    }
}

/// A fact in one word, as lists of facts have them: `Account::"42"`, or `Account::42` where the shell took the quotes.
pub fn fact_word(word: &str) -> Result<FactId> {
    match word.split_once("::") {
        Some((ty, id)) if !id.starts_with('"') => fact_id(&[ty.to_owned(), id.to_owned()]),
        _ => fact_id(&[word.to_owned()]),
    }
}

pub fn fact_path(fact: &FactId) -> String {
    format!("/v1/facts/{}/{}", crate::client::escape(fact.ty().as_str()), crate::client::escape(fact.id()))
}

/// How long to wait for a call, in whole seconds: `10`, or a span of time as pacts write them.
pub fn wait_seconds(text: &str) -> Result<u32, String> {
    let seconds = match text.parse::<u64>() {
        Ok(seconds) => Some(seconds),
        Err(_) => countersign_core::pact::duration_ms(text).map(|ms| ms.div_ceil(1000)),
    };
    let seconds = seconds.and_then(|seconds| u32::try_from(seconds).ok()).filter(|seconds| *seconds <= 60);
    seconds.ok_or_else(|| "write 10, 10s or 1m; 60 seconds at most".to_owned())
}

/// A value from the command line: as it stands, from standard input (`-`), or from a file (`@FILE`).
pub fn text_of(given: &str) -> Result<String> {
    use anyhow::Context as _;
    match (given, given.strip_prefix('@')) {
        ("-", _) => std::io::read_to_string(std::io::stdin()).context("cannot read standard input"),
        (_, Some(file)) => std::fs::read_to_string(file).with_context(|| format!("cannot read {file}")),
        _ => Ok(given.to_owned()),
    }
}

/// What to say of a name that there is none of: the one that was meant, or where to look.
pub fn did_you_mean<'a>(name: &str, names: impl Iterator<Item = &'a str>, otherwise: &str) -> String {
    match countersign_core::pact::diagnostic::closest(name, names) {
        Some(near) => format!("did you mean `{near}`? {otherwise}"),
        None => otherwise.to_owned(),
    }
}

/// A span of time, as pacts write them.
fn duration(text: &str) -> Result<u64> {
    countersign_core::pact::duration_ms(text).ok_or_else(|| {
        Failure::usage(format!("`{text}` is not a span of time"))
            .hint("write a whole number and one of ms, s, m, h, d: 5s")
            .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_is_named_in_one_word_or_two() {
        let words = |words: &[&str]| fact_id(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(words(&["Account", "4/2"]).expect("two words").to_string(), "Account::\"4/2\"");
        assert_eq!(words(&["Account::\"42\""]).expect("one word").id(), "42");
        assert_eq!(fact_word("Account::42").expect("without quotes").to_string(), "Account::\"42\"");
        for wrong in [&["Account"] as &[&str], &["1", "2"], &["A", "b", "c"], &[]] {
            let error = words(wrong).expect_err("is no fact");
            assert_eq!(error.downcast_ref::<Failure>().map(|failure| failure.exit), Some(Exit::Usage));
        }
    }
}
