//! Atomic groups: decided in order, each action on what those before it would leave, and none if one fails.

use crate::decide::world::World;
use countersign_core::action::{Action, ActionRequest};
use countersign_core::code::Code;
use countersign_core::decide::{Grouping, decide_group};
use countersign_core::decision::Decision;
use countersign_core::fence::ClaimId;
use countersign_core::identity::Auth;
use countersign_core::ids::{AgentId, Tag};
use countersign_core::record::{Decided, Event};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;

const PACT: &str = r#"
pact = "bank"
version = 1

[facts.Account]
attributes = { balance = "Long" }

[action.move]
resource = 'Account::"{from}"'
allow = 'true'
reads.target = 'Account::"{to}"'
budget = { sum = "amount", max = 100, per = "1h", by = "agent" }

[action.move.set]
balance = "resource.balance - context.amount"
target.balance = "context.target.balance + context.amount"

[action.move.params]
type = "object"
additionalProperties = false
required = ["from", "to", "amount"]
properties.from = { type = "string" }
properties.to = { type = "string" }
properties.amount = { type = "integer", minimum = 1, maximum = 5000 }

[[action.move.require]]
id = "covered"
that = 'resource.balance >= context.amount'

[[action.move.require]]
id = "small"
that = 'context.amount <= 90'
on_fail = "review"

[action.open]
resource = { fact = 'Account::"{to}"', create = true }
allow = 'true'
set.balance = "context.amount"

[action.open.params]
type = "object"
additionalProperties = false
required = ["to", "amount"]
properties.to = { type = "string" }
properties.amount = { type = "integer", minimum = 0 }

[[action.open.require]]
id = "any"
that = 'context.amount >= 0'

[action.patient]
resource = 'Account::"{from}"'
allow = 'true'
wait = "5s"
set.balance = "resource.balance"

[action.patient.params]
type = "object"
additionalProperties = false
required = ["from"]
properties.from = { type = "string" }

[[action.patient.require]]
id = "any"
that = 'resource.balance >= 0'

[action.call]
resource = 'Account::"{from}"'
allow = 'true'
set.balance = "resource.balance"
call = { http = "payments", path = "/payouts" }

[action.call.params]
type = "object"
additionalProperties = false
required = ["from"]
properties.from = { type = "string" }

[[action.call.require]]
id = "any"
that = 'resource.balance >= 0'
"#;

fn world(accounts: &[(&str, i64)]) -> World {
    let mut world = World::new(PACT, "move", json!({})).with_agent(&[]);
    for (account, balance) in accounts {
        world.feed(&format!("Account::\"{account}\""), Some(json!({"balance": balance})));
    }
    world
}

fn action(number: usize, name: &str, params: &Value, claim: Option<ClaimId>) -> Action {
    let mut body =
        json!({"pact": "bank", "action": name, "idempotency_key": format!("{number:032}"), "params": params});
    if let Some(claim) = claim {
        body["claim"] = claim.to_string().into();
    }
    let body: Arc<str> = body.to_string().into();
    let request = ActionRequest::parse(&body).unwrap();
    Action::new(AgentId::new("agent-1").unwrap(), Auth::None, Arc::clone(&body), request, Vec::new())
}

fn moves(moves: &[(&str, &str, i64)]) -> Vec<Action> {
    let one = |(number, (from, to, amount)): (usize, &(&str, &str, i64))| {
        action(number, "move", &json!({"from": from, "to": to, "amount": amount}), None)
    };
    moves.iter().enumerate().map(one).collect()
}

/// Why a group is rejected, in words; `None` if it commits.
fn blocked(world: &World, actions: &[Action]) -> Option<(usize, Code)> {
    let blocked = decide_group(actions, &world.state, world.now_ms)?;
    assert!(blocked.decision.writes.is_empty() && blocked.decision.charges.is_empty());
    Some((blocked.failed, blocked.decision.blocked().unwrap().code()))
}

#[test]
fn each_action_sees_what_those_before_it_write() {
    let world = world(&[("a", 50), ("b", 0), ("c", 0)]);
    // The money of the second step is there only after the first.
    assert_eq!(blocked(&world, &moves(&[("a", "b", 50), ("b", "c", 50)])), None);
    assert_eq!(blocked(&world, &moves(&[("b", "c", 50), ("a", "b", 50)])), Some((0, Code::PreconditionFailed)));
    assert_eq!(
        blocked(&world, &moves(&[("a", "b", 30), ("a", "b", 30)])),
        Some((1, Code::PreconditionFailed)),
        "nor is it there twice"
    );
    // A fact that the group makes itself.
    let open = |number| action(number, "open", &json!({"to": "new", "amount": 1}), None);
    let mut group = vec![open(7)];
    group.extend(moves(&[("a", "new", 5), ("new", "c", 6)]));
    assert_eq!(blocked(&world, &group), None);
    assert_eq!(blocked(&world, &[open(7), open(8)]), Some((1, Code::FactExists)));
}

