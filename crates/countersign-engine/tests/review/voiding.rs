//! What changes between showing and approving voids the approval, and nothing else is waived than what was shown.

use crate::review::world::{RULES, World, name, signed, void};
use countersign_core::call::EffectId;
use countersign_core::code::Code;
use countersign_core::pact::load::load;
use countersign_core::reason::Reason;
use countersign_core::review::{Ended, ReviewRefusal};
use countersign_engine::request::{Refusal, Request};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What happens between showing and approving, and what the refusal must say.
type Step = (fn(&World), &'static str);

#[test]
fn a_stale_approval_never_executes_and_says_why() {
    let steps: [Step; 7] = [
        (
            |world| world.account("active", 800, "jane", 10),
            "Account::\"42\".balance was 900 when it was shown, and is now 800, by operator",
        ),
        (|world| world.account("frozen", 900, "jane", 10), "Account::\"42\".status was \"active\""),
        (|world| world.account("active", 900, "jane", 90), "Account::\"42\".risk was 10"),
        (|world| world.publish(2), "pact `billing` was shown at version 1, and is now at version 2"),
        (|world| world.agent("quarantined"), "agent_not_active"),
        (|world| world.halt(true), "halted: `agent:refund-1` is halted since entry"),
        (|world| drop(world.act("small", 90)), "Account::\"42\".balance"),
    ];
    for (at, (step, says)) in steps.iter().enumerate() {
        // Before it was shown, what happens is part of what is shown; after, it voids the approval.
        let world = World::new();
        let review = world.park("a", 500);
        let token = world.show(review);
        step(&world);
        let before = world.balance();
        let why = void(world.approve(&token));
        assert!(why.contains(says), "step {at}: {why}");
        assert_eq!(world.balance(), before, "step {at}");
        // That it was tried is in the ledger: who, which review, and why it did nothing.
        let (leaf, payload) = world.last("approval");
        assert_eq!(
            (&leaf["by"], &leaf["verdict"], &leaf["review"]),
            (&"vera".into(), &"rejected".into(), &review.0.into())
        );
        let reason: Reason = serde_json::from_value(payload["decision"]["blocked"].clone()).unwrap();
        let plain = |text: &str| text.replace(['"', '\\'], "");
        let recorded = format!("{}: {}", reason.code(), reason.message());
        assert!(plain(&recorded).contains(&plain(says)), "step {at}: {recorded}");
        // The reviewer was shown the values; an agent is told those that it may see.
        if let Some(attribute) = says.strip_prefix("Account::\"42\".").and_then(|says| says.split(' ').next()) {
            let told = world.told_to_a_blind_agent(reason);
            assert!(told.ends_with(&format!("`resource.{attribute}` is not as it was shown")), "step {at}: {told}");
        }
        assert!(payload.get("writes").is_none() && payload.get("charges").is_none(), "step {at}: {payload}");
        // The review waits on, and nothing about it has changed for those who look again.
        assert!(world.gate.show_review(review, &name("vera")).is_ok(), "step {at}");
        world.audit();
    }
}

#[test]
fn what_no_condition_reads_may_change() {
    let world = World::new();
    let token = world.show(world.park("a", 500));
    world.account("active", 900, "john", 10);
    world.approve(&token).unwrap();
    assert_eq!(world.balance(), 400);
    world.audit();
}

#[test]
fn only_what_was_shown_is_waived() {
    let world = World::new();
    let review = world.park("a", 500);
    // Shown after the risk rose: both are waived. Shown before: the other is not.
    let early = world.show(review);
    world.account("active", 900, "jane", 90);
    assert!(void(world.approve(&early)).contains("risk"));
    let (_, decision) = world.approve(&world.show(review)).unwrap();
    assert_eq!(decision.waived_by.unwrap().preconditions, ["small-enough", "low-risk"]);
    // A budget is not waived, nor a precondition that rejects.
    let review = world.park("b", 600);
    assert!(void(world.approve(&world.show(review))).starts_with("budget_exceeded"));
    world.account("frozen", 400, "jane", 10);
    assert!(void(world.approve(&world.show(review))).contains("account-is-active"));
    assert_eq!(world.balance(), 400);
    world.audit();
}

#[test]
fn staleness_counts_from_what_the_reviewer_was_shown() {
    let world = World::new();
    let review = world.park("a", 500);
    // The agent's observation is too old by now; the reviewer's is not.
    world.clock.pass(600_000);
    let token = world.show(review);
    world.clock.pass(60_000);
    world.approve(&token).unwrap();
    let review = world.park("b", 200);
    let token = world.show(review);
    world.clock.pass(121_000);
    assert!(void(world.approve(&token)).contains("account-is-active was checked too long ago"));
    world.audit();
}

#[test]
fn after_its_time_neither_an_approval_nor_a_review_is_good() {
    let world = World::new();
    let review = world.park("a", 500);
    let token = world.show(review);
    world.clock.pass(1_001);
    let late = world.approve_within(&token, 1_000).unwrap_err();
    assert!(matches!(late, Refusal::Review(ReviewRefusal::ApprovalExpired(..))), "{late}");
    // However long the reviewer's client says: ten minutes at most.
    world.clock.pass(600_000);
    let late = world.approve_within(&token, u64::MAX / 2).unwrap_err();
    assert!(matches!(late, Refusal::Review(ReviewRefusal::ApprovalExpired(..))), "{late}");
    let token = world.show(review);
    world.clock.pass(3_600_000);
    let late = world.approve(&token).unwrap_err();
    assert!(matches!(late, Refusal::Review(ReviewRefusal::Closed { how: Ended::Expired, .. })), "{late}");
    assert_eq!(world.balance(), 900);
    let (leaf, payload) = world.last("approval");
    assert_eq!(payload["decision"]["blocked"]["code"], "approval_expired", "{leaf}");
    assert_eq!(world.last("expiry").0["review"], review.0);
    world.audit();
}

#[test]
fn a_review_that_nobody_decides_ends_in_the_ledger_by_itself_also_while_the_gate_was_down() {
    let world = World::new();
    let (first, second) = (world.park("a", 500), world.park("b", 501));
    world.clock.pass(3_600_001);
    // Nobody asks for anything: the gate's own maintenance ends them.
    wait_until(|| world.has("expiry", first) && world.has("expiry", second));
    let third = world.park("c", 502);
    let world = world.stopped_for(3_600_001);
    wait_until(|| world.has("expiry", third));
    // A retry under the same key is told what became of it, and nothing can be decided any more.
    let refused = world.gate.show_review(third, &name("vera")).unwrap_err();
    assert!(matches!(refused, ReviewRefusal::Closed { how: Ended::Expired, .. }), "{refused}");
    // And it is so after a restart from a snapshot, too.
    world.gate.snapshot().unwrap();
    let world = world.reopen();
    let refused = world.gate.show_review(first, &name("vera")).unwrap_err();
    assert!(matches!(refused, ReviewRefusal::Closed { how: Ended::Expired, .. }), "{refused}");
    world.audit();
}

fn wait_until(is_so: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "it never happened");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn attack_an_approved_call_outlives_its_reviewer_or_tells_the_agent_what_is_withheld() {
    let steps: [Step; 4] = [
        (
            |world| world.operator("vera", &["reviewer"], "revoked"),
            "vera approved it, and is no longer an active reviewer",
        ),
        (
            |world| world.operator("vera", &["auditor"], "active"),
            "vera approved it, and is no longer an active reviewer",
        ),
        (|world| world.account("active", 900, "jane", 33), "`resource.risk` is not as it was shown"),
        (|world| world.operator("vera", &["reviewer"], "active"), ""),
    ];
    for (step, says) in steps {
        let mut world = World::new();
        world.operator("operator", &["admin", "feeder", "publisher"], "active");
        world.auth = signed;
        world.operator("vera", &["reviewer"], "active");
        let call = "call = { http = \"payments\", path = \"/refunds\", after = \"2s\" }\nset = {";
        let source = format!("pact = \"billing\"\nversion = 2\n{}", RULES.replace("set = {", call));
        let pact = Arc::new(load(&source).unwrap().pact);
        world
            .gate
            .call(Request::Publish {
                by: name("operator"),
                auth: world.sign("operator", ("POST", "/v1/pacts"), &source),
                pact,
            })
            .unwrap();
        let (effect, _) = world.approve(&world.show(world.park("a", 500))).unwrap();
        step(&world);
        world.clock.pass(2_001);
        world.gate.call(Request::Dispatch { effect: EffectId(effect) }).unwrap();
        let (leaf, payload) = world.last("dispatch");
        if says.is_empty() {
            assert_eq!(leaf["verdict"], "in_flight", "{payload}");
        } else {
            let reason: Reason = serde_json::from_value(payload["decision"]["blocked"].clone()).unwrap();
            assert_eq!(reason.code(), Code::ApprovalOutdated, "{payload}");
            let told = world.told_to_a_blind_agent(reason);
            assert_eq!(told, format!("the approval is outdated: {says}"));
        }
        world.audit();
    }
}
