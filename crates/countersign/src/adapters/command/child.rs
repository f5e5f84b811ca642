//! One run of a program: started, waited for until its time is up, ended with its whole group, and reaped.

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::io::{self, Read};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// How long the end of the output is waited for once the group has ended. Only a process that left the group can hold it open.
const OUTPUT_WAIT: Duration = Duration::from_millis(500);

/// What is run.
pub(super) struct Spec<'a> {
    pub program: &'a Path,
    pub args: Vec<&'a str>,
    pub env: Vec<(&'a str, &'a str)>,
    pub cwd: &'a Path,
    pub output_bytes_max: usize,
    pub complaint_bytes_max: usize,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// By itself.
    Exit(i32),
    /// By a signal that was not ours.
    Signal(i32),
    /// By us, because its time was up.
    Late,
}

/// What it wrote.
#[derive(Debug, Default)]
pub(super) struct Output {
    pub stdout: Vec<u8>,
    /// Whether that is all of it.
    pub is_whole: bool,
    pub stderr: Vec<u8>,
}

/// Runs it. An error means that it was not started.
pub(super) fn run(spec: &Spec<'_>, until: Instant) -> io::Result<(Ended, Output)> {
    let mut command = Command::new(spec.program);
    command.args(&spec.args).env_clear().envs(spec.env.iter().copied()).current_dir(spec.cwd);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn()?;
    let stdout = child.stdout.take().map(|pipe| keep(pipe, spec.output_bytes_max));
    let stderr = child.stderr.take().map(|pipe| keep(pipe, spec.complaint_bytes_max));
    let ended = finish(&mut child, until);
    let (stdout, is_whole) = stdout.map_or_else(Default::default, collected);
    let (stderr, _) = stderr.map_or_else(Default::default, collected);
    Ok((ended, Output { stdout, is_whole, stderr }))
}

/// Waits for the program, ends its group, and reaps it, in this order: until it is reaped, its number is no one else's.
fn finish(child: &mut Child, until: Instant) -> Ended {
    let pid = Pid::from_child(child);
    let (tell, ended) = mpsc::channel();
    let waiting = std::thread::spawn(move || {
        let waited = loop {
            match waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other.is_ok(),
            }
        };
        // No one listens any more once the time is up.
        let _ = tell.send(waited);
    });
    let in_time = ended.recv_timeout(until.saturating_duration_since(Instant::now())).is_ok();
    // Fails only where the whole group has ended.
    let _ = kill_process_group(pid, Signal::KILL);
    // It panics nowhere; and after the kill above it comes back.
    drop(waiting.join());
    match child.wait() {
        Ok(_) if !in_time => Ended::Late,
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => Ended::Exit(code),
            (None, signal) => Ended::Signal(signal.unwrap_or_default()),
        },
        // No one else reaps our children; if someone did, its exit is lost.
        Err(_) => Ended::Late,
    }
}

/// Reads a pipe to its end on a thread of its own, and keeps the front: a program must not block because no one reads.
fn keep(mut pipe: impl Read + Send + 'static, bytes_max: usize) -> Receiver<(Vec<u8>, bool)> {
    let (tell, kept) = mpsc::channel();
    std::thread::spawn(move || {
        let mut front = Vec::new();
        let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX);
        let is_read = pipe.by_ref().take(limit).read_to_end(&mut front).is_ok();
        let rest = io::copy(&mut pipe, &mut io::sink());
        drop(tell.send((front, is_read && rest.is_ok_and(|rest| rest == 0))));
    });
    kept
}

fn collected(kept: Receiver<(Vec<u8>, bool)>) -> (Vec<u8>, bool) {
    kept.recv_timeout(OUTPUT_WAIT).unwrap_or_default()
}
