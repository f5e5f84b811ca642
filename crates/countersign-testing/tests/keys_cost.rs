//! What ten million idempotency keys cost: memory, and how long a snapshot keeps the commit loop waiting.
//!
//! The keys are made of numbers and entered as the log would enter them; the facts are fed. What is timed are the locks that the
//! sequencer and the commit stage need, taken over and over on another thread while a snapshot is taken: by trying, and by waiting, to
//! which being woken adds. A thread that loses its core while it holds a lock adds to both, as much as the machine is busy, so the
//! quietest of several rounds is held against the bar: it has what the snapshot itself does. Median and worst are printed, and what
//! the same takes while the other thread is as busy and takes no lock.

use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_core::record::{Context, Done, Entry, Event, Kind, LeafVerdict};
use countersign_core::value::Attributes;
use countersign_engine::gate::{Options, Parts};
use countersign_engine::request::{Request, Submission};
use countersign_engine::sequence::Batch;
use countersign_engine::storage::disk::RealDisk;
use countersign_testing::gate::{ORIGIN, environment, operator, publish};
use countersign_testing::hands::Hands;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PACT: &str = r#"
pact = "notes"
version = 1

[facts.Note]
attributes = { text = "String" }

[action.keep]
resource = 'Note::"{note}"'
allow = 'true'
set = { text = "resource.text" }

[[action.keep.require]]
id = "has-text"
that = 'resource.text != ""'
"#;

const FACTS: u64 = 1_000_000;
const KEYS: u64 = 10_000_000;
const NOW_MS: u64 = 1_800_000_000_000;
const ROUNDS: usize = 11;
const STALL_MAX: Duration = Duration::from_millis(5);
const RESIDENT_MAX: u64 = 64 << 20;

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// An entry as it is read back from the log.
fn entry(number: u64) -> Entry {
    let action = countersign_core::ids::Digest::of(&number.to_le_bytes());
    let (kind, verdict) = (Kind::Action, LeafVerdict::Committed);
    let key = *action.0.last_chunk().unwrap();
    let done = Done { kind, verdict, action, key, writes: Vec::new(), charges: Vec::new(), to: None };
    let (by, auth, context) =
        (AgentId::new(format!("agent-{}", number % 1000)).unwrap(), Auth::None, Context::default());
    Entry { index: number, time_ms: NOW_MS, by, auth, context, event: Event::Done(Box::new(done)) }
}

fn enter(parts: &mut Parts, requests: Vec<Request>) {
    let mut batch = Batch::default();
    parts.sequence(&mut batch, requests.into_iter().map(|request| Submission::new(request, Box::new(|_| ()))));
    parts.committer.commit(batch).unwrap();
}

/// How long the locks of the commit loop, the view's and the window's, took at most while `work` was done on another thread.
fn longest_waits(parts: &Parts, is_blocking: bool, work: impl FnOnce()) -> Waits {
    // A reader of facts holds the sequencer's table for as long as the view, and no longer.
    let (view, keys, is_done) = (parts.view_lock(), parts.keys(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let (mut of_view, mut of_window) = (Duration::ZERO, Duration::ZERO);
            while !is_done.load(Ordering::Acquire) {
                let started = Instant::now();
                if is_blocking {
                    drop(view.write());
                } else {
                    while view.try_write().is_none() {}
                }
                of_view = of_view.max(started.elapsed());
                let started = Instant::now();
                drop(keys.window());
                of_window = of_window.max(started.elapsed());
                (0..2_000).for_each(|_| std::hint::spin_loop());
            }
            (of_view, of_window)
        });
        work();
        is_done.store(true, Ordering::Release);
        let (of_view, of_window) = waits.join().unwrap();
        Waits { of_view, of_window }
    })
}

#[derive(Debug, Clone, Copy)]
struct Waits {
    of_view: Duration,
    of_window: Duration,
}

impl Waits {
    fn longest(&self) -> Duration {
        self.of_view.max(self.of_window)
    }
}

