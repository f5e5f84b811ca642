//! Requests refused at the door, counted until they are written down: in bounded memory, and at most one entry a second.
//!
//! One place for all of them, so that no caller without a right can make the ledger grow faster than that. What was counted and
//! not written is lost only by a crash, and it is never more than a second's.

use countersign_core::denial::{DenialCode, Denied, sample};
use countersign_core::ids::AgentId;
use countersign_core::limits::DENIAL_LINES_MAX;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// How long denials are counted before they are written down, in ledger milliseconds.
const WRITTEN_EVERY_MS: u64 = 1000;

/// What was denied since the last entry, and in all.
#[derive(Debug, Default)]
pub struct Denials {
    lines: Mutex<Lines>,
    totals: [AtomicU64; DenialCode::ALL.len()],
}

#[derive(Debug, Default)]
struct Lines {
    /// By agent and code; without an agent for those that there was no room to name.
    counted: BTreeMap<(Option<AgentId>, DenialCode), Denied>,
    written_ms: u64,
}

impl Denials {
    /// Counts a denial. `asked` says in a few words what was asked for; it must hold no fact's id, which may be personal data.
    pub fn note(&self, agent: &AgentId, code: DenialCode, asked: &str, now_ms: u64) {
        let mut lines = self.lines.lock();
        let mut key = (Some(agent.clone()), code);
        if lines.counted.len() >= DENIAL_LINES_MAX && !lines.counted.contains_key(&key) {
            key.0 = None;
        }
        let line = lines.counted.entry(key.clone()).or_insert_with(|| Denied {
            agent: key.0,
            code,
            count: 0,
            first_ms: now_ms,
            last_ms: now_ms,
            sample: sample(asked),
        });
        line.count = line.count.saturating_add(1);
        line.last_ms = line.last_ms.max(now_ms);
        drop(lines);
        if let Some(total) = DenialCode::ALL.iter().position(|each| *each == code).and_then(|at| self.totals.get(at)) {
            total.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often each code was the reason since the gate was opened.
    pub fn totals(&self) -> impl Iterator<Item = (DenialCode, u64)> {
        DenialCode::ALL.into_iter().zip(&self.totals).map(|(code, total)| (code, total.load(Ordering::Relaxed)))
    }

    /// Takes what is to be written down, once a second has passed since the last time.
    pub(crate) fn due(&self, now_ms: u64) -> Option<Vec<Denied>> {
        let mut lines = self.lines.lock();
        if lines.counted.is_empty() || now_ms < lines.written_ms.saturating_add(WRITTEN_EVERY_MS) {
            return None;
        }
        lines.written_ms = now_ms;
        Some(std::mem::take(&mut lines.counted).into_values().collect())
    }

    /// Takes what is left when the gate closes.
    pub(crate) fn rest(&self) -> Option<Vec<Denied>> {
        let lines = std::mem::take(&mut self.lines.lock().counted);
        Some(lines.into_values().collect()).filter(|lines: &Vec<_>| !lines.is_empty())
    }

    /// Puts back what could not be written down: no count is lost.
    pub(crate) fn put_back(&self, denied: Vec<Denied>) {
        let mut lines = self.lines.lock();
        for line in denied {
            let mut key = (line.agent.clone(), line.code);
            if lines.counted.len() >= DENIAL_LINES_MAX && !lines.counted.contains_key(&key) {
                key.0 = None;
            }
            match lines.counted.get_mut(&key) {
                Some(counted) => {
                    counted.count = counted.count.saturating_add(line.count);
                    counted.first_ms = counted.first_ms.min(line.first_ms);
                    counted.last_ms = counted.last_ms.max(line.last_ms);
                    counted.sample = line.sample;
                }
                None => drop(lines.counted.insert(key.clone(), Denied { agent: key.0, ..line })),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::denial::check_denials;

    fn agent(number: usize) -> AgentId {
        AgentId::new(format!("agent-{number:06}")).unwrap()
    }

    #[test]
    fn memory_is_bounded_and_no_count_is_lost() {
        let denials = Denials::default();
        for number in 0..10 * DENIAL_LINES_MAX {
            denials.note(&agent(number), DenialCode::NotObservable, "Account", 5);
            denials.note(&agent(0), DenialCode::UnknownPact, "bank", 6);
        }
        let lines = denials.due(2000).unwrap();
        assert!(lines.len() <= DENIAL_LINES_MAX + DenialCode::ALL.len(), "{}", lines.len());
        assert_eq!(check_denials(&lines, 2000), Ok(()));
        let count = |code| lines.iter().filter(|line| line.code == code).map(|line| line.count).sum::<u64>();
        let all = 10 * DENIAL_LINES_MAX as u64;
        assert_eq!((count(DenialCode::NotObservable), count(DenialCode::UnknownPact)), (all, all));
        assert_eq!(denials.totals().map(|(_, total)| total).sum::<u64>(), 2 * all);
    }

    #[test]
    fn one_entry_a_second_and_what_was_not_written_is_put_back() {
        let denials = Denials::default();
        denials.note(&agent(1), DenialCode::AgentNotActive, "first", 10_000);
        let first = denials.due(10_000).expect("the first is due at once");
        denials.note(&agent(1), DenialCode::AgentNotActive, "second", 10_001);
        assert_eq!(denials.due(10_999), None);
        denials.put_back(first);
        let lines = denials.due(11_000).unwrap();
        let line = lines.first().unwrap();
        assert_eq!((line.count, line.first_ms, line.last_ms, line.sample.as_str()), (2, 10_000, 10_001, "first"));
        assert_eq!((denials.due(20_000), denials.rest()), (None, None));
    }
}
