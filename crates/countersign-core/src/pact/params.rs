//! The parameters of an action type: JSON Schema written as TOML, and the Cedar types that follow from it.
//!
//! Only keywords that this module knows are accepted, because a mistyped bound would otherwise be no bound at all. Every
//! parameter has exactly one type, which may be missing or null; references lead to definitions of the same schema, and patterns run in
//! linear time.

mod keywords;
pub(crate) mod lower;
mod shapes;
mod slots;

pub use self::slots::Slots;

use self::keywords::{ANNOTATIONS, ARRAY, INTEGER, OBJECT, STRING, refuse_unknown};
use self::lower::lower;
use super::diagnostic::{Problems, closest};
use super::facts::check_name;
use super::source::{Node, array, integer, kind, shorten, string, table};
use super::{Params, RESERVED};
use crate::limits::{INTEGER_MAX, JSON_DEPTH_MAX};
use crate::value::{FieldType, ValueType};
use jsonschema::PatternOptions;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// Memory that one compiled pattern may take; ordinary patterns need a few kilobytes.
const PATTERN_BYTES_MAX: usize = 256 * 1024;

/// The parameters that an action type needs and that another, whose parameters it is given, might not have.
pub(super) fn missing_for<'a>(needing: &'a Params, given: &Params) -> Vec<&'a SmolStr> {
    let always = |name: &SmolStr| given.types.get(name).is_some_and(|field| field.required);
    let needed = needing.types.iter().filter(|(_, field)| field.required).map(|(name, _)| name);
    needed.filter(|name| !always(name)).collect()
}

/// Reads `params`; without it an action type has no parameters.
pub(super) fn read<'a>(source: &'a str, node: Option<Node<'a>>, problems: &mut Problems) -> Option<Params> {
    let Some(node) = node else {
        let schema = serde_json::json!({ "type": "object", "additionalProperties": false });
        let validator = compile(&schema).ok()?;
        let slots = Slots::compile(&schema);
        return Some(Params { lowered: schema.clone(), schema, validator, slots, types: BTreeMap::new() });
    };
    let before = problems.errors();
    let root = table(node, "`params`", problems)?;
    let definitions = root.get("$defs").and_then(|node| table(node, "`$defs`", problems));
    let mut reader = Reader { source, definitions, references: Vec::new(), problems };
    reader.expect_object(root, &node.span());
    let types = reader.object(root, &node.span(), 0);
    reader.unused_definitions();
    for (key, _) in properties(root).into_iter().flatten() {
        let name = key.get_ref().as_ref();
        if RESERVED.contains(&name) {
            let message = format!("a parameter cannot be called `{name}`: conditions use that name for something else");
            reader.problems.error(&key.span(), message, "rename the parameter");
        }
    }
    if problems.errors() > before {
        return None;
    }
    let schema = json(node.get_ref());
    let lowered = lower(&schema);
    match compile(&lowered) {
        Ok(validator) => Some(Params { slots: Slots::compile(&lowered), lowered, schema, validator, types }),
        Err((path, message)) => {
            let span = at_path(node, &path).unwrap_or_else(|| node.span());
            let hint = if path.ends_with("/pattern") {
                "patterns have neither look-around nor back-references, and must stay small"
            } else {
                "see https://json-schema.org for what the keyword takes"
            };
            problems.error(&span, format!("this is not a usable JSON Schema: {message}"), hint);
            None
        }
    }
}

/// Compiles a schema that this module has accepted. Nothing can be fetched: the crate is built without resolvers.
fn compile(schema: &Json) -> Result<jsonschema::Validator, (String, String)> {
    let patterns = PatternOptions::regex().size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX);
    let options = jsonschema::options().with_draft(jsonschema::Draft::Draft202012).with_pattern_options(patterns);
    options.build(schema).map_err(|error| {
        let path = match error.instance_path().as_str() {
            "" => error.schema_path().as_str().to_owned(),
            path => path.to_owned(),
        };
        (path, shorten(&error.to_string()))
    })
}

fn properties<'a>(object: &'a DeTable<'a>) -> Option<&'a DeTable<'a>> {
    match object.get("properties")?.get_ref() {
        DeValue::Table(properties) => Some(properties),
        _ => None,
    }
}

struct Reader<'a, 'p> {
    source: &'a str,
    /// What references lead to.
    definitions: Option<&'a DeTable<'a>>,
    /// The definitions that are being read, outermost first.
    references: Vec<&'a str>,
    problems: &'p mut Problems,
}

