//! Values of attributes and parameters, and their types.
//!
//! There are no floats and no nulls: money is integer minor units, an absent attribute is absent. Integers stay within
//! what every JSON reader agrees on. A value can be checked against a type, written canonically, and lent to Cedar.

use crate::canonical::Canonical;
use crate::ids::{Digest, check_identifier};
use crate::limits::INTEGER_MAX;
use cedar_policy_core::ast::{Literal, Set as CedarSet, Value as CedarValue, ValueKind};
use smol_str::SmolStr;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The value of one attribute or parameter.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Value {
    /// True or false.
    Bool(bool),
    /// An integer within ±(2^53-1).
    Long(i64),
    /// A string.
    String(SmolStr),
    /// A set; order and repetition have no meaning.
    Set(Arc<Set>),
    /// A record; only parameters have them.
    Record(Arc<BTreeMap<SmolStr, Value>>),
}

/// A set of values, and what Cedar sees of it: built once, since facts are read far more often than written.
#[derive(Debug, Default)]
pub struct Set {
    items: BTreeSet<Value>,
    cedar: OnceLock<CedarValue>,
}

impl Set {
    /// The values, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Value> {
        self.items.iter()
    }

    /// Whether a value is among them.
    pub fn contains(&self, value: &Value) -> bool {
        self.items.contains(value)
    }

    fn to_cedar(&self) -> CedarValue {
        let build = || {
            let set = CedarSet::new(self.items.iter().map(Value::to_cedar));
            CedarValue { value: ValueKind::Set(set), loc: None }
        };
        self.cedar.get_or_init(build).clone()
    }
}

impl FromIterator<Value> for Set {
    fn from_iter<I: IntoIterator<Item = Value>>(items: I) -> Self {
        Self { items: items.into_iter().collect(), cedar: OnceLock::new() }
    }
}

impl PartialEq for Set {
    fn eq(&self, other: &Self) -> bool {
        self.items == other.items
    }
}

impl Eq for Set {}

impl PartialOrd for Set {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Set {
    fn cmp(&self, other: &Self) -> Ordering {
        self.items.cmp(&other.items)
    }
}

/// The type of an attribute or parameter, by Cedar's names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ValueType {
    /// `Bool`
    Bool,
    /// `Long`
    Long,
    /// `String`
    String,
    /// `Set<…>`
    Set(Box<ValueType>),
    /// A record with named, possibly optional, fields; only parameters have them.
    Record(BTreeMap<SmolStr, FieldType>),
}

/// The type of one field or attribute and whether it must be there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldType {
    /// Its type.
    pub ty: ValueType,
    /// Whether it must be there.
    pub required: bool,
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("Bool"),
            Self::Long => f.write_str("Long"),
            Self::String => f.write_str("String"),
            Self::Set(element) => write!(f, "Set<{element}>"),
            Self::Record(fields) => {
                f.write_str("{ ")?;
                for (at, (name, field)) in fields.iter().enumerate() {
                    let separator = if at == 0 { "" } else { ", " };
                    let optional = if field.required { "" } else { "?" };
                    write!(f, "{separator}{name}{optional}: {}", field.ty)?;
                }
                f.write_str(" }")
            }
        }
    }
}

/// Why a JSON value does not fit a type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// Another type was expected.
    #[error("`{at}` must be {expected}, but is {found}")]
    Type {
        /// Path of the offending value.
        at: String,
        /// The type asked for.
        expected: String,
        /// What was found.
        found: &'static str,
    },
    /// An integer out of range, or a number with a fraction.
    #[error("`{0}` must be a whole number between -(2^53-1) and 2^53-1; write money in minor units")]
    Number(String),
    /// An attribute that the type does not have.
    #[error("`{0}` is not an attribute of this type")]
    Unknown(String),
    /// A required attribute that is missing.
    #[error("`{0}` is required and missing")]
    Missing(String),
}

