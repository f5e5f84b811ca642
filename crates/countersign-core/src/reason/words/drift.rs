//! The words on what is no longer as it was shown.

use super::super::{Drift, Since};
use crate::utc::Utc;
use crate::value::Value;
use std::fmt;

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |value: &Option<Value>| value.as_ref().map_or_else(|| "absent".to_owned(), ToString::to_string);
        let who = |changed: &Option<Since>| match changed {
            None => String::new(),
            // Entry 0 stands for a reading of an external fact.
            Some(Since { entry: 0, at, by }) => format!(", as read in {by} at {}", Utc(*at)),
            Some(Since { entry, at, by }) => format!(", by {by} at {} in entry {entry}", Utc(*at)),
        };
        match self {
            Self::Pact { pact, shown, now } => {
                let now = now.map_or_else(|| "not published".to_owned(), |now| format!("at version {now}"));
                write!(f, "pact `{pact}` was shown at version {shown}, and is now {now}")
            }
            Self::Reviewer { by } => write!(f, "{by} approved it, and is no longer an active reviewer"),
            Self::NotShown { fact, .. } => write!(f, "{fact} was not shown"),
            Self::Presence { fact, is_there, changed, .. } => {
                let (was, is) = if *is_there { ("absent", "there") } else { ("there", "gone") };
                write!(f, "{fact} was {was} when it was shown, and is now {is}{}", who(changed))
            }
            Self::Attribute { fact, attribute, was, is, changed, .. } => {
                let (was, is) = (text(was), text(is));
                write!(f, "{fact}.{attribute} was {was} when it was shown, and is now {is}{}", who(changed))
            }
            Self::ReadAgain { upstream, tool, changed, .. } => write!(
                f,
                "{upstream}/{tool} was read again after this was asked for, and reads differently{}; what its agent had not seen \
                 when it asked does not count, so it has to ask again",
                who(changed)
            ),
            Self::Withheld { read } => write!(f, "`{read}` is not as it was shown"),
        }
    }
}
