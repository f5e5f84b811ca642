//! SIGKILL at every step. A gate runs under `strace`, which kills it right before the N-th system call of a kind: each write and
//! sync of the ledger, each byte to and from the payment service, each file that is renamed. Nothing of this is in the gate.
//!
//! First one run is counted call by call. Then there is a run for each kind and number, on a folder that earlier runs have used:
//! some payouts are asked for, the gate is killed, started again, killed a second time while it picks up what it finds, and
//! started a third time. It is left alone until no call is open; then book and ledger must agree. Clients repeat what they asked
//! for, and must be told what they were told before.
//!
//! `COUNTERSIGN_LONG=1` makes thousands of runs, `COUNTERSIGN_RUNS=N` as many as named.

mod lane;
mod plan;
mod tally;
mod traced;

use crate::effects::processes::{self, Service};
use crate::effects::{Spans, is_long, seed};
use lane::Lane;
use plan::Plan;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tally::Tally;

/// Absence counts long after the service could still pay, and right before the gate asks for the fourth time.
const SPANS: Spans = Spans { timeout: "150ms", cooling: "100ms", absent: "2500ms" };
/// How late the service is when it is late: later than the gate waits.
const LATE: Duration = Duration::from_millis(200);
/// How many gates run at a time: a run mostly waits.
const LANES: usize = 32;
/// How many runs a folder is used for.
const RUNS_PER_LANE: usize = 10;
/// Small enough that snapshots are taken, and killed, in every folder.
const SNAPSHOT_EVERY: u64 = 20;

/// What all runs share: the services are never killed.
pub struct Shop {
    folder: tempfile::TempDir,
    settings: PathBuf,
    plain: Service,
    keyed: Service,
    seed: u64,
}

impl Shop {
    fn open(seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let plain = Service::start(&folder.path().join("plain.book"), seed, LATE, false);
        let keyed = Service::start(&folder.path().join("keyed.book"), seed, LATE, true);
        // One worker for each service: the N-th call of its thread is then the N-th thing that is sent there.
        let services = [("plain", &plain), ("keyed", &keyed)];
        let settings = processes::settings(folder.path(), &services, 1, Some(SNAPSHOT_EVERY));
        Self { folder, settings, plain, keyed, seed }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Runs the plan, several lanes at a time; gives the lanes, in no order.
fn work(shop: &Shop, plan: &Plan, tally: &Mutex<Tally>) -> Vec<Lane> {
    let (next, named) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let lanes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..LANES.min(plan.len()) {
            scope.spawn(|| {
                let mut lane: Option<Lane> = None;
                while let Some((first, second)) = plan.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let name = || format!("lane{}", named.fetch_add(1, Ordering::SeqCst));
                    let current = lane.get_or_insert_with(|| Lane::open(shop, name()));
                    let run = current.run(shop, Some(first), Some(second));
                    tally.lock().unwrap().add(run);
                    if current.is_used_up() {
                        lanes.lock().unwrap().extend(lane.take().map(Lane::audited));
                    }
                }
                lanes.lock().unwrap().extend(lane.map(Lane::audited));
            });
        }
    });
    lanes.into_inner().unwrap()
}

#[test]
fn the_book_and_the_ledger_agree_when_the_gate_is_killed_at_any_step() {
    let _alone = crate::effects::alone();
    traced::insist();
    let runs = std::env::var("COUNTERSIGN_RUNS").ok().and_then(|runs| runs.parse().ok());
    let runs = runs.unwrap_or(if is_long() { 3_000 } else { 200 });
    let started = Instant::now();
    let shop = Shop::open(seed());
    let plan = plan::measure(&shop, runs);
    println!("seed {}: {plan}", shop.seed);
    let tally = Mutex::new(Tally::default());
    let lanes = work(&shop, &plan, &tally);
    let Shop { folder, plain, keyed, .. } = shop;
    let (plain, keyed) = (plain.book(), keyed.book());
    // Once more at the end, when nothing can be paid any more: nothing came after it was said to have failed.
    let mut known = 0;
    for lane in &lanes {
        known += lane.compare(&plain, &keyed).paid;
    }
    let paid = (plain.len() + keyed.len()) as u64;
    let of_measuring = plain.iter().chain(&keyed).filter(|payout| payout.destination.starts_with("measured")).count();
    assert_eq!(known + of_measuring as u64, paid, "somebody was paid whom no gate knows");
    let tally = tally.into_inner().unwrap();
    println!("{tally}in {} folders, {paid} payouts, {:.0} s", lanes.len(), started.elapsed().as_secs_f64());
    tally.is_a_sweep(runs as u64);
    drop(folder);
}
