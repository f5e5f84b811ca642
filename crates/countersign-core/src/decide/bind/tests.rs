//! Slots against the schema that they were compiled from: the same is accepted, and bound to the same values.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics has failed")]

use super::*;
use crate::action::ActionRequest;
use crate::limits::INTEGER_MAX;
use crate::pact::load::load;
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
    ]
    .boxed()
}

fn array() -> BoxedStrategy<Json> {
    let keywords = [bounds(["minItems", "maxItems"], 0..4), vec![("uniqueItems", flag().boxed())]].concat();
    (rules("array", keywords), scalar())
        .prop_map(|(mut schema, items)| {
            schema["items"] = items;
            schema
        })
        .boxed()
}

fn object(depth: u32) -> BoxedStrategy<Json> {
    let property = match depth {
        0 => prop_oneof![4 => scalar(), 1 => array()].boxed(),
        _ => prop_oneof![4 => scalar(), 1 => array(), 1 => object(depth - 1)].boxed(),
    };
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

fn fitting(schema: &Json) -> BoxedStrategy<Json> {
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
            let members: Vec<_> = members.iter().map(|(name, value)| format!("{name} = {}", toml(value))).collect();
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

#[test]
fn slots_bind_what_the_schema_accepts_and_nothing_else() {
    let (accepted, refused) = (Cell::new(0), Cell::new(0));
    let many = object(2).prop_flat_map(|schema| {
        let params = vec((fitting(&schema), any::<bool>()), 24);
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
            let body = body(&if is_escaped { escaped(&params) } else { params.to_string() });
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
