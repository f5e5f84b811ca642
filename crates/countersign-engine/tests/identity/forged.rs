//! Someone who holds the log's key adds entries that no gate would make. Every signature of the log is good, so `verify` may pass them;
//! an audit, or whoever opens the folder, must not.

use crate::identity::world::*;
use countersign_core::decide::decide;
use countersign_core::decision::{ReadVersion, Verdict};
use countersign_core::erase::Forgotten;
use countersign_core::identity::{Auth, first_operator};
use countersign_core::ids::{AgentId, FactId};
use countersign_core::pact::load::load;
use countersign_core::reason::Reason;
use countersign_core::record::{Context, Decided, Entry, Event, Given};
use countersign_core::state::State;
use countersign_core::value::Attributes;
use countersign_engine::audit::{AuditReport, Unknown, audit};
use countersign_engine::fold::walk_options;
use countersign_engine::gate::{Gate, Options, Parts};
use countersign_engine::request::{Answer, Request};
use countersign_engine::sequence::{Batch, Joint, Sequenced};
use countersign_engine::storage::disk::RealDisk;
use countersign_engine::storage::walk;
use countersign_ledger::checkpoint::LogKey;
use countersign_ledger::segment::SALT_LEN;
use countersign_ledger::tree::Frontier;
use countersign_testing::folder::verify;
use countersign_testing::gate::on_folder_by;
use serde_json::json;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ACCOUNT: &str = "Account::\"42\"";

/// A world, its folder and the log's public key.
struct Forger {
    dir: tempfile::TempDir,
    world: Option<World>,
    clock: Arc<Hands>,
    log_key: LogKey,
}

impl Forger {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let world = World::open(dir.path());
        world.furnish();
        let (clock, log_key) = (Arc::clone(&world.clock), world.gate.log_key());
        Self { dir, world: Some(world), clock, log_key }
    }

    fn world(&self) -> &World {
        self.world.as_ref().unwrap()
    }

    fn feed(&self, fact: &str, value: Option<serde_json::Value>) -> u64 {
        entered(self.world().feed(fact, value).unwrap())
    }

    fn account(&self, balance: i64) -> u64 {
        self.feed(ACCOUNT, Some(json!({"status": "active", "balance": balance})))
    }

    /// An erasure as the admin asks for it.
    fn erase(&self, entries: &[u64]) -> u64 {
        let body = json!({"entries": entries, "reason": "asked for"}).to_string();
        let auth = self.auth("/v1/ledger/erasures", &body);
        self.world().gate.erase(AgentId::first_admin(), auth, entries, "asked for".into()).unwrap()
    }

    /// The admin's signature for a request.
    fn auth(&self, path: &str, body: &str) -> Auth {
        self.world().auth_to("POST", path, &admin_key(), body)
    }

    fn close(&mut self) {
        self.world.take().unwrap().gate.close().unwrap();
    }

    /// Adds entries with the log's key, past everything that a gate asks. Each is made of the state in front of the first, which counts
    /// on by one.
    fn add(&mut self, make: impl FnOnce(&State, u64) -> Vec<(AgentId, Auth, Event)>) -> u64 {
        if self.world.is_some() {
            self.close();
        }
        let environment = on_folder_by(self.dir.path(), Arc::<Hands>::clone(&self.clock));
        let mut parts = Parts::open(environment, Options::new(ORIGIN)).unwrap();
        let time_ms = parts.sequencer.time_ms(&*self.clock);
        let first = parts.sequencer.state().next_entry;
        let entries = make(parts.sequencer.state(), time_ms);
        let mut batch = Batch::default();
        for (at, (by, auth, event)) in entries.into_iter().enumerate() {
            let index = first + at as u64;
            let entry = Entry { index, time_ms, by, auth, context: Context::default(), event };
            batch.entries.push(Sequenced { entry: Arc::new(entry), joint: Joint::Alone, reply: None });
        }
        parts.committer.commit(batch).unwrap();
        parts.committer.close().unwrap();
        first
    }

    fn disk(&self) -> RealDisk {
        RealDisk::open(self.dir.path()).unwrap()
    }

    fn audit(&self) -> AuditReport {
        audit(&self.disk(), &self.log_key, &mut |_| ()).unwrap()
    }

    /// What an audit says of an entry, which must be the only one that differs.
    fn found(&self, entry: u64) -> String {
        let report = self.audit();
        let [differing] = report.differing.as_slice() else { panic!("{report:?}") };
        assert_eq!(differing.entry, entry, "{report:?}");
        differing.what.clone()
    }
}

