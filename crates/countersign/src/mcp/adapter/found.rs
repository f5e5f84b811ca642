//! What a tool's answer says of a fact, or of a call that is looked for. Only what it says counts: an answer that is silent about
//! something does not say that there is none.

use crate::adapters::kept;
use crate::adapters::secret::Known;
use countersign_core::pact::FactSchema;
use countersign_core::value::Attributes;
use serde_json::{Map, Value};

/// The member of a result that is meant for programs.
const STRUCTURED: &str = "structuredContent";

/// The attributes at a place of a result, where a text is read as JSON; `None` where the place holds null.
pub(super) fn attributes(
    result: &Value,
    at: &str,
    schema: &FactSchema,
    known: &Known,
) -> Result<Option<Attributes>, String> {
    let object: Map<String, Value> = match result.pointer(at) {
        None => return Err(format!("the answer has no {at}; a tool that finds nothing must give null there")),
        Some(Value::Null) => return Ok(None),
        Some(Value::Object(object)) => object.clone(),
        Some(Value::String(text)) => countersign_core::json::parse_object(text).map_err(|error| error.to_string())?,
        Some(_) => return Err(format!("{at} of the answer is no object")),
    };
    let value = Attributes::declared_in(&object, schema).map_err(|error| error.to_string())?;
    kept::fact(value, known).map(Some)
}

/// What a probe's answer says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The call happened.
    There,
    /// There is no trace of it.
    Nothing,
    /// Neither, for this reason.
    Unclear(String),
}

/// Looks for a call in the answer of a probe, at a place where the pact names one.
pub(super) fn look(result: &Value, at: Option<&str>) -> Found {
    let Some(content) = result.get(STRUCTURED) else {
        return Found::Unclear(format!("answers without {STRUCTURED}, and does not say whether it finds anything"));
    };
    let place = match at {
        Some(at) => result.pointer(at),
        // Servers wrap what is no object.
        None => Some(
            content.get("result").filter(|_| content.as_object().is_some_and(|all| all.len() == 1)).unwrap_or(content),
        ),
    };
    match place {
        _ if is_nothing(content) => Found::Nothing,
        None => Found::Unclear(format!("answers without {}", at.unwrap_or(STRUCTURED))),
        Some(place) if is_nothing(place) => Found::Nothing,
        // `{"found": false}` has members too.
        Some(Value::Object(_)) if at.is_none() => Found::Unclear(
            "answers with an object, and the probe of the pact does not say `at` where to look in it".to_owned(),
        ),
        Some(place) if is_something(place) => Found::There,
        Some(_) => Found::Unclear(format!("gives neither a value nor null at {}", at.unwrap_or(STRUCTURED))),
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

/// The first text of a result.
pub(super) fn said(result: &Value) -> &str {
    result.pointer("/content/0/text").and_then(Value::as_str).unwrap_or("it does not say why")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
                Found::There => Some(true),
                Found::Nothing => Some(false),
                Found::Unclear(_) => None,
            };
            assert_eq!(says, found, "{content} {at:?}");
        }
        // Text is for people: neither "found" nor "not found" counts.
        for text in ["found: transfer 7", "not found"] {
            let answer = json!({"content": [{"type": "text", "text": text}]});
            assert!(matches!(look(&answer, None), Found::Unclear(_)));
        }
    }
}
