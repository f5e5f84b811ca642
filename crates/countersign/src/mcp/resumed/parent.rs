//! The program that started a gateway: how another gateway knows whether it takes its place.

use countersign_core::ids::Digest;
use std::fmt;

/// The program that started a gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    pid: u32,
    /// When it was started, as the system counts: process ids are used again.
    started: String,
    /// Its command line and folder.
    like: Digest,
}

/// What the parent of a gateway that was cut off is to the parent of a new one; the closest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Relation {
    /// It is the same.
    Same,
    /// It has ended, and had the same command line in the same folder.
    Alike,
    /// It has ended, and nothing says that it was the same program.
    Unknown,
    /// It lives, and is another.
    OfAnother,
}

impl Parent {
    /// The one of this process.
    pub fn of_this_process() -> Self {
        let pid = std::os::unix::process::parent_id();
        let read = |what: &str| std::fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
        let folder = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        let like = Digest::of_parts(&[
            b"countersign parent\0".as_slice(),
            &read("cmdline"),
            b"\0\0",
            folder.as_os_str().as_encoded_bytes(),
        ]);
        Self { pid, started: started(pid).unwrap_or_else(|| "unknown".to_owned()), like }
    }

    #[cfg(test)]
    pub fn of(pid: u32, started: &str, like: Digest) -> Self {
        Self { pid, started: started.to_owned(), like }
    }

    /// Reads what was noted.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let (pid, started) = (words.next()?.parse().ok()?, words.next()?.to_owned());
        Some(Self { pid, started, like: words.next()?.parse().ok()? })
    }

    /// What that one is to this one.
    pub fn to(&self, theirs: &Self) -> Relation {
        if (self.pid, &self.started) == (theirs.pid, &theirs.started) {
            return Relation::Same;
        }
        if started(theirs.pid).is_some_and(|started| started == theirs.started) {
            return Relation::OfAnother;
        }
        if self.like == theirs.like { Relation::Alike } else { Relation::Unknown }
    }
}

impl fmt::Display for Parent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.pid, self.started, self.like)
    }
}

/// When a process was started; nothing of one that has ended.
fn started(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in front may hold anything, a parenthesis too. The state is the first word behind it.
    let mut words = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = words.next()?;
    if state == "Z" { None } else { words.nth(18).map(str::to_owned) }
}
