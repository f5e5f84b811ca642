//! A stage that panics: the gate says that it is not ready, refuses everything, and opens again with what it acknowledged.

use countersign_core::denial::{DenialCode, Denied};
use countersign_core::ids::AgentId;
use countersign_engine::clock::{Clock, SystemClock};
use countersign_engine::gate::{Gate, Options};
use countersign_engine::request::{Answer, Refusal, Request};
use countersign_testing::gate::{ORIGIN, feed, on_folder_by, open, publish};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PACT: &str = r#"
pact = "notes"
version = 1

[facts.Note]
attributes = { text = "String" }

[action.write]
resource = 'Note::"{note}"'
allow = 'true'
set = { text = "context.text" }

[action.write.params]
type = "object"
additionalProperties = false
required = ["note", "text"]
properties.note = { type = "string", maxLength = 8 }
properties.text = { type = "string", maxLength = 80 }

[[action.write.require]]
id = "there"
that = 'resource.text != ""'
"#;

/// The machine's clock, until it is asked by the thread of this name once it is armed.
struct Fragile {
    system: SystemClock,
    thread: &'static str,
    is_armed: AtomicBool,
}

impl Fragile {
    fn new(thread: &'static str) -> Arc<Self> {
        Arc::new(Self { system: SystemClock::default(), thread, is_armed: AtomicBool::new(false) })
    }

    fn arm(&self) {
        self.is_armed.store(true, Ordering::SeqCst);
    }

    fn ask(&self) {
        let is_here = std::thread::current().name() == Some(self.thread);
        assert!(!(is_here && self.is_armed.swap(false, Ordering::SeqCst)), "for the test");
    }
}

impl Clock for Fragile {
    fn wall_ms(&self) -> u64 {
        self.ask();
        self.system.wall_ms()
    }
    fn monotonic_ms(&self) -> u64 {
        self.ask();
        self.system.monotonic_ms()
    }
}

fn gate(dir: &Path, clock: &Arc<Fragile>) -> Gate {
    let gate = Gate::open(on_folder_by(dir, Arc::clone(clock) as _), Options::new(ORIGIN)).unwrap().0;
    gate.call(publish(PACT)).unwrap();
    note(&gate, "kept").unwrap();
    gate
}

fn note(gate: &Gate, text: &str) -> Result<Answer, Refusal> {
    gate.call(feed("Note::\"1\"", &format!(r#"{{"text":"{text}"}}"#)))
}

/// Waits until the gate is red because of this thread; then it refuses, and after a restart it has what it acknowledged.
fn is_red(dir: &Path, gate: Gate, thread: &str) {
    let began = Instant::now();
    while gate.not_ready().is_none() {
        assert!(began.elapsed() < Duration::from_secs(20), "a gate whose `{thread}` died says that it is ready");
        std::thread::yield_now();
    }
    let why = gate.not_ready().unwrap().reason;
    assert!(why.contains(&format!("`{thread}` panicked")), "{why}");
    assert!(matches!(note(&gate, "late"), Err(Refusal::Poisoned(_))), "it decides without its `{thread}`");
    drop(gate);
    let text =
        open(dir).fact(&"Note::\"1\"".parse().unwrap()).unwrap().value.as_ref().unwrap().to_json()["text"].clone();
    assert_eq!(text, "kept", "what was never acknowledged as durable, or nothing of what was");
}

#[test]
fn a_caller_that_panics_while_it_does_the_stages_itself_turns_the_gate_red() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Fragile::new("lone caller"));
    let gate = gate(dir.path(), &clock);
    clock.arm();
    let died = std::thread::scope(|scope| {
        let caller = std::thread::Builder::new().name("lone caller".into());
        caller.spawn_scoped(scope, || drop(note(&gate, "lost"))).unwrap().join().is_err()
    });
    assert!(died, "the request was not done on its caller's thread");
    is_red(dir.path(), gate, "caller");
}

#[test]
fn a_sequencer_that_panics_turns_the_gate_red() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Fragile::new("sequence"));
    let gate = gate(dir.path(), &clock);
    clock.arm();
    gate.submit(feed("Note::\"1\"", r#"{"text":"lost"}"#), Box::new(|_| ())).unwrap();
    is_red(dir.path(), gate, "sequence");
}

#[test]
fn an_encoder_that_panics_turns_the_gate_red() {
    // What no entry can hold fails where it is encoded, and so the request is refused there. Which thread that is depends on what else
    // there is to do: until one is handed over.
    for _ in 0..50 {
        let (dir, clock) = (tempfile::tempdir().unwrap(), Fragile::new("no one"));
        let gate = gate(dir.path(), &clock);
        let busy =
            || (0..64).for_each(|_| drop(gate.submit(feed("Note::\"1\"", r#"{"text":"kept"}"#), Box::new(|_| ()))));
        busy();
        let reply = |_| assert!(std::thread::current().name() != Some("encode"), "for the test");
        gate.submit(Request::Denials(vec![too_long()]), Box::new(reply)).unwrap();
        busy();
        let began = Instant::now();
        while gate.not_ready().is_none() {
            assert!(began.elapsed() < Duration::from_secs(20), "a gate that could not encode says that it is ready");
            std::thread::yield_now();
        }
        if gate.not_ready().unwrap().reason.contains("panicked") {
            return is_red(dir.path(), gate, "encode");
        }
    }
    panic!("nothing was ever handed over");
}

/// More than a payload may hold.
fn too_long() -> Denied {
    Denied {
        agent: Some(AgentId::new("clerk-1").unwrap()),
        code: DenialCode::NotAllowed,
        count: 1,
        first_ms: 0,
        last_ms: 0,
        sample: "x".repeat(17 << 20),
    }
}

#[test]
fn a_commit_stage_that_panics_turns_the_gate_red() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Fragile::new("no one"));
    let gate = gate(dir.path(), &clock);
    let began = Instant::now();
    // Which thread makes a batch durable depends on what else there is to do: until one is handed over.
    while gate.not_ready().is_none() {
        assert!(began.elapsed() < Duration::from_secs(20), "no batch was handed over, or its panic was not noticed");
        let reply = |_| assert!(std::thread::current().name() != Some("commit"), "for the test");
        // A full queue, and a gate that has failed meanwhile, are no failures of the test.
        drop(gate.submit(feed("Note::\"1\"", r#"{"text":"kept"}"#), Box::new(reply)));
    }
    is_red(dir.path(), gate, "commit");
}
