//! Strict reading of JSON from outside.
//!
//! What two readers could understand differently is refused here, once: repeated keys, integers beyond 2^53-1, deep nesting, and
//! fractions, except where a decimal may be meant: there their text is kept, and never becomes a float. So the value that is decided on
//! is the value that everyone else reads from the same bytes. A whole number is one however it is written: `1200.0` is 1200.
//! Names that our own reader gives a meaning of its own are refused too: see [`is_reserved`].

use crate::decimal;
use crate::limits::{INTEGER_MAX, JSON_DEPTH_MAX};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::collections::BTreeSet;
use std::fmt;

/// What names begin with that `serde_json` takes for its own: an object with such a member is read as the JSON in the member's text, so
/// what is written here would be read as something else.
const RESERVED: &str = "$serde_json::private::";

/// Deepest nesting of what a service answers.
const ANSWER_DEPTH_MAX: usize = 64;

/// Why JSON was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JsonError(pub String);

/// A value as it was read: what it can, it borrows from the text. Only a string with escapes is copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JsonRef<'a> {
    Null,
    /// True or false.
    Bool(bool),
    /// An integer within ±(2^53-1).
    Integer(i64),
    /// The text of a number that is no such integer.
    Decimal(&'a str),
    String(Cow<'a, str>),
    Array(Vec<JsonRef<'a>>),
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
            Self::Decimal(text) => decimal::marked(*text),
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

/// Reads one JSON document strictly. Decimals may be meant: a number that is not whole is marked with its text (see
/// [`decimal::marked`]).
pub fn parse_exact(text: &str) -> Result<Value, JsonError> {
    let numbers = Numbers::new(text);
    parse_as(text, Strict { depth: JSON_DEPTH_MAX, numbers: &numbers }).map(|json| json.to_value())
}

/// The same for what a service answered, which says more than anyone asked for: any number is taken, and one that is no whole number
/// within ±(2^53-1) is marked with its text.
pub fn parse_answer(text: &str) -> Result<Value, JsonError> {
    let numbers = Numbers { taken: Taken::Any, ..Numbers::new(text) };
    parse_as(text, Strict { depth: ANSWER_DEPTH_MAX, numbers: &numbers }).map(|json| json.to_value())
}

/// Whether a member of this name would be read back as something else. No JSON from outside may have one.
pub fn is_reserved(name: &str) -> bool {
    name.starts_with(RESERVED)
}

/// Reads one JSON document with a visitor of its own, which must be as strict: see [`Strict::member`].
pub(crate) fn parse_as<'de, V: Visitor<'de>>(text: &'de str, visitor: V) -> Result<V::Value, JsonError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = reader.deserialize_any(visitor).map_err(|e| JsonError(e.to_string()))?;
    reader.end().map_err(|e| JsonError(e.to_string()))?;
    Ok(value)
}

/// The same for one object where decimals may be meant.
pub fn parse_object_exact(text: &str) -> Result<Map<String, Value>, JsonError> {
    match parse_exact(text)? {
        Value::Object(object) => Ok(object),
        _ => Err(JsonError("expected a JSON object".to_owned())),
    }
}

/// The numbers of a document as they are written. They are visited in the order of the text, so to count them is to know which is which.
pub(crate) struct Numbers<'de> {
    text: &'de str,
    visited: Cell<usize>,
    /// Looked for at the first number that is needed: most documents have whole ones only.
    written: OnceCell<Vec<&'de str>>,
    taken: Taken,
}

/// Which numbers are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// Whole ones and decimals.
    Exact,
    /// Whatever JSON calls a number.
    Any,
}

impl<'de> Numbers<'de> {
    pub(crate) fn new(text: &'de str) -> Self {
        Self { text, visited: Cell::new(0), written: OnceCell::new(), taken: Taken::Exact }
    }

    /// Counts one more; gives the number of those before it.
    fn count(&self) -> usize {
        self.visited.replace(self.visited.get().saturating_add(1))
    }

    /// The text of a number, by its place among all.
    fn written(&self, at: usize) -> Option<&'de str> {
        self.written.get_or_init(|| written(self.text)).get(at).copied()
    }
}

/// Every number of a document that is read as JSON at the same time, so that only numbers and strings have to be told apart.
fn written(text: &str) -> Vec<&str> {
    let mut numbers = Vec::new();
    let (mut in_string, mut is_escaped, mut begun) = (false, false, None);
    for (at, byte) in text.bytes().enumerate() {
        if in_string {
            in_string = is_escaped || byte != b'"';
            is_escaped = byte == b'\\' && !is_escaped;
            continue;
        }
        let is_part =
            matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.') || begun.is_some() && matches!(byte, b'e' | b'E');
        match begun {
            None if is_part => begun = Some(at),
            Some(from) if !is_part => {
                numbers.extend(text.get(from..at));
                begun = None;
            }
            _ => {}
        }
        in_string = byte == b'"';
    }
    numbers.extend(begun.and_then(|from| text.get(from..)));
    numbers
}

/// Reads any value strictly.
#[derive(Clone, Copy)]
pub(crate) struct Strict<'n, 'de> {
    depth: usize,
    numbers: &'n Numbers<'de>,
}

impl<'n, 'de> Strict<'n, 'de> {
    /// For the values of the outermost object's members.
    pub(crate) fn member(numbers: &'n Numbers<'de>) -> Self {
        Self { depth: JSON_DEPTH_MAX - 1, numbers }
    }

