//! What is kept of a rejection, through crashes and against tampering (AG-097-8.6).

use super::clauses::{account, refund};
use super::gate::{Subject, entry_of};
use super::own::{self, Own};
use crate::data::LogFolder;
use crate::examples::BILLING;
use anyhow::{Context as _, Result, ensure};
use countersign_engine::fold::walk_options;
use countersign_engine::storage::walk;
use countersign_ledger::tree::Frontier;
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How many gates are killed, each after so many answers.
const KILLS: usize = 2;
const ANSWERS: usize = 40;
/// Who is acting when a gate is killed.
const WRITERS: usize = 4;
/// In how many places one byte of the log is altered.
const ALTERED: usize = 16;
/// How long the writers may take for their answers.
const WITHIN: Duration = Duration::from_secs(60);

/// What a caller was told: the entry, and its verdict.
type Told = (u64, String);

/// Crashes and tampering, on gates of its own.
pub fn lasting() -> Result<Json> {
    let mut answers = 0;
    let mut located = Vec::new();
    for _ in 0..KILLS {
        let (mut own, url, key) = Own::start()?;
        let told = killed_while_acting(&Subject::at(&url, key, None)?, &mut own)?;
        let kept = verdicts(&own.data())?;
        for (index, verdict) in &told {
            let found = kept.get(index).with_context(|| format!("entry {index}, which was told, is not on disk"))?;
            ensure!(found == verdict, "entry {index} was told as {verdict} and is {found} on disk");
        }
        answers += told.len();
        located = altered(&own.data())?;
    }
    Ok(json!({"kills": KILLS, "told_and_kept": answers, "altered_and_located": located}))
}

/// Has agents act until enough of them were answered, and kills the gate while they go on. Gives what they were told.
fn killed_while_acting(subject: &Subject, own: &mut Own) -> Result<Vec<Told>> {
    subject.publish(&BILLING)?;
    let fact = "Account::\"crash\"";
    subject.feed(fact, &account("active", 20))?;
    let told = Mutex::new(Vec::new());
    let (answers, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let agents = (0..WRITERS).map(|seat| subject.agent(&format!("writer-{seat}"), &["refunder"]));
    let agents = agents.map(|agent| agent.and_then(|agent| Ok((agent.observe([fact])?, agent))));
    let agents = agents.collect::<Result<Vec<_>>>()?;
    std::thread::scope(|scope| {
        for (token, agent) in &agents {
            let (told, answers, is_over) = (&told, &answers, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::SeqCst) {
                    let tokens = std::slice::from_ref(token);
                    // What is not answered was not told, and may be there or not.
                    let acted = agent.act_once(BILLING.name, "refund", &refund("crash", 1), tokens);
                    let Ok(verdict) = acted else { return };
                    let word = json!(verdict.verdict).as_str().unwrap_or_default().to_owned();
                    if let (Ok(entry), Ok(mut told)) = (entry_of(&verdict), told.lock()) {
                        told.push((entry, word));
                    }
                    answers.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let deadline = Instant::now() + WITHIN;
        while answers.load(Ordering::SeqCst) < ANSWERS && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        let killed = own.kill();
        is_over.store(true, Ordering::SeqCst);
        killed
    })?;
    let told = told.into_inner().unwrap_or_default();
    ensure!(told.len() >= ANSWERS, "only {} answers came within {} s", told.len(), WITHIN.as_secs());
    Ok(told)
}

/// The verdicts in the files of a log, by entry.
fn verdicts(data: &Path) -> Result<HashMap<u64, String>> {
    let folder = LogFolder::find(data)?;
    let mut verdicts = HashMap::new();
    walk(&folder.disk()?, walk_options(&folder.public_key()?), Frontier::new(), &mut |placed| {
        for frame in placed.batch.frames() {
            let leaf: Json = serde_json::from_slice(frame.leaf)?;
            if let Some(verdict) = leaf.get("verdict").and_then(Json::as_str) {
                verdicts.insert(frame.index, verdict.to_owned());
            }
        }
        Ok(())
    })?;
    Ok(verdicts)
}

/// Alters one byte of a copy of the log at a time. Gives, for each, where it was and where it was found.
fn altered(data: &Path) -> Result<Vec<Json>> {
    let copy = tempfile::tempdir().context("no temporary folder can be made")?;
    let segment = copied(data, copy.path())?;
    let verify = || own::output(copy.path(), &["verify", "--data", ".", "--log-key", "log.vkey", "--json"]);
    let (code, said) = verify()?;
    ensure!(code == Some(0), "the log does not hold as it is: {said}");
    let whole = fs::read(&segment)?;
    let used = whole.iter().rposition(|byte| *byte != 0).context("the log is empty")?;
    let file = OpenOptions::new().write(true).open(&segment)?;
    let mut found = Vec::new();
    for at in 0..ALTERED {
        // Of the first two thirds: a batch at the very end that is not whole may never have been told, and is no break.
        let offset = used * (2 * at + 1) / (3 * ALTERED);
        let (byte, place) = (*whole.get(offset).context("the segment is too short")?, u64::try_from(offset)?);
        file.write_all_at(&[byte ^ 1], place)?;
        let (code, said) = verify()?;
        file.write_all_at(&[byte], place)?;
        ensure!(code == Some(1), "byte {offset} of the log was altered, and it still holds: {said}");
        let said: Json = serde_json::from_str(&said).with_context(|| format!("not JSON: {said}"))?;
        let place = said.pointer("/place/offset").with_context(|| format!("byte {offset} was altered; {said}"))?;
        found.push(json!([offset, place]));
    }
    Ok(found)
}

/// Copies the log of a data folder and its public key; gives its first segment.
fn copied(data: &Path, to: &Path) -> Result<PathBuf> {
    let log = to.join("log");
    fs::create_dir(&log)?;
    let mut segments = Vec::new();
    for entry in fs::read_dir(data.join("log"))? {
        let entry = entry?;
        let path = log.join(entry.file_name());
        fs::copy(entry.path(), &path)?;
        if path.extension().is_some_and(|extension| extension == "seg") {
            segments.push(path);
        }
    }
    fs::copy(data.join("log.vkey"), to.join("log.vkey"))?;
    segments.into_iter().min().with_context(|| format!("{} has no segment", data.display()))
}
