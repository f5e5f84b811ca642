//! Messages between agents: what waits in whose inbox, folded from the ledger like everything else.
//!
//! A message is delivered by the entry that commits the action which sends it, and is kept there and nowhere else: here are only its
//! name (`msg_813`, after that entry), its sender and its place. It stays, under that one name, until its recipient acknowledges it,
//! which is an entry too. What is held is bounded for each recipient, for each sender in an inbox, for each sender in all inboxes, and
//! in all, so no sender takes the places of others. The leaf of an entry says all of this, so an erasure moves nothing.

use crate::ids::{AgentId, numbered};
use crate::limits::{ACKNOWLEDGED_MAX, INBOX_MESSAGES_MAX, INBOX_PER_SENDER_MAX, MESSAGES_MAX, SENDER_MESSAGES_MAX};
use smol_str::SmolStr;
use std::collections::BTreeMap;
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

/// A message that waits for its recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Its name.
    pub id: MessageId,
    /// Who sent it: one name for all its messages that wait, since a name of its own for each would be most of an inbox.
    pub from: Arc<AgentId>,
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

/// The messages that wait, by recipient. Inboxes are shared between copies until one of them changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inboxes {
    of: BTreeMap<AgentId, Arc<Vec<Waiting>>>,
    /// How many of each sender wait.
    sent: BTreeMap<Arc<AgentId>, usize>,
    in_all: usize,
    /// No entry before this one delivers any more: so an entry that is applied twice delivers once, acknowledged or not.
    next: u64,
}

/// Why an acknowledgement is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AcknowledgeRefusal {
    /// No message is named, or too many.
    #[error("one acknowledgement names 1 to {ACKNOWLEDGED_MAX} messages, not {0}")]
    Count(usize),
}

impl Inboxes {
    /// Takes in a message.
    pub fn deliver(&mut self, entry: u64, Delivery { from, to }: Delivery<'_>) {
        if entry < self.next {
            return;
        }
        self.next = entry.saturating_add(1);
        self.put(to, MessageId(entry), from);
    }

    fn put(&mut self, to: &AgentId, id: MessageId, from: &AgentId) {
        let known = self.sent.get_key_value(from).map(|(known, _)| Arc::clone(known));
        let from = known.unwrap_or_else(|| Arc::new(from.clone()));
        let sent = self.sent.entry(Arc::clone(&from)).or_default();
        *sent = sent.saturating_add(1);
        self.in_all = self.in_all.saturating_add(1);
        let inbox = self.of.entry(to.clone()).or_default();
        // Entries come in their order, so the newest is the last.
        Arc::make_mut(inbox).push(Waiting { id, from });
    }

    /// Takes out what its recipient has acknowledged. Naming a message again changes nothing.
    pub fn acknowledge(&mut self, by: &AgentId, messages: &[MessageId]) {
        self.take(by, |id| messages.binary_search(&id).is_ok());
    }

    /// Takes out what waits for an agent that an entry deletes: an agent registered under its name later was not written to.
    pub fn close(&mut self, of: &AgentId, entry: u64) {
        self.take(of, |id| id.0 < entry);
    }

