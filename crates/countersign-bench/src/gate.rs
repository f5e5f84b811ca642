//! The gate itself: commits, one hot fact, single commits, and `decide` alone.

use super::workload::Bench;
use anyhow::{Result, bail};
use countersign_core::decide::decide;
use countersign_core::decision::Verdict;
use countersign_core::identity::Auth;
use countersign_core::ids::{AgentId, Tag};
use countersign_core::record::{Context, Decided, Entry, Event};
use std::time::{Duration, Instant};

/// Actions of the first round, which is not counted.
pub const WARM_UP: u64 = 2_000;

/// Processor time of all threads so far, in microseconds.
pub fn cpu_us() -> f64 {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    spent.tv_sec as f64 * 1e6 + spent.tv_nsec as f64 / 1e3
}

/// Durable actions a second, over so many of them.
pub fn per_second(bench: &mut Bench, hot: bool, actions: u64) -> Result<f64> {
    // A first round settles caches and the file; it is not counted.
    bench.spend(WARM_UP, hot)?;
    Ok(actions as f64 / bench.spend(actions, hot)?.as_secs_f64())
}

/// The median of one caller's wait, in microseconds.
pub fn single_p50_us(bench: &mut Bench, samples: usize) -> Result<f64> {
    let mut waits = Vec::with_capacity(samples);
    for _ in 0..samples {
        let started = Instant::now();
        bench.spend_one()?;
        waits.push(started.elapsed());
    }
    Ok(median_us(waits))
}

/// The median, in microseconds.
pub fn median_us(mut waits: Vec<Duration>) -> f64 {
    waits.sort_unstable();
    waits.get(waits.len() / 2).map_or(f64::NAN, |wait| wait.as_secs_f64() * 1e6)
}

/// `decide` alone in nanoseconds: three preconditions, the time, one value set and the new fact made.
pub fn decide_ns(bench: &mut Bench, actions: usize) -> Result<f64> {
    let admitted = (0..actions).map(|_| bench.admit(false)).collect::<Result<Vec<_>>>()?;
    let mut state = bench.gate.view().whole_state().clone();
    let by = AgentId::new("bench-1")?;
    let now_ms = bench.gate.now_ms();
    let started = Instant::now();
    for (entry, action) in admitted.into_iter().enumerate() {
        let mut decision = decide(&action, &state, now_ms);
        if decision.verdict != Verdict::Committed {
            bail!("the bench's own action was not committed: {:?}", decision.verdict);
        }
        for write in &mut decision.writes {
            write.tag.get_or_insert(Tag([0; 12]));
        }
        let event = Event::Action(Box::new(Decided { action: Box::new(action), decision }));
        state.apply(&Entry {
            index: u64::MAX / 2 + entry as u64,
            time_ms: now_ms,
            by: by.clone(),
            auth: Auth::None,
            context: Context::default(),
            event,
        });
    }
    Ok(started.elapsed().as_secs_f64() * 1e9 / actions as f64)
}
