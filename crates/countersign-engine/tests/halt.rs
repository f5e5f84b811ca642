//! Halting under load, on a real disk: when a halt was acknowledged, nothing of its scope has a higher index, however many
//! callers there are and however full the queue is.

use countersign_core::call::EffectId;
use countersign_core::code::Code;
use countersign_core::decision::Verdict;
use countersign_core::halt::{HaltError, Scope};
use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_core::pact::load::load;
use countersign_core::record::Event;
use countersign_core::value::Attributes;
use countersign_engine::audit::audit;
use countersign_engine::clock::{Clock, SystemClock};
use countersign_engine::gate::{Gate, Options};
use countersign_engine::request::{Answer, Refusal, Request};
use countersign_engine::storage::disk::RealDisk;
use countersign_testing::gate::on_folder_by;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const PACT: &str = r#"
pact = "tally"
version = 1

[facts.Counter]
attributes = { count = "Long" }

[action.bump]
resource = 'Counter::"{counter}"'
allow = 'principal.standing == "active"'
set = { count = "resource.count + 1" }

[action.bump.params]
type = "object"
additionalProperties = false
required = ["counter"]
properties.counter = { type = "string", maxLength = 64 }

[[action.bump.require]]
id = "not-full"
that = 'resource.count < 9000000'

[action.watch]
mode = "shadow"
resource = 'Counter::"{counter}"'
allow = 'principal.roles.contains("nobody")'
set = { count = "resource.count + 1" }

[action.watch.params]
type = "object"
additionalProperties = false
required = ["counter"]
properties.counter = { type = "string", maxLength = 64 }

[[action.watch.require]]
id = "not-full"
that = 'resource.count < 9000000'
"#;

const CALLERS: usize = 16;

fn open(dir: &Path, queue_len: usize) -> Gate {
    open_on(dir, queue_len, Arc::new(SystemClock::default()))
}

fn open_on(dir: &Path, queue_len: usize, clock: Arc<dyn Clock>) -> Gate {
    let environment = on_folder_by(dir, clock);
    Gate::open(environment, Options { queue_len, ..Options::new("test.example/halt") }).unwrap().0
}

fn operator() -> AgentId {
    AgentId::new("operator").unwrap()
}

fn feed(gate: &Gate, id: &str, json: &str) {
    let value = Some(Attributes::from_untyped_json(&serde_json::from_str(json).unwrap()).unwrap());
    let fact = id.parse().unwrap();
    gate.call(Request::Feed { by: operator(), auth: Auth::None, fact, value, if_match: None }).unwrap();
}

