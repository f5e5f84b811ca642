//! Slots against the schema that they were compiled from: the same is accepted, and bound to the same values.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics has failed")]

use super::*;
use crate::action::ActionRequest;
use crate::decimal::{marked, unmarked};
use crate::limits::INTEGER_MAX;
use crate::pact::load::load;
use crate::pact::lower::{SCALE, lower, takes_null};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;
use std::cell::Cell;

const WORDS: [&str; 10] =
    ["", "a", "ab", "abcd", "é", "e\u{301}", "日本語", "🙂🙂", "\"\\\n", "a word past what is kept inline"];
const NAMES: [&str; 4] = ["a", "amount", "b", "to_account_of_the_payee_x"];
const UNKNOWN: &str = "zz";

fn word() -> impl Strategy<Value = Json> {
    select(&WORDS[..]).prop_map(Json::from)
}

fn number() -> impl Strategy<Value = Json> {
    prop_oneof![9 => -6_i64..=6, 1 => select(vec![-INTEGER_MAX, INTEGER_MAX])].prop_map(Json::from)
}

fn flag() -> impl Strategy<Value = Json> {
    any::<bool>().prop_map(Json::from)
}

/// A schema with some of these keywords.
fn rules(ty: &'static str, keywords: Vec<(&'static str, BoxedStrategy<Json>)>) -> BoxedStrategy<Json> {
    let count = keywords.len();
    subsequence(keywords, 0..=count)
        .prop_flat_map(|keywords| {
            let (names, values): (Vec<_>, Vec<_>) = keywords.into_iter().unzip();
            (Just(names), values)
        })
        .prop_map(move |(names, values)| {
            let mut schema: Map<String, Json> = names.into_iter().map(str::to_owned).zip(values).collect();
            // A type may be left out where the values say it.
            let is_listed = schema.contains_key("enum") || schema.contains_key("const");
            if !(schema.remove("untyped").is_some() && is_listed && schema.len() == 1) {
                schema.insert("type".to_owned(), ty.into());
            }
            Json::Object(schema)
        })
        .boxed()
}

fn listed<S: Strategy<Value = Json> + 'static>(value: fn() -> S) -> Vec<(&'static str, BoxedStrategy<Json>)> {
    vec![
        ("untyped", Just(json!(true)).boxed()),
        ("enum", vec(value(), 1..4).prop_map(distinct).boxed()),
        ("const", value().boxed()),
        ("description", word().boxed()),
    ]
}

fn distinct(values: Vec<Json>) -> Json {
    let mut kept: Vec<Json> = Vec::new();
    for value in values {
        if !kept.contains(&value) {
            kept.push(value);
        }
    }
    kept.into()
}

fn bounds<const N: usize>(
    names: [&'static str; N],
    range: std::ops::Range<i64>,
) -> Vec<(&'static str, BoxedStrategy<Json>)> {
    names.map(|name| (name, range.clone().prop_map(Json::from).boxed())).into()
}

fn scalar() -> BoxedStrategy<Json> {
    let integers = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];
    prop_oneof![
        3 => rules("string", bounds(["minLength", "maxLength"], 0..5)),
        3 => rules("integer", bounds(integers, -5..6)),
        2 => rules("string", [listed(word), bounds(["maxLength"], 0..5)].concat()),
        2 => rules("integer", [listed(number), bounds(["minimum"], -5..6)].concat()),
        1 => rules("boolean", listed(flag)),
        1 => money(),
        1 => rules("decimal", exact_bounds()),
    ]
    .boxed()
}

fn money() -> BoxedStrategy<Json> {
    (rules("money", exact_bounds()), 0_u8..=3)
        .prop_map(|(mut schema, scale)| {
            schema["scale"] = scale.into();
            // What is listed must fit the scale.
            for keyword in ["minimum", "maximum", "enum"] {
                if scale < 2 && schema.get(keyword).is_some() {
                    schema.as_object_mut().unwrap().remove(keyword);
                }
            }
            schema
        })
        .boxed()
}

fn exact_bounds() -> Vec<(&'static str, BoxedStrategy<Json>)> {
    let number = || select(vec![json!(-2), json!("-0.5"), json!("0"), json!("0.25"), json!(3)]);
    vec![
        ("minimum", number().boxed()),
        ("maximum", number().boxed()),
        ("enum", vec(number(), 1..4).prop_map(distinct).boxed()),
    ]
}

