//! The independent checker: judges a recorded history of the bank workload (`bank.rs`) against the ledger it left.
//!
//! It shares no code with the engine or with `decide`: it sees what was asked and answered, reads the entries itself
//! (`stored.rs`), and has its own small account of the rules (`rules.rs`). It holds that the history is serialisable in ledger
//! order: each verdict is the one that the facts at its own position give (I1), so no effect rests on a false precondition and
//! no rejection lacks a reason; versions rise by one; no acknowledged verdict is missing (I2); an operation that began after
//! another was answered stands behind it; and what was observed was really so at the position that was shown.

mod answers;
mod authority;
mod batches;
mod deed;
mod delegation;
mod grants;
mod history;
mod model;
mod reviews;
mod rules;
pub mod serial;
pub mod stored;

pub use grants::{Grants, check_grants};
pub use history::{Answered, Asked, LogEntry, Operation, ReviewRefused, Shown};
pub use model::{Model, Version};

/// What a history that is right amounts to.
#[derive(Debug)]
pub struct Judged {
    /// The facts, pacts and budgets after the last entry.
    pub model: Model,
    /// How many actions committed.
    pub committed: usize,
    /// How many actions were rejected or wait for a person.
    pub blocked: usize,
}

/// Judges a history.
///
/// # Errors
/// Everything that is wrong with it, in words.
pub fn check(operations: &[Operation], entries: &[LogEntry]) -> Result<Judged, Vec<String>> {
    let mut complaints = Vec::new();
    let mut model = Model::default();
    let (mut committed, mut blocked) = (0, 0);
    for (index, entry) in (0u64..).zip(entries) {
        match model.replay(index, entry) {
            Ok(Some("committed")) => committed += 1,
            Ok(Some(_)) => blocked += 1,
            Ok(None) => {}
            Err(complaint) => complaints.push(format!("entry {index}: {complaint}")),
        }
    }
    complaints.extend(model.unexplained_erasures(entries));
    answers::check(operations, entries, &model, &mut complaints);
    if complaints.is_empty() { Ok(Judged { model, committed, blocked }) } else { Err(complaints) }
}
