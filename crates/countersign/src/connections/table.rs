//! All connections of a listener: what each is doing, and which one has to go.

use super::Limits;
use crate::tls::Certificate;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// From when on an answer is one that lasts. Those that end sooner were looked at when their request came.
const LASTS_MS: u64 = 1000;

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The head of a request has not wholly arrived.
    Head = 0,
    /// The body of a request has not wholly arrived.
    Body = 1,
    /// A request is being answered.
    Working = 2,
    /// The last request was answered, and no byte of the next has come.
    Idle = 3,
}

/// Whether a connection is to end without further ado.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    No = 0,
    /// Unless its request has arrived just now: what the gate is at work on is answered.
    UnlessWorking = 1,
    /// The answer is not read.
    Anyway = 2,
}

/// One connection, as seen from outside its task. Nothing depends on the order of its fields' changes: each is read alone, and a
/// reading that is a little late only makes a connection last a little longer.
#[derive(Debug)]
pub struct Slot {
    began: Instant,
    /// Milliseconds since `began`, and the state entered then in the lowest two bits.
    state: AtomicU64,
    /// Since when the client does not read, in milliseconds after `began`, or zero.
    unread_ms: AtomicU64,
    is_proved: AtomicBool,
    cut: AtomicU8,
    told: Notify,
    is_ending: AtomicBool,
    ending: Notify,
    peer: Option<IpAddr>,
    body_within: Duration,
    /// Set once TLS is spoken: with the client's certificate, if it has shown one.
    secured: OnceLock<Option<Certificate>>,
}

impl Slot {
    fn new(peer: Option<IpAddr>, body_within: Duration) -> Self {
        Self {
            began: Instant::now(),
            state: AtomicU64::new(State::Head as u64),
            unread_ms: AtomicU64::new(0),
            is_proved: AtomicBool::new(false),
            cut: AtomicU8::new(Cut::No as u8),
            told: Notify::new(),
            is_ending: AtomicBool::new(false),
            ending: Notify::new(),
            peer,
            body_within,
            secured: OnceLock::new(),
        }
    }

    /// How long the body of a request may take to arrive.
    pub fn body_within(&self) -> Duration {
        self.body_within
    }

    /// Where the client is; `None` on loopback and on a socket of this machine.
    pub fn peer(&self) -> Option<IpAddr> {
        self.peer
    }

    /// TLS is spoken from here on.
    pub(super) fn secure(&self, certificate: Option<Certificate>) {
        // There is one handshake for each connection.
        drop(self.secured.set(certificate));
    }

    /// Whether TLS is spoken.
    pub fn is_tls(&self) -> bool {
        self.secured.get().is_some()
    }

    /// The certificate that the client has shown.
    pub fn certificate(&self) -> Option<&Certificate> {
        self.secured.get()?.as_ref()
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn enter(&self, state: State) {
        self.state.store(self.now_ms() << 2 | state as u64, Ordering::Relaxed);
    }

    pub(super) fn state(&self) -> State {
        match self.state.load(Ordering::Relaxed) & 3 {
            0 => State::Head,
            1 => State::Body,
            2 => State::Working,
            _ => State::Idle,
        }
    }

    /// How long it has been in its state.
    fn waited_ms(&self) -> u64 {
        self.now_ms().saturating_sub(self.state.load(Ordering::Relaxed) >> 2)
    }

    /// A signed request has come over this connection: it is not given up before those that have shown nothing.
    pub fn prove(&self) {
        self.is_proved.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_read(&self, is_read: bool) {
        let unread_ms = self.unread_ms.load(Ordering::Relaxed);
        if is_read && unread_ms != 0 {
            self.unread_ms.store(0, Ordering::Relaxed);
        } else if !is_read && unread_ms == 0 {
            self.unread_ms.store(self.now_ms().max(1), Ordering::Relaxed);
        }
    }

    /// Why it must end, if it has taken too long over something.
    fn overdue(&self, limits: &Limits) -> Cut {
        let unread_ms = self.unread_ms.load(Ordering::Relaxed);
        if unread_ms != 0 && u128::from(self.now_ms().saturating_sub(unread_ms)) > limits.unread.as_millis() {
            return Cut::Anyway;
        }
        let most = match self.state() {
            State::Head => limits.header,
            // Anyone who reads the body answers first.
            State::Body => limits.body + limits.body / 2,
            State::Idle => limits.idle,
            State::Working => return Cut::No,
        };
        if u128::from(self.waited_ms()) > most.as_millis() { Cut::UnlessWorking } else { Cut::No }
    }

    fn cut(&self, how: Cut) {
        if how != Cut::No {
            self.cut.store(how as u8, Ordering::Relaxed);
            self.told.notify_one();
        }
    }

    /// Whether it is to end at once. To be asked by its own task, which alone changes its state.
    pub(super) fn is_cut(&self) -> bool {
        let cut = self.cut.load(Ordering::Relaxed);
        cut == Cut::Anyway as u8 || cut == Cut::UnlessWorking as u8 && self.state() != State::Working
    }

    fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
        self.ending.notify_waiters();
    }

    /// Resolves when the server ends: an answer that goes on for as long as it is read must not be waited for.
    pub async fn ending(&self) {
        // Registered before the look, so that an end in between is not missed.
        let ending = self.ending.notified();
        if !self.is_ending.load(Ordering::Relaxed) {
            ending.await;
        }
    }

    /// Resolves when it is to end.
    pub(super) async fn told(&self) {
        self.told.notified().await;
    }
}

/// All connections of a listener. Locked when one begins or ends, and never for a request.
pub struct Table {
    limits: Limits,
    places: Mutex<Places>,
    freed: Notify,
    is_ending: AtomicBool,
}

#[derive(Default)]
struct Places {
    next: u64,
    /// In the order of their beginning.
    taken: BTreeMap<u64, Arc<Slot>>,
    per_peer: HashMap<IpAddr, usize>,
}

impl Table {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, places: Mutex::default(), freed: Notify::new(), is_ending: AtomicBool::new(false) }
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn len(&self) -> usize {
        self.places().taken.len()
    }