/// The same, or null, in each of the ways to write it.
fn nullable(schema: Json) -> BoxedStrategy<Json> {
    let any_of = json!({"anyOf": [schema, {"type": "null"}]});
    let one_of = json!({"oneOf": [{"type": "null"}, schema], "description": "either"});
    let types = match schema["type"].as_str() {
        Some(ty) => {
            let mut schema = schema.clone();
            schema["type"] = json!([ty, "null"]);
            schema
        }
        None => any_of.clone(),
    };
    select(vec![schema, any_of, one_of, types]).boxed()
}

fn array() -> BoxedStrategy<Json> {
    let keywords = [bounds(["minItems", "maxItems"], 0..4), vec![("uniqueItems", flag().boxed())]].concat();
    (rules("array", keywords), prop_oneof![4 => scalar(), 1 => object(0)])
        .prop_map(|(mut schema, items)| {
            // Of records, the schema alone knows which are the same.
            if items["type"] == "object" {
                schema.as_object_mut().unwrap().remove("uniqueItems");
            }
            schema["items"] = items;
            schema
        })
        .boxed()
}

fn object(depth: u32) -> BoxedStrategy<Json> {
    let property = match depth {
        0 => scalar(),
        _ => prop_oneof![4 => scalar(), 1 => array(), 1 => object(depth - 1)].boxed(),
    };
    let property = prop_oneof![2 => property.clone(), 1 => property.prop_flat_map(nullable)].boxed();
    subsequence(&NAMES[..], 0..=NAMES.len())
        .prop_flat_map(move |names| {
            let count = names.len();
            (Just(names.clone()), vec(property.clone(), count), subsequence(names, 0..=count))
        })
        .prop_map(|(names, properties, required)| {
            let properties: Map<String, Json> = names.into_iter().map(str::to_owned).zip(properties).collect();
            json!({"type": "object", "additionalProperties": false, "properties": properties, "required": required})
        })
        .boxed()
}

/// A value that mostly fits a schema.
fn near(schema: &Json) -> BoxedStrategy<Json> {
    prop_oneof![30 => fitting(schema), 1 => anything()].boxed()
}

fn anything() -> BoxedStrategy<Json> {
    let leaf = prop_oneof![word(), number(), flag(), Just(Json::Null)].boxed();
    let items = vec(leaf.clone(), 0..3).prop_map(Json::from);
    let members = vec((select(&NAMES[..]).prop_map(str::to_owned), leaf.clone()), 0..3);
    prop_oneof![4 => leaf, 1 => items, 1 => members.prop_map(|members| Json::Object(members.into_iter().collect()))]
        .boxed()
}

/// By a lowered schema.
fn fitting(schema: &Json) -> BoxedStrategy<Json> {
    if takes_null(schema) {
        let mut other = schema.clone();
        if let Some(ty) = schema["type"].as_array().and_then(|types| types.first()) {
            other["type"] = ty.clone();
        }
        if let Some(values) = other["enum"].as_array_mut() {
            values.retain(|value| !value.is_null());
        }
        return prop_oneof![3 => fitting(&other), 1 => Just(Json::Null)].boxed();
    }
    if schema.get(SCALE).is_some() {
        let texts = ["-0.5", "0.25", "0.5", "1.25", "0.00001", "99999999999999.5"].map(marked);
        let others = [json!(-2), json!(0), json!(3), json!("0.25"), json!("3.0"), json!("1e0"), json!("x"), json!({})];
        return select([&texts[..], &others].concat()).boxed();
    }
    let listed = schema["enum"].as_array().cloned().into_iter().flatten().chain(schema.get("const").cloned());
    let listed: Vec<Json> = listed.collect();
    if !listed.is_empty() {
        return prop_oneof![9 => select(listed), 1 => anything()].boxed();
    }
    match schema["type"].as_str() {
        Some("string") => word().boxed(),
        Some("integer") => number().boxed(),
        Some("boolean") => flag().boxed(),
        Some("array") => vec(near(&schema["items"]), 0..4).prop_map(Json::from).boxed(),
        _ => {
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            let member = |(name, schema): (&String, &Json)| {
                let odds = if required.contains(&json!(name)) { 0.97 } else { 0.6 };
                (Just(name.clone()), proptest::option::weighted(odds, near(schema)))
            };
            let members: Vec<_> = schema["properties"].as_object().into_iter().flatten().map(member).collect();
            let unknown = proptest::option::weighted(0.03, anything());
            (members.prop_shuffle(), unknown)
                .prop_map(|(members, unknown)| {
                    let members = members.into_iter().filter_map(|(name, value)| Some((name, value?)));
                    Json::Object(members.chain(unknown.map(|value| (UNKNOWN.to_owned(), value))).collect())
                })
                .boxed()
        }
    }
}

