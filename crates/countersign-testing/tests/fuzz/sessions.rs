//! Sessions, claims and groups at random, and what of them an operator may erase: an audit never says of an honest log that it differs,
//! and finds every lie about what is there.

mod history;

use self::history::{Fuzz, Open, agent};
use crate::tamper::folders::{batches, log_key, public, segments};
use crate::tamper::lies::{put, rewrite};
use countersign_core::call::{EffectId, Evidence, FoundCode, Outcome};
use countersign_core::identity::Auth;
use countersign_core::limits::READINGS_MAX;
use countersign_core::record::{Entry, Event, Leaf};
use countersign_core::session::{Held, Place, Reread, SessionName};
use countersign_core::value::Value;
use countersign_engine::audit::{AuditReport, audit};
use countersign_engine::request::{DispatchAsRead, Request, Settlement};
use countersign_engine::storage::disk::Disk;
use countersign_ledger::segment::parse_batch;
use countersign_testing::disk::{Faults, FaultyDisk};
use countersign_testing::gate::operator;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The entry before the next one.
fn latest(fuzz: &Fuzz) -> u64 {
    fuzz.gate().view().position - 1
}

/// One honest session after everything else, of which nothing is erased: opened, read in, gone on in, a write that is refused and told why,
/// and one that is sent. The entries of it.
fn another_session(fuzz: &mut Fuzz) -> [u64; 5] {
    let ann = agent("ann");
    let name = fuzz.gate().open_session(ann.clone(), Auth::None).unwrap();
    let mut session = Open { name, agent: ann.clone() };
    fuzz.stock = [10; 5];
    let place = Place { upstream: "shop".into(), tool: "get_stock".into(), arguments: "{\"item\":0}".into() };
    fuzz.read(&session, place);
    let read = latest(fuzz);
    session.name = fuzz.gate().follow_session(name.id, ann, Auth::None).unwrap();
    let followed = latest(fuzz);
    let mut told = [0; 3];
    for (at, stock) in [(0, 20), (1, 20)] {
        fuzz.stock = [stock; 5];
        fuzz.keys += 1;
        let body = json!({
            "pact": "shop", "action": "burn", "idempotency_key": format!("{:032}", fuzz.keys),
            "params": {"till": "1", "note": "of lot 000010 or lot 000020"}, "session": session.name.to_string(),
        });
        let action = fuzz.gate().admit(session.agent.clone(), Auth::None, body.to_string().into()).unwrap();
        fuzz.call(Request::Act(Box::new(action))).unwrap();
        told[2] = if at == 1 { latest(fuzz) } else { told[2] };
        fuzz.clock.pass(10);
        let id = EffectId(latest(fuzz));
        let held = fuzz.rested_on(id);
        assert_eq!(held.len(), 1);
        let now = fuzz.reading(held[0].reading.place.clone());
        let reread = Reread { told: true, digest: Some(now.digest), ..Reread::none(held[0].fact.clone(), None) };
        let rereads = vec![Reread { told: now.digest != held[0].digest, ..reread }];
        let fresh = if now.digest == held[0].digest { Vec::new() } else { vec![now] };
        fuzz.call(Request::DispatchAsRead(Box::new(DispatchAsRead { effect: id, rereads, fresh }))).unwrap();
        told[at] = latest(fuzz);
    }
    [read, followed, told[0], told[1], told[2]]
}

/// What an audit finds once the holder of the log's key tells one entry otherwise.
fn lied(disk: &FaultyDisk, at: u64, tell: impl Fn(&mut Entry)) -> AuditReport {
    let copy = FaultyDisk::new(7, Faults::default());
    disk.list().unwrap().iter().for_each(|name| copy.tamper(name, disk.contents(name).unwrap()));
    let disk = copy;
    rewrite(&disk, &log_key(1), |index, leaf, salt, payload| {
        if index == at {
            let mut entry = Entry::decode(Leaf::decode(leaf).unwrap(), Some(payload)).unwrap();
            tell(&mut entry);
            put(leaf, salt, payload, &entry);
        }
    });
    anchor(&disk);
    audit(&disk, &public(), &mut |_| ()).unwrap()
}

