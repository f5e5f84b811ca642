//! Which tools belong together: one that reads a thing, and one that changes it.

use super::schema::is_plain;
use super::type_name;
use crate::mcp::message::Members;
use crate::mcp::tool::Tool;
use countersign_core::ids::FactType;
use serde_json::Value;

/// The first words of tools that look as if they only read.
const READING: [&str; 12] =
    ["get", "read", "list", "find", "search", "show", "describe", "fetch", "query", "count", "check", "view"];
/// Words that a tool which only reads does not have in its name: `get_or_create`, `fetch_and_delete`, `check_out`.
const WRITING: [&str; 30] = [
    "ack", "add", "and", "append", "clear", "commit", "create", "delete", "edit", "insert", "mark", "move", "or",
    "out", "pop", "post", "purge", "put", "remove", "rename", "replace", "reset", "save", "send", "set", "store",
    "swap", "update", "upsert", "write",
];
/// The first words of tools that read one thing by its id.
const GETTING: [&str; 5] = ["get", "read", "fetch", "show", "describe"];

/// Whether a tool only reads, by what it says or, where it says nothing, by its name.
pub fn only_reads(tool: &Tool) -> bool {
    let says_nothing = tool.member("annotations").and_then(|hints| Members::parse(hints.get()).ok());
    let says_nothing =
        says_nothing.is_none_or(|hints| hints.get("readOnlyHint").is_none() && hints.get("destructiveHint").is_none());
    let by_name =
        || READING.contains(&words(&tool.name).0) && !pieces(&tool.name).any(|word| WRITING.contains(&word.as_str()));
    tool.read_only || (says_nothing && by_name())
}

/// A tool that reads a fact, for one that changes it.
pub struct Pair<'a> {
    ty: FactType,
    read: &'a Tool,
    /// The reading tool's only argument.
    argument: String,
    /// The changing tool's parameter that names the same thing.
    param: String,
    attributes: Vec<(String, &'static str)>,
}

/// The reading tool that goes with a changing one, if there is one: `get_account` for `update_account`, or for any tool that
/// takes an `account` or an `account_id`.
pub fn find<'a>(write: &Tool, reads: &[&'a Tool]) -> Option<Pair<'a>> {
    let params = properties(write, "inputSchema");
    let required = required(write);
    reads.iter().find_map(|read| {
        let (verb, noun) = words(&read.name);
        let arguments = properties(read, "inputSchema");
        let [(argument, Value::Object(schema))] = arguments.as_slice() else { return None };
        if !is_plain(argument) {
            return None;
        }
        if !GETTING.contains(&verb) || noun.is_empty() || schema.get("type").and_then(Value::as_str) != Some("string") {
            return None;
        }
        let same_noun = words(&write.name).1 == noun;
        let named = [noun.to_owned(), format!("{noun}_id"), argument.clone()];
        let mut fits = named.iter().take(if same_noun { 3 } else { 2 });
        let param =
            fits.find(|name| required.contains(*name) && params.iter().any(|(known, _)| known == *name))?.clone();
        let attributes = attributes(read);
        if attributes.is_empty() {
            return None;
        }
        if !is_plain(&param) || !is_plain(&read.name.replace('-', "_")) {
            return None;
        }
        Some(Pair { ty: type_name(noun)?, read, argument: argument.clone(), param, attributes })
    })
}

impl Pair<'_> {
    /// The fact type, with its source.
    pub fn fact(&self, upstream: &str) -> String {
        let attributes: Vec<String> = self.attributes.iter().map(|(name, ty)| format!("{name} = \"{ty}\"")).collect();
        format!(
            "# Read by the gate with the tool {read}, again right before the call: `rechecked`. A tool that changes it\n\
             # without an action that names it, or somebody past the gate, can still come between.\n\
             [facts.{ty}]\nattributes = {{ {} }}\n\
             source = {{ mcp = \"{upstream}\", tool = \"{read}\", arguments = {{ {} = \"{{id}}\" }}, at = \"/structuredContent\" }}\n\n\
             # Whom the tool's answers are shown to. What an agent was shown is sealed, and goes along with what it does next.\n\
             [observe.{ty}]\nwho = 'true'\nattributes = \"*\"\n",
            attributes.join(", "),
            self.argument,
            ty = self.ty,
            read = self.read.name,
        )
    }

    /// The type of the fact.
    pub fn ty(&self) -> &FactType {
        &self.ty
    }

    /// The tool that reads it.
    pub fn read_name(&self) -> &str {
        &self.read.name
    }

    /// The resource of the action.
    pub fn resource(&self) -> String {
        format!("{}::\"{{{}}}\"", self.ty, self.param)
    }

    /// A condition on the fact that never holds.
    pub fn condition(&self) -> String {
        match self.attributes.iter().find(|(_, ty)| *ty == "String").or(self.attributes.first()) {
            Some((name, "String")) => format!("resource.{name} == \"replace me\""),
            Some((name, "Long")) => format!("resource.{name} < 0 && resource.{name} > 0"),
            Some((name, _)) => format!("resource.{name} && !resource.{name}"),
            None => "false".to_owned(),
        }
    }
}

/// The first word of a name, and the rest.
fn words(name: &str) -> (&str, &str) {
    name.split_once(['_', '-']).unwrap_or((name, ""))
}

/// All words of a name.
fn pieces(name: &str) -> impl Iterator<Item = String> {
    name.split(|char: char| !char.is_ascii_alphanumeric()).map(str::to_ascii_lowercase)
}

fn properties(tool: &Tool, schema: &str) -> Vec<(String, Value)> {
    let schema = tool.member(schema).and_then(|schema| Members::parse(schema.get()).ok());
    let properties = schema.and_then(|schema| schema.object("properties"));
    let parsed = |(name, value): (&str, &serde_json::value::RawValue)| {
        Some((name.to_owned(), serde_json::from_str(value.get()).ok()?))
    };
    properties.iter().flat_map(Members::iter).filter_map(parsed).collect()
}

fn required(tool: &Tool) -> Vec<String> {
    let schema = tool.member("inputSchema").and_then(|schema| Members::parse(schema.get()).ok());
    schema.and_then(|schema| serde_json::from_str(schema.get("required")?.get()).ok()).unwrap_or_default()
}

/// What the reading tool says its result holds, as far as facts can hold it.
fn attributes(read: &Tool) -> Vec<(String, &'static str)> {
    let ty = |property: &Value| match property.get("type").and_then(Value::as_str)? {
        "string" => Some("String?"),
        "integer" => Some("Long?"),
        "boolean" => Some("Bool?"),
        _ => None,
    };
    let all = properties(read, "outputSchema");
    let needed: Vec<String> = read
        .member("outputSchema")
        .and_then(|schema| Members::parse(schema.get()).ok())
        .and_then(|schema| serde_json::from_str(schema.get("required")?.get()).ok())
        .unwrap_or_default();
    let kept = all.iter().filter(|(name, _)| needed.contains(name) && is_plain(name));
    kept.filter_map(|(name, property)| Some((name.clone(), ty(property)?.trim_end_matches('?')))).collect()
}
