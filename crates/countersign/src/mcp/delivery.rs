//! What has reached a client of what was read for it, and what may not have.
//!
//! A reading counts once its content was handed to the client before the write came (R2). So every answer carries a mark from the call
//! that it answers to the last byte that leaves; dropped anywhere on the way, it is lost. What is lost, or was still on its way when a
//! write came, is named with that write (`unsure`), and the gate decides what then counts. When in doubt a reading is called unsure: that
//! can refuse a write once more than necessary, and never lets one pass.

pub mod arrivals;
mod doubts;
mod on_its_way;
mod sessions;

pub use self::doubts::Doubt;
pub use self::sessions::Sessions;

use self::arrivals::{Arrivals, Input};
use self::on_its_way::{Known, OnItsWay, Readings, Telling};

use crate::client::Call;
use countersign_api::LOG_HEADER;
use countersign_core::ids::Digest;
use countersign_core::screen::visible::one_line;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a call waits until what the writes before it rest on is noted.
const NOTED_WITHIN: Duration = Duration::from_secs(30);

/// The gate took too long over a write that came before.
#[derive(Debug)]
pub struct TooLong;

/// The most names of readings that are kept. A session has fewer, so only a gate that does not say what it kept can lead to more.
const READ_MAX: usize = 1024;
/// The most warnings that are remembered as given; when there are more, all are forgotten, and given again.
const WARNED_MAX: usize = 4096;
/// The most outcomes that reached no one and are still to be told.
const UNTOLD_MAX: usize = 16;
/// The longest of them.
const UNTOLD_BYTES_MAX: usize = 256;

/// What may not have reached the client of one session. Names are those of readings.
#[derive(Debug, Default)]
pub struct Marks {
    on_their_way: Vec<Arc<OnItsWay>>,
    /// Of these, those that have left, with their places. They count as arrived for messages behind them.
    left: VecDeque<Left>,
    arrivals: Arrivals,
    /// The place up to which answers count as arrived.
    arrived: u64,
    /// What was read in this session, as far as the gate may have kept it.
    read: BTreeSet<String>,
    /// Whether more was read than is remembered here.
    is_overfull: bool,
    /// Whether an answer that holds a reading has arrived in this session.
    has_arrived: bool,
    /// How often the session was gone at the gate.
    gone: u64,
    /// Of how many of these times its client was told.
    gone_told: u64,
    /// How many answers never arrived, since the last one of this name that did.
    lost: Arc<BTreeMap<String, usize>>,
    /// What was read before the session was cut off; and how many calls had come when it was delivered again, if it was. Which answer of
    /// it a client has that came before then is not known.
    cut_off: BTreeMap<String, Option<u64>>,
    /// How many calls have come.
    calls: u64,
    /// Effects whose calls were left open, and whose outcome was not told.
    open: BTreeSet<u64>,
    /// Calls in doubt, by what was called.
    doubts: BTreeMap<String, Doubt>,
    /// Outcomes that reached no one.
    untold: VecDeque<String>,
    /// What its client was warned of: where it was read, and since when it reads differently.
    warned: BTreeSet<Warned>,
    /// The session, where single requests name it.
    named: Option<Named>,
    /// The log in which the session was opened.
    log: Option<String>,
    /// The client that a single request says that it comes from.
    client: Option<Digest>,
}

/// What a client is warned of: by which tool and with which arguments it was read, and since when it reads differently.
pub type Warned = (String, String, u64);

/// A session that single requests name.
#[derive(Debug, Clone)]
pub struct Named {
    /// As the gate knows it. Anyone can guess that.
    pub name: String,
    /// As the client is told, and no one else.
    pub told: String,
}

/// The marks of one session.
pub type Shared = Arc<Mutex<Marks>>;

