//! The gate as its callers use it, on a real disk: what is acknowledged is there after a restart, and says why.

use countersign_core::decision::Verdict;
use countersign_core::identity::Auth;
use countersign_core::ids::{AgentId, FactId};
use countersign_core::record::{Encoder, Event, Kind};
use countersign_engine::audit::audit;
use countersign_engine::gate::{Gate, Options};
use countersign_engine::request::{Answer, Refusal, Request};
use countersign_engine::storage::disk::RealDisk;
use countersign_testing::gate::{ORIGIN, log_key, on_folder, open, operator, publish};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PACT: &str = r#"
pact = "billing"
version = 1

[facts.Account]
attributes = { status = "String", balance = "Long" }

[observe.Account]
who = 'principal.roles.contains("refunder")'
attributes = "*"

[action.refund]
resource = 'Account::"{account}"'
allow = 'principal.roles.contains("refunder")'
set = { balance = "resource.balance - context.amount" }

[action.refund.params]
type = "object"
additionalProperties = false
required = ["account", "amount"]
properties.account = { type = "string", maxLength = 64 }
properties.amount = { type = "integer", minimum = 1, maximum = 500000 }

[[action.refund.require]]
id = "account-is-active"
that = 'resource.status == "active"'

[[action.refund.require]]
id = "balance-covers-amount"
that = 'resource.balance >= context.amount'
"#;

fn fact(text: &str) -> FactId {
    text.parse().unwrap()
}

fn feed(gate: &Gate, id: &str, json: &str) -> Result<Answer, Refusal> {
    gate.call(countersign_testing::gate::feed(id, json))
}

fn confirm(gate: &Gate, id: &str, version: u64) -> Result<Answer, Refusal> {
    gate.call(Request::Confirm { by: operator(), auth: Auth::None, fact: fact(id), version })
}

fn set_up(gate: &Gate) {
    gate.call(publish(PACT)).unwrap();
    feed(gate, "Agent::\"refund-1\"", r#"{"roles":["refunder"],"standing":"active","org":"acme","trust":700}"#)
        .unwrap();
    feed(gate, "Account::\"42\"", r#"{"status":"active","balance":900000}"#).unwrap();
}

fn refund(gate: &Gate, key: &str, amount: i64, tokens: &[String]) -> Result<Answer, Refusal> {
    let body = serde_json::json!({
        "pact": "billing", "action": "refund", "idempotency_key": format!("{key:0>32}"),
        "params": {"account": "42", "amount": amount}, "observations": tokens,
    });
    let agent = AgentId::new("refund-1").unwrap();
    let action = gate.admit(agent, Auth::None, body.to_string().into()).unwrap();
    gate.call(Request::Act(Box::new(action)))
}

fn verdict(answer: Answer) -> (u64, Verdict) {
    let Answer::Entered(entered) = answer else { panic!("{answer:?}") };
    let Event::Action(decided) = &entered.entry.event else { panic!("not an action") };
    (entered.entry.index, decided.decision.verdict.clone())
}

#[test]
fn check_and_use_are_one_step_and_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path());
    set_up(&gate);
    let observed = gate.observe(AgentId::new("refund-1").unwrap(), vec![fact("Account::\"42\"")]).unwrap();
    let tokens = [observed.token];

    let (entry, committed) = verdict(refund(&gate, "a", 480_000, &tokens).unwrap());
    assert_eq!(committed, Verdict::Committed);
    assert_eq!(gate.fact(&fact("Account::\"42\"")).unwrap().value.as_ref().unwrap().to_json()["balance"], 420_000);

    feed(&gate, "Account::\"42\"", r#"{"status":"frozen","balance":420000}"#).unwrap();
    let (_, rejected) = verdict(refund(&gate, "b", 1, &tokens).unwrap());
    let Verdict::Rejected(blocked) = rejected else { panic!("{rejected:?}") };
    assert_eq!(blocked.code().as_str(), "precondition_failed");
    assert_eq!(blocked.failed().len(), 1);
    assert_eq!(blocked.failed()[0].id, "account-is-active");
    assert_eq!(blocked.failed()[0].reads[0].actual.as_ref().unwrap().to_string(), "\"frozen\"");
    assert_eq!(blocked.failed()[0].reads[0].changed.as_ref().unwrap().by, operator());

    let position = gate.view().position;
    gate.close().unwrap();
    let gate = open(dir.path());
    assert_eq!(gate.view().position, position);
    assert_eq!(gate.fact(&fact("Account::\"42\"")).unwrap().version(), 3);
    // The same key answers with the same entry, also after a restart; another body under it is refused.
    assert!(matches!(refund(&gate, "a", 480_000, &tokens).unwrap(), Answer::Repeated(e) if e == entry));
    assert_eq!(refund(&gate, "a", 1, &tokens).unwrap_err(), Refusal::KeyReused(entry));
    // A token outlives the restart.
    assert!(matches!(verdict(refund(&gate, "c", 1, &tokens).unwrap()).1, Verdict::Rejected(_)));
}

#[test]
fn a_snapshot_gives_the_same_state_as_the_whole_log() {
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path());
    set_up(&gate);
    for at in 0..40 {
        refund(&gate, &format!("k{at}"), 1, &[]).unwrap();
    }
    confirm(&gate, "Account::\"42\"", 41).unwrap();
    let position = gate.snapshot().unwrap();
    for at in 40..60 {
        refund(&gate, &format!("k{at}"), 1, &[]).unwrap();
    }
    confirm(&gate, "Agent::\"refund-1\"", 1).unwrap();
    let before: Vec<_> = gate.view().whole_state().facts.iter().cloned().collect();
    gate.close().unwrap();
    let (gate, report) = Gate::open(on_folder(dir.path()), Options::new(ORIGIN)).unwrap();
    assert_eq!(report.snapshot, Some(position));
    assert_eq!(report.replayed, 21);
    for fact in before {
        assert_eq!(gate.fact(&fact.id).as_deref(), Some(&*fact));
    }
    assert!(matches!(refund(&gate, "k3", 1, &[]).unwrap(), Answer::Repeated(_)));
}

