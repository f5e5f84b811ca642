//! `countersign pact check`.

use super::problems;
use super::source::{PactFile, read_all};
use crate::client::Call;
use crate::commands::{Connection, Failure, Outcome, is_refused_as};
use crate::config::Config;
use crate::terminal::{count, note, say, say_json};
use anyhow::Result;
use clap::Args;
use countersign_api::{ErrorCode, PactChecked};
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
  countersign pact check pacts/ --against http://127.0.0.1:8420  would the gate publish them?
  countersign pact check billing.toml --manifest > billing.md    what each action type asks for, to read and review
  countersign pact check pacts/ --json                           for editors and CI

Exit codes: 0 no errors (warnings may be shown), 1 errors, 3 a file cannot be read")]
pub struct CheckArgs {
    /// Pacts, or folders of pacts
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// Ask this gate, or the gate on this data folder, whether it would publish them as they are
    #[arg(long, value_name = "URL|DIR")]
    against: Option<String>,
    /// Over https, trust the authorities in this PEM file and no others [default: the public ones]
    #[arg(long, value_name = "FILE", env = "COUNTERSIGN_CA", hide_env_values = true)]
    ca: Option<PathBuf>,
    /// Sign with the key in this file; it takes a publisher or an auditor
    #[arg(long, value_name = "FILE", env = "COUNTERSIGN_KEY", hide_env_values = true)]
    key: Option<PathBuf>,
    /// Print the documented preconditions of each action type as Markdown
    #[arg(long, conflicts_with = "json")]
    manifest: bool,
    /// Print one JSON object with all files and their problems
    #[arg(long)]
    json: bool,
}

/// Checks.
pub fn run(args: &CheckArgs, config: &Config) -> Result<Outcome> {
    let mut files = read_all(&args.paths)?;
    if let Some(against) = &args.against {
        ask(&mut files, against, args, config)?;
    }
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

/// Has a gate check what is sound by itself: versions that do not follow, fact types that disagree with what is published, and calls that
/// may change what published actions rest on.
fn ask(files: &mut [PactFile], against: &str, args: &CheckArgs, config: &Config) -> Result<()> {
    let is_url = against.starts_with("http://") || against.starts_with("https://");
    let (server, data) = if is_url { (Some(against.to_owned()), None) } else { (None, Some(against.into())) };
    let (ca, key) = (args.ca.clone(), args.key.clone());
    let client = Connection { server, data, ca, key }.client(config)?;
    for file in files.iter_mut().filter(|file| file.is_sound()) {
        let call = Call::post("/v1/check/pact").body("application/toml", file.text.clone().into_bytes());
        match client.call::<PactChecked>(call) {
            Ok(checked) if checked.unchanged => {
                note(format_args!("{} is published already, just as it is", file.path.display()));
            }
            Ok(checked) => file.warn(checked.warnings),
            Err(error) => {
                let is_conflict =
                    is_refused_as(&error, ErrorCode::PactConflict) || is_refused_as(&error, ErrorCode::PactInvalid);
                let refused = error.downcast_ref::<Failure>().filter(|_| is_conflict);
                let Some(refused) = refused else { return Err(error) };
                let (message, hint) = (refused.message().to_owned(), refused.hints().join("; "));
                file.refuse(message, &hint);
            }
        }
    }
    client.close()
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