/// Writes the latest checkpoint into the second file: only what it covers can be erased.
fn anchor(disk: &FaultyDisk) {
    let bytes = disk.contents(segments(disk).last().unwrap()).unwrap();
    let range = batches(&bytes).pop().unwrap();
    let header = parse_batch(&bytes[range.clone()]).unwrap().unwrap().header();
    let note = range.start + usize::try_from(header.note_offset()).unwrap();
    disk.tamper("anchor", bytes[note..note + header.note_len()].to_vec());
}

fn dispatched(entry: &mut Entry) -> &mut Vec<Reread> {
    let index = entry.index;
    let Event::Dispatch(dispatch) = &mut entry.event else { panic!("entry {index} is no dispatch") };
    &mut dispatch.rereads
}

fn check_lies(seed: u64, disk: &FaultyDisk, [read, followed, refused, sent, asked]: [u64; 5]) {
    type Lie = fn(&mut Entry);
    let lies: [(&str, u64, Lie); 6] = [
        ("it read something else", read, |entry| {
            let value = entry.event.writes_mut()[0].value.take().unwrap();
            let content = ("content".into(), Value::String("{\"left\":9}".into()));
            entry.event.writes_mut()[0].value = Some(value.with(vec![content]));
        }),
        ("it was gone on in twice", followed, |entry| {
            let value = entry.event.writes_mut()[0].value.take().unwrap();
            entry.event.writes_mut()[0].value = Some(value.with(vec![("followed".into(), Value::Long(2))]));
        }),
        ("it belongs to another", followed, |entry| {
            let value = entry.event.writes_mut()[0].value.take().unwrap();
            entry.event.writes_mut()[0].value = Some(value.with(vec![("agent".into(), Value::String("bob".into()))]));
        }),
        ("it read the same, and was refused", refused, |entry| dispatched(entry)[0].digest = None),
        ("it was sent, though it was not read again", sent, |entry| dispatched(entry).clear()),
        ("it rested on nothing", asked, |entry| {
            let Event::Action(decided) = &mut entry.event else { panic!("{entry:?}") };
            decided.decision.reads.retain(|read| read.fact.ty().as_str() != "Reading");
        }),
    ];
    for (what, at, lie) in lies {
        let report = lied(disk, at, lie);
        let found = report.differing.first().map(|found| found.entry);
        assert_eq!(found, Some(at), "seed {seed}: {what}: {:?}", report.differing);
    }
}

