//! The parameters of an action, narrowed from a tool's `inputSchema` to what a pact can check.

use crate::mcp::message::Members;
use crate::mcp::tool::Tool;
use serde_json::{Map, Value};

/// How long a text may be for which the tool names no bound.
const TEXT_CHARS_MAX: i64 = 1000;
/// How many items a list may have for which the tool names no bound.
const ITEMS_MAX: i64 = 100;
/// Integers beyond this are not taken by the gate.
const INTEGER_MAX: i64 = (1 << 53) - 1;

/// Parameters as a pact has them.
pub struct Narrowed {
    /// The lines of `params`.
    pub lines: String,
    /// Optional parameters that cannot be said, with the reason.
    pub dropped: Vec<(String, String)>,
}

/// Narrows; where a parameter that the tool needs cannot be said, the reason.
pub fn narrow(tool: &Tool, action: &str) -> Result<Narrowed, String> {
    let schema = tool.member("inputSchema").map(|schema| Members::parse(schema.get()));
    let schema = schema.transpose().map_err(|error| error.to_string())?.unwrap_or_default();
    let list = |name: &str| schema.get(name).and_then(|list| serde_json::from_str::<Vec<String>>(list.get()).ok());
    let required = list("required").unwrap_or_default();
    let mut kept = Vec::new();
    let mut dropped = Vec::new();
    let mut properties = String::new();
    for (name, property) in schema.object("properties").iter().flat_map(Members::iter) {
        let property: Value = serde_json::from_str(property.get()).map_err(|error| error.to_string())?;
        match type_of(name, &property) {
            Ok(ty) => {
                properties.push_str(&format!("properties.{name} = {ty}\n"));
                if required.iter().any(|required| required == name) {
                    kept.push(toml::Value::String(name.to_owned()).to_string());
                }
            }
            Err(why) if required.iter().any(|required| required == name) => {
                return Err(format!("it needs the parameter `{name}`, and {why}"));
            }
            Err(why) => dropped.push((name.escape_debug().to_string(), why)),
        }
    }
    let lines = format!(
        "[action.{action}.params]\ntype = \"object\"\nadditionalProperties = false\nrequired = [{}]\n{properties}",
        kept.join(", ")
    );
    Ok(Narrowed { lines, dropped })
}

/// Whether a name of someone else's can stand in a pact and in a condition as it is. Nothing else may: it could end the line, and go
/// on with rules of its own.
pub fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && name.bytes().all(plain) && !name.starts_with(|first: char| first.is_ascii_digit())
}

/// One parameter as a TOML table on one line.
fn type_of(name: &str, property: &Value) -> Result<String, String> {
    if !is_plain(name) {
        return Err("conditions could not name it".to_owned());
    }
    let Value::Object(property) = property else { return Err("it has no type".to_owned()) };
    if let Some(values) = property.get("enum").and_then(Value::as_array) {
        let all = |is: fn(&Value) -> bool| !values.is_empty() && values.iter().all(is);
        if all(Value::is_string) || all(Value::is_i64) {
            let values: Vec<String> = values.iter().map(toml_of).collect();
            return Ok(format!("{{ enum = [{}] }}", values.join(", ")));
        }
        return Err("its values are of several kinds".to_owned());
    }
    let bound = |key: &str| property.get(key).and_then(Value::as_i64).filter(|bound| bound.abs() <= INTEGER_MAX);
    match property.get("type").and_then(Value::as_str) {
        Some("string") => {
            let least = bound("minLength").map(|least| format!("minLength = {least}, ")).unwrap_or_default();
            let most = bound("maxLength").unwrap_or(TEXT_CHARS_MAX);
            Ok(format!("{{ type = \"string\", {least}maxLength = {most} }}"))
        }
        Some("integer") => {
            let keys = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
            let bounds = keys.iter().filter_map(|key| Some(format!(", {key} = {}", bound(key)?)));
            Ok(format!("{{ type = \"integer\"{} }}", bounds.collect::<String>()))
        }
        Some("boolean") => Ok("{ type = \"boolean\" }".to_owned()),
        Some("array") => list(name, property),
        Some("number") => {
            Err("numbers with a fraction are not decided on; offer it in minor units, as an integer".to_owned())
        }
        Some(other) => Err(format!("it is of type {other}, which a pact does not narrow by itself")),
        None => Err("it can be of several types".to_owned()),
    }
}

fn list(name: &str, property: &Map<String, Value>) -> Result<String, String> {
    let items = property.get("items").ok_or("it does not say what it is a list of")?;
    if items.get("type").and_then(Value::as_str).is_none_or(|ty| !["string", "integer", "boolean"].contains(&ty)) {
        return Err("it is not a list of texts, integers or booleans".to_owned());
    }
    let most = property.get("maxItems").and_then(Value::as_i64).unwrap_or(ITEMS_MAX);
    Ok(format!("{{ type = \"array\", maxItems = {most}, items = {} }}", type_of(name, items)?))
}

fn toml_of(value: &Value) -> String {
    match value {
        Value::String(text) => toml::Value::String(text.clone()).to_string(),
        other => other.to_string(),
    }
}
