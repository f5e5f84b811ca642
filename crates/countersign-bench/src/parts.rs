//! The parts of the bench, in the order in which they are run. Each can be left out.

use super::report::{self, Report};
use super::workload::Bench;
use super::{Part, REST, effects, floor, gate, http, log, mcp, messages, outside, postgres, rest};
use anyhow::{Context as _, Result};
use std::path::Path;

/// Facts in the usual run.
const FACTS: u64 = 100_000;

/// Rounds of floor and gate in turn: what disturbs one round disturbs both.
const ROUNDS: usize = 5;

/// Actions of one round; about as many bytes as the floor writes in its share of the round.
const ACTIONS: u64 = 40_000;

/// Signed actions over HTTP: some seconds of them, signed ahead of time and all sent well within the minute in which a
/// signature is taken.
const SIGNED_ACTIONS: u64 = 60_000;

/// Batches of 64 signed actions, likewise.
const BATCHES: u64 = 4_000;

/// Calls to a sink.
const CALLS: u64 = 20_000;

/// Messages between agents.
const MESSAGES: u64 = 200_000;

/// How long the floor runs in one round.
const FLOOR_SECONDS: f64 = 0.1;

fn said(what: &str) {
    eprintln!("measuring {what} …");
}

/// Measures what is wanted.
pub fn measure(dir: &Path, report: &mut Report, wants: impl Fn(Part) -> bool) -> Result<()> {
    if [Part::Gate, Part::Http, Part::Log, Part::Postgres, Part::Growth].into_iter().any(&wants) {
        measure_gates(dir, report, &wants)?;
    }
    if wants(Part::Signed) {
        said("HTTP, every action signed");
        rest();
        let mut signed = Bench::new(&dir.join("signed"), FACTS)?;
        let http = http::http_signed(&mut signed, FACTS, SIGNED_ACTIONS)?;
        report.put("http_signed_per_s", http.per_s);
        report.put("http_signed_p50_us", http.p50_us);
        report.put("http_signed_p99_us", http.p99_us);
    }
    if wants(Part::Batch) {
        said("HTTP, in signed batches of 64");
        rest();
        let mut batched = Bench::new(&dir.join("batched"), FACTS)?;
        let http = http::http_batched(&mut batched, FACTS, BATCHES)?;
        report.put("batch_per_s", http.per_s);
        report.put("batch_p50_us", http.p50_us);
        report.put("batch_p99_us", http.p99_us);
    }
    if wants(Part::Effects) {
        said("calls to a sink, directly and through the gate");
        rest();
        let effects = effects::effects(&dir.join("effects"), CALLS)?;
        report.put("effect_per_s", effects.per_s);
        report.put("effect_p50_us", effects.p50_us);
        report.put("sink_per_s", effects.direct_per_s);
        report.put("sink_p50_us", effects.direct_p50_us);
        report.put("effect_single_p50_us", effects.single_p50_us);
        report.put("sink_single_p50_us", effects.single_direct_p50_us);
    }
    if wants(Part::Messages) {
        said("messages, sent, read and acknowledged");
        rest();
        report.put("message_per_s", messages::per_second(&dir.join("messages"), MESSAGES)?);
    }
    if wants(Part::Mcp) {
        for over in [mcp::bank::Over::Stdio, mcp::bank::Over::Http] {
            said(&format!("calls of MCP tools over {over}, directly and through the gateway"));
            rest();
            mcp::measure(&dir.join(format!("mcp-{over}")), over, report)?;
        }
    }
    if wants(Part::Outside) {
        said("facts in a PostgreSQL of the user, and a hand-written client beside it");
        rest();
        let rates = outside::outside(dir, outside::ROUND)
            .context("PostgreSQL could not be measured; `--no-postgres` leaves it out")?;
        report.put("pg_direct_per_s", report::median(rates.direct_per_s));
        report.put("pg_adapter_per_s", report::median(rates.adapter_per_s));
        report.put("pg_fact_per_s", report::median(rates.fact_per_s));
    }
    Ok(())
}

/// What needs a gate with many facts, or the weight of an entry.
fn measure_gates(dir: &Path, report: &mut Report, wants: impl Fn(Part) -> bool) -> Result<()> {
    said("the weight of an entry");
    let mut bench = Bench::new(&dir.join("gate"), FACTS)?;
    let bytes = log::bytes_per_entry(&mut bench)?;
    report.put("bytes_per_entry", bytes);
    let record_len = bytes as usize;
    if wants(Part::Gate) {
        said("the gate, and the floor beside it");
        measure_gate(&mut bench, dir, record_len, report)?;
    }
    if wants(Part::Http) {
        said("HTTP");
        let http = http::http(&mut bench, FACTS, 4.0)?;
        report.put("http_per_s", http.per_s);
        report.put("http_p50_us", http.p50_us);
        report.put("http_p99_us", http.p99_us);
        let (https, opened_per_s) = http::https(&mut bench, &dir.join("https"), FACTS, 4.0)?;
        report.put("https_per_s", https.per_s);
        report.put("https_p50_us", https.p50_us);
        report.put("https_p99_us", https.p99_us);
        report.put("https_share_of_http", https.per_s / http.per_s);
        report.put("https_opened_per_s", opened_per_s);
    }
    if wants(Part::Log) {
        said("a million entries: verify, audit, open again");
        measure_log(bench, 1_000_000, "1m", report)?;
    } else {
        drop(bench);
    }
    if wants(Part::Postgres) {
        said("PostgreSQL, with the same work as a function under SERIALIZABLE");
        measure_postgres(dir, record_len, report)?;
    }
    if wants(Part::Growth) {
        measure_growth(dir, record_len, report)?;
    }
    Ok(())
}

