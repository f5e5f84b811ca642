//! Two states compared: the very same, or the same in everything that decides.

use countersign_core::state::State;
use std::sync::Arc;

/// The very same state, part by part, so that a failure says which.
pub fn same(state: &State, expected: &State, who: &str, position: u64) {
    assert_eq!(state.reviews, expected.reviews, "{who} at {position}: reviews");
    assert_eq!(state.effects, expected.effects, "{who} at {position}: effects");
    assert_eq!(state.fences, expected.fences, "{who} at {position}: fences");
    assert_eq!(state.budgets, expected.budgets, "{who} at {position}: budgets");
    assert_eq!(state.inboxes, expected.inboxes, "{who} at {position}: inboxes");
    for fact in expected.facts.iter() {
        assert_eq!(state.facts.get(&fact.id), Some(fact), "{who} at {position}");
    }
    assert!(state == expected, "{who} at {position}");
}

/// The same in everything that decides. What an erased entry alone said (who last changed an attribute, what a closed window held) is
/// gone.
pub fn alike(state: &State, expected: &State, position: u64) {
    let values = |state: &State| {
        let fact =
            |fact: &Arc<countersign_core::fact::Fact>| (fact.id.clone(), fact.tag, fact.version(), fact.value.clone());
        let mut facts: Vec<_> = state.facts.iter().map(fact).collect();
        facts.sort_by_key(|(id, ..)| id.to_string());
        facts
    };
    assert_eq!(values(state), values(expected), "at {position}");
    let open = |state: &State| state.reviews.open().map(|(id, parked)| (id, parked.clone())).collect::<Vec<_>>();
    assert_eq!(open(state), open(expected), "at {position}");
    let phases = |state: &State| {
        state.effects.open().map(|(id, effect)| (id, effect.phase.as_str(), effect.latest)).collect::<Vec<_>>()
    };
    assert_eq!(phases(state), phases(expected), "at {position}");
    assert_eq!((&state.halts, &state.held), (&expected.halts, &expected.held), "at {position}");
    // What was delivered and what was acknowledged is in leaves.
    assert_eq!(state.inboxes, expected.inboxes, "at {position}");
    assert_eq!((&state.pacts, state.version_floor), (&expected.pacts, expected.version_floor), "at {position}");
}
