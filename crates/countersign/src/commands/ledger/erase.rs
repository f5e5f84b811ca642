//! `countersign ledger erase`: payloads that must go, while the proofs stay.

use crate::client::{Call, Client};
use crate::commands::{Connection, Failure, OPERATOR, Outcome, fact_word};
use crate::config::Config;
use crate::terminal::{count, note, say, say_json};
use anyhow::Result;
use clap::Args;
use countersign_api::{ErasureRequest, ErasureResponse, KeptEntry};
use std::io::{BufRead as _, IsTerminal as _, Write as _};

/// How many entries one request names: the gate's limit.
const AT_ONCE: usize = 2048;

/// Erase payloads from the ledger for good
///
/// Every entry has a public leaf, which stays, and a payload, which can be erased. The leaf holds only a salted commitment, so
/// nothing can be guessed from it and every proof still holds. --fact finds every copy: entries that wrote the fact, read it,
/// showed it, were rejected because of it or announced a change to it, and the calls and reviews that used it. What is still in
/// force is kept, and the plan says why and until when. Once a fact is deleted, its id goes too. The erasure is itself an entry,
/// and `countersign audit` lists the entries that it leaves unverifiable.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign ledger erase --fact Account::42 --reason 'request 7 of the data protection desk' --dry-run
  countersign ledger erase --entry 812 --entry 813 --reason 'test data' --yes

The reason is kept forever: do not put personal data into it.")]
pub struct EraseArgs {
    /// Erase the payload of this entry; may be repeated
    #[arg(long, value_name = "INDEX", required_unless_present = "fact", conflicts_with = "fact")]
    entry: Vec<u64>,
    /// Erase every copy of this fact except its current value
    #[arg(long, value_name = "FACT")]
    fact: Option<String>,
    /// Why, for the ledger
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Show what would be erased, and erase nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// The operator
    #[arg(long = "as", value_name = "NAME", default_value = OPERATOR)]
    by: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Erases.
pub fn run(args: &EraseArgs, config: &Config) -> Result<Outcome> {
    let fact = args.fact.as_deref().map(fact_word).transpose()?.map(|fact| fact.to_string());
    let client = args.connection.client(config)?;
    let entries = (!args.entry.is_empty()).then(|| args.entry.clone());
    let plan = send(&client, args, &ErasureRequest { entries, fact, reason: args.reason.clone(), dry_run: true })?;
    if !args.json || !args.dry_run {
        show_plan(&plan);
    }
    if args.dry_run || plan.erased.is_empty() {
        client.close()?;
        if args.json {
            say_json(&serde_json::to_value(&plan)?);
        }
        return Ok(Outcome::Yes);
    }
    if !args.yes {
        confirm()?;
    }
    // What was shown is what is erased, whatever was written meanwhile.
    let mut done = ErasureResponse { records: Vec::new(), erased: Vec::new(), kept: plan.kept };
    for entries in plan.erased.chunks(AT_ONCE) {
        let (entries, reason) = (Some(entries.to_vec()), args.reason.clone());
        let part = send(&client, args, &ErasureRequest { entries, fact: None, reason, dry_run: false })?;
        done.records.extend(part.records);
        done.erased.extend(part.erased);
    }
    client.close()?;
    if args.json {
        say_json(&serde_json::to_value(&done)?);
    } else {
        let payloads = count(u64::try_from(done.erased.len()).unwrap_or(u64::MAX), "payload", "payloads");
        say(format_args!("erased {payloads}, recorded in entry {}", list(&done.records)));
    }
    Ok(Outcome::Yes)
}

fn send(client: &Client, args: &EraseArgs, request: &ErasureRequest) -> Result<ErasureResponse> {
    client.call(Call::post("/v1/ledger/erasures").agent(&args.by).json(request)?)
}

fn list(entries: &[u64]) -> String {
    entries.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

fn show_plan(plan: &ErasureResponse) {
    if plan.erased.is_empty() {
        note("There is nothing to erase.");
    } else {
        note(format_args!("To be erased: the payloads of entries {}", list(&plan.erased)));
    }
    if !plan.kept.is_empty() {
        note("Kept, because they are still in force:");
    }
    for KeptEntry { entry, why, hint, .. } in &plan.kept {
        note(format_args!("  entry {entry}: {why}"));
        note(format_args!("    hint: {hint}"));
    }
}

/// Asks. Only a clear yes counts, and without a terminal nothing is erased.
fn confirm() -> Result<()> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage("nothing was erased: there is no terminal to ask for confirmation")
            .hint("pass --yes to erase without being asked, or --dry-run to see the plan")
            .into());
    }
    eprint!("This cannot be undone. Erase? [y/N] ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        return Ok(());
    }
    Err(Failure::no("nothing was erased").into())
}
