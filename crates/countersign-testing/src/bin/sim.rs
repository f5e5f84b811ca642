//! Runs simulated schedules: `--seed N` prints one step by step, `--seeds A..B` runs a range and names the first that fails.

use countersign_testing::sim::{Stats, run};
use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str = "usage: sim --seed N | sim --seeds A..B";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let range = |text: &str| {
        let (from, to) = text.split_once("..")?;
        Some(from.parse::<u64>().ok()?..to.parse::<u64>().ok()?)
    };
    match words.as_slice() {
        [] => many(0..10_000),
        ["--seed", seed] if seed.parse::<u64>().is_ok() => one(seed.parse().unwrap_or_default()),
        ["--seeds", text] => match range(text) {
            Some(range) => many(range),
            None => usage(),
        },
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

/// Runs one seed and prints what happens.
fn one(seed: u64) -> ExitCode {
    match run(seed, &mut |line| println!("{line}")) {
        Ok(stats) => {
            println!("seed {seed}: every promise was kept; {stats:?}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            println!("seed {seed}: BROKEN\n{why}");
            ExitCode::FAILURE
        }
    }
}

/// Runs many seeds; the first that fails ends the run.
fn many(seeds: std::ops::Range<u64>) -> ExitCode {
    let started = Instant::now();
    let mut total = Stats::default();
    for seed in seeds.clone() {
        match run(seed, &mut |_| ()) {
            Ok(stats) => total.add(&stats),
            Err(why) => {
                println!("seed {seed}: BROKEN\n{why}\nhint: `cargo xtask sim --seed {seed}` prints the whole schedule");
                return ExitCode::FAILURE;
            }
        }
        if seed % 1000 == 999 {
            eprintln!("seed {seed}, {:.1} s", started.elapsed().as_secs_f64());
        }
    }
    println!(
        "seeds {}..{}: every promise was kept in {:.1} s; {total:?}",
        seeds.start,
        seeds.end,
        started.elapsed().as_secs_f64()
    );
    ExitCode::SUCCESS
}