/// How long it runs: a moment in a plain run, and as long as is asked for in a fuzz.
fn seconds() -> Duration {
    let asked = std::env::var("FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs_f64(asked.unwrap_or(0.0))
}

#[test]
fn no_lawful_erasure_makes_an_audit_of_an_honest_log_differ_nor_hides_a_lie_about_what_is_there() {
    const SEEDS: u64 = 12;
    let from: u64 = std::env::var("FUZZ_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let (began, mut did) = (Instant::now(), BTreeMap::<String, u64>::new());
    for seed in from.. {
        if seed >= from + SEEDS && began.elapsed() >= seconds() {
            break;
        }
        let mut fuzz = Fuzz::new(seed);
        (0..240).for_each(|_| fuzz.step());
        let session = another_session(&mut fuzz);
        let (disk, report, done) = fuzz.audited();
        done.into_iter().for_each(|(what, often)| *did.entry(what).or_default() += often);
        assert_eq!(report.differing, [], "seed {seed}");
        if seed % 8 == 0 {
            check_lies(seed, &disk, session);
        }
    }
    println!("{did:?}");
    for what in [
        "asked",
        "sent",
        "settled",
        "followed",
        "closed",
        "erased",
        "approved",
        "session_not_open",
        "too_many_readings",
        "reading_required",
        "not sent: reading_changed",
        "not sent: reading_unread",
        "not sent: session_not_open",
        "claimed",
        "extended",
        "withdrawn",
        "one: claim_lost",
        "one: fact_claimed",
        "group: committed",
        "group: fact_claimed",
        "group: budget_exceeded",
        "group: precondition_failed",
    ] {
        assert!(did.contains_key(what), "{what} is never done: {did:?}");
    }
}

/// The same session each time; one entry of it is erased once it is closed.
struct Story {
    fuzz: Fuzz,
    first: u64,
}

impl Story {
    fn told(tell: impl FnOnce(&mut Fuzz, &Open) -> SessionName) -> Self {
        let mut fuzz = Fuzz::new(1);
        let ann = agent("ann");
        let name = fuzz.gate().open_session(ann.clone(), Auth::None).unwrap();
        let first = latest(&fuzz);
        let name = tell(&mut fuzz, &Open { name, agent: ann.clone() });
        fuzz.gate().close_session(name, ann).unwrap();
        Self { fuzz, first }
    }
}

fn act(fuzz: &mut Fuzz, session: &Open, action: &str) {
    fuzz.keys += 1;
    let body = json!({
        "pact": "shop", "action": action, "idempotency_key": format!("{:032}", fuzz.keys),
        "params": {"till": "1", "note": "nothing"}, "session": session.name.to_string(),
    });
    let action = fuzz.gate().admit(session.agent.clone(), Auth::None, body.to_string().into()).unwrap();
    fuzz.call(Request::Act(Box::new(action))).unwrap();
    let id = EffectId(latest(fuzz));
    fuzz.clock.pass(10);
    let held = fuzz.rested_on(id);
    let reread = |held: &Held| Reread { digest: Some(held.digest), ..Reread::none(held.fact.clone(), None) };
    let rereads = held.iter().map(reread).collect();
    drop(fuzz.call(Request::DispatchAsRead(Box::new(DispatchAsRead { effect: id, rereads, fresh: Vec::new() }))));
    let evidence = Evidence::of(FoundCode::Resolved.said("answered"));
    let outcome = Outcome::Settled;
    let settlement = Settlement {
        effect: id,
        outcome,
        evidence,
        judged: None,
        is_stopped: false,
        found: Default::default(),
        beside: Vec::new(),
    };
    drop(fuzz.call(Request::SettleAsRead { settlement: Box::new(settlement), fresh: Vec::new() }));
}

fn stock(item: u64) -> Place {
    Place { upstream: "shop".into(), tool: "get_stock".into(), arguments: format!("{{\"item\":{item}}}").into() }
}

#[test]
fn a_session_of_which_any_one_entry_is_erased_is_unverifiable_and_does_not_differ() {
    type Tell = fn(&mut Fuzz, &Open) -> SessionName;
    let followed: Tell = |fuzz, session| {
        fuzz.read(session, stock(0));
        let follow = |fuzz: &Fuzz| fuzz.gate().follow_session(session.name.id, session.agent.clone(), Auth::None);
        follow(fuzz).unwrap();
        let name = follow(fuzz).unwrap();
        fuzz.read(&Open { name, ..session.clone() }, stock(1));
        name
    };
    let resting_on_nothing: Tell = |fuzz, session| {
        act(fuzz, session, "sell");
        session.name
    };
    let carrying_nothing: Tell = |fuzz, session| {
        (0..3).for_each(|item| fuzz.read(session, stock(item)));
        act(fuzz, session, "burn");
        session.name
    };
    let beyond: Tell = |fuzz, session| {
        for number in 0..READINGS_MAX + 2 {
            let arguments = format!("{{\"z\":{number}}}").into();
            fuzz.read(session, Place { upstream: "shop".into(), tool: "list".into(), arguments });
        }
        act(fuzz, session, "sell");
        session.name
    };
    for (what, tell, at_most) in [
        ("gone on in", followed, 9),
        ("resting on nothing", resting_on_nothing, 9),
        ("carrying nothing", carrying_nothing, 9),
        ("read beyond what is kept", beyond, 204),
    ] {
        let mut is_any_erased = false;
        for at in (0..at_most).filter(|at| *at < 9 || at % 50 > 47 || *at > 199) {
            let story = Story::told(tell);
            let entry = story.first + at;
            let position = story.fuzz.gate().view().position;
            let is_erased =
                entry < position && story.fuzz.gate().erase(operator(), Auth::None, &[entry], "asked".into()).is_ok();
            is_any_erased |= is_erased;
            let (_, report, _) = story.fuzz.audited();
            assert_eq!(report.differing, [], "{what}: entry {entry} is erased");
            assert_eq!(report.unverifiable.is_empty(), !is_erased, "{what}: entry {entry}");
            assert!(report.unverifiable.iter().all(|it| it.depends_on == entry), "{what}: {:?}", report.unverifiable);
        }
        assert!(is_any_erased, "{what}: nothing may be erased");
    }
}
