//! Steps that fail with an error of the system: which, when, and which one did.

use std::collections::BTreeMap;
use std::io;

/// No space is left on the disk.
pub const ENOSPC: i32 = 28;
/// The process has no descriptor left.
pub const EMFILE: i32 = 24;
/// The disk has a fault.
pub const EIO: i32 = 5;

/// What the store asks of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "named after the operations of `Disk` and `DiskFile`")]
pub enum StepKind {
    List,
    Open,
    Create,
    Allocate,
    Write,
    Sync,
    Truncate,
    Rename,
    Remove,
    SyncDir,
}

impl StepKind {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::List,
        Self::Open,
        Self::Create,
        Self::Allocate,
        Self::Write,
        Self::Sync,
        Self::Truncate,
        Self::Rename,
        Self::Remove,
        Self::SyncDir,
    ];
}

/// Steps that are to fail.
#[derive(Clone, Copy, Debug)]
pub struct Fail {
    /// Of this kind.
    pub kind: StepKind,
    /// From this one on, counted from 1 since the faults were set.
    pub nth: u64,
    /// Whether all that follow fail as well, until other faults are set.
    pub lasts: bool,
    /// With this error of the system.
    pub errno: i32,
}

/// A step that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    pub kind: StepKind,
    /// The file, by the name that it was opened by; empty for the folder.
    pub name: String,
}

/// How many steps of each kind there were.
#[derive(Default)]
pub(super) struct Counts {
    counts: BTreeMap<StepKind, u64>,
    pub(super) failed: Option<Failed>,
}

impl Counts {
    pub(super) fn count(&mut self, fail: Option<Fail>, kind: StepKind, name: &str) -> io::Result<()> {
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        match fail {
            Some(fail) if fail.kind == kind && (*count == fail.nth || fail.lasts && *count > fail.nth) => {
                self.failed.get_or_insert_with(|| Failed { kind, name: name.to_owned() });
                Err(io::Error::from_raw_os_error(fail.errno))
            }
            _ => Ok(()),
        }
    }
}
