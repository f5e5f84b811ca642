//! The messages that wait, by recipient: eight bytes for each.
//!
//! A million of them are held twice, by the sequencer and for readers, so a message is its distance from the first of its inbox, and
//! the number of its sender in a table that all inboxes share. Inboxes are shared between copies until one of them changes.

use super::{ACKNOWLEDGED_MAX, AcknowledgeRefusal, Delivery, MessageId, Unread};
use crate::ids::AgentId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A message that waits for its recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting<'a> {
    /// Its name.
    pub id: MessageId,
    /// Who sent it.
    pub from: &'a AgentId,
}

/// The messages that wait, by recipient.
#[derive(Debug, Clone, Default)]
pub struct Inboxes {
    of: BTreeMap<AgentId, Arc<Slots>>,
    senders: Senders,
    in_all: usize,
    /// No entry before this one delivers any more: so an entry that is applied twice delivers once, acknowledged or not.
    next: u64,
}

/// The messages of one inbox, oldest first: entries come in their order.
#[derive(Debug, Clone, Default)]
struct Slots {
    /// What the places of `near` count from.
    first: u64,
    near: Vec<Slot>,
    /// Those too far from the first for that, which come after all that are near: messages that no one reads for four billion entries.
    far: Vec<(u64, u32)>,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    behind_first: u32,
    sender: u32,
}

impl Slots {
    fn len(&self) -> usize {
        self.near.len().saturating_add(self.far.len())
    }

    fn push(&mut self, entry: u64, sender: u32) {
        if self.near.is_empty() && self.far.is_empty() {
            self.first = entry;
        }
        match entry.checked_sub(self.first).map(u32::try_from) {
            Some(Ok(behind_first)) if self.far.is_empty() => self.near.push(Slot { behind_first, sender }),
            _ => self.far.push((entry, sender)),
        }
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u32)> + '_ {
        let near = self.near.iter().map(|slot| (self.first.saturating_add(u64::from(slot.behind_first)), slot.sender));
        near.chain(self.far.iter().copied())
    }

    fn contains(&self, id: MessageId) -> bool {
        let behind = id.0.checked_sub(self.first).and_then(|behind| u32::try_from(behind).ok());
        let is_near =
            behind.is_some_and(|behind| self.near.binary_search_by_key(&behind, |it| it.behind_first).is_ok());
        is_near || self.far.binary_search_by_key(&id.0, |it| it.0).is_ok()
    }

    fn retain(&mut self, mut is_kept: impl FnMut(u64, u32) -> bool) {
        let first = self.first;
        self.near.retain(|slot| is_kept(first.saturating_add(u64::from(slot.behind_first)), slot.sender));
        self.far.retain(|(entry, sender)| is_kept(*entry, *sender));
        // A flood that was read must not keep its memory.
        if self.near.len() < self.near.capacity() / 4 {
            self.near.shrink_to_fit();
        }
    }
}

/// Who has messages that wait, each by a number while it has any.
#[derive(Debug, Clone, Default)]
struct Senders {
    numbers: BTreeMap<Arc<AgentId>, u32>,
    /// By number: who, and how many wait.
    table: Vec<Option<(Arc<AgentId>, usize)>>,
    free: Vec<u32>,
}

impl Senders {
    /// The number of a sender of one message more; `None` where all numbers are taken, which takes more messages than may wait.
    fn add(&mut self, from: &AgentId) -> Option<u32> {
        if let Some(number) = self.numbers.get(from) {
            if let Some(Some((_, waiting))) = self.table.get_mut(place(*number)) {
                *waiting = waiting.saturating_add(1);
            }
            return Some(*number);
        }
        let sender = Arc::new(from.clone());
        let held = Some((Arc::clone(&sender), 1));
        let number = match self.free.pop() {
            Some(number) => {
                if let Some(free) = self.table.get_mut(place(number)) {
                    *free = held;
                }
                number
            }
            None => {
                let number = u32::try_from(self.table.len()).ok()?;
                self.table.push(held);
                number
            }
        };
        self.numbers.insert(sender, number);
        Some(number)
    }

    /// One message of a sender less.
    fn remove(&mut self, number: u32) {
        let Some(held) = self.table.get_mut(place(number)) else { return };
        let Some((sender, waiting)) = held else { return };
        *waiting = waiting.saturating_sub(1);
        if *waiting == 0 {
            self.numbers.remove(&**sender);
            *held = None;
            self.free.push(number);
        }
    }

    fn get(&self, number: u32) -> Option<&AgentId> {
        self.table.get(place(number))?.as_ref().map(|(sender, _)| &**sender)
    }

    fn waiting(&self, number: u32) -> usize {
        self.table.get(place(number)).and_then(Option::as_ref).map_or(0, |(_, waiting)| *waiting)
    }
}

fn place(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// What waits for one recipient.
#[derive(Debug, Clone, Copy)]
pub struct Inbox<'a> {
    slots: Option<&'a Slots>,
    senders: &'a Senders,
}

impl<'a> Inbox<'a> {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.slots.map_or(0, Slots::len)
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether this one waits.
    pub fn contains(&self, id: MessageId) -> bool {
        self.slots.is_some_and(|slots| slots.contains(id))
    }

    /// The newest.
    pub fn last(&self) -> Option<MessageId> {
        self.slots.and_then(|slots| slots.iter().next_back()).map(|(entry, _)| MessageId(entry))
    }

    /// All of them, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = Waiting<'a>> + use<'a> {
        let senders = self.senders;
        let slots = self.slots.into_iter().flat_map(Slots::iter);
        slots.filter_map(move |(entry, sender)| Some(Waiting { id: MessageId(entry), from: senders.get(sender)? }))
    }
}