/// What a property is read as.
struct Property {
    /// `None` where conditions cannot read it.
    ty: Option<ValueType>,
    /// Whether it may be null, which is as good as absent.
    is_nullable: bool,
}

impl Property {
    fn of(ty: ValueType) -> Self {
        Self { ty: Some(ty), is_nullable: false }
    }
}

impl<'a> Reader<'a, '_> {
    fn expect_object(&mut self, root: &'a DeTable<'a>, span: &Range<usize>) {
        let is_object =
            matches!(root.get("type").map(|node| node.get_ref()), Some(DeValue::String(ty)) if ty == "object");
        if !is_object {
            let at = root.get("type").map_or_else(|| span.clone(), |node| node.span());
            self.problems.error(&at, "`params` must have type \"object\"", "write type = \"object\"");
        }
    }

    /// The fields of an object schema.
    fn object(&mut self, schema: &'a DeTable<'a>, span: &Range<usize>, depth: usize) -> BTreeMap<SmolStr, FieldType> {
        let root: &[&str] = if depth == 0 { &["$defs"] } else { &[] };
        refuse_unknown(schema, &[&["type"], &ANNOTATIONS, &OBJECT, root], self.problems);
        let (mut fields, mut unread) = (BTreeMap::new(), Vec::new());
        match schema.get("additionalProperties") {
            Some(node) if matches!(node.get_ref(), DeValue::Boolean(false)) => {}
            other => {
                let at = other.map_or_else(|| span.clone(), |node| node.span());
                let message = "an object must refuse what it does not name";
                self.problems.error(&at, message, "write additionalProperties = false");
            }
        }
        let required = self.required(schema);
        let Some(node) = schema.get("properties") else {
            self.refuse_unnamed(&required, &|_| false, &fields);
            return fields;
        };
        let Some(declared) = table(node, "`properties`", self.problems) else {
            return fields;
        };
        for (key, node) in declared {
            let name = key.get_ref().as_ref();
            if !check_name(name, &key.span(), self.problems) {
                continue;
            }
            // A property that was refused still counts as named, so that `required` raises no second problem.
            let read = self.property(node, name, depth + 1).unwrap_or_else(|| Property::of(ValueType::Bool));
            let is_required = required.iter().any(|(required, _)| required == name) && !read.is_nullable;
            match read.ty {
                Some(ty) => drop(fields.insert(SmolStr::new(name), FieldType { ty, required: is_required })),
                None if depth > 0 => {
                    let message = format!("`{name}` is free-form, which only a parameter itself can be");
                    self.problems.error(
                        &node.span(),
                        message,
                        "name its properties, or make the whole parameter free-form",
                    );
                }
                None => unread.push(SmolStr::new(name)),
            }
        }
        let named = |name: &str| fields.contains_key(name) || unread.iter().any(|unread| unread == name);
        self.refuse_unnamed(&required, &named, &fields);
        self.dependent(schema, &named, &fields);
        fields
    }

    fn required(&mut self, schema: &'a DeTable<'a>) -> Vec<(SmolStr, Range<usize>)> {
        let Some(node) = schema.get("required") else {
            return Vec::new();
        };
        self.names(node, "`required`")
    }

    fn names(&mut self, node: Node<'a>, what: &str) -> Vec<(SmolStr, Range<usize>)> {
        let items = array(node, what, self.problems).unwrap_or_default();
        let mut names: Vec<(SmolStr, Range<usize>)> = Vec::new();
        for item in items {
            let Some(text) = string(self.source, item, &format!("an element of {what}"), self.problems) else {
                continue;
            };
            if names.iter().any(|(name, _)| name == text.value) {
                let message = format!("`{}` appears twice in {what}", shorten(text.value));
                self.problems.error(&text.content(), message, "remove one of them");
            }
            names.push((SmolStr::new(text.value), text.content()));
        }
        names
    }

    fn refuse_unnamed(
        &mut self,
        names: &[(SmolStr, Range<usize>)],
        named: &dyn Fn(&str) -> bool,
        fields: &BTreeMap<SmolStr, FieldType>,
    ) {
        for (name, span) in names.iter().filter(|(name, _)| !named(name)) {
            let hint = match closest(name, fields.keys().map(SmolStr::as_str)) {
                Some(candidate) => format!("did you mean `{candidate}`?"),
                None => "declare it under `properties`".to_owned(),
            };
            self.problems.error(span, format!("`{}` is not a property", shorten(name)), hint);
        }
    }

    fn dependent(
        &mut self,
        schema: &'a DeTable<'a>,
        named: &dyn Fn(&str) -> bool,
        fields: &BTreeMap<SmolStr, FieldType>,
    ) {
        let Some(node) = schema.get("dependentRequired") else {
            return;
        };
        for (key, node) in table(node, "`dependentRequired`", self.problems).into_iter().flatten() {
            let mut names = self.names(node, "`dependentRequired`");
            names.push((SmolStr::new(key.get_ref()), key.span()));
            self.refuse_unnamed(&names, named, fields);
        }
    }

    /// The type of one property, which the schema must fix.
    fn property(&mut self, node: Node<'a>, name: &str, depth: usize) -> Option<Property> {
        if depth >= JSON_DEPTH_MAX {
            self.problems.error(&node.span(), "parameters are nested too deeply", "flatten them");
            return None;
        }
        let schema = table(node, &format!("`{name}`"), self.problems)?;
        if let Some(reference) = schema.get("$ref") {
            refuse_unknown(schema, &[&["$ref"], &ANNOTATIONS], self.problems);
            return self.reference(reference, name, depth);
        }
        if let Some(all) = schema.get("anyOf").or_else(|| schema.get("oneOf")) {
            refuse_unknown(schema, &[&["anyOf", "oneOf"], &ANNOTATIONS], self.problems);
            return self.alternatives(all, name, depth);
        }
        let types = schema.get("type").filter(|node| matches!(node.get_ref(), DeValue::Array(_)));
        let is_nullable = types.is_some();
        let ty = match types {
            Some(types) => Some(self.beside_null(types, name)?),
            None => schema.get("type"),
        };
        self.typed(node, schema, ty, name, depth).map(|read| Property { is_nullable, ..read })
    }

    fn typed(
        &mut self,
        node: Node<'a>,
        schema: &'a DeTable<'a>,
        ty: Option<Node<'a>>,
        name: &str,
        depth: usize,
    ) -> Option<Property> {
        let exact = ty.and_then(|ty| ty.get_ref().as_str()).filter(|ty| matches!(*ty, "money" | "decimal"));
        if let Some(exact) = exact {
            return self.exact(node, schema, exact == "money", name).map(Property::of);
        }
        let listed = self.listed(schema, name);
        let Some(ty) = ty else {
            let before = self.problems.errors();
            refuse_unknown(schema, &[&["type", "enum", "const"], &ANNOTATIONS], self.problems);
            let unknown = self.problems.errors() > before;
            if !unknown && listed.is_none() && !schema.contains_key("enum") && !schema.contains_key("const") {
                let message = format!("parameter `{name}` has no type");
                self.problems.error(&node.span(), message, "give it a `type`, an `enum` or a `const`");
            }
            return listed.map(Property::of);
        };
        let text = string(self.source, ty, "`type`", self.problems)?;
        let own = match text.value {
            "string" => self.scalar(schema, ValueType::String, &STRING),
            "integer" => self.scalar(schema, ValueType::Long, &INTEGER),
            "boolean" => self.scalar(schema, ValueType::Bool, &[]),
            "object" if is_free(schema) => {
                refuse_unknown(
                    schema,
                    &[&["type", "additionalProperties", "maxProperties"], &ANNOTATIONS],
                    self.problems,
                );
                return Some(Property { ty: None, is_nullable: false });
            }
            "array" => self.array(schema, node, name, depth)?,
            "object" => ValueType::Record(self.object(schema, &node.span(), depth)),
            other => {
                let hint = match other {
                    "number" => "use \"decimal\", or \"money\" with its `scale`: both are exact",
                    _ => {
                        "use one of \"string\", \"integer\", \"boolean\", \"money\", \"decimal\", \"array\", \"object\""
                    }
                };
                let message = format!("parameter `{name}` cannot have type `{}`", shorten(other));
                self.problems.error(&text.content(), message, hint);
                return None;
            }
        };
        if listed.is_some_and(|listed| listed != own) {
            let message = format!("the listed values of `{name}` are not of type `{}`", text.value);
            self.problems.error(&node.span(), message, "make `type` and the values agree");
        }
        Some(Property::of(own))
    }

    fn scalar(&mut self, schema: &'a DeTable<'a>, ty: ValueType, bounds: &[&'static str]) -> ValueType {
        refuse_unknown(schema, &[&["type", "enum", "const"], &ANNOTATIONS, bounds], self.problems);
        for bound in bounds.iter().filter(|bound| **bound != "pattern") {
            let Some(node) = schema.get(*bound) else {
                continue;
            };
            if !integer(node.get_ref()).is_some_and(|number| (-INTEGER_MAX..=INTEGER_MAX).contains(&number)) {
                let message = format!("`{bound}` must be a whole number within ±{INTEGER_MAX}");
                self.problems.error(&node.span(), message, "no quotes, no fraction; money is in minor units (cents)");
            }
        }
        ty
    }

    fn array(&mut self, schema: &'a DeTable<'a>, node: Node<'a>, name: &str, depth: usize) -> Option<ValueType> {
        refuse_unknown(schema, &[&["type"], &ANNOTATIONS, &ARRAY], self.problems);
        let Some(items) = schema.get("items") else {
            let message = format!("parameter `{name}` does not say what it is a list of");
            self.problems.error(&node.span(), message, "add items = { type = \"string\" }");
            return None;
        };
        match self.property(items, name, depth + 1)? {
            Property { ty: Some(element), is_nullable: false } => Some(ValueType::Set(Box::new(element))),
            Property { is_nullable: true, .. } => {
                let message = format!("an element of `{name}` cannot be null: a set has no place for what is absent");
                self.problems.error(&items.span(), message, "leave null out of the list");
                None
            }
            Property { ty: None, .. } => {
                let message = format!("an element of `{name}` is free-form, which only a parameter itself can be");
                self.problems.error(&items.span(), message, "name the properties of its elements");
                None
            }
        }
    }

    /// The type of the values under `enum` or `const`, all of one kind.
    fn listed(&mut self, schema: &'a DeTable<'a>, name: &str) -> Option<ValueType> {
        let (node, values) = match (schema.get("enum"), schema.get("const")) {
            (Some(node), _) => (node, array(node, "`enum`", self.problems)?),
            (None, Some(node)) => (node, std::slice::from_ref(node)),
            (None, None) => return None,
        };
        let mut types = Vec::new();
        for value in values {
            let ty = match value.get_ref() {
                DeValue::String(_) => ValueType::String,
                DeValue::Boolean(_) => ValueType::Bool,
                number if integer(number).is_some_and(|n| (-INTEGER_MAX..=INTEGER_MAX).contains(&n)) => ValueType::Long,
                other => {
                    let message = format!("a listed value of `{name}` cannot be {}", kind(other));
                    self.problems.error(&value.span(), message, "use strings, whole numbers, or booleans");
                    return None;
                }
            };
            types.push(ty);
        }
        let Some(first) = types.first().cloned() else {
            self.problems.error(&node.span(), format!("`{name}` can have no value at all"), "list at least one value");
            return None;
        };
        if types.iter().any(|ty| *ty != first) {
            let message = format!("the listed values of `{name}` are of several types");
            self.problems.error(&node.span(), message, "use only strings, only whole numbers, or only booleans");
            return None;
        }
        Some(first)
    }
}

