//! Sessions that were cut off: a gateway over standard input that was killed leaves its session open at the gate, and the one that is
//! started next for the same agent goes on in it. So what the agent read before still counts for what it writes afterwards. Over HTTP a
//! client that comes back with its `Mcp-Session-Id` goes on in the session that it had, and no other client does.
//!
//! Each gateway holds a lock on a small file that names its session. The system frees the lock when the process ends, however it
//! ends; a clean end removes the file. The file also says who started the gateway, because an agent may have several: only the one that
//! the new gateway takes the place of is gone on in. Where that cannot be told, none is, and the agent must read again.

mod parent;

use self::parent::{Parent, Relation};
use countersign_core::ids::Digest;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How long after its last use a session that was cut off is gone on in.
pub const FOLLOWED_WITHIN: Duration = Duration::from_secs(10 * 60);

/// Where the sessions of one agent at one gate are noted.
#[derive(Debug, Clone)]
pub struct Notes {
    folder: PathBuf,
    /// What their names begin with.
    scope: String,
}

/// A session that was noted under a name.
#[derive(Debug)]
pub struct Noted {
    pub session: String,
    /// What was noted beside it.
    pub rest: String,
    /// The note, which is held from now on.
    pub note: Note,
}

/// The session that a new gateway goes on in.
#[derive(Debug)]
pub enum CutOff {
    /// None was cut off.
    None,
    /// This one.
    One(String, Note),
    /// One of several, or one of which it is not known whether it is that.
    Unclear,
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

    /// The same for clients over HTTP.
    pub fn over_http(&self) -> Self {
        let scope = Digest::of(format!("countersign session over http {}", self.scope).as_bytes());
        Self { folder: self.folder.clone(), scope: scope.to_string() }
    }

    /// All notes, newest last.
    fn all(&self) -> Vec<(SystemTime, PathBuf)> {
        let mut found: Vec<(SystemTime, PathBuf)> = Vec::new();
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().filter_map(Result::ok) {
            let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(&self.scope));
            let modified = entry.metadata().and_then(|it| it.modified());
            found.extend(modified.ok().filter(|_| is_ours).map(|at| (at, entry.path())));
        }
        found.sort();
        found
    }

    /// Takes over the session that was cut off lately, if it is known which.
    pub fn take(&self) -> CutOff {
        self.take_for(&Parent::of_this_process())
    }

    fn take_for(&self, ours: &Parent) -> CutOff {
        let is_late = |(used, _): &(SystemTime, PathBuf)| !is_over(*used);
        let noted = self.all().into_iter().filter(is_late).filter_map(|(_, path)| Noted::take(path));
        let relation = |noted: &Noted| Parent::parse(&noted.rest).map_or(Relation::Unknown, |theirs| ours.to(&theirs));
        let mut found: Vec<(Relation, Noted)> = noted.map(|noted| (relation(&noted), noted)).collect();
        // What another living program started is its own to go on in.
        found.retain(|(relation, _)| *relation != Relation::OfAnother);
        // The closest first.
        found.sort_by_key(|(relation, _)| *relation);
        let closest = found.first().map(|(relation, _)| *relation);
        let as_close = found.iter().filter(|(relation, _)| Some(*relation) == closest).count();
        match (found.into_iter().next(), as_close) {
            (None, _) => CutOff::None,
            (Some((Relation::Same | Relation::Alike, Noted { session, note, .. })), 1) => {
                note.is_for(&session, ours);
                CutOff::One(session, note)
            }
            _ => CutOff::Unclear,
        }
    }

    /// Takes over the session that was cut off lately under this name.
    pub fn take_named(&self, name: &str) -> Option<Noted> {
        let path = self.named(name);
        let used = std::fs::metadata(&path).and_then(|it| it.modified()).ok()?;
        if is_over(used) { None } else { Noted::take(path) }
    }

    /// Removes the notes of sessions that were cut off too long ago to be gone on in; the sessions, which are still open.
    pub fn sweep(&self) -> Vec<String> {
        let over = self.all().into_iter().filter(|(used, _)| is_over(*used));
        let noted = over.filter_map(|(_, path)| Noted::take(path));
        let remove = |noted: Noted| {
            noted.note.remove();
            noted.session
        };
        noted.map(remove).collect()
    }

    /// Notes a session that was opened.
    pub fn make(&self, session: &str) -> Option<Note> {
        self.make_for(session, &Parent::of_this_process())
    }

    fn make_for(&self, session: &str, parent: &Parent) -> Option<Note> {
        let note = Note::write(self.folder.join(format!("{}-{session}", self.scope)), session)?;
        note.is_for(session, parent);
        Some(note)
    }

    /// Notes a session under a name, with something beside it.
    pub fn make_named(&self, name: &str, session: &str, rest: &str) -> Option<Note> {
        Note::write(self.named(name), &format!("{session}\n{rest}"))
    }

    fn named(&self, name: &str) -> PathBuf {
        // Who reads the folder learns no name by which a client is known.
        let name = Digest::of(&[self.scope.as_bytes(), name.as_bytes()].concat());
        self.folder.join(format!("{}-{name}", self.scope))
    }
}

/// Whether a session that was used last at this time is not gone on in any more.
fn is_over(used: SystemTime) -> bool {
    used.elapsed().is_ok_and(|since| since > FOLLOWED_WITHIN)
}

