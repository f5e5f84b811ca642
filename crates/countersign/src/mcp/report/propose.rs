//! What might be approved otherwise, as commands that can be run as they are.

use super::Report;
use super::readings::{Readings, Tool};
use crate::mcp::shell::word;
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
    /// The command for an admin.
    pub run: String,
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
pub(super) fn proposals(report: &Report, readings: &Readings) -> Vec<Proposal> {
    let unguarded = report.calls.iter().filter(|(_, calls)| calls.unguarded).map(|(tool, calls)| Proposal {
        tool: tool.clone(),
        why: Why::Unguarded,
        times: calls.calls,
        run: approve(tool, "--guard as-read"),
    });
    let of_readings = readings
        .tools()
        .filter(|(_, tool)| tool.is_guarded)
        .filter_map(|(name, tool)| volatile(name, tool).or_else(|| unused(name, report, tool)));
    unguarded.chain(of_readings).collect()
}

fn volatile(name: &str, tool: &Tool) -> Option<Proposal> {
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
    let run = match paths.iter().any(|path| path.is_empty()) {
        true => approve(name, "--guard none"),
        false => {
            let paths: Vec<&str> = paths.iter().map(|path| path.as_str()).collect();
            approve(name, &format!("--ignore {}", word(&paths.join(","))))
        }
    };
    Some(Proposal { tool: name.to_owned(), why, times, run })
}

fn unused(name: &str, report: &Report, tool: &Tool) -> Option<Proposal> {
    let read = report.readings.get(name)?;
    // Where nothing is written at all, nothing can rest on anything.
    let writes = report.calls.values().any(|calls| calls.calls > 0);
    let is_unused = writes && read.rested_on == 0 && read.readings >= UNUSED_MIN && tool.is_guarded;
    let run = approve(name, "--guard none");
    is_unused.then(|| Proposal { tool: name.to_owned(), why: Why::NeverUsed, times: read.readings, run })
}

fn approve(tool: &str, options: &str) -> String {
    format!("countersign mcp approve {} {options}", word(tool))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proposal_is_a_command_that_can_be_run_as_it_is() {
        assert_eq!(
            approve("shop/get_clock", &format!("--ignore {}", word("/ticks,/a/b"))),
            "countersign mcp approve shop/get_clock --ignore /ticks,/a/b"
        );
    }
}
