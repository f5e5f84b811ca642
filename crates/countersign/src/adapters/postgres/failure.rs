//! What can go wrong between a statement and its answer, by what follows from it.

use countersign_core::call::{Found, FoundCode};
use countersign_core::screen::visible::one_line;
use std::error::Error as _;
use tokio_postgres::error::{DbError, Severity};

/// How much is told of a message of the server: a trigger may raise one of any length.
const SAID_BYTES_MAX: usize = 500;

/// Why a statement has no good answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The connection broke, or no answer came in time. What was not committed is rolled back by the server.
    Lost(Found),
    /// The server gave up the transaction because of others, and the same transaction may succeed if tried again.
    Conflict(Found),
    /// The server did not do it now, and may do it later: a lock that others hold, too many connections.
    Busy(Found),
    /// A prepared statement no longer fits its tables; a new connection prepares it again.
    Outdated(Found),
    /// The server says no, and will say no again.
    Refused(Found),
}

impl Failure {
    /// What happened.
    pub fn found(&self) -> &Found {
        match self {
            Self::Lost(found)
            | Self::Conflict(found)
            | Self::Busy(found)
            | Self::Outdated(found)
            | Self::Refused(found) => found,
        }
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(refused) => of_server(refused),
            None if broken(&error) => Self::Lost(FoundCode::NoAnswer.said(causes(&error))),
            None => Self::Refused(FoundCode::Unsendable.said(causes(&error))),
        }
    }
}

/// Whether an answer to COMMIT says for certain that nothing was committed. A connection that is being ended may have committed
/// before, so only an ordinary error counts.
pub fn surely_not_committed(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|refused| refused.parsed_severity() == Some(Severity::Error))
}

/// Without `DETAIL` and without the statement: both can quote values of rows.
fn of_server(refused: &DbError) -> Failure {
    let code = refused.code().code();
    let said = FoundCode::Database.about(code).and_said(one_line(refused.message(), SAID_BYTES_MAX));
    match code {
        "40001" | "40P01" => Failure::Conflict(said),
        // A lock or a statement that took too long.
        "55P03" | "57014" => Failure::Busy(said),
        // The server ends the connection, or is not ready for one.
        "25P03" | "57P01" | "57P02" | "57P03" | "57P05" => Failure::Lost(said),
        "0A000" | "26000" => Failure::Outdated(said),
        _ if code.starts_with("53") || code.starts_with("08") => Failure::Busy(said),
        _ => Failure::Refused(said),
    }
}

fn broken(error: &tokio_postgres::Error) -> bool {
    error.is_closed() || error.source().is_some_and(|source| source.is::<std::io::Error>())
}

fn causes(error: &tokio_postgres::Error) -> String {
    match error.source() {
        Some(source) => one_line(&format!("{error}: {source}"), SAID_BYTES_MAX),
        None => one_line(&error.to_string(), SAID_BYTES_MAX),
    }
}
