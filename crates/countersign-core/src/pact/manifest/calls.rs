//! Calls and claims in the manifest: what leaves the building, and who may announce a change.

use super::{cell, code, duration, or_dash, template};
use crate::pact::{ActionType, AsRead, BodyRule, CallRule, Pact, Read, SendRule, TextPart};
use std::fmt::Write as _;

/// Writes who may announce changes.
pub(super) fn write_claims(out: &mut String, pact: &Pact) {
    if pact.claims.values().all(Vec::is_empty) {
        return;
    }
    out.push_str(
        "\n## Who may announce changes\n\nNo other agent can rely on what is announced until the change is done.\n\n",
    );
    out.push_str("| facts | who | at most | priority | why |\n|---|---|---|---|---|\n");
    for (ty, rules) in &pact.claims {
        for rule in rules {
            let doc = cell(rule.doc.as_deref().unwrap_or_default());
            let (who, most) = (code(rule.who.text()), duration(rule.max_ms));
            let _ = writeln!(out, "| `{ty}` | {who} | {most} | {} | {} |", rule.priority, or_dash(&doc));
        }
    }
}

/// Writes what an action type calls.
pub(super) fn write_call(out: &mut String, action: &ActionType) {
    if action.wait_ms > 0 {
        let _ = write!(out, "\nIt waits up to {} for fences and announced changes to end.\n", duration(action.wait_ms));
    }
    let Some(call) = &action.call else { return };
    let _ = write!(out, "\n### What it calls\n\n- {} by adapter `{}`\n", sent(&call.send, &action.reads), call.adapter);
    let _ = writeln!(out, "- atomicity: {}", action.atomicity().as_str());
    if let Some(guard) = &action.guard {
        write_guard(out, guard);
    }
    for (name, reading) in &action.readings {
        let (tool, attributes) = (format!("{}/{}", reading.upstream, reading.tool), reading.attributes.keys());
        let attributes: Vec<String> = attributes.map(|attribute| code(attribute)).collect();
        let _ = writeln!(
            out,
            "- decides on the latest reading of {} in its session, as `{name}`: {}",
            code(&tool),
            attributes.join(", ")
        );
    }
    write_changes(out, action, call);
    if call.after_ms > 0 {
        let _ = writeln!(out, "- leaves {} after it was asked for, and is decided again then", duration(call.after_ms));
    }
    write_outcome(out, call, &action.reads);
}

/// What the call changes, and so which other calls wait for it.
fn write_changes(out: &mut String, action: &ActionType, call: &CallRule) {
    let Some(changes) = &action.changes else {
        // As `touches` decides it.
        out.push_str(match (&call.send, &action.guard) {
            (SendRule::Tool { .. } | SendRule::AnyTool { .. }, _) | (_, Some(_)) => {
                "- changes: not declared, so no other call is made at its server meanwhile\n"
            }
            (SendRule::Http { .. } | SendRule::Command { .. }, None) => {
                "- changes: not declared, so where any action rests on facts there, no other call is made at its service meanwhile\n"
            }
            (SendRule::Sql { .. }, None) => {
                "- changes: not declared; its transaction locks the rows that it reads and changes\n"
            }
        });
        return;
    };
    let servers = changes.servers.iter().map(|server| format!("anything in `{server}`"));
    let facts = changes.facts.iter().map(|fact| code(&template(fact, &action.reads)));
    let resource = action.reads.first().filter(|read| read.outside.is_some()).map(|_| "its resource".to_owned());
    let all: Vec<String> = resource.into_iter().chain(servers).chain(facts).collect();
    let all = if all.is_empty() { "nothing that others could rest on".to_owned() } else { all.join(", ") };
    let _ = writeln!(out, "- changes: {all}; no call that changes or rests on the same is made meanwhile");
}

