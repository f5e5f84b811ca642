//! Audit, replay and erasure on a real disk.

use countersign_core::body::RawBody;
use countersign_core::call::{EffectId, Evidence, FoundCode, Outcome as CallOutcome};
use countersign_core::canonical::Canonical;
use countersign_core::decision::Verdict;
use countersign_core::denial::{DenialCode, Denied};
use countersign_core::erase::InForce;
use countersign_core::fact::Version;
use countersign_core::fence::ClaimId;
use countersign_core::identity::Auth;
use countersign_core::ids::{AgentId, Digest, FactId};
use countersign_core::pact::load::load;
use countersign_core::reason::Reason;
use countersign_core::record::{Decided, Encoder, Event, Kind, Leaf};
use countersign_core::review::ReviewId;
use countersign_core::session::{Place, Reading};
use countersign_engine::audit::{AuditReport, Unknown, audit, replay};
use countersign_engine::fold::walk_options;
use countersign_engine::gate::{Environment, EraseError, ExternalFacts, Gate, Options, Parts};
use countersign_engine::log_key::{HeldKey, KeyFiles};
use countersign_engine::request::{Answer, Refusal, Request, Settlement, Submission};
use countersign_engine::sequence::Batch;
use countersign_engine::storage::disk::{Disk, RealDisk};
use countersign_engine::storage::walk;
use countersign_ledger::tree::Frontier;
use countersign_testing::checker;
use countersign_testing::gate::{ORIGIN, Wall, environment, feed, log_key, on_folder, open, operator, publish};
use countersign_testing::pacts::whole;
use std::path::Path;
use std::sync::Arc;

const PACT: &str = r#"
pact = "notes"
version = 1

[facts.Note]
attributes = { text = "String", open = "Bool" }

[observe.Note]
who = 'true'
attributes = "*"

[action.write]
resource = 'Note::"{note}"'
allow = 'true'
set = { text = "context.text" }

[action.write.params]
type = "object"
additionalProperties = false
required = ["note", "text"]
properties.note = { type = "string", maxLength = 64 }
properties.text = { type = "string", maxLength = 200 }

[[action.write.require]]
id = "note-is-open"
that = 'resource.open'

[action.close]
mode = "shadow"
resource = { fact = 'Note::"{note}"', unchanged = true }
allow = 'true'
set = { open = "false" }
budget = { count = true, max = 100, per = "1d", by = "agent" }

[[action.close.require]]
id = "note-is-empty"
that = 'resource.text == ""'

[action.ask]
resource = 'Note::"{note}"'
allow = 'true'
delete = ["resource"]

[[action.ask.require]]
id = "note-is-closed"
that = '!resource.open'
on_fail = "review"

[claim.Note]
who = 'true'
max = "10s"

[action.mail]
resource = 'Note::"{note}"'
allow = 'true'
set = { open = "false" }
budget = { count = true, max = 100, per = "1d", by = "agent" }
call = { http = "mail", path = "/send/{note}", body = { text = "resource.text" }, after = "1ms", probe = { path = "/sent/{call.key}" } }

[[action.mail.require]]
id = "note-is-open"
that = 'resource.open'
"#;

fn write(gate: &Gate, number: u32, text: &str) -> Answer {
    let body = serde_json::json!({
        "pact": "notes", "action": "write", "idempotency_key": format!("{number:032}"),
        "params": {"note": "1", "text": text},
    });
    let action = gate.admit(AgentId::new("writer").unwrap(), Auth::None, body.to_string().into()).unwrap();
    gate.call(Request::Act(Box::new(action))).unwrap()
}

fn set_up(dir: &Path) -> Gate {
    let gate = open(dir);
    furnish(&gate);
    gate
}

