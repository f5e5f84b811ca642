//! What has reached a client of what was read for it, and what may not have.
//!
//! A reading counts once its content was handed to the client before the write came (R2). So every answer carries a mark from the call
//! that it answers to the last byte that leaves; dropped anywhere on the way, it is lost. What is lost, or was still on its way when a
//! write came, is named with that write (`unsure`), and the gate decides what then counts. When in doubt a reading is called unsure: that
//! can refuse a write once more than necessary, and never lets one pass.

use countersign_core::screen::visible::one_line;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a call waits until what the writes before it rest on is noted.
const NOTED_WITHIN: Duration = Duration::from_secs(30);

/// The gate took too long over a write that came before.
#[derive(Debug)]
pub struct TooLong;

/// The most names of readings whose answers were lost that are kept, beyond those that were read in the session.
const LOST_MAX: usize = 4096;
/// The most outcomes that reached no one and are still to be told.
const UNTOLD_MAX: usize = 16;
/// The longest of them.
const UNTOLD_BYTES_MAX: usize = 256;
/// The most sessions of single requests whose marks are kept; what is known of the one used longest ago is forgotten first.
const SESSIONS_MAX: usize = 1024;

/// What the answer of a call tells, as far as is known.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Telling {
    /// Not known yet: it may turn out to be anything.
    Unknown,
    /// Nothing that was read.
    Nothing,
    /// The gate was asked to read; it may have kept a reading that this answer does not hold.
    Reads,
    /// It holds the reading.
    Read,
    /// The gate was asked to write; it may have kept what it was to tell with the outcome.
    Writes,
    /// It holds the outcome of a write, and what is told with it.
    Outcome {
        /// The effect, where this answer was asked for after the call was left open.
        effect: Option<u64>,
        /// The same in a line, for whoever did not get it.
        line: String,
    },
    /// The write goes on, and its outcome is told later, if it is asked for.
    LeftOpen,
}

/// A call whose answer is on its way.
#[derive(Debug)]
struct OnItsWay {
    /// The name of the reading, if it turns out to be one.
    name: String,
    telling: Mutex<Telling>,
    /// Whether nothing that is read from now on can count for it.
    is_noted: Mutex<bool>,
    noted: Condvar,
}

impl OnItsWay {
    /// What it rests on, if it is a write, is noted at the gate.
    fn note(&self) {
        *self.is_noted.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.noted.notify_all();
    }

