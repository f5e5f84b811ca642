//! What a tool's answer says of a fact, or of a call that is looked for. Only what it says counts: an answer that is silent about
//! something does not say that there is none.

use crate::adapters::kept;
use crate::adapters::secret::Known;
use countersign_core::call::{Found, FoundCode};
use countersign_core::decimal;
use countersign_core::json;
use countersign_core::pact::FactSchema;
use countersign_core::value::{Attributes, ValueType};
use serde_json::{Map, Value};
use smol_str::SmolStr;

/// The member of a result that is meant for programs.
const STRUCTURED: &str = "structuredContent";

/// The attributes at a place of a result; `None` where the place holds null, or no element of its list is the one that is meant.
pub(super) fn attributes(
    text: &str,
    at: &str,
    key: Option<&(SmolStr, SmolStr)>,
    schema: &FactSchema,
    known: &Known,
) -> Result<Option<Attributes>, Found> {
    let result = json::parse_answer(text).map_err(|_| FoundCode::NotJson.alone())?;
    let place = at_place(result, at)?;
    let place = place.ok_or_else(|| FoundCode::NothingAt.about(at))?;
    let found = match key {
        Some((member, is)) => element(place, at, member, is)?,
        None => place,
    };
    let object = match found {
        Value::Null => return Ok(None),
        Value::Object(object) if !object.contains_key(decimal::MARK) => object,
        other => alone(other, at, schema)?,
    };
    if object.is_empty() && schema.len() == 1 && schema.values().all(|field| field.required) {
        return Err(FoundCode::EmptyAt.about(at));
    }
    let value = Attributes::declared_in(&object, schema)?;
    kept::fact(value, known).map(Some)
}

/// Follows a JSON pointer. A text that it leads into, or ends at and that holds an object or a list, is read as JSON.
fn at_place(mut value: Value, at: &str) -> Result<Option<Value>, Found> {
    for token in at.split('/').skip(1) {
        if let Value::String(text) = &value {
            value = json::parse_answer(text).map_err(|_| FoundCode::TextNotJson.about(at))?;
        }
        let token = token.replace("~1", "/").replace("~0", "~");
        let next = match &mut value {
            Value::Object(members) => members.swap_remove(&token),
            Value::Array(items) => {
                token.parse::<usize>().ok().filter(|at| *at < items.len()).map(|at| items.swap_remove(at))
            }
            _ => None,
        };
        match next {
            Some(next) => value = next,
            None => return Ok(None),
        }
    }
    if let Value::String(text) = &value
        && let Ok(inner @ (Value::Object(_) | Value::Array(_) | Value::Null)) = json::parse_answer(text)
    {
        value = inner;
    }
    Ok(Some(value))
}

/// The element of a list that is meant. None is not an error: the list says so.
fn element(list: Value, at: &str, member: &str, is: &str) -> Result<Value, Found> {
    let Value::Array(items) = list else { return Err(FoundCode::NotAList.about(at)) };
    let is_meant = |item: &Value| match item.get(member) {
        Some(Value::String(text)) => text == is,
        Some(Value::Number(number)) => number.to_string() == is,
        _ => false,
    };
    let mut meant = items.into_iter().filter(is_meant);
    match (meant.next(), meant.next()) {
        (found, None) => Ok(found.unwrap_or(Value::Null)),
        (_, Some(_)) => Err(FoundCode::NotOneElement.about(at)),
    }
}

/// A value that is no object is the only attribute of its type.
fn alone(value: Value, at: &str, schema: &FactSchema) -> Result<Map<String, Value>, Found> {
    let mut attributes = schema.iter();
    let (Some((name, field)), None) = (attributes.next(), attributes.next()) else {
        return Err(FoundCode::NotAnObjectAt.about(at));
    };
    let value = match (&value, &field.ty) {
        // A number in a text that people are shown.
        (Value::String(text), ty) if *ty != ValueType::String => json::parse_answer(text.trim()).unwrap_or(value),
        _ => value,
    };
    Ok(Map::from_iter([(name.to_string(), value)]))
}

/// What a probe's answer says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// The call happened.
    There,
    /// There is no trace of it.
    Nothing,
    /// Neither, for this reason.
    Unclear(Found),
}

