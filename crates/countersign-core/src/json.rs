//! Strict reading of JSON from outside.
//!
//! What two readers could understand differently is refused here, once: repeated keys, fractions, integers beyond 2^53-1,
//! deep nesting. So the value that is decided on is the value that everyone else reads from the same bytes.

use crate::limits::{INTEGER_MAX, JSON_DEPTH_MAX};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

/// Why JSON was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JsonError(pub String);

/// A value as it was read: what it can, it borrows from the text. Only a string with escapes is copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JsonRef<'a> {
    /// Null.
    Null,
    /// True or false.
    Bool(bool),
    /// An integer within ±(2^53-1).
    Integer(i64),
    /// A string.
    String(Cow<'a, str>),
    /// An array.
    Array(Vec<JsonRef<'a>>),
    /// An object.
    Object(Members<'a>),
}

/// The members of an object in the order in which they were sent; no name is there twice.
pub type Members<'a> = Vec<(Cow<'a, str>, JsonRef<'a>)>;

impl JsonRef<'_> {
    /// The same value in a form that stands for itself.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(truth) => Value::Bool(*truth),
            Self::Integer(number) => Value::from(*number),
            Self::String(text) => Value::String(text.to_string()),
            Self::Array(items) => items.iter().map(Self::to_value).collect(),
            Self::Object(members) => Value::Object(to_map(members)),
        }
    }
}

/// An object's members in a form that stands for itself.
pub fn to_map(members: &Members<'_>) -> Map<String, Value> {
    members.iter().map(|(name, member)| (name.to_string(), member.to_value())).collect()
}

/// Reads one JSON document strictly.
pub fn parse(text: &str) -> Result<Value, JsonError> {
    parse_as(text, Strict { depth: JSON_DEPTH_MAX }).map(|json| json.to_value())
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
    type Value = JsonRef<'de>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<JsonRef<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = JsonRef<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_bool<E>(self, truth: bool) -> Result<JsonRef<'de>, E> {
        Ok(JsonRef::Bool(truth))
    }
    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<JsonRef<'de>, E> {
        if (-INTEGER_MAX..=INTEGER_MAX).contains(&number) {
            Ok(JsonRef::Integer(number))
        } else {
            Err(E::custom(format_args!("integer {number} is beyond 2^53-1")))
        }
    }
    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<JsonRef<'de>, E> {
        match i64::try_from(number) {
            Ok(signed) => self.visit_i64(signed),
            Err(_) => Err(E::custom(format_args!("integer {number} is beyond 2^53-1"))),
        }
    }
    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<JsonRef<'de>, E> {
        Err(E::custom(format_args!("{number} is not an integer: write amounts in minor units")))
    }
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<JsonRef<'de>, E> {
        Ok(JsonRef::String(Cow::Borrowed(text)))
    }
    fn visit_str<E>(self, text: &str) -> Result<JsonRef<'de>, E> {
        Ok(JsonRef::String(Cow::Owned(text.to_owned())))
    }
    fn visit_unit<E>(self) -> Result<JsonRef<'de>, E> {
        Ok(JsonRef::Null)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<JsonRef<'de>, A::Error> {
        let inner = self.deeper()?;
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(inner)? {
            array.push(item);
        }
        Ok(JsonRef::Array(array))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<JsonRef<'de>, A::Error> {
        let inner = self.deeper()?;
        let mut object = Members::new();
        let mut seen = Seen::default();
        while let Some(key) = members.next_key_seed(Key)? {
            let value = members.next_value_seed(inner)?;
            if seen.has(&object, &key) {
                return Err(A::Error::custom(format_args!("key `{key}` appears twice")));
            }
            object.push((key, value));
        }
        Ok(JsonRef::Object(object))
    }
}

/// Reads the name of a member.
pub(crate) struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Cow<'de, str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(text))
    }
    fn visit_str<E>(self, text: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

/// Up to how many members a scan for a repeated name beats a set.
const SCANNED_MAX: usize = 16;

/// The names of an object so far. Objects are small, but a caller decides how large: past a few members, a set finds what is
/// repeated.
#[derive(Default)]
struct Seen<'de>(BTreeSet<Cow<'de, str>>);

impl<'de> Seen<'de> {
    /// Whether a name is among the members, which are all those that were asked for before.
    #[expect(clippy::ptr_arg, reason = "a name that is borrowed from the text is kept without a copy")]
    fn has(&mut self, members: &Members<'de>, key: &Cow<'de, str>) -> bool {
        if members.len() < SCANNED_MAX {
            return members.iter().any(|(name, _)| name == key);
        }
        if self.0.is_empty() {
            self.0.extend(members.iter().map(|(name, _)| name.clone()));
        }
        !self.0.insert(key.clone())
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
            (r#"{"a":1,"\u0061":2}"#, "key `a` appears twice at line 1 column 18"),
            ("[1", "EOF"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        let deep = format!("{}{}", "[".repeat(17), "]".repeat(17));
        assert!(parse(&deep).unwrap_err().to_string().contains("deeper than 16"));
        assert!(parse(&format!("{}{}", "[".repeat(16), "]".repeat(16))).is_ok());
    }

    #[test]
    fn a_repeated_key_is_found_in_an_object_of_any_size() {
        for size in [1, SCANNED_MAX - 1, SCANNED_MAX, SCANNED_MAX + 1, 1000] {
            let members: Vec<String> = (0..size).map(|n| format!("\"k{n}\":{n}")).collect();
            let object = parse_object(&format!("{{{}}}", members.join(","))).unwrap();
            assert_eq!(object.len(), size);
            for again in [0, size / 2, size - 1] {
                let error = parse(&format!("{{{},\"k{again}\":0}}", members.join(","))).unwrap_err();
                assert!(error.0.starts_with(&format!("key `k{again}` appears twice")), "{error}");
            }
        }
    }
}