    /// Waits for that; whether it came in time.
    fn is_noted_within(&self, within: Duration) -> bool {
        let is_noted = self.is_noted.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.noted.wait_timeout_while(is_noted, within, |is_noted| !*is_noted);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn telling(&self) -> MutexGuard<'_, Telling> {
        self.telling.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What may not have reached the client of one session. Names are those of readings.
#[derive(Debug, Default)]
pub struct Marks {
    on_their_way: Vec<Arc<OnItsWay>>,
    /// What was read in this session.
    read: BTreeSet<String>,
    /// How many answers never arrived, since the last one of this name that did.
    lost: BTreeMap<String, usize>,
    /// Effects whose calls were left open, and whose outcome was not told.
    open: BTreeSet<u64>,
    /// Outcomes that reached no one.
    untold: VecDeque<String>,
    /// Whether something may have been read in it that is not known here.
    is_unknown: bool,
}

/// The marks of one session.
pub type Shared = Arc<Mutex<Marks>>;

/// The marks, for a moment.
pub fn lock(marks: &Shared) -> MutexGuard<'_, Marks> {
    marks.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Marks {
    /// Notes that something is read in this session.
    pub fn reads(&mut self, name: String) {
        self.read.insert(name);
    }

    fn lose(&mut self, name: &str) {
        if self.lost.len() >= LOST_MAX {
            let read = &self.read;
            self.lost.retain(|name, _| read.contains(name));
        }
        *self.lost.entry(name.to_owned()).or_default() += 1;
    }

    /// An answer has arrived that came after so many that were lost.
    fn found(&mut self, name: &str, lost_before: usize) {
        if let Some(lost) = self.lost.get_mut(name) {
            *lost = lost.saturating_sub(lost_before);
        }
        self.lost.retain(|_, lost| *lost > 0);
    }

    /// What would have told the difference of any reading did not arrive.
    fn lose_all(&mut self) {
        for name in &self.read {
            *self.lost.entry(name.clone()).or_default() += 1;
        }
    }

    /// An outcome that reached no one is told with the next answer.
    fn keep_untold(&mut self, line: String) {
        if !line.is_empty() && self.untold.len() < UNTOLD_MAX {
            self.untold.push_back(line);
        }
    }

    /// What is still to be told of outcomes that reached no one. Told once.
    pub fn take_untold(&mut self) -> Vec<String> {
        self.untold.drain(..).collect()
    }

    /// Effects whose outcome was not told.
    pub fn open(&self) -> Vec<u64> {
        self.open.iter().copied().collect()
    }

    /// The outcome of a call that was left open is there, and no one has asked for it.
    pub fn ended(&mut self, effect: u64, line: String) {
        if self.open.remove(&effect) {
            self.lose_all();
            self.keep_untold(line);
        }
    }

    /// What was read before this gateway knew the session: which of it reached the client is not known.
    pub fn follow(&mut self, unsure: Vec<String>) {
        self.is_unknown = false;
        for name in unsure {
            self.lost.insert(name.clone(), 2);
            self.read.insert(name);
        }
    }

    /// Whether something may have been read in it that is not known here.
    pub fn is_unknown(&self) -> bool {
        self.is_unknown
    }

    /// What a write cannot be sure that the client knows: what was on its way when it came, and what was lost. A name that is there
    /// twice stands for two answers, of which the client may know neither.
    fn unsure(&self, before: &Before) -> Vec<String> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        // What a call tells that may write is the difference of any reading.
        let mut of_all = self.open.union(&before.open).count();
        for one in &before.on_their_way {
            let telling = one.telling();
            if matches!(*telling, Telling::Unknown | Telling::Reads | Telling::Read) && !one.name.is_empty() {
                *counts.entry(&one.name).or_default() += 1;
            }
            if matches!(*telling, Telling::Unknown | Telling::Writes | Telling::Outcome { .. }) {
                of_all += 1;
            }
        }
        for name in &self.read {
            // What has arrived since then was not known when the write came.
            let lost = |lost: &BTreeMap<String, usize>| lost.get(name).copied().unwrap_or_default();
            let lost = lost(&self.lost).max(lost(&before.lost));
            if lost + of_all > 0 {
                *counts.entry(name).or_default() += lost + of_all;
            }
        }
        counts.into_iter().flat_map(|(name, count)| std::iter::repeat_n(name.to_owned(), count.min(2))).collect()
    }
}

/// What had not arrived when a call came.
#[derive(Debug)]
struct Before {
    on_their_way: Vec<Arc<OnItsWay>>,
    lost: BTreeMap<String, usize>,
    open: BTreeSet<u64>,
}

/// An answer on its way to the client. Dropped before it was made, it is lost: what it tells may have been kept, and counts as not
/// told. It is held by the answer and by the thread that asks the gate, so it is not lost before the gate has said its last word.
#[derive(Debug)]
pub struct Delivery {
    marks: Shared,
    this: Arc<OnItsWay>,
    before: Before,
    is_over: Mutex<bool>,
}

impl Delivery {
    /// A call comes that may read under this name.
    pub fn begin(marks: &Shared, name: String) -> Arc<Self> {
        let telling = Mutex::new(Telling::Unknown);
        let this = Arc::new(OnItsWay { name, telling, is_noted: Mutex::new(false), noted: Condvar::new() });
        let mut known = lock(marks);
        let (on_their_way, lost, open) = (known.on_their_way.clone(), known.lost.clone(), known.open.clone());
        let before = Before { on_their_way, lost, open };
        known.on_their_way.push(Arc::clone(&this));
        Arc::new(Self { marks: Arc::clone(marks), this, before, is_over: Mutex::new(false) })
    }