fn json_kind(json: &serde_json::Value) -> &'static str {
    match json {
        serde_json::Value::Null => "null",
        serde_json::Value::Bool(_) => "a boolean",
        serde_json::Value::Number(_) => "a number",
        serde_json::Value::String(_) => "a string",
        serde_json::Value::Array(_) => "an array",
        serde_json::Value::Object(_) => "an object",
    }
}

impl Value {
    /// Reads a JSON value as the given type; `at` names it in errors.
    pub fn from_json(json: &serde_json::Value, ty: &ValueType, at: &str) -> Result<Self, ValueError> {
        use serde_json::Value as Json;
        match (ty, json) {
            (ValueType::Bool, Json::Bool(b)) => Ok(Self::Bool(*b)),
            (ValueType::Long, Json::Number(number)) => number
                .as_i64()
                .filter(|n| (-INTEGER_MAX..=INTEGER_MAX).contains(n))
                .map(Self::Long)
                .ok_or_else(|| ValueError::Number(at.to_owned())),
            (ValueType::String, Json::String(s)) => Ok(Self::String(SmolStr::new(s))),
            (ValueType::Set(element), Json::Array(items)) => {
                let items = items.iter().map(|item| Self::from_json(item, element, at)).collect::<Result<_, _>>()?;
                Ok(Self::Set(Arc::new(items)))
            }
            (ValueType::Record(fields), Json::Object(object)) => {
                Ok(Self::Record(Arc::new(fields_from_json(object, fields, at)?.collect())))
            }
            (ty, found) => {
                Err(ValueError::Type { at: at.to_owned(), expected: ty.to_string(), found: json_kind(found) })
            }
        }
    }

    /// Reads a value of a canonical record back without a type; integers become `Long`, arrays sets.
    pub fn from_untyped_json(json: &serde_json::Value, at: &str) -> Result<Self, ValueError> {
        let ty = match json {
            serde_json::Value::Bool(_) => ValueType::Bool,
            serde_json::Value::Number(_) => ValueType::Long,
            serde_json::Value::Array(items) => {
                let items = items.iter().map(|item| Self::from_untyped_json(item, at)).collect::<Result<_, _>>()?;
                return Ok(Self::Set(Arc::new(items)));
            }
            _ => ValueType::String,
        };
        Self::from_json(json, &ty, at)
    }

    /// Whether the value has the type.
    pub fn is(&self, ty: &ValueType) -> bool {
        match (self, ty) {
            (Self::Bool(_), ValueType::Bool) | (Self::String(_), ValueType::String) => true,
            (Self::Long(n), ValueType::Long) => (-INTEGER_MAX..=INTEGER_MAX).contains(n),
            (Self::Set(items), ValueType::Set(element)) => items.iter().all(|item| item.is(element)),
            _ => false,
        }
    }

    /// How many bytes the canonical form has at the most, without writing it.
    pub fn bytes_bound(&self) -> usize {
        match self {
            Self::Bool(_) => 5,
            Self::Long(_) => 20,
            // A control character takes six bytes.
            Self::String(text) => text.len().saturating_mul(6).saturating_add(2),
            Self::Set(items) => items.iter().map(|item| item.bytes_bound() + 1).sum::<usize>() + 2,
            Self::Record(fields) => {
                fields.iter().map(|(name, field)| name.len() + 4 + field.bytes_bound()).sum::<usize>() + 2
            }
        }
    }

    /// Writes the value in canonical form.
    pub fn write(&self, out: &mut Canonical) {
        match self {
            Self::Bool(b) => out.bool(*b),
            Self::Long(n) => out.i64(*n),
            Self::String(s) => out.string(s),
            Self::Set(items) => {
                out.open('[');
                for item in items.iter() {
                    out.element();
                    item.write(out);
                }
                out.close(']');
            }
            Self::Record(fields) => {
                out.open('{');
                for (name, field) in fields.iter() {
                    out.any_key(name);
                    field.write(out);
                }
                out.close('}');
            }
        }
    }

