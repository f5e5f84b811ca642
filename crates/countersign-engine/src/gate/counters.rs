//! Counts of what a gate did, for metrics.

use countersign_core::call::Outcome;
use countersign_core::code::Code;
use countersign_core::decision::{Decision, Verdict};
use countersign_core::record::Event;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the gate was opened.
#[derive(Debug, Default)]
pub struct Counters {
    /// Actions committed.
    pub committed: AtomicU64,
    /// Actions rejected.
    pub rejected: AtomicU64,
    /// Actions that wait for a person.
    pub review: AtomicU64,
    /// Actions whose call was put under way.
    pub in_flight: AtomicU64,
    /// Calls that happened.
    pub settled: AtomicU64,
    /// Calls that did not happen, cancelled ones among them.
    pub failed: AtomicU64,
    /// Calls of which nobody knew whether they happened.
    pub in_doubt: AtomicU64,
    /// Changes announced.
    pub claimed: AtomicU64,
    /// Actions that took effect in shadow mode although something did not hold.
    pub shadowed: AtomicU64,
    /// Answers to a repeated idempotency key.
    pub repeated: AtomicU64,
    /// Actions rejected because their scope is halted.
    pub halted: AtomicU64,
    /// Parked actions approved, and so executed.
    pub approved: AtomicU64,
    /// Facts fed.
    pub fed: AtomicU64,
    /// Requests refused without an entry.
    pub refused: AtomicU64,
    /// Requests refused because the queue was full.
    pub busy: AtomicU64,
    /// Batches made durable.
    pub batches: AtomicU64,
    /// Bytes written to the log.
    pub log_bytes: AtomicU64,
    /// Observations made.
    pub observed: AtomicU64,
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

impl Counters {
    /// Counts what an entry says that was just decided.
    pub(super) fn count_event(&self, event: &Event) {
        match event {
            Event::Action(decided) => self.count_verdict(&decided.decision, 1),
            // A void approval executes nothing; the action stays parked, and was counted as such.
            Event::Approval(approved) if approved.is_void() => {}
            Event::Approval(approved) => {
                self.count_verdict(&approved.decision, 1);
                add(&self.approved, 1);
            }
            Event::Group(group) => self.count_verdict(&group.decision, group.actions.len() as u64),
            Event::Settle(settle) => match settle.outcome {
                Outcome::Settled => add(&self.settled, 1),
                Outcome::Failed => add(&self.failed, 1),
                Outcome::InDoubt => add(&self.in_doubt, 1),
            },
            Event::Dispatch(dispatch) if dispatch.decision.blocked().is_some() => add(&self.failed, 1),
            Event::Claim { .. } => add(&self.claimed, 1),
            Event::Feed { .. } => add(&self.fed, 1),
            // Nothing of these is counted.
            Event::Genesis { .. }
            | Event::Pact(_)
            | Event::Held { .. }
            | Event::Confirm { .. }
            | Event::Erasure { .. }
            | Event::Clock { .. }
            | Event::Refusal { .. }
            | Event::Expiry { .. }
            | Event::Halt { .. }
            | Event::Resume { .. }
            | Event::Dispatch(_)
            | Event::Extension { .. }
            | Event::Withdrawal { .. }
            | Event::Session { .. }
            | Event::Reading { .. }
            | Event::Observation(_)
            | Event::Denials(_)
            | Event::Batch { .. }
            | Event::Rotation { .. }
            | Event::Done(_)
            | Event::Erased(_) => {}
        }
    }

    fn count_verdict(&self, decision: &Decision, actions: u64) {
        match &decision.verdict {
            Verdict::Committed => add(&self.committed, actions),
            Verdict::Rejected(reason) => {
                add(&self.rejected, actions);
                if reason.code() == Code::Halted {
                    add(&self.halted, actions);
                }
            }
            Verdict::Review { .. } => add(&self.review, actions),
            Verdict::InFlight(_) => add(&self.in_flight, actions),
        }
        if decision.shadowed.is_some() {
            add(&self.shadowed, actions);
        }
    }
}
