//! The parameters of an action, narrowed from a tool's `inputSchema` to what a pact can check.
//!
//! What a tool says of its own accord is kept where a pact has a word for it: null beside a type, objects, lists, references. A schema
//! is someone else's text: nothing of it reaches the pact but names that are plain, numbers, and texts in quotes.

use crate::mcp::message::Members;
use crate::mcp::tool::Tool;
use serde_json::{Map, Value};

/// How long a text may be for which the tool names no bound: a long mail, well within what an action may take.
const TEXT_CHARS_MAX: i64 = 20_000;
/// How many items a list may have for which the tool names no bound.
const ITEMS_MAX: i64 = 100;
/// How many members an object may have that does not name them.
const MEMBERS_MAX: i64 = 100;
/// Integers beyond this are not taken by the gate.
const INTEGER_MAX: i64 = (1 << 53) - 1;
/// How deep objects, lists and references may lead.
const DEPTH_MAX: usize = 8;

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
    let whole: Value =
        tool.member("inputSchema").and_then(|it| serde_json::from_str(it.get()).ok()).unwrap_or_default();
    let narrowing = Narrowing { whole: &whole };
    let mut kept = Vec::new();
    let mut dropped = Vec::new();
    let mut properties = String::new();
    for (name, property) in schema.object("properties").iter().flat_map(Members::iter) {
        let property: Value = serde_json::from_str(property.get()).map_err(|error| error.to_string())?;
        match narrowing.named(name, &property, 0) {
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

/// One tool's schema, which its parts refer to.
struct Narrowing<'a> {
    whole: &'a Value,
}

/// A type, as the keys of a TOML table on one line.
struct Type {
    /// The word for `type`; none where values are listed.
    ty: Option<&'static str>,
    /// The other keys.
    rules: String,
    is_nullable: bool,
}

impl Type {
    fn new(ty: &'static str, rules: String) -> Self {
        Self { ty: Some(ty), rules, is_nullable: false }
    }

    fn table(&self) -> String {
        match (self.ty, self.is_nullable) {
            (Some(ty), false) => format!("{{ type = \"{ty}\"{} }}", self.rules),
            (Some(ty), true) => format!("{{ type = [\"{ty}\", \"null\"]{} }}", self.rules),
            (None, false) => format!("{{ {} }}", self.rules),
            (None, true) => format!("{{ anyOf = [{{ {} }}, {{ type = \"null\" }}] }}", self.rules),
        }
    }
}

impl Narrowing<'_> {
    /// A parameter, or a member of one that is an object.
    fn named(&self, name: &str, property: &Value, depth: usize) -> Result<String, String> {
        if !is_plain(name) {
            return Err("conditions could not name it".to_owned());
        }
        self.narrowed(property, depth).map(|ty| ty.table())
    }

    fn narrowed(&self, property: &Value, depth: usize) -> Result<Type, String> {
        if depth > DEPTH_MAX {
            return Err("it is nested too deeply, or refers to itself".to_owned());
        }
        let Value::Object(rules) = property else { return Err("it has no type".to_owned()) };
        if let Some(reference) = rules.get("$ref") {
            let pointer = reference.as_str().and_then(|reference| reference.strip_prefix('#'));
            let found = pointer.and_then(|pointer| self.whole.pointer(pointer));
            return self.narrowed(found.ok_or("it refers to something outside its schema")?, depth + 1);
        }
        for keyword in ["anyOf", "oneOf", "allOf"] {
            let Some(all) = rules.get(keyword).and_then(Value::as_array) else { continue };
            let is_null = |one: &&Value| one.get("type").is_some_and(|ty| ty == "null");
            let others: Vec<&Value> = all.iter().filter(|one| !is_null(one)).collect();
            let [one] = others.as_slice() else { return Err("it can be of several types".to_owned()) };
            let ty = self.narrowed(one, depth + 1)?;
            let is_nullable = ty.is_nullable || others.len() < all.len();
            return Ok(Type { is_nullable, ..ty });
        }
        let types: Vec<&str> = match rules.get("type") {
            Some(Value::Array(types)) => types.iter().filter_map(Value::as_str).collect(),
            Some(ty) => ty.as_str().into_iter().collect(),
            None => Vec::new(),
        };
        let is_nullable = types.contains(&"null");
        let mut others = types.iter().filter(|ty| **ty != "null");
        let ty = match (others.next(), others.next()) {
            (_, Some(_)) => return Err("it can be of several types".to_owned()),
            (ty, None) => ty.copied(),
        };
        self.of_type(rules, ty, depth).map(|ty| Type { is_nullable, ..ty })
    }

    fn of_type(&self, rules: &Map<String, Value>, ty: Option<&str>, depth: usize) -> Result<Type, String> {
        let listed = rules.get("enum").and_then(Value::as_array).map(|values| values.iter().filter(|it| !it.is_null()));
        let listed = listed.map(|values| values.collect::<Vec<_>>());
        let listed = listed.or_else(|| rules.get("const").map(|value| vec![value]));
        if let Some(values) = listed {
            let all = |is: fn(&Value) -> bool| !values.is_empty() && values.iter().all(|value| is(value));
            if all(Value::is_string) || all(Value::is_i64) || all(Value::is_boolean) {
                let values: Vec<String> = values.iter().map(|value| toml_of(value)).collect();
                return Ok(Type { ty: None, rules: format!("enum = [{}]", values.join(", ")), is_nullable: false });
            }
            return Err("its values are of several kinds".to_owned());
        }
        let bound = |key: &str| rules.get(key).and_then(Value::as_i64).filter(|bound| bound.abs() <= INTEGER_MAX);
        let bounds = |keys: &[&str]| -> String {
            keys.iter().filter_map(|key| Some(format!(", {key} = {}", bound(key)?))).collect()
        };
        match ty {
            Some("string") => {
                let least = bound("minLength").map(|least| format!(", minLength = {least}")).unwrap_or_default();
                let most = bound("maxLength").unwrap_or(TEXT_CHARS_MAX);
                Ok(Type::new("string", format!("{least}, maxLength = {most}")))
            }
            Some("integer") => {
                let keys = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
                Ok(Type::new("integer", bounds(&keys)))
            }
            // Bounds with a fraction would be read as floats here; a person can add them.
            Some("number") => {
                let keys = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];
                Ok(Type::new("decimal", bounds(&keys)))
            }
            Some("boolean") => Ok(Type::new("boolean", String::new())),
            Some("array") => {
                let items = rules.get("items").ok_or("it does not say what it is a list of")?;
                let items = self.narrowed(items, depth + 1)?;
                if items.is_nullable {
                    return Err("an element of it can be null".to_owned());
                }
                let most = bound("maxItems").unwrap_or(ITEMS_MAX);
                Ok(Type::new("array", format!(", maxItems = {most}, items = {}", items.table())))
            }
            Some("object") => self.object(rules, depth),
            Some(other) => Err(format!("it is of type {other}, which a pact does not narrow by itself")),
            None => Err("it can be of several types".to_owned()),
        }
    }

    /// An object that names its members, or one that may hold anything; the latter only as a parameter itself.
    fn object(&self, rules: &Map<String, Value>, depth: usize) -> Result<Type, String> {
        let properties = rules.get("properties").and_then(Value::as_object).filter(|all| !all.is_empty());
        let Some(properties) = properties else {
            if depth > 0 {
                return Err("a part of it does not say what it holds".to_owned());
            }
            return Ok(Type::new("object", format!(", additionalProperties = true, maxProperties = {MEMBERS_MAX}")));
        };
        let required = rules.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        let (mut named, mut needed) = (Vec::new(), Vec::new());
        for (name, property) in properties {
            let is_needed = required.iter().any(|required| required == name);
            match self.named(name, property, depth + 1) {
                Ok(ty) => {
                    named.push(format!("{name} = {ty}"));
                    needed.extend(is_needed.then(|| format!("\"{name}\"")));
                }
                Err(why) if is_needed => {
                    return Err(format!("it needs the member `{}`, and {why}", name.escape_debug()));
                }
                Err(_) => {}
            }
        }
        let (named, needed) = (named.join(", "), needed.join(", "));
        Ok(Type::new(
            "object",
            format!(", additionalProperties = false, required = [{needed}], properties = {{ {named} }}"),
        ))
    }
}

fn toml_of(value: &Value) -> String {
    match value {
        Value::String(text) => toml::Value::String(text.clone()).to_string(),
        other => other.to_string(),
    }
}
