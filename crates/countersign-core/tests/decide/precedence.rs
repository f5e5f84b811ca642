//! The precedence of rejections: one action with every fault there is; each row mends the fault of the row above.

use crate::decide::delegation::{at_most, chain, scope};
use crate::decide::world::{World, in_words};
use countersign_core::call::{EffectId, Outcome};
use countersign_core::code::Code;
use countersign_core::decide::decide_group;
use countersign_core::decision::Decision;
use countersign_core::effect::{Effect, Phase};
use countersign_core::fence::{Claim, ClaimId, Fenced};
use countersign_core::halt::{Halt, Scope};
use countersign_core::identity::KeyName;
use countersign_core::ids::AgentId;
use countersign_core::limits::{EFFECTS_PER_AGENT_MAX, REVIEWS_MAX};
use countersign_core::record::{Context, Decided, Encoder, Entry, Event, Leaf};
use serde_json::json;
use std::sync::Arc;

const PACT: &str = r#"
pact = "bank"
version = 1

[facts.Account]
attributes = { status = "String", balance = "Long" }

[facts.Receipt]
attributes = { amount = "Long" }

[action.pay]
resource = 'Account::"{from}"'
reads.target = 'Account::"{to}"'
reads.receipt = { fact = 'Receipt::"{number}"', create = true }
allow = 'principal.roles.contains("payer")'
min_trust = 600
require_observation = true
budget = { sum = "amount", max = 1000, per = "1h", by = "agent" }
call = { http = "payments", path = "/payouts" }

[action.pay.set]
balance = "resource.balance - context.amount"
target.balance = "context.target.balance + context.amount"
receipt.amount = "context.amount"

[action.pay.params]
type = "object"
additionalProperties = false
required = ["from", "to", "number", "amount"]
properties.from = { type = "string" }
properties.to = { type = "string" }
properties.number = { type = "string" }
properties.amount = { type = "integer", minimum = 1, maximum = 5000 }

[[action.pay.require]]
id = "source-is-active"
that = 'resource.status == "active"'

[[action.pay.require]]
id = "not-two-thousand"
that = 'context.amount != 2000'
on_fail = "review"
"#;

/// A row: the code that the faults so far lead to, and what mends the fault behind it.
type Row = (Code, fn(&mut World));

const ROWS: [Row; 29] = [
    (Code::UnknownPact, |world| world.pact = "bank".to_owned()),
    (Code::Halted, |world| world.state.halts.resume(&Scope::All)),
    (Code::UnknownAction, |world| world.action = "pay".to_owned()),
    (Code::InvalidParams, |world| world.params["amount"] = json!(2_000)),
    (Code::NotAuthenticated, |world| world.sign_with(KeyName::of([9; 32]))),
    (Code::UnknownAgent, |world| world.register(&[], "quarantined", 0)),
    (Code::AgentNotActive, |world| world.register(&[], "active", 0)),
    (Code::KeyNotCurrent, |world| {
        world.key = Some(KeyName::of([9; 32]));
        world.register(&[], "active", 0);
    }),
    (Code::DelegationWidened, |world| world.change_hop(1, |hop| drop(hop.limits.insert("amount".into(), at_most(9))))),
    (Code::DelegationTooDeep, |world| world.change_hop(0, |hop| hop.depth = 1)),
    (Code::DelegationExpired, |world| world.change_hop(1, |hop| hop.expires_at_ms = None)),
    (Code::DelegationMemberNotActive, |world| world.member("middle", 4, "active")),
    (Code::DelegationKeyNotCurrent, |world| world.member("middle", 3, "active")),
    (Code::DelegationOutOfScope, |world| world.chain = None),
    (Code::NotAllowed, |world| world.register(&["payer"], "active", 0)),
    (Code::InvalidFactId, |world| world.params["to"] = json!("a")),
    (Code::FactMissing, |world| world.feed("Account::\"a\"", Some(json!({"status": "frozen", "balance": 0})))),
    (Code::FactExists, |world| world.params["number"] = json!("r2")),
    (Code::AliasedWrite, |world| {
        world.feed("Account::\"b\"", Some(json!({"status": "active", "balance": 9_007_199_254_740_991_i64})));
        world.params["to"] = json!("b");
    }),
    (Code::TrustTooLow, |world| world.register(&["payer"], "active", 600)),
    (Code::ClaimLost, |world| world.claim = None),
    (Code::FactClaimed, |world| world.state.fences.withdraw(ClaimId(900))),
    (Code::FactFenced, |world| world.state.fences.free(901, &[fenced("Account::\"b\"")])),
    (Code::ObservationRequired, |world| world.observe(&["Account::\"a\"", "Account::\"b\""])),
    (Code::PreconditionFailed, |world| {
        world.feed("Account::\"a\"", Some(json!({"status": "active", "balance": 5_000})));
    }),
    (Code::TooManyReviews, |world| world.params["amount"] = json!(3_000)),
    (Code::BudgetExceeded, |world| world.params["amount"] = json!(1_000)),
    (Code::EffectInvalid, |world| world.feed("Account::\"b\"", Some(json!({"status": "active", "balance": 7})))),
    (Code::TooManyEffects, |world| {
        let (effects, fences) = (&mut world.state.effects, &mut world.state.fences);
        effects.settle(EffectId(0), Outcome::Failed, 1, 1, fences);
    }),
];