    fn take(&mut self, of: &AgentId, is_taken: impl Fn(MessageId) -> bool) {
        let Some(shared) = self.of.get_mut(of) else { return };
        let inbox = Arc::make_mut(shared);
        let (sent, in_all) = (&mut self.sent, &mut self.in_all);
        inbox.retain(|waiting| {
            if !is_taken(waiting.id) {
                return true;
            }
            *in_all = in_all.saturating_sub(1);
            if let Some(left) = sent.get_mut(&*waiting.from) {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    sent.remove(&*waiting.from);
                }
            }
            false
        });
        if inbox.is_empty() {
            self.of.remove(of);
        } else if inbox.len() < inbox.capacity() / 4 {
            // A flood that was read must not keep its memory.
            inbox.shrink_to_fit();
        }
    }

    /// What waits for a recipient, oldest first.
    pub fn waiting_for(&self, to: &AgentId) -> &[Waiting] {
        self.of.get(to).map_or(&[], |inbox| inbox.as_slice())
    }

    /// Which of these messages wait for a recipient, ascending and each once.
    ///
    /// # Errors
    /// If none is named, or too many.
    pub fn pending(&self, to: &AgentId, named: &[MessageId]) -> Result<Vec<MessageId>, AcknowledgeRefusal> {
        if !(1..=ACKNOWLEDGED_MAX).contains(&named.len()) {
            return Err(AcknowledgeRefusal::Count(named.len()));
        }
        let inbox = self.waiting_for(to);
        let waits = |id: &&MessageId| inbox.binary_search_by_key(*id, |waiting| waiting.id).is_ok();
        let mut pending: Vec<MessageId> = named.iter().filter(waits).copied().collect();
        pending.sort_unstable();
        pending.dedup();
        Ok(pending)
    }

    /// How many wait, as far as one more message asks.
    pub fn unread(&self, from: &AgentId, to: &AgentId) -> Unread {
        let inbox = self.waiting_for(to);
        Unread {
            in_inbox: inbox.len(),
            of_sender: inbox.iter().filter(|waiting| *waiting.from == *from).count(),
            sent: self.sent.get(from).copied().unwrap_or(0),
            in_all: self.in_all,
        }
    }

    /// How many wait in all.
    pub fn len(&self) -> usize {
        self.in_all
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.in_all == 0
    }

    /// Every inbox in which something waits.
    pub fn iter(&self) -> impl Iterator<Item = (&AgentId, &[Waiting])> {
        self.of.iter().map(|(to, inbox)| (to, inbox.as_slice()))
    }

    /// The first entry that may still deliver.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Puts back an inbox that a snapshot holds.
    pub fn restore(&mut self, to: &AgentId, inbox: &[(u64, AgentId)]) {
        inbox.iter().for_each(|(entry, from)| self.put(to, MessageId(*entry), from));
    }

    /// Puts back from which entry on there are deliveries.
    pub fn restore_next(&mut self, next: u64) {
        self.next = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(name: &str) -> AgentId {
        AgentId::new(name).unwrap()
    }

    fn ids(inboxes: &Inboxes, to: &str) -> Vec<u64> {
        inboxes.waiting_for(&agent(to)).iter().map(|waiting| waiting.id.0).collect()
    }

    fn named(ids: &[u64]) -> Vec<MessageId> {
        ids.iter().copied().map(MessageId).collect()
    }

    #[test]
    fn an_entry_delivers_once_whatever_became_of_its_message() {
        let (from, to) = (agent("a"), agent("b"));
        let mut inboxes = Inboxes::default();
        let deliver = |inboxes: &mut Inboxes, entry| inboxes.deliver(entry, Delivery { from: &from, to: &to });
        deliver(&mut inboxes, 3);
        deliver(&mut inboxes, 5);
        deliver(&mut inboxes, 3);
        assert_eq!(ids(&inboxes, "b"), [3, 5]);
        inboxes.acknowledge(&to, &named(&[3]));
        inboxes.acknowledge(&to, &named(&[3, 4]));
        deliver(&mut inboxes, 3);
        assert_eq!((ids(&inboxes, "b"), inboxes.len()), (vec![5], 1));
        inboxes.acknowledge(&to, &named(&[5]));
        assert!(inboxes.is_empty() && inboxes.sent.is_empty() && inboxes.of.is_empty());
    }

    #[test]
    fn only_its_recipient_acknowledges_a_message() {
        let (from, to) = (agent("a"), agent("b"));
        let mut inboxes = Inboxes::default();
        inboxes.deliver(3, Delivery { from: &from, to: &to });
        inboxes.acknowledge(&from, &named(&[3]));
        assert_eq!(ids(&inboxes, "b"), [3]);
        assert_eq!(inboxes.pending(&from, &named(&[3])), Ok(Vec::new()));
        assert_eq!(inboxes.pending(&to, &named(&[9, 3, 3])), Ok(named(&[3])));
        assert_eq!(inboxes.pending(&to, &[]), Err(AcknowledgeRefusal::Count(0)));
        let many = named(&vec![3; ACKNOWLEDGED_MAX + 1]);
        assert!(inboxes.pending(&to, &many).is_err());
    }

    #[test]
    fn an_inbox_ends_with_its_agent_and_another_of_the_name_begins_empty() {
        let (from, to) = (agent("a"), agent("b"));
        let mut inboxes = Inboxes::default();
        let deliver = |inboxes: &mut Inboxes, entry| inboxes.deliver(entry, Delivery { from: &from, to: &to });
        deliver(&mut inboxes, 3);
        inboxes.close(&to, 5);
        assert!(inboxes.is_empty() && inboxes.sent.is_empty() && inboxes.of.is_empty());
        deliver(&mut inboxes, 7);
        // The deletion is applied again, over a snapshot that knows of more.
        inboxes.close(&to, 5);
        assert_eq!(ids(&inboxes, "b"), [7]);
    }

    #[test]
    fn a_copy_keeps_what_it_had() {
        let (from, to) = (agent("a"), agent("b"));
        let mut inboxes = Inboxes::default();
        inboxes.deliver(3, Delivery { from: &from, to: &to });
        let copy = inboxes.clone();
        inboxes.acknowledge(&to, &named(&[3]));
        assert_eq!((ids(&inboxes, "b"), ids(&copy, "b")), (vec![], vec![3]));
    }

    #[test]
    fn a_message_has_one_name() {
        assert_eq!("msg_813".parse(), Ok(MessageId(813)));
        for text in ["msg_0813", "msg_+1", "msg_", "813", "eff_813", "MSG_813"] {
            assert!(text.parse::<MessageId>().is_err(), "{text}");
        }
    }
}
