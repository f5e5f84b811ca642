//! A schema as written, brought down to what binding runs on: references resolved, money and decimals as whole units, null beside a
//! type instead of in an alternative.
//!
//! The schema engine and the slots are both given the result, so that neither has to know how it was written.

use crate::decimal::{self, DECIMAL_SCALE};
use serde_json::{Map, Value as Json, json};

/// The keyword that says how many digits the units of a number have behind its point.
pub(crate) const SCALE: &str = "x-scale";
/// The keyword that says that a number is a Cedar decimal.
pub(super) const DECIMAL: &str = "x-decimal";

/// Keywords whose values are numbers of the type itself.
const BOUNDS: [&str; 4] = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];

/// The schema of an object that the reader has accepted.
pub(crate) fn lower(schema: &Json) -> Json {
    let definitions = schema.get("$defs").and_then(Json::as_object).cloned().unwrap_or_default();
    lowered(schema, &definitions)
}

fn lowered(schema: &Json, definitions: &Map<String, Json>) -> Json {
    let Json::Object(rules) = schema else { return schema.clone() };
    if let Some(name) = rules.get("$ref").and_then(Json::as_str).and_then(defined) {
        // The reader has refused what refers to itself.
        return definitions.get(name).map_or(Json::Null, |definition| lowered(definition, definitions));
    }
    if let Some(one) = alternative(rules) {
        return nullable(lowered(one, definitions));
    }
    let mut out = Map::new();
    for (keyword, rule) in rules.iter().filter(|(keyword, _)| *keyword != "$defs") {
        let rule = match (keyword.as_str(), rule) {
            ("properties", Json::Object(properties)) => {
                properties.iter().map(|(name, property)| (name.clone(), lowered(property, definitions))).collect()
            }
            ("items", items) => lowered(items, definitions),
            (_, rule) => rule.clone(),
        };
        out.insert(keyword.clone(), rule);
    }
    let Some(Json::Array(types)) = out.get("type") else { return scaled(out) };
    let ty = types.iter().find(|ty| *ty != "null").cloned().unwrap_or(Json::Null);
    out.insert("type".to_owned(), ty);
    nullable(scaled(out))
}

/// Money and decimals as integers: what is compared are their units.
fn scaled(mut rules: Map<String, Json>) -> Json {
    let (scale, is_decimal) = match rules.get("type").and_then(Json::as_str) {
        Some("decimal") => (DECIMAL_SCALE, true),
        Some("money") => match rules.get("scale").and_then(Json::as_u64).and_then(|scale| u8::try_from(scale).ok()) {
            Some(scale) => (scale, false),
            None => return Json::Object(rules),
        },
        _ => return Json::Object(rules),
    };
    let units =
        |json: &Json| decimal::number_text(json).and_then(|text| decimal::units(&text, scale).ok()).map(Json::from);
    for bound in BOUNDS.into_iter().chain(["const"]) {
        if let Some(value) = rules.get_mut(bound) {
            *value = units(value).unwrap_or(Json::Null);
        }
    }
    if let Some(Json::Array(values)) = rules.get_mut("enum") {
        *values = values.iter().map(|value| units(value).unwrap_or(Json::Null)).collect();
    }
    rules.remove("scale");
    rules.insert("type".to_owned(), "integer".into());
    rules.insert(SCALE.to_owned(), scale.into());
    if is_decimal {
        rules.insert(DECIMAL.to_owned(), true.into());
    }
    Json::Object(rules)
}

/// The same, or null.
fn nullable(schema: Json) -> Json {
    let Json::Object(mut rules) = schema else { return schema };
    if let Some(ty) = rules.get("type").filter(|ty| ty.is_string()).cloned() {
        rules.insert("type".to_owned(), json!([ty, "null"]));
    }
    // A list of values in TOML cannot hold null.
    if let Some(value) = rules.remove("const") {
        rules.insert("enum".to_owned(), json!([value]));
    }
    if let Some(Json::Array(values)) = rules.get_mut("enum")
        && !values.contains(&Json::Null)
    {
        values.push(Json::Null);
    }
    Json::Object(rules)
}

/// The one that is not null, of two alternatives.
fn alternative(rules: &Map<String, Json>) -> Option<&Json> {
    let all = rules.get("anyOf").or_else(|| rules.get("oneOf"))?.as_array()?;
    all.iter().find(|one| one.get("type").is_none_or(|ty| ty != "null"))
}

/// The name of a definition that a reference leads to.
pub(super) fn defined(reference: &str) -> Option<&str> {
    reference.strip_prefix("#/$defs/")
}

/// Whether a lowered schema takes null.
pub(crate) fn takes_null(schema: &Json) -> bool {
    let lists =
        |keyword: &str, null: &Json| schema.get(keyword).and_then(Json::as_array).is_some_and(|all| all.contains(null));
    lists("type", &"null".into()) || schema.get("type").is_none() && lists("enum", &Json::Null)
}

/// What was sent, as the lowered schema takes it: numbers that are money or decimals in their units. What is none is left as it is,
/// and refused by the schema; `problem` is told why.
pub(crate) fn instance(
    json: &Json,
    schema: &Json,
    at: &str,
    problem: &mut dyn FnMut(&str, decimal::Inexact, u8),
) -> Json {
    let scale = schema.get(SCALE).and_then(Json::as_u64).and_then(|scale| u8::try_from(scale).ok());
    match (json, scale) {
        (Json::Null, _) => Json::Null,
        (json, Some(scale)) => {
            let text = decimal::number_text(json).ok_or(decimal::Inexact::NotANumber);
            match text.and_then(|text| decimal::units(&text, scale)) {
                Ok(units) => units.into(),
                Err(why) => {
                    problem(at, why, scale);
                    json.clone()
                }
            }
        }
        // It was sent as a number, and is marked so that its digits stay.
        (number, None) if decimal::is_marked(number) && schema.get("type").is_some_and(|ty| ty == "object") => {
            problem(at, decimal::Inexact::NotANumber, 0);
            number.clone()
        }
        (Json::Object(members), None) => {
            let property = |name: &str| schema.get("properties").and_then(|all| all.get(name)).unwrap_or(&Json::Null);
            let member = |(name, member): (&String, &Json)| {
                (name.clone(), instance(member, property(name), &format!("{at}/{name}"), problem))
            };
            Json::Object(members.iter().map(member).collect())
        }
        (Json::Array(items), None) => {
            let element = schema.get("items").unwrap_or(&Json::Null);
            let item = |(at_item, item): (usize, &Json)| instance(item, element, &format!("{at}/{at_item}"), problem);
            items.iter().enumerate().map(item).collect()
        }
        (scalar, None) => scalar.clone(),
    }
}

/// What was sent without its nulls: what is null is absent.
pub(crate) fn without_nulls(json: &Json) -> Json {
    match json {
        Json::Object(members) => {
            let members = members.iter().filter(|(_, member)| !member.is_null());
            Json::Object(members.map(|(name, member)| (name.clone(), without_nulls(member))).collect())
        }
        Json::Array(items) => items.iter().map(without_nulls).collect(),
        scalar => scalar.clone(),
    }
}

/// How many digits the units of what is at a path have behind their point.
pub(crate) fn scale_at(schema: &Json, path: &str) -> Option<u8> {
    let step = |schema: &'_ Json, step: &str| {
        let property = schema.get("properties").and_then(|all| all.get(step));
        property.or_else(|| schema.get("items")).cloned()
    };
    let found = path.split('/').skip(1).try_fold(schema.clone(), |schema, name| step(&schema, name))?;
    found.get(SCALE)?.as_u64().and_then(|scale| u8::try_from(scale).ok())
}
