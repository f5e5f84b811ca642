//! Reading values straight from JSON text, without a tree of JSON in between: most of what is read when a log is opened is values.

use super::{Attributes, Set, Value};
use crate::decimal::{self, DECIMAL_SCALE};
use crate::ids::check_identifier;
use crate::limits::INTEGER_MAX;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use smol_str::SmolStr;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a boolean, a whole number, a string, an array or an object")
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<Value, E> {
        Ok(Value::Bool(truth))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        if (-INTEGER_MAX..=INTEGER_MAX).contains(&number) {
            return Ok(Value::Long(number));
        }
        Err(E::custom("a number must be a whole one between -(2^53-1) and 2^53-1"))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(SmolStr::new(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut read = Vec::new();
        while let Some(item) = items.next_element()? {
            read.push(item);
        }
        Ok(Value::Set(Arc::new(read.into_iter().collect::<Set>())))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut fields = BTreeMap::new();
        while let Some((name, value)) = members.next_entry::<SmolStr, Value>()? {
            fields.insert(name, value);
        }
        if let Some(Value::String(text)) = fields.get(decimal::MARK).filter(|_| fields.len() == 1) {
            let units =
                decimal::units(text, DECIMAL_SCALE).ok().filter(|units| decimal::text(*units, DECIMAL_SCALE) == *text);
            return units.map(Value::Decimal).ok_or_else(|| A::Error::custom("a decimal must be written in one way"));
        }
        Ok(Value::Record(Arc::new(fields)))
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct Object;

impl<'de> Visitor<'de> for Object {
    type Value = Attributes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of attributes")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Attributes, A::Error> {
        let mut fields = Vec::new();
        while let Some((name, value)) = members.next_entry::<SmolStr, Value>()? {
            check_identifier(&name).map_err(A::Error::custom)?;
            fields.push((name, value));
        }
        Ok(Attributes::from_fields(fields))
    }
}

impl<'de> Deserialize<'de> for Attributes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Object)
    }
}
