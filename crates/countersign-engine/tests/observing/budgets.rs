//! Budgets on observing, from the side of those who want to know more than they may: together, again, and by other ways.

use super::{agent, audited, patients};
use countersign_core::disclose::DecidedBy;
use countersign_core::erase::InForce;
use countersign_core::identity::Auth;
use countersign_core::ids::FactId;
use countersign_core::observation::{Observation, ObservationRefusal};
use countersign_core::observing::{ObservingExceeded, Sharer};
use countersign_core::record::{Event, Kind, Leaf};
use countersign_engine::audit::{AuditReport, Unknown};
use countersign_engine::gate::{EraseError, ExternalFacts, FoundFacts, Gate, NotShown, Observe, Options, Parts};
use countersign_engine::request::{Refusal, Request, Submission};
use countersign_engine::sequence::Batch;
use countersign_testing::gate::{ORIGIN, feed, on_folder_by, operator, publish};
use countersign_testing::hands::Hands;
use std::path::Path;
use std::sync::Arc;

const DAY: u64 = 24 * 60 * 60 * 1000;

const PACT: &str = r#"
pact = "ward"
version = 1

[facts.Patient]
attributes = { room = "String", diagnosis = "String" }

[[observe.Patient]]
who = 'principal.roles.contains("porter")'
attributes = ["room"]

[[observe.Patient]]
who = 'principal.roles.contains("doctor")'
attributes = "*"
budget = [{ distinct = 3, per = "1h", by = "agent" }, { distinct = 10, per = "1d", by = "org" }]

[action.discharge]
resource = 'Patient::"{patient}"'
allow = 'principal.roles.contains("doctor")'
delete = ["resource"]

[[action.discharge.require]]
id = "is-well"
that = 'resource.diagnosis == "none"'
"#;

