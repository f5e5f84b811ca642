//! Thousands of simulated schedules with crashes, each judged by the independent checker, the verifier and the audit.

use countersign_testing::sim::{Stats, run};

/// Enough to meet every fault at every kind of step, and few enough for every change to be tried.
const SEEDS: u64 = 2_000;

fn seeds(range: std::ops::Range<u64>) -> Stats {
    let mut total = Stats::default();
    for seed in range {
        match run(seed, &mut |_| ()) {
            Ok(stats) => total.add(&stats),
            Err(why) => panic!("seed {seed}: {why}\nhint: `cargo xtask sim --seed {seed}` prints the whole schedule"),
        }
    }
    total
}

#[test]
fn every_promise_is_kept_in_every_schedule() {
    // Two halves on two threads, because the machines that run this have two cores.
    let total = std::thread::scope(|scope| {
        let first = scope.spawn(|| seeds(0..SEEDS / 2));
        let mut total = seeds(SEEDS / 2..SEEDS);
        match first.join() {
            Ok(stats) => total.add(&stats),
            Err(panic) => std::panic::resume_unwind(panic),
        }
        total
    });
    // The schedules must be worth something: crashes happened, actions committed, others did not.
    let runs = usize::try_from(SEEDS).unwrap_or(usize::MAX);
    assert!(total.faults > runs / 2, "{total:?}");
    assert!(total.opened > runs * 2, "{total:?}");
    assert!(total.committed > runs, "{total:?}");
    assert!(total.blocked > runs, "{total:?}");
    assert!(total.rotations > runs / 4, "{total:?}");
    // These seeds meet 154 approvals and 134 refusals; what the schedules draw moves a little with every change of the gate.
    assert!(total.approved > runs / 20 && total.refused > runs / 25, "{total:?}");
    assert!(total.batched > runs / 2 && total.groups > runs / 20 && total.groups_rejected > runs / 4, "{total:?}");
    assert!(total.delegated > runs / 4 && total.signed > runs, "{total:?}");
    // About one in twenty, and 99 of 2,000 when this was written.
    assert!(total.signed_by_gateway > runs / 25, "{total:?}");
    println!("{total:?}");
}

#[test]
fn a_seed_names_a_whole_run() {
    for seed in [1, 77, 4_000_000_007] {
        let trace = || {
            let mut lines = Vec::new();
            let outcome = run(seed, &mut |line| lines.push(line)).map(|stats| format!("{stats:?}"));
            (lines, outcome)
        };
        assert_eq!(trace(), trace());
    }
}