impl PartialEq for Inboxes {
    /// By what waits for whom, and of whom. Numbers differ with how they came to be.
    fn eq(&self, other: &Self) -> bool {
        let counts = |inboxes: &Self| (inboxes.next, inboxes.in_all, inboxes.of.len());
        counts(self) == counts(other)
            && self.iter().zip(other.iter()).all(|((to, inbox), (other, others))| {
                to == other && inbox.len() == others.len() && inbox.iter().eq(others.iter())
            })
    }
}

impl Eq for Inboxes {}

impl Inboxes {
    /// Takes in a message.
    pub fn deliver(&mut self, entry: u64, Delivery { from, to }: Delivery<'_>) {
        if entry < self.next {
            return;
        }
        self.next = entry.saturating_add(1);
        self.put(to, entry, from);
    }

    fn put(&mut self, to: &AgentId, entry: u64, from: &AgentId) {
        let Some(sender) = self.senders.add(from) else { return };
        self.in_all = self.in_all.saturating_add(1);
        Arc::make_mut(self.of.entry(to.clone()).or_default()).push(entry, sender);
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
        let (senders, in_all) = (&mut self.senders, &mut self.in_all);
        let slots = Arc::make_mut(shared);
        slots.retain(|entry, sender| {
            let is_kept = !is_taken(MessageId(entry));
            if !is_kept {
                *in_all = in_all.saturating_sub(1);
                senders.remove(sender);
            }
            is_kept
        });
        if slots.len() == 0 {
            self.of.remove(of);
        }
    }

    /// What waits for a recipient, oldest first.
    pub fn waiting_for(&self, to: &AgentId) -> Inbox<'_> {
        Inbox { slots: self.of.get(to).map(AsRef::as_ref), senders: &self.senders }
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
        let mut pending: Vec<MessageId> = named.iter().copied().filter(|id| inbox.contains(*id)).collect();
        pending.sort_unstable();
        pending.dedup();
        Ok(pending)
    }

    /// How many wait, as far as one more message asks.
    pub fn unread(&self, from: &AgentId, to: &AgentId) -> Unread {
        let slots = self.of.get(to);
        let number = self.senders.numbers.get(from).copied();
        let of_sender = number
            .map_or(0, |number| slots.map_or(0, |slots| slots.iter().filter(|(_, sender)| *sender == number).count()));
        Unread {
            in_inbox: slots.map_or(0, |slots| slots.len()),
            of_sender,
            sent: number.map_or(0, |number| self.senders.waiting(number)),
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
    pub fn iter(&self) -> impl Iterator<Item = (&AgentId, Inbox<'_>)> {
        let senders = &self.senders;
        self.of.iter().map(move |(to, slots)| (to, Inbox { slots: Some(&**slots), senders }))
    }

    /// The first entry that may still deliver.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Puts back an inbox that a snapshot holds.
    pub fn restore(&mut self, to: &AgentId, inbox: &[(u64, AgentId)]) {
        inbox.iter().for_each(|(entry, from)| self.put(to, *entry, from));
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
        assert!(inboxes.is_empty() && inboxes.senders.numbers.is_empty() && inboxes.of.is_empty());
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
        assert!(inboxes.is_empty() && inboxes.senders.numbers.is_empty() && inboxes.of.is_empty());
        deliver(&mut inboxes, 7);
        // The deletion is applied again, over a snapshot that knows of more.
        inboxes.close(&to, 5);
        assert_eq!(ids(&inboxes, "b"), [7]);
    }

    #[test]
    fn senders_get_the_numbers_of_those_that_have_nothing_waiting() {
        let (to, mut inboxes) = (agent("b"), Inboxes::default());
        for entry in 1..100 {
            let from = agent(&format!("a-{entry}"));
            inboxes.deliver(entry, Delivery { from: &from, to: &to });
            assert_eq!(inboxes.unread(&from, &to), Unread { in_inbox: 1, of_sender: 1, sent: 1, in_all: 1 });
            assert_eq!(inboxes.waiting_for(&to).iter().next(), Some(Waiting { id: MessageId(entry), from: &from }));
            inboxes.acknowledge(&to, &named(&[entry]));
        }
        assert_eq!((inboxes.senders.table.len(), inboxes.senders.free.len()), (1, 1));
    }

    #[test]
    fn a_message_that_no_one_reads_for_billions_of_entries_keeps_its_place() {
        let (from, to) = (agent("a"), agent("b"));
        let mut inboxes = Inboxes::default();
        let far = 7 + (1 << 33);
        for entry in [7, 9, far, far + 1, u64::MAX - 1] {
            inboxes.deliver(entry, Delivery { from: &from, to: &to });
        }
        assert_eq!(ids(&inboxes, "b"), [7, 9, far, far + 1, u64::MAX - 1]);
        assert_eq!(inboxes.waiting_for(&to).last(), Some(MessageId(u64::MAX - 1)));
        assert_eq!(inboxes.pending(&to, &named(&[far + 1, 9, 8, 3])), Ok(named(&[9, far + 1])));
        inboxes.acknowledge(&to, &named(&[7, 9, far]));
        assert_eq!(ids(&inboxes, "b"), [far + 1, u64::MAX - 1]);
        let mut other = Inboxes::default();
        other.restore_next(u64::MAX);
        other.restore(&to, &[(far + 1, from.clone()), (u64::MAX - 1, from.clone())]);
        assert!(inboxes == other, "the same, held in another way");
        other.close(&to, far + 2);
        assert!(inboxes != other && ids(&other, "b") == [u64::MAX - 1]);
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
}