/// Looks for a call in the answer of a probe, at a place where the pact names one.
pub(super) fn look(result: &Value, at: Option<&str>) -> Probe {
    let Some(content) = result.get(STRUCTURED) else {
        return Probe::Unclear(FoundCode::NotStructured.alone());
    };
    let place = match at {
        Some(at) => result.pointer(at),
        // Servers wrap what is no object.
        None => Some(
            content.get("result").filter(|_| content.as_object().is_some_and(|all| all.len() == 1)).unwrap_or(content),
        ),
    };
    match place {
        _ if is_nothing(content) => Probe::Nothing,
        None => Probe::Unclear(FoundCode::NothingAt.about(at.unwrap_or(STRUCTURED))),
        Some(place) if is_nothing(place) => Probe::Nothing,
        // `{"found": false}` has members too.
        Some(Value::Object(_)) if at.is_none() => Probe::Unclear(FoundCode::ProbeWithoutAt.alone()),
        Some(place) if is_something(place) => Probe::There,
        Some(_) => Probe::Unclear(FoundCode::NeitherAt.about(at.unwrap_or(STRUCTURED))),
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(true) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Zero and the empty text say nothing: one is a count, or an id.
fn is_something(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.trim().is_empty(),
        other => !is_nothing(other),
    }
}

/// A finding with the first text of a result, if there is one.
pub(super) fn quoting(found: Found, result: &Value) -> Found {
    match result.pointer("/content/0/text").and_then(Value::as_str) {
        Some(said) => found.and_said(said),
        None => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::value::FieldType;
    use serde_json::json;

    /// An answer, the place, the element, the types of the attributes, and what is found.
    type Row<'a> = (String, &'a str, Option<&'a str>, &'a [(&'a str, ValueType)], Result<Value, &'a str>);

    #[test]
    fn a_fact_is_found_wherever_an_answer_has_it() {
        let balance: &[(&str, ValueType)] = &[("balance", ValueType::Money(2))];
        let event: &[(&str, ValueType)] = &[("title", ValueType::String), ("room", ValueType::Long)];
        let events = json!({"events": [{"id": "a", "title": "A", "room": 1}, {"id": 7, "title": "B", "room": 2, "note": null},
            {"id": "twice", "title": "C", "room": 3}, {"id": "twice", "title": "D", "room": 3}]});
        let text = |text: &str| json!({"content": [{"type": "text", "text": text}]}).to_string();
        let structured = |content: &Value| json!({"structuredContent": content}).to_string();
        let long = json!({"pad": "x".repeat(40_000), "events": events["events"]});
        let at_text = "/content/0/text";
        let rows: Vec<Row<'_>> = vec![
            (
                r#"{"structuredContent":{"result":1810.05}}"#.into(),
                "/structuredContent/result",
                None,
                balance,
                Ok(json!({"balance": 181005})),
            ),
            (
                r#"{"structuredContent":{"balance":90071992547409.91,"other":1e99}}"#.into(),
                "/structuredContent",
                None,
                balance,
                Ok(json!({"balance": 9_007_199_254_740_991_i64})),
            ),
            (text("1810.0"), at_text, None, balance, Ok(json!({"balance": 181_000}))),
            (
                text("{\"account\": {\"balance\": \"12.34\"}}"),
                "/content/0/text/account",
                None,
                balance,
                Ok(json!({"balance": 1234})),
            ),
            (text("{\"balance\": 12.345}"), at_text, None, balance, Err("more than 2 digits")),
            (text("about a lot"), at_text, None, balance, Err("must be Money")),
            (text("about a lot"), "/content/0/text/balance", None, balance, Err("is not JSON")),
            (structured(&events), "/structuredContent/events", Some("a"), event, Ok(json!({"title": "A", "room": 1}))),
            (structured(&events), "/structuredContent/events", Some("7"), event, Ok(json!({"title": "B", "room": 2}))),
            (structured(&events), "/structuredContent/events", Some("gone"), event, Ok(Value::Null)),
            (structured(&events), "/structuredContent/events", Some("twice"), event, Err("several elements")),
            (structured(&json!({"events": {}})), "/structuredContent/events", Some("a"), event, Err("is not a list")),
            (
                structured(&json!({})),
                "/structuredContent/events",
                Some("a"),
                event,
                Err("has no /structuredContent/events"),
            ),
            (
                text(&events.to_string()),
                "/content/0/text/events",
                Some("a"),
                event,
                Ok(json!({"title": "A", "room": 1})),
            ),
            // Longer than what is kept of an answer: the fact itself is short.
            (structured(&long), "/structuredContent/events", Some("a"), event, Ok(json!({"title": "A", "room": 1}))),
        ];
        for (answer, at, is, types, expected) in rows {
            let field =
                |(name, ty): &(&str, ValueType)| (SmolStr::new(name), FieldType { ty: ty.clone(), required: true });
            let schema: FactSchema = types.iter().map(field).collect();
            let key = is.map(|is| (SmolStr::new("id"), SmolStr::new(is)));
            let found = attributes(&answer, at, key.as_ref(), &schema, &Known::default());
            let found = found.map(|found| found.map_or(Value::Null, |found| found.to_json()));
            match (&found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(*found, expected, "{answer}"),
                (Err(why), Err(expected)) => assert!(why.to_string().contains(expected), "{answer}: {why}"),
                other => panic!("{answer}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_probe_believes_only_what_an_answer_says() {
        let at = Some("/structuredContent/transfer");
        for (content, at, found) in [
            (json!({"result": true}), None, Some(true)),
            (json!({"result": [1]}), None, Some(true)),
            (json!({"result": "id-7"}), None, Some(true)),
            (json!({"transfer": {"id": 7}}), at, Some(true)),
            (json!({"transfer": 7, "found": false}), at, Some(true)),
            (json!({"result": false}), None, Some(false)),
            (json!({"result": []}), None, Some(false)),
            (json!({}), None, Some(false)),
            (json!(null), None, Some(false)),
            (json!(null), at, Some(false)),
            (json!({}), at, Some(false)),
            (json!({"transfer": null}), at, Some(false)),
            (json!({"transfer": {}}), at, Some(false)),
            (json!({"found": false}), None, None),
            (json!({"transfers": [], "total": 0}), None, None),
            (json!({"result": {"found": false}}), None, None),
            (json!({"result": 0}), None, None),
            (json!({"result": ""}), None, None),
            (json!({"error": "the index is being rebuilt"}), at, None),
            (json!({"transfer": 0}), at, None),
        ] {
            let says = match look(&json!({"content": [], "structuredContent": content}), at) {
                Probe::There => Some(true),
                Probe::Nothing => Some(false),
                Probe::Unclear(_) => None,
            };
            assert_eq!(says, found, "{content} {at:?}");
        }
        // Text is for people: neither "found" nor "not found" counts.
        for text in ["found: transfer 7", "not found"] {
            let answer = json!({"content": [{"type": "text", "text": text}]});
            assert!(matches!(look(&answer, None), Probe::Unclear(_)));
        }
    }
}
