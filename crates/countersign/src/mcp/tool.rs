//! A tool as its server describes it: what of it is approved (a hash of the whole definition), and what must not stand in it.

use super::adapter::RESOURCE;
use super::message::{Members, Raw};
use countersign_core::canonical::Canonical;
use countersign_core::ids::Digest;
use countersign_core::screen::visible;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::time::Duration;

/// How long a list of tools counts, of a server that does not say when it changes.
pub const LISTED_FOR: Duration = Duration::from_secs(10);

/// Why a tool is unfit whose name another one has.
pub const TWINS: &str = "two tools have this name";

/// The longest id of a tool, with its upstream's name in front; as the pact of the gateway has it.
const ID_BYTES_MAX: usize = 200;

/// How deep a definition may be nested: no one reads deeper, and what goes through it must not run out of stack.
const DEPTH_MAX: usize = 64;

#[derive(Debug, Clone)]
pub struct Tool {
    /// Its name, as its server has it.
    pub name: String,
    /// SHA-256 of the canonical form of its definition, in hex.
    pub definition: String,
    /// Whether it says of itself that it only reads.
    pub read_only: bool,
    /// Why it is not to be shown to anyone.
    pub unfit: Option<String>,
    members: Members,
}

impl Tool {
    /// Whether it can be called without arguments.
    pub fn needs_no_arguments(&self) -> bool {
        let schema =
            self.member("inputSchema").and_then(|schema| serde_json::from_str::<serde_json::Value>(schema.get()).ok());
        let required = schema.as_ref().and_then(|schema| schema.get("required"));
        required.is_none_or(|required| required.as_array().is_some_and(Vec::is_empty))
    }

    /// Whether it says of itself that it does what cannot be undone.
    pub fn is_destructive(&self) -> bool {
        let annotations = self.member("annotations").and_then(|annotations| Members::parse(annotations.get()).ok());
        annotations.is_some_and(|it| it.get("destructiveHint").is_some_and(|hint| hint.get() == "true"))
    }

    /// Reads a definition. One without a name cannot be named in an error either.
    pub fn parse(definition: &RawValue) -> Result<Self, String> {
        let members =
            Members::parse(definition.get()).map_err(|error| format!("is no definition of a tool: {error}"))?;
        let name = members.text("name").ok_or("has no name")?;
        let mut strings = Vec::new();
        let (definition, mut unfit) = match canonical(definition, &mut strings, 0) {
            Ok(text) => (hash(text.as_bytes()), None),
            Err(why) => (String::new(), Some(format!("its definition cannot be read in one way only: {why}"))),
        };
        if let Some(hidden) = visible::hidden(strings.iter().map(String::as_str)) {
            unfit = Some(format!("its definition holds characters that people do not see: {hidden}"));
        }
        if name == RESOURCE {
            unfit = Some(format!("`{name}` is the name of a method of the protocol, which the gate takes it for"));
        }
        let read_only = members.object("annotations").and_then(|annotations| {
            let hint = annotations.get("readOnlyHint")?.get() == "true";
            Some(hint && annotations.get("destructiveHint").is_none_or(|hint| hint.get() != "true"))
        });
        Ok(Self { name, definition, read_only: read_only.unwrap_or(false), unfit, members })
    }

    /// Reads the tools of one page of a list. A name that is duplicated is fit for no one.
    pub fn parse_page(result: &Members) -> Result<Vec<Self>, String> {
        let page = result.get("tools").ok_or("the list of tools has no `tools`")?;
        let page: Vec<Raw> =
            serde_json::from_str(page.get()).map_err(|error| format!("`tools` is no list: {error}"))?;
        let mut tools: Vec<Self> = Vec::new();
        for raw in &page {
            match Self::parse(raw) {
                Ok(tool) => tools.push(tool),
                Err(why) => tracing::warn!(why, "a tool is left out"),
            }
        }
        Self::mark_twins(&mut tools);
        Ok(tools)
    }

    /// Reads the tools of a list of several pages. A name that is duplicated is fit for no one, also on two pages.
    pub fn parse_pages<'a>(pages: impl Iterator<Item = &'a Members>) -> Result<Vec<Self>, String> {
        let pages = pages.map(Self::parse_page).collect::<Result<Vec<_>, _>>()?;
        let mut tools: Vec<Self> = pages.into_iter().flatten().collect();
        Self::mark_twins(&mut tools);
        Ok(tools)
    }

    fn mark_twins(tools: &mut [Self]) {
        let mut seen: HashMap<String, usize> = HashMap::new();
        for tool in &*tools {
            *seen.entry(tool.name.clone()).or_default() += 1;
        }
        for tool in tools {
            if seen.get(&tool.name).is_some_and(|count| *count > 1) {
                tool.unfit = Some(TWINS.to_owned());
            }
        }
    }

    /// Its definition under another name.
    pub fn renamed(&self, name: &str) -> Raw {
        let mut members = self.members.clone();
        members.set("name", super::message::raw(&name));
        members.to_raw()
    }

    /// Its definition, as it stands.
    pub fn raw(&self) -> Raw {
        self.members.to_raw()
    }

    /// A member of its definition.
    pub fn member(&self, name: &str) -> Option<&RawValue> {
        self.members.get(name)
    }
}

