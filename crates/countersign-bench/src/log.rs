//! The log: how fast it is verified, audited and opened again, and what an entry weighs.

use super::workload::Bench;
use anyhow::{Result, bail};
use countersign_engine::audit::audit;
use countersign_engine::fold::walk_options;
use countersign_engine::storage::disk::RealDisk;
use countersign_engine::storage::walk;
use countersign_ledger::tree::Frontier;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Entries verified a second: structure, every hash, every signature, every commitment.
pub fn verify_per_s(bench: &Bench) -> Result<f64> {
    let disk = RealDisk::open(bench.data.log_dir())?;
    let key = bench.gate.log_key();
    let started = Instant::now();
    let end = walk(&disk, walk_options(&key), Frontier::new(), &mut |_| Ok(()))?;
    Ok(end.frontier.size() as f64 / started.elapsed().as_secs_f64())
}

/// Entries audited a second: verified, decided again and compared.
pub fn audit_per_s(bench: &Bench) -> Result<f64> {
    let disk = RealDisk::open(bench.data.log_dir())?;
    let started = Instant::now();
    let report = audit(&disk, &bench.gate.log_key(), &mut |_| ())?;
    if report.differing_count > 0 || report.verified != report.entries {
        bail!("the audit of the bench's own log failed: {report:?}");
    }
    Ok(report.entries as f64 / started.elapsed().as_secs_f64())
}

/// Bytes on disk for one entry, over a stretch of actions.
pub fn bytes_per_entry(bench: &mut Bench) -> Result<f64> {
    const ACTIONS: u64 = 10_000;
    let written = |bench: &Bench| bench.gate.counters().log_bytes.load(Ordering::Relaxed);
    let before = written(bench);
    bench.spend(ACTIONS, false)?;
    // The count is set just after the last answer; one more action makes sure of it.
    bench.spend_one()?;
    Ok((written(bench) - before) as f64 / ACTIONS as f64)
}

/// Resident memory of this process in MiB.
pub fn resident_mib() -> f64 {
    let status = std::fs::read_to_string(Path::new("/proc/self/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}