fn entered(answer: Answer) -> u64 {
    let Answer::Entered(entered) = answer else { panic!("{answer:?}") };
    entered.entry.index
}

fn erasure(entries: &[u64], forgotten: Vec<Forgotten>) -> Event {
    Event::Erasure { entries: entries.to_vec(), forgotten, reason: "asked for".into() }
}

fn attributes(value: &serde_json::Value) -> Attributes {
    Attributes::from_untyped_json(value.as_object().unwrap()).unwrap()
}

/// Where salt and payload of an entry lie.
fn content_of(dir: &Path, key: &LogKey, entry: u64) -> (PathBuf, Range<usize>) {
    let mut found = None;
    walk(&RealDisk::open(dir).unwrap(), walk_options(key), Frontier::new(), &mut |placed| {
        for frame in placed.batch.frames().filter(|frame| frame.index == entry) {
            let start = usize::try_from(placed.offset).unwrap() + frame.salt_offset;
            found = Some((dir.join(placed.segment), start..start + SALT_LEN + frame.payload.len()));
        }
        Ok(())
    })
    .unwrap();
    found.unwrap()
}

#[test]
fn attack_the_first_admin_is_erased_and_another_is_named() {
    let mut forger = Forger::new();
    forger.close();
    let (file, content) = content_of(forger.dir.path(), &forger.log_key, 1);
    let before = std::fs::read(&file).unwrap()[content.clone()].to_vec();
    let erased = forger.add(|state, _| {
        let (fact, value) = first_operator(&name_of(&key(66)));
        let write = state.feed(&fact, Some(value));
        let thief = AgentId::new("thief").unwrap();
        vec![
            (thief.clone(), Auth::None, erasure(&[1], Vec::new())),
            (thief, Auth::None, Event::Feed { write, held: None }),
        ]
    });
    // It is gone from the disk, and nothing takes the log any more: neither the gate nor a verifier nor an auditor.
    let opened = Gate::open(on_folder_by(forger.dir.path(), forger.clock.clone()), Options::new(ORIGIN)).err();
    let opened = opened.expect("the log was opened without its admin").to_string();
    assert!(opened.contains("payload of entry 1 ") && opened.contains("who an operator was"), "{opened}");
    assert!(verify(&forger.disk(), &forger.log_key, &[]).is_err());
    assert!(audit(&forger.disk(), &forger.log_key, &mut |_| ()).is_err());
    // Nor does the forged erasure pass where its payload was put back, nor what follows it.
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[content].copy_from_slice(&before);
    std::fs::write(&file, bytes).unwrap();
    let differing: Vec<_> = forger.audit().differing.into_iter().map(|it| (it.entry, it.what)).collect();
    assert_eq!(differing.iter().map(|(entry, _)| *entry).collect::<Vec<_>>(), [erased, erased + 1], "{differing:?}");
    assert!(differing[0].1.contains("entry 1 is never erased"), "{differing:?}");
}

