//! The gate as its callers use it, on a real disk: what is acknowledged is there after a restart, and says why.

use countersign_core::decision::Verdict;
use countersign_core::identity::Auth;
use countersign_core::ids::{AgentId, FactId};
use countersign_core::record::{Event, Kind};
use countersign_engine::audit::audit;
use countersign_engine::gate::{Gate, Options};
use countersign_engine::request::{Answer, Refusal, Request};
use countersign_engine::storage::disk::RealDisk;
use countersign_testing::gate::{ORIGIN, log_key, on_folder, open, operator, publish};

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
    let Event::Action(decided) = entered.entry.event else { panic!("not an action") };
    (entered.entry.index, decided.decision.verdict)
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