#[test]
fn what_the_group_changed_itself_is_told_as_of_the_entry_that_it_becomes() {
    let world = world(&[("a", 50), ("b", 0)]);
    let rejected = decide_group(&moves(&[("a", "b", 30), ("a", "b", 30)]), &world.state, world.now_ms).unwrap();
    let reason = serde_json::to_value(rejected.decision.blocked().unwrap()).unwrap();
    let read = &reason["failed"][0]["reads"][0];
    assert_eq!((&read["actual"], &read["version"]), (&json!(20), &json!(2)));
    assert_eq!(read["changed"]["entry"], world.state.next_entry, "there will be no other entry of it");
    // Read is what the ledger has: no version that exists in this group alone.
    let reads: Vec<_> = rejected.decision.reads.iter().map(|read| (read.fact.to_string(), read.version)).collect();
    let known = |fact: &str| (fact.to_owned(), 1);
    assert_eq!(reads, [known("Agent::\"agent-1\""), known("Account::\"a\""), known("Account::\"b\"")]);
}

#[test]
fn budgets_count_what_the_group_charges() {
    let world = world(&[("a", 500), ("b", 0)]);
    assert_eq!(blocked(&world, &moves(&[("a", "b", 50), ("a", "b", 50)])), None, "100 is the most");
    assert_eq!(blocked(&world, &moves(&[("a", "b", 50), ("a", "b", 51)])), Some((1, Code::BudgetExceeded)));
}

#[test]
fn what_a_person_would_decide_is_rejected_and_says_why() {
    let world = world(&[("a", 500), ("b", 0)]);
    let group = moves(&[("a", "b", 1), ("a", "b", 95)]);
    let rejected = decide_group(&group, &world.state, world.now_ms).unwrap();
    assert_eq!(rejected.decision.verdict.as_str(), "rejected");
    let failed = rejected.decision.blocked().unwrap().failed();
    assert_eq!((rejected.failed, failed[0].id.as_str()), (1, "small"));
}

#[test]
fn what_cannot_be_undone_or_may_wait_is_no_part_of_a_group() {
    let world = world(&[("a", 500), ("b", 0)]);
    let first = moves(&[("a", "b", 1)]).remove(0);
    let params = json!({"from": "a"});
    let claimed = action(4, "move", &json!({"from": "a", "to": "b", "amount": 1}), Some(ClaimId(3)));
    for (other, why) in
        [(action(2, "call", &params, None), "call"), (action(3, "patient", &params, None), "wait"), (claimed, "claim")]
    {
        let rejected = decide_group(&[first.clone(), other], &world.state, world.now_ms).unwrap();
        let reason = serde_json::to_value(rejected.decision.blocked().unwrap()).unwrap();
        assert_eq!((rejected.failed, &reason["code"], &reason["why"]), (1, &json!("not_in_group"), &json!(why)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Committed as a group or one by one makes no difference to any decision or to the state.
    #[test]
    fn a_group_that_commits_is_what_its_actions_are_one_by_one(
        steps in prop::collection::vec((0usize..3, 0usize..3, 1i64..60), 1..8),
    ) {
        const NAMES: [&str; 3] = ["a", "b", "c"];
        let mut one_by_one = world(&[("a", 60), ("b", 30), ("c", 0)]);
        let steps: Vec<_> = steps.into_iter().map(|(from, to, amount)| (NAMES[from], NAMES[to], amount)).collect();
        let actions = moves(&steps);
        let now_ms = one_by_one.now_ms;
        let group_world = one_by_one.clone();
        let mut group = Grouping::new(&group_world.state, group_world.next_entry, now_ms);
        let mut alone: Vec<Decision> = Vec::new();
        for action in &actions {
            let grouped = group.decide(action);
            let mut decision = countersign_core::decide::decide(action, &one_by_one.state, now_ms);
            decision.writes.iter_mut().for_each(|write| write.tag = write.tag.or(Some(Tag([0; 12]))));
            match grouped {
                Ok(grouped) => {
                    prop_assert_eq!(&grouped, &decision);
                    group.assume(action, &grouped);
                    group.advance();
                }
                Err(_) => {
                    prop_assert!(decision.blocked().is_some());
                    let whole = decide_group(&actions, &group_world.state, now_ms);
                    prop_assert_eq!(whole.map(|whole| whole.failed), Some(alone.len()), "the first that fails");
                    return Ok(());
                }
            }
            let decided = Decided { action: Box::new(action.clone()), decision: decision.clone() };
            one_by_one.enter("agent-1", Event::Action(Box::new(decided)));
            alone.push(decision);
        }
        prop_assert_eq!(decide_group(&actions, &group_world.state, now_ms), None);
    }
}
