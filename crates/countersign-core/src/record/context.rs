//! What an entry says of where it came from and what it weighs: its session, the entries that led to it, labels, severity,
//! confidence and score.
//!
//! All of it is optional and stands in the leaf, so that no erasure takes it away. An entry that says nothing of it costs nothing.

use crate::ids::{IdError, check_id};
use crate::limits::{BECAUSE_OF_MAX, CONFIDENCE_MAX, LABELS_MAX, SCORES_MAX, SEVERITY_MAX};
use smol_str::SmolStr;

/// What an entry says of where it came from and what it weighs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Context(Option<Box<Given>>);

/// The members of a context, each of which may be absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Given {
    /// The session that it belongs to.
    pub session: Option<SmolStr>,
    /// The entries that led to it, ascending.
    pub because_of: Vec<u64>,
    /// What is known of where its content came from, ascending.
    pub labels: Vec<SmolStr>,
    /// How bad it is, from 0 on.
    pub severity: Option<u64>,
    /// How sure that is, in thousandths.
    pub confidence: Option<u64>,
    /// What each organisation counts for in the score of trust, ascending by name.
    pub score: Vec<(SmolStr, i64)>,
}

/// Why a context is not acceptable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContextError {
    /// A name is not acceptable.
    #[error("{0}")]
    Id(#[from] IdError),
    /// There are too many of something, or a number is too large.
    #[error("`{0}` is beyond its limit")]
    Limit(&'static str),
    /// Something is not in ascending order, or is there twice.
    #[error("`{0}` is not in ascending order")]
    Order(&'static str),
}

impl Context {
    /// Checks the members.
    ///
    /// # Errors
    /// If a list is too long or out of order, a number too large, or a name not acceptable.
    pub fn new(given: Given) -> Result<Self, ContextError> {
        if given == Given::default() {
            return Ok(Self(None));
        }
        let Given { session, because_of, labels, severity, confidence, score } = &given;
        let names = session.iter().chain(labels).chain(score.iter().map(|(name, _)| name));
        names.into_iter().try_for_each(|name| check_id(name))?;
        let limits = [
            ("because_of", because_of.len() > BECAUSE_OF_MAX),
            ("labels", labels.len() > LABELS_MAX),
            ("severity", severity.is_some_and(|severity| severity > SEVERITY_MAX)),
            ("confidence", confidence.is_some_and(|confidence| confidence > CONFIDENCE_MAX)),
            ("score", score.len() > SCORES_MAX),
        ];
        if let Some((what, _)) = limits.into_iter().find(|(_, is_beyond)| *is_beyond) {
            return Err(ContextError::Limit(what));
        }
        let ascending = [
            ("because_of", because_of.is_sorted_by(|a, b| a < b)),
            ("labels", labels.is_sorted_by(|a, b| a < b)),
            ("score", score.is_sorted_by(|(a, _), (b, _)| a < b)),
        ];
        match ascending.into_iter().find(|(_, is_ascending)| !is_ascending) {
            Some((what, _)) => Err(ContextError::Order(what)),
            None => Ok(Self(Some(Box::new(given)))),
        }
    }

    /// What is given; `None` where nothing is.
    pub fn given(&self) -> Option<&Given> {
        self.0.as_deref()
    }
}