/// TOML of a schema, on one line.
fn toml(json: &Json) -> String {
    match json {
        Json::Array(items) => format!("[{}]", items.iter().map(toml).collect::<Vec<_>>().join(", ")),
        Json::Object(members) => {
            let members: Vec<_> = members.iter().map(|(name, value)| format!("{name:?} = {}", toml(value))).collect();
            format!("{{ {} }}", members.join(", "))
        }
        other => other.to_string(),
    }
}

/// JSON with every character of every string written as an escape.
fn escaped(json: &Json) -> String {
    let text = |text: &str| {
        let units: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        format!("\"{units}\"")
    };
    match json {
        Json::String(string) => text(string),
        Json::Array(items) => format!("[{}]", items.iter().map(escaped).collect::<Vec<_>>().join(",")),
        Json::Object(members) => {
            let members: Vec<_> =
                members.iter().map(|(name, json)| format!("{}:{}", text(name), escaped(json))).collect();
            format!("{{{}}}", members.join(","))
        }
        other => other.to_string(),
    }
}

/// A pact with one action type, about a fact that no parameter names.
fn pact(params: &str) -> String {
    format!(
        r#"
        pact = "p"
        version = 1
        [facts.Thing]
        attributes = {{ size = "Long" }}
        [action.act]
        resource = 'Thing::"one"'
        allow = 'principal.trust > 0'
        params = {params}
        [[action.act.require]]
        id = "small"
        that = 'resource.size < 5'
        "#
    )
}

