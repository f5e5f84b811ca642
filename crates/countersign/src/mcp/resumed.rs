//! Sessions that were cut off: a gateway over standard input that was killed leaves its session open at the gate, and the one that is
//! started next for the same agent goes on in it. So what the agent read before still counts for what it writes afterwards. Over HTTP a
//! client that comes back with its `Mcp-Session-Id` goes on in the session that it had, and no other client does.
//!
//! Each gateway holds a lock on a small file that names its session. The system frees the lock when the process ends, however it
//! ends; a clean end removes the file. The file also says who started the gateway, because an agent may have several: only the one that
//! the new gateway takes the place of is gone on in. Where that cannot be told, none is, and the agent must read again. To look at a
//! note is to lock it, so only one gateway looks at a time: another that looked meanwhile would take what was cut off for alive.

mod parent;

use self::parent::{Parent, Relation};
use countersign_core::ids::Digest;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Error, ErrorKind, Read as _, Result, Seek as _, SeekFrom};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// How long after it was cut off a session is gone on in.
pub const FOLLOWED_WITHIN: Duration = Duration::from_secs(10 * 60);
/// How often a gateway says that it lives: often enough that what it has noted is never older than this when it is killed.
pub const LIVES_EVERY: Duration = Duration::from_secs(15);
/// How long is waited for others that look at notes. Each takes a moment.
const HELD_WITHIN: Duration = Duration::from_secs(5);
/// How often it is tried meanwhile.
const HELD_EVERY: Duration = Duration::from_millis(2);
/// What is locked by who looks at notes; no note is called that.
const LOCK: &str = "lock";

/// Where the sessions of one agent at one gate are noted.
#[derive(Debug, Clone)]
pub struct Notes {
    /// `None` where there is no folder of one's own: then it is never known what was cut off.
    folder: Option<PathBuf>,
    /// What their names begin with.
    scope: String,
}

