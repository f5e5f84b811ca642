//! `serve --detach`: a gate in the background that listens by the time the command returns.
//!
//! The same program is started again without the flag, in a process group of its own and with its messages in a file. This process
//! waits until the other one listens or has ended, so a script may go on with the next command at once.

use crate::commands::{Failure, Outcome};
use crate::terminal::{note, say};
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// The file in the data folder that messages go to.
const LOG: &str = "gate.log";
/// What a gate says when it listens, before its address.
pub const LISTENING: &str = "Listening on ";
/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Starts a gate in the background; its process id goes to standard output.
pub fn run(data: &Path) -> Result<Outcome> {
    let path = data.join(LOG);
    let cannot = || format!("cannot write {}", path.display());
    let mut log =
        OpenOptions::new().append(true).read(true).create(true).mode(0o600).open(&path).with_context(cannot)?;
    let begins_at = log.seek(SeekFrom::End(0)).with_context(cannot)?;
    let program = std::env::current_exe().context("the system does not say which program this is")?;
    let arguments = std::env::args_os().skip(1).filter(|argument| argument != "--detach");
    let mut gate = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log.try_clone().with_context(cannot)?)
        .process_group(0)
        .spawn()
        .context("the gate cannot be started")?;
    let address = wait(&mut gate, &mut log, begins_at)?;
    let pid = gate.id();
    note(format_args!("The gate listens on {address} as process {pid}; its log is {}.", path.display()));
    note(format_args!("End it with `kill {pid}`."));
    say(pid);
    Ok(Outcome::Yes)
}

/// Waits until the gate listens; gives its address. If it ends instead, that is an error with what it said.
fn wait(gate: &mut Child, log: &mut File, begins_at: u64) -> Result<String> {
    loop {
        // Asked before reading: what it said last is in the file by then.
        let ended = gate.try_wait().context("the gate cannot be waited for")?;
        let mut said = String::new();
        log.seek(SeekFrom::Start(begins_at))?;
        log.read_to_string(&mut said)?;
        let whole = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let lines: Vec<String> = whole.lines().flat_map(message).collect();
        if let Some(address) = lines.iter().find_map(|line| line.strip_prefix(LISTENING)) {
            return Ok(address.to_owned());
        }
        if let Some(status) = ended {
            return Err(not_started(status, &lines).into());
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// What a line of the log says to people, which may be several lines in JSON.
fn message(line: &str) -> Vec<String> {
    let json = serde_json::from_str::<Value>(line).ok();
    let text = json.as_ref().and_then(|json| json.get("message")?.as_str()).unwrap_or(line);
    text.lines().map(str::to_owned).collect()
}

/// Why the gate did not start: the error and the hints that it ended with, or how it ended if it said nothing.
fn not_started(status: ExitStatus, lines: &[String]) -> Failure {
    let error = lines.iter().find_map(|line| line.strip_prefix("error: "));
    let failure = match error {
        Some(error) => Failure::cannot(format!("the gate did not start: {error}")),
        None => Failure::cannot(format!("the gate did not start: it ended with {status}")),
    };
    lines.iter().filter_map(|line| line.strip_prefix("hint: ")).fold(failure, Failure::hint)
}
