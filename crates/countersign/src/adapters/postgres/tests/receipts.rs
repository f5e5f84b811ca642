//! After a crash of the gate, the receipt tells what happened, and what did not can no longer happen.

use super::world::{Bank, JUDGED_AT_MS, Other, World, call, fact};
use countersign_core::value::{Attributes, Value};
use countersign_engine::outbox::{Adapter as _, Attempt, FactAsRead, Probed};

#[test]
fn what_happened_is_found_with_what_it_was_decided_on() {
    let world = World::new();
    let adapter = world.adapter();
    let (bank, call) = (Bank::paying("p1", 5), call(&["a2", "a1"]));
    let Attempt::Done(done) = bank.attempt(&adapter, &call, 1) else { panic!("not done") };
    // Another process, after a crash: it knows the key and nothing else.
    let after = world.adapter();
    let Attempt::Done(found) = after.recover(&bank.job(&call, 1)) else { panic!("not found") };
    assert_eq!((found.receipt.is_some(), &found.receipt), (true, &done.receipt));
    let value = Attributes::from_fields(vec![
        ("balance".into(), Value::Long(1000)),
        ("status".into(), Value::String("active".into())),
    ]);
    let outside = |id| FactAsRead { fact: fact(id), value: Some(value.clone()) };
    assert_eq!(bank.recalled.take(), Some((vec![outside("a2"), outside("a1")], JUDGED_AT_MS)));
    let Probed::There(probed) = after.probe(&bank.job(&call, 1)) else { panic!("not there") };
    assert_eq!(probed.receipt, done.receipt);
    // Tried again by mistake, it is not done again.
    for attempt in [1, 2] {
        let Attempt::Done(again) = bank.attempt(&after, &call, attempt) else { panic!("not done") };
        assert_eq!(again.receipt, done.receipt);
    }
    assert_eq!(world.book("p1"), (1, 1));
    assert_eq!(world.count("select balance from accounts where id = 'a2'"), 995);
    let origin: String = world.rows("select origin from countersign.receipts where key = 'p1'")[0].get(0);
    assert_eq!(origin, "bank.example/log");
}

/// Anyone who may write receipts, or has another gate on the same database, cannot make one stand for this call.
#[test]
fn a_receipt_of_another_effect_or_another_gate_never_counts_as_this_call() {
    let world = World::new();
    let call = call(&["a1"]);
    for (key, origin, effect, void) in [
        ("p1", "bank.example/log", "eff_8", false),
        ("p2", "other.example/log", "eff_7", false),
        ("p3", "other.example/log", "eff_7", true),
    ] {
        world.sql(&format!(
            "insert into countersign.receipts (key, void, origin, effect, judged_at_ms, read)
             values ('{key}', {void}, '{origin}', '{effect}', 1, '[]')"
        ));
        let (bank, adapter) = (Bank::paying(key, 5), world.adapter());
        for attempt in [1, 2] {
            let Attempt::Refused(evidence) = bank.attempt(&adapter, &call, attempt) else { panic!("not refused") };
            assert!(
                evidence.words().ends_with(&format!("{effect}: it is of the log {origin}")),
                "{}",
                evidence.words()
            );
        }
        let recovered = adapter.recover(&bank.job(&call, 1));
        assert!(matches!(recovered, Attempt::Refused(_)), "{recovered:?}");
        let probed = adapter.probe(&bank.job(&call, 1));
        assert!(matches!(probed, Probed::Absent(_)), "{probed:?}");
    }
    assert_eq!(world.count("select count(*) from payouts"), 0);
    assert_eq!(world.count("select balance from accounts where id = 'a1'"), 1000);
}

#[test]
fn what_did_not_happen_cannot_happen_later() {
    let world = World::new();
    let adapter = world.adapter();
    let (bank, call) = (Bank::paying("p1", 5), call(&["a1"]));
    for _ in 0..2 {
        assert!(matches!(adapter.recover(&bank.job(&call, 1)), Attempt::Refused(_)));
        assert!(matches!(adapter.probe(&bank.job(&call, 1)), Probed::Absent(_)));
    }
    for attempt in [1, 2] {
        let late = bank.attempt(&adapter, &call, attempt);
        assert!(matches!(late, Attempt::Refused(_)), "{late:?}");
    }
    assert_eq!(world.book("p1"), (0, 0));
    assert_eq!(world.count("select balance from accounts where id = 'a1'"), 1000);
}

#[test]
fn a_transaction_still_under_way_loses_against_the_recovery() {
    let world = World::new();
    let adapter = world.adapter();
    let call = call(&["a1"]);
    // The old gate has read and is about to act, when the new one recovers.
    let meanwhile = |_: &[_]| {
        let recovered = world.adapter().recover(&Bank::paying("p1", 5).job(&call, 1));
        assert!(matches!(recovered, Attempt::Refused(_)), "{recovered:?}");
    };
    let ended = Bank { meanwhile: &meanwhile, ..Bank::paying("p1", 5) }.attempt(&adapter, &call, 1);
    assert!(matches!(ended, Attempt::Refused(_)), "{ended:?}");
    assert_eq!(world.book("p1"), (0, 0));
    assert_eq!(world.count("select balance from accounts where id = 'a1'"), 1000);
}

#[test]
fn the_recovery_waits_for_a_transaction_that_has_its_receipt() {
    let world = World::new();
    let call = call(&["a1"]);
    for (end, happened) in [("rollback", false), ("commit", true)] {
        let key = format!("p-{end}");
        let other = Other::connect(&world.server.config()).unwrap();
        other
            .sql(&format!(
                "begin; insert into countersign.receipts (key, void, origin, effect, judged_at_ms, read)
                 values ('{key}', false, 'bank.example/log', 'eff_7', 1, '[]')"
            ))
            .unwrap();
        std::thread::scope(|scope| {
            let recovering = scope.spawn(|| world.adapter().recover(&Bank::paying(&key, 5).job(&call, 1)));
            world.until_somebody_waits();
            other.sql(end).unwrap();
            let recovered = recovering.join().unwrap();
            assert_eq!(matches!(recovered, Attempt::Done(_)), happened, "{recovered:?}");
            assert_eq!(matches!(recovered, Attempt::Refused(_)), !happened, "{recovered:?}");
        });
    }
}

#[test]
fn without_the_receipts_the_hint_says_what_to_run() {
    let world = World::new();
    world.sql("drop schema countersign cascade");
    let ended = Bank::paying("p1", 5).attempt(&world.adapter(), &call(&["a1"]), 1);
    let (Attempt::Unknown(evidence) | Attempt::Refused(evidence)) = &ended else { panic!("{ended:?}") };
    assert!(evidence.words().contains("countersign postgres init"), "{}", evidence.words());
    assert_eq!(world.count("select count(*) from payouts"), 0);
}
