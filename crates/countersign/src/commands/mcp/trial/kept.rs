//! Where trials keep their ledgers unless told otherwise: in the user's own data, and never in the folder that is worked in, which the
//! server of a trial mostly serves. Each working folder has its own, so that one server in two projects is two trials.

use crate::commands::Failure;
use crate::commands::mcp::reach::whole;
use anyhow::Result;
use countersign_core::ids::Digest;
use std::path::{Path, PathBuf};

/// What the folder of a trial has beside a gate's: how the trial was started.
const STARTED: &str = "trial.json";

/// How many digits tell folders of one name apart.
const DIGITS: usize = 8;

/// The folder for the trial of a server of this name, as it is started here.
pub fn folder(name: &str) -> Result<PathBuf> {
    let here = std::env::current_dir().ok();
    here.and_then(|here| all_of(&here)).map(|all| all.join(name)).ok_or_else(|| {
        let failure = Failure::usage("there is no place for the ledger: neither XDG_DATA_HOME nor HOME is set");
        failure.hint("name a folder with --data, outside of what the server can reach").into()
    })
}

/// The folders of trials that were started here.
pub fn found() -> Vec<PathBuf> {
    let all = std::env::current_dir().ok().and_then(|here| all_of(&here));
    let mut found: Vec<PathBuf> = all.iter().flat_map(|all| below(all)).collect();
    // Where they were before.
    found.extend(Some(PathBuf::from("countersign-try")));
    found.retain(|folder| folder.join("log").is_dir());
    found.sort();
    found
}

fn below(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Where those of a working folder are.
fn all_of(here: &Path) -> Option<PathBuf> {
    let given = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = given("XDG_DATA_HOME").or_else(|| Some(given("HOME")?.join(".local/share")))?;
    let here = whole(here);
    let name = here.file_name().map_or_else(|| "root".to_owned(), |name| name.to_string_lossy().into_owned());
    let digest = Digest::of(here.as_os_str().as_encoded_bytes()).to_string();
    let digest = digest.get(..DIGITS).unwrap_or_default();
    Some(data.join("countersign/try").join(format!("{name}-{digest}")))
}

/// Notes how a trial was started, for whoever reports on it.
pub fn note_start(data: &Path, words: &[String]) -> Result<()> {
    let text = serde_json::to_string_pretty(&without_values(words))?;
    if std::fs::read_to_string(data.join(STARTED)).is_ok_and(|before| before == text) {
        return Ok(());
    }
    let beside = data.join(format!("{STARTED}.new"));
    std::fs::write(&beside, text)?;
    Ok(std::fs::rename(beside, data.join(STARTED))?)
}

/// The words without the values of variables, which may be secrets.
fn without_values(words: &[String]) -> Vec<String> {
    let mut is_variable = false;
    let shown = |word: &String| {
        let name = if is_variable { word.split('=').next().unwrap_or_default() } else { word.as_str() };
        is_variable = word == "--env";
        name.to_owned()
    };
    words.iter().map(shown).collect()
}

/// How the trial in a folder was started; `None` where it holds none.
pub fn started(data: &Path) -> Option<Vec<String>> {
    serde_json::from_str(&std::fs::read_to_string(data.join(STARTED)).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_of_a_trial_holds_no_value_of_a_variable() {
        let folder = tempfile::tempdir().unwrap();
        let words = ["mcp", "try", "s --key=1", "--env", "TOKEN=hunter2", "--name", "s"].map(str::to_owned);
        note_start(folder.path(), &words).unwrap();
        let noted = started(folder.path()).unwrap();
        assert_eq!(noted, ["mcp", "try", "s --key=1", "--env", "TOKEN", "--name", "s"]);
    }
}
