//! Where there is no room for a message.

use super::is_false;
use crate::ids::AgentId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Messages of which as many wait as may.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crowded {
    /// The sender, where only its messages were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<AgentId>,
    /// The recipient.
    pub to: AgentId,
    /// How many wait.
    pub waiting: u64,
    /// How many may.
    pub max: u64,
    /// Whether all inboxes were counted, and not the recipient's alone.
    #[serde(default, skip_serializing_if = "is_false")]
    pub in_all: bool,
}

impl fmt::Display for Crowded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, waiting, max, in_all } = self;
        let of = from.as_ref().map(|from| format!(" of {from}")).unwrap_or_default();
        let place = if *in_all { "all inboxes".to_owned() } else { format!("the inbox of {to}") };
        write!(f, "{waiting} messages{of} wait in {place}, of {max} that may")
    }
}
