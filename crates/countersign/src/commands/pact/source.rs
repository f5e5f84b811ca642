//! The files that pacts come from, loaded with everything that is wrong with them.

use crate::commands::Failure;
use crate::hinted::{OrHinted as _, hinted};
use anyhow::{Context as _, Result};
use countersign_api::Problem;
use countersign_core::ids::PactName;
use countersign_core::pact::Pact;
use countersign_core::pact::budgets::named::disagreements;
use countersign_core::pact::catalogue::Catalogue;
use countersign_core::pact::changes::unsaid;
use countersign_core::pact::diagnostic::{Diagnostic, Disagreement, Severity};
use countersign_core::pact::load::load;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One file, and what came of it.
pub struct PactFile {
    /// Where it is.
    pub path: PathBuf,
    pub text: String,
    /// The pact, where it loaded.
    pub pact: Option<Arc<Pact>>,
    /// What is wrong with it, in the order of the text.
    pub problems: Vec<Diagnostic>,
}

impl PactFile {
    /// Reads and loads one file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .or_hinted(|| hinted!("cannot read {}", path.display(); "name a pact's TOML file, or a folder of them"))?;
        let (pact, problems) = match load(&text) {
            Ok(loaded) => (Some(Arc::new(loaded.pact)), loaded.warnings),
            Err(problems) => (None, problems),
        };
        Ok(Self { path: path.to_owned(), text, pact, problems })
    }

    /// Whether nothing stops it.
    pub fn is_sound(&self) -> bool {
        self.problems.iter().all(|problem| problem.severity != Severity::Error)
    }

    /// Adds a problem of the pact as a whole.
    pub fn refuse(&mut self, message: String, hint: &str) {
        // These problems are about the pact as a whole, and its name is where it begins.
        let end = self.text.find('\n').unwrap_or(self.text.len());
        let (severity, hint) = (Severity::Error, Some(hint.to_owned()));
        self.problems.push(Diagnostic { severity, span: 0..end, message, hint });
    }

    /// Adds what only a gate can warn of; the rest is known already.
    pub fn warn(&mut self, warnings: Vec<Problem>) {
        for Problem { line, message, hint, .. } in warnings {
            if self.problems.iter().any(|known| known.message == message) {
                continue;
            }
            let nth = usize::try_from(line.saturating_sub(1)).unwrap_or_default();
            let starts = std::iter::once(0).chain(self.text.match_indices('\n').map(|(at, _)| at + 1));
            let start = starts.take(nth.saturating_add(1)).last().unwrap_or_default();
            let rest = self.text.get(start..).and_then(|rest| rest.find('\n'));
            let end = rest.map_or(self.text.len(), |length| start + length);
            self.problems.push(Diagnostic { severity: Severity::Warning, span: start..end, message, hint });
        }
    }
}

/// Reads files and folders of files, and checks what loaded against each other, as one gate would.
pub fn read_all(paths: &[PathBuf]) -> Result<Vec<PactFile>> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            let before = files.len();
            read_folder(path, &mut files)?;
            if files.len() == before {
                return Err(Failure::cannot(format!("{} holds no pact", path.display()))
                    .hint("pacts are files whose names end in .toml")
                    .into());
            }
        } else {
            files.push(PactFile::read(path)?);
        }
    }
    check_together(&mut files);
    Ok(files)
}

fn read_folder(folder: &Path, files: &mut Vec<PactFile>) -> Result<()> {
    let entries = std::fs::read_dir(folder).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
    let entries = entries.with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            read_folder(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(PactFile::read(&path)?);
        }
    }
    Ok(())
}

/// Fact types are global to a gate, so pacts that are right by themselves can still be wrong together.
fn check_together(files: &mut [PactFile]) {
    let mut catalogue = Catalogue::new();
    let mut order: Vec<usize> = (0..files.len()).collect();
    let key = |file: &PactFile| file.pact.as_ref().map(|pact| (pact.name.clone(), pact.version));
    order.sort_by_key(|at| files.get(*at).and_then(key));
    let mut last: Option<(PathBuf, Arc<Pact>)> = None;
    for at in order {
        let Some(file) = files.get_mut(at) else { continue };
        let Some(pact) = file.pact.clone() else { continue };
        if let Some((other, before)) = &last
            && before.name == pact.name
            && before.version == pact.version
            && before.hash != pact.hash
        {
            let message = format!("pact `{}` version {} is also in {}", pact.name, pact.version, other.display());
            file.refuse(message, "a version is published once; raise it, or give one of the two another name");
        }
        match catalogue.admit(&pact) {
            Ok(grown) => catalogue = grown,
            Err(refusals) => {
                refusals.into_iter().for_each(|Disagreement { message, hint }| file.refuse(message, &hint));
            }
        }
        last = Some((file.path.clone(), pact));
    }
    check_budgets(files);
    check_changes(files);
}

/// A call may change what an action of another file rests on.
fn check_changes(files: &mut [PactFile]) {
    let all: Vec<Arc<Pact>> = files.iter().filter_map(|file| file.pact.clone()).collect();
    for file in files {
        let Some(pact) = &file.pact else { continue };
        let others: Vec<&Pact> = all.iter().map(|other| &**other).filter(|other| other.name != pact.name).collect();
        let found: Vec<_> = unsaid(pact, &others).into_iter().filter(|found| !file.problems.contains(found)).collect();
        file.problems.extend(found);
    }
}

/// What pacts charge to named budgets of others must fit what those define. An owner that is not among the files is known to a gate alone.
fn check_budgets(files: &mut [PactFile]) {
    let all: Vec<Arc<Pact>> = files.iter().filter_map(|file| file.pact.clone()).collect();
    let latest = |name: &PactName| all.iter().filter(|pact| pact.name == *name).max_by_key(|pact| pact.version);
    for file in files {
        let Some(pact) = file.pact.clone().filter(|pact| latest(&pact.name).is_some_and(|it| it == pact)) else {
            continue;
        };
        let owners: BTreeSet<&PactName> =
            all.iter().map(|other| &other.name).filter(|name| **name != pact.name).collect();
        for Disagreement { message, hint } in
            owners.iter().flat_map(|owner| disagreements(&pact, owner, latest(owner).map(AsRef::as_ref)))
        {
            file.refuse(message, &hint);
        }
    }
}
