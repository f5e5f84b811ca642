//! The whole way: a gate whose pact reads and changes rows of a PostgreSQL that others write to as well.

use super::proxy::{Harm, Proxy};
use super::world::World;
use crate::adapters::postgres::Postgres;
use crate::data::{DataFolder, LogFolder};
use countersign_core::call::{EffectId, Outcome};
use countersign_core::record::Kind;
use countersign_engine::audit::audit;
use countersign_engine::gate::Gate;
use countersign_testing::paying::Bank;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

const ORIGIN: &str = "bench.example/bank";

/// How an effect ended, once it has.
fn ended(gate: &Gate, effect: u64) -> Option<Outcome> {
    let view = gate.view();
    view.whole_state().effects.ended().find(|(id, ..)| *id == EffectId(effect)).map(|(_, outcome, _)| outcome)
}

/// A new gate in a folder.
fn create(root: &Path) -> Gate {
    open(&DataFolder::create(root, ORIGIN).unwrap())
}

fn open(data: &DataFolder) -> Gate {
    data.open(data.options()).unwrap().0
}

/// Everything in the ledger is decided again from what it recorded, and comes out the same.
fn audited(root: &Path) -> u64 {
    let log = LogFolder::find(root).unwrap();
    let report = audit(&log.disk().unwrap(), &log.public_key().unwrap(), &mut |_| {}).unwrap();
    assert_eq!(report.differing_count, 0, "{:?}", report.differing);
    report.entries
}

/// The settlements in the ledger, in their order.
fn settlements(gate: &Gate) -> Vec<Value> {
    let mut settlements = Vec::new();
    for index in 0..gate.view().position {
        let entry = gate.read_log(index).unwrap();
        if entry.decode().unwrap().event.kind() == Kind::Settle {
            settlements.push(serde_json::from_str(&entry.show().unwrap().payload.unwrap()).unwrap());
        }
    }
    settlements
}

/// What each settlement says was read: the balance.
fn judged_balances(gate: &Gate) -> Vec<Option<i64>> {
    let balance = |settlement: Value| {
        assert!(settlement["judged_at"].as_u64().is_some(), "{settlement}");
        settlement["external"][0]["value"]["balance"].as_i64()
    };
    settlements(gate).into_iter().map(balance).collect()
}

/// The folder as a crash would leave it.
fn copied(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copied(&entry.path(), &to);
        } else if let Err(error) = std::fs::copy(entry.path(), to) {
            // Half-made files get their names while we copy; a crash leaves them out as well.
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}");
        }
    }
}

#[test]
fn a_row_that_others_froze_is_not_paid_from_and_the_ledger_says_why() {
    let world = World::new();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("gate");
    let bank = Bank::create(create(&root), Postgres::new(world.settings(), ORIGIN)).unwrap();
    let paid = bank.pay(1, "a1").unwrap();
    bank.drain().unwrap();
    world.sql("update accounts set status = 'frozen' where id = 'a1'");
    let refused = bank.pay(2, "a1").unwrap();
    bank.drain().unwrap();
    let absent = bank.pay(3, "nobody").unwrap();
    bank.drain().unwrap();
    let outcomes = [paid, refused, absent].map(|effect| ended(&bank.gate, effect));
    assert_eq!(outcomes, [Some(Outcome::Settled), Some(Outcome::Failed), Some(Outcome::Failed)]);
    assert_eq!(judged_balances(&bank.gate), [Some(1000), Some(999), None]);
    let [_, frozen, nobody] = settlements(&bank.gate).try_into().unwrap();
    let read = &frozen["blocked"]["failed"][0]["reads"][0];
    let changed = &read["changed"];
    assert_eq!((&changed["by"], &changed["at"]), (&json!("bank"), &frozen["judged_at"]));
    assert_eq!(changed["entry"], 0, "who froze it the gate does not know");
    assert_eq!((&nobody["blocked"]["code"], &nobody["blocked"]["source"]), (&json!("fact_missing"), &json!("bank")));
    bank.close().unwrap();
    assert_eq!(world.count("select balance from accounts where id = 'a1'"), 999);
    assert_eq!(world.count("select count(*) from countersign.receipts where not void"), 1);
    assert!(audited(&root) >= 6);
}

#[test]
fn a_gate_that_ended_before_it_heard_of_the_commit_finds_the_receipt() {
    let world = World::new();
    let folder = tempfile::tempdir().unwrap();
    let (mut outcomes, mut old) = (Vec::new(), Vec::new());
    for at in 3..=9 {
        let (root, copy) = (folder.path().join(format!("gate-{at}")), folder.path().join(format!("copy-{at}")));
        let proxy = Proxy::start(world.server.sockets(), at, Harm::CutAnswerAndAll, Box::new(|| {}));
        let bank = Bank::create(create(&root), Postgres::new(world.settings_by(proxy.sockets()), ORIGIN)).unwrap();
        let account = format!("a{at}");
        let effect = bank.pay(1, &account).unwrap();
        let begun = Instant::now();
        while !proxy.done() && ended(&bank.gate, effect).is_none() {
            assert!(begun.elapsed() < Duration::from_secs(30), "nothing happened");
            std::thread::sleep(Duration::from_millis(2));
        }
        // The gate has lost its database for good, in the middle of the call; and here it dies.
        let heard = ended(&bank.gate, effect);
        copied(&root, &copy);
        old.push((bank, proxy));
        let bank =
            Bank::open(open(&DataFolder::find(&copy).unwrap()), Postgres::new(world.settings(), ORIGIN)).unwrap();
        bank.drain().unwrap();
        let outcome = ended(&bank.gate, effect);
        let paid = 1000 - world.count(&format!("select balance from accounts where id = '{account}'"));
        assert_eq!(paid, i64::from(outcome == Some(Outcome::Settled)), "at message {at}: {outcome:?}");
        if paid == 1 {
            assert_eq!(judged_balances(&bank.gate), [Some(1000)], "at message {at}");
        }
        bank.close().unwrap();
        audited(&copy);
        outcomes.push((heard, outcome));
    }
    let count = |heard, outcome| outcomes.iter().filter(|found| **found == (heard, Some(outcome))).count();
    assert!(count(None, Outcome::Failed) > 0, "{outcomes:?}");
    assert!(count(None, Outcome::Settled) > 0, "no commit was found afterwards: {outcomes:?}");
    // The old gates still wait for their database; all at once they are given up.
    std::thread::scope(|scope| {
        for (bank, proxy) in old {
            scope.spawn(move || {
                bank.close().unwrap();
                drop(proxy);
            });
        }
    });
}
