//! Sessions that were cut off: a gateway over standard input that was killed leaves its session open at the gate, and the one that is
//! started next for the same agent goes on in it. So what the agent read before still counts for what it writes afterwards.
//!
//! Each gateway holds a lock on a small file that names its session. The system frees the lock when the process ends, however it
//! ends; a clean end removes the file.

use countersign_core::ids::Digest;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How long after its last use a session that was cut off is gone on in.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(10 * 60);

/// Where the sessions of one agent at one gate are noted.
#[derive(Debug, Clone)]
pub struct Notes {
    folder: PathBuf,
    /// What their names begin with.
    scope: String,
}

/// The note of a session that is in use.
#[derive(Debug)]
pub struct Note {
    file: File,
    path: PathBuf,
}

impl Notes {
    /// For an agent, known by its secret, at the gate of this name. `None` where there is no folder of one's own for them.
    pub fn new(secret: &[u8; 32], gate: &str) -> Option<Self> {
        let user = std::fs::metadata("/proc/self").ok()?.uid();
        Self::in_folder(&std::env::temp_dir().join(format!("countersign-sessions-{user}")), secret, gate)
    }

    fn in_folder(folder: &Path, secret: &[u8; 32], gate: &str) -> Option<Self> {
        // Whoever made it first: only a folder that is ours, and that no one else can enter, is used.
        let _ = DirBuilder::new().mode(0o700).create(folder);
        let found = std::fs::symlink_metadata(folder).ok()?;
        let user = std::fs::metadata("/proc/self").ok()?.uid();
        if !found.is_dir() || found.uid() != user || found.mode() & 0o077 != 0 {
            return None;
        }
        let scope = Digest::of(&[b"countersign session\0".as_slice(), secret, gate.as_bytes()].concat()).to_string();
        Some(Self { folder: folder.to_owned(), scope })
    }

    /// Takes over a session that was cut off lately, if there is one.
    pub fn take(&self) -> Option<(String, Note)> {
        let mut found: Vec<(SystemTime, PathBuf)> = Vec::new();
        for entry in std::fs::read_dir(&self.folder).ok()?.filter_map(Result::ok) {
            let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(&self.scope));
            let modified = entry.metadata().and_then(|it| it.modified());
            found.extend(modified.ok().filter(|_| is_ours).map(|at| (at, entry.path())));
        }
        found.sort();
        for (used, path) in found.into_iter().rev() {
            let Ok(mut file) = OpenOptions::new().read(true).write(true).open(&path) else { continue };
            // Held by a gateway that lives.
            if file.try_lock().is_err() {
                continue;
            }
            if used.elapsed().is_ok_and(|since| since > FOLLOWED_WITHIN) {
                let _ = std::fs::remove_file(&path);
                continue;
            }
            let mut name = String::new();
            if file.read_to_string(&mut name).is_ok() && name.starts_with("ses_") {
                return Some((name, Note { file, path }));
            }
        }
        None
    }

    /// Notes a session that was opened.
    pub fn make(&self, session: &str) -> Option<Note> {
        let path = self.folder.join(format!("{}-{session}", self.scope));
        let mut options = OpenOptions::new();
        let mut file = options.create(true).truncate(true).write(true).mode(0o600).open(&path).ok()?;
        file.try_lock().ok()?;
        file.write_all(session.as_bytes()).ok()?;
        Some(Note { file, path })
    }
}

impl Note {
    /// The session is used.
    pub fn used(&self) {
        // Only how long it is gone on in depends on it.
        let _ = self.file.set_modified(SystemTime::now());
    }

    /// The session ended as it should.
    pub fn remove(self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_cut_off_lately_is_taken_over_and_only_once() {
        let folder = tempfile::tempdir().expect("has a folder");
        let notes = |secret: u8, gate: &str| Notes::in_folder(&folder.path().join("notes"), &[secret; 32], gate);
        let (ours, others) = (notes(1, "gate").expect("is ours"), notes(2, "gate").expect("is ours"));
        let living = ours.make("ses_1").expect("is noted");
        assert!(ours.take().is_none(), "it lives");
        // Dropped without a word, as when the process is killed.
        drop(ours.make("ses_2").expect("is noted"));
        assert!(others.take().is_none() && notes(1, "other").expect("is ours").take().is_none());
        let (name, note) = ours.take().expect("was cut off");
        assert_eq!(name, "ses_2");
        assert!(ours.take().is_none(), "it is gone on in");
        note.remove();
        living.remove();
        let old = ours.make("ses_3").expect("is noted");
        old.file.set_modified(SystemTime::now() - FOLLOWED_WITHIN * 2).expect("is dated back");
        drop(old);
        assert!(ours.take().is_none(), "that is long ago");
        assert_eq!(std::fs::read_dir(folder.path().join("notes")).expect("is a folder").count(), 0);
    }
}