/// The marks, for a moment.
pub fn lock(marks: &Shared) -> MutexGuard<'_, Marks> {
    marks.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Marks {
    /// The session is gone, and another takes its place: nothing was read in it yet, and its client is to be told.
    pub fn begin_again(&mut self) {
        // What they told was of the session that is gone.
        for left in std::mem::take(&mut self.left) {
            self.on_their_way.retain(|one| !Arc::ptr_eq(one, &left.this));
            if let Telling::Gone(gone) = *left.this.telling() {
                self.gone_told = self.gone_told.max(gone);
            }
        }
        self.read.clear();
        self.lost = Arc::default();
        self.cut_off.clear();
        (self.is_overfull, self.has_arrived) = (false, false);
        self.gone = self.gone.saturating_add(1);
    }

    /// Its client writes to standard input.
    pub fn is_over(&mut self, input: Arc<Input>) {
        self.arrivals = Arrivals::OverStdio(input);
    }

    /// A message stands at this place: what left before has arrived.
    fn arrive_up_to(&mut self, place: u64) {
        while let Some(left) = self.left.pop_front_if(|left| left.place <= place) {
            self.arrived = self.arrived.max(left.place);
            self.arrive(left);
        }
    }

    fn arrive(&mut self, Left { this, lost_before, .. }: Left) {
        self.on_their_way.retain(|one| !Arc::ptr_eq(one, &this));
        let telling = this.telling().clone();
        match telling {
            Telling::Gone(gone) => self.gone_told = self.gone_told.max(gone),
            // Without a line it says that the call still goes on.
            Telling::Outcome { effect: Some(effect), line } if !line.is_empty() => {
                self.open.remove(&effect);
            }
            Telling::Read => {
                self.has_arrived = true;
                // What was lost since this call came may be newer.
                for name in &this.readings().names {
                    self.found(name, lost_before.get(name).copied().unwrap_or_default());
                }
            }
            _ => {}
        }
    }

    /// Whether more was read than is remembered, so that nothing can rest on it.
    pub fn is_overfull(&self) -> bool {
        self.is_overfull
    }

    /// What was read in this session, or is being read.
    fn names(&self) -> BTreeSet<String> {
        let may_read = |one: &&Arc<OnItsWay>| matches!(*one.telling(), Telling::Reads | Telling::Read);
        let on_their_way = self.on_their_way.iter().filter(may_read);
        self.read.iter().cloned().chain(on_their_way.flat_map(|one| one.readings().names)).collect()
    }

    /// The gate may have kept readings of these names.
    fn keeps(&mut self, names: &[String]) {
        for name in names {
            if self.read.len() < READ_MAX {
                self.read.insert(name.clone());
            }
            self.is_overfull |= !self.read.contains(name);
        }
    }

    fn lose(&mut self, readings: Readings) {
        self.keeps(&readings.names);
        let lost = Arc::make_mut(&mut self.lost);
        for name in readings.names.into_iter().filter(|name| self.read.contains(name)) {
            *lost.entry(name).or_default() += readings.each;
        }
    }

    /// An answer has arrived that came after so many that were lost.
    fn found(&mut self, name: &str, lost_before: usize) {
        // It was read here, so after everything that was read before the session was cut off.
        if let Some(delivered @ None) = self.cut_off.get_mut(name) {
            *delivered = Some(self.calls);
        }
        if !self.lost.contains_key(name) {
            return;
        }
        let lost = Arc::make_mut(&mut self.lost);
        if let Some(lost) = lost.get_mut(name) {
            *lost = lost.saturating_sub(lost_before);
        }
        lost.retain(|_, lost| *lost > 0);
    }

    /// What would have told the difference of any reading did not arrive.
    fn lose_all(&mut self) {
        let names = self.names();
        let lost = Arc::make_mut(&mut self.lost);
        for name in names {
            *lost.entry(name).or_default() += 1;
        }
    }

    /// Nothing is known to be lost of what no one reads any more, and the gate did not keep.
    fn forget_unkept(&mut self, names: &[String]) {
        if names.iter().any(|name| self.lost.contains_key(name)) {
            let known = self.names();
            Arc::make_mut(&mut self.lost).retain(|name, _| known.contains(name));
        }
    }

    /// An outcome that reached no one is told with the next answer.
    pub fn keep_untold(&mut self, line: String) {
        if !line.is_empty() && self.untold.len() < UNTOLD_MAX {
            self.untold.push_back(line);
        }
    }

    /// What is still to be told of outcomes that reached no one, as far as there is room.
    fn take_untold(&mut self, room: &mut usize) -> Vec<String> {
        let mut told = Vec::new();
        while let Some(line) = self.untold.pop_front_if(|line| line.len() < *room) {
            *room = room.saturating_sub(line.len()).saturating_sub(1);
            told.push(line);
        }
        told
    }

    /// Whether its client was not warned of this yet. From now on it was.
    fn warns(&mut self, warned: Warned) -> bool {
        if self.warned.len() >= WARNED_MAX {
            self.warned.clear();
        }
        self.warned.insert(warned)
    }

    /// What an answer carried that did not arrive is to be told with another.
    fn take_back(&mut self, carried: Carried) {
        carried.untold.into_iter().rev().for_each(|line| self.untold.push_front(line));
        carried.warned.iter().for_each(|warned| {
            self.warned.remove(warned);
        });
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

    /// The session was cut off, and is gone on in: of what was read in it, and of what its calls under way will have changed, it is not
    /// known what reached the client.
    pub fn follow(&mut self, unsure: Vec<String>, open: impl IntoIterator<Item = u64>) {
        self.keeps(&unsure);
        self.cut_off.extend(unsure.into_iter().map(|name| (name, None)));
        self.open.extend(open);
    }

    /// The session was opened in this log.
    pub fn is_in(&mut self, log: String) {
        self.log = Some(log);
    }

    /// A request that names the session, with the log in which that was opened.
    pub fn in_log(&self, call: Call) -> Call {
        match &self.log {
            Some(log) => call.header(LOG_HEADER, log.as_str()),
            None => call,
        }
    }

    /// Notes which client a single request says that it comes from.
    pub fn is_of(&mut self, client: Option<Digest>) {
        self.client = client;
    }

    /// The session, where single requests name it.
    pub fn named(&self) -> Option<&Named> {
        self.named.as_ref()
    }

    /// What a write cannot be sure that the client knows: what was on its way when it came, and what was lost. A name that is there
    /// twice stands for two answers, of which the client may know neither.
    fn unsure(&self, before: &Before) -> Vec<String> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        // What a call tells that may write is the difference of any reading.
        let mut of_all = self.open.union(&before.open).count();
        if before.is_overtaken {
            of_all += 2;
        }
        for one in &before.on_their_way {
            let telling = one.telling();
            if matches!(*telling, Telling::Unknown | Telling::Reads | Telling::Read) {
                let Readings { names, each } = one.readings();
                for name in names {
                    *counts.entry(name).or_default() += each;
                }
            }
            if matches!(*telling, Telling::Unknown | Telling::Writes | Telling::Outcome { .. }) {
                of_all += 1;
            }
        }
        for name in self.names() {
            // What has arrived since then was not known when the write came.
            let lost = |lost: &BTreeMap<String, usize>| lost.get(&name).copied().unwrap_or_default();
            let lost = lost(&self.lost).max(lost(&before.lost));
            if lost + of_all > 0 {
                *counts.entry(name).or_default() += lost + of_all;
            }
        }
        for (name, delivered) in &self.cut_off {
            // Delivered here before this call came, it is known whatever came before.
            if delivered.is_none_or(|calls| before.calls <= calls) {
                *counts.entry(name.clone()).or_default() += 2;
            }
        }
        counts.into_iter().flat_map(|(name, count)| std::iter::repeat_n(name, count.min(2))).collect()
    }
}

