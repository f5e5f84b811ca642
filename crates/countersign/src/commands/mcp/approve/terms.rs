//! On what terms a tool is approved: what the command says comes first, then what the settings propose, then what was approved before.

use super::ApproveArgs;
use crate::mcp::draft::only_reads;
use crate::mcp::gate::AS_READ;
use crate::mcp::settings::{Guard, Proposal};
use crate::mcp::tool::Tool;
use crate::terminal::{inline, note, say};
use countersign_api::FactResponse;
use countersign_core::pact::CARRIED;
use serde_json::Value;

/// What calls of a tool rest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum RestsOn {
    /// Every reading of the session.
    All,
    /// Readings whose values the call carries.
    Carried,
}

/// What a tool is approved as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// Whether it only reads.
    pub reads: bool,
    /// How its calls are guarded.
    pub guard: Option<Guard>,
    /// Paths in its answers that are not compared.
    pub ignore: Vec<String>,
    /// Paths in its answers that alone are compared.
    pub only: Vec<String>,
    /// Whether its calls rest only on readings whose values they carry.
    pub carried: bool,
    /// Whether nothing but its name says that it only reads.
    pub by_name: bool,
    /// Where its answers come from.
    pub labels: Vec<String>,
    /// What of this the settings propose, in words.
    pub proposed: Vec<&'static str>,
}

/// What takes the labels of a tool off.
const NO_LABEL: &str = "none";

impl Terms {
    /// Those of a tool that is guarded, as a trial has them.
    pub fn guarded(reads: bool, ignore: &[String], only: &[String], carried: bool) -> Self {
        let paths = |paths: &[String]| if reads { paths.to_vec() } else { Vec::new() };
        let (ignore, only) = (paths(ignore), paths(only));
        let (guard, carried) = (Some(Guard::AsRead), carried && !reads);
        let (labels, proposed) = (Vec::new(), Vec::new());
        Self { reads, guard, ignore, only, carried, by_name: false, labels, proposed }
    }

