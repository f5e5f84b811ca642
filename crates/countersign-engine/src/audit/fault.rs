//! Why an entry cannot be derived again, and what might explain that.

use countersign_core::fence::ClaimId;
use countersign_core::ids::FactId;
use countersign_core::record::Event;

/// Why an entry cannot be derived again.
#[derive(Debug)]
pub(super) struct Fault {
    /// What is wrong with it.
    pub(super) what: String,
    /// What it would have to be checked against, and what may be erased.
    pub(super) rests_on: RestsOn,
}

/// What an entry rests on that an erasure can have taken.
#[derive(Debug, Clone)]
pub(super) enum RestsOn {
    /// Nothing: who may do what, what was asked for, pacts and halts are never erased.
    Nothing,
    /// The current version of a fact.
    Fact(FactId),
    /// The current versions of all of these facts: whether a grant shows them.
    Shown(Vec<FactId>),
    /// The entry that parked an action.
    Review(u64),
    /// The entries that put an effect under way.
    Effect(u64),
    /// The entry of a claim.
    Claim(u64),
    /// Whether the claim that is in the way, or one of too many, still holds what it did.
    Claimed(Option<ClaimId>),
    /// The entry in which a feed was held.
    Held(u64),
    /// The entry that opened a session.
    Session(u64),
    /// Which facts were fenced.
    Fences,
    /// What was decided again, which is no entry that a gate makes.
    Decision(Box<Event>),
}

impl Fault {
    pub(super) fn on(rests_on: RestsOn) -> impl FnOnce(String) -> Self {
        move |what| Self { what, rests_on }
    }
}

impl From<String> for Fault {
    fn from(what: String) -> Self {
        Self { what, rests_on: RestsOn::Nothing }
    }
}