/// What had not arrived when a call came.
#[derive(Debug)]
struct Before {
    on_their_way: Vec<Arc<OnItsWay>>,
    lost: Arc<BTreeMap<String, usize>>,
    open: BTreeSet<u64>,
    /// How many calls had come, this one among them.
    calls: u64,
    has_arrived: bool,
    gone_told: u64,
    /// Whether a call that came later was looked at first, so that it is not known what had arrived.
    is_overtaken: bool,
}

/// An answer that has left.
#[derive(Debug)]
struct Left {
    /// It stands behind everything that its client had sent before.
    place: u64,
    this: Arc<OnItsWay>,
    /// How many answers had been lost when its call came.
    lost_before: Arc<BTreeMap<String, usize>>,
}

/// What an answer tells beside its own: if it does not arrive, another does.
#[derive(Debug, Default)]
struct Carried {
    untold: Vec<String>,
    warned: Vec<Warned>,
}

/// An answer on its way to the client. Dropped before it was made, it is lost: what it tells may have been kept, and counts as not
/// told. It is held by the answer and by the thread that asks the gate, so it is not lost before the gate has said its last word.
#[derive(Debug)]
pub struct Delivery {
    marks: Shared,
    this: Arc<OnItsWay>,
    before: Before,
    carried: Mutex<Carried>,
    is_over: Mutex<bool>,
}

impl Delivery {
    /// A call that came at this place, and may read under this name.
    pub fn begin(marks: &Shared, name: String, place: u64) -> Arc<Self> {
        let names = Some(name).filter(|name| !name.is_empty()).into_iter().collect();
        let this = Arc::new(OnItsWay {
            readings: Mutex::new(Readings { names, each: 1 }),
            telling: Mutex::new(Telling::Unknown),
            known: Mutex::new(Known::Come),
            changed: Condvar::new(),
        });
        let mut known = lock(marks);
        known.arrive_up_to(place);
        known.calls = known.calls.saturating_add(1);
        let is_overtaken = place < known.arrived;
        let before = Before {
            is_overtaken,
            on_their_way: known.on_their_way.clone(),
            lost: Arc::clone(&known.lost),
            open: known.open.clone(),
            has_arrived: known.has_arrived && !is_overtaken,
            gone_told: if is_overtaken { 0 } else { known.gone_told },
            calls: known.calls,
        };
        known.on_their_way.push(Arc::clone(&this));
        let (marks, carried, is_over) = (Arc::clone(marks), Mutex::default(), Mutex::new(false));
        Arc::new(Self { marks, this, before, carried, is_over })
    }