/// Half of the agents belong to one org, half to another.
fn set_up(gate: &Gate) {
    let pact = Arc::new(load(PACT).unwrap().pact);
    gate.call(Request::Publish { by: operator(), auth: Auth::None, pact }).unwrap();
    for caller in 0..CALLERS {
        let org = if caller % 2 == 0 { "even" } else { "odd" };
        let agent = format!(r#"{{"roles":[],"standing":"active","org":"{org}","trust":1}}"#);
        feed(gate, &format!("Agent::\"a{caller}\""), &agent);
        feed(gate, &format!("Counter::\"c{caller}\""), r#"{"count":0}"#);
    }
}

fn action(gate: &Gate, caller: usize, key: &str, action: &str) -> Request {
    let body = serde_json::json!({
        "pact": "tally", "action": action, "idempotency_key": format!("{key:0>32}"),
        "params": {"counter": format!("c{caller}")}, "observations": [],
    });
    let agent = AgentId::new(format!("a{caller}")).unwrap();
    Request::Act(Box::new(gate.admit(agent, Auth::None, body.to_string().into()).unwrap()))
}

fn halt(scope: &str) -> Request {
    Request::Halt { by: operator(), auth: Auth::None, scope: scope.parse().unwrap(), reason: "a test".into() }
}

fn resume(scope: &str) -> Request {
    Request::Resume { by: operator(), auth: Auth::None, scope: scope.parse().unwrap(), reason: "a test".into() }
}

fn entry(answer: Result<Answer, Refusal>) -> u64 {
    let Ok(Answer::Entered(entered)) = answer else { panic!("{answer:?}") };
    entered.entry.index
}

fn outcome(answer: Answer) -> (u64, Option<Code>) {
    let Answer::Entered(entered) = answer else { panic!("{answer:?}") };
    let Event::Action(decided) = &entered.entry.event else { panic!("not an action") };
    (entered.entry.index, decided.decision.blocked().map(|blocked| blocked.code()))
}

/// The entries of committed actions, with who acted.
fn committed(gate: &Gate) -> Vec<(u64, String)> {
    let entries = gate.read_log_range(0, u64::MAX).unwrap();
    let leaves =
        entries.iter().map(|entry| serde_json::from_str::<serde_json::Value>(&entry.show().unwrap().leaf).unwrap());
    let committed = leaves.filter(|leaf| leaf["verdict"] == "committed");
    committed.map(|leaf| (leaf["index"].as_u64().unwrap(), leaf["by"].as_str().unwrap().to_owned())).collect()
}

#[test]
fn a_halt_under_load_is_the_last_word() {
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path(), 8192);
    set_up(&gate);
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut spans: Vec<(u64, u64)> = Vec::new();
    let mut took: Vec<Duration> = Vec::new();
    std::thread::scope(|threads| {
        for caller in 0..CALLERS {
            let (gate, stop, sent) = (&gate, &stop, &sent);
            threads.spawn(move || {
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    count += 1;
                    let kind = if count % 8 == 0 { "watch" } else { "bump" };
                    let _ = gate.call(action(gate, caller, &format!("{caller}-{count}"), kind));
                    sent.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..20 {
            let before = sent.load(Ordering::Relaxed);
            while sent.load(Ordering::Relaxed) < before + 100 {
                std::thread::yield_now();
            }
            let started = Instant::now();
            let halted = entry(gate.call(halt("org:even")));
            took.push(started.elapsed());
            let before = sent.load(Ordering::Relaxed);
            while sent.load(Ordering::Relaxed) < before + 100 {
                std::thread::yield_now();
            }
            spans.push((halted, entry(gate.call(resume("org:even")))));
        }
        stop.store(true, Ordering::Relaxed);
    });
    let committed = committed(&gate);
    for (halted, resumed) in &spans {
        let inside = committed.iter().filter(|(index, _)| (halted + 1..*resumed).contains(index));
        let (even, odd): (Vec<_>, Vec<_>) = inside.partition(|(_, by)| by[1..].parse::<usize>().unwrap() % 2 == 0);
        assert!(even.is_empty(), "committed while halted: {even:?}");
        assert!(!odd.is_empty(), "the halt of one org stopped the other");
    }
    took.sort();
    println!(
        "halt under load of {CALLERS} callers: median {:?}, longest {:?}",
        took[took.len() / 2],
        took[took.len() - 1]
    );
    let key = gate.log_key();
    gate.close().unwrap();
    let report = audit(&RealDisk::open(dir.path()).unwrap(), &key, &mut |_| ()).unwrap();
    assert_eq!((report.differing_count, report.verified), (0, report.entries), "{:?}", report.differing.first());
}

#[test]
fn a_halt_gets_in_while_the_queue_is_full() {
    const QUEUE: usize = 64;
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path(), QUEUE);
    set_up(&gate);
    let (answer, answered) = crossbeam_channel::unbounded();
    // Handed in from one thread without waiting, so much faster than a disk syncs: the queue is full again and again.
    let (mut busy, mut taken, mut halted) = (0, 0, None);
    for count in 0..40_000 {
        let request = action(&gate, count % CALLERS, &format!("{count}"), "bump");
        let answer = answer.clone();
        match gate.submit(request, Box::new(move |result| drop(answer.send(result)))) {
            Ok(()) => taken += 1,
            Err(Refusal::Busy(QUEUE)) if halted.is_none() => {
                busy += 1;
                let full = gate.queued();
                let started = Instant::now();
                let index = entry(gate.call(halt("all")));
                println!("halt with {full} of {QUEUE} queued: {:?}", started.elapsed());
                halted = Some(index);
            }
            Err(Refusal::Busy(_)) => busy += 1,
            Err(refusal) => panic!("{refusal}"),
        }
        if halted.is_some() && busy > 1 {
            break;
        }
    }
    let halted = halted.expect("the queue was never full");
    for _ in 0..taken {
        let (index, code) = outcome(answered.recv().unwrap().unwrap());
        assert_eq!(code, (index > halted).then_some(Code::Halted), "entry {index}, halted in {halted}");
    }
}

/// A clock that stands still while it is held: whoever asks it waits, and so does the sequencer.
#[derive(Default)]
struct HeldClock {
    system: SystemClock,
    is_held: Mutex<bool>,
    released: Condvar,
}

impl HeldClock {
    fn hold(&self, is_held: bool) {
        *self.is_held.lock().unwrap() = is_held;
        self.released.notify_all();
    }
}

impl Clock for HeldClock {
    fn wall_ms(&self) -> u64 {
        drop(self.released.wait_while(self.is_held.lock().unwrap(), |is_held| *is_held).unwrap());
        self.system.wall_ms()
    }
    fn monotonic_ms(&self) -> u64 {
        drop(self.released.wait_while(self.is_held.lock().unwrap(), |is_held| *is_held).unwrap());
        self.system.monotonic_ms()
    }
}

#[test]
fn calls_that_are_due_by_the_thousand_do_not_keep_a_halt_or_a_revocation_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(HeldClock::default());
    let gate = open_on(dir.path(), 8192, Arc::clone(&clock) as Arc<dyn Clock>);
    set_up(&gate);
    let (answer, answered) = crossbeam_channel::unbounded();
    let submit = |request| {
        let answer = answer.clone();
        gate.submit(request, Box::new(move |result| drop(answer.send(result))))
    };
    let bumps: Vec<_> = (0..20).map(|count| action(&gate, count % 2, &format!("b{count}"), "bump")).collect();
    clock.hold(true);
    let due = || Request::Dispatch { effect: EffectId(u64::MAX) };
    let mut waiting = 0;
    while submit(due()).is_ok() {
        waiting += 1;
        assert!(waiting < 1_000_000, "there is no end to what may wait");
    }
    assert!(waiting >= 1000, "only {waiting} were due");
    bumps.into_iter().for_each(|bump| submit(bump).unwrap());
    let revoked = r#"{"roles":[],"standing":"revoked","org":"odd","trust":1}"#;
    let value = Some(Attributes::from_untyped_json(&serde_json::from_str(revoked).unwrap()).unwrap());
    let fact = "Agent::\"a1\"".parse().unwrap();
    let halted = submit(halt("agent:a0"));
    let revoked = submit(Request::Feed { by: operator(), auth: Auth::None, fact, value, if_match: None });
    // Before anything can fail: a gate whose clock is held cannot be closed.
    clock.hold(false);
    halted.expect("there is room for a halt");
    revoked.expect("there is room for a revocation");
    let answers: Vec<_> = (0..waiting + 22).map(|_| answered.recv().unwrap()).collect();
    let entered = answers.into_iter().filter_map(Result::ok).map(|answer| match answer {
        Answer::Entered(entered) => Arc::unwrap_or_clone(entered.entry),
        other => panic!("no new entry: {other:?}"),
    });
    let mut codes = Vec::new();
    for entry in entered {
        if let Event::Action(decided) = &entry.event {
            codes.push(decided.decision.blocked().map(|blocked| blocked.code()));
        }
    }
    assert!(codes.len() >= 10, "those of the halted agent are entries");
    // Everything that waited behind the dispatches was decided after the halt and the revocation.
    assert!(codes.iter().all(Option::is_some), "{codes:?}");
}

#[test]
fn a_halt_says_who_what_when_and_why_and_survives_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path(), 64);
    set_up(&gate);
    let halted = entry(gate.call(halt("agent:a0")));
    // From a snapshot and from the log alone, the same is halted.
    gate.snapshot().unwrap();
    entry(gate.call(halt("pact:tally")));
    gate.close().unwrap();
    let gate = open(dir.path(), 64);
    assert_eq!(gate.view().whole_state().halts.len(), 2);
    for (kind, key) in [("bump", "1"), ("watch", "2")] {
        assert_eq!(outcome(gate.call(action(&gate, 1, key, kind)).unwrap()).1, Some(Code::Halted), "{kind}");
    }
    entry(gate.call(resume("pact:tally")));
    assert_eq!(outcome(gate.call(action(&gate, 1, "3", "bump")).unwrap()).1, None);
    let Answer::Entered(entered) = gate.call(action(&gate, 0, "4", "bump")).unwrap() else { panic!() };
    let Event::Action(decided) = &entered.entry.event else { panic!() };
    let Verdict::Rejected(blocked) = &decided.decision.verdict else { panic!("{:?}", decided.decision) };
    assert!(
        blocked.message().contains(&format!("`agent:a0` is halted since entry {halted} at")),
        "{}",
        blocked.message()
    );
    assert!(blocked.message().ends_with("by operator: a test"), "{}", blocked.message());
    let refused = gate.call(resume("all"));
    assert!(matches!(refused, Err(Refusal::Halt(HaltError::NotHalted(Scope::All)))), "{refused:?}");
    entry(gate.call(resume("agent:a0")));
    assert_eq!(outcome(gate.call(action(&gate, 0, "5", "bump")).unwrap()).1, None);
}