fn furnish(gate: &Gate) {
    gate.call(publish(PACT)).unwrap();
    gate.call(feed("Agent::\"writer\"", r#"{"roles":[],"standing":"active","org":"a","trust":1}"#)).unwrap();
    gate.call(feed("Note::\"1\"", r#"{"text":"a first secret","open":true}"#)).unwrap();
}

fn index(answer: Answer) -> u64 {
    let Answer::Entered(entered) = answer else { panic!("{answer:?}") };
    entered.entry.index
}

fn folder_holds(dir: &Path, text: &str) -> bool {
    let files = std::fs::read_dir(dir).unwrap().map(|file| std::fs::read(file.unwrap().path()).unwrap());
    files.into_iter().any(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
}

#[test]
fn an_honest_log_is_verified_whole() {
    let dir = tempfile::tempdir().unwrap();
    let gate = set_up(dir.path());
    write(&gate, 1, "one");
    gate.call(feed("Note::\"1\"", r#"{"text":"x","open":false}"#)).unwrap();
    let observed = gate.observe(AgentId::new("writer").unwrap(), vec!["Note::\"1\"".parse().unwrap()]);
    assert!(observed.unwrap().facts[0].value.is_some());
    write(&gate, 2, "two");
    gate.close().unwrap();
    let report = audit(&RealDisk::open(dir.path()).unwrap(), &log_key(), &mut |_| ()).unwrap();
    assert_eq!((report.entries, report.verified), (7, 7), "{report:?}");
    assert!(report.differing.is_empty() && report.unverifiable.is_empty());
}

/// Does an action of the writer on the note.
fn act(gate: &Gate, number: u32, kind: &str, tokens: &[String]) -> Answer {
    let body = serde_json::json!({
        "pact": "notes", "action": kind, "idempotency_key": format!("{number:032}"),
        "params": {"note": "1"}, "observations": tokens,
    });
    let action = gate.admit(AgentId::new("writer").unwrap(), Auth::None, body.to_string().into()).unwrap();
    gate.call(Request::Act(Box::new(action))).unwrap()
}

/// A claim, and a call from intent to settlement with a feed that is held meanwhile.
fn effects(gate: &Gate) {
    let by = || AgentId::new("writer").unwrap();
    let (facts, auth) = (vec!["Note::\"1\"".parse().unwrap()], Auth::None);
    let claim = Request::Claim { by: by(), auth: auth.clone(), facts, for_ms: 500, reason: "why".into() };
    let claim = ClaimId(index(gate.call(claim).unwrap()));
    gate.call(Request::ExtendClaim { by: by(), auth: auth.clone(), claim, for_ms: 900 }).unwrap();
    gate.call(Request::WithdrawClaim { by: by(), auth, claim }).unwrap();
    let effect = EffectId(index(act(gate, 7, "mail", &[])));
    // It cools for a millisecond.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while gate.call(Request::Dispatch { effect }).is_err() {
        assert!(std::time::Instant::now() < until, "it never cooled");
    }
    let held = gate.call(feed("Note::\"1\"", r#"{"text":"later","open":true}"#)).unwrap();
    assert!(matches!(held, Answer::Entered(entered) if entered.entry.event.kind() == Kind::Held));
    let evidence =
        Evidence { status: Some(201), result: Some("{}".into()), ..Evidence::of(FoundCode::Resolved.said("created")) };
    let settlement = Settlement {
        effect,
        outcome: CallOutcome::Settled,
        evidence,
        judged: None,
        is_stopped: false,
        beside: Vec::new(),
    };
    gate.call(Request::Settle(Box::new(settlement))).unwrap();
}

#[test]
fn records_of_every_kind_are_canonical() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(Wall::default());
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(dir.path()).unwrap());
    std::fs::write(dir.path().join("log"), [1; 32]).unwrap();
    let log_key = HeldKey::load(KeyFiles::new(Arc::clone(&disk), Arc::clone(&disk))).unwrap();
    let environment = Environment { log_key, ..environment(disk, Arc::clone(&clock) as _) };
    let (gate, _) = Gate::open(environment, Options::new(ORIGIN)).unwrap();
    furnish(&gate);
    let note = || vec!["Note::\"1\"".parse().unwrap()];
    let token = gate.observe(AgentId::new("writer").unwrap(), note()).unwrap().token;
    let first = index(write(&gate, 1, "one \u{1} \"two\" \u{20ac}"));
    act(&gate, 2, "close", std::slice::from_ref(&token));
    act(&gate, 3, "ask", &[token]);
    write(&gate, 4, "rejected: it is closed");
    gate.erase(operator(), Auth::None, &[first], "a reason".into()).unwrap();
    clock.step(60_000);
    gate.call(feed("Note::\"2\"", r#"{"text":"","open":true}"#)).unwrap();
    let fact = "Note::\"2\"".parse().unwrap();
    gate.call(Request::Confirm { by: operator(), auth: Auth::None, fact, version: 1 }).unwrap();
    gate.call(Request::ConfirmClock { by: operator(), auth: Auth::None }).unwrap();
    let scope = || "agent:writer".parse().unwrap();
    gate.call(Request::Halt { by: operator(), auth: Auth::None, scope: scope(), reason: "why".into() }).unwrap();
    gate.call(Request::Resume { by: operator(), auth: Auth::None, scope: scope(), reason: "why".into() }).unwrap();
    gate.call(feed("Note::\"1\"", r#"{"text":"","open":true}"#)).unwrap();
    let parked = [act(&gate, 6, "ask", &[]), act(&gate, 5, "ask", &[])].map(|answer| ReviewId(index(answer)));
    act(&gate, 9, "ask", &[]);
    let shown = gate.show_review(parked[0], &operator()).unwrap().shown;
    let until_ms = shown.at_ms + 60_000;
    gate.call(Request::Approve { by: operator(), auth: Auth::None, shown: Box::new(shown), until_ms }).unwrap();
    gate.call(Request::Refuse { by: operator(), auth: Auth::None, review: parked[1], reason: "why".into() }).unwrap();
    // The last one waits for longer than anybody has.
    clock.step(3_700_000);
    gate.call(feed("Note::\"2\"", r#"{"text":"","open":false}"#)).unwrap();
    gate.call(Request::ConfirmClock { by: operator(), auth: Auth::None }).unwrap();
    gate.call(feed("Note::\"1\"", r#"{"text":"again","open":true}"#)).unwrap();
    effects(&gate);
    let (agent, code) = (AgentId::new("writer").ok(), DenialCode::NotObservable);
    let denied = Denied { agent, code, count: 3, first_ms: 1, last_ms: 2, sample: "Note".to_owned() };
    gate.call(Request::Denials(vec![denied])).unwrap();
    for note in ["1", "none"] {
        let body = |number: u32| {
            let params = serde_json::json!({"note": note, "text": format!("{number}")});
            let key = format!("{note:0>20}{number:012}");
            let body =
                serde_json::json!({"pact": "notes", "action": "write", "idempotency_key": key, "params": params});
            RawBody::from(body.to_string())
        };
        let bodies = [body(1), body(2)];
        let admitted = gate.admit_many(AgentId::new("writer").unwrap(), Auth::None, &bodies, true).unwrap();
        gate.call(Request::ActMany(admitted.many)).unwrap();
    }
    let session = gate.open_session(AgentId::new("writer").unwrap(), Auth::None).unwrap();
    let place = Place { upstream: "shop".into(), tool: "get_stock".into(), arguments: "{}".into() };
    let content = "{\"stock\":10}";
    let digest = Digest::of(content.as_bytes());
    let (content, changes) = (Some(content.into()), Vec::new());
    let reading = Reading { place, at_ms: 1, digest, projection: "-/at\n".into(), content, changes };
    let (agent, auth) = (AgentId::new("writer").unwrap(), Auth::None);
    gate.call(Request::Read { session, agent: agent.clone(), auth, reading: Box::new(reading) }).unwrap();
    gate.close_session(session, agent.clone()).unwrap();
    let seen = vec!["Note::\"1\"".parse().unwrap(), "Note::\"none\"".parse().unwrap()];
    gate.show((agent, Auth::None), seen, &ExternalFacts::default(), true).unwrap();
    gate.rotate_log_key(operator(), Auth::None, "why".into()).unwrap();
    let mut kinds = std::collections::BTreeSet::new();
    for index in 0..gate.view().position {
        let stored = gate.read_log(index).unwrap();
        kinds.insert(Leaf::decode(&stored.leaf).unwrap().kind);
        // What is read back and written again has the same bytes.
        let (entry, commitment) = (stored.decode().unwrap(), Leaf::decode(&stored.leaf).unwrap().commitment);
        if let Some(payload) = &stored.payload {
            assert_eq!(Encoder::default().leaf(&entry, &commitment.0), stored.leaf, "entry {index}");
            assert_eq!(Encoder::default().payload(&entry).as_bytes(), payload, "entry {index}");
        }
        // What is shown is canonical JSON, and what another reader makes of the same bytes.
        let shown = stored.show().unwrap();
        let read_leaf = checker::stored::leaf(&stored.leaf).unwrap();
        let read_payload = stored.payload.map(|payload| checker::stored::payload(&read_leaf, &payload).unwrap());
        for (text, read) in [(Some(shown.leaf), Some(read_leaf)), (shown.payload, read_payload)] {
            let Some(text) = text else { continue };
            let json: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(Some(&json), read.as_ref(), "entry {index}");
            let mut sorted = Canonical::new();
            sorted.json(&json);
            assert_eq!(sorted.as_str(), text, "entry {index} is not canonical");
        }
    }
    // Whoever adds a kind makes an entry of it above.
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), Kind::ALL);
}

/// A folder whose last entry, a rejection, the holder of the log key has put down in another way than `decide` gave it.
fn told_otherwise(dir: &Path, tell: impl FnOnce(&mut Decided)) -> (u64, AuditReport) {
    lied_about(dir, "two", |_| (), tell)
}

/// Erases something that was committed, of another note.
fn erase_another(gate: &Gate) {
    gate.call(feed("Note::\"2\"", r#"{"text":"x","open":true}"#)).unwrap();
    let other = serde_json::json!({
        "pact": "notes", "action": "write", "idempotency_key": format!("{:032}", 8),
        "params": {"note": "2", "text": "gone"},
    });
    let action = gate.admit(AgentId::new("writer").unwrap(), Auth::None, other.to_string().into()).unwrap();
    let gone = index(gate.call(Request::Act(Box::new(action))).unwrap());
    gate.call(feed("Note::\"2\"", r#"{"text":"after","open":true}"#)).unwrap();
    gate.erase(operator(), Auth::None, &[gone], "asked for".into()).unwrap();
}

/// Erases what was known first of the note, once it is fed again.
fn erase_first_versions(gate: &Gate) {
    gate.call(feed("Agent::\"writer\"", r#"{"roles":["x"],"standing":"active","org":"a","trust":2}"#)).unwrap();
    gate.call(feed("Note::\"1\"", r#"{"text":"x","open":true}"#)).unwrap();
    // Who the writer was is never erased.
    gate.erase(operator(), Auth::None, &[2, 3], "asked for".into()).unwrap_err();
    gate.erase(operator(), Auth::None, &[3], "asked for".into()).unwrap();
}

/// The same for an action with this text, and after whatever was done before.
fn lied_about(
    dir: &Path,
    text: &str,
    before: impl FnOnce(&Gate),
    tell: impl FnOnce(&mut Decided),
) -> (u64, AuditReport) {
    let gate = set_up(dir);
    before(&gate);
    gate.call(feed("Note::\"1\"", r#"{"text":"x","open":false}"#)).unwrap();
    let body = serde_json::json!({
        "pact": "notes", "action": "write", "idempotency_key": format!("{:032}", 9),
        "params": {"note": "1", "text": text},
    });
    let action = gate.admit(AgentId::new("writer").unwrap(), Auth::None, body.to_string().into()).unwrap();
    gate.close().unwrap();

    let mut parts = Parts::open(on_folder(dir), Options::new(ORIGIN)).unwrap();
    let submission = Submission::new(Request::Act(Box::new(action)), Box::new(|_| ()));
    let mut batch = Batch::default();
    parts.sequence(&mut batch, [submission]);
    let Event::Action(decided) = &mut Arc::get_mut(&mut batch.entries[0].entry).unwrap().event else { panic!() };
    tell(decided);
    let entry = batch.entries[0].entry.index;
    parts.committer.commit(batch).unwrap();
    parts.committer.close().unwrap();
    (entry, audit(&RealDisk::open(dir).unwrap(), &log_key(), &mut |_| ()).unwrap())
}

fn blocked(decided: &mut Decided) -> &mut Reason {
    match &mut decided.decision.verdict {
        Verdict::Rejected(blocked) => blocked,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_verdict_that_decide_would_not_give_is_found_although_it_is_signed() {
    let lies: [fn(&mut Decided); 3] = [
        |decided| {
            blocked(decided);
            decided.decision.verdict = Verdict::Committed;
        },
        |decided| *blocked(decided) = Reason::TooManyEffects,
        |decided| {
            let Reason::PreconditionFailed { failed } = blocked(decided) else { panic!() };
            failed[0].reads[0].version = Some(Version::Number(99));
        },
    ];
    for lie in lies {
        let dir = tempfile::tempdir().unwrap();
        let (entry, report) = told_otherwise(dir.path(), lie);
        assert_eq!(report.differing.iter().map(|d| d.entry).collect::<Vec<_>>(), [entry]);
        assert!(report.differing[0].what.contains("payload differs"), "{:?}", report.differing);
    }
}

#[test]
fn a_lie_is_not_excused_by_an_erasure_and_a_word_in_the_body() {
    let dir = tempfile::tempdir().unwrap();
    let (entry, report) = lied_about(dir.path(), "budget_exceeded", erase_another, |decided| {
        blocked(decided);
        decided.decision.verdict = Verdict::Committed;
    });
    assert_eq!(report.differing.iter().map(|d| d.entry).collect::<Vec<_>>(), [entry], "{:?}", report.unverifiable);
}

#[test]
fn attack_an_erased_version_excuses_whatever_is_forged_after_a_clean_overwrite() {
    for is_lie in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (entry, report) = lied_about(dir.path(), "two", erase_first_versions, |decided| {
            if is_lie {
                blocked(decided);
                decided.decision.verdict = Verdict::Committed;
            }
        });
        let differing: Vec<u64> = report.differing.iter().map(|d| d.entry).collect();
        assert_eq!(differing, if is_lie { vec![entry] } else { vec![] }, "{report:?}");
        // What was fed over the erased versions is judged too: which version it must be, their leaves say.
        let unverifiable: Vec<_> = report.unverifiable.iter().map(|it| (it.entry, it.unknown)).collect();
        assert_eq!(unverifiable, [(3, Unknown::Payload)]);
        assert_eq!(report.verified, report.entries - 1 - u64::from(is_lie));
    }
}

#[test]
fn erasure_takes_every_copy_and_says_what_it_leaves_unverifiable() {
    let dir = tempfile::tempdir().unwrap();
    let gate = set_up(dir.path());
    let note: FactId = "Note::\"1\"".parse().unwrap();
    gate.snapshot().unwrap();
    let current = gate.fact(&note).unwrap().written.entry;
    assert!(folder_holds(dir.path(), "a first secret"));

    // What is current is refused.
    let refused = gate.erase(operator(), Auth::None, &[current], "asked for".into()).unwrap_err();
    assert!(matches!(refused, EraseError::Refused(Refusal::InForce { what: InForce::Current(_), .. })), "{refused:?}");

    let second = index(write(&gate, 1, "a second secret"));
    index(write(&gate, 2, "plain"));
    // Rejected before the note was looked at: its body still speaks of it.
    let unresolved = serde_json::json!({
        "pact": "notes", "action": "write", "idempotency_key": format!("{:032}", 3),
        "params": {"note": "1", "text": "third", "more": true},
    });
    let action = gate.admit(AgentId::new("writer").unwrap(), Auth::None, unresolved.to_string().into()).unwrap();
    let third = index(gate.call(Request::Act(Box::new(action))).unwrap());
    let plan = gate.erase_plan(&note).unwrap();
    assert_eq!(plan.entries, [current, second, third]);
    let erasure = gate.erase(operator(), Auth::None, &plan.entries, "asked for".into()).unwrap();
    assert!(!folder_holds(dir.path(), "a first secret"), "a copy is left");
    assert!(!folder_holds(dir.path(), "a second secret"), "a copy is left");

    // Proofs still hold, the log still verifies, and the state is what it was.
    gate.receipt(current).unwrap().verify(&gate.log_key()).unwrap();
    assert_eq!(gate.read_log(current).unwrap().payload, None);
    let before = gate.fact(&note).unwrap();
    gate.close().unwrap();
    let disk = RealDisk::open(dir.path()).unwrap();
    walk(&disk, walk_options(&log_key()), Frontier::new(), &mut |_| Ok(())).unwrap();

    let report = audit(&disk, &log_key(), &mut |_| ()).unwrap();
    assert_eq!(report.differing, [], "{report:?}");
    let unverifiable: Vec<_> = report.unverifiable.iter().map(|u| (u.entry, u.erased_by)).collect();
    assert!(unverifiable.contains(&(current, Some(erasure))), "{unverifiable:?}");
    assert!(unverifiable.contains(&(second, Some(erasure))), "{unverifiable:?}");

    // Opened from the log alone, without any snapshot, the current value and its version are the same.
    for file in std::fs::read_dir(dir.path()).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "snap") {
            std::fs::remove_file(path).unwrap();
        }
    }
    let (gate, report) = Gate::open(on_folder(dir.path()), Options::new(ORIGIN)).unwrap();
    assert_eq!(report.snapshot, None);
    let after = gate.fact(&note).unwrap();
    assert_eq!((after.version(), &after.value), (before.version(), &before.value));
    // The key of an erased action is still known: erasing cannot make an action happen twice.
    assert!(matches!(write(&gate, 1, "a second secret"), Answer::Repeated(entry) if entry == second));
}

#[test]
fn replay_under_another_pact_names_the_verdicts_that_would_differ() {
    let dir = tempfile::tempdir().unwrap();
    let gate = set_up(dir.path());
    let short = index(write(&gate, 1, "ok"));
    let long = index(write(&gate, 2, "a text that is longer than eight"));
    gate.close().unwrap();
    let stricter = PACT.replace("maxLength = 200", "maxLength = 8").replace("version = 1", "version = 2");
    let pact = Arc::new(load(&whole(&stricter)).unwrap().pact);
    let pacts = [(pact.name.clone(), pact)].into();
    let report = replay(&RealDisk::open(dir.path()).unwrap(), &log_key(), &pacts, &mut |_| ()).unwrap();
    assert_eq!(report.actions, 2);
    assert_eq!(report.differing.iter().map(|d| d.entry).collect::<Vec<_>>(), [long], "{short}");
    assert_eq!(report.differing[0].replayed.code.as_deref(), Some("invalid_params"));
}
