//! `countersign pact export`.

use super::problems;
use super::source::PactFile;
use crate::commands::Outcome;
use crate::terminal::{note, say_exactly};
use anyhow::{Context as _, Result};
use clap::Args;
use countersign_core::pact::export::{cedar_policies, cedar_schema};
use std::path::PathBuf;

/// Write a pact's Cedar schema and policies, for Cedar's own tools
///
/// Conditions are Cedar expressions. The export wraps each of them as a policy over the schema that is derived from the pact, so
/// that Cedar's validator, analyser and editors can read them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign pact export billing.toml                  schema and policies to stdout
  countersign pact export billing.toml --out cedar/     cedar/billing.cedarschema and cedar/billing.cedar")]
pub struct ExportArgs {
    /// The pact
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write NAME.cedarschema and NAME.cedar into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Exports.
pub fn run(args: &ExportArgs) -> Result<Outcome> {
    let file = PactFile::read(&args.file)?;
    problems::show(&file);
    let Some(pact) = &file.pact else { return Ok(Outcome::No) };
    let (schema, policies) = (cedar_schema(pact), cedar_policies(pact));
    let Some(out) = &args.out else {
        say_exactly(&format!("{}\n{}", schema.trim_end(), policies.trim_end()));
        return Ok(Outcome::Yes);
    };
    std::fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    for (extension, text) in [("cedarschema", schema), ("cedar", policies)] {
        let path = out.join(format!("{}.{extension}", pact.name));
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        note(format_args!("wrote {}", path.display()));
    }
    Ok(Outcome::Yes)
}
