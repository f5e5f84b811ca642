//! Counts of the HTTP interface, and the Prometheus text of them and of the gate's own.
//!
//! Labels come only from fixed lists (routes as declared, statuses, codes, servers of the settings): nothing that a caller writes
//! becomes a label.

use countersign_api::ErrorCode;
use countersign_api::routes::ROUTES;
use countersign_engine::gate::Gate;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Upper bounds of the latency histogram in microseconds: from one sync of a fast disk to a queue that is far too long.
const BOUNDS_US: [u64; 12] =
    [250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 5_000_000];

/// Where answers count whose route is in no table.
const NO_ROUTE: &str = "none";
/// Statuses of answers that are no errors.
const GOOD: [u16; 2] = [200, 202];

/// Answers by route and status. Both are known beforehand, so that counting takes neither a lock nor memory.
#[derive(Debug)]
struct Requests {
    /// Ascending.
    routes: Vec<&'static str>,
    /// Ascending.
    statuses: Vec<u16>,
    /// For each route one of each status, and one for any other status.
    counts: Vec<AtomicU64>,
}

impl Default for Requests {
    fn default() -> Self {
        let routes: BTreeSet<_> = ROUTES.iter().map(|route| route.path).chain([NO_ROUTE]).collect();
        let statuses: BTreeSet<_> = ErrorCode::ALL.iter().map(|code| code.status()).chain(GOOD).collect();
        let (routes, statuses) = (Vec::from_iter(routes), Vec::from_iter(statuses));
        let counts = std::iter::repeat_with(AtomicU64::default).take(routes.len() * (statuses.len() + 1)).collect();
        Self { routes, statuses, counts }
    }
}

impl Requests {
    fn count(&self, route: &str, status: u16) {
        let place = |route: &str| self.routes.binary_search_by(|known| (*known).cmp(route));
        let known = place(route).or_else(|_| place(NO_ROUTE));
        let (Ok(route), columns) = (known, self.statuses.len() + 1) else { return };
        let status = self.statuses.binary_search(&status).unwrap_or(self.statuses.len());
        if let Some(count) = self.counts.get(route * columns + status) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Each that was ever counted.
    fn all(&self) -> impl Iterator<Item = (&str, String, u64)> {
        self.routes.iter().zip(self.counts.chunks(self.statuses.len() + 1)).flat_map(move |(route, counts)| {
            let names = self.statuses.iter().map(u16::to_string).chain(["other".to_owned()]);
            let counts = names.zip(counts).map(move |(status, count)| (*route, status, count.load(Ordering::Relaxed)));
            counts.filter(|(_, _, count)| *count > 0)
        })
    }
}

/// Counts since the server started.
#[derive(Debug, Default)]
pub struct Metrics {
    requests: Requests,
    refusals: Mutex<BTreeMap<&'static str, u64>>,
    /// How many actions took at most the bound of the same place, and more than the one before.
    buckets: [AtomicU64; BOUNDS_US.len()],
    actions: AtomicU64,
    actions_us: AtomicU64,
}

impl Metrics {
    /// Counts an answer.
    pub fn answered(&self, route: &str, status: u16) {
        self.requests.count(route, status);
    }

    /// Counts an error.
    pub fn refused(&self, code: &'static str) {
        *self.refusals.lock().unwrap_or_else(PoisonError::into_inner).entry(code).or_default() += 1;
    }

    /// Counts an action that got its verdict.
    pub fn action_took(&self, took: Duration) {
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.buckets.iter().zip(BOUNDS_US).find_map(|(b, bound)| (took_us <= bound).then_some(b))
        {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.actions.fetch_add(1, Ordering::Relaxed);
        self.actions_us.fetch_add(took_us, Ordering::Relaxed);
    }

    /// Everything in Prometheus' text format.
    pub fn text(&self, gate: &Gate) -> String {
        let mut out = String::new();
        gate_text(&mut out, gate);
        family(&mut out, "countersign_http_requests_total", "counter", "Answers by route and status.");
        for (route, status, count) in self.requests.all() {
            line(&mut out, &format!("countersign_http_requests_total{{route=\"{route}\",status=\"{status}\"}}"), count);
        }
        let refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner).clone();
        family(&mut out, "countersign_http_errors_total", "counter", "Errors by code; a rejection is not an error.");
        for (code, count) in refusals {
            line(&mut out, &format!("countersign_http_errors_total{{code=\"{code}\"}}"), count);
        }
        self.histogram(&mut out);
        out
    }