    /// An integer, by its place among all numbers; `None` where it is beyond 64 bits.
    fn integer<E: serde::de::Error>(self, at: usize, number: Option<i64>) -> Result<JsonRef<'de>, E> {
        match number.filter(|number| (-INTEGER_MAX..=INTEGER_MAX).contains(number)) {
            Some(number) => Ok(JsonRef::Integer(number)),
            None => {
                let text = self.numbers.written(at).unwrap_or_default();
                match self.numbers.taken {
                    Taken::Any => Ok(JsonRef::Decimal(text)),
                    Taken::Exact => Err(E::custom(format_args!("number {text} is beyond 2^53-1"))),
                }
            }
        }
    }

    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        let depth = self.depth.checked_sub(1);
        let depth = depth.ok_or_else(|| E::custom(format_args!("nested deeper than {JSON_DEPTH_MAX} levels")))?;
        Ok(Self { depth, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_, 'de> {
    type Value = JsonRef<'de>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<JsonRef<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_, 'de> {
    type Value = JsonRef<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_bool<E>(self, truth: bool) -> Result<JsonRef<'de>, E> {
        Ok(JsonRef::Bool(truth))
    }
    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<JsonRef<'de>, E> {
        self.integer(self.numbers.count(), Some(number))
    }
    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<JsonRef<'de>, E> {
        self.integer(self.numbers.count(), i64::try_from(number).ok())
    }
    /// What the reader made of it is not looked at: its text is.
    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<JsonRef<'de>, E> {
        let at = self.numbers.count();
        let text = self.numbers.written(at).unwrap_or_default();
        match decimal::units(text, 0) {
            Ok(whole) => self.integer(at, Some(whole)),
            Err(decimal::Inexact::Range) => self.integer(at, None),
            Err(decimal::Inexact::Digits) => Ok(JsonRef::Decimal(text)),
            Err(_) => Err(E::custom(format_args!("{text} is not an integer: write amounts in minor units"))),
        }
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
            if is_reserved(&key) {
                return Err(A::Error::custom(format_args!("no member can be called `{key}`")));
            }
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
            ("[1e19]", "beyond 2^53-1"),
            ("[9007199254740992]", "beyond 2^53-1"),
            ("[18446744073709551615]", "beyond 2^53-1"),
            ("[18446744073709551616]", "beyond 2^53-1"),
            ("[1] x", "trailing characters"),
            (r#"{"a":1,"\u0061":2}"#, "key `a` appears twice at line 1 column 18"),
            // Read back by `serde_json`, these would be the JSON in the text: another value, or none.
            (r#"{"$serde_json::private::RawValue":"no json"}"#, "no member can be called"),
            (r#"[{"a":{"\u0024serde_json::private::RawV\u0061lue":"{}"}}]"#, "no member can be called"),
            (r#"{"a":1,"$serde_json::private::Number":"1"}"#, "no member can be called"),
            ("[1", "EOF"),
        ] {
            let error = parse_exact(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
            let answer = parse_answer(text);
            assert!(why.contains("2^53") || answer.is_err(), "{answer:?}");
        }
        let deep = format!("{}{}", "[".repeat(17), "]".repeat(17));
        assert!(parse_exact(&deep).unwrap_err().to_string().contains("deeper than 16"));
        assert!(parse_exact(&format!("{}{}", "[".repeat(16), "]".repeat(16))).is_ok());
    }

    #[test]
    fn a_number_keeps_its_text_wherever_it_is() {
        let numbers = r#"[1, -0, 1200.0, 12.34, 1e2, 0.1000000000000000055, {"b": -7.50}]"#;
        let text = format!(r#"{{"-1.5": "2.5e1 \\", "a\"3.5": {numbers}, "c": "\"", "d": 5.5}}"#);
        let expected = serde_json::json!({"-1.5": "2.5e1 \\", "a\"3.5": [1, 0, 1200, {"$decimal": "12.34"}, 100,
            {"$decimal": "0.1000000000000000055"}, {"b": {"$decimal": "-7.50"}}], "c": "\"", "d": {"$decimal": "5.5"}});
        assert_eq!(parse_exact(&text).unwrap(), expected);
        assert_eq!(
            parse_answer("[1e99, 99999999999999999999]").unwrap().to_string(),
            r#"[{"$decimal":"1e99"},{"$decimal":"99999999999999999999"}]"#
        );
        assert_eq!(parse_exact("[1200.0, 1e2, -0, -0.0]").unwrap(), serde_json::json!([1200, 100, 0, 0]));
    }

    #[test]
    fn a_repeated_key_is_found_in_an_object_of_any_size() {
        for size in [1, SCANNED_MAX - 1, SCANNED_MAX, SCANNED_MAX + 1, 1000] {
            let members: Vec<String> = (0..size).map(|n| format!("\"k{n}\":{n}")).collect();
            let object = parse_object_exact(&format!("{{{}}}", members.join(","))).unwrap();
            assert_eq!(object.len(), size);
            for again in [0, size / 2, size - 1] {
                let error = parse_exact(&format!("{{{},\"k{again}\":0}}", members.join(","))).unwrap_err();
                assert!(error.0.starts_with(&format!("key `k{again}` appears twice")), "{error}");
            }
        }
    }
}
