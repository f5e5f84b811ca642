//! What the demo prints for people: a timeline for each scenario with both worlds side by side, a summary, what to do next.
//!
//! At most 100 columns. Colours only where a terminal reads them; every mark is also a word.

use super::{Report, guarded, unguarded};
use crate::client::in_commands;
use countersign_core::decision::Verdict;
use countersign_core::reason::{Expected, FailedPrecondition, FailedRead};
use std::fmt::Write as _;
use std::path::Path;

/// Columns of the page.
const WIDTH: usize = 100;

/// Where the reasons of a rejection begin.
const MARGIN: &str = "             ";

/// How a piece of text looks.
#[derive(Clone, Copy)]
enum Look {
    Plain,
    Bold,
    Dim,
    Good,
    Bad,
    Stopped,
}

/// A page that is being written.
struct Page {
    text: String,
    colour: bool,
}

/// Draws everything.
pub(super) fn draw(reports: &[Report], kept: Option<&Path>, colour: bool) -> String {
    let mut page = Page { text: String::new(), colour };
    for report in reports {
        scenario(&mut page, report);
    }
    if reports.len() > 1 {
        summary(&mut page, reports);
    }
    limits(&mut page, reports);
    next(&mut page, kept);
    page.text
}

fn scenario(page: &mut Page, report: &Report) {
    page.put(Look::Bold, &format!("{:<9}", report.scenario.id), 0);
    page.put(Look::Plain, report.scenario.title, 0);
    page.end();
    page.put(Look::Dim, "", 63);
    page.put(Look::Dim, "without the gate", 18);
    page.put(Look::Dim, "with the gate", 0);
    page.end();
    let outcomes = report.unguarded.iter().zip(&report.guarded);
    for (step, (plain, gated)) in report.scenario.steps.iter().zip(outcomes) {
        page.put(Look::Dim, &format!("{:>9}  ", time(step.at_ms)), 0);
        page.put(Look::Plain, step.agent, 13);
        page.put(Look::Plain, step.says, 39);
        let (look, text) = without(*plain);
        page.put(look, text, 18);
        let (look, text) = with(gated);
        page.put(look, &text, 0);
        page.end();
    }
    match &report.unguarded_harm {
        Some(harm) => page.line(Look::Bad, "  without  ", &format!("✗ {harm}")),
        None => page.line(Look::Bad, "  without  ", "no harm was done: this race shows nothing"),
    }
    if let Some(harm) = &report.guarded_harm {
        page.line(Look::Bad, "  with     ", &format!("✗ {harm}"));
    }
    if let Some(blocked) = report.decision.blocked() {
        let gap =
            report.decision.gap_ms.map_or_else(|| "nothing observed".to_owned(), |gap| format!("gap {}", time(gap)));
        let (verdict, reasons) = (report.word(), report.reasons().join(", "));
        page.line(Look::Good, "  with     ", &format!("✓ {verdict} in entry {}, {gap}: {reasons}", report.entry));
        if blocked.failed().is_empty() {
            page.wrapped(Look::Stopped, MARGIN, &blocked.message());
        }
        changes(page, blocked.failed());
        page.wrapped(Look::Dim, MARGIN, &format!("hint: {}", in_commands(&blocked.hint())));
    }
    page.end();
}

/// One line for each attribute that is not as it was seen; several preconditions may rest on the same one.
fn changes(page: &mut Page, failed: &[FailedPrecondition]) {
    let differs = |read: &&FailedRead| match (&read.expected, &read.actual) {
        (Expected::Value(expected), Some(actual)) => expected != actual,
        (Expected::Absent, None) => false,
        _ => true,
    };
    let mut shown: Vec<&FailedRead> = Vec::new();
    for read in failed.iter().flat_map(|failed| &failed.reads).filter(differs) {
        if shown.contains(&read) {
            continue;
        }
        shown.push(read);
        page.put(Look::Plain, MARGIN, 0);
        page.put(Look::Stopped, &change(read), 0);
        if let Some(changed) = read.changed_here() {
            page.put(Look::Plain, &format!(", by {} in entry {}", changed.by, changed.entry), 0);
        }
        page.end();
    }
}

fn change(read: &FailedRead) -> String {
    let expected = match &read.expected {
        Expected::NotObserved => "not observed".to_owned(),
        Expected::Absent => "absent".to_owned(),
        Expected::Value(value) => value.to_string(),
    };
    let actual = read.actual.as_ref().map_or_else(|| "absent".to_owned(), ToString::to_string);
    match &read.attribute {
        Some(attribute) => format!("{} {attribute}: {expected} → {actual}", read.fact),
        None => format!("{}: {expected} → {actual}", read.fact),
    }
}

fn without(outcome: unguarded::Outcome) -> (Look, &'static str) {
    match outcome {
        unguarded::Outcome::Quiet => (Look::Plain, ""),
        unguarded::Outcome::Checked(true) => (Look::Plain, "✓ check passes"),
        unguarded::Outcome::Checked(false) => (Look::Plain, "✗ check fails"),
        unguarded::Outcome::HeldBack => (Look::Plain, "  held back"),
        unguarded::Outcome::Done => (Look::Plain, "✓ done"),
        unguarded::Outcome::Harmed => (Look::Bad, "✗ done, wrongly"),
    }
}