    /// The marks of its session.
    pub fn marks(&self) -> &Shared {
        &self.marks
    }

    /// Readings that the client may not know as the session has them, at the time this call came.
    pub fn unsure(&self) -> Vec<String> {
        lock(&self.marks).unsure(&self.before)
    }

    /// Whether an answer that holds a reading had arrived when this call came.
    pub fn knows_a_reading(&self) -> bool {
        self.before.has_arrived
    }

    /// Whether the session was gone at the gate, and its client had not been told when it sent this call. Then this answer tells it.
    pub fn tells_gone(&self) -> bool {
        let gone = lock(&self.marks).gone;
        let is_untold = gone > self.before.gone_told;
        if is_untold {
            self.tells(Telling::Gone(gone));
        }
        is_untold
    }

    /// What is told with this answer beside its own, in a line each and as far as there is room: what became of calls whose answers
    /// reached no one, and those of these warnings that were not given yet. If it is lost, they are told with another.
    pub fn carries(&self, warnings: impl IntoIterator<Item = (Warned, String)>, mut room: usize) -> Vec<String> {
        let mut marks = lock(&self.marks);
        let mut carried = self.carried.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = marks.take_untold(&mut room);
        carried.untold.extend(lines.iter().cloned());
        for (warned, line) in warnings {
            if line.len() < room && marks.warns(warned.clone()) {
                room = room.saturating_sub(line.len()).saturating_sub(1);
                lines.push(line);
                carried.warned.push(warned);
            }
        }
        lines
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
        self.waits_for(Known::Noted)
    }

    /// Waits until it is known which readings the calls before this one may make: what they keep before this one is noted has not
    /// arrived. An error if the gate takes too long.
    pub fn waits_for_names(&self) -> Result<(), TooLong> {
        self.waits_for(Known::Named)
    }

    fn waits_for(&self, wanted: Known) -> Result<(), TooLong> {
        let until = Instant::now() + NOTED_WITHIN;
        let left = || until.saturating_duration_since(Instant::now());
        let is_known = |one: &Arc<OnItsWay>| one.is_known_within(wanted, left());
        if self.before.on_their_way.iter().all(is_known) { Ok(()) } else { Err(TooLong) }
    }

    /// If it reads, it reads what its arguments name.
    pub fn is_named(&self) {
        self.this.become_known(Known::Named);
    }

    /// What it reads is kept under these names, each so often, and not under that of the call: as the source of facts, a tool is called
    /// with arguments in one spelling.
    pub fn keeps_as(&self, names: Vec<String>, each: usize) {
        *self.this.readings.lock().unwrap_or_else(PoisonError::into_inner) = Readings { names, each };
        self.is_named();
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
        self.tells(Telling::Reads);
    }

    /// Its answer holds what was read.
    pub fn tells_reading(&self) {
        lock(&self.marks).keeps(&self.this.readings().names);
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
        self.this.note();
        let telling = self.this.telling().clone();
        if is_made && matches!(telling, Telling::Read | Telling::Outcome { .. } | Telling::Gone(_)) {
            let (this, lost_before) = (Arc::clone(&self.this), Arc::clone(&self.before.lost));
            let place = marks.arrivals.leaves();
            return marks.left.push_back(Left { place, this, lost_before });
        }
        marks.on_their_way.retain(|one| !Arc::ptr_eq(one, &self.this));
        if !is_made {
            marks.take_back(std::mem::take(&mut *self.carried.lock().unwrap_or_else(PoisonError::into_inner)));
        }
        let readings = self.this.readings();
        match telling {
            Telling::Nothing => marks.forget_unkept(&readings.names),
            // What was left open can be asked for again.
            Telling::LeftOpen | Telling::Gone(_) | Telling::Outcome { effect: Some(_), .. } => {}
            Telling::Outcome { effect: None, line } => {
                marks.lose_all();
                marks.keep_untold(line);
            }
            Telling::Read | Telling::Reads => marks.lose(readings),
            Telling::Writes | Telling::Unknown => marks.lose_all(),
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.end(false);
    }
}

#[cfg(test)]
mod tests;