fn measure_gate(bench: &mut Bench, dir: &Path, bytes: usize, report: &mut Report) -> Result<()> {
    report.put("decide_ns", gate::decide_ns(bench, 100_000)?);
    let (floor, commit, cpu) = floor_and_gate(bench, dir, bytes, FACTS)?;
    report.put("floor_per_s", floor);
    report.put("commit_per_s", commit);
    report.put("commit_cpu_us", cpu);
    let mut hots = Vec::new();
    for _ in 0..ROUNDS {
        rest();
        hots.push(gate::per_second(bench, true, ACTIONS)?);
    }
    report.put("hot_per_s", report::median(hots));
    let (mut singles, mut fsyncs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        rest();
        fsyncs.push(floor::fsync_p50_us(dir, bytes)?);
        singles.push(gate::single_p50_us(bench, 500)?);
    }
    report.put("fsync_p50_us", report::median(fsyncs));
    report.put("single_p50_us", report::median(singles));
    report.put("resident_mib", log::resident_mib());
    Ok(())
}

/// Floor and gate in turn, in bursts with rests: the median of each. One burst can meet the disk at any moment.
fn floor_and_gate(bench: &mut Bench, dir: &Path, record_len: usize, facts: u64) -> Result<(f64, f64, f64)> {
    let (mut floors, mut commits, mut cpus) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        rest();
        floors.push(floor::floor(dir, record_len, facts as usize, FLOOR_SECONDS)?.per_s);
        rest();
        let before = gate::cpu_us();
        commits.push(gate::per_second(bench, false, ACTIONS)?);
        cpus.push((gate::cpu_us() - before) / (ACTIONS + gate::WARM_UP) as f64);
    }
    Ok((report::median(floors), report::median(commits), report::median(cpus)))
}

/// Fills the log up to so many entries, then verifies, audits and reopens it.
fn measure_log(mut bench: Bench, entries: u64, name: &str, report: &mut Report) -> Result<()> {
    let have = bench.gate.view().position;
    bench.spend(entries.saturating_sub(have), false)?;
    report.put(&format!("resident_{name}_mib"), log::resident_mib());
    if entries <= 1_000_000 {
        report.put("verify_per_s", log::verify_per_s(&bench)?);
        report.put("audit_per_s", log::audit_per_s(&bench)?);
    }
    let (_, reopened) = bench.reopen()?;
    report.put(&format!("reopen_{name}_s"), reopened.took.as_secs_f64());
    report.put(&format!("reopen_{name}_replayed"), reopened.replayed as f64);
    Ok(())
}

fn measure_postgres(dir: &Path, record_len: usize, report: &mut Report) -> Result<()> {
    let options = postgres::PostgresOptions { record_len, facts: FACTS, ..postgres::PostgresOptions::default() };
    let result = postgres::postgres(dir, &options, &|line| eprintln!("  {line}"))
        .context("PostgreSQL could not be measured; `--no-postgres` leaves it out")?;
    report.note("postgres", &format!("{}, data in {}", result.version, result.data.display()));
    for (name, value) in &result.settings {
        report.note("postgres setting", &format!("{name} = {value}"));
    }
    for (name, best) in [("", &result.plain), ("_chained", &result.chained), ("_hot", &result.hot)] {
        report.put(&format!("postgres{name}_per_s"), best.best.per_s);
        for run in &best.runs {
            let retried = run.abort_share() * 100.0;
            let line = format!("{} clients: {:.0}/s, {retried:.0} % retried", run.clients, run.per_s);
            report.note(&format!("postgres{name}"), &line);
        }
    }
    Ok(())
}

/// Cost per action with few facts and an empty ledger, and with a million facts and ten million entries.
fn measure_growth(dir: &Path, record_len: usize, report: &mut Report) -> Result<()> {
    said("growth: ten thousand facts");
    let mut small = Bench::new(&dir.join("small"), 10_000)?;
    let (floor, gate, _) = floor_and_gate(&mut small, dir, record_len, 10_000)?;
    report.put("small_floor_per_s", floor);
    report.put("small_per_s", gate);
    drop(small);
    said("growth: a million facts, ten million entries");
    let mut large = Bench::new(&dir.join("large"), 1_000_000)?;
    let have = large.gate.view().position;
    large.spend(10_000_000_u64.saturating_sub(have), false)?;
    std::thread::sleep(REST * 20);
    let (floor, gate, _) = floor_and_gate(&mut large, dir, record_len, 1_000_000)?;
    report.put("large_floor_per_s", floor);
    report.put("large_per_s", gate);
    measure_log(large, 10_000_000, "10m", report)
}