    /// The marks of its session.
    pub fn marks(&self) -> &Shared {
        &self.marks
    }

    /// Readings that the client may not know as the session has them, at the time this call came.
    pub fn unsure(&self) -> Vec<String> {
        lock(&self.marks).unsure(&self.before)
    }

    fn tells(&self, telling: Telling) {
        let is_noted = telling != Telling::Writes;
        *self.this.telling() = telling;
        if is_noted {
            self.this.note();
        }
    }

    /// Waits until no write that came before this call can rest on what this call reads: it was sent without knowing that. An error if
    /// the gate takes too long.
    pub fn waits_for_writes(&self) -> Result<(), TooLong> {
        let until = Instant::now() + NOTED_WITHIN;
        let is_noted = |one: &Arc<OnItsWay>| one.is_noted_within(until.saturating_duration_since(Instant::now()));
        if self.before.on_their_way.iter().all(is_noted) { Ok(()) } else { Err(TooLong) }
    }

    /// What this write rests on is noted at the gate.
    pub fn is_noted(&self) {
        self.this.note();
    }

    /// Nothing of what it answers is a reading.
    pub fn tells_nothing(&self) {
        self.tells(Telling::Nothing);
    }

    /// The gate is asked to read.
    pub fn reads(&self) {
        lock(&self.marks).reads(self.this.name.clone());
        self.tells(Telling::Reads);
    }

    /// Its answer holds what was read.
    pub fn tells_reading(&self) {
        self.tells(Telling::Read);
    }

    /// The gate is asked to write.
    pub fn writes(&self) {
        self.tells(Telling::Writes);
    }

    /// Its answer holds an outcome, in full.
    pub fn tells_outcome(&self, line: String) {
        let line = one_line(&line, UNTOLD_BYTES_MAX);
        let mut telling = self.this.telling();
        let effect = match &*telling {
            Telling::Outcome { effect, .. } => *effect,
            _ => None,
        };
        *telling = Telling::Outcome { effect, line };
        drop(telling);
        self.this.note();
    }

    /// It is asked for the outcome of a call that was left open.
    pub fn asks_for(&self, effect: u64) {
        self.tells(Telling::Outcome { effect: Some(effect), line: String::new() });
    }

    /// Its answer says that the call goes on.
    pub fn leaves_open(&self, effect: Option<u64>) {
        match effect {
            Some(effect) => {
                lock(&self.marks).open.insert(effect);
                self.tells(Telling::LeftOpen);
            }
            // It cannot be asked for, so whatever it comes to is never told.
            None => {
                self.tells(Telling::Writes);
                self.this.note();
            }
        }
    }

    /// The gate has said its last word, whatever that was.
    pub fn is_decided(&self) {
        let mut telling = self.this.telling();
        if *telling == Telling::Unknown {
            *telling = Telling::Outcome { effect: None, line: String::new() };
        }
        drop(telling);
        self.this.note();
    }

    /// Its last byte goes to the client. Said before that byte does, so that nothing comes earlier that was sent on the strength of it.
    pub fn made(&self) {
        self.end(true);
    }

