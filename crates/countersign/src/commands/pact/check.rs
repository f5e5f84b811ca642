//! `countersign pact check`.

use super::problems;
use super::source::{PactFile, read_all};
use crate::commands::Outcome;
use crate::terminal::{count, note, say, say_json};
use anyhow::Result;
use clap::Args;
use countersign_core::pact::diagnostic::Severity;
use countersign_core::pact::manifest::manifest;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Check pacts, and report every problem at once
///
/// Each problem is shown with its file, line and a hint. Conditions are type-checked against the facts and parameters that the
/// pact declares, and reads too narrow for the conditions are refused. Several files are also checked against each other, as
/// one gate would, since fact types are shared by all pacts.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign pact check pacts/
  countersign pact check billing.toml --manifest > billing.md    what each action type asks for, to read and review
  countersign pact check pacts/ --json                           for editors and CI

Exit codes: 0 no errors (warnings may be shown), 1 errors, 3 a file cannot be read")]
pub struct CheckArgs {
    /// Pacts, or folders of pacts
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// Print the documented preconditions of each action type as Markdown
    #[arg(long, conflicts_with = "json")]
    manifest: bool,
    /// Print one JSON object with all files and their problems
    #[arg(long)]
    json: bool,
}

/// Checks.
pub fn run(args: &CheckArgs) -> Result<Outcome> {
    let files = read_all(&args.paths)?;
    let sound = files.iter().all(PactFile::is_sound);
    if args.json {
        say_json(&json!({"ok": sound, "files": files.iter().map(to_json).collect::<Vec<_>>()}));
        return Ok(if sound { Outcome::Yes } else { Outcome::No });
    }
    for file in &files {
        problems::show(file);
        match &file.pact {
            Some(pact) if file.is_sound() && args.manifest => say(manifest(pact)),
            Some(pact) if file.is_sound() => {
                let actions =
                    count(u64::try_from(pact.actions.len()).unwrap_or_default(), "action type", "action types");
                let (path, name, version) = (file.path.display(), &pact.name, pact.version);
                say(format_args!("ok {path}: {name} version {version}, {actions}, sha256 {}", pact.hash));
            }
            _ => {}
        }
    }
    summary(&files);
    Ok(if sound { Outcome::Yes } else { Outcome::No })
}

fn summary(files: &[PactFile]) {
    let total = |severity| {
        let problems = files.iter().flat_map(|file| &file.problems);
        u64::try_from(problems.filter(|problem| problem.severity == severity).count()).unwrap_or(u64::MAX)
    };
    let (errors, warnings) = (total(Severity::Error), total(Severity::Warning));
    if errors + warnings > 0 {
        let (errors, warnings) = (count(errors, "error", "errors"), count(warnings, "warning", "warnings"));
        let files = count(u64::try_from(files.len()).unwrap_or_default(), "file", "files");
        note(format_args!("{errors} and {warnings} in {files}"));
    }
}

fn to_json(file: &PactFile) -> Value {
    let pact = file.pact.as_ref().filter(|_| file.is_sound());
    let pact =
        pact.map(|pact| json!({"name": pact.name.as_str(), "version": pact.version, "hash": pact.hash.to_string()}));
    json!({"file": file.path, "pact": pact, "problems": problems::to_json(file)})
}
