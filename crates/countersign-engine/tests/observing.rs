//! Observations that are entries: what proves them to others, and who tries to have something else proved.

mod budgets;

use countersign_core::fact::Version;
use countersign_core::identity::Auth;
use countersign_core::ids::{AgentId, FactId};
use countersign_core::limits::ATTESTED_BYTES_MAX;
use countersign_core::observation::{Observation, ObservationRefusal};
use countersign_core::record::{Event, Kind, Leaf};
use countersign_core::value::{Attributes, Value};
use countersign_engine::audit::{AuditReport, Unknown, audit};
use countersign_engine::fold::payload_matches;
use countersign_engine::gate::{Attested, ExternalFacts, FoundFacts, Gate, NotShown, Observe, Options, Parts};
use countersign_engine::request::{Refusal, Request, Submission};
use countersign_engine::sequence::Batch;
use countersign_engine::storage::disk::RealDisk;
use countersign_testing::gate::{ORIGIN, feed, log_key, on_folder, open, operator, publish};
use std::path::Path;
use std::sync::Arc;

const PACT: &str = r#"
pact = "ward"
version = 1

[facts.Patient]
attributes = { room = "String", diagnosis = "String", note = "String?" }

[[observe.Patient]]
who = 'principal.roles.contains("nurse")'
attributes = ["room"]

[[observe.Patient]]
who = 'principal.roles.contains("doctor") && resource.room != "closed"'
attributes = "*"

[action.move]
resource = 'Patient::"{patient}"'
allow = 'principal.roles.contains("nurse")'
set = { room = "context.room" }

[action.move.params]
type = "object"
additionalProperties = false
required = ["patient", "room"]
properties.patient = { type = "string", maxLength = 64 }
properties.room = { type = "string", maxLength = 64 }

[[action.move.require]]
id = "room-is-as-seen"
that = 'context.observed has resource && context.observed.resource.room == resource.room'
"#;

