//! What a tool answered: whether it is a result, and whether that says that the call is over.

use countersign_core::call::{Found, FoundCode};
use countersign_core::json;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::collections::HashSet;
use std::fmt;

/// What a tool answered.
pub(super) struct Answered {
    pub(super) result: Value,
    /// The same, as it was sent.
    pub(super) text: String,
    pub(super) says: Says,
}

/// What an answer says about the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Says {
    /// It is over, and went well.
    Completed,
    /// It is over, and the tool says that it failed.
    Failed,
    /// Neither: for this reason.
    Neither(FoundCode),
}

impl Answered {
    /// Reads a result. What two readers could understand in two ways says nothing about what was done.
    pub(super) fn parse(text: String) -> Result<Self, Found> {
        serde_json::from_str::<NoNameTwice>(&text).map_err(|_| FoundCode::NotJson.alone())?;
        let result: Value = serde_json::from_str(&text).map_err(|_| FoundCode::NotJson.alone())?;
        if !result.is_object() {
            return Err(FoundCode::NotAnObject.alone());
        }
        let says = says(&result);
        Ok(Self { result, text, says })
    }
}

fn says(result: &Value) -> Says {
    // A server that promises to do it, or that wants to know more first, may have begun.
    if result.get("task").is_some() {
        return Says::Neither(FoundCode::TaskPromised);
    }
    match result.get("resultType").map(Value::as_str) {
        None | Some(Some("complete")) => {}
        Some(Some("input_required")) => return Says::Neither(FoundCode::AsksForMore),
        Some(_) => return Says::Neither(FoundCode::UnknownResult),
    }
    match result.get("isError") {
        None | Some(Value::Bool(false)) => Says::Completed,
        Some(Value::Bool(true)) => Says::Failed,
        Some(_) => Says::Neither(FoundCode::FailureUnclear),
    }
}

/// JSON in which no object has a name twice, or one that is read back as something else, at any depth.
struct NoNameTwice;

impl<'de> Deserialize<'de> for NoNameTwice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Walk)
    }
}

struct Walk;

impl<'de> Visitor<'de> for Walk {
    type Value = NoNameTwice;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_bool<E>(self, _: bool) -> Result<NoNameTwice, E> {
        Ok(NoNameTwice)
    }
    fn visit_i64<E>(self, _: i64) -> Result<NoNameTwice, E> {
        Ok(NoNameTwice)
    }
    fn visit_u64<E>(self, _: u64) -> Result<NoNameTwice, E> {
        Ok(NoNameTwice)
    }
    fn visit_f64<E>(self, _: f64) -> Result<NoNameTwice, E> {
        Ok(NoNameTwice)
    }
    fn visit_str<E>(self, _: &str) -> Result<NoNameTwice, E> {
        Ok(NoNameTwice)
    }
    fn visit_unit<E>(self) -> Result<NoNameTwice, E> {
        Ok(NoNameTwice)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<NoNameTwice, A::Error> {
        while items.next_element::<NoNameTwice>()?.is_some() {}
        Ok(NoNameTwice)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<NoNameTwice, A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            if names.contains(&name) || json::is_reserved(&name) {
                members.next_value::<IgnoredAny>()?;
                return Err(A::Error::custom("an object that two readers could read in two ways"));
            }
            names.insert(name);
            members.next_value::<NoNameTwice>()?;
        }
        Ok(NoNameTwice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_result_without_an_error_says_that_it_was_done() {
        let said = |text: &str| Answered::parse(text.to_owned()).map(|answered| answered.says);
        for text in [
            r#"{}"#,
            r#"{"content":[],"isError":false}"#,
            r#"{"resultType":"complete","structuredContent":{"rate":1.50,"task":1}}"#,
        ] {
            assert_eq!(said(text), Ok(Says::Completed), "{text}");
        }
        assert_eq!(said(r#"{"isError":true}"#), Ok(Says::Failed));
        for text in [
            r#"{"isError":"true"}"#,
            r#"{"isError":1}"#,
            r#"{"isError":null}"#,
            r#"{"resultType":"input_required"}"#,
            r#"{"resultType":"input_required","isError":true}"#,
            r#"{"resultType":"Complete"}"#,
            r#"{"resultType":null}"#,
            r#"{"task":{"taskId":"1"}}"#,
        ] {
            assert!(matches!(said(text), Ok(Says::Neither(_))), "{text}");
        }
        for text in [
            "7",
            "null",
            "[]",
            r#"{"isError":true,"isError":false}"#,
            r#"{"isError":true,"is\u0045rror":false}"#,
            r#"{"structuredContent":{"a":[{"b":1,"b":2}]}}"#,
            r#"{"structuredContent":{"$serde_json::private::RawValue":"{\"isError\":true}"}}"#,
        ] {
            assert!(said(text).is_err(), "{text}");
        }
    }
}
