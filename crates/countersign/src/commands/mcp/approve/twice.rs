//! Tools that need no arguments, read twice: what differs by itself would refuse every write that rests on it.

use super::ENDS_WITHIN;
use crate::mcp::adapter::Rules;
use crate::mcp::buffers::{BUFFERED_MAX, Buffers};
use crate::mcp::direct::Direct;
use crate::mcp::message::raw;
use crate::mcp::settings::Place;
use crate::mcp::shell::word;
use crate::mcp::upstream::Alive;
use crate::terminal::{inline, note};
use countersign_core::difference::paths;
use countersign_core::node::WHOLE;
use serde_json::json;
use std::time::Duration;

/// How long a tool may take to be read for its approval.
const READS_WITHIN: Duration = Duration::from_secs(10);

/// How many paths are named that differ by themselves.
const VOLATILE_MAX: usize = 8;

/// A tool that was approved as one that only reads, with what of its answers is compared.
pub struct Reader {
    pub tool: String,
    pub rules: Rules,
}

/// What reading a tool twice has shown.
pub struct Looked {
    pub tool: String,
    /// The paths at which its answer differs by itself. [`WHOLE`] is all of the answer.
    pub paths: Vec<String>,
    /// The paths that were said to count, or not to, and that name nothing in its answer.
    unfound: Vec<String>,
    /// Whether what was said to be left out leaves nothing of its answer.
    leaves_nothing: bool,
}

impl Looked {
    /// Whether leaving paths out leaves anything.
    fn is_whole(&self) -> bool {
        self.paths.iter().any(|path| path == WHOLE)
    }

    /// Says which paths name nothing: an operator who believes that they narrow what is compared has to know that they do not.
    fn note_unfound(&self, tool: &str) {
        if self.leaves_nothing {
            note(format_args!(
                "warning: what --ignore leaves out is all that {tool} answers, so all of it is compared"
            ));
        }
        for path in &self.unfound {
            note(format_args!(
                "{tool} answers without {}: that path leaves nothing out, and alone it makes all of the answer count",
                inline(path)
            ));
        }
    }

    /// The option that leaves out what differs.
    fn ignore(&self) -> String {
        format!("--ignore {}", word(&self.paths.join(",")))
    }
}

/// Says which of these tools answer differently by themselves, and what to approve instead.
pub fn note_volatile(upstream: &str, place: &Place, readers: &[Reader]) {
    for found in look(upstream, place, readers) {
        let tool = inline(&found.tool);
        let approve = format!("countersign mcp approve {}", word(&format!("{upstream}/{}", found.tool)));
        found.note_unfound(&format!("{upstream}/{tool}"));
        if found.paths.is_empty() {
            continue;
        }
        let refused = "every write that rests on it would be refused";
        if found.is_whole() {
            note(format_args!("{upstream}/{tool} answered differently when it was read twice, all of it: {refused}"));
            note(format_args!("  to let writes rest on nothing of it: {approve} --guard none"));
            continue;
        }
        let at = inline(&found.paths.join(", "));
        note(format_args!("{upstream}/{tool} answered differently when it was read twice, at {at}: {refused}"));
        note(format_args!("  to leave that out: {approve} {}", found.ignore()));
    }
}

/// The same for a trial, whose own options say what counts.
pub fn note_volatile_in_trial(upstream: &str, place: &Place, readers: &[Reader]) {
    for found in look(upstream, place, readers) {
        let tool = inline(&found.tool);
        found.note_unfound(&tool);
        if found.paths.is_empty() {
            continue;
        }
        let (at, option) = match found.is_whole() {
            true => (String::new(), format!("--writes {}", word(&found.tool))),
            false => (format!(", at {}", inline(&found.paths.join(", "))), found.ignore()),
        };
        note(format_args!(
            "{tool} answered differently when it was read twice{at}: every write after it would be refused.\n  Run this again \
             with {option}"
        ));
    }
}

/// Reads tools twice in a row by one process: some answer differently.
fn look(upstream: &str, place: &Place, readers: &[Reader]) -> Vec<Looked> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return Vec::new() };
    runtime.block_on(async {
        let (alive, mut all_ended) = Alive::new();
        let mut looked = Vec::new();
        if let Ok(mut direct) = Direct::open(upstream, place, &alive, &Buffers::new(BUFFERED_MAX)).await {
            for Reader { tool, rules } in readers {
                let one = read_once(&mut direct, tool).await;
                let (Some(one), Some(other)) = (one, read_once(&mut direct, tool).await) else { continue };
                let paths = paths(&rules.compared(&one), &rules.compared(&other), VOLATILE_MAX);
                looked.push(Looked {
                    tool: tool.clone(),
                    paths,
                    unfound: rules.unfound(&one),
                    leaves_nothing: rules.leaves_nothing(&one),
                });
            }
        }
        drop(alive);
        let _ = tokio::time::timeout(ENDS_WITHIN, all_ended.recv()).await;
        looked
    })
}

/// What a tool answers; `None` where it does not.
async fn read_once(direct: &mut Direct, tool: &str) -> Option<String> {
    let params = raw(&json!({"name": tool, "arguments": {}}));
    let answer = direct.request("tools/call", Some(params), READS_WITHIN).await.ok()?;
    Some(answer.result_raw()?.get().to_owned())
}