    /// Those of a tool that the command is about.
    pub(super) fn of(
        args: &ApproveArgs,
        proposal: &Proposal,
        upstream: &str,
        tool: &Tool,
        before: Option<&FactResponse>,
    ) -> Self {
        let was = |name: &str| before.and_then(|before| before.value.get(name));
        let own = proposal.tools.get(&tool.name);
        let mut proposed = Vec::new();
        let mut propose = |what: &'static str, is_proposed: bool| {
            if is_proposed {
                proposed.push(what);
            }
        };
        let guard = match (args.guard, proposal.guard_of(&tool.name)) {
            (Some(guard), _) => Some(guard),
            (None, Some(guard)) => {
                propose("guard", true);
                Some(guard)
            }
            (None, None) => {
                was("guard").and_then(Value::as_str).filter(|guard| *guard == AS_READ).map(|_| Guard::AsRead)
            }
        };
        // What someone said about another definition says nothing about this one.
        let is_same = was("definition").and_then(Value::as_str) == Some(&tool.definition);
        let said = match (is_among(&args.writes, upstream, tool), is_among(&args.reads, upstream, tool)) {
            (true, _) => Some(false),
            (false, true) => Some(true),
            (false, false) => None,
        };
        let proposes_reads = own.and_then(|own| own.reads);
        propose("reads", said.is_none() && proposes_reads.is_some());
        let reads = said.or(proposes_reads).or_else(|| was("read_only").and_then(Value::as_bool).filter(|_| is_same));
        // Without a guard what only reads passes unasked, so a name is not enough there.
        let by_name = reads.is_none() && !tool.read_only && guard == Some(Guard::AsRead) && only_reads(tool);
        let reads = reads.unwrap_or(tool.read_only || by_name);
        let mut paths = |name: &'static str, given: &[String], own: Option<&[String]>| -> Vec<String> {
            match (given, own.unwrap_or_default()) {
                _ if !reads => Vec::new(),
                ([], []) => {
                    let kept = was(name).and_then(Value::as_array).into_iter().flatten();
                    kept.filter_map(Value::as_str).map(str::to_owned).collect()
                }
                ([], own) => {
                    propose(name, true);
                    own.to_vec()
                }
                // Nothing is named: all of it is compared again.
                (given, _) if given.iter().all(String::is_empty) => Vec::new(),
                (given, _) => given.to_vec(),
            }
        };
        let ignore = paths("ignore", &args.ignore, own.map(|own| own.ignore.as_slice()));
        let only = paths("only", &args.only, own.map(|own| own.only.as_slice()));
        let carried = match args.rests_on {
            Some(rests_on) => rests_on == RestsOn::Carried,
            None => was("rests_on").and_then(Value::as_str) == Some(CARRIED),
        };
        // Of another definition too: where answers come from says the server, and not what it says of its tool.
        let kept = || was("labels").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let mut labels: Vec<String> = match (args.label.as_slice(), own.map(|own| own.labels.as_slice())) {
            ([none], _) if none == NO_LABEL => Vec::new(),
            ([], Some(own @ [_, ..])) => {
                proposed.push("labels");
                own.to_vec()
            }
            ([], _) => kept().map(str::to_owned).collect(),
            (given, _) => given.to_vec(),
        };
        labels.sort();
        labels.dedup();
        Self { reads, guard, ignore, only, carried, by_name, labels, proposed }
    }

    /// What becomes of the tool, in a few words.
    pub fn kind(&self) -> &'static str {
        match (self.reads, self.by_name, self.guard) {
            (true, true, _) => "reads only (guessed from its name)",
            (true, false, _) => "reads only",
            (false, _, Some(Guard::AsRead)) => "guarded as read",
            (false, _, _) => "may change something",
        }
    }

    /// What is lost with a guard that the tool had before.
    pub(super) fn loses(&self, before: Option<&FactResponse>) -> Option<&'static str> {
        let was = |name: &str| before.and_then(|before| before.value.get(name));
        let was_guarded = was("guard").and_then(Value::as_str) == Some(AS_READ);
        let was_reading = was("read_only").and_then(Value::as_bool) == Some(true);
        match (was_guarded && self.guard != Some(Guard::AsRead), was_reading) {
            (false, _) => None,
            (true, true) => Some("from now on no write rests on anything that it answers, whatever it is asked"),
            (true, false) => Some("from now on its calls do not rest on what their agents have read"),
        }
    }

    /// Says what of them an operator would not see in the definition.
    pub(super) fn show(&self, tool: &Tool) {
        let mut all: Vec<String> = Vec::new();
        all.extend(self.guard.map(|guard| format!("guard {}", guard.as_str())));
        for (name, paths) in [("ignore", &self.ignore), ("only", &self.only)] {
            if !paths.is_empty() {
                all.push(format!("{name} {}", inline(&paths.join(", "))));
            }
        }
        if !self.labels.is_empty() {
            all.push(format!("labels {}", inline(&self.labels.join(", "))));
        }
        all.extend(self.carried.then(|| format!("rests on {CARRIED}")));
        if all.is_empty() {
            return;
        }
        let proposed = match self.proposed.as_slice() {
            [] => String::new(),
            proposed => format!(" ({} as the settings propose)", proposed.join(", ")),
        };
        say(format_args!("    {}{proposed}", all.join("; ")));
        if self.guard == Some(Guard::AsRead) && self.reads && !tool.read_only && !self.by_name {
            note("    the gate may read it again at any time, make sure it changes nothing");
        }
    }
}

fn is_among(names: &[String], upstream: &str, tool: &Tool) -> bool {
    names.iter().any(|name| {
        *name == tool.name || name.strip_prefix(upstream).and_then(|it| it.strip_prefix('/')) == Some(&tool.name)
    })
}

/// Leaves those names that mean a tool of this server out of those that were not found yet.
pub(super) fn find_named(unfound: &mut Vec<&String>, upstream: &str, tool: &Tool) {
    unfound.retain(|name| !is_among(std::slice::from_ref(*name), upstream, tool));
}