    fn end(&self, is_made: bool) {
        let is_over = std::mem::replace(&mut *self.is_over.lock().unwrap_or_else(PoisonError::into_inner), true);
        if is_over {
            return;
        }
        let mut marks = lock(&self.marks);
        marks.on_their_way.retain(|one| !Arc::ptr_eq(one, &self.this));
        self.this.note();
        let name = self.this.name.as_str();
        match (self.this.telling().clone(), is_made) {
            (Telling::Nothing | Telling::LeftOpen, _) | (Telling::Outcome { effect: None, .. }, true) => {}
            (Telling::Outcome { effect: Some(effect), line }, true) => {
                // Without a line it says that the call still goes on.
                if !line.is_empty() {
                    marks.open.remove(&effect);
                }
            }
            (Telling::Outcome { effect, line }, false) => {
                // What was left open can be asked for again.
                if effect.is_none() {
                    marks.lose_all();
                    marks.keep_untold(line);
                }
            }
            (Telling::Read, true) => {
                // What was lost since this call came may be newer.
                let before = self.before.lost.get(name).copied().unwrap_or_default();
                marks.found(name, before);
            }
            (Telling::Read | Telling::Reads, _) => marks.lose(name),
            (Telling::Writes, _) => marks.lose_all(),
            (Telling::Unknown, _) => {
                marks.lose_all();
                marks.lose(name);
            }
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.end(false);
    }
}

/// The marks of sessions that single requests name, newest last.
#[derive(Debug, Default)]
pub struct Sessions(Mutex<VecDeque<(String, Shared)>>);

impl Sessions {
    /// Those of a session that a request names. Of one that is not known here, something may have been read.
    pub fn named(&self, name: &str) -> Shared {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = known.iter().position(|(of, _)| of == name);
        let marks = match at.and_then(|at| known.remove(at)) {
            Some((_, marks)) => marks,
            None => Arc::new(Mutex::new(Marks { is_unknown: true, ..Marks::default() })),
        };
        known.push_back((name.to_owned(), Arc::clone(&marks)));
        while known.len() > SESSIONS_MAX {
            known.pop_front();
        }
        marks
    }

