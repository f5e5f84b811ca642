//! Calls from intent to settlement.

use crate::effects::world::{World, account_id, done, operator, unknown, verdict};
use countersign_core::call::{EffectId, Evidence, FoundCode, Outcome};
use countersign_core::effect::EffectRefusal;
use countersign_core::halt::Scope;
use countersign_core::identity::Auth;
use countersign_core::record::{Event, Judged};
use countersign_core::value::{Attributes, Value};
use countersign_engine::outbox::{Attempt, Probed};
use countersign_engine::request::{Answer, Refusal, Request, Settlement};
use serde_json::json;

#[test]
fn a_call_that_happened_writes_with_its_settlement_and_not_before() {
    let mut world = World::new();
    let (word, effect) = world.act("payer-1", "payout", json!({"account": "a", "amount": 100}));
    assert_eq!(word, "in_flight");
    world.wait(|world| world.asked() == 1, "the outside was never asked");
    assert_eq!((world.balance("a"), world.phase(effect).as_str()), (500, "dispatched"));
    let sent = world.outside.asked.lock()[0].clone();
    assert_eq!(sent.2, json!(["POST", "/payouts/a", {"account": "a", "amount": 100}]));
    assert!(sent.1.starts_with("cs-") && sent.1.len() == 35, "{}", sent.1);
    world.outside.answer(done());
    world.until(effect, "settled");
    assert_eq!(world.balance("a"), 400);
    let view = world.gate().view();
    let fact = view.whole_state().facts.get(&account_id("a").parse().unwrap()).unwrap().clone();
    drop(view);
    assert_eq!(fact.written.by.as_str(), "payer-1", "whoever acted wrote it");
    world.audited();
}

#[test]
fn a_call_that_was_refused_writes_nothing_and_gives_its_budget_back() {
    let mut world = World::new();
    for _ in 0..3 {
        let (word, effect) = world.act("payer-1", "payout", json!({"account": "a", "amount": 500}));
        assert_eq!(word, "in_flight", "what failed before must not count");
        world.outside.answer(Attempt::Refused(Evidence::of(FoundCode::Resolved.said("no such account there"))));
        world.until(effect, "failed");
    }
    assert_eq!(world.balance("a"), 500);
    world.audited();
}

#[test]
fn a_server_answers_with_more_than_an_entry_holds_and_the_ledger_goes_on() {
    let mut world = World::new();
    let long = "\u{1b}".repeat(17_000_000);
    let summary = Evidence { found: Box::new(FoundCode::NoAnswer.said(&*long)), ..Evidence::default() };
    let rest = Evidence {
        result: Some(long.clone()),
        receipt: Some(long.clone()),
        ..Evidence::of(FoundCode::Resolved.said("created"))
    };
    for (attempt, phase) in [(Attempt::Refused(summary), "failed"), (Attempt::Done(rest), "settled")] {
        let (_, effect) = world.act("payer-1", "payout", json!({"account": "a", "amount": 100}));
        world.outside.answer(attempt);
        world.until(effect, phase);
    }
    // The same of facts that an adapter read.
    let (_, effect) = world.act("payer-1", "payout", json!({"account": "a", "amount": 100}));
    let value = Attributes::from_fields(vec![("note".into(), Value::String(long.into()))]);
    let facts = vec![(account_id("a").parse().unwrap(), Some(value))];
    let judged = Judged { at_ms: 0, facts, send: None, blocked: None, shadowed: None };
    let (effect, evidence) = (EffectId(effect), Evidence::of(FoundCode::Resolved.said("read")));
    let settlement = Settlement {
        effect,
        outcome: Outcome::Failed,
        evidence,
        judged: Some(judged),
        is_stopped: false,
        found: Default::default(),
        beside: Vec::new(),
    };
    let Ok(Answer::Entered(entered)) = world.call(Request::Settle(Box::new(settlement))) else { panic!("is entered") };
    let Event::Settle(settle) = &entered.entry.event else { panic!("is a settlement") };
    assert_eq!((settle.judged.is_none(), settle.evidence.words().contains("too long to keep")), (true, true));
    let (by, scope, reason) = (operator(), Scope::All, "an incident".into());
    world.call(Request::Halt { by, auth: Auth::None, scope, reason }).unwrap();
    world.outside.answer(done());
    world.audited();
}