/// The quietest, the median and the worst of some rounds.
fn ranked(mut rounds: Vec<Waits>) -> [Waits; 3] {
    rounds.sort_by_key(Waits::longest);
    [0, rounds.len() / 2, rounds.len() - 1].map(|at| rounds[at])
}

/// As much work as a snapshot of the last time, and no lock: what the machine itself adds to a wait.
fn busy_for(took: Duration) {
    let started = Instant::now();
    while started.elapsed() < took {
        std::hint::black_box(countersign_core::ids::Digest::of(&[7; 4096]));
    }
}

#[test]
#[ignore = "a measurement: run with `cargo test --release --workspace --test all keys_cost -- --ignored --nocapture`"]
fn ten_million_keys_fit_little_memory_and_a_snapshot_stalls_no_one() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(RealDisk::open(folder.path()).unwrap());
    let options = Options { snapshot_every: 0, ..Options::new(ORIGIN) };
    let mut parts = Parts::open(environment(disk, Hands::at(NOW_MS)), options).unwrap();
    enter(&mut parts, vec![publish(PACT)]);
    let before = resident_bytes();
    let (started, mut peak) = (Instant::now(), 0);
    for number in 0..KEYS {
        parts.keys().replay(&entry(1_000_000_000 + number)).unwrap();
        if number % 100_000 == 0 {
            peak = peak.max(resident_bytes());
        }
    }
    let (took, resident) = (started.elapsed(), resident_bytes().saturating_sub(before));
    let (runs, in_runs) = parts.keys().in_runs();
    println!(
        "{KEYS} keys: {:.1} MiB resident (peak {:.1}), {in_runs} of them in {runs} runs, entered and merged in {took:.1?}",
        resident as f64 / (1 << 20) as f64,
        peak.saturating_sub(before) as f64 / (1 << 20) as f64
    );
    look_ups(&parts);
    for first in (0..FACTS).step_by(4096) {
        let feeds = (first..FACTS.min(first + 4096)).map(|number| Request::Feed {
            by: operator(),
            auth: Auth::None,
            fact: format!("Note::\"{number}\"").parse().unwrap(),
            value: Some(Attributes::from_untyped_json(serde_json::json!({"text": "a"}).as_object().unwrap()).unwrap()),
            if_match: None,
        });
        enter(&mut parts, feeds.collect());
    }
    for (how, is_blocking) in [("tried", false), ("waited", true)] {
        let (mut with, mut without, mut took) = (Vec::new(), Vec::new(), Duration::ZERO);
        for _ in 0..ROUNDS {
            with.push(longest_waits(&parts, is_blocking, || {
                let started = Instant::now();
                parts.snapshot().unwrap();
                took = started.elapsed();
            }));
            without.push(longest_waits(&parts, is_blocking, || busy_for(took)));
        }
        let ([with, median, worst], [_, _, without]) = (ranked(with), ranked(without));
        println!(
            "a snapshot of {FACTS} facts ({took:.1?}), {how}: quietest {with:?}, median {median:?}, worst {worst:?}; \
             without one: worst {without:?}"
        );
        assert!(
            without.longest() <= STALL_MAX,
            "the machine is too busy to tell: without a snapshot it is {without:?}"
        );
        assert!(with.longest() <= STALL_MAX, "a snapshot keeps others waiting for {:?}", with.longest());
    }
    assert!(resident <= RESIDENT_MAX, "{resident} bytes are resident");
}

/// What a caller's thread pays for a look into the runs.
fn look_ups(parts: &Parts) {
    for (what, from) in [("new", 2_000_000_000u64), ("known", 1_000_000_000)] {
        let keys: Vec<_> =
            (0..20_000).map(|number| entry(from + number * 397).event.keys().next().unwrap().0).collect();
        let started = Instant::now();
        let found = keys.iter().filter(|key| parts.keys().find(key).unwrap().is_some()).count();
        println!("look-up of {what} keys: {:.2} us ({found} found)", started.elapsed().as_secs_f64() * 1e6 / 20_000.0);
        assert_eq!(found, if what == "new" { 0 } else { 20_000 });
    }
}
