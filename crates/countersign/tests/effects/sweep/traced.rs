//! A gate under `strace`: killed right before its N-th system call of a kind, or counted.
//!
//! The tracer is a grandchild (`-D`), so that the gate is the child that is waited for. `--seccomp-bpf` would be faster and is
//! left out: a signal that is injected where its filter stops a process never arrives.

use crate::effects::processes::{BINARY, heard, serving};
use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const SIGKILL: i32 = 9;
const ALLOW: &str = "this test kills a gate at chosen system calls and needs strace with the right to trace its own children: \
                     in a container run with --cap-add SYS_PTRACE or a seccomp profile that lets ptrace pass, elsewhere set \
                     kernel.yama.ptrace_scope to 0 or 1";

/// A place to be killed: right before the so-manieth call of a kind that some thread makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    pub call: String,
    pub nth: u32,
    /// Counts only calls about this file of the data folder.
    pub file: Option<&'static str>,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.call, self.nth)
    }
}

/// Fails where a process cannot be killed in this way, and says what to do.
pub fn insist() {
    let mut command = Command::new("strace");
    command.args(["-D", "-f", "-o", "/dev/null", "-e", "trace=openat", "-e", "inject=openat:signal=KILL:when=1"]);
    let tried = command.args(["cat", "/dev/null"]).stdin(Stdio::null()).output();
    let output = tried.unwrap_or_else(|error| {
        panic!("strace does not run: {error}\nhint: `cargo xtask test` installs it; or `sudo apt-get install strace`")
    });
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(SIGKILL), "strace did not kill: {} {said}\nhint: {ALLOW}", output.status);
}

/// A gate that runs under `strace`; killed when dropped.
pub struct Traced {
    child: Child,
    trace: PathBuf,
    point: Option<Point>,
    /// Where it listens, if it came so far.
    pub url: Option<String>,
    /// How many entries it found, if it came so far.
    pub found: Option<u64>,
}

/// A gate that was killed.
#[derive(Debug)]
pub struct Killed {
    pub point: Point,
    /// The call that it was killed at, with its arguments.
    pub call: String,
}

impl Traced {
    /// Starts a gate that is killed at a point, or none whose calls are all written down.
    pub fn start(data: &Path, settings: &Path, trace: PathBuf, point: Option<&Point>) -> Self {
        let mut command = Command::new("strace");
        command.args(["-D", "-f", "-qq", "-o"]).arg(&trace);
        if let Some(Point { call, nth, file }) = point {
            let kill = format!("inject={call}:signal=KILL:when={nth}");
            if let Some(file) = file {
                command.arg("-P").arg(data.join(file));
            }
            command.args(["-yy", "-e", &format!("trace={call}"), "-e", &kill]);
        }
        command.arg(BINARY);
        let mut child = serving(command, data, settings).spawn().unwrap();
        let heard = heard(child.stderr.take().unwrap());
        Self { child, trace, point: point.cloned(), found: heard.found(), url: heard.url }
    }

    /// Lets it go on for a while, then ends it with SIGTERM. Says how it was killed, if it was; whoever was not ended cleanly.
    pub fn end(mut self, linger: Duration) -> Option<Killed> {
        let status = self.wait(linger).unwrap_or_else(|| {
            let id = rustix::process::Pid::from_child(&self.child);
            // It may be killed right now.
            let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
            self.wait(Duration::from_secs(60)).expect("a gate that is told to end ends")
        });
        match (status.signal(), &self.point) {
            (Some(SIGKILL), Some(point)) => {
                let call = self.lines().into_iter().nth_call(point);
                Some(Killed { point: point.clone(), call })
            }
            _ => {
                assert!(status.success(), "the gate ended with {status} at {:?}", self.point);
                None
            }
        }
    }

    fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + patience;
        loop {
            match self.child.try_wait().unwrap() {
                Some(status) => return Some(status),
                None if Instant::now() >= until => return None,
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// The trace, whole: its tracer may still be writing when the gate is gone.
    fn lines(&self) -> Vec<String> {
        let until = Instant::now() + Duration::from_secs(10);
        let end = format!("{} +++ ", self.child.id());
        loop {
            let text = std::fs::read_to_string(&self.trace).unwrap_or_default();
            if text.lines().any(|line| line.starts_with(&end)) || Instant::now() >= until {
                return text.lines().map(str::to_owned).collect();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// How often each kind of call was made, by the thread that made it most. The gate ends first.
    pub fn counts(mut self, linger: Duration) -> BTreeMap<String, u32> {
        self.wait(linger);
        let _ = self.child.kill();
        self.child.wait().unwrap();
        let mut counts: BTreeMap<(String, String), u32> = BTreeMap::new();
        for line in self.lines() {
            if let Some((thread, call)) = call(&line) {
                *counts.entry((call.to_owned(), thread.to_owned())).or_default() += 1;
            }
        }
        let mut most = BTreeMap::new();
        for ((call, _), count) in counts {
            let before = most.entry(call).or_insert(0);
            *before = count.max(*before);
        }
        most
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Thread and name of the call that a line of a trace begins.
fn call(line: &str) -> Option<(&str, &str)> {
    let (thread, rest) = line.split_once(' ')?;
    let (name, _) = rest.trim_start().split_once('(')?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then_some((thread, name))
}

trait NthCall {
    /// The line of the call that a point names.
    fn nth_call(self, point: &Point) -> String;
}

impl<I: Iterator<Item = String>> NthCall for I {
    fn nth_call(self, point: &Point) -> String {
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for line in self {
            let Some((thread, _)) = call(&line).filter(|(_, name)| *name == point.call) else { continue };
            let count = counts.entry(thread.to_owned()).or_default();
            *count += 1;
            if *count == point.nth {
                return line.split_once(' ').map_or_else(String::new, |(_, call)| call.trim_start().to_owned());
            }
        }
        point.call.clone()
    }
}
