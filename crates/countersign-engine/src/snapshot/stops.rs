//! What is stopped or waits, as a snapshot holds it: the halts in force.

use countersign_core::canonical::Canonical;
use countersign_core::halt::{Halt, Scope};
use countersign_core::ids::AgentId;
use serde::Deserialize;

pub(super) fn write_halt(out: &mut Canonical, scope: &Scope, halt: &Halt) {
    out.open('{');
    out.key("at");
    out.u64(halt.at_ms);
    out.key("by");
    out.string(halt.by.as_str());
    out.key("entry");
    out.u64(halt.entry);
    out.key("reason");
    out.string(&halt.reason);
    out.key("scope");
    out.string(&scope.to_string());
    out.close('}');
}

#[derive(Deserialize)]
struct StoredHalt {
    at: u64,
    by: String,
    entry: u64,
    reason: String,
    scope: String,
}

pub(super) fn read_halt(line: &[u8]) -> Result<(Scope, Halt), String> {
    let stored: StoredHalt = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let scope = stored.scope.parse::<Scope>().map_err(|error| error.to_string())?;
    let by = AgentId::new(stored.by).map_err(|error| error.to_string())?;
    Ok((scope, Halt { entry: stored.entry, by, at_ms: stored.at, reason: stored.reason.into() }))
}
