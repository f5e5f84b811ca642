//! Messages between agents: what waits in whose inbox, folded from the ledger like everything else.
//!
//! A message is delivered by the entry that commits the action which sends it, and is kept there and nowhere else: here are only its
//! name (`msg_813`, after that entry), its sender and its place. It stays, under that one name, until its recipient acknowledges it,
//! which is an entry too. What is held is bounded for each recipient, for each sender in an inbox, for each sender in all inboxes, and
//! in all, so no sender takes the places of others. The leaf of an entry says all of this, so an erasure moves nothing.

mod inboxes;

pub use inboxes::{Inbox, Inboxes, Waiting};

use crate::ids::{AgentId, numbered};
use crate::limits::{ACKNOWLEDGED_MAX, INBOX_MESSAGES_MAX, INBOX_PER_SENDER_MAX, MESSAGES_MAX, SENDER_MESSAGES_MAX};
use smol_str::SmolStr;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The name of a message: `msg_` and the entry that delivered it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u64);

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "msg_{}", self.0)
    }
}

/// Text that names no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the name of a message, such as msg_813")]
pub struct NotAMessage(pub String);

crate::ids::serde_as_text!(MessageId);

impl FromStr for MessageId {
    type Err = NotAMessage;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        numbered("msg_", text).map(Self).ok_or_else(|| NotAMessage(text.chars().take(80).collect()))
    }
}

/// What a committed action delivers, as its decision says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The recipient.
    pub to: AgentId,
    /// The parameters that the recipient is given: those of them that were sent.
    pub body: Arc<[SmolStr]>,
}

/// A delivery, as the fold reads it of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery<'a> {
    /// Who sent it: the one who acted.
    pub from: &'a AgentId,
    /// The recipient.
    pub to: &'a AgentId,
}

/// How many messages wait, as far as one more from a sender to a recipient asks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unread {
    /// In the recipient's inbox.
    pub in_inbox: usize,
    /// Of the sender, in that inbox.
    pub of_sender: usize,
    /// Of the sender, in all inboxes.
    pub sent: usize,
    /// In all inboxes.
    pub in_all: usize,
}

/// Why there is no room for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoom {
    /// The sender has as many messages waiting as it may: in this inbox, or in all.
    Sender {
        /// How many wait.
        waiting: usize,
        /// How many may.
        max: usize,
        /// Whether all inboxes were counted.
        in_all: bool,
    },
    /// As many messages wait as may: in this inbox, or in all.
    Inbox {
        /// How many wait.
        waiting: usize,
        /// How many may.
        max: usize,
        /// Whether all inboxes were counted.
        in_all: bool,
    },
}

impl Unread {
    /// Whether one more message finds room. The sender's own share is asked for first: an agent that floods is told of that.
    ///
    /// # Errors
    /// What is full.
    pub fn check(&self) -> Result<(), NoRoom> {
        let Self { in_inbox, of_sender, sent, in_all } = *self;
        if of_sender >= INBOX_PER_SENDER_MAX {
            return Err(NoRoom::Sender { waiting: of_sender, max: INBOX_PER_SENDER_MAX, in_all: false });
        }
        if sent >= SENDER_MESSAGES_MAX {
            return Err(NoRoom::Sender { waiting: sent, max: SENDER_MESSAGES_MAX, in_all: true });
        }
        if in_inbox >= INBOX_MESSAGES_MAX {
            return Err(NoRoom::Inbox { waiting: in_inbox, max: INBOX_MESSAGES_MAX, in_all: false });
        }
        if in_all >= MESSAGES_MAX {
            return Err(NoRoom::Inbox { waiting: in_all, max: MESSAGES_MAX, in_all: true });
        }
        Ok(())
    }
}

/// Why an acknowledgement is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AcknowledgeRefusal {
    /// No message is named, or too many.
    #[error("one acknowledgement names 1 to {ACKNOWLEDGED_MAX} messages, not {0}")]
    Count(usize),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_one_name() {
        assert_eq!("msg_813".parse(), Ok(MessageId(813)));
        for text in ["msg_0813", "msg_+1", "msg_", "813", "eff_813", "MSG_813"] {
            assert!(text.parse::<MessageId>().is_err(), "{text}");
        }
    }
}
