//! A first pact from what a server says of its tools: a place to start reading, in which nothing is allowed yet.
//!
//! Parameters are narrowed from each tool's `inputSchema` to what a pact can check. A tool that reads one thing and one that
//! changes it become a fact with its source and an action on it. What cannot be said in a pact is left out, with the reason, and
//! stays denied. Every condition that is written here never holds: a person has to replace it.

mod pairs;
mod schema;

pub use pairs::only_reads;

use super::tool::Tool;
use countersign_core::ids::{ActionName, FactType, PactName};
use countersign_core::pact::load::load;
use pairs::Pair;
use schema::Narrowed;

/// How much of a description becomes the `doc` of an action.
const DOC_CHARS_MAX: usize = 160;

const TOOL_FACTS: &str = "\
# Which tools are approved, as `countersign mcp approve` wrote them down.
[facts.McpTool]
attributes = { definition = \"String\", read_only = \"Bool\" }
";

pub fn pact(upstream: &str, tools: &[Tool]) -> Result<String, String> {
    PactName::new(upstream).map_err(|error| format!("`{upstream}` cannot name a pact: {error}"))?;
    let (reads, writes): (Vec<&Tool>, Vec<&Tool>) = tools.iter().partition(|tool| only_reads(tool));
    let mut facts: Vec<String> = vec![TOOL_FACTS.to_owned()];
    let mut actions = Vec::new();
    for tool in &writes {
        let pair = pairs::find(tool, &reads);
        let fact = pair.as_ref().map(|pair| pair.fact(upstream));
        match action(upstream, tool, pair.as_ref()) {
            Ok(lines) if is_sound(upstream, tool, fact.as_deref(), &lines) => {
                facts.extend(fact.filter(|fact| !facts.contains(fact)));
                actions.push(lines);
            }
            // Where the pair does not load, the action may still do without it.
            _ => match action(upstream, tool, None) {
                Ok(lines) if is_sound(upstream, tool, None, &lines) => actions.push(lines),
                Ok(_) => actions.push(left_out(tool, "a pact cannot say what it takes")),
                Err(why) => actions.push(left_out(tool, &why)),
            },
        }
    }
    if actions.is_empty() {
        return Err("it has no tool that changes anything, so there is nothing to write a pact for".to_owned());
    }
    let mut text = head(upstream, &reads);
    text.push_str(&facts.join("\n"));
    text.push('\n');
    text.push_str(&actions.join("\n"));
    match load(&text) {
        Ok(loaded) if loaded.pact.actions.keys().all(|name| writes.iter().any(|tool| tool.name == name.as_str())) => {
            Ok(text)
        }
        Ok(_) => Err("no sound pact can be written for its tools: their names make up actions of their own".to_owned()),
        Err(problems) => {
            let first = problems.first().map(|problem| problem.message.clone()).unwrap_or_default();
            Err(format!("no sound pact can be written for its tools: {first}"))
        }
    }
}

/// The lines to add to a pact for one tool.
pub fn action_lines(upstream: &str, tool: &Tool) -> String {
    action(upstream, tool, None).unwrap_or_else(|why| left_out(tool, &why))
}

fn head(upstream: &str, reads: &[&Tool]) -> String {
    let mut text = format!(
        "# A first pact for the MCP server `{upstream}`, drafted from its tools. Nothing here is allowed yet: read it, replace every\n\
         # condition marked REPLACE, and run `countersign pact check` and `countersign pact publish` on it.\n\
         #\n\
         # What is not named here stays denied. Tools that say of themselves that they only read pass without a pact, once they are\n\
         # approved; every call of them is still recorded in the ledger.\n"
    );
    for tool in reads {
        let sure = if tool.read_only {
            "says so itself"
        } else {
            "by its name only; it passes when it says so itself, or when you map it"
        };
        text.push_str(&format!("#   {} only reads ({sure})\n", printable(&tool.name)));
    }
    text.push_str(&format!(
        "\npact = \"{upstream}\"\nversion = 1\ndoc = \"What agents may do through the MCP server {upstream}.\"\n\n"
    ));
    text
}

/// One action for one tool.
fn action(upstream: &str, tool: &Tool, pair: Option<&Pair<'_>>) -> Result<String, String> {
    let name = ActionName::new(tool.name.as_str()).map_err(|error| error.to_string())?;
    if let Some(why) = &tool.unfit {
        return Err(why.clone());
    }
    let Narrowed { lines, dropped } = schema::narrow(tool, &name.to_string())?;
    let (resource, condition) = match pair {
        Some(pair) => (pair.resource(), pair.condition()),
        None => (format!("McpTool::\"{upstream}/{name}\""), "resource.read_only".to_owned()),
    };
    let mut text = format!("[action.{name}]\n");
    if let Some(doc) = doc(tool) {
        text.push_str(&format!("doc = {doc}\n"));
    }
    text.push_str(&format!(
        "resource = '{resource}'\n\
         # Who may: give agents this role with `countersign agent new --role {upstream}-writer`.\n\
         allow = 'principal.roles.contains(\"{upstream}-writer\")'\n\
         # The call is made by the gate, after everything below held, and not by the agent.\n\
         call = {{ mcp = \"{upstream}\", tool = \"{name}\" }}\n\n"
    ));
    for (param, why) in dropped {
        text.push_str(&format!("# The parameter `{}` is left out: {}.\n", printable(&param), printable(&why)));
    }
    text.push_str(&lines);
    text.push_str(&format!(
        "\n# REPLACE: say what must hold at the instant of the call. Until then it never holds, so no one may.\n\
         [[action.{name}.require]]\nid = \"replace-me\"\nthat = '{condition}'\n"
    ));
    Ok(text)
}

/// Whether a pact with this action alone would load, and has nothing else in it.
fn is_sound(upstream: &str, tool: &Tool, fact: Option<&str>, action: &str) -> bool {
    let facts = 1 + usize::from(fact.is_some());
    let fact = fact.unwrap_or_default();
    let loaded = load(&format!("pact = \"{upstream}\"\nversion = 1\n{TOOL_FACTS}\n{fact}\n{action}"));
    loaded.is_ok_and(|loaded| {
        let names: Vec<&str> = loaded.pact.actions.keys().map(ActionName::as_str).collect();
        names == [tool.name.as_str()] && loaded.pact.facts.len() == facts
    })
}

fn left_out(tool: &Tool, why: &str) -> String {
    format!("# The tool {} is left out, and stays denied: {}.\n", printable(&tool.name), printable(why))
}

/// The beginning of a tool's description, as a TOML string.
fn doc(tool: &Tool) -> Option<String> {
    let text: String = serde_json::from_str(tool.member("description")?.get()).ok()?;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let line: String = line.chars().take(DOC_CHARS_MAX).collect();
    Some(toml::Value::String(line).to_string())
}

/// Text of others in a comment: one line, and nothing that a terminal acts on.
fn printable(text: &str) -> String {
    text.chars().take(400).map(|char| if char.is_control() { ' ' } else { char }).collect()
}

/// A type name from a word: `bank_account` is `BankAccount`.
fn type_name(word: &str) -> Option<FactType> {
    let parts = word.split(['_', '-']).filter(|part| !part.is_empty());
    let name: String = parts
        .map(|part| {
            let mut chars = part.chars();
            chars.next().map(|first| first.to_ascii_uppercase().to_string() + chars.as_str()).unwrap_or_default()
        })
        .collect();
    FactType::new(name.as_str()).ok()
}

#[cfg(test)]
mod tests;
