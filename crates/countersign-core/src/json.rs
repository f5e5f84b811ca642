//! Strict reading of JSON from outside.
//!
//! What two readers could understand differently is refused here, once: repeated keys, fractions, integers beyond 2^53-1,
//! deep nesting. So the value that is decided on is the value that everybody else reads from the same bytes.

use crate::limits::{INTEGER_MAX, JSON_DEPTH_MAX};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// Why JSON was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JsonError(pub String);

/// Reads one JSON document strictly.
pub fn parse(text: &str) -> Result<Value, JsonError> {
    parse_as(text, Strict { depth: JSON_DEPTH_MAX })
}

/// Reads one JSON document with a visitor of its own, which must be as strict: see [`Strict::member`].
pub(crate) fn parse_as<'de, V: Visitor<'de>>(text: &'de str, visitor: V) -> Result<V::Value, JsonError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = reader.deserialize_any(visitor).map_err(|e| JsonError(e.to_string()))?;
    reader.end().map_err(|e| JsonError(e.to_string()))?;
    Ok(value)
}

/// Reads one JSON object strictly.
pub fn parse_object(text: &str) -> Result<Map<String, Value>, JsonError> {
    match parse(text)? {
        Value::Object(object) => Ok(object),
        _ => Err(JsonError("expected a JSON object".to_owned())),
    }
}

/// Reads any value strictly.
#[derive(Clone, Copy)]
pub(crate) struct Strict {
    depth: usize,
}

impl Strict {
    /// For the values of the outermost object's members.
    pub(crate) fn member() -> Self {
        Self { depth: JSON_DEPTH_MAX - 1 }
    }

    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        let depth = self.depth.checked_sub(1);
        let depth = depth.ok_or_else(|| E::custom(format_args!("nested deeper than {JSON_DEPTH_MAX} levels")))?;
        Ok(Self { depth })
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_bool<E>(self, truth: bool) -> Result<Value, E> {
        Ok(Value::Bool(truth))
    }
    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Value, E> {
        if (-INTEGER_MAX..=INTEGER_MAX).contains(&number) {
            Ok(number.into())
        } else {
            Err(E::custom(format_args!("integer {number} is beyond 2^53-1")))
        }
    }
    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Value, E> {
        match i64::try_from(number) {
            Ok(signed) => self.visit_i64(signed),
            Err(_) => Err(E::custom(format_args!("integer {number} is beyond 2^53-1"))),
        }
    }
    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Value, E> {
        Err(E::custom(format_args!("{number} is not an integer: write amounts in minor units")))
    }
    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }
    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(inner)? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut object = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            let value = members.next_value_seed(inner)?;
            if object.contains_key(&key) {
                return Err(A::Error::custom(format_args!("key `{key}` appears twice")));
            }
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ambiguous_json_is_refused() {
        for (text, why) in [
            ("{\"a\":1,\"a\":2}", "appears twice"),
            ("{\"a\":{\"b\":1,\"b\":1}}", "appears twice"),
            ("[1.5]", "not an integer"),
            ("[1e3]", "not an integer"),
            ("[9007199254740992]", "beyond 2^53-1"),
            ("[18446744073709551615]", "beyond 2^53-1"),
            ("[1] x", "trailing characters"),
            ("[1", "EOF"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        let deep = format!("{}{}", "[".repeat(17), "]".repeat(17));
        assert!(parse(&deep).unwrap_err().to_string().contains("deeper than 16"));
        assert!(parse(&format!("{}{}", "[".repeat(16), "]".repeat(16))).is_ok());
    }
}