    /// The value as ordinary JSON.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Bool(b) => (*b).into(),
            Self::Long(n) => (*n).into(),
            Self::String(s) => s.as_str().into(),
            Self::Set(items) => items.iter().map(Self::to_json).collect(),
            Self::Record(fields) => {
                serde_json::Value::Object(fields.iter().map(|(k, v)| (k.to_string(), v.to_json())).collect())
            }
        }
    }

    /// The value as Cedar evaluates it.
    pub(crate) fn to_cedar(&self) -> CedarValue {
        let kind = match self {
            Self::Bool(b) => ValueKind::Lit(Literal::Bool(*b)),
            Self::Long(n) => ValueKind::Lit(Literal::Long(*n)),
            Self::String(s) => ValueKind::Lit(Literal::String(s.clone())),
            Self::Set(items) => return items.to_cedar(),
            Self::Record(fields) => {
                ValueKind::Record(Arc::new(fields.iter().map(|(k, v)| (k.clone(), v.to_cedar())).collect()))
            }
        };
        CedarValue { value: kind, loc: None }
    }

    /// What Cedar answered, as a value; `None` for what no attribute can hold (entities, extension values).
    pub(crate) fn from_cedar(value: &CedarValue) -> Option<Self> {
        match &value.value {
            ValueKind::Lit(Literal::Bool(b)) => Some(Self::Bool(*b)),
            ValueKind::Lit(Literal::Long(n)) => Some(Self::Long(*n)),
            ValueKind::Lit(Literal::String(s)) => Some(Self::String(s.clone())),
            ValueKind::Set(set) => Some(Self::Set(Arc::new(set.iter().map(Self::from_cedar).collect::<Option<_>>()?))),
            _ => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Canonical::new();
        self.write(&mut out);
        f.write_str(out.as_str())
    }
}

type Fields = std::vec::IntoIter<(SmolStr, Value)>;

fn fields_from_json(
    object: &serde_json::Map<String, serde_json::Value>,
    types: &BTreeMap<SmolStr, FieldType>,
    at: &str,
) -> Result<Fields, ValueError> {
    let path = |name: &str| {
        if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") }
    };
    if let Some(unknown) = object.keys().find(|name| !types.contains_key(name.as_str())) {
        return Err(ValueError::Unknown(path(unknown)));
    }
    let mut fields = Vec::with_capacity(object.len());
    for (name, field) in types {
        match object.get(name.as_str()) {
            Some(json) => fields.push((name.clone(), Value::from_json(json, &field.ty, &path(name))?)),
            None if field.required => return Err(ValueError::Missing(path(name))),
            None => {}
        }
    }
    Ok(fields.into_iter())
}

/// The attributes of one fact, sorted by name; cloning is cheap.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Attributes(Arc<[(SmolStr, Value)]>);

impl Attributes {
    /// Reads a JSON object by the types of its attributes.
    pub fn from_json(
        object: &serde_json::Map<String, serde_json::Value>,
        types: &BTreeMap<SmolStr, FieldType>,
    ) -> Result<Self, ValueError> {
        // `types` is sorted, so the fields come out sorted.
        Ok(Self(fields_from_json(object, types, "")?.collect()))
    }

    /// Reads what a JSON object has of the declared attributes; others are left out. Nulls count as absent.
    pub fn declared_in(
        object: &serde_json::Map<String, serde_json::Value>,
        types: &BTreeMap<SmolStr, FieldType>,
    ) -> Result<Self, ValueError> {
        let declared = object.iter().filter(|(name, json)| types.contains_key(name.as_str()) && !json.is_null());
        let declared = declared.map(|(name, json)| (name.clone(), json.clone())).collect();
        Self::from_json(&declared, types)
    }