/// A session that was noted.
#[derive(Debug)]
pub struct Noted {
    /// The session; empty where it was not noted to the end.
    pub session: String,
    /// The log in which it is, because another gate may answer at the same address.
    pub log: String,
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
    /// One that the gate does not have.
    Gone(Note),
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
    /// For an agent, known by its secret, at the gate of this name.
    pub fn new(secret: &[u8; 32], gate: &str) -> Self {
        let user = std::fs::metadata("/proc/self").map(|it| it.uid());
        let of_user = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_absolute());
        let folders = user.into_iter().flat_map(|user| {
            let shared = std::env::temp_dir().join(format!("countersign-sessions-{user}"));
            let own = of_user.iter().map(|folder| folder.join("countersign-sessions"));
            own.chain([shared]).map(move |folder| (folder, user)).collect::<Vec<_>>()
        });
        let folder = folders.into_iter().find(|(folder, user)| is_own(folder, *user));
        Self::in_folder(folder.map(|(folder, _)| folder), secret, gate)
    }

    fn in_folder(folder: Option<PathBuf>, secret: &[u8; 32], gate: &str) -> Self {
        let scope = Digest::of(&[b"countersign session\0".as_slice(), secret, gate.as_bytes()].concat()).to_string();
        Self { folder, scope }
    }

    /// Whether there is a folder for them.
    pub fn has_folder(&self) -> bool {
        self.folder.is_some()
    }

    /// The same for clients over HTTP.
    pub fn over_http(&self) -> Self {
        let scope = Digest::of(format!("countersign session over http {}", self.scope).as_bytes());
        Self { folder: self.folder.clone(), scope: scope.to_string() }
    }

    fn folder(&self) -> Result<&Path> {
        self.folder.as_deref().ok_or_else(|| Error::new(ErrorKind::NotFound, "there is no folder of one's own for it"))
    }

    /// Nobody else looks at notes, or makes one, as long as this is kept.
    fn hold(&self) -> Result<File> {
        let file = lock_file(self.folder()?)?;
        let until = Instant::now() + HELD_WITHIN;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(HELD_EVERY),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// All notes, newest last.
    fn all(&self) -> Result<Vec<(SystemTime, PathBuf)>> {
        let mut found: Vec<(SystemTime, PathBuf)> = Vec::new();
        for entry in std::fs::read_dir(self.folder()?)? {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(|name| name.starts_with(&self.scope)) {
                match entry.metadata().and_then(|it| it.modified()) {
                    Ok(at) => found.push((at, entry.path())),
                    // Its gateway has ended meanwhile.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// Takes over the session of this log that was cut off lately, if it is known which.
    pub fn take(&self, log: &str) -> CutOff {
        self.take_for(&Parent::of_this_process(), log)
    }

    fn take_for(&self, ours: &Parent, log: &str) -> CutOff {
        if self.folder.is_none() {
            return CutOff::Unclear;
        }
        self.take_closest(ours, log).unwrap_or_else(|error| {
            tracing::warn!(%error, "it cannot be told whether a session was cut off; something must be read before a guarded call");
            CutOff::Unclear
        })
    }

    fn take_closest(&self, ours: &Parent, log: &str) -> Result<CutOff> {
        let _held = self.hold()?;
        let mut found: Vec<(Relation, Noted)> = Vec::new();
        for (_, path) in self.all()?.into_iter().filter(|(used, _)| !is_over(*used)) {
            found.extend(Noted::take(path)?.map(|noted| (noted.relation_to(ours), noted)));
        }
        // What another living program started is its own to go on in, and a session of another gate is none of this one's.
        found.retain(|(relation, noted)| {
            *relation != Relation::OfAnother && (noted.session.is_empty() || noted.log == log)
        });
        // The closest first.
        found.sort_by_key(|(relation, _)| *relation);
        let closest = found.first().map(|(relation, _)| *relation);
        let as_close = found.iter().filter(|(relation, _)| Some(*relation) == closest).count();
        // It was not noted to the end, and could be any.
        let is_any_unnamed = found.iter().any(|(_, noted)| noted.session.is_empty());
        Ok(match (found.into_iter().next(), as_close) {
            (None, _) => CutOff::None,
            (Some((Relation::Same | Relation::Alike, Noted { session, note, .. })), 1) if !is_any_unnamed => {
                note.is_for(&session, log, ours);
                CutOff::One(session, note)
            }
            _ => CutOff::Unclear,
        })
    }

    /// Takes over the session that was cut off lately under this name.
    pub fn take_named(&self, name: &str) -> Option<Noted> {
        let path = self.folder().ok()?.join(self.name_of(name));
        let used = std::fs::metadata(&path).and_then(|it| it.modified()).ok()?;
        let noted = if is_over(used) { None } else { Noted::take(path).ok()? };
        noted.filter(|noted| !noted.session.is_empty())
    }

    /// Removes the notes of sessions that were cut off too long ago to be gone on in; those of this log, which are still open.
    pub fn sweep(&self, log: &str) -> Vec<String> {
        let Ok(_held) = self.hold() else { return Vec::new() };
        let over = self.all().unwrap_or_default().into_iter().filter(|(used, _)| is_over(*used));
        let noted = over.filter_map(|(_, path)| Noted::take(path).ok()?);
        let remove = |Noted { session, log: of, note, .. }: Noted| {
            note.remove();
            (of == log && !session.is_empty()).then_some(session)
        };
        noted.filter_map(remove).collect()
    }

    /// Notes a session that was opened in this log.
    pub fn make(&self, session: &str, log: &str) -> Option<Note> {
        self.make_for(session, log, &Parent::of_this_process())
    }

    fn make_for(&self, session: &str, log: &str, parent: &Parent) -> Option<Note> {
        // Two gates at one address, one after the other, may give out the same name.
        let name = self.name_of(&format!("{session} {log}"));
        self.write(&name, &text_of(session, log, &parent.to_string()))
    }

    /// Notes a session under a name, with something beside it.
    pub fn make_named(&self, name: &str, session: &str, log: &str, rest: &str) -> Option<Note> {
        self.write(&self.name_of(name), &text_of(session, log, rest))
    }

    /// What the note of a name is called. Who reads the folder learns no name by which a client is known.
    fn name_of(&self, name: &str) -> String {
        format!("{}-{}", self.scope, Digest::of(&[self.scope.as_bytes(), name.as_bytes()].concat()))
    }

    /// `None`, with a word to people, where it cannot be written.
    fn write(&self, name: &str, text: &str) -> Option<Note> {
        self.folder.as_ref()?;
        let written = self.folder().and_then(|folder| {
            let _held = self.hold()?;
            Note::write(folder.join(name), text)
        });
        let warn = |error: &Error| {
            let folder = self.folder.as_deref().unwrap_or(Path::new("a folder")).display();
            tracing::warn!(%error, %folder, "the session cannot be noted: if this gateway is killed, what was read in it is forgotten");
        };
        written.inspect_err(warn).ok()
    }
}

/// Whether a folder is the user's own, and notes can be made in it. Whoever made it first: only one that no one else can enter is used.
fn is_own(folder: &Path, user: u32) -> bool {
    let _ = DirBuilder::new().mode(0o700).create(folder);
    let found = std::fs::symlink_metadata(folder);
    let is_own = found.is_ok_and(|found| found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0);
    is_own && lock_file(folder).is_ok()
}

fn lock_file(folder: &Path) -> Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(folder.join(LOCK))
}

/// What is noted of a session.
fn text_of(session: &str, log: &str, rest: &str) -> String {
    format!("{session} {log}\n{rest}")
}

/// Whether a session that was in use at this time last is not gone on in any more.
fn is_over(used: SystemTime) -> bool {
    used.elapsed().is_ok_and(|since| since > FOLLOWED_WITHIN)
}

impl Noted {
    /// Takes a note; `None` where a gateway that lives holds it, or has removed it.
    fn take(path: PathBuf) -> Result<Option<Self>> {
        let mut file = match OpenOptions::new().read(true).write(true).open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(None),
            held => held?,
        }
        // It may have been removed before it was held.
        match std::fs::metadata(&path) {
            Ok(found) if found.ino() == file.metadata()?.ino() => {}
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => return Ok(None),
        }
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let (first, rest) = text.split_once('\n').unwrap_or_default();
        let (session, log) =
            first.split_once(' ').filter(|(session, _)| session.starts_with("ses_")).unwrap_or_default();
        let (session, log, rest) = (session.to_owned(), log.to_owned(), rest.to_owned());
        Ok(Some(Self { session, log, rest, note: Note { file, path } }))
    }

    /// What the program that started its gateway is to this one.
    fn relation_to(&self, ours: &Parent) -> Relation {
        Parent::parse(&self.rest).map_or(Relation::Unknown, |theirs| ours.to(&theirs))
    }
}

impl Note {
    fn write(path: PathBuf, text: &str) -> Result<Self> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).read(true).mode(0o600).open(&path)?;
        file.try_lock()?;
        let note = Self { file, path };
        match note.file.write_all_at(text.as_bytes(), 0).and_then(|()| note.file.set_len(text.len() as u64)) {
            Ok(()) => Ok(note),
            Err(error) => {
                note.remove();
                Err(error)
            }
        }
    }

    /// The session is gone on in by a gateway that this program started.
    fn is_for(&self, session: &str, log: &str, parent: &Parent) {
        self.says(&text_of(session, log, &parent.to_string()));
    }

    /// The session has this name now. What is noted beside it stays.
    pub fn is_now(&self, session: &str, log: &str) {
        let mut text = String::new();
        let mut file = &self.file;
        // Under the name before, it can still be gone on in.
        if file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_string(&mut text)).is_ok() {
            self.says(&text_of(session, log, text.split_once('\n').map_or("", |(_, rest)| rest)));
        }
    }

    fn says(&self, text: &str) {
        let written = self.file.write_all_at(text.as_bytes(), 0).and_then(|()| self.file.set_len(text.len() as u64));
        if let Err(error) = written {
            // Then no one goes on in it.
            tracing::debug!(%error, "it is not noted for whom the session is");
        }
    }

    /// Its gateway lives.
    pub fn lives(&self) {
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
    use tempfile::TempDir;

    const GATEWAYS: usize = 8;
    const LOG: &str = "log";

    fn made(folder: &TempDir) -> PathBuf {
        let notes = folder.path().join("notes");
        let user = std::fs::metadata("/proc/self").expect("is there").uid();
        assert!(is_own(&notes, user));
        notes
    }

    #[test]
    fn gateways_that_look_at_the_same_time_each_find_what_was_cut_off() {
        let folder = tempfile::tempdir().expect("has a folder");
        let notes = Notes::in_folder(Some(made(&folder)), &[1; 32], "gate");
        let parents: Vec<Parent> =
            (0..GATEWAYS).map(|at| Parent::of(u32::MAX, &at.to_string(), Digest([0; 32]))).collect();
        for round in 0..20 {
            let killed = parents.iter().enumerate();
            killed.for_each(|(at, parent)| drop(notes.make_for(&format!("ses_{at}"), LOG, parent).expect("is noted")));
            let begin = std::sync::Barrier::new(GATEWAYS);
            let found = std::thread::scope(|scope| {
                let look = |parent| {
                    let (notes, begin) = (&notes, &begin);
                    scope.spawn(move || {
                        begin.wait();
                        notes.take_for(parent, LOG)
                    })
                };
                parents
                    .iter()
                    .map(look)
                    .collect::<Vec<_>>()
                    .into_iter()
                    .map(|it| it.join().expect("ends"))
                    .collect::<Vec<_>>()
            });
            for (at, found) in found.into_iter().enumerate() {
                let CutOff::One(name, note) = found else { panic!("{at} finds nothing in round {round}: {found:?}") };
                assert_eq!(name, format!("ses_{at}"));
                note.remove();
            }
        }
    }

    #[test]
    fn where_it_cannot_be_told_what_was_cut_off_it_is_unclear() {
        let folder = tempfile::tempdir().expect("has a folder");
        let notes = Notes::in_folder(Some(made(&folder)), &[1; 32], "gate");
        // Killed before the note was whole, or the disk was full.
        std::fs::write(made(&folder).join(format!("{}-ses_1", notes.scope)), "").expect("is written");
        assert!(matches!(notes.take(LOG), CutOff::Unclear));
        let nowhere = Notes::in_folder(None, &[1; 32], "gate");
        assert!(matches!(nowhere.take(LOG), CutOff::Unclear) && nowhere.make("ses_1", LOG).is_none());
        let user = std::fs::metadata("/proc/self").expect("is there").uid();
        assert!(!is_own(&made(&folder), user + 1), "of another user");
        let shared = folder.path().join("shared");
        DirBuilder::new().mode(0o755).create(&shared).expect("is made");
        assert!(!is_own(&shared, user), "others can enter it");
    }

    #[test]
    fn only_what_was_cut_off_lately_is_taken_over_and_only_once() {
        let folder = tempfile::tempdir().expect("has a folder");
        let notes = |secret: u8, gate: &str| Notes::in_folder(Some(made(&folder)), &[secret; 32], gate);
        let (ours, others) = (notes(1, "gate"), notes(2, "gate"));
        let living = ours.make("ses_1", LOG).expect("is noted");
        let is_none = |notes: &Notes| matches!(notes.take(LOG), CutOff::None);
        assert!(is_none(&ours), "it lives");
        // Dropped without a word, as when the process is killed.
        drop(ours.make("ses_2", LOG).expect("is noted"));
        assert!(is_none(&others) && is_none(&notes(1, "other")));
        let CutOff::One(name, note) = ours.take(LOG) else { panic!("was cut off") };
        assert_eq!(name, "ses_2");
        assert!(is_none(&ours), "it is gone on in");
        note.remove();
        living.remove();
        let old = ours.make("ses_3", LOG).expect("is noted");
        old.file.set_modified(SystemTime::now() - FOLLOWED_WITHIN * 2).expect("is dated back");
        drop(old);
        assert!(is_none(&ours), "that is long ago");
        assert_eq!(ours.sweep(LOG), ["ses_3"]);
        assert!(ours.all().expect("is a folder").is_empty());
    }

    #[test]
    fn a_gateway_goes_on_in_the_session_whose_place_it_takes_and_in_no_other() {
        let folder = tempfile::tempdir().expect("has a folder");
        let notes = Notes::in_folder(Some(made(&folder)), &[1; 32], "gate");
        let parent = |started: &str, like: u8| Parent::of(u32::MAX, started, Digest([like; 32]));
        let (first, again, unlike) = (parent("1", 1), parent("2", 1), parent("3", 2));
        let gone_on = |by: &Parent| match notes.take_for(by, LOG) {
            CutOff::One(name, _) => name,
            CutOff::None | CutOff::Gone(_) => "none".to_owned(),
            CutOff::Unclear => "unclear".to_owned(),
        };
        drop(notes.make_for("ses_1", LOG, &first));
        assert_eq!(gone_on(&first), "ses_1", "the same program started it again");
        assert_eq!(gone_on(&again), "ses_1", "the same program was started again, and started it again");
        assert_eq!(gone_on(&unlike), "unclear", "another program, and the first is gone");
        drop(notes.make_for("ses_2", LOG, &unlike));
        assert_eq!(gone_on(&again), "ses_1", "that one is closer");
        assert_eq!(gone_on(&unlike), "ses_2", "and that one to this");
        drop(notes.make_for("ses_3", LOG, &again));
        assert_eq!(gone_on(&again), "unclear", "it had two");
        // A program that lives goes on in its own.
        let own = notes.make("ses_4", LOG).expect("is noted");
        drop(own);
        assert_eq!(gone_on(&parent("4", 9)), "unclear");
        ["ses_1", "ses_2", "ses_3"].iter().for_each(|name| {
            let note = notes.name_of(&format!("{name} {LOG}"));
            std::fs::remove_file(made(&folder).join(note)).expect("is there");
        });
        assert_eq!(gone_on(&parent("4", 9)), "none", "what the living program of this test started is not its");
        assert!(matches!(notes.take(LOG), CutOff::One(name, _) if name == "ses_4"));
    }

    #[test]
    fn over_http_only_the_client_of_the_name_goes_on() {
        let folder = tempfile::tempdir().expect("has a folder");
        let notes = Notes::in_folder(Some(made(&folder)), &[1; 32], "gate");
        let over_http = notes.over_http();
        let living = over_http.make_named("one", "ses_1", LOG, "{\"a\":1}").expect("is noted");
        assert!(over_http.take_named("one").is_none(), "it lives");
        drop(living);
        assert!(over_http.take_named("other").is_none() && matches!(notes.take(LOG), CutOff::None));
        let Noted { session, rest, note, .. } = over_http.take_named("one").expect("was cut off");
        assert_eq!((session.as_str(), rest.as_str()), ("ses_1", "{\"a\":1}"));
        assert!(over_http.take_named("one").is_none(), "it is gone on in");
        assert!(over_http.sweep(LOG).is_empty(), "it is used");
        note.remove();
        assert!(over_http.take_named("one").is_none());
    }

    /// A gate that is set up anew at the same address gives out the same names again.
    #[test]
    fn a_session_of_another_log_is_not_gone_on_in() {
        let folder = tempfile::tempdir().expect("has a folder");
        let notes = Notes::in_folder(Some(made(&folder)), &[1; 32], "gate");
        let is_none = |log: &str| matches!(notes.take(log), CutOff::None);
        drop(notes.make("ses_6", "before").expect("is noted"));
        assert!(is_none("now"));
        let of_now = notes.make("ses_6", "now").expect("is noted");
        assert!(is_none("now"), "it lives");
        drop(of_now);
        let CutOff::One(name, note) = notes.take("now") else { panic!("was cut off") };
        assert_eq!(name, "ses_6");
        note.is_now("ses_6.2", "now");
        drop(note);
        assert!(matches!(notes.take("now"), CutOff::One(name, _) if name == "ses_6.2"));
        assert!(matches!(notes.take("before"), CutOff::One(name, _) if name == "ses_6"));
        let all = notes.all().expect("is a folder");
        for (_, path) in &all {
            let note = OpenOptions::new().write(true).open(path).expect("is there");
            note.set_modified(SystemTime::now() - FOLLOWED_WITHIN * 2).expect("is dated back");
        }
        assert_eq!((all.len(), notes.sweep("now")), (2, vec!["ses_6.2".to_owned()]));
        assert!(notes.all().expect("is a folder").is_empty());
    }
}
