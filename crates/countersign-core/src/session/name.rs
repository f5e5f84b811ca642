//! How sessions are named.

use super::{READING, SESSION};
use crate::ids::{FactId, FactType, numbered};
use std::fmt;
use std::str::FromStr;

/// A session: `ses_` and the entry that opened it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ses_{}", self.0)
    }
}

impl FromStr for SessionId {
    type Err = NotASession;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        numbered("ses_", text).map(Self).ok_or_else(|| NotASession(text.chars().take(80).collect()))
    }
}

impl SessionId {
    /// The fact that it is.
    pub fn fact(self) -> Option<FactId> {
        FactId::new(FactType::new(SESSION).ok()?, self.to_string()).ok()
    }

    /// The fact of a reading in it, by the reading's name.
    pub(super) fn named(self, name: &str) -> Option<FactId> {
        FactId::new(FactType::new(READING).ok()?, format!("{self}/{name}")).ok()
    }

    /// As it is named when it is opened.
    pub fn first_name(self) -> SessionName {
        SessionName { id: self, followed: 0 }
    }
}

/// The name that a session's client reads and acts under: `ses_812` when it is opened, `ses_812.1` once it was gone on in. Whoever goes on
/// in it gets a new name, and the one before ends: what is still under way under it adds nothing that the new client was not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionName {
    /// The session.
    pub id: SessionId,
    /// How often it was gone on in.
    pub followed: u32,
}

/// Text that names no session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the name of a session, such as ses_813")]
pub struct NotASession(pub String);

crate::ids::serde_as_text!(SessionId);
crate::ids::serde_as_text!(SessionName);

impl fmt::Display for SessionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.followed {
            0 => write!(f, "{}", self.id),
            followed => write!(f, "{}.{followed}", self.id),
        }
    }
}

impl FromStr for SessionName {
    type Err = NotASession;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let not_one = || NotASession(text.chars().take(80).collect());
        let (id, followed) = match text.split_once('.') {
            Some((id, followed)) => (id, numbered("", followed).filter(|count| *count > 0).ok_or_else(not_one)?),
            None => (text, 0),
        };
        let id = id.parse().map_err(|_| not_one())?;
        Ok(Self { id, followed: u32::try_from(followed).map_err(|_| not_one())? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_spelling() {
        for text in ["ses_0", "ses_812", "ses_812.1", "ses_812.4294967295"] {
            assert_eq!(text.parse::<SessionName>().map(|name| name.to_string()).as_deref(), Ok(text));
        }
        for text in ["", "ses_", "ses_01", "ses_1.", "ses_1.0", "ses_1.01", "ses_1.4294967296", "ses_1.1.1", "ses_1 "] {
            assert!(text.parse::<SessionName>().is_err(), "{text}");
        }
    }
}