/// Without an operator, anyone may ask for an erasure; the log says from its first entry on that this one has operators.
#[test]
fn attack_a_log_that_began_identified_is_continued_as_an_open_one() {
    let mut forger = Forger::new();
    let forged = forger.add(|_, _| {
        let scope = "all".parse().unwrap();
        vec![(AgentId::new("thief").unwrap(), Auth::None, Event::Halt { scope, reason: "why".into() })]
    });
    assert!(forger.found(forged).contains("not signed"));
    let entry = World { gate: open(forger.dir.path(), &forger.clock), clock: forger.clock.clone() }.gate.read_log(0);
    let shown: serde_json::Value = serde_json::from_str(&entry.unwrap().show().unwrap().leaf).unwrap();
    assert_eq!(shown["identity"], "operator");
}

#[test]
fn attack_an_erasure_takes_what_is_in_force() {
    type Make = fn(&Forger) -> (Vec<u64>, Vec<Forgotten>, &'static str);
    let attacks: [Make; 5] = [
        // The current value of a fact.
        |forger| (vec![forger.account(1)], Vec::new(), "held the current version"),
        // The same with every version before, said to be the deletion of a fact that is forgotten.
        |forger| {
            let current = forger.account(1);
            let fact = forger.world().gate.fact(&ACCOUNT.parse().unwrap()).unwrap();
            let forgotten = Forgotten { tag: fact.tag, version: fact.version() };
            (vec![current - 1, current], vec![forgotten], "held the current version")
        },
        // A deletion, forgotten with another version than it has: new facts would begin below.
        |forger| {
            let deletion = forger.feed(ACCOUNT, None);
            let tag = forger.world().gate.fact(&ACCOUNT.parse().unwrap()).unwrap().tag;
            (vec![deletion - 1, deletion], vec![Forgotten { tag, version: 1 }], "deletion it does not erase")
        },
        // A deletion, without the fact being forgotten: the version before would come back.
        |forger| (vec![forger.feed(ACCOUNT, None)], Vec::new(), "held the current version"),
        // A deletion, while an earlier version is kept.
        |forger| {
            let deletion = forger.feed(ACCOUNT, None);
            let fact = forger.world().gate.fact(&ACCOUNT.parse().unwrap()).unwrap();
            let forgotten = Forgotten { tag: fact.tag, version: fact.version() };
            (vec![deletion], vec![forgotten], "still holds a version")
        },
    ];
    for (at, make) in attacks.into_iter().enumerate() {
        let mut forger = Forger::new();
        let (entries, forgotten, why) = make(&forger);
        // The admin did ask for it: only what was in force makes it wrong.
        let body = json!({"entries": entries, "reason": "asked for"}).to_string();
        let auth = forger.auth("/v1/ledger/erasures", &body);
        let forged = forger.add(|_, _| vec![(AgentId::first_admin(), auth, erasure(&entries, forgotten))]);
        let what = forger.found(forged);
        assert!(what.contains(why), "{at}: {what}");
    }
}

#[test]
fn attack_a_signed_request_is_recorded_with_another_meaning() {
    let mut forger = Forger::new();
    let first = forger.account(1);
    let second = forger.account(2);
    forger.account(3);
    let dry_run = json!({"entries": [first], "reason": "asked for", "dry_run": true}).to_string();
    let only_first = json!({"entries": [first], "reason": "asked for"}).to_string();
    let both = json!({"entries": [first, second], "reason": "asked for"}).to_string();
    let halt = json!({"scope": "agent:refund-1", "reason": "why"}).to_string();
    let balance = json!({"value": {"status": "active", "balance": 4}}).to_string();
    let requests = [
        (forger.auth("/v1/ledger/erasures", &dry_run), erasure(&[first], Vec::new()), "dry run"),
        (forger.auth("/v1/ledger/erasures", &only_first), erasure(&[first, second], Vec::new()), "other entries"),
        (forger.auth("/v1/ledger/erasures", &both), erasure(&[first], Vec::new()), "other entries"),
        (
            forger.auth("/v1/halts", &halt),
            Event::Halt { scope: "all".parse().unwrap(), reason: "why".into() },
            "another `scope`",
        ),
    ];
    let feed = forger.world().auth_to("PUT", "/v1/facts/Account/42", &admin_key(), &balance);
    forger.close();
    let admin = AgentId::first_admin;
    for (auth, event, why) in requests {
        // Each in a copy of the folder: a wrong entry may make others wrong.
        let mut copy = copy_of(&forger);
        let forged = copy.add(|_, _| vec![(admin(), auth, event)]);
        let what = copy.found(forged);
        assert!(what.contains(why), "{what}");
    }
    let forged = forger.add(|state, _| {
        let value = attributes(&json!({"status": "active", "balance": 5}));
        let write = state.feed(&ACCOUNT.parse().unwrap(), Some(value));
        vec![(admin(), feed, Event::Feed { write, held: None })]
    });
    let what = forger.found(forged);
    assert!(what.contains("another value"), "{what}");
}

fn copy_of(forger: &Forger) -> Forger {
    let dir = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(forger.dir.path()).unwrap().map(Result::unwrap) {
        std::fs::copy(file.path(), dir.path().join(file.file_name())).unwrap();
    }
    Forger { dir, world: None, clock: Arc::clone(&forger.clock), log_key: forger.log_key.clone() }
}

/// A feed of the account as it was signed, told again on the state at its place.
fn feed_again(auth: &Auth, balance: i64) -> impl FnOnce(&State, u64) -> Vec<(AgentId, Auth, Event)> {
    let auth = auth.clone();
    move |state, _| {
        let value = attributes(&json!({"status": "active", "balance": balance}));
        let write = state.feed(&ACCOUNT.parse().unwrap(), Some(value));
        vec![(AgentId::first_admin(), auth, Event::Feed { write, held: None })]
    }
}

#[test]
fn attack_the_request_of_an_erased_entry_is_recorded_again() {
    let mut forger = Forger::new();
    let first = forger.account(7);
    let auth = forger.world().gate.read_log(first).unwrap().decode().unwrap().auth;
    forger.account(8);
    forger.erase(&[first]);
    // At once: the signature itself is fresh.
    let forged = forger.add(feed_again(&auth, 7));
    let what = forger.found(forged);
    assert!(what.contains(&format!("is that of entry {first}")), "{what}");
}

#[test]
fn attack_a_request_is_recorded_long_after_it_was_signed() {
    for (passed_ms, is_found) in [(0, false), (60_000, false), (3_600_000, true)] {
        let mut forger = Forger::new();
        let body = json!({"value": {"status": "active", "balance": 7}}).to_string();
        // It was signed, and never became an entry.
        let auth = forger.world().auth_to("PUT", "/v1/facts/Account/42", &admin_key(), &body);
        forger.clock.pass(passed_ms);
        let forged = forger.add(feed_again(&auth, 7));
        let found: Vec<u64> = forger.audit().differing.iter().map(|it| it.entry).collect();
        assert_eq!(found, if is_found { vec![forged] } else { vec![] }, "after {passed_ms} ms");
    }
}

#[test]
fn attack_an_erased_payload_is_put_back_below_a_snapshot() {
    let mut forger = Forger::new();
    let secret = forger.account(424_242);
    forger.account(1);
    forger.close();
    let (file, content) = content_of(forger.dir.path(), &forger.log_key, secret);
    let before = std::fs::read(&file).unwrap()[content.clone()].to_vec();
    forger.world = Some(World { gate: open(forger.dir.path(), &forger.clock), clock: Arc::clone(&forger.clock) });
    let erasure = forger.erase(&[secret]);
    forger.close();
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[content].copy_from_slice(&before);
    std::fs::write(&file, bytes).unwrap();
    // The log holds, and what was put back is named.
    let end = walk(&forger.disk(), walk_options(&forger.log_key), Frontier::new(), &mut |_| Ok(())).unwrap();
    assert_eq!(end.put_back, [(secret, erasure)]);
    assert_eq!(forger.audit().put_back, [(secret, erasure)]);
    // Opened from the snapshot that the erasure took, the gate shows nothing of it, by whichever way.
    let environment = on_folder_by(forger.dir.path(), Arc::<Hands>::clone(&forger.clock));
    let (gate, report) = Gate::open(environment, Options::new(ORIGIN)).unwrap();
    assert!(report.snapshot.is_some_and(|snapshot| snapshot > erasure), "{report:?}");
    assert_eq!(gate.read_log(secret).unwrap().payload, None);
    let range = gate.read_log_range(secret, 1).unwrap();
    assert_eq!(range[0].payload, None);
    let mut follow = gate.follow(secret).unwrap();
    let (_, followed) = follow.next_entry().unwrap().unwrap();
    assert!(matches!(followed.event, Event::Erased(_)), "{followed:?}");
    gate.close().unwrap();
}

#[test]
fn attack_an_entry_is_given_a_context_that_no_gate_writes() {
    let mut forger = Forger::new();
    let auth = forger.auth("/v1/halts", &json!({"scope": "all", "reason": "why"}).to_string());
    forger.close();
    let environment = on_folder_by(forger.dir.path(), Arc::<Hands>::clone(&forger.clock));
    let mut parts = Parts::open(environment, Options::new(ORIGIN)).unwrap();
    let (index, time_ms) = (parts.sequencer.state().next_entry, parts.sequencer.time_ms(&*forger.clock));
    let context = Context::new(Given { labels: vec!["trusted".into()], ..Given::default() }).unwrap();
    let event = Event::Halt { scope: "all".parse().unwrap(), reason: "why".into() };
    let entry = Entry { index, time_ms, by: AgentId::first_admin(), auth, context, event };
    let mut batch = Batch::default();
    batch.entries.push(Sequenced { entry: Arc::new(entry), joint: Joint::Alone, reply: None });
    parts.committer.commit(batch).unwrap();
    parts.committer.close().unwrap();
    assert!(forger.found(index).contains("no gate writes"));
}

/// A refund by an agent, decided on a state and then told as `tell` has it.
fn told<F: FnOnce(&mut Decided)>(
    forger: &Forger,
    agent: &str,
    signer: u8,
    tell: F,
) -> impl FnOnce(&State, u64) -> Vec<(AgentId, Auth, Event)> + use<F> {
    let (body, world) = (refund(), forger.world());
    let auth = world.auth(&key(signer), &body);
    // At the door, an agent without a right is refused.
    let mut action = world.gate.admit(id("refund-1"), auth, body.into()).unwrap();
    action.agent = id(agent);
    move |state, time_ms| {
        let decision = decide(&action, state, time_ms);
        let (by, auth) = (action.agent.clone(), action.auth.clone());
        let mut decided = Decided { action: Box::new(action), decision };
        tell(&mut decided);
        vec![(by, auth, Event::Action(Box::new(decided)))]
    }
}

#[test]
fn attack_an_erased_version_excuses_a_missing_role() {
    let mut forger = Forger::new();
    let mut rightless = agent(&key(5));
    rightless["roles"] = json!([]);
    forger.feed("Agent::\"helper\"", Some(rightless));
    let gone = forger.account(7);
    let fact = forger.world().gate.fact(&ACCOUNT.parse().unwrap()).unwrap();
    // What is said to be read is the version that will be erased: no one can say then what the account held.
    let forged = told(&forger, "helper", 5, |decided| {
        assert!(matches!(decided.decision.verdict, Verdict::Rejected(Reason::NotAllowed { .. })), "{decided:?}");
        let read = ReadVersion { fact: fact.id.clone(), version: fact.version(), tag: Some(fact.tag) };
        decided.decision.reads.push(read);
        decided.decision.verdict = Verdict::Committed;
    });
    let forged = forger.add(forged);
    forger.world = Some(World { gate: open(forger.dir.path(), &forger.clock), clock: Arc::clone(&forger.clock) });
    // A gate that was just opened does not know which nonces it has seen.
    forger.clock.pass(10_000);
    forger.account(8);
    forger.erase(&[gone]);
    forger.close();
    forger.found(forged);
}

#[test]
fn attack_the_tag_of_a_forgotten_fact_excuses_a_lie() {
    let mut forger = Forger::new();
    let other: FactId = "Account::\"43\"".parse().unwrap();
    let made = forger.feed("Account::\"43\"", Some(json!({"status": "active", "balance": 1})));
    let deleted = forger.feed("Account::\"43\"", None);
    let tag = forger.world().gate.fact(&other).unwrap().tag;
    forger.erase(&[made, deleted]);
    // A refund that is rejected is told as one that committed, and as one that read the forgotten fact.
    forger.feed(ACCOUNT, Some(json!({"status": "frozen", "balance": 5})));
    let forged = told(&forger, "refund-1", 1, move |decided| {
        assert!(matches!(decided.decision.verdict, Verdict::Rejected(Reason::PreconditionFailed { .. })));
        decided.decision.reads.push(ReadVersion { fact: other, version: 2, tag: Some(tag) });
        decided.decision.verdict = Verdict::Committed;
    });
    let forged = forger.add(forged);
    forger.found(forged);
}

/// A charge that is erased can explain what was rejected in its window, and nothing after that.
#[test]
fn attack_an_erased_charge_excuses_whatever_names_a_budget() {
    let mut forger = Forger::new();
    let budget = "budget = { count = true, max = 1, per = \"1m\", by = \"agent\" }\n\n[action.refund.params]";
    let source = PACT.replace("version = 1", "version = 2").replace("[action.refund.params]", budget);
    let (pact, auth) = (Arc::new(load(&source).unwrap().pact), forger.auth("/v1/pacts", &source));
    forger.world().gate.call(Request::Publish { by: AgentId::first_admin(), auth, pact }).unwrap();
    assert_eq!(forger.world().act("refund-1", &key(1)), "committed");
    // What the account held is known again before the next refund, so that only the charge is not.
    let charge = forger.account(1) - 1;
    assert_eq!(forger.world().act("refund-1", &key(1)), "budget_exceeded");
    let rejected = charge + 2;
    forger.clock.pass(120_000);
    forger.erase(&[charge]);
    let said = forger.world().gate.read_log(rejected).unwrap().decode().unwrap();
    let forged = told(&forger, "refund-1", 1, move |decided| {
        assert!(matches!(decided.decision.verdict, Verdict::Committed), "{decided:?}");
        decided.decision.verdict = said.event.decision().unwrap().verdict.clone();
        (decided.decision.writes, decided.decision.charges) = (Vec::new(), Vec::new());
    });
    let forged = forger.add(forged);
    forger.found(forged);
    let unverifiable: Vec<_> = forger.audit().unverifiable.into_iter().map(|it| (it.entry, it.unknown)).collect();
    assert_eq!(unverifiable, [(charge, Unknown::Payload), (rejected, Unknown::Charges)]);
}

/// Not a lie: what is decided while a version is gone cannot be judged, and is not called wrong.
#[test]
fn what_rests_on_an_erased_version_is_still_unverifiable_and_not_wrong() {
    let mut forger = Forger::new();
    let frozen = forger.feed(ACCOUNT, Some(json!({"status": "frozen", "balance": 5})));
    assert_eq!(forger.world().act("refund-1", &key(1)), "precondition_failed");
    let rejected = forger.world().gate.view().position - 1;
    forger.account(9);
    assert_eq!(forger.world().act("refund-1", &key(1)), "committed");
    forger.erase(&[frozen]);
    forger.close();
    let report = forger.audit();
    assert_eq!(report.differing, [], "{report:?}");
    let unverifiable: Vec<u64> = report.unverifiable.iter().map(|it| it.entry).collect();
    assert_eq!(unverifiable, [frozen, rejected], "{report:?}");
}
