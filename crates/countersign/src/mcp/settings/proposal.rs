//! What the settings propose for the tools of a server: how they are guarded, which of them only read, and what of their answers
//! counts. Nothing of it counts by itself: an admin approves it with `countersign mcp approve`, and a fact says so.

use super::{checked_ignored, checked_paths};
use crate::config::table::suggestion;
use crate::hinted::bail_hinted;
use crate::mcp::gate::AS_READ;
use anyhow::{Result, bail};
use countersign_core::labels::check_label;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// How calls of a tool are guarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Guard {
    /// By what was read in the session.
    AsRead,
    /// Not at all.
    None,
}

impl Guard {
    /// As it is written in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AsRead => AS_READ,
            Self::None => "none",
        }
    }
}

/// What is proposed for one server.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// For every tool that has no proposal of its own.
    pub guard: Option<Guard>,
    /// For single tools, by name.
    pub tools: BTreeMap<String, ToolProposal>,
}

/// What is proposed for one tool.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ToolProposal {
    pub guard: Option<Guard>,
    /// Whether it only reads.
    pub reads: Option<bool>,
    /// Paths in its answers that are not compared.
    pub ignore: Vec<String>,
    /// Paths in its answers that alone are compared.
    pub only: Vec<String>,
    /// Where its answers come from.
    pub labels: Vec<String>,
}

impl Proposal {
    /// Reads what the table of an upstream says beside the place.
    pub(super) fn parse(upstream: &str, table: &Table) -> Result<Self> {
        let name = format!("mcp.upstream.{upstream}");
        let guard = table.get("guard").map(|value| guard(&name, value)).transpose()?;
        let mut tools = BTreeMap::new();
        if let Some(value) = table.get("tool") {
            let Some(table) = value.as_table() else {
                bail_hinted!("key `{name}.tool` must be a table"; "write [{name}.tool.TOOL]")
            };
            for (tool, value) in table {
                tools.insert(tool.clone(), ToolProposal::parse(&format!("{name}.tool.{tool}"), value)?);
            }
        }
        Ok(Self { guard, tools })
    }

    /// How a tool is to be guarded.
    pub fn guard_of(&self, tool: &str) -> Option<Guard> {
        self.tools.get(tool).and_then(|tool| tool.guard).or(self.guard)
    }
}

impl ToolProposal {
    fn parse(name: &str, value: &Value) -> Result<Self> {
        let Some(table) = value.as_table() else { bail_hinted!("key `{name}` must be a table"; "write [{name}]") };
        let mut proposal = Self::default();
        for (key, value) in table {
            match key.as_str() {
                "guard" => proposal.guard = Some(guard(name, value)?),
                "reads" => match value.as_bool() {
                    Some(reads) => proposal.reads = Some(reads),
                    None => bail!("key `{name}.reads` must be true or false"),
                },
                "ignore" => proposal.ignore = paths(name, key, value)?,
                "only" => proposal.only = paths(name, key, value)?,
                "labels" => proposal.labels = labels(name, value)?,
                unknown => {
                    bail_hinted!(
                        "key `{name}.{unknown}` is not known";
                        "{}", suggestion(unknown, &["guard", "ignore", "labels", "only", "reads"])
                    )
                }
            }
        }
        Ok(proposal)
    }
}

fn guard(name: &str, value: &Value) -> Result<Guard> {
    match value.as_str() {
        Some(AS_READ) => Ok(Guard::AsRead),
        Some("none") => Ok(Guard::None),
        _ => bail_hinted!("key `{name}.guard` must be \"{AS_READ}\" or \"none\""; "\"{AS_READ}\" is the safe one"),
    }
}

fn labels(name: &str, value: &Value) -> Result<Vec<String>> {
    let labels = value.as_array().map(|labels| labels.iter().map(|label| label.as_str().map(str::to_owned)));
    let Some(labels) = labels.and_then(Iterator::collect::<Option<Vec<String>>>) else {
        bail!("key `{name}.labels` must be a list of names\nhint: write it as [\"untrusted\"]");
    };
    checked_labels(&labels)?;
    Ok(labels)
}

/// Checks the names of labels.
pub fn checked_labels(labels: &[String]) -> Result<()> {
    labels.iter().try_for_each(|label| check_label(label)).map_err(|why| anyhow::anyhow!(why))
}

fn paths(name: &str, key: &str, value: &Value) -> Result<Vec<String>> {
    let paths = value.as_array().map(|paths| paths.iter().map(|path| path.as_str().map(str::to_owned)));
    let Some(paths) = paths.and_then(Iterator::collect::<Option<Vec<String>>>) else {
        bail_hinted!("key `{name}.{key}` must be a list of paths"; "write it as [\"/updated_at\"]");
    };
    if key == "ignore" {
        checked_ignored(&paths)?
    } else {
        checked_paths(&paths)?
    }
    Ok(paths)
}
