//! Values of attributes and parameters, and their types.
//!
//! There are no floats and no nulls: money is integer minor units, decimals are exact, an absent attribute is absent. Integers stay
//! within what every JSON reader agrees on. A value can be checked against a type, written canonically, and lent to Cedar.

mod attributes;
mod read;
mod set;

pub use attributes::Attributes;
pub use set::Set;

use crate::canonical::Canonical;
use crate::decimal::{self, DECIMAL_SCALE, Inexact};
use crate::limits::INTEGER_MAX;
use cedar_policy_core::ast::{
    ExprKind, Literal, Name, PartialValue, RepresentableExtensionValue, RestrictedExpr, Value as CedarValue, ValueKind,
};
use cedar_policy_core::extensions::Extensions;
use serde::Serialize;
use smol_str::SmolStr;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The value of one attribute or parameter.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Value {
    /// True or false.
    Bool(bool),
    /// An integer within ±(2^53-1).
    Long(i64),
    /// A decimal, in units of its fourth digit behind the point.
    Decimal(i64),
    String(SmolStr),
    /// A set; order and repetition have no meaning.
    Set(Arc<Set>),
    /// A record; only parameters have them.
    Record(Arc<BTreeMap<SmolStr, Value>>),
}

/// The type of an attribute or parameter, by Cedar's names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ValueType {
    /// `Bool`
    Bool,
    /// `Long`
    Long,
    /// `Long`, in minor units: read from a number with so many digits behind its point.
    Money(u8),
    /// `decimal`
    Decimal,
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
            Self::Money(scale) => write!(f, "Money<{scale}>"),
            Self::Decimal => f.write_str("decimal"),
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
    /// A number with more digits behind its point than its type has.
    #[error("`{at}` has more than {scale} digits behind its point")]
    Digits {
        /// Path of the offending value.
        at: String,
        /// How many digits there is room for.
        scale: u8,
    },
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
            (ValueType::Long, Json::Number(number)) => {
                number.as_i64().and_then(in_range).map(Self::Long).ok_or_else(|| ValueError::Number(at.to_owned()))
            }
            (ValueType::String, Json::String(s)) => Ok(Self::String(SmolStr::new(s))),
            (ValueType::Money(scale), json) => exact(json, *scale, ty, at)
                .and_then(|units| in_range(units).map(Self::Long).ok_or_else(|| ValueError::Number(at.to_owned()))),
            (ValueType::Decimal, json) => exact(json, DECIMAL_SCALE, ty, at).map(Self::Decimal),
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
            serde_json::Value::Object(fields) if fields.contains_key(decimal::MARK) => ValueType::Decimal,
            serde_json::Value::Object(fields) => {
                let field = |(name, json): (&String, _)| Ok((name.into(), Self::from_untyped_json(json, at)?));
                return Ok(Self::Record(Arc::new(fields.iter().map(field).collect::<Result<_, ValueError>>()?)));
            }
            _ => ValueType::String,
        };
        Self::from_json(json, &ty, at)
    }

    /// Whether the value has the type.
    pub fn is(&self, ty: &ValueType) -> bool {
        match (self, ty) {
            (Self::Bool(_), ValueType::Bool) | (Self::String(_), ValueType::String) => true,
            (Self::Long(n), ValueType::Long | ValueType::Money(_)) => in_range(*n).is_some(),
            (Self::Decimal(_), ValueType::Decimal) => true,
            (Self::Set(items), ValueType::Set(element)) => items.iter().all(|item| item.is(element)),
            _ => false,
        }
    }

    /// How many bytes the canonical form has at the most, without writing it.
    pub fn bytes_bound(&self) -> usize {
        match self {
            Self::Bool(_) => 5,
            Self::Long(_) => 20,
            Self::Decimal(_) => 40,
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
            Self::Decimal(units) => {
                out.open('{');
                out.any_key(decimal::MARK);
                out.string(&decimal::text(*units, DECIMAL_SCALE));
                out.close('}');
            }
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
            Self::Decimal(units) => decimal::marked(decimal::text(*units, DECIMAL_SCALE)),
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
            Self::Decimal(units) => return cedar_decimal(*units),
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
            ValueKind::ExtensionValue(value) => from_cedar_decimal(value).map(Self::Decimal),
            ValueKind::Set(set) => Some(Self::Set(Arc::new(set.iter().map(Self::from_cedar).collect::<Option<_>>()?))),
            _ => None,
        }
    }
}

fn in_range(number: i64) -> Option<i64> {
    Some(number).filter(|number| (-INTEGER_MAX..=INTEGER_MAX).contains(number))
}

/// An exact number in units of its last digit.
fn exact(json: &serde_json::Value, scale: u8, ty: &ValueType, at: &str) -> Result<i64, ValueError> {
    let text = decimal::number_text(json).ok_or(Inexact::NotANumber);
    text.and_then(|text| decimal::units(&text, scale)).map_err(|why| match why {
        Inexact::NotANumber => ValueError::Type { at: at.to_owned(), expected: ty.to_string(), found: json_kind(json) },
        Inexact::Digits => ValueError::Digits { at: at.to_owned(), scale },
        Inexact::Range => ValueError::Number(at.to_owned()),
    })
}

/// Cedar's own constructor makes the value: what it is inside is Cedar's matter.
fn cedar_decimal(units: i64) -> CedarValue {
    let text = SmolStr::new(decimal::text(units, DECIMAL_SCALE));
    let made = || {
        let name = Name::parse_unqualified_name("decimal").ok()?;
        let function = Extensions::all_available().func(&name).ok()?;
        match function.call(&[CedarValue::from(Literal::String(text.clone()))]).ok()? {
            PartialValue::Value(value) => Some(value),
            PartialValue::Residual(_) => None,
        }
    };
    // A text never compares with a decimal: what could not be made fails every condition that reads it (I4).
    made().unwrap_or_else(|| CedarValue::from(Literal::String(text)))
}

fn from_cedar_decimal(value: &RepresentableExtensionValue) -> Option<i64> {
    let call = RestrictedExpr::from(value.clone());
    let ExprKind::ExtensionFunctionApp { fn_name, args } = call.expr_kind() else { return None };
    let ExprKind::Lit(Literal::String(text)) = args.first()?.expr_kind() else { return None };
    let is_decimal = fn_name.to_string() == "decimal";
    decimal::units(text, DECIMAL_SCALE).ok().filter(|_| is_decimal)
}

impl Serialize for Value {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
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