    fn histogram(&self, out: &mut String) {
        const NAME: &str = "countersign_action_seconds";
        family(out, NAME, "histogram", "Time from an action's arrival to its verdict.");
        let mut below = 0;
        for (bucket, bound_us) in self.buckets.iter().zip(BOUNDS_US) {
            below += bucket.load(Ordering::Relaxed);
            line(out, &format!("{NAME}_bucket{{le=\"{}\"}}", seconds(bound_us)), below);
        }
        // Read last, so that it is never below the buckets that were read before.
        let actions = self.actions.load(Ordering::Relaxed).max(below);
        line(out, &format!("{NAME}_bucket{{le=\"+Inf\"}}"), actions);
        line(out, &format!("{NAME}_sum"), seconds(self.actions_us.load(Ordering::Relaxed)));
        line(out, &format!("{NAME}_count"), actions);
    }
}

/// The names of servers are those of the settings.
fn window_text(out: &mut String, gate: &Gate) {
    const NAME: &str = "countersign_window_ms";
    let help =
        "Milliseconds from when what a write rests on was begun to be read again to its answer: changes past the gate.";
    let windows = gate.windows().by_server();
    family(out, NAME, "summary", help);
    for (server, window) in &windows {
        line(out, &format!("{NAME}_sum{{upstream=\"{server}\"}}"), window.sum_ms);
        line(out, &format!("{NAME}_count{{upstream=\"{server}\"}}"), window.calls);
    }
    family(out, "countersign_window_ms_max", "gauge", "The longest of them since the gate was started.");
    for (server, window) in &windows {
        line(out, &format!("countersign_window_ms_max{{upstream=\"{server}\"}}"), window.max_ms);
    }
}

fn gate_text(out: &mut String, gate: &Gate) {
    let counters = gate.counters();
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    family(out, "countersign_verdicts_total", "counter", "Verdicts by kind.");
    let verdicts = [
        ("committed", &counters.committed),
        ("rejected", &counters.rejected),
        ("review", &counters.review),
        ("in_flight", &counters.in_flight),
    ];
    for (verdict, counter) in verdicts {
        line(out, &format!("countersign_verdicts_total{{verdict=\"{verdict}\"}}"), count(counter));
    }
    family(
        out,
        "countersign_effects_total",
        "counter",
        "Outcomes of external calls; a doubt counts, and then its end.",
    );
    let outcomes = [("settled", &counters.settled), ("failed", &counters.failed), ("in_doubt", &counters.in_doubt)];
    for (outcome, counter) in outcomes {
        line(out, &format!("countersign_effects_total{{outcome=\"{outcome}\"}}"), count(counter));
    }
    let single = [
        (
            "countersign_shadowed_total",
            "Actions that took effect in shadow mode although something failed.",
            &counters.shadowed,
        ),
        ("countersign_repeated_total", "Answers to a repeated idempotency key.", &counters.repeated),
        ("countersign_halted_total", "Actions rejected because their scope is halted.", &counters.halted),
        ("countersign_approved_total", "Parked actions approved, and so executed.", &counters.approved),
        ("countersign_claims_total", "Changes announced.", &counters.claimed),
        ("countersign_feeds_total", "Facts fed.", &counters.fed),
        ("countersign_refused_total", "Requests that the sequencer refused without an entry.", &counters.refused),
        ("countersign_busy_total", "Requests refused because the queue was full.", &counters.busy),
        ("countersign_batches_total", "Batches made durable.", &counters.batches),
        ("countersign_observations_total", "Observations made.", &counters.observed),
    ];
    for (name, help, counter) in single {
        family(out, name, "counter", help);
        line(out, name, count(counter));
    }
    family(out, "countersign_denials_total", "counter", "Requests refused at the door, by code.");
    for (code, total) in gate.denials().totals() {
        line(out, &format!("countersign_denials_total{{code=\"{code}\"}}"), total);
    }
    window_text(out, gate);
    let (entries, counts) = {
        let view = gate.view();
        (view.position, view.counts())
    };
    family(out, "countersign_effects", "gauge", "Effects under way, by where they are.");
    let phases = [("cooling", counts.cooling), ("dispatched", counts.dispatched), ("in_doubt", counts.in_doubt)];
    for (phase, count) in phases {
        line(out, &format!("countersign_effects{{state=\"{phase}\"}}"), count);
    }
    let gauges = [
        ("countersign_entries", "Entries in the ledger.", entries),
        ("countersign_facts", "Facts held, deleted ones included.", counts.facts as u64),
        ("countersign_pacts", "Pacts in force.", counts.pacts as u64),
        ("countersign_halts", "Scopes that are halted.", counts.halts as u64),
        ("countersign_held_feeds", "Feeds that wait for a fence to end.", counts.held_feeds as u64),
        ("countersign_waiting", "Actions that wait for a fence to end.", gate.waiting()),
        ("countersign_messages", "Messages that wait for their recipients.", counts.messages as u64),
        ("countersign_queue_length", "Requests that wait to be decided.", gate.queued() as u64),
        (
            "countersign_queue_capacity",
            "Requests that may wait before the gate answers 503.",
            gate.queue_capacity() as u64,
        ),
        ("countersign_ready", "1 if the gate is ready to decide.", u64::from(gate.not_ready().is_none())),
    ];
    for (name, help, value) in gauges {
        family(out, name, "gauge", help);
        line(out, name, value);
    }
}

fn family(out: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(out: &mut String, series: &str, value: impl std::fmt::Display) {
    let _ = writeln!(out, "{series} {value}");
}

/// Microseconds as decimal seconds, without floats and without trailing zeros.
fn seconds(us: u64) -> String {
    let text = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_route_and_status() {
        let requests = Requests::default();
        for (route, status) in
            [("/v1/actions", 200), ("/v1/actions", 200), ("/v1/actions", 503), ("/made/up", 404), ("/readyz", 299)]
        {
            requests.count(route, status);
        }
        let expected =
            [("/readyz", "other", 1), ("/v1/actions", "200", 2), ("/v1/actions", "503", 1), ("none", "404", 1)];
        let counted: Vec<_> = requests.all().collect();
        assert_eq!(counted.iter().map(|(r, s, c)| (*r, s.as_str(), *c)).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn buckets_add_up_and_seconds_are_decimal() {
        assert_eq!(
            ["0.00025", "0.0025", "1", "5", "0", "61.5"],
            [250, 2_500, 1_000_000, 5_000_000, 0, 61_500_000].map(seconds).each_ref().map(String::as_str)
        );
        let metrics = Metrics::default();
        for us in [10, 250, 251, 10_000_000] {
            metrics.action_took(Duration::from_micros(us));
        }
        let mut out = String::new();
        metrics.histogram(&mut out);
        for expected in
            ["{le=\"0.00025\"} 2\n", "{le=\"0.0005\"} 3\n", "{le=\"5\"} 3\n", "{le=\"+Inf\"} 4\n", "_sum 10.000511\n"]
        {
            assert!(out.contains(expected), "{expected}: {out}");
        }
    }
}