/// The id of a tool's fact: the upstream's name and the tool's.
pub fn fact_id(upstream: &str, tool: &str) -> Option<String> {
    let id = format!("{upstream}/{tool}");
    (id.len() <= ID_BYTES_MAX && !tool.is_empty()).then_some(id)
}

/// SHA-256 in hex.
pub fn hash(bytes: &[u8]) -> String {
    Digest::of(bytes).to_string()
}

/// The canonical form of any JSON (RFC 8785, with fractions as serde_json writes them), and all strings in it.
fn canonical(raw: &RawValue, strings: &mut Vec<String>, depth: usize) -> Result<String, String> {
    let text = raw.get();
    if depth > DEPTH_MAX {
        return Err(format!("it is nested deeper than {DEPTH_MAX} levels"));
    }
    match text.as_bytes().first() {
        Some(b'{') => {
            let members = Members::parse(text).map_err(|error| error.to_string())?;
            let mut sorted: Vec<(&str, &RawValue)> = members.iter().collect();
            sorted.sort_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
            let mut parts = Vec::new();
            for (name, value) in sorted {
                strings.push(name.to_owned());
                parts.push(format!("{}:{}", quoted(name), canonical(value, strings, depth + 1)?));
            }
            Ok(format!("{{{}}}", parts.join(",")))
        }
        Some(b'[') => {
            let items: Vec<Raw> = serde_json::from_str(text).map_err(|error| error.to_string())?;
            let items = items.iter().map(|item| canonical(item, strings, depth + 1)).collect::<Result<Vec<_>, _>>()?;
            Ok(format!("[{}]", items.join(",")))
        }
        Some(b'"') => {
            let string: String = serde_json::from_str(text).map_err(|error| error.to_string())?;
            let quoted = quoted(&string);
            strings.push(string);
            Ok(quoted)
        }
        _ => {
            let scalar: serde_json::Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
            Ok(scalar.to_string())
        }
    }
}

fn quoted(text: &str) -> String {
    let mut out = Canonical::new();
    out.string(text);
    out.into_string()
}

#[cfg(test)]
mod tests {
    use super::super::message::raw;
    use super::*;

    fn tool(text: &str) -> Tool {
        Tool::parse(&RawValue::from_string(text.to_owned()).expect("is JSON")).expect("has a name")
    }

    #[test]
    fn a_definition_is_known_by_all_of_it_and_not_by_its_spelling() {
        let one =
            tool(r#"{"name":"a","description":"x","inputSchema":{"type":"object","b":1,"a":0.5},"x-new":[null]}"#);
        let same = tool(
            r#"{ "x-new":[null], "inputSchema":{"a":5e-1,"b":1,"type":"object"},"description":"\u0078","name":"a"}"#,
        );
        assert_eq!(one.definition, same.definition);
        for other in [
            r#"{"name":"a","description":"y","inputSchema":{"type":"object","b":1,"a":0.5},"x-new":[null]}"#,
            r#"{"name":"a","description":"x","inputSchema":{"type":"object","b":1,"a":0.5},"x-new":[]}"#,
            r#"{"name":"a","description":"x","inputSchema":{"type":"object","b":1,"a":0.5}}"#,
        ] {
            assert_ne!(one.definition, tool(other).definition, "{other}");
        }
    }

    #[test]
    fn what_must_not_be_shown_says_why() {
        assert_eq!(tool(r#"{"name":"a","description":"fine — ⚠️ ok"}"#).unfit, None);
        let hidden = tool(
            "{\"name\":\"a\",\"inputSchema\":{\"properties\":{\"x\":{\"description\":\"a\\u200bb\\udb40\\udc41\"}}}}",
        );
        let why = hidden.unfit.expect("is unfit");
        assert!(why.contains("U+200B") && why.contains("U+E0041"), "{why}");
        assert!(tool(r#"{"name":"a","x":{"b":1,"b":2}}"#).unfit.expect("is unfit").contains("appears twice"));
        let page = Members::parse(r#"{"tools":[{"name":"a"},{"name":"a","x":1},{"name":"b"},7]}"#).expect("is a page");
        let fit: Vec<bool> =
            Tool::parse_page(&page).expect("is a list").iter().map(|tool| tool.unfit.is_none()).collect();
        assert_eq!(fit, [false, false, true]);
    }

    #[test]
    fn only_a_plain_yes_makes_a_tool_read_only() {
        assert!(tool(r#"{"name":"a","annotations":{"readOnlyHint":true}}"#).read_only);
        for text in [
            r#"{"name":"a"}"#,
            r#"{"name":"a","annotations":{"readOnlyHint":"true"}}"#,
            r#"{"name":"a","annotations":{"readOnlyHint":true,"destructiveHint":true}}"#,
            r#"{"name":"a","annotations":{"readOnlyHint":true,"readOnlyHint":false}}"#,
        ] {
            assert!(!tool(text).read_only, "{text}");
        }
        assert_eq!(tool(r#"{"name":"a","x":1}"#).renamed("b").get(), r#"{"name":"b","x":1}"#);
        assert_eq!(raw(&"a").get(), "\"a\"");
    }
}
