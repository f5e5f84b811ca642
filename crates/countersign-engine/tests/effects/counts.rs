//! What metrics count: each event once, by its verdict and by nothing else.

use crate::effects::batches::batch;
use crate::effects::world::{World, account_id, done, operator, unknown};
use countersign_core::call::{Evidence, FoundCode, Outcome};
use countersign_core::halt::Scope;
use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_core::review::ReviewId;
use countersign_engine::outbox::Attempt;
use countersign_engine::request::Request;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

type Counts = BTreeMap<&'static str, u64>;

fn counts(world: &World) -> Counts {
    let it = world.gate().counters();
    let all = [
        ("committed", &it.committed),
        ("rejected", &it.rejected),
        ("review", &it.review),
        ("in_flight", &it.in_flight),
        ("settled", &it.settled),
        ("failed", &it.failed),
        ("in_doubt", &it.in_doubt),
        ("claimed", &it.claimed),
        ("halted", &it.halted),
        ("approved", &it.approved),
        ("fed", &it.fed),
        ("refused", &it.refused),
    ];
    all.map(|(name, count)| (name, count.load(Ordering::SeqCst))).into()
}

fn payout(world: &mut World, attempt: Attempt, phase: &str) {
    world.outside.answer(attempt);
    let (_, effect) = world.act("payer-1", "payout", json!({"account": "a", "amount": 1}));
    world.until(effect, phase);
}

fn halt(world: &World) {
    let reason = "stop".into();
    world.call(Request::Halt { by: operator(), auth: Auth::None, scope: Scope::All, reason }).unwrap();
}

fn park(world: &mut World) -> ReviewId {
    world.feed("Payee::\"jane\"", json!({"iban": "GOOD", "note": "a"}));
    world.feed("Hold::\"jane\"", json!({"until": 7}));
    ReviewId(world.act("payer-1", "transfer-later", json!({"payee": "jane"})).1)
}

fn approve(world: &World, review: ReviewId, meanwhile: impl FnOnce(&World)) {
    let vera = AgentId::new("vera").unwrap();
    let token = world.gate().show_review(review, &vera).unwrap().token;
    meanwhile(world);
    let shown = Box::new(world.gate().open_shown(&token, &vera).unwrap());
    let until_ms = shown.at_ms + 600_000;
    drop(world.call(Request::Approve { by: vera, auth: Auth::None, shown, until_ms }));
}

fn group(world: &World, second: &str) {
    let actions = ["a", second].map(|account| ("freeze", json!({"account": account})));
    world.call(batch(world, "fraud-1", &actions, true)).unwrap();
}

/// What happens, and what is counted of it.
type Row = (&'static str, fn(&mut World), &'static [(&'static str, u64)]);

const ROWS: &[Row] = &[
    ("a commit", |world| drop(world.act("fraud-1", "freeze", json!({"account": "a"}))), &[("committed", 1)]),
    (
        "a precondition that fails",
        |world| drop(world.act("payer-1", "debit", json!({"account": "a", "amount": 5000}))),
        &[("rejected", 1)],
    ),
    (
        "a halt",
        |world| {
            halt(world);
            world.act("payer-1", "debit", json!({"account": "a", "amount": 1}));
        },
        &[("rejected", 1), ("halted", 1)],
    ),
    ("a group", |world| group(world, "b"), &[("committed", 2)]),
    ("a group that is rejected", |world| group(world, "missing"), &[("rejected", 2)]),
    ("a call that settles", |world| payout(world, done(), "settled"), &[("in_flight", 1), ("settled", 1)]),
    (
        "a call that fails",
        |world| payout(world, Attempt::Refused(Evidence::of(FoundCode::Resolved.said("no"))), "failed"),
        &[("in_flight", 1), ("failed", 1)],
    ),
    (
        "a doubt and its end",
        |world| {
            world.outside.answer(unknown());
            let (_, effect) = world.act("payer-1", "notify", json!({"account": "a"}));
            world.until(effect, "in_doubt");
            world.resolve(effect, Outcome::Settled).unwrap();
        },
        &[("in_flight", 1), ("in_doubt", 1), ("settled", 1)],
    ),
    (
        "a call that is cancelled at its dispatch",
        |world| {
            let (_, effect) = world.act("payer-1", "cooled", json!({"account": "a", "amount": 1}));
            world.feed(&account_id("a"), json!({"status": "frozen", "balance": 500}));
            world.pass(2_001);
            world.until(effect, "failed");
        },
        &[("in_flight", 1), ("failed", 1), ("fed", 1)],
    ),
    ("a parked action", |world| _ = park(world), &[("review", 1), ("fed", 2)]),
    (
        "an approved call, which has committed nothing yet",
        |world| {
            let review = park(world);
            approve(world, review, |_| ());
        },
        &[("review", 1), ("fed", 2), ("approved", 1), ("in_flight", 1)],
    ),
    (
        "a void approval",
        |world| {
            let review = park(world);
            let evil = json!({"iban": "EVIL", "note": "a"});
            approve(world, review, |world| drop(world.feed("Payee::\"jane\"", evil)));
        },
        &[("review", 1), ("fed", 3), ("refused", 1)],
    ),
    ("a claim", |world| drop(world.claim("fraud-1", &[&account_id("a")], 1_000)), &[("claimed", 1)]),
];

#[test]
fn each_event_counts_once_and_by_its_verdict() {
    for (name, happen, expected) in ROWS {
        let mut world = World::new();
        let before = counts(&world);
        happen(&mut world);
        let after = counts(&world);
        let changed: Counts =
            after.iter().map(|(name, count)| (*name, count - before[name])).filter(|(_, more)| *more > 0).collect();
        let expected: Counts = expected.iter().copied().collect();
        assert_eq!(changed, expected, "{name}");
    }
}