fn fenced(fact: &str) -> Fenced {
    Fenced { fact: fact.parse().unwrap(), version: 1, sets: false }
}

/// As many calls of the agent as there may be, none of which fences anything.
fn fill_with_effects(world: &mut World) {
    let action = Arc::new(world.request());
    for entry in 0..EFFECTS_PER_AGENT_MAX as u64 {
        let (phase, action) = (Phase::Cooling { dispatch_at_ms: u64::MAX }, Arc::clone(&action));
        let (id, rests_on) = (EffectId(entry), Vec::new());
        let effect = Effect { id, action, approval: None, rests_on, gap_ms: None, at_ms: 1, phase, latest: entry };
        world.state.effects.begin(effect, &mut world.state.fences);
    }
}

#[test]
fn one_agent_cannot_use_up_the_effects_of_all() {
    let mut world = World::new(PACT, "rob", json!({}));
    fill_with_effects(&mut world);
    let (agent, other) = (AgentId::new("agent-1").unwrap(), AgentId::new("agent-2").unwrap());
    assert!(world.state.effects.is_full_for(&agent));
    assert!(!world.state.effects.is_full_for(&other), "the places of others are theirs");
    world.state.effects.settle(EffectId(0), Outcome::Failed, 1, 1, &mut world.state.fences);
    assert!(!world.state.effects.is_full_for(&agent), "one has ended");
}

#[test]
fn each_row_mends_the_fault_of_the_row_above() {
    let params = json!({"from": "a", "to": "line\nfeed", "number": "r1", "amount": "all"});
    let mut world = World::new(PACT, "rob", params);
    world.pact = "bonk".to_owned();
    let by = AgentId::new("operator").unwrap();
    world.state.halts.halt(Scope::All, Halt { entry: 1, by, at_ms: 1, reason: "a test".into() });
    world.feed("Receipt::\"r1\"", Some(json!({"amount": 1})));
    world.identify();
    world.member("lead", 2, "active");
    world.member("middle", 4, "revoked");
    let mut first = scope("middle", 3);
    first.limits.insert("amount".into(), at_most(9));
    let mut second = scope("agent-1", 9);
    second.expires_at_ms = Some(1);
    world.chain = Some(chain("lead", 2, vec![first, second]));
    for entry in 0..REVIEWS_MAX as u64 {
        let parked = Arc::new(world.request());
        world.state.reviews.park(entry, world.now_ms, parked, Vec::new());
    }
    let claim = Claim {
        by: AgentId::new("somebody").unwrap(),
        at_ms: world.now_ms,
        expires_at_ms: world.now_ms + 1,
        until_ms: world.now_ms + 1,
        priority: 0,
        reason: "a test".into(),
        facts: vec!["Account::\"a\"".parse().unwrap()],
    };
    world.state.fences.announce(900, claim);
    world.state.fences.take(901, &[fenced("Account::\"b\"")]);
    world.claim = Some(ClaimId(902));
    fill_with_effects(&mut world);
    for (at, (code, mend)) in ROWS.iter().enumerate() {
        let decision = world.decide();
        let blocked = decision.blocked().unwrap_or_else(|| panic!("row {at} ({code}) committed"));
        assert_eq!(blocked.code(), *code, "row {at}: {}", blocked.message());
        assert!(!blocked.message().is_empty() && !blocked.hint().is_empty(), "row {at} explains nothing");
        assert!(decision.writes.is_empty() && decision.charges.is_empty(), "row {at} does something");
        check_fields(&world, &decision, *code);
        check_group(&world, *code);
        mend(&mut world);
    }
    let decision = world.decide();
    assert_eq!(in_words(&decision), "in_flight");
    let writes = &decision.dispatched().unwrap().writes;
    let written: Vec<_> = writes.iter().map(|write| write.value.as_ref().unwrap().to_json()).collect();
    assert_eq!((&written[0]["balance"], &written[1]["amount"]), (&json!(4_000), &json!(1_000)));
    assert_eq!(written[2]["balance"], 1_007);
}