fn body(params: &str) -> String {
    format!(r#"{{"params": {params}, "pact": "p", "action": "act", "idempotency_key": "{}"}}"#, "k".repeat(22))
}

/// Moves what properties are into definitions, one of which leads to another.
fn refer(schema: &mut Json) {
    let Some(properties) = schema["properties"].as_object_mut() else { return };
    let mut definitions = Map::new();
    for (name, property) in properties {
        definitions.insert(format!("{name}_itself"), property.clone());
        definitions.insert(name.clone(), json!({"$ref": format!("#/$defs/{name}_itself")}));
        *property = json!({"$ref": format!("#/$defs/{name}"), "description": "see there"});
    }
    schema["$defs"] = definitions.into();
}

#[test]
fn slots_bind_what_the_schema_accepts_and_nothing_else() {
    let (accepted, refused) = (Cell::new(0), Cell::new(0));
    let many = (object(2), any::<bool>()).prop_flat_map(|(mut schema, refers)| {
        if refers {
            refer(&mut schema);
        }
        let params = vec((fitting(&lower(&schema)), any::<bool>()), 24);
        (Just(schema), params)
    });
    let config = Config { cases: 256, failure_persistence: None, ..Config::default() };
    let ran = TestRunner::new(config).run(&many, |(schema, sent)| {
        let source = pact(&toml(&schema));
        let loaded = load(&source).map_err(|problems| TestCaseError::fail(format!("{source}: {problems:?}")))?;
        let kind = loaded.pact.actions.values().next().unwrap();
        prop_assert_eq!(&kind.params.schema, &schema);
        let slots = kind.params.slots.as_ref().ok_or_else(|| TestCaseError::fail(format!("no slots: {source}")))?;
        for (params, is_escaped) in sent {
            let body = body(&if is_escaped { escaped(&params) } else { unmarked(&params) });
            let request = ActionRequest::parse(&body).map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert_eq!(&Json::Object(to_map(&request.params)), &params);
            let by_schema = bind_by_schema(kind, to_map(&request.params));
            prop_assert_eq!(slots.bind(&request.params), by_schema.clone().ok(), "{} {}", source, body);
            prop_assert_eq!(bind(kind, &request.params), by_schema.clone());
            let counter = if by_schema.is_ok() { &accepted } else { &refused };
            counter.set(counter.get() + 1);
        }
        Ok(())
    });
    ran.unwrap();
    let (accepted, refused) = (accepted.get(), refused.get());
    assert!(accepted.min(refused) * 5 > accepted + refused, "one-sided: {accepted} accepted, {refused} refused");
}

#[test]
fn what_slots_do_not_know_is_left_to_the_schema() {
    for (rule, good, bad) in [
        (r#"x = { type = "string", pattern = "^a+$" }"#, r#"{"x":"aa"}"#, r#"{"x":"ab"}"#),
        (r#"x = { type = "integer", multipleOf = 3 }"#, r#"{"x":6}"#, r#"{"x":7}"#),
        (r#"x = { type = "array", items = { type = "string", pattern = "a" } }"#, r#"{"x":["a"]}"#, r#"{"x":["b"]}"#),
    ] {
        let params = format!(r#"{{ type = "object", additionalProperties = false, properties = {{ {rule} }} }}"#);
        let loaded = load(&pact(&params)).unwrap();
        let kind = loaded.pact.actions.values().next().unwrap();
        assert!(kind.params.slots.is_none(), "{rule}");
        assert!(bind(kind, &ActionRequest::parse(&body(good)).unwrap().params).is_ok(), "{rule}");
        assert!(bind(kind, &ActionRequest::parse(&body(bad)).unwrap().params).is_err(), "{rule}");
    }
}

/// What each parameter was sent as, and what conditions see of it.
#[test]
fn real_parameters_are_bound_exactly() {
    let properties = r##"
        type = "object"
        additionalProperties = false
        required = ["amount", "memo"]
        "$defs".Who.type = "object"
        "$defs".Who.additionalProperties = false
        "$defs".Who.required = ["mail"]
        "$defs".Who.properties = { mail = { type = "string" }, name = { type = ["string", "null"] } }
        properties.amount = { type = "money", scale = 2, minimum = 0.01, maximum = "5000.00" }
        properties.rate = { anyOf = [{ type = "decimal", maximum = 1 }, { type = "null" }] }
        properties.memo = { type = ["string", "null"], maxLength = 20000 }
        properties.to = { type = "array", maxItems = 3, items = { "$ref" = "#/$defs/Who" } }
        properties.count = { type = "integer" }
        properties.extra = { type = "object", additionalProperties = true, maxProperties = 2 }
    "##;
    let source = pact("{}").replace("params = {}", &format!("[action.act.params]\n{properties}"));
    let loaded = load(&source).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let kind = loaded.pact.actions.values().next().unwrap();
    let bound = |params: &str| {
        let body = body(params);
        let request = ActionRequest::parse(&body).unwrap();
        bind(kind, &request.params).map(|bound| bound.to_json().to_string())
    };
    let misfits = |params: &str| {
        let problems = bound(params).unwrap_err();
        problems.iter().map(|it| format!("{} {}", it.at, it.what)).collect::<Vec<_>>().join("; ")
    };
    for (sent, seen) in [
        (r#"{"amount": 12.34, "memo": null}"#, r#"{"amount":1234}"#),
        (
            r#"{"amount": "12.3", "memo": "x", "rate": 0.125}"#,
            r#"{"amount":1230,"memo":"x","rate":{"$decimal":"0.125"}}"#,
        ),
        (r#"{"amount": 12, "memo": null, "rate": null, "count": 1200.0}"#, r#"{"amount":1200,"count":1200}"#),
        (
            r#"{"amount": 1e1, "memo": null, "to": [{"mail": "a", "name": null}, {"mail": "b", "name": "B"}]}"#,
            r#"{"amount":1000,"to":[{"mail":"a"},{"mail":"b","name":"B"}]}"#,
        ),
        (r#"{"amount": 1, "memo": null, "extra": {"any": [1.5, null]}}"#, r#"{"amount":100}"#),
    ] {
        assert_eq!(bound(sent).as_deref(), Ok(seen), "{sent}");
    }
    for (sent, why) in [
        (r#"{"amount": 12.345, "memo": null}"#, "/amount it must have at most 2 digits behind its point"),
        (r#"{"amount": "12,3", "memo": null}"#, "/amount it has the wrong type; the pact says which"),
        (r#"{"amount": 0.001, "memo": null}"#, "/amount it must have at most 2 digits behind its point"),
        (r#"{"amount": 5000.01, "memo": null}"#, "/amount it must be at most 5000.0"),
        (r#"{"amount": 0, "memo": null}"#, "/amount it must be at least 0.01"),
        (r#"{"amount": null, "memo": null}"#, "/amount it has the wrong type; the pact says which"),
        (r#"{"amount": 1}"#, " \"memo\" is required and missing"),
        (r#"{"amount": 1, "memo": 1.5}"#, "/memo it has the wrong type; the pact says which"),
        (r#"{"amount": 1, "memo": null, "count": 1.5}"#, "/count it has the wrong type; the pact says which"),
        (r#"{"amount": 1, "memo": null, "rate": 1.00001}"#, "/rate it must have at most 4 digits behind its point"),
        (r#"{"amount": 1, "memo": null, "to": [{"name": "B"}]}"#, "/to/0 \"mail\" is required and missing"),
    ] {
        assert_eq!(misfits(sent), why, "{sent}");
    }
    assert!(misfits(r#"{"amount": 1, "memo": null, "extra": {"a": 1, "b": 2, "c": 3}}"#).contains("maxProperties"));
}