#[test]
fn receipts_verify_with_the_public_key_alone() {
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path());
    set_up(&gate);
    let Answer::Entered(entered) = refund(&gate, "a", 1, &[]).unwrap() else { panic!() };
    let receipt = entered.proof.receipt(&entered.entry).unwrap();
    receipt.verify(&gate.log_key()).unwrap();
    for at in 0..600 {
        refund(&gate, &format!("k{at}"), 1, &[]).unwrap();
    }
    for index in [0, 1, entered.entry.index, 255, 256, 300, gate.view().position - 1] {
        gate.receipt(index).unwrap().verify(&gate.log_key()).unwrap();
    }
}

#[test]
fn a_confirmation_makes_no_version_names_the_one_it_means_and_is_audited() {
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path());
    set_up(&gate);
    let account = fact("Account::\"42\"");
    let confirmed = |gate: &Gate| gate.fact(&account).unwrap().confirmed.clone().unwrap();
    let fed = confirmed(&gate);
    assert_eq!(fed.entry, gate.fact(&account).unwrap().written.entry, "feeding confirms");
    refund(&gate, "a", 1, &[]).unwrap();
    assert_eq!(confirmed(&gate), fed, "what an action writes does not");
    let wrong = confirm(&gate, "Account::\"42\"", 1);
    assert!(matches!(wrong, Err(Refusal::VersionMismatch { expected: 1, current: 2, .. })), "{wrong:?}");
    assert!(confirm(&gate, "Account::\"43\"", 0).is_err(), "there is nothing to confirm");
    let Answer::Entered(entered) = confirm(&gate, "Account::\"42\"", 2).unwrap() else { panic!() };
    assert_eq!((entered.entry.event.kind(), entered.entry.event.writes().len()), (Kind::Confirm, 0));
    assert_eq!((confirmed(&gate).entry, gate.fact(&account).unwrap().version()), (entered.entry.index, 2));
    gate.close().unwrap();
    let report = audit(&RealDisk::open(dir.path()).unwrap(), &log_key(), &mut |_| ()).unwrap();
    assert_eq!((report.verified, report.differing), (report.entries, Vec::new()));
}

/// Some followers are as fast as the gate and are given what is in memory; others fall behind and read the log.
#[test]
fn followers_see_exactly_the_log_wherever_they_start_and_however_slow_they_are() {
    const FOLLOWERS: u64 = 8;
    let dir = tempfile::tempdir().unwrap();
    for life in 0..3 {
        let options = Options { recent_bytes_max: 4 << 10, segment_bytes: 64 << 10, ..Options::new(ORIGIN) };
        let (gate, _) = Gate::open(on_folder(dir.path()), options).unwrap();
        if life == 0 {
            set_up(&gate);
        }
        let begun = gate.view().position;
        let is_over = AtomicBool::new(false);
        let follow = |number: u64| {
            let mut follower = gate.follow(number * begun / (FOLLOWERS - 1)).unwrap();
            let mut seen = Vec::new();
            loop {
                // What was entered before this is in the stream, so one more look is enough.
                let is_last = is_over.load(Ordering::SeqCst);
                // The slower ones let some come together before they look again.
                let behind = gate.view().position - follower.position();
                if !is_last && behind < number * 8 {
                    follower.wait(Duration::from_millis(20));
                    continue;
                }
                while let Some((position, entry)) = follower.next_entry().unwrap() {
                    assert!(position < gate.view().position, "entry {position} was handed out too early");
                    seen.push((position, entry));
                }
                if is_last {
                    return seen;
                }
                follower.wait(Duration::from_millis(20));
            }
        };
        let feed_many = |number: u64| {
            let account = format!("Account::\"{number}\"");
            for count in 0..50 {
                let json = format!(r#"{{"status":"active","balance":{}}}"#, life * 1000 + count);
                feed(&gate, &account, &json).unwrap();
            }
        };
        let seen = std::thread::scope(|scope| {
            let followers: Vec<_> = (0..FOLLOWERS)
                .map(|number| {
                    let follow = &follow;
                    scope.spawn(move || (number, follow(number)))
                })
                .collect();
            let feeders: Vec<_> = (0..4)
                .map(|number| {
                    let feed_many = &feed_many;
                    scope.spawn(move || feed_many(number))
                })
                .collect();
            let fed: Vec<_> = feeders.into_iter().map(|feeder| feeder.join()).collect();
            is_over.store(true, Ordering::SeqCst);
            assert!(fed.iter().all(Result::is_ok), "a feeder failed");
            followers.into_iter().map(|follower| follower.join().unwrap()).collect::<Vec<_>>()
        });
        let end = gate.view().position;
        assert!(gate.follow(end).unwrap().next_entry().unwrap().is_none());
        assert!(gate.follow(end + 1).is_err());
        for (number, seen) in seen {
            let positions: Vec<u64> = seen.iter().map(|(position, _)| *position).collect();
            assert_eq!(positions, (number * begun / (FOLLOWERS - 1)..end).collect::<Vec<_>>(), "follower {number}");
            for (position, entry) in seen {
                let stored = gate.read_log(position).unwrap();
                assert_eq!(entry.index, position);
                assert_eq!(Encoder::default().payload(&entry).as_bytes(), stored.payload.unwrap());
            }
        }
        gate.close().unwrap();
    }
}
