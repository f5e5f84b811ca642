//! A first pact from what a server says of its tools. It works as it is: every action that changes something is guarded by what its
//! agent has read, and open questions stand as comments next to the line that answers them.
//!
//! Parameters are narrowed from each tool's `inputSchema` to what a pact can check. Where one tool reads what another changes, the fact
//! that this could be is there as a comment. What cannot be said in a pact is left out, with the reason, and stays denied. Which tools
//! read and which write is a guess from annotations and names: it counts once an admin has approved it.

mod pairs;
mod schema;

pub use pairs::only_reads;

use super::tool::Tool;
use countersign_core::ids::{ActionName, FactType, PactName};
use countersign_core::pact::load::load;
use countersign_core::screen::visible::one_line;
use pairs::Pair;
use schema::{Narrowed, is_plain};

/// How much of a description becomes the `doc` of an action.
const DOC_CHARS_MAX: usize = 160;
/// How much of a text of others stands in a comment.
const SHOWN_BYTES_MAX: usize = 1024;
/// How many tools are named as those that an action may rest on.
const READERS_MAX: usize = 8;

const TOOL_FACTS: &str = "\
# Which tools are approved, and how they are guarded, as `countersign mcp approve` wrote it down.
[facts.McpTool]
attributes = { definition = \"String\", read_only = \"Bool\", guard = \"String?\" }
";

pub fn pact(upstream: &str, tools: &[Tool]) -> Result<String, String> {
    PactName::new(upstream).map_err(|error| format!("`{upstream}` cannot name a pact: {error}"))?;
    let (reads, writes): (Vec<&Tool>, Vec<&Tool>) = tools.iter().partition(|tool| only_reads(tool));
    let mut facts: Vec<String> = vec![TOOL_FACTS.to_owned()];
    let mut actions = Vec::new();
    for tool in &writes {
        let lines = match action(upstream, tool, &reads, None) {
            Ok(lines) if is_sound(upstream, tool, None, &lines) => lines,
            Ok(_) => {
                actions.push(left_out(tool, "a pact cannot say what it takes"));
                continue;
            }
            Err(why) => {
                actions.push(left_out(tool, &why));
                continue;
            }
        };
        // A pair that would not load is no help as a comment either.
        let is_fit = |pair: &Pair<'_>| {
            let with_pair = action(upstream, tool, &reads, Some(pair));
            with_pair.is_ok_and(|lines| is_sound(upstream, tool, Some(&pair.fact(upstream)), &lines))
        };
        let Some(pair) = pairs::find(tool, &reads).filter(is_fit) else {
            actions.push(lines);
            continue;
        };
        let fact = commented(&pair.fact(upstream));
        facts.extend(Some(fact).filter(|fact| !facts.contains(fact)));
        actions.push(lines + &pair_lines(tool, &pair));
    }
    if actions.is_empty() {
        return Err("it has no tool that changes anything, so there is nothing to write a pact for".to_owned());
    }
    let mut text = head(upstream, &reads, &writes);
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

fn head(upstream: &str, reads: &[&Tool], writes: &[&Tool]) -> String {
    let mut text = format!(
        "# A first pact for the MCP server `{upstream}`, drafted from its tools. It works as it is: an action runs only if everything\n\
         # that its agent has read in the session still reads the same right before the call. What you may want to change stands below\n\
         # as a comment next to the line that changes it. Then: `countersign pact check` and `countersign pact publish`.\n\
         #\n\
         # QUESTION: which tools only read? This is a guess, and counts once an admin has approved it. The gate may make a call of a tool\n\
         # that only reads again at any time, so one that changes something must not be among them.\n"
    );
    for tool in reads {
        let sure = if tool.read_only { "says so itself" } else { "by its name only" };
        text.push_str(&format!("#   {} only reads ({sure})\n", one_line(&tool.name, SHOWN_BYTES_MAX)));
    }
    for tool in writes.iter().filter(|tool| tool.read_only) {
        text.push_str(&format!(
            "#   {} says that it only reads, and its name says otherwise\n",
            one_line(&tool.name, SHOWN_BYTES_MAX)
        ));
    }
    let by_name: Vec<String> =
        reads.iter().filter(|tool| !tool.read_only && tool.unfit.is_none()).map(|tool| word(&tool.name)).collect();
    let by_name = if by_name.is_empty() { String::new() } else { format!(" --reads {}", by_name.join(",")) };
    text.push_str(&format!(
        "# To approve that, with {upstream} in countersign.toml:\n\
         #   countersign mcp approve --guard as-read{by_name}\n\
         # What is not named here stays denied, or is guarded without a pact where that is what was approved.\n\
         \npact = \"{upstream}\"\nversion = 1\ndoc = \"What agents may do through the MCP server {upstream}.\"\n\n"
    ));
    text
}

/// The name of a tool in a command that people copy: one that a shell would read otherwise is not offered.
fn word(name: &str) -> String {
    let is_plain = name.chars().all(|char| char.is_ascii_alphanumeric() || "_-./".contains(char));
    if is_plain { name.to_owned() } else { "TOOL".to_owned() }
}

/// One action for one tool; on the fact of a pair, if there is one.
fn action(upstream: &str, tool: &Tool, reads: &[&Tool], pair: Option<&Pair<'_>>) -> Result<String, String> {
    let name = ActionName::new(tool.name.as_str()).map_err(|error| error.to_string())?;
    if let Some(why) = &tool.unfit {
        return Err(why.clone());
    }
    let Narrowed { lines, dropped } = schema::narrow(tool, &name.to_string())?;
    let resource = pair.map_or_else(|| format!("McpTool::\"{upstream}/{name}\""), Pair::resource);
    let mut text = format!("[action.{name}]\n");
    if let Some(doc) = doc(tool) {
        text.push_str(&format!("doc = {doc}\n"));
    }
    text.push_str("guard = \"as-read\"\n");
    let readers: Vec<&str> = reads.iter().map(|tool| tool.name.as_str()).filter(|name| is_plain(name)).collect();
    if let Some(first) = readers.first() {
        let some: Vec<String> = readers.iter().take(READERS_MAX).map(|name| format!("\"{name}\"")).collect();
        text.push_str(&format!(
            "# QUESTION: which readings matter for this? All of the session count, unless you name some.\n\
             # rests_on = [{}]\n\
             # QUESTION: may an agent do this without having looked? It may, unless you say what it must have read.\n\
             # must_read = [\"{first}\"]\n\
             # stale_after = \"5m\"\n",
            some.join(", ")
        ));
    }
    text.push_str(&format!(
        "resource = '{resource}'\n\
         # QUESTION: who may? Every agent, unless you ask for a role: `countersign agent new --role {upstream}-writer`.\n\
         # allow = 'principal.roles.contains(\"{upstream}-writer\")'\n\
         allow = 'principal.standing == \"active\"'\n\
         # QUESTION: when this tool answers with an error, has it done nothing? If it may have done a part of it, write\n\
         # on_error = \"in_doubt\": then a person says what became of the call.\n\
         call = {{ mcp = \"{upstream}\", tool = \"{name}\", on_error = \"failed\" }}\n\n"
    ));
    for (param, why) in dropped {
        text.push_str(&format!(
            "# The parameter `{}` is left out: {}.\n",
            one_line(&param, SHOWN_BYTES_MAX),
            one_line(&why, SHOWN_BYTES_MAX)
        ));
    }
    text.push_str(&lines);
    text.push_str(&match pair {
        None => format!(
            "\n[[action.{name}.require]]\nid = \"approved-as-guarded\"\nthat = 'resource has guard && resource.guard == \"as-read\"'\n"
        ),
        Some(pair) => format!("\n[[action.{name}.require]]\nid = \"as-it-must-be\"\nthat = '{}'\n", pair.condition()),
    });
    Ok(text)
}

/// How an action comes to decide on what a tool reads, as comments behind it.
fn pair_lines(tool: &Tool, pair: &Pair<'_>) -> String {
    commented(&format!(
        "To decide on what {read} says, beside what was read: uncomment the fact {ty} above, take this resource in place of the one\n\
         of {name}, and this condition in place of its own. Agents then read {read} as an observation.\n\
         resource = '{resource}'\n\
         [[action.{name}.require]]\nid = \"as-it-must-be\"\nthat = '{condition}'\n",
        read = pair.read_name(),
        ty = pair.ty(),
        name = tool.name,
        resource = pair.resource(),
        condition = pair.condition(),
    ))
}

/// Lines as comments.
fn commented(lines: &str) -> String {
    let comment = |line: &str| match (line.is_empty(), line.starts_with('#')) {
        (true, _) => "#\n".to_owned(),
        (_, true) => format!("{line}\n"),
        _ => format!("# {line}\n"),
    };
    lines.lines().map(comment).collect()
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
    format!(
        "# The tool {} is left out, and stays denied: {}.\n",
        one_line(&tool.name, SHOWN_BYTES_MAX),
        one_line(why, SHOWN_BYTES_MAX)
    )
}

/// The beginning of a tool's description, as a TOML string.
fn doc(tool: &Tool) -> Option<String> {
    let text: String = serde_json::from_str(tool.member("description")?.get()).ok()?;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(toml::Value::String(shortened(line)).to_string())
}

/// The beginning of a long line, which ends with a word.
fn shortened(line: &str) -> String {
    let Some((end, _)) = line.char_indices().nth(DOC_CHARS_MAX) else { return line.to_owned() };
    let start = line.get(..end).unwrap_or_default();
    let whole = start.rsplit_once(char::is_whitespace).map_or(start, |(words, _)| words);
    format!("{}…", whole.trim_end())
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
