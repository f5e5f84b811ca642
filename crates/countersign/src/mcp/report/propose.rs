//! What might be approved otherwise, as commands that can be run as they are.

use super::Report;
use super::readings::{Readings, Tool};
use crate::mcp::shell::word;
use countersign_core::node::WHOLE;
use serde::Serialize;

/// From so many comparisons on, what differed in each of them is proposed to be left out.
const COMPARED_MIN: u64 = 2;
/// From so many readings on, that no write rested on any of them says something.
const UNUSED_MIN: u64 = 3;

/// Something to approve, and why.
#[derive(Debug, Serialize)]
pub struct Proposal {
    /// The server and the tool.
    pub tool: String,
    pub why: Why,
    /// How often that was seen.
    pub times: u64,
    /// The command for an admin; none where it would take more out of the guard than what was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Whether the command takes all of the tool out of the guard.
    pub unguards: bool,
}

impl Proposal {
    /// Why, in words, and what it costs.
    pub fn says(&self) -> String {
        let why = self.why.says(self.times);
        match (&self.run, self.unguards) {
            (None, _) => format!(
                "{why}; its agents should ask for something that does not change by itself, such as the same without a clock or a random \
                 value"
            ),
            (Some(_), true) => format!("{why}. With this, no write rests on anything that it answers"),
            (Some(_), false) => why,
        }
    }
}

/// Why something is proposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It differed when it was read twice in a row.
    DiffersTwice,
    /// It differed in every reading.
    DiffersEachTime,
    /// No write ever rested on it.
    NeverUsed,
    /// It may change something, and nothing guards it.
    Unguarded,
}

impl Why {
    /// In words.
    pub fn says(self, times: u64) -> String {
        match self {
            Self::DiffersTwice => format!("differed when it was read twice in a row ({times} times)"),
            Self::DiffersEachTime => {
                format!(
                    "differed in each of {times} readings of the same; right if it is a clock or a counter, and says nothing"
                )
            }
            Self::NeverUsed => {
                format!("read {times} times, and no write rested on it: it need not be kept and read again")
            }
            Self::Unguarded => format!("may change something, and nothing guards it ({times} calls)"),
        }
    }
}

/// All that follows.
pub(super) fn proposals(report: &Report, readings: &Readings, trial: Option<&[String]>) -> Vec<Proposal> {
    let at = At { trial };
    let unguarded = report.calls.iter().filter(|(_, calls)| calls.unguarded).map(|(tool, calls)| Proposal {
        tool: tool.clone(),
        why: Why::Unguarded,
        times: calls.calls,
        run: Some(at.guard(tool, "as-read")),
        unguards: false,
    });
    let of_readings = readings
        .tools()
        .filter(|(_, tool)| tool.is_guarded)
        .filter_map(|(name, tool)| volatile(name, tool, at).or_else(|| unused(name, report, tool, at)));
    unguarded.chain(of_readings).collect()
}

fn volatile(name: &str, tool: &Tool, at: At<'_>) -> Option<Proposal> {
    let each_time = tool.differing.iter().flatten().filter(|_| tool.compared >= COMPARED_MIN);
    let (why, times) = match tool.volatile.is_empty() {
        false => (Why::DiffersTwice, tool.volatile_count),
        true => (Why::DiffersEachTime, tool.compared.saturating_add(1)),
    };
    let mut paths: Vec<&String> = tool.volatile.iter().collect();
    if paths.is_empty() {
        paths.extend(each_time);
    }
    if paths.is_empty() {
        return None;
    }
    // Where all of it differs, leaving it out leaves nothing.
    let unguards = paths.iter().any(|path| *path == WHOLE);
    let run = match unguards {
        // One query with a clock in it says nothing of the others.
        true => (!tool.takes_arguments).then(|| at.guard(name, "none")),
        false => {
            let paths: Vec<&str> = paths.iter().map(|path| path.as_str()).collect();
            Some(at.ignore(name, &paths.join(",")))
        }
    };
    Some(Proposal { tool: name.to_owned(), why, times, run, unguards })
}

fn unused(name: &str, report: &Report, tool: &Tool, at: At<'_>) -> Option<Proposal> {
    let read = report.readings.get(name)?;
    // Where nothing is written at all, nothing can rest on anything.
    let writes = report.calls.values().any(|calls| calls.calls > 0);
    let is_unused = writes && read.rested_on == 0 && read.readings >= UNUSED_MIN && tool.is_guarded;
    let run = Some(at.guard(name, "none"));
    is_unused.then(|| Proposal {
        tool: name.to_owned(),
        why: Why::NeverUsed,
        times: read.readings,
        run,
        unguards: true,
    })
}

/// Where the commands are run: at a gate, or in a trial, which is started again with another option.
#[derive(Clone, Copy)]
struct At<'a> {
    trial: Option<&'a [String]>,
}

impl At<'_> {
    fn guard(self, tool: &str, guard: &str) -> String {
        match self.trial {
            None => format!("countersign mcp approve {} --guard {guard}", word(tool)),
            // A trial guards everything; what is not to count is said to write.
            Some(words) => again(words, "--writes", tool.split_once('/').map_or(tool, |(_, name)| name)),
        }
    }

    fn ignore(self, tool: &str, paths: &str) -> String {
        match self.trial {
            None => format!("countersign mcp approve {} --ignore {}", word(tool), word(paths)),
            Some(words) => again(words, "--ignore", paths),
        }
    }
}

/// A trial as it was started, with one more option. It prints the settings for its agent anew.
fn again(words: &[String], option: &str, value: &str) -> String {
    let words: Vec<String> = words.iter().map(|it| word(it)).collect();
    format!("countersign {} {option} {}", words.join(" "), word(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proposal_is_a_command_that_can_be_run_as_it_is() {
        let gate = At { trial: None };
        assert_eq!(
            gate.ignore("shop/get_clock", "/ticks,/a/b"),
            "countersign mcp approve shop/get_clock --ignore /ticks,/a/b"
        );
        let words = ["mcp", "try", "python3 shop.py", "--name", "shop"].map(str::to_owned);
        let trial = At { trial: Some(&words) };
        assert_eq!(
            trial.ignore("shop/get_clock", "/ticks"),
            "countersign mcp try 'python3 shop.py' --name shop --ignore /ticks"
        );
        assert!(trial.guard("shop/get_time", "none").ends_with(" --writes get_time"));
    }
}
