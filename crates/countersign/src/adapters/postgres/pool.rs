//! So many connections and no more. Anyone who finds none free waits, until its own deadline.

use super::failure::Failure;
use super::session::Session;
use super::settings::Settings;
use countersign_core::call::{Found, FoundCode};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The connections of one adapter.
pub struct Pool {
    settings: Settings,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    idle: Vec<Session>,
    out: usize,
}

impl Pool {
    /// An empty pool: connections are made when they are needed.
    pub fn new(settings: Settings) -> Self {
        Self { settings, state: Mutex::default(), freed: Condvar::new() }
    }

    /// What it connects to.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A connection; the one used last, since its caches are warm.
    pub fn take(&self, deadline: Instant) -> Result<Lease<'_>, Failure> {
        let mut state = self.state();
        loop {
            if let Some(session) = state.idle.pop() {
                state.out += 1;
                return Ok(Lease { pool: self, session: Some(session) });
            }
            if state.out < self.settings.pool {
                state.out += 1;
                break;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let busy = FoundCode::ConnectionsInUse.number(self.settings.pool);
                return Err(Failure::Busy(Found::not_sent(busy)));
            }
            state = self.freed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        let mut lease = Lease { pool: self, session: None };
        lease.session = Some(Session::open(&self.settings, deadline)?);
        Ok(lease)
    }

    /// Forgets connections that no one uses: one of them broke, so the others of its age did too.
    pub fn forget_idle(&self) {
        let idle = std::mem::take(&mut self.state().idle);
        drop(idle);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection in use. Unless it is given back it is closed, and with it whatever transaction it was in.
pub struct Lease<'a> {
    pool: &'a Pool,
    session: Option<Session>,
}

impl Lease<'_> {
    /// The connection.
    pub fn session(&mut self) -> Result<&mut Session, Failure> {
        self.session.as_mut().ok_or_else(|| Failure::Lost(Found::not_sent(FoundCode::ConnectionEnded.alone())))
    }

    /// Gives back a connection that is in no transaction.
    pub fn give_back(mut self) {
        if let Some(mut session) = self.session.take() {
            session.used = true;
            self.pool.state().idle.push(session);
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        // The connection is closed before its place is free, so that there are never more than allowed.
        drop(self.session.take());
        self.pool.state().out -= 1;
        self.pool.freed.notify_one();
    }
}