    /// Reads a canonical record back without types; integers become `Long`, arrays sets.
    pub fn from_untyped_json(object: &serde_json::Map<String, serde_json::Value>) -> Result<Self, ValueError> {
        let mut fields = Vec::with_capacity(object.len());
        for (name, json) in object {
            check_identifier(name).map_err(|_| ValueError::Unknown(name.clone()))?;
            fields.push((SmolStr::new(name), Value::from_untyped_json(json, name)?));
        }
        Ok(Self::from_fields(fields))
    }

    /// Sorts and wraps fields; a later field of the same name wins.
    pub fn from_fields(fields: Vec<(SmolStr, Value)>) -> Self {
        if fields.is_sorted_by(|(a, _), (b, _)| a < b) {
            return Self(fields.into());
        }
        let sorted: BTreeMap<_, _> = fields.into_iter().collect();
        Self(sorted.into_iter().collect())
    }

    /// The value of one attribute.
    pub fn get(&self, name: &str) -> Option<&Value> {
        // Facts have a handful of attributes; a scan beats a search.
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    /// All attributes in order of their names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&SmolStr, &Value)> {
        self.0.iter().map(|(n, v)| (n, v))
    }

    /// How many attributes there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Only the attributes that are wanted.
    pub fn only(&self, wanted: impl Fn(&str) -> bool) -> Self {
        Self(self.0.iter().filter(|(name, _)| wanted(name)).cloned().collect())
    }

    /// The attributes with some replaced or added.
    pub fn with(&self, changes: impl IntoIterator<Item = (SmolStr, Value)>) -> Self {
        let mut fields: Vec<(SmolStr, Value)> = self.0.to_vec();
        for (name, value) in changes {
            match fields.binary_search_by(|(n, _)| n.cmp(&name)) {
                Ok(at) => {
                    if let Some(slot) = fields.get_mut(at) {
                        slot.1 = value;
                    }
                }
                Err(at) => fields.insert(at, (name, value)),
            }
        }
        Self(fields.into())
    }

    /// A number that stands for exactly this content: the front of its hash, within what JSON readers agree on, never 0.
    pub fn content_version(&self) -> u64 {
        let mut out = Canonical::new();
        self.write(&mut out);
        let Digest(digest) = Digest::of(out.as_str().as_bytes());
        let front = digest.iter().take(7).fold(0_u64, |front, byte| (front << 8) | u64::from(*byte));
        (front & INTEGER_MAX.unsigned_abs()).max(1)
    }

    /// How many bytes the canonical object has at the most, without writing it.
    pub fn bytes_bound(&self) -> usize {
        self.iter().map(|(name, value)| name.len() + 4 + value.bytes_bound()).sum::<usize>() + 2
    }

    /// How many bytes the canonical object has.
    pub fn bytes(&self) -> usize {
        let mut out = Canonical::new();
        self.write(&mut out);
        out.as_str().len()
    }

    /// Writes the attributes as a canonical object.
    pub fn write(&self, out: &mut Canonical) {
        out.open('{');
        for (name, value) in self.iter() {
            out.key(name);
            value.write(out);
        }
        out.close('}');
    }

    /// The attributes as ordinary JSON.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::Value::Object(self.iter().map(|(k, v)| (k.to_string(), v.to_json())).collect())
    }

    /// Checks the attributes against their types.
    pub fn check(&self, types: &BTreeMap<SmolStr, FieldType>) -> Result<(), ValueError> {
        for (name, value) in self.iter() {
            let field = types.get(name).ok_or_else(|| ValueError::Unknown(name.to_string()))?;
            if !value.is(&field.ty) {
                return Err(match value {
                    Value::Long(_) if field.ty == ValueType::Long => ValueError::Number(name.to_string()),
                    _ => ValueError::Type {
                        at: name.to_string(),
                        expected: field.ty.to_string(),
                        found: json_kind(&value.to_json()),
                    },
                });
            }
        }
        match types.iter().find(|(name, field)| field.required && self.get(name).is_none()) {
            Some((name, _)) => Err(ValueError::Missing(name.to_string())),
            None => Ok(()),
        }
    }
}
