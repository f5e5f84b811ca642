//! Turns at external servers: who may change what is there, and who relies on it meanwhile.
//!
//! In memory only: after a restart, the turns of what had not settled are taken again. All turns that one call needs are taken at
//! once, so no two wait for each other; first come, first served, and whoever waits to change something goes before those who came
//! later and only rely on it.

use parking_lot::{Condvar, Mutex};
use smol_str::SmolStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often those who wait look whether they are to end.
const ROUND: Duration = Duration::from_millis(50);

/// What a turn is at: a server, and whether it is for one alone.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    server: SmolStr,
    is_alone: bool,
}

/// The turns of all servers.
#[derive(Debug, Default)]
pub(super) struct Turns {
    inner: Mutex<Inner>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    /// In the order in which they came.
    waiting: Vec<(u64, Vec<Wanted>)>,
    held: Vec<Taken>,
}

#[derive(Debug)]
struct Taken {
    number: u64,
    wanted: Vec<Wanted>,
    /// Until when, of one that no one holds any more.
    until: Option<Instant>,
}

/// A turn. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Arc<Turns>,
    number: u64,
}

fn conflict(one: &[Wanted], other: &[Wanted]) -> bool {
    one.iter().any(|a| other.iter().any(|b| a.server == b.server && (a.is_alone || b.is_alone)))
}

impl Turns {
    /// Waits for a turn alone at one server, and beside others at those that are relied on. `None` if it is to end first.
    pub(super) fn take(
        self: &Arc<Self>,
        target: &SmolStr,
        rests_on: impl Iterator<Item = SmolStr>,
        is_ending: impl Fn() -> bool,
    ) -> Option<Turn> {
        let mut wanted = vec![Wanted { server: target.clone(), is_alone: true }];
        for server in rests_on {
            if !wanted.iter().any(|known| known.server == server) {
                wanted.push(Wanted { server, is_alone: false });
            }
        }
        let mut inner = self.inner.lock();
        let number = inner.next;
        inner.next = inner.next.wrapping_add(1);
        inner.waiting.push((number, wanted));
        loop {
            let now = Instant::now();
            inner.held.retain(|taken| taken.until.is_none_or(|until| now < until));
            if inner.grant(number) {
                return Some(Turn { turns: Arc::clone(self), number });
            }
            if is_ending() {
                inner.waiting.retain(|(waits, _)| *waits != number);
                self.freed.notify_all();
                return None;
            }
            let ends = inner.held.iter().filter_map(|taken| taken.until).min();
            let wait = ends.map_or(ROUND, |at| at.saturating_duration_since(now).min(ROUND));
            self.freed.wait_for(&mut inner, wait);
        }
    }

    /// Takes a turn at once for something that may still be on its way from an earlier life, for as long as that may be.
    pub(super) fn linger(&self, server: SmolStr, how_long: Duration) {
        let mut inner = self.inner.lock();
        let number = inner.next;
        inner.next = inner.next.wrapping_add(1);
        let wanted = vec![Wanted { server, is_alone: true }];
        inner.held.push(Taken { number, wanted, until: Some(Instant::now() + how_long) });
    }
}

impl Inner {
    /// Grants a turn if nothing that is held, or came earlier, is in its way.
    fn grant(&mut self, number: u64) -> bool {
        let Some(at) = self.waiting.iter().position(|(waits, _)| *waits == number) else { return false };
        let Some((_, wanted)) = self.waiting.get(at) else { return false };
        let earlier = self.waiting.iter().take(at).any(|(_, other)| conflict(wanted, other));
        if earlier || self.held.iter().any(|taken| conflict(wanted, &taken.wanted)) {
            return false;
        }
        let (number, wanted) = self.waiting.remove(at);
        self.held.push(Taken { number, wanted, until: None });
        true
    }
}

impl Turn {
    /// Keeps the turn for some time without anyone: what was sent may still have its effect.
    pub(super) fn keep_for(self, how_long: Duration) {
        let mut inner = self.turns.inner.lock();
        if let Some(taken) = inner.held.iter_mut().find(|taken| taken.number == self.number) {
            taken.until = Some(Instant::now() + how_long);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut inner = self.turns.inner.lock();
        inner.held.retain(|taken| taken.number != self.number || taken.until.is_some());
        drop(inner);
        self.turns.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn take(turns: &Arc<Turns>, target: &str, rests_on: &[&str]) -> Option<Turn> {
        // Tried once: what does not come at once is told to end.
        turns.take(&target.into(), rests_on.iter().map(SmolStr::new), || true)
    }

    #[test]
    fn a_server_is_changed_by_one_and_not_while_others_rely_on_it() {
        let turns = Arc::new(Turns::default());
        let first = take(&turns, "bank", &["mail"]).unwrap();
        assert!(take(&turns, "bank", &[]).is_none(), "it is changed already");
        assert!(take(&turns, "mail", &[]).is_none(), "it is relied on");
        let beside = take(&turns, "notes", &["mail"]).unwrap();
        assert!(take(&turns, "files", &["bank"]).is_none(), "what is being changed is not relied on");
        drop(first);
        assert!(take(&turns, "mail", &[]).is_none());
        drop(beside);
        assert!(take(&turns, "mail", &["bank"]).is_some());
    }

    #[test]
    fn what_may_still_have_its_effect_keeps_its_turn_for_a_while() {
        let turns = Arc::new(Turns::default());
        take(&turns, "bank", &[]).unwrap().keep_for(Duration::from_secs(3600));
        turns.linger("mail".into(), Duration::from_secs(3600));
        assert!(take(&turns, "bank", &[]).is_none());
        assert!(take(&turns, "notes", &["mail"]).is_none());
        turns.linger("files".into(), Duration::ZERO);
        assert!(take(&turns, "files", &[]).is_some());
    }

    #[test]
    fn whoever_waits_to_change_goes_before_those_who_come_later_and_rely() {
        let turns = Arc::new(Turns::default());
        let held = take(&turns, "notes", &["bank"]).unwrap();
        let order = Arc::new(AtomicUsize::new(0));
        let writer = {
            let (turns, order) = (Arc::clone(&turns), Arc::clone(&order));
            std::thread::spawn(move || {
                let turn = turns.take(&"bank".into(), std::iter::empty(), || false).unwrap();
                order.fetch_add(1, Ordering::SeqCst);
                drop(turn);
            })
        };
        while turns.inner.lock().waiting.is_empty() {
            std::thread::yield_now();
        }
        // It could share with what is held, and would starve the writer if it did.
        assert!(take(&turns, "files", &["bank"]).is_none());
        assert_eq!(order.load(Ordering::SeqCst), 0);
        drop(held);
        writer.join().unwrap();
        assert_eq!(order.load(Ordering::SeqCst), 1);
    }
}