impl Noted {
    /// Takes a note that is held by no gateway that lives.
    fn take(path: PathBuf) -> Option<Self> {
        let mut file = OpenOptions::new().read(true).write(true).open(&path).ok()?;
        file.try_lock().ok()?;
        // It may have been removed before it was held.
        let is_there = std::fs::metadata(&path).ok()?.ino() == file.metadata().ok()?.ino();
        let mut text = String::new();
        file.read_to_string(&mut text).ok()?;
        let (session, rest) = text.split_once('\n').unwrap_or((&text, ""));
        let (session, rest) = (session.to_owned(), rest.to_owned());
        let note = Note { file, path };
        (is_there && session.starts_with("ses_")).then_some(Self { session, rest, note })
    }
}

impl Note {
    fn write(path: PathBuf, text: &str) -> Option<Self> {
        let mut options = OpenOptions::new();
        let mut file = options.create(true).truncate(true).write(true).mode(0o600).open(&path).ok()?;
        file.try_lock().ok()?;
        file.write_all(text.as_bytes()).ok()?;
        Some(Self { file, path })
    }

    /// The session is gone on in by a gateway that this program started.
    fn is_for(&self, session: &str, parent: &Parent) {
        self.says(session, &parent.to_string());
    }

    /// The session has this name now. What is noted beside it stays.
    pub fn is_now(&self, session: &str) {
        let mut text = String::new();
        let mut file = &self.file;
        // Under the name before, it can still be gone on in.
        if file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_string(&mut text)).is_ok() {
            self.says(session, text.split_once('\n').map_or("", |(_, rest)| rest));
        }
    }

    fn says(&self, session: &str, rest: &str) {
        let text = format!("{session}\n{rest}");
        let written = self.file.write_all_at(text.as_bytes(), 0).and_then(|()| self.file.set_len(text.len() as u64));
        if let Err(error) = written {
            // Then no one goes on in it.
            tracing::debug!(%error, "it is not noted for whom the session is");
        }
    }

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
        let is_none = |notes: &Notes| matches!(notes.take(), CutOff::None);
        assert!(is_none(&ours), "it lives");
        // Dropped without a word, as when the process is killed.
        drop(ours.make("ses_2").expect("is noted"));
        assert!(is_none(&others) && is_none(&notes(1, "other").expect("is ours")));
        let CutOff::One(name, note) = ours.take() else { panic!("was cut off") };
        assert_eq!(name, "ses_2");
        assert!(is_none(&ours), "it is gone on in");
        note.remove();
        living.remove();
        let old = ours.make("ses_3").expect("is noted");
        old.file.set_modified(SystemTime::now() - FOLLOWED_WITHIN * 2).expect("is dated back");
        drop(old);
        assert!(is_none(&ours), "that is long ago");
        assert_eq!(ours.sweep(), ["ses_3"]);
        assert_eq!(std::fs::read_dir(folder.path().join("notes")).expect("is a folder").count(), 0);
    }

    #[test]
    fn a_gateway_goes_on_in_the_session_whose_place_it_takes_and_in_no_other() {
        let folder = tempfile::tempdir().expect("has a folder");
        let notes = Notes::in_folder(&folder.path().join("notes"), &[1; 32], "gate").expect("is ours");
        let parent = |started: &str, like: u8| Parent::of(u32::MAX, started, Digest([like; 32]));
        let (first, again, unlike) = (parent("1", 1), parent("2", 1), parent("3", 2));
        let gone_on = |by: &Parent| match notes.take_for(by) {
            CutOff::One(name, _) => name,
            CutOff::None => "none".to_owned(),
            CutOff::Unclear => "unclear".to_owned(),
        };
        drop(notes.make_for("ses_1", &first));
        assert_eq!(gone_on(&first), "ses_1", "the same program started it again");
        assert_eq!(gone_on(&again), "ses_1", "the same program was started again, and started it again");
        assert_eq!(gone_on(&unlike), "unclear", "another program, and the first is gone");
        drop(notes.make_for("ses_2", &unlike));
        assert_eq!(gone_on(&again), "ses_1", "that one is closer");
        assert_eq!(gone_on(&unlike), "ses_2", "and that one to this");
        drop(notes.make_for("ses_3", &again));
        assert_eq!(gone_on(&again), "unclear", "it had two");
        // A program that lives goes on in its own.
        let own = notes.make("ses_4").expect("is noted");
        drop(own);
        assert_eq!(gone_on(&parent("4", 9)), "unclear");
        ["ses_1", "ses_2", "ses_3"].iter().for_each(|name| {
            std::fs::remove_file(notes.folder.join(format!("{}-{name}", notes.scope))).expect("is there");
        });
        assert_eq!(gone_on(&parent("4", 9)), "none", "what the living program of this test started is not its");
        assert!(matches!(notes.take(), CutOff::One(name, _) if name == "ses_4"));
    }

    #[test]
    fn over_http_only_the_client_of_the_name_goes_on() {
        let folder = tempfile::tempdir().expect("has a folder");
        let notes = Notes::in_folder(&folder.path().join("notes"), &[1; 32], "gate").expect("is ours");
        let over_http = notes.over_http();
        let living = over_http.make_named("one", "ses_1", "{\"a\":1}").expect("is noted");
        assert!(over_http.take_named("one").is_none(), "it lives");
        drop(living);
        assert!(over_http.take_named("other").is_none() && matches!(notes.take(), CutOff::None));
        let Noted { session, rest, note } = over_http.take_named("one").expect("was cut off");
        assert_eq!((session.as_str(), rest.as_str()), ("ses_1", "{\"a\":1}"));
        assert!(over_http.take_named("one").is_none(), "it is gone on in");
        assert!(over_http.sweep().is_empty(), "it is used");
        note.remove();
        assert!(over_http.take_named("one").is_none());
    }
}