#[test]
fn what_nobody_knows_stays_in_doubt_under_its_fences_and_is_never_sent_again() {
    let mut world = World::new();
    let (_, effect) = world.act("payer-1", "payout", json!({"account": "a", "amount": 100}));
    world.outside.answer(unknown());
    world.until(effect, "in_doubt");
    assert_eq!(world.act("payer-2", "payout", json!({"account": "a", "amount": 1})).0, "fact_fenced");
    assert_eq!(world.act("payer-2", "notify", json!({"account": "a"})).0, "fact_fenced");
    // A person settles what is in doubt, and nothing else.
    let refused = world.resolve(effect + 900, Outcome::Settled).unwrap_err();
    assert_eq!(refused, Refusal::Effect(EffectRefusal::NotFound(EffectId(effect + 900))));
    assert!(matches!(world.resolve(effect, Outcome::InDoubt), Err(Refusal::Effect(EffectRefusal::Phase { .. }))));
    world.resolve(effect, Outcome::Settled).unwrap();
    assert_eq!((world.phase(effect).as_str(), world.balance("a"), world.asked()), ("settled", 400, 1));
    assert!(matches!(world.resolve(effect, Outcome::Failed), Err(Refusal::Effect(EffectRefusal::Ended { .. }))));
    world.audited();
}

#[test]
fn a_probe_settles_a_doubt_but_absence_counts_only_when_nothing_can_be_on_its_way() {
    let mut world = World::new();
    let (_, effect) = world.act("payer-1", "payout", json!({"account": "a", "amount": 100}));
    world.outside.answer(unknown());
    world.until(effect, "in_doubt");
    world.outside.answer_probe(Probed::Absent(Evidence::of(FoundCode::Resolved.said("not there"))));
    world.outside.answer_probe(Probed::Unknown(Evidence::of(FoundCode::Resolved.said("ask later"))));
    // The second probe has been asked when the third is waited for.
    world.pass(4_999);
    world.outside.answer_probe(Probed::Absent(Evidence::of(FoundCode::Resolved.said("not there"))));
    world.pass(5_000);
    world.outside.answer_probe(Probed::Absent(Evidence::of(FoundCode::Resolved.said("still not there"))));
    world.until(effect, "failed");
    assert_eq!((world.balance("a"), world.asked()), (500, 1));
    let (_, effect) = world.act("payer-1", "payout", json!({"account": "a", "amount": 100}));
    world.outside.answer(unknown());
    world.outside.answer_probe(Probed::There(Evidence::of(FoundCode::Resolved.said("there it is"))));
    world.until(effect, "settled");
    assert_eq!(world.balance("a"), 400);
    world.audited();
}

#[test]
fn an_idempotent_call_is_repeated_under_one_key_and_no_more_often_than_the_pact_says() {
    let mut world = World::new();
    let (_, effect) = world.act("payer-1", "cooled", json!({"account": "a", "amount": 100}));
    world.pass(2_000);
    for _ in 0..3 {
        world.outside.answer(unknown());
    }
    world.until(effect, "in_doubt");
    let asked = world.outside.asked.lock().clone();
    assert_eq!(asked.len(), 3);
    assert!(asked.iter().all(|(_, key, sent)| (key, sent) == (&asked[0].1, &asked[0].2)));
    world.resolve(effect, Outcome::Failed).unwrap();
    let (_, other) = world.act("payer-1", "cooled", json!({"account": "a", "amount": 100}));
    world.pass(2_000);
    world.outside.answer(unknown());
    // A refusal says nothing about the attempt before it.
    world.outside.answer(Attempt::Refused(Evidence::of(FoundCode::Resolved.said("seen before"))));
    world.until(other, "in_doubt");
    assert_ne!(world.outside.asked.lock()[3].1, asked[0].1, "another action, another key");
    world.audited();
}

#[test]
fn what_could_not_be_sent_is_tried_again_until_its_deadline() {
    let mut world = World::new();
    let (_, effect) = world.act("payer-1", "payout", json!({"account": "a", "amount": 100}));
    world.outside.answer(Attempt::NotSent(Evidence::of(
        FoundCode::NotConnected.about("192.0.2.1:443").and_said("connection refused"),
    )));
    let last = |world: &World| world.gate().tried().last(EffectId(effect)).map(|last| (last.number, last.found));
    let refused =
        Some((1, Evidence::of(FoundCode::NotConnected.about("192.0.2.1:443").and_said("connection refused"))));
    world.wait(|world| last(world) == refused, "nobody can see why it takes so long");
    world.outside.answer(done());
    world.until(effect, "settled");
    world.wait(|world| last(world).is_none(), "what has ended is not forgotten");
    let (_, late) = world.act("payer-1", "payout", json!({"account": "a", "amount": 100}));
    world.wait(|world| world.asked() == 3, "it was never tried");
    world.pass(6 * 60_000);
    world.outside.answer(Attempt::NotSent(Evidence::of(
        FoundCode::NotConnected.about("192.0.2.1:443").and_said("connection refused"),
    )));
    world.until(late, "failed");
    assert_eq!((world.asked(), world.balance("a")), (3, 400));
    world.audited();
}