fn set_up(dir: &Path) -> Gate {
    let gate = open(dir);
    gate.call(publish(PACT)).unwrap();
    for (agent, role) in [("nina", "nurse"), ("doc", "doctor"), ("guest", "guest")] {
        let value = format!(r#"{{"roles":["{role}"],"standing":"active","org":"a","trust":1}}"#);
        gate.call(feed(&format!("Agent::\"{agent}\""), &value)).unwrap();
    }
    gate.call(feed("Patient::\"1\"", r#"{"room":"7","diagnosis":"a very secret thing"}"#)).unwrap();
    gate.call(feed("Patient::\"2\"", r#"{"room":"8","diagnosis":"another secret"}"#)).unwrap();
    gate
}

fn agent(name: &str) -> AgentId {
    AgentId::new(name).unwrap()
}

fn patients(ids: &[&str]) -> Vec<FactId> {
    ids.iter().map(|id| format!("Patient::\"{id}\"").parse().unwrap()).collect()
}

fn attest(gate: &Gate, who: &str, ids: &[&str]) -> Result<(Observe, Attested), NotShown> {
    let shown = gate.show((agent(who), Auth::None), patients(ids), &ExternalFacts::default(), true);
    shown.map(|(shown, attested)| (shown, attested.unwrap()))
}

fn audited(dir: &Path) -> AuditReport {
    audit(&RealDisk::open(dir).unwrap(), &log_key(), &mut |_| ()).unwrap()
}

#[test]
fn what_was_shown_is_proved_with_the_logs_key_alone_and_holds_nothing_that_was_withheld() {
    let dir = tempfile::tempdir().unwrap();
    let gate = set_up(dir.path());
    let before = gate.view().position;
    let (shown, Attested { entered, opening }) = attest(&gate, "nina", &["1", "none"]).unwrap();
    assert_eq!((entered.entry.index, shown.position, gate.view().position), (before, before, before + 1));
    assert_eq!(shown.observed_at_ms, entered.entry.time_ms);
    let told = (&shown.facts[0].value, &shown.facts[0].withheld, shown.facts[1].version);
    let room = Attributes::from_fields(vec![("room".into(), Value::String("7".into()))]);
    assert_eq!(told, (&Some(room), &vec!["diagnosis".into(), "note".into()], Version::NONE));

    // What a third party does, which has the receipt, the payload and the salt, and the key of the log.
    let receipt = entered.proof.receipt(&entered.entry).unwrap();
    receipt.verify(&log_key()).unwrap();
    assert!(payload_matches(&receipt.leaf, &opening.salt, opening.payload.as_bytes()));
    let leaf = Leaf::decode(&receipt.leaf).unwrap();
    assert_eq!((leaf.kind, leaf.by.as_str(), leaf.time), (Kind::Observation, "nina", shown.observed_at_ms));
    let tag = gate.fact(&patients(&["1"])[0]).unwrap().tag;
    assert_eq!(leaf.reads, Some(vec![(tag, 1)]));
    assert!(opening.payload.contains(r#""value":{"room":"7"}"#), "{}", opening.payload);
    assert!(!opening.payload.contains("secret"), "{}", opening.payload);

    // The token is as good as any other, and holds what was withheld, sealed.
    let body = serde_json::json!({
        "pact": "ward", "action": "move", "idempotency_key": "0".repeat(32),
        "params": {"patient": "1", "room": "9"}, "observations": [shown.token],
    });
    let action = gate.admit(agent("nina"), Auth::None, body.to_string().into()).unwrap();
    gate.call(Request::Act(Box::new(action))).unwrap();
    assert_eq!(gate.fact(&patients(&["1"])[0]).unwrap().version(), 2);
    gate.close().unwrap();
    let report = audited(dir.path());
    assert_eq!((report.verified, report.entries, &report.differing), (report.entries, before + 2, &vec![]));
}

#[test]
fn attack_who_has_no_right_makes_no_entry_and_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let gate = set_up(dir.path());
    let before = gate.view().position;
    for (who, ids) in [("guest", ["1"].as_slice()), ("nobody", &["1"]), ("doc", &["1", "none"])] {
        let refused = attest(&gate, who, ids).unwrap_err();
        assert!(matches!(refused, NotShown::Refused(Refusal::Observation(_))), "{refused:?}");
    }
    let long = "x".repeat(16_000);
    for id in 10..16 {
        let value = format!(r#"{{"room":"7","diagnosis":"{long}"}}"#);
        gate.call(feed(&format!("Patient::\"{id}\""), &value)).unwrap();
    }
    let refused = attest(&gate, "doc", &["10", "11", "12", "13", "14"]).unwrap_err();
    assert!(
        matches!(refused, NotShown::Refused(Refusal::Observation(ObservationRefusal::TooLong(bytes))) if bytes > ATTESTED_BYTES_MAX),
        "{refused:?}"
    );
    attest(&gate, "doc", &["10", "11"]).unwrap();
    let kinds = |kind: Kind| {
        let leaf = |index| Leaf::decode(&gate.read_log(index).unwrap().leaf).unwrap().kind;
        (before..gate.view().position).filter(|index| leaf(*index) == kind).count()
    };
    assert_eq!((kinds(Kind::Observation), kinds(Kind::Feed)), (1, 6));
    let denied: u64 = gate.denials().totals().map(|(_, count)| count).sum();
    assert_eq!(denied, 3);
}

#[test]
fn attack_one_that_was_revoked_right_before_its_place_is_shown_nothing() {
    let dir = tempfile::tempdir().unwrap();
    set_up(dir.path()).close().unwrap();
    let mut parts = Parts::open(on_folder(dir.path()), Options::new(ORIGIN)).unwrap();
    let revoke = feed("Agent::\"nina\"", r#"{"roles":["nurse"],"standing":"revoked","org":"a","trust":1}"#);
    let (external, found) = (Box::default(), FoundFacts::default());
    let (ids, auth) = (patients(&["1"]), Auth::None);
    let observe =
        Request::Observe { agent: agent("nina"), auth, ids, external, attest: true, found: Arc::clone(&found) };
    let mut batch = Batch::default();
    parts.sequence(&mut batch, [revoke, observe].map(|request| Submission::new(request, Box::new(|_| ()))));
    assert_eq!((batch.entries.len(), batch.answers.len()), (1, 1));
    let (_, refused) = &batch.answers[0];
    assert!(matches!(refused, Err(Refusal::Observation(ObservationRefusal::Agent(why))) if why.contains("not active")));
    assert!(found.get().is_none());
}

/// The audit of a log whose last entry says something else than was shown.
fn lied(dir: &Path, who: &str, before: impl FnOnce(&Gate), lie: impl FnOnce(&mut Observation)) -> AuditReport {
    let gate = set_up(dir);
    before(&gate);
    gate.close().unwrap();
    let mut parts = Parts::open(on_folder(dir), Options::new(ORIGIN)).unwrap();
    let (external, found) = (Box::default(), FoundFacts::default());
    let request = Request::Observe {
        agent: agent(who),
        auth: Auth::None,
        ids: patients(&["1", "2"]),
        external,
        attest: true,
        found,
    };
    let mut batch = Batch::default();
    parts.sequence(&mut batch, [Submission::new(request, Box::new(|_| ()))]);
    let Event::Observation(observation) = &mut Arc::get_mut(&mut batch.entries[0].entry).unwrap().event else {
        panic!()
    };
    lie(observation);
    parts.committer.commit(batch).unwrap();
    parts.committer.close().unwrap();
    audited(dir)
}

fn set(observation: &mut Observation, at: usize, name: &'static str, text: &str) {
    let value = observation.facts[at].value.as_ref().unwrap();
    observation.facts[at].value = Some(value.with(vec![(name.into(), Value::String(text.into()))]));
}

#[test]
fn attack_the_holder_of_the_log_key_says_that_something_else_was_shown() {
    let lies: [fn(&mut Observation); 6] = [
        |shown| set(shown, 0, "room", "6"),
        // More than the agent may see, as it is.
        |shown| set(shown, 0, "diagnosis", "a very secret thing"),
        |shown| shown.facts[0].version = Some(Version::Number(2)),
        |shown| shown.facts[0].withheld.clear(),
        |shown| shown.facts[0].value = None,
        |shown| shown.began_ms = Some(1),
    ];
    for (at, lie) in lies.into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let report = lied(dir.path(), "nina", |_| (), lie);
        assert_eq!(report.differing_count, 1, "lie {at}: {report:?}");
        assert_eq!(report.differing[0].entry, report.entries - 1, "lie {at}");
    }
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(lied(dir.path(), "nina", |_| (), |_| ()).differing, []);
}

#[test]
fn an_erased_payload_leaves_only_what_rests_on_it_unverifiable_and_the_proof_is_with_who_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let gate = set_up(dir.path());
    let (_, attested) = attest(&gate, "nina", &["1", "2"]).unwrap();
    let entry = attested.entered.entry.index;
    let first = gate.fact(&patients(&["1"])[0]).unwrap().written.entry;
    gate.call(feed("Patient::\"1\"", r#"{"room":"9","diagnosis":"none"}"#)).unwrap();
    // The plan for the fact finds the observation too.
    let plan = gate.erase_plan(&patients(&["1"])[0]).unwrap();
    assert!(plan.entries.contains(&entry) && plan.entries.contains(&first), "{:?}", plan.entries);
    let before = gate.view().position;
    let erasure = gate.erase(operator(), Auth::None, &[entry, first], "asked for".into()).unwrap();
    assert_eq!(gate.read_log(entry).unwrap().payload, None);
    assert!(gate.opening(entry).is_err());
    gate.receipt(entry).unwrap().verify(&log_key()).unwrap();
    gate.close().unwrap();
    let report = audited(dir.path());
    let unverifiable: Vec<_> = report.unverifiable.iter().map(|it| (it.entry, it.unknown, it.erased_by)).collect();
    let gone = |entry| (entry, Unknown::Payload, Some(erasure));
    assert_eq!((unverifiable, report.differing), (vec![gone(first), gone(entry)], vec![]), "{before}");
    // Who was given the proof can still show it.
    let receipt = attested.entered.proof.receipt(&attested.entered.entry).unwrap();
    assert!(payload_matches(&receipt.leaf, &attested.opening.salt, attested.opening.payload.as_bytes()));
}

#[test]
fn attack_an_erased_fact_excuses_a_lie_about_another() {
    // The value that was shown first is gone: what is said of that fact cannot be judged, and what is said of the other is.
    let erase = |gate: &Gate| {
        let first = gate.fact(&patients(&["1"])[0]).unwrap().written.entry;
        gate.call(feed("Patient::\"1\"", r#"{"room":"5","diagnosis":"none"}"#)).unwrap();
        gate.erase(operator(), Auth::None, &[first], "asked for".into()).unwrap();
    };
    for is_lie in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let report = lied(dir.path(), "doc", erase, |shown| {
            if is_lie {
                set(shown, 1, "room", "6");
            }
        });
        assert_eq!(report.differing_count, u64::from(is_lie), "{report:?}");
    }
    // Of a fact whose latest version that was read is gone since.
    for (at, is_found) in [(0, false), (1, true)] {
        let dir = tempfile::tempdir().unwrap();
        drop(lied(dir.path(), "doc", |_| (), |shown| set(shown, at, "room", "6")));
        let gate = open(dir.path());
        let first = gate.fact(&patients(&["1"])[0]).unwrap().written.entry;
        gate.call(feed("Patient::\"1\"", r#"{"room":"5","diagnosis":"none"}"#)).unwrap();
        gate.erase(operator(), Auth::None, &[first], "asked for".into()).unwrap();
        gate.close().unwrap();
        let report = audited(dir.path());
        assert_eq!(report.differing_count, u64::from(is_found), "{at}: {report:?}");
    }
}