/// A gate at the beginning of a day, with doctors of two organisations, a porter, and forty patients.
fn set_up(dir: &Path) -> (Gate, Arc<Hands>) {
    let clock = Hands::at(20_000 * DAY);
    let gate = open(dir, &clock);
    gate.call(publish(PACT)).unwrap();
    let register = |name: &str, role: &str, org: &str| {
        let value = format!(r#"{{"roles":["{role}"],"standing":"active","org":"{org}","trust":1}}"#);
        gate.call(feed(&format!("Agent::\"{name}\""), &value)).unwrap();
    };
    (0..10).for_each(|at| register(&format!("a-{at}"), "doctor", "a"));
    register("b-0", "doctor", "b");
    register("porter", "porter", "a");
    for id in 0..40 {
        gate.call(feed(&format!("Patient::\"{id}\""), &format!(r#"{{"room":"{id}","diagnosis":"secret {id}"}}"#)))
            .unwrap();
    }
    (gate, clock)
}

fn open(dir: &Path, clock: &Arc<Hands>) -> Gate {
    Gate::open(on_folder_by(dir, Arc::clone(clock) as _), Options::new(ORIGIN)).unwrap().0
}

fn look(gate: &Gate, who: &str, ids: &[&str]) -> Result<Observe, NotShown> {
    gate.show((agent(who), Auth::None), patients(ids), &ExternalFacts::default(), false).map(|(shown, _)| shown)
}

fn exceeded(refused: Result<Observe, NotShown>) -> ObservingExceeded {
    match refused.unwrap_err() {
        NotShown::Refused(Refusal::Observation(ObservationRefusal::Exceeded { exceeded, .. })) => *exceeded,
        other => panic!("{other:?}"),
    }
}

fn kinds(gate: &Gate, from: u64) -> Vec<Kind> {
    let kind = |index| Leaf::decode(&gate.read_log(index).unwrap().leaf).unwrap().kind;
    (from..gate.view().position).map(kind).filter(|kind| *kind != Kind::Denials).collect()
}

#[test]
fn attack_ten_agents_of_one_organisation_each_look_at_a_part() {
    let dir = tempfile::tempdir().unwrap();
    let (gate, clock) = set_up(dir.path());
    let before = gate.view().position;
    let mut known = 0;
    for at in 0..10 {
        for part in 0..4 {
            let id = (at * 4 + part).to_string();
            known += usize::from(look(&gate, &format!("a-{at}"), &[&id]).is_ok());
        }
    }
    assert_eq!((known, kinds(&gate, before)), (10, vec![Kind::Observation; 10]));
    // It says which budget it was, how much is counted, and when the window ends.
    let why = exceeded(look(&gate, "a-9", &["39"]));
    let ObservingExceeded::Budget { key, distinct, used, asked, ends_ms } = &why else { panic!("{why:?}") };
    assert_eq!((&key.sharer, *distinct, *used, *asked), (&Sharer::Org("a".into()), 10, 10, 1));
    assert_eq!(*ends_ms, 20_001 * DAY);
    let words =
        "pact `ward` lets the agents of organisation `a` together observe 10 distinct facts of type Patient per 1 d";
    assert!(why.to_string().starts_with(words), "{why}");
    // What is known already is shown on, others are not held up, and who is shown something else is not counted.
    look(&gate, "a-0", &["0", "1", "2"]).unwrap();
    look(&gate, "b-0", &["39"]).unwrap();
    let all: Vec<String> = (0..30).map(|id| id.to_string()).collect();
    look(&gate, "porter", &all.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    // An agent that is moved to another organisation takes its own counts along, and no one else's.
    assert_eq!(kinds(&gate, before).len(), 11);
    // The window ends, for all of them.
    clock.pass(DAY);
    look(&gate, "a-9", &["39", "38", "37"]).unwrap();
    gate.close().unwrap();
    assert_eq!(audited(dir.path()).differing, []);
}

#[test]
fn attack_an_agent_asks_for_more_at_once_or_again_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (gate, clock) = set_up(dir.path());
    // All or none: what is refused is not counted, and no one is told of a part of it.
    assert!(matches!(
        exceeded(look(&gate, "a-0", &["0", "1", "2", "3"])),
        ObservingExceeded::Budget { asked: 4, used: 0, .. }
    ));
    let before = gate.view().position;
    look(&gate, "a-0", &["0", "1"]).unwrap();
    assert_eq!(kinds(&gate, before), [Kind::Observation]);
    // Nothing new is counted, so nothing is entered; that it is attested counts nothing again.
    look(&gate, "a-0", &["1", "0"]).unwrap();
    gate.show((agent("a-0"), Auth::None), patients(&["0"]), &ExternalFacts::default(), true).unwrap();
    assert_eq!(kinds(&gate, before), [Kind::Observation; 2]);
    // What is not there tells something too.
    look(&gate, "a-0", &["none"]).unwrap();
    let stays = |gate: &Gate| {
        assert!(matches!(exceeded(look(gate, "a-0", &["2"])), ObservingExceeded::Budget { used: 3, .. }));
        look(gate, "a-0", &["0", "none"]).unwrap();
    };
    stays(&gate);
    gate.snapshot().unwrap();
    gate.close().unwrap();
    // From the snapshot, and from the log alone.
    let gate = open(dir.path(), &clock);
    stays(&gate);
    gate.close().unwrap();
    for file in std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().path()) {
        if file.extension().is_some_and(|extension| extension == "snap") {
            std::fs::remove_file(file).unwrap();
        }
    }
    let gate = open(dir.path(), &clock);
    stays(&gate);
    clock.pass(60 * 60 * 1000);
    look(&gate, "a-0", &["2", "3", "4"]).unwrap();
    gate.close().unwrap();
    let report = audited(dir.path());
    assert_eq!((report.verified, report.differing), (report.entries, vec![]));
}

#[test]
fn attack_a_rejection_or_a_check_tells_what_an_observation_would_have_counted() {
    let dir = tempfile::tempdir().unwrap();
    let (gate, _) = set_up(dir.path());
    let tells = |who: &str, id: &str| {
        let (fact, who): (FactId, _) = (format!("Patient::\"{id}\"").parse().unwrap(), agent(who));
        let reads = [FactId::of_agent(&who), fact.clone()];
        let by: Option<DecidedBy<'_>> = None;
        let view = gate.view();
        let disclosure = view.disclosure(&who, by, &reads);
        (disclosure.shows(&fact, "diagnosis"), disclosure.shows(&fact, "room"), disclosure.shows_whole(&fact))
    };
    assert_eq!(tells("a-0", "0"), (false, false, false));
    look(&gate, "a-0", &["0"]).unwrap();
    assert_eq!(tells("a-0", "0"), (true, true, true));
    // What one agent was shown, another of its organisation was not.
    assert_eq!(tells("a-1", "0"), (false, false, false));
    assert_eq!(tells("porter", "0"), (false, true, false));
    // What counts is not handed out by the way that enters nothing.
    assert!(gate.observe(agent("a-0"), patients(&["1"])).is_err());
    assert!(gate.observe(agent("a-0"), patients(&["0"])).is_ok());
}

/// The audit of a log whose last entry, of an agent that looks at two patients, says something else of what it counts.
fn lied(dir: &Path, attest: bool, lie: impl FnOnce(&mut Observation)) -> AuditReport {
    let (gate, clock) = set_up(dir);
    look(&gate, "a-0", &["0"]).unwrap();
    gate.close().unwrap();
    let mut parts = Parts::open(on_folder_by(dir, clock), Options::new(ORIGIN)).unwrap();
    let (external, found) = (Box::default(), FoundFacts::default());
    let (ids, auth) = (patients(&["0", "1", "2"]), Auth::None);
    let request = Request::Observe { agent: agent("a-0"), auth, ids, external, attest, found };
    let mut batch = Batch::default();
    parts.sequence(&mut batch, [Submission::new(request, Box::new(|_| ()))]);
    let Event::Observation(observation) = &mut Arc::get_mut(&mut batch.entries[0].entry).unwrap().event else {
        panic!()
    };
    assert_eq!(observation.counts.iter().map(|count| count.facts.len()).collect::<Vec<_>>(), [2, 2]);
    lie(observation);
    parts.committer.commit(batch).unwrap();
    parts.committer.close().unwrap();
    audited(dir)
}

#[test]
fn attack_the_holder_of_the_log_key_counts_less_than_was_shown() {
    type Lie = fn(&mut Observation);
    let lies: [(bool, Lie); 5] = [
        (true, |shown| drop(shown.counts.pop())),
        (true, |shown| drop(shown.counts[0].facts.pop())),
        (false, |shown| shown.counts[0].window += 1),
        (false, |shown| shown.counts[1].key.sharer = Sharer::Org("b".into())),
        (false, |shown| drop(shown.counts.pop())),
    ];
    for (at, (attest, lie)) in lies.into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let report = lied(dir.path(), attest, lie);
        assert_eq!(report.differing_count, 1, "lie {at}: {report:?}");
    }
    for attest in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(lied(dir.path(), attest, |_| ()).differing, []);
    }
}

#[test]
fn what_counts_is_not_erased_and_afterwards_only_what_rests_on_it_is_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let (gate, clock) = set_up(dir.path());
    let first = gate.view().position;
    look(&gate, "a-0", &["0"]).unwrap();
    gate.show((agent("a-0"), Auth::None), patients(&["0", "1"]), &ExternalFacts::default(), true).unwrap();
    let refused = gate.erase(operator(), Auth::None, &[first], "asked for".into()).unwrap_err();
    let EraseError::Refused(Refusal::InForce { what: InForce::Observing { until_ms }, .. }) = &refused else {
        panic!("{refused:?}")
    };
    assert_eq!(*until_ms, 20_001 * DAY);
    clock.pass(DAY);
    look(&gate, "a-0", &["2"]).unwrap();
    gate.erase(operator(), Auth::None, &[first], "asked for".into()).unwrap();
    gate.close().unwrap();
    let report = audited(dir.path());
    let unverifiable: Vec<_> = report.unverifiable.iter().map(|it| (it.entry, it.unknown)).collect();
    assert_eq!(
        (unverifiable, report.differing),
        (vec![(first, Unknown::Payload), (first + 1, Unknown::Charges)], vec![])
    );
}
