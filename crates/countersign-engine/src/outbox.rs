//! The outbox: carries out what was dispatched, and settles it.
//!
//! It acts on what is durable and on nothing else: it follows the entry stream from the position at which it was started, and
//! reads from the view what to do. What it finds out becomes an entry before anything follows from it. It keeps nothing that
//! a crash could lose: after one, every effect under way is found in the ledger, and what may have left the building counts
//! as unknown (I6).

mod adapter;
mod as_read;
mod last_attempts;
mod panics;
mod run;
mod schedule;
mod turns;

pub use adapter::{Adapter, Attempt, FactAsRead, FactReader, Job, Judge, Leave, Probed, Reading, ToolAnswer};
pub use last_attempts::{LastAttempts, LastTry};

use crate::gate::Gate;
use countersign_core::call::EffectId;
use countersign_core::decide::{Touch, touches};
use countersign_core::effect::Phase;
use crossbeam_channel::{Sender, unbounded};
use panics::Busy;
use schedule::{Schedule, Task};
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use turns::Turns;

/// The adapters of a gate, by the names that pacts use.
pub type Adapters = BTreeMap<SmolStr, Arc<dyn Adapter>>;

/// How long an ending outbox waits for calls that are under way; what is not back by then is found again at the next start.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long something that no one knows of may still have its effect, and keeps its turn for that.
const LATE_AFTER: Duration = Duration::from_secs(30);

/// A running outbox. Dropping it stops it.
pub struct Outbox {
    shared: Arc<Inner>,
    scheduler: Option<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
}

/// What the threads of an outbox share.
struct Inner {
    gate: Arc<Gate>,
    adapters: Adapters,
    /// Where tasks for later go.
    later: Sender<(Instant, Task)>,
    ending: AtomicBool,
    /// Attempts that are being made right now.
    busy: Arc<AtomicUsize>,
    /// Who may change what is on which server.
    turns: Arc<Turns>,
    /// Writes that waited for their turn when the gate ended.
    cut_off: parking_lot::Mutex<BTreeSet<u64>>,
}

impl Outbox {
    /// Starts carrying out what a gate dispatches, first of all what was under way when it ended.
    pub fn start(gate: Arc<Gate>, adapters: Adapters) -> std::io::Result<Self> {
        let (later, tasks) = unbounded();
        let ending = AtomicBool::new(false);
        let shared = Arc::new(Inner {
            gate,
            adapters,
            later,
            ending,
            busy: Arc::default(),
            turns: Arc::default(),
            cut_off: parking_lot::Mutex::default(),
        });
        for adapter in shared.adapters.values() {
            // Not held: an outbox that has ended must not keep its gate open.
            let gate = Arc::downgrade(&shared.gate);
            adapter.connect(Arc::new(move |fact| gate.upgrade()?.view().fact(fact)?.value.clone()));
        }
        // What is under way before anybody can act through this outbox may have been sent before the restart; what comes later was not.
        let (found, position) = {
            let view = shared.gate.view();
            let found: Vec<EffectId> = view.rest.effects.open().map(|(id, _)| id).collect();
            (found, view.position)
        };
        shared.take_turns_again(&found);
        let now_ms = shared.gate.now_ms();
        let is_cut_off = |id: &&EffectId| shared.is_due(**id, now_ms) && shared.is_as_read(**id);
        *shared.cut_off.lock() = found.iter().filter(is_cut_off).map(|id| id.0).collect();
        let entries = shared.gate.follow(position).map_err(std::io::Error::other)?;
        let mut workers = Vec::new();
        let mut queues = BTreeMap::new();
        for (name, adapter) in &shared.adapters {
            let (queue, queued) = unbounded();
            queues.insert(name.clone(), queue);
            for number in 0..adapter.concurrency().max(1) {
                let (inner, queued) = (Arc::clone(&shared), queued.clone());
                let watched = shared.gate.watched("outbox-worker");
                let work = move || {
                    let _watched = watched;
                    inner.work(&queued);
                };
                workers.push(std::thread::Builder::new().name(format!("{name}-{number}")).spawn(work)?);
            }
        }
        let (as_read, to_read) = unbounded();
        let inner = Arc::clone(&shared);
        let watched = shared.gate.watched("as-read");
        let work = move || {
            let _watched = watched;
            inner.work_as_read(&to_read);
        };
        workers.push(std::thread::Builder::new().name("as-read".into()).spawn(work)?);
        let schedule = Schedule::new(Arc::clone(&shared), queues, as_read);
        let scheduler = std::thread::Builder::new().name("outbox".into());
        let watched = shared.gate.watched("outbox");
        let run = move || {
            let _watched = watched;
            schedule.run(&found, entries, &tasks);
        };
        let scheduler = scheduler.spawn(run)?;
        Ok(Self { shared, scheduler: Some(scheduler), workers })
    }

    /// Stops: nothing new is sent, and calls that are under way get some time to come back.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.shared.ending.store(true, Ordering::Release);
        if let Some(scheduler) = self.scheduler.take() {
            // It ends by returning; if it panicked, the panic hook has said so and the gate has failed.
            let _ = scheduler.join();
        }
        let until = Instant::now() + PATIENCE;
        while self.shared.busy.load(Ordering::Acquire) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        for worker in self.workers.drain(..) {
            if self.shared.busy.load(Ordering::Acquire) == 0 {
                let _ = worker.join();
            }
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        if self.scheduler.is_some() {
            self.end();
        }
    }
}

impl Inner {
    /// What may have left in an earlier life may still have its effect.
    fn take_turns_again(&self, found: &[EffectId]) {
        let view = self.gate.view();
        let effects = found.iter().filter_map(|id| view.rest.effects.find(*id).ok());
        let now_ms = self.gate.now_ms();
        for effect in effects.filter(|effect| effect.flight().is_some()) {
            let since_ms = match effect.phase {
                // Its last attempt ended then.
                Phase::InDoubt { since_ms, .. } => since_ms,
                _ => now_ms,
            };
            let left = LATE_AFTER.saturating_sub(Duration::from_millis(now_ms.saturating_sub(since_ms)));
            let touches = touches(&effect.action, &view, &view.rest.pacts).unwrap_or_default();
            let changed: Vec<Touch> = touches.into_iter().filter(|touch| touch.changes).collect();
            if !changed.is_empty() && !left.is_zero() {
                self.turns.linger(effect.id, changed, left);
            }
        }
    }

    /// Counts an attempt as being made until this is dropped.
    fn busy(&self) -> Busy {
        Busy::new(&self.busy)
    }

    fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    fn later(&self, delay: Duration, task: Task) {
        // The scheduler ends before the workers; what comes too late is found again at the next start.
        let _ = self.later.send((Instant::now() + delay, task));
    }

    fn log_lost(effect: EffectId, error: &impl std::fmt::Display) {
        tracing::error!(%effect, %error, "the effect cannot be advanced; it is resumed when the gate is restarted");
    }
}