fn write_guard(out: &mut String, guard: &AsRead) {
    let list = |tools: &[smol_str::SmolStr]| tools.iter().map(|tool| code(tool)).collect::<Vec<_>>().join(", ");
    let rests_on = match guard.rests_on.as_slice() {
        _ if guard.carried => "every reading of its session whose values it carries".to_owned(),
        [] => "every reading of its session".to_owned(),
        tools => list(tools),
    };
    let _ = writeln!(out, "- guarded as read: runs only if {rests_on} reads the same right before the call");
    out.push_str("- each reading that it rests on is made again once before the call, and once after it to tell what it changed\n");
    if !guard.must_read.is_empty() {
        let _ = writeln!(out, "- must have been read in the session: {}", list(&guard.must_read));
    }
    if let Some(stale_after_ms) = guard.stale_after_ms {
        let _ = writeln!(out, "- a reading older than {} does not count", duration(stale_after_ms));
    }
}

fn write_outcome(out: &mut String, call: &CallRule, reads: &[Read]) {
    let _ = writeln!(
        out,
        "- an attempt takes {} at most, and none begins later than {} after the dispatch",
        duration(call.timeout_ms),
        duration(call.deadline_ms)
    );
    match call.retries {
        0 => out.push_str("- if it is unknown whether it happened, it is not tried again\n"),
        retries => {
            let _ = writeln!(out, "- idempotent: tried again up to {retries} times under the same key");
        }
    }
    match &call.probe {
        None => out.push_str("- a doubt is resolved by a person\n"),
        Some(probe) => {
            let (what, after) = (sent(&probe.send, reads), duration(probe.absent_after_ms));
            let at = probe.at.as_ref().map(|at| format!(", at {} of its result", code(at))).unwrap_or_default();
            let _ = writeln!(out, "- a doubt is resolved by {what}{at}; absent counts {after} after the last attempt");
        }
    }
    if let SendRule::Tool { fails_on_error: true, .. } = &call.send {
        out.push_str("- a result that is an error means that nothing was done\n");
    }
    if let Some((undo, _)) = &call.undo {
        let _ = writeln!(out, "- undone by action `{undo}`");
    }
}

fn sent(send: &SendRule, reads: &[Read]) -> String {
    match send {
        SendRule::Http { method, path, body } => format!("{method} {}{}", code(&text(path, reads)), members(body)),
        SendRule::Command { args } => {
            let args: Vec<String> = args.iter().map(|arg| code(&text(arg, reads))).collect();
            format!("a command with arguments {}", or_dash(&args.join(" ")))
        }
        SendRule::Sql { statements } => {
            let statements: Vec<String> = statements.iter().map(|(sql, _)| code(sql)).collect();
            format!("in one transaction with the check: {}", statements.join(", "))
        }
        SendRule::Tool { tool, arguments, versions, .. } => {
            let versions = versions.iter().map(|version| {
                let read = reads.get(version.read).map_or("", |read| read.name.as_str());
                format!(", and the version of `{read}` as `{}`", version.argument)
            });
            format!("tool `{tool}`{}{}", members(arguments), versions.collect::<String>())
        }
        SendRule::AnyTool { server, tool, arguments } => {
            format!("the tool that `{tool}` names, of the server that `{server}` names, with `{arguments}`")
        }
    }
}

fn members(body: &BodyRule) -> String {
    match body {
        BodyRule::None => String::new(),
        BodyRule::Params => " with the parameters".to_owned(),
        BodyRule::Members(members) => {
            let members: Vec<String> =
                members.iter().map(|(name, value)| format!("`{name}` = {}", code(value.text()))).collect();
            format!(" with {}", members.join(", "))
        }
    }
}

/// A text as the author would write it.
fn text(parts: &[TextPart], reads: &[Read]) -> String {
    parts.iter().fold(String::new(), |mut out, part| {
        match part {
            TextPart::Literal(literal) => out.push_str(&literal.replace('{', "{{").replace('}', "}}")),
            TextPart::Param(name) => drop(write!(out, "{{{name}}}")),
            TextPart::Attribute { read, attribute } => {
                let name = reads.get(*read).map_or("", |read| read.name.as_str());
                let _ = write!(out, "{{{name}.{attribute}}}");
            }
            TextPart::Key => out.push_str("{call.key}"),
        }
        out
    })
}