fn with(outcome: &guarded::Outcome) -> (Look, String) {
    match outcome {
        guarded::Outcome::Quiet => (Look::Plain, String::new()),
        guarded::Outcome::Observed => (Look::Plain, "✓ observed".to_owned()),
        guarded::Outcome::Fed(entry) => (Look::Plain, format!("✓ fed       #{entry}")),
        guarded::Outcome::Claimed(entry) => (Look::Plain, format!("✓ announced #{entry}")),
        guarded::Outcome::Dispatched(entry, decision) => match &decision.verdict {
            Verdict::InFlight(_) => (Look::Bad, format!("✗ sent      #{entry}")),
            _ => (Look::Good, format!("✗ cancelled #{entry}")),
        },
        guarded::Outcome::Decided(entry, decision) => match &decision.verdict {
            Verdict::Committed => (Look::Plain, format!("✓ committed #{entry}")),
            Verdict::Rejected(_) => (Look::Good, format!("✗ rejected  #{entry}")),
            Verdict::Review { .. } => (Look::Stopped, format!("… review    #{entry}")),
            Verdict::InFlight(_) => (Look::Plain, format!("… cooling   #{entry}")),
        },
    }
}

fn summary(page: &mut Page, reports: &[Report]) {
    let row = |page: &mut Page, look, cells: [&str; 5]| {
        for (cell, width) in cells.into_iter().zip([10, 54, 12, 10, 0]) {
            page.put(look, cell, width);
        }
        page.end();
    };
    row(page, Look::Bold, ["", "without the gate", "with it", "gap", "entry"]);
    for report in reports {
        let harm = report.unguarded_harm.as_ref().map_or_else(|| "  no harm".to_owned(), |harm| format!("✗ {harm}"));
        let gap = report.decision.gap_ms.map_or_else(String::new, time);
        let (look, mark) = if report.is_as_it_should() { (Look::Plain, "✓") } else { (Look::Bad, "✗") };
        let verdict = format!("{mark} {}", report.word());
        row(page, look, [report.scenario.id, &harm, &verdict, &gap, &report.entry.to_string()]);
    }
    page.end();
}

/// What the demo does not show, said where it would otherwise be believed.
fn limits(page: &mut Page, reports: &[Report]) {
    if reports.iter().any(|report| report.scenario.id == "CONC-3") {
        page.wrapped(
            Look::Dim,
            "",
            "What no gate can do: in CONC-3 and CONC-4 nothing has changed yet when the refund is asked for. It is stopped \
             because the freeze announced itself, or because the payout cools. If neither is done, the money leaves.",
        );
        page.end();
    }
}

fn next(page: &mut Page, kept: Option<&Path>) {
    page.put(Look::Bold, "Next", 0);
    page.end();
    let commands = match kept {
        Some(folder) => {
            let folder = folder.display();
            [
                (
                    format!("countersign verify --data {folder} --log-key {folder}/log.vkey"),
                    "check hashes and signatures",
                ),
                (format!("countersign audit --data {folder}"), "decide every entry again and compare"),
            ]
        }
        None => [
            ("countersign demo --data ./race".to_owned(), "the same, and keep the ledger"),
            ("countersign audit --data ./race".to_owned(), "decide every entry again and compare"),
        ],
    };
    for (command, what) in commands {
        page.put(Look::Plain, "", 2);
        page.put(Look::Plain, &command, 58);
        page.put(Look::Dim, what, 0);
        page.end();
    }
}

/// A span of time as people say it.
fn time(ms: u64) -> String {
    match ms {
        1_000.. if ms.is_multiple_of(1_000) => format!("{} s", ms / 1_000),
        _ => format!("{ms} ms"),
    }
}

impl Page {
    /// Puts text, padded to a width in characters.
    fn put(&mut self, look: Look, text: &str, width: usize) {
        let code = match look {
            _ if !self.colour => "",
            Look::Plain => "",
            Look::Bold => "\u{1b}[1m",
            Look::Dim => "\u{1b}[2m",
            Look::Good => "\u{1b}[32m",
            Look::Bad => "\u{1b}[31m",
            Look::Stopped => "\u{1b}[33m",
        };
        self.text.push_str(code);
        self.text.push_str(text);
        if !code.is_empty() {
            self.text.push_str("\u{1b}[0m");
        }
        let padding = width.saturating_sub(text.chars().count());
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{:padding$}", "");
    }

    fn end(&mut self) {
        let kept = self.text.trim_end_matches(' ').len();
        self.text.truncate(kept);
        self.text.push('\n');
    }

    fn line(&mut self, look: Look, label: &str, text: &str) {
        self.put(Look::Dim, label, 0);
        self.put(look, text, 0);
        self.end();
    }

    /// Puts text over as many lines as it takes, each after the same margin.
    fn wrapped(&mut self, look: Look, margin: &str, text: &str) {
        let room = WIDTH.saturating_sub(margin.chars().count());
        let mut line = String::new();
        for word in text.split_whitespace() {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
                self.line(look, margin, &line);
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        self.line(look, margin, &line);
    }
}