    /// A session was opened for a request that named none.
    pub fn opened(&self, name: &str, marks: &Shared) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.push_back((name.to_owned(), Arc::clone(marks)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(marks: &Shared, name: &str) -> Arc<Delivery> {
        let delivery = Delivery::begin(marks, name.to_owned());
        delivery.reads();
        delivery.tells_reading();
        delivery
    }

    fn unsure(marks: &Shared) -> Vec<String> {
        let delivery = Delivery::begin(marks, "a write".to_owned());
        delivery.tells_nothing();
        delivery.unsure()
    }

    #[test]
    fn what_is_handed_over_is_known_and_what_is_dropped_is_not() {
        let marks = Shared::default();
        read(&marks, "a").made();
        assert_eq!(unsure(&marks), [""; 0]);
        drop(read(&marks, "a"));
        assert_eq!(unsure(&marks), ["a"]);
        drop(read(&marks, "a"));
        drop(read(&marks, "a"));
        assert_eq!(unsure(&marks), ["a", "a"], "twice says enough");
        read(&marks, "a").made();
        assert_eq!(unsure(&marks), [""; 0]);
    }

    #[test]
    fn a_write_counts_what_had_arrived_when_it_came_and_nothing_later() {
        let marks = Shared::default();
        read(&marks, "a").made();
        drop(read(&marks, "a"));
        let write = Delivery::begin(&marks, "w".to_owned());
        let late = read(&marks, "a");
        assert_eq!(write.unsure(), ["a"]);
        late.made();
        assert_eq!(write.unsure(), ["a"], "the write came before that arrived");
        write.tells_nothing();
        // What was lost while an answer was on its way is not known by that answer.
        let on_its_way = read(&marks, "a");
        let other = Delivery::begin(&marks, "w".to_owned());
        other.writes();
        drop(other);
        on_its_way.made();
        assert_eq!(unsure(&marks), ["a"]);
    }

    #[test]
    fn a_read_behind_a_write_waits_until_the_write_is_noted() {
        let marks = Shared::default();
        let write = Delivery::begin(&marks, "w".to_owned());
        write.writes();
        let behind = Delivery::begin(&marks, "a".to_owned());
        let (told, heard) = std::sync::mpsc::channel();
        let waiting = std::thread::spawn(move || {
            behind.waits_for_writes().expect("is noted in time");
            told.send(()).expect("is heard");
        });
        assert!(heard.recv_timeout(Duration::from_millis(50)).is_err(), "the write is not noted");
        write.is_noted();
        heard.recv_timeout(Duration::from_secs(20)).expect("goes on");
        waiting.join().expect("ends");
    }

    #[test]
    fn an_answer_without_a_reading_makes_none_known() {
        let marks = Shared::default();
        read(&marks, "a").made();
        drop(read(&marks, "a"));
        // The gate says for certain that it has read nothing.
        let refused = Delivery::begin(&marks, "a".to_owned());
        refused.reads();
        refused.tells_nothing();
        refused.made();
        assert_eq!(unsure(&marks), ["a"]);
        // Here it may have read.
        let silent = Delivery::begin(&marks, "a".to_owned());
        silent.reads();
        silent.made();
        assert_eq!(unsure(&marks), ["a", "a"]);
    }

    #[test]
    fn what_a_write_tells_is_not_known_before_it_was_told() {
        let marks = Shared::default();
        read(&marks, "a").made();
        read(&marks, "b").made();
        let write = Delivery::begin(&marks, "w".to_owned());
        write.writes();
        let other = Delivery::begin(&marks, "w".to_owned());
        write.tells_outcome("done".to_owned());
        write.made();
        assert_eq!(other.unsure(), ["a", "b"], "it came before");
        other.tells_outcome(String::new());
        other.made();
        assert_eq!(unsure(&marks), [""; 0]);
        let cancelled = Delivery::begin(&marks, "w".to_owned());
        cancelled.writes();
        let thread = Arc::clone(&cancelled);
        drop(cancelled);
        // While the gate works on it, an answer that reaches the client settles nothing that comes later.
        read(&marks, "a").made();
        assert_eq!(unsure(&marks), ["a", "b"]);
        thread.tells_outcome("it was done".to_owned());
        drop(thread);
        assert_eq!(unsure(&marks), ["a", "b"]);
        assert_eq!(lock(&marks).take_untold(), ["it was done"]);
        assert_eq!(lock(&marks).take_untold(), [""; 0]);
    }

    #[test]
    fn a_call_that_was_left_open_is_unsure_until_its_outcome_is_told() {
        let marks = Shared::default();
        read(&marks, "a").made();
        let write = Delivery::begin(&marks, "w".to_owned());
        write.writes();
        write.leaves_open(Some(7));
        write.made();
        read(&marks, "a").made();
        assert_eq!((unsure(&marks), lock(&marks).open()), (vec!["a".to_owned()], vec![7]));
        let asked = |line: &str| {
            let asked = Delivery::begin(&marks, String::new());
            asked.asks_for(7);
            asked.tells_outcome(line.to_owned());
            asked
        };
        asked("").made();
        drop(asked("done"));
        assert_eq!(unsure(&marks), ["a"], "it was not told");
        asked("done").made();
        assert_eq!(unsure(&marks), [""; 0]);
        let write = Delivery::begin(&marks, "w".to_owned());
        write.leaves_open(Some(9));
        write.made();
        lock(&marks).ended(9, "it failed".to_owned());
        assert_eq!((unsure(&marks), lock(&marks).take_untold()), (vec!["a".to_owned()], vec!["it failed".to_owned()]));
    }

    #[test]
    fn what_was_read_before_the_gateway_knew_the_session_is_unsure_until_it_is_read() {
        let sessions = Sessions::default();
        let marks = sessions.named("ses_1");
        assert!(lock(&marks).is_unknown());
        lock(&marks).follow(vec!["a".to_owned()]);
        assert_eq!(unsure(&sessions.named("ses_1")), ["a", "a"]);
        read(&marks, "a").made();
        assert_eq!(unsure(&marks), [""; 0]);
        assert_eq!(unsure(&sessions.named("ses_2")), [""; 0], "another's does not count");
    }
}