#[test]
fn a_call_whose_deadline_passes_while_the_line_opens_does_not_leave() {
    let mut world = World::new();
    world.slow_line(6 * 60_000);
    let (_, effect) = world.act("payer-1", "payout", json!({"account": "a", "amount": 100}));
    world.until(effect, "failed");
    assert_eq!((world.asked(), world.balance("a")), (0, 500));
    world.audited();
}

#[test]
fn a_change_while_it_cools_cancels_a_call_and_none_is_made() {
    let mut world = World::new();
    let (word, effect) = world.act("payer-1", "cooled", json!({"account": "a", "amount": 100}));
    assert_eq!((word.as_str(), world.phase(effect).as_str()), ("in_flight", "cooling"));
    // No fence stands yet: the freeze goes through.
    assert_eq!(world.act("fraud-1", "freeze", json!({"account": "a"})).0, "committed");
    world.pass(1_999);
    let early = world.call(Request::Dispatch { effect: EffectId(effect) }).unwrap_err();
    assert!(matches!(early, Refusal::Effect(EffectRefusal::Phase { phase: "cooling", .. })), "{early:?}");
    world.pass(1);
    world.until(effect, "failed");
    assert_eq!((world.asked(), world.balance("a")), (0, 500));
    world.audited();
}

#[test]
fn a_repeated_key_answers_with_where_the_call_is_now() {
    let world = World::new();
    let request = |world: &World| {
        let body = json!({
            "pact": "billing", "action": "payout", "params": {"account": "a", "amount": 100},
            "idempotency_key": "0123456789abcdef0123456789abcdef",
        });
        let agent = countersign_core::ids::AgentId::new("payer-1").unwrap();
        Request::Act(Box::new(world.gate().admit(agent, Auth::None, body.to_string().into()).unwrap()))
    };
    let first = world.call(request(&world));
    let (_, effect) = verdict(first);
    let Ok(Answer::Repeated(same)) = world.call(request(&world)) else { panic!() };
    assert_eq!(same, effect);
    world.outside.answer(done());
    world.until(effect, "settled");
    let Ok(Answer::Repeated(settled)) = world.call(request(&world)) else { panic!() };
    assert!(settled > effect);
    assert_eq!(world.asked(), 1);
    world.audited();
}

#[test]
fn a_halt_stops_what_cools_and_what_has_not_left_while_settlements_go_on() {
    let mut world = World::new();
    let (_, cooling) = world.act("payer-1", "cooled", json!({"account": "a", "amount": 1}));
    let (_, flying) = world.act("payer-1", "payout", json!({"account": "b", "amount": 1}));
    world.wait(|world| world.asked() == 1, "it never left");
    let halt = Request::Halt { by: operator(), auth: Auth::None, scope: Scope::All, reason: "stop".into() };
    world.call(halt).unwrap();
    world.pass(2_000);
    world.until(cooling, "failed");
    world.outside.answer(done());
    world.until(flying, "settled");
    assert_eq!(world.act("payer-1", "payout", json!({"account": "a", "amount": 1})).0, "halted");
    assert_eq!(world.asked(), 1);
    world.audited();
}

#[test]
fn what_has_not_ended_is_not_erased() {
    let mut world = World::new();
    let (_, effect) = world.act("payer-1", "payout", json!({"account": "a", "amount": 1}));
    let erase = |world: &World| world.gate().erase(operator(), Auth::None, &[effect], "asked for".to_owned());
    let said = erase(&world).unwrap_err().to_string();
    assert!(said.contains(&format!("eff_{effect} has not ended")), "{said}");
    world.outside.answer(done());
    world.until(effect, "settled");
    // Ended, only what it charged to a window that is still open keeps it.
    let said = erase(&world).unwrap_err().to_string();
    assert!(said.contains("counts against budget") && said.contains(", until 20"), "{said}");
    world.pass(24 * 60 * 60 * 1000);
    erase(&world).unwrap();
}