/// In a group the same reasons count, in the same order. This action type makes a call, so there it ends.
fn check_group(world: &World, code: Code) {
    let blocked = decide_group(&[world.request()], &world.state, world.now_ms).unwrap();
    let found = blocked.decision.blocked().unwrap().code();
    assert_eq!((blocked.failed, found), (0, code.min(Code::NotInGroup)), "in a group");
    assert!(blocked.decision.writes.is_empty() && blocked.decision.charges.is_empty(), "{code}");
}

/// What an auditor asks of the entry of every rejection: the action, the precondition, what was expected, what was found, and the
/// gap. Where one does not apply, docs/formats/entry.md says what its absence means, and nothing else may be absent.
fn check_fields(world: &World, decision: &Decision, code: Code) {
    let action = world.request();
    let (index, time_ms, by, auth) = (7, world.now_ms, action.agent.clone(), action.auth.clone());
    let id = action.id;
    let event = Event::Action(Box::new(Decided { action: Box::new(action), decision: decision.clone() }));
    let entry = Entry { index, time_ms, by, auth, context: Context::default(), event };
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let payload = json(&entry.show_payload());
    let leaf = json(&Leaf::decode(Encoder::default().leaf(&entry, &[0; 32])).unwrap().show());
    // The action: by its id, and in the caller's own words.
    assert_eq!(leaf["action"], id.to_string(), "{code}");
    let body = json(payload["body"].as_str().unwrap());
    assert_eq!((&body["pact"], &body["action"]), (&json!(world.pact), &json!(world.action)), "{code}");
    let decided = payload["decision"].as_object().unwrap();
    let blocked = decided["blocked"].as_object().unwrap();
    assert_eq!(blocked["code"], code.as_str());
    // The gap: of the oldest observation of what was read; there is none where nothing was observed of it.
    let was_observed =
        |fact: &str| payload["observed"].as_array().is_some_and(|all| all.iter().any(|it| it["fact"] == fact));
    let reads = payload["reads"].as_array().cloned().unwrap_or_default();
    let is_observed = reads.iter().any(|read| was_observed(read[0].as_str().unwrap()));
    assert_eq!(decided.contains_key("gap_ms"), is_observed, "{code}: {payload}");
    // The precondition: there is none where the reason is another, which the code names.
    assert_eq!(blocked.contains_key("failed"), code == Code::PreconditionFailed, "{code}: {blocked:?}");
    for failed in blocked.get("failed").and_then(|failed| failed.as_array()).into_iter().flatten() {
        assert!(failed["precondition"].is_string() && failed["why"].is_string(), "{failed}");
        let reads = failed.get("reads").and_then(|reads| reads.as_array()).cloned().unwrap_or_default();
        // One about parameters alone has the gap of the whole action.
        let has_gap =
            if reads.is_empty() { is_observed } else { reads.iter().any(|read| read.get("expected").is_some()) };
        assert_eq!(failed.get("gap_ms").is_some(), has_gap, "{failed}");
        for read in reads {
            // Expected: as it was observed. Actual: as it is now; it is there in every row of this table.
            assert_eq!(read.get("expected").is_some(), was_observed(read["fact"].as_str().unwrap()), "{read}");
            assert!(read.get("actual").is_some_and(|actual| !actual.is_null()), "{read}");
        }
    }
}

#[test]
fn the_table_has_every_code_in_the_order_of_precedence() {
    // An approval becomes void only at a later decision: of the approval itself, or of a dispatch.
    let of_approvals = [Code::SelfApproval, Code::ApprovalExpired, Code::ApprovalOutdated];
    // These are about actions that are decided together.
    let of_groups = [Code::NotInGroup, Code::GroupRejected];
    // These are about what is guarded as read, which `readings` tests.
    let of_readings = [
        Code::SessionRequired,
        Code::SessionNotOpen,
        Code::TooManyReadings,
        Code::ReadingRequired,
        Code::ReadingStale,
        Code::ReadingUnusable,
        Code::TurnHeld,
        Code::ReadingUnread,
        Code::ReadingChanged,
    ];
    // These are about messages, whose order `messages` tests.
    let of_messages = [Code::RecipientNotActive, Code::MessageQuotaExceeded, Code::InboxFull];
    let others = [of_approvals.as_slice(), &of_groups, &of_readings, &of_messages].concat();
    let is_alone = |code: &Code| !others.contains(code);
    let at_intent: Vec<Code> = Code::ALL.into_iter().filter(is_alone).collect();
    assert_eq!(ROWS.map(|(code, _)| code).as_slice(), at_intent);
    assert!(Code::ALL.is_sorted());
}
