//! The scenarios: facts, agents, the schedule, and what counts as harm.
//!
//! Harm is judged on the end state alone, by the same function for both worlds; no scenario says what its outcome is.

mod agents;
mod payouts;
mod races;

use super::rows::Rows;
use super::schedule::Step;
use crate::examples::PactFile;
use agents::{PRICE_MOVED, SOURCE_SWAPPED, TERMINATED, TREATMENT};
use races::{GRANT_AND_REVOKE, REFUND_AND_FREEZE, TWO_SPENDS, WRITE_SKEW};

/// One scenario. One action of its schedule comes too late: the one that the gate stops.
#[derive(Debug)]
pub struct Scenario {
    /// The requirement it shows.
    pub id: &'static str,
    /// What it is about, in one line.
    pub title: &'static str,
    pub pact: PactFile,
    /// The agents, with the role of each.
    pub agents: &'static [(&'static str, &'static str)],
    /// The facts at the start.
    pub facts: &'static [(&'static str, &'static str)],
    /// The schedule, in order of time.
    pub steps: &'static [Step],
    /// The harm in an end state, given the state before.
    pub harm: fn(before: &Rows, after: &Rows) -> Option<String>,
}

/// The ids of all scenarios, in the order of the show.
pub const IDS: [&str; 10] =
    ["CONC-2", "CONC-3", "CONC-4", "AG-097-A", "AG-097-B", "AG-097-C", "AG-097-D", "CONC-5", "CONC-6", "CONC-7"];

/// All scenarios, in the order of [`IDS`].
pub const ALL: [&Scenario; 10] = [
    &REFUND_AND_FREEZE,
    &payouts::ANNOUNCED,
    &payouts::COOLING,
    &TERMINATED,
    &PRICE_MOVED,
    &SOURCE_SWAPPED,
    &TREATMENT,
    &GRANT_AND_REVOKE,
    &TWO_SPENDS,
    &WRITE_SKEW,
];

const STOLEN: &str = r#"Account::"42""#;

/// Minor units as money: `$4,800`, with cents only where there are any.
fn money(sign: &str, minor: i64) -> String {
    match minor % 100 {
        0 => format!("{sign}{}", grouped(minor / 100)),
        cents => format!("{sign}{}.{:02}", grouped(minor / 100), cents.abs()),
    }
}

/// An integer with its thousands set apart.
fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::from(if number < 0 { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::schedule::Deed::{Act, Cooled};
    use super::*;

    #[test]
    fn ids_are_in_order_and_schedules_run_forward() {
        assert_eq!(ALL.map(|scenario| scenario.id), IDS);
        for scenario in ALL {
            assert!(scenario.steps.is_sorted_by_key(|step| step.at_ms), "{}", scenario.id);
            let last = scenario.steps.last().map(|step| &step.deed);
            assert!(matches!(last, Some(Act { .. } | Cooled)), "{}", scenario.id);
        }
    }

    #[test]
    fn no_start_state_counts_as_harm() {
        for scenario in ALL {
            let rows = Rows::parse(scenario.facts).unwrap_or_default();
            assert_ne!(rows, Rows::default());
            assert_eq!((scenario.harm)(&rows, &rows), None, "{}", scenario.id);
        }
    }

    #[test]
    fn money_is_grouped() {
        assert_eq!(money("$", 480_000), "$4,800");
        assert_eq!(money("£", 123_456_705), "£1,234,567.05");
        assert_eq!(grouped(-130_000), "-130,000");
        assert_eq!(grouped(7), "7");
    }
}
