//! What a sweep came to: how often a gate was killed, at what, and where the calls were then.

use super::lane::Run;
use std::collections::BTreeMap;
use std::fmt;

#[derive(Debug, Default)]
pub struct Tally {
    runs: u64,
    /// Kills while clients ask, and while the gate picks up.
    kills: [u64; 2],
    /// What the gate was about to do.
    steps: BTreeMap<String, u64>,
    /// Where calls were when the gate was killed: in the ledger, and in the book.
    stages: BTreeMap<String, u64>,
    effects: u64,
    settled: u64,
    failed: u64,
    cancelled: u64,
    doubts: u64,
    doubts_by_kills: u64,
    repeated: u64,
}

impl Tally {
    pub fn add(&mut self, run: Run) {
        self.runs += 1;
        for (number, step) in run.kills {
            self.kills[number] += 1;
            *self.steps.entry(step).or_default() += 1;
        }
        for stage in run.stages {
            *self.stages.entry(stage).or_default() += 1;
        }
        let judged = run.judged;
        self.effects += judged.effects;
        self.settled += judged.settled;
        self.failed += judged.failed;
        self.cancelled += judged.cancelled;
        self.doubts += judged.doubts;
        self.doubts_by_kills += judged.doubts_by_kills;
        self.repeated += run.repeated;
    }

    /// A sweep that kills next to nothing, or always at the same place, shows nothing.
    pub fn is_a_sweep(&self, runs: u64) {
        assert_eq!(self.runs, runs, "{self}");
        assert!(self.kills[0] > runs / 2 && self.kills[1] > runs / 3, "{self}");
        let steps = [
            "pwrite64 segment",
            "fdatasync segment",
            "rename anchor",
            "connect service",
            "sendto service",
            "recvfrom service",
            "writev client",
        ];
        for step in steps {
            assert!(self.steps.contains_key(step), "no gate was killed at {step}: {self}");
        }
        for stage in ["cooling", "dispatched, not paid", "dispatched, paid", "in_doubt, paid", "settled, paid"] {
            assert!(self.stages.contains_key(stage), "no call was {stage} when its gate was killed: {self}");
        }
        assert!(self.doubts_by_kills > 0 && self.cancelled > 0 && self.repeated > 0, "{self}");
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, kills: [asked, found], effects, settled, failed, cancelled, .. } = self;
        let Self { doubts, doubts_by_kills, repeated, .. } = self;
        writeln!(
            f,
            "{runs} runs, {} kills: {asked} of a gate that was asked, {found} of one that picked up",
            asked + found
        )?;
        writeln!(f, "{effects} calls: {settled} settled, {failed} failed, {cancelled} cancelled")?;
        writeln!(f, "{doubts} were in doubt, all resolved; {doubts_by_kills} because of a kill")?;
        writeln!(f, "{repeated} requests were repeated")?;
        writeln!(f, "when a gate was killed, calls were:")?;
        for (stage, count) in &self.stages {
            writeln!(f, "{count:>8}  {stage}")?;
        }
        writeln!(f, "gates were killed right before:")?;
        for (step, count) in &self.steps {
            writeln!(f, "{count:>8}  {step}")?;
        }
        Ok(())
    }
}