/// Whether an object says that it may hold anything.
fn is_free(schema: &DeTable<'_>) -> bool {
    let any = schema.get("additionalProperties").is_some_and(|node| matches!(node.get_ref(), DeValue::Boolean(true)));
    any && !schema.contains_key("properties")
}

/// TOML as JSON. Numbers with a fraction and dates only survive in annotations, as text; the depth is bounded by the
/// reader above, and by TOML's own limit in annotations.
fn json(value: &DeValue<'_>) -> Json {
    match value {
        DeValue::String(text) => Json::String(text.to_string()),
        DeValue::Integer(_) => integer(value).map_or(Json::Null, Json::from),
        DeValue::Float(number) => Json::String(number.to_string()),
        DeValue::Boolean(flag) => Json::Bool(*flag),
        DeValue::Datetime(date) => Json::String(date.to_string()),
        DeValue::Array(items) => items.iter().map(|item| json(item.get_ref())).collect(),
        DeValue::Table(table) => {
            Json::Object(table.iter().map(|(key, node)| (key.get_ref().to_string(), json(node.get_ref()))).collect())
        }
    }
}

/// The place of what a JSON pointer names, or of the nearest thing above it.
fn at_path(root: Node<'_>, path: &str) -> Option<Range<usize>> {
    let mut node = root;
    for part in path.split('/').filter(|part| !part.is_empty()) {
        let part = part.replace("~1", "/").replace("~0", "~");
        let next = match node.get_ref() {
            DeValue::Table(table) => table.get(part.as_str()),
            DeValue::Array(items) => part.parse::<usize>().ok().and_then(|at| items.get(at)),
            _ => None,
        };
        match next {
            Some(next) => node = next,
            None => break,
        }
    }
    Some(node.span())
}
