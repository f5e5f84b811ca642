//! Measurements: the gate beside what it is compared with, all with real durability on the same disk.
//!
//! The baselines live in modules of their own and know nothing of the gate, so that neither side can be tuned by accident
//! while the other is being measured. Absolute figures are noise; the ratios of one run are the result.

#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        reason = "a test that panics has failed, which is what it is for"
    )
)]

mod effects;
mod floor;
mod gate;
mod http;
mod log;
mod mcp;
mod messages;
mod outside;
mod parts;
mod postgres;
mod report;
mod workload;

use anyhow::{Context as _, Result};
use clap::Parser as _;
use report::Report;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Rest between two measurements. Disks of virtual machines are often rate-limited with a budget for bursts; a measurement
/// that finds the budget spent by the one before it measures the limiter.
const REST: Duration = Duration::from_millis(1500);

fn rest() {
    std::thread::sleep(REST);
}

/// Measures the gate beside what it is compared with, all with real durability.
///
/// Runs the gate, a plain append loop, a lone sync and a private PostgreSQL on the same disk, one after the other, and prints what each
/// did and their ratios. Takes about three minutes. Build it with `--release`.
#[derive(Debug, clap::Parser)]
#[command(name = "countersign-bench", max_term_width = 100)]
struct Args {
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// Also the part that takes long, growth: ten million entries.
    #[arg(long, conflicts_with = "only")]
    full: bool,
    /// Leave PostgreSQL out.
    #[arg(long)]
    no_postgres: bool,
    /// Measure this part alone; may be repeated.
    #[arg(long, value_name = "PART")]
    only: Vec<Part>,
    /// Where to write; must be on the disk to be measured. A folder is made in it and removed afterwards.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Be the MCP server that is measured, and nothing else.
    #[arg(long, hide = true)]
    mcp_bank: Option<mcp::bank::Over>,
}

/// What can be measured by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// The gate, and the floor beside it.
    Gate,
    /// The gate over HTTP.
    Http,
    /// The same, with every action signed.
    Signed,
    /// The same in signed batches of 64.
    Batch,
    /// Calls to a sink, directly and through the gate.
    Effects,
    /// Messages between agents: sent, read and acknowledged.
    Messages,
    /// Calls of MCP tools, directly and through the gateway.
    Mcp,
    /// A million entries: verify, audit, open again.
    Log,
    /// PostgreSQL, with the same work as a function under SERIALIZABLE.
    Postgres,
    /// Facts in a PostgreSQL of the user, and a hand-written client beside it.
    Outside,
    /// Ten million entries, beside ten thousand facts.
    Growth,
}

impl Args {
    fn wants(&self, part: Part) -> bool {
        let usual = match part {
            Part::Growth => self.full,
            Part::Postgres | Part::Outside => !self.no_postgres,
            _ => true,
        };
        if self.only.is_empty() { usual } else { self.only.contains(&part) }
    }
}

fn main() -> ExitCode {
    // The gateway is measured as processes of `countersign`, and this program can be that one too.
    let is_countersign = std::env::args_os().next().is_some_and(|name| name == mcp::COUNTERSIGN);
    if is_countersign {
        return countersign::main();
    }
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the measurements.
fn run(args: &Args) -> Result<()> {
    if let Some(over) = args.mcp_bank {
        return mcp::bank::serve(over);
    }
    let folder = Folder::create(&args.dir)?;
    let mut report = Report::default();
    parts::measure(&folder.path, &mut report, |part| args.wants(part))?;
    report.ratios();
    if args.json {
        println!("{}", report.json());
    } else {
        print!("{}", report.table());
    }
    Ok(())
}

/// The folder that everything is measured in; removed when done, also on an error.
struct Folder {
    path: PathBuf,
}

impl Folder {
    fn create(parent: &Path) -> Result<Self> {
        let path = parent.join(format!("countersign-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path)
            .with_context(|| format!("cannot write to {}\nhint: choose another folder with --dir", parent.display()))?;
        Ok(Self { path })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            eprintln!("{} could not be removed: {error}", self.path.display());
        }
    }
}
