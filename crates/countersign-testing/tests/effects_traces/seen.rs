//! What can be compared: the same picture of a state, drawn from the model and from a gate.

use countersign_testing::model::{Claim, Fact, Feed, Halt, Protocol, State, Status};

/// A picture of a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Version and value of each fact.
    pub facts: [(u64, bool); 2],
    /// How far each action is, in the words of answers.
    pub actions: [&'static str; 3],
    /// Whether a steady fence stands on each fact.
    pub fenced: [bool; 2],
    /// Whether each claim stands.
    pub claims: [bool; 2],
    /// Whether a feed is held.
    pub held: bool,
    /// Whether everything is halted.
    pub halted: bool,
    /// How many wait for a fence or a claim.
    pub waiting: usize,
}

/// As the model says.
pub fn expected(model: &Protocol, state: &State) -> Seen {
    let ledger = &state.tip;
    let specs = &model.config.actions;
    let fenced = |fact: Fact| {
        let mut actions = specs.iter().zip(&ledger.actions);
        actions.any(|(spec, action)| action.fenced && spec.reads[fact as usize])
    };
    Seen {
        facts: ledger.facts.map(|fact| (fact.version.into(), fact.open)),
        actions: ledger.actions.map(|action| name(action.status)),
        fenced: Fact::ALL.map(fenced),
        claims: ledger.claims.map(|claim| claim == Claim::Standing),
        held: ledger.feed == Feed::Held,
        halted: ledger.halt == Halt::Standing,
        waiting: state.waiting.len(),
    }
}

fn name(status: Status) -> &'static str {
    match status {
        Status::New => "new",
        Status::Rejected => "rejected",
        Status::Committed => "committed",
        Status::Cooling => "cooling",
        Status::Dispatched => "dispatched",
        Status::InDoubt => "in_doubt",
        Status::Settled => "settled",
        // A cancelled call has failed; that there was no dispatch, the steps before have shown.
        Status::Cancelled | Status::Failed => "failed",
    }
}
