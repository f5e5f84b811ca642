//! An adapter that does as it is told: every attempt and every probe waits at the board until the trace says what it finds.

use countersign_core::call::{Evidence, FoundCode, Send};
use countersign_engine::outbox::{Adapter, Attempt, Job, Probed};
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Longer than the engine waits before it tries anything again; whatever takes longer is a failure.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Where a worker waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seat {
    /// Before an attempt: nothing has left.
    Attempt,
    /// Before it says what became of an attempt that a crash interrupted.
    Recover,
    /// After the request has left.
    Sent,
    /// Before it says what a probe found.
    Probe,
}

/// What a worker is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Send the request, unless halted.
    Send,
    /// The outside did it.
    Done,
    /// The outside refused.
    Refused,
    /// Nobody knows.
    Unknown,
    /// The probe found it.
    There,
    /// The probe found nothing.
    Absent,
}

#[derive(Debug, Default)]
struct Inner {
    seats: BTreeMap<usize, Seat>,
    orders: BTreeMap<usize, Order>,
    /// The idempotency keys that the outside was given for each action.
    keys: BTreeMap<usize, Vec<String>>,
    is_over: bool,
}

/// The board of one life of a gate.
#[derive(Debug, Default)]
pub struct Board {
    inner: Mutex<Inner>,
    changed: Condvar,
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    /// Where the worker of an action waits, if it does.
    pub fn seat(&self, action: usize) -> Option<Seat> {
        self.lock().seats.get(&action).copied()
    }

    /// Waits until the worker of an action is at one of some seats.
    pub fn expect(&self, action: usize, seats: &[Seat]) -> Result<Seat, String> {
        let until = Instant::now() + PATIENCE;
        let mut inner = self.lock();
        loop {
            match inner.seats.get(&action) {
                Some(seat) if seats.contains(seat) && !inner.orders.contains_key(&action) => return Ok(*seat),
                seat if Instant::now() > until => {
                    return Err(format!("worker of {action} is at {seat:?}, not {seats:?}"));
                }
                _ => inner = self.changed.wait_timeout(inner, Duration::from_millis(50)).unwrap().0,
            }
        }
    }

    /// Tells the worker of an action what to do.
    pub fn tell(&self, action: usize, order: Order) {
        self.lock().orders.insert(action, order);
        self.changed.notify_all();
    }

    /// Lets every worker go: its gate is dead.
    pub fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    /// The keys that the outside was given for each action.
    pub fn keys(&self) -> BTreeMap<usize, Vec<String>> {
        self.lock().keys.clone()
    }

    /// Sits down and waits for an order. `None` when the life is over.
    fn sit(&self, action: usize, seat: Seat) -> Option<Order> {
        let mut inner = self.lock();
        inner.seats.insert(action, seat);
        self.changed.notify_all();
        loop {
            if inner.is_over {
                return None;
            }
            if let Some(order) = inner.orders.remove(&action) {
                inner.seats.remove(&action);
                self.changed.notify_all();
                return Some(order);
            }
            inner = self.changed.wait_timeout(inner, Duration::from_millis(50)).unwrap().0;
        }
    }

    fn found(order: Option<Order>) -> Attempt {
        let evidence = Evidence::of(FoundCode::Resolved.said("as the trace says"));
        match order {
            Some(Order::Done) => Attempt::Done(evidence),
            Some(Order::Refused) => Attempt::Refused(evidence),
            _ => Attempt::Unknown(evidence),
        }
    }
}

/// The number of the action that a job belongs to: its path says it.
fn action_of(job: &Job<'_>) -> usize {
    match &job.call.send {
        Some(Send::Http { path, .. }) => path.trim_start_matches('/').parse().unwrap(),
        other => panic!("{other:?} is not a call of these tests"),
    }
}

impl Adapter for Board {
    fn attempt(&self, job: &Job<'_>) -> Attempt {
        let action = action_of(job);
        match self.sit(action, Seat::Attempt) {
            Some(Order::Send) if job.judge.stopped().is_some() => {
                Attempt::NotSent(Evidence::of(FoundCode::Stopped.about("halted")))
            }
            Some(Order::Send) => {
                self.lock().keys.entry(action).or_default().push(job.key.to_owned());
                Self::found(self.sit(action, Seat::Sent))
            }
            order => Self::found(order),
        }
    }

    fn recover(&self, job: &Job<'_>) -> Attempt {
        Self::found(self.sit(action_of(job), Seat::Recover))
    }

    fn probe(&self, job: &Job<'_>) -> Probed {
        let evidence = Evidence::of(FoundCode::Resolved.said("as the trace says"));
        match self.sit(action_of(job), Seat::Probe) {
            Some(Order::There) => Probed::There(evidence),
            Some(Order::Absent) => Probed::Absent(evidence),
            _ => Probed::Unknown(evidence),
        }
    }

    fn concurrency(&self) -> usize {
        4
    }
}