    /// A place for a newcomer, if need be that of a client that keeps the gate waiting. `None` where all are being answered.
    pub(super) async fn admit(self: &Arc<Self>, peer: Option<IpAddr>) -> Option<Admitted> {
        loop {
            // Registered before anything is cut, so that the end of what is cut is not missed.
            let freed = self.freed.notified();
            let room = self.places().room(&self.limits, peer);
            match room {
                Room::Free(number, slot) => return Some(Admitted { table: Arc::clone(self), number, slot }),
                Room::Of(peer) if !self.shed(peer) => return None,
                Room::Of(_) => {}
            }
            freed.await;
        }
    }

    /// Cuts the connection that has kept the gate waiting for longest, of this peer or of all. Says whether one will end.
    pub(super) fn shed(&self, peer: Option<IpAddr>) -> bool {
        let places = self.places();
        let mut of_peer = places.taken.values().filter(|slot| peer.is_none() || slot.peer == peer);
        if of_peer.clone().any(|slot| slot.is_cut()) {
            // Its task has not come to it yet.
            return true;
        }
        let waiting = of_peer.by_ref().filter(|slot| slot.state() != State::Working);
        let longest = waiting.max_by_key(|slot| (!slot.is_proved.load(Ordering::Relaxed), slot.waited_ms()));
        longest.inspect(|slot| slot.cut(Cut::UnlessWorking)).is_some()
    }

    /// Cuts every connection that has taken too long.
    pub(super) fn cut_overdue(&self) {
        self.places().taken.values().for_each(|slot| slot.cut(slot.overdue(&self.limits)));
    }

    /// Cuts what goes on to be answered over a certificate that does not count any more. A request is looked at when it comes; this
    /// is for answers that last, such as a stream of events. Blocks while it verifies.
    pub(super) fn cut_uncertified(&self) {
        let lasts = |slot: &&Arc<Slot>| {
            slot.certificate().is_some() && slot.state() == State::Working && slot.waited_ms() > LASTS_MS
        };
        let lasting: Vec<Arc<Slot>> = self.places().taken.values().filter(lasts).cloned().collect();
        for slot in lasting {
            if slot.certificate().is_some_and(|certificate| certificate.still_counts().is_err()) {
                slot.cut(Cut::Anyway);
            }
        }
    }

    /// Ends all that there are: at once where no request has arrived, otherwise after the answer.
    pub(super) fn tell_all(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
        for slot in self.places().taken.values() {
            slot.end();
            match slot.state() {
                State::Head | State::Idle => slot.cut(Cut::UnlessWorking),
                State::Body | State::Working => slot.told.notify_one(),
            }
        }
    }

    /// Resolves when there is none.
    pub(super) async fn emptied(&self) {
        loop {
            let freed = self.freed.notified();
            if self.len() == 0 {
                return;
            }
            freed.await;
        }
    }
}

/// Whether there is room for one more.
enum Room {
    /// There is: this place.
    Free(u64, Arc<Slot>),
    /// Only if one ends: of this peer, or of all.
    Of(Option<IpAddr>),
}

impl Places {
    fn room(&mut self, limits: &Limits, peer: Option<IpAddr>) -> Room {
        let of_peer = peer.and_then(|peer| self.per_peer.get(&peer)).copied().unwrap_or_default();
        if of_peer >= limits.per_peer {
            return Room::Of(peer);
        }
        if self.taken.len() >= limits.connections {
            return Room::Of(None);
        }
        let slot = Arc::new(Slot::new(peer, limits.body));
        let number = self.next;
        self.next += 1;
        self.taken.insert(number, Arc::clone(&slot));
        if let Some(peer) = peer {
            *self.per_peer.entry(peer).or_default() += 1;
        }
        Room::Free(number, slot)
    }

    fn free(&mut self, number: u64) {
        let Some(peer) = self.taken.remove(&number).and_then(|slot| slot.peer) else { return };
        if let Some(count) = self.per_peer.get_mut(&peer) {
            *count -= 1;
            if *count == 0 {
                self.per_peer.remove(&peer);
            }
        }
    }
}

/// A place in the table, until it is dropped.
pub struct Admitted {
    table: Arc<Table>,
    number: u64,
    slot: Arc<Slot>,
}

impl Admitted {
    pub(super) fn slot(&self) -> &Arc<Slot> {
        &self.slot
    }

    /// Whether no further request is to be taken.
    pub(super) fn is_ending(&self) -> bool {
        self.table.is_ending.load(Ordering::Relaxed)
    }

    /// Takes back that it is to end: its request has arrived. The newcomer that waits for the place gets another.
    pub(super) fn spare(&self) {
        self.slot.cut.store(Cut::No as u8, Ordering::Relaxed);
        self.table.freed.notify_waiters();
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.table.places().free(self.number);
        self.table.freed.notify_waiters();
    }
}
