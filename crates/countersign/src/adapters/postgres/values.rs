//! Values between PostgreSQL and facts.
//!
//! Parameters are bound as text and read by the server as the type that the statement needs, so an id can be compared with a
//! `uuid` as well as with a `bigint`. What comes back is accepted only where it can mean one thing: there are no floats in facts,
//! so there are none here.

use countersign_core::call::{Found, FoundCode};
use countersign_core::decimal::{self, DECIMAL_SCALE};
use countersign_core::limits::{FACT_BYTES_MAX, INTEGER_MAX};
use countersign_core::value::{Attributes, Value};
use smol_str::SmolStr;
use std::error::Error;
use std::fmt::Write as _;
use std::sync::Arc;
use tokio_postgres::Row;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{Format, FromSql, IsNull, Kind, ToSql, Type, to_sql_checked};

/// A value as a parameter.
#[derive(Debug)]
pub struct Param<'a>(pub &'a Value);

impl ToSql for Param<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let text = match (self.0, ty.kind()) {
            (Value::String(text), _) => text.to_string(),
            (Value::Bool(truth), _) => truth.to_string(),
            (Value::Long(number), _) => number.to_string(),
            (Value::Decimal(units), _) => decimal::text(*units, DECIMAL_SCALE),
            (Value::Set(items), Kind::Array(_)) => array(items.iter()),
            (Value::Set(_) | Value::Record(_), _) => self.0.to_string(),
        };
        out.extend_from_slice(text.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

/// A text as a parameter of whatever type.
#[derive(Debug)]
pub struct Text<'a>(pub &'a str);

impl ToSql for Text<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

/// A set as PostgreSQL writes an array. Everything is quoted, so that no item can be taken for anything else.
fn array<'a>(items: impl Iterator<Item = &'a Value>) -> String {
    let mut out = "{".to_owned();
    for (at, item) in items.enumerate() {
        let text = match item {
            Value::String(text) => text.to_string(),
            other => other.to_string(),
        };
        let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
        // Writing to a String cannot fail.
        let _ = write!(out, "{}\"{escaped}\"", if at == 0 { "" } else { "," });
    }
    out + "}"
}

/// The attributes that a row gives; what is NULL is absent.
pub fn attributes(row: &Row) -> Result<Attributes, Found> {
    let mut fields = Vec::with_capacity(row.len());
    for (at, column) in row.columns().iter().enumerate() {
        let Cell(value) = row.try_get(at).map_err(|error| {
            let unread = FoundCode::Column.about(column.name());
            match error.source().and_then(|source| source.downcast_ref::<Found>()) {
                Some(why) => unread.and_because(why.clone()),
                None => unread.and_said(error.source().map_or_else(|| error.to_string(), ToString::to_string)),
            }
        })?;
        if let Some(value) = value {
            fields.push((SmolStr::new(column.name()), value));
        }
    }
    let attributes = Attributes::from_fields(fields);
    match attributes.bytes() {
        ..=FACT_BYTES_MAX => Ok(attributes),
        bytes => Err(FoundCode::FactTooLarge.number(bytes)),
    }
}

/// One column of a row, or one item of an array.
struct Cell(Option<Value>);

impl<'a> FromSql<'a> for Cell {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let value = match (ty.kind(), ty) {
            (Kind::Domain(inner), _) => return Self::from_sql(inner, raw),
            (Kind::Array(_), _) => {
                let items = Vec::<Self>::from_sql(ty, raw)?;
                let items = items.into_iter().map(|Cell(item)| item.ok_or_else(|| FoundCode::ItemIsNull.alone()));
                Value::Set(Arc::new(items.collect::<Result<_, _>>()?))
            }
            (Kind::Enum(_), _) => string(std::str::from_utf8(raw)?),
            (_, &Type::BOOL) => Value::Bool(bool::from_sql(ty, raw)?),
            (_, &Type::INT2) => Value::Long(i16::from_sql(ty, raw)?.into()),
            (_, &Type::INT4) => Value::Long(i32::from_sql(ty, raw)?.into()),
            (_, &Type::INT8) => long(i64::from_sql(ty, raw)?.into())?,
            (_, &Type::NUMERIC) => long(integral(raw).ok_or_else(|| FoundCode::NumberNotExact.alone())?)?,
            // The server pads what has a fixed length with spaces that mean nothing.
            (_, &Type::BPCHAR) => string(std::str::from_utf8(raw)?.trim_end_matches(' ')),
            (_, &Type::TEXT | &Type::VARCHAR | &Type::NAME | &Type::UNKNOWN) => string(std::str::from_utf8(raw)?),
            (_, &Type::UUID) => string(&uuid(raw)),
            (_, other) if other.name() == "citext" => string(std::str::from_utf8(raw)?),
            (_, other) => {
                return Err(FoundCode::TypeNotSupported.about(other.name()).into());
            }
        };
        Ok(Self(Some(value)))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(None))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

fn string(text: &str) -> Value {
    Value::String(SmolStr::new(text))
}

fn long(number: i128) -> Result<Value, Found> {
    let number = i64::try_from(number).ok().filter(|number| (-INTEGER_MAX..=INTEGER_MAX).contains(number));
    number.map(Value::Long).ok_or_else(|| FoundCode::NumberTooLarge.alone())
}

fn uuid(raw: &[u8]) -> String {
    let mut out = String::new();
    for (at, byte) in raw.iter().enumerate() {
        let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
        // Writing to a String cannot fail.
        let _ = write!(out, "{dash}{byte:02x}");
    }
    out
}

/// A `numeric` without a fraction. On the wire: how many digits to the base of 10,000, the power of the first, sign, scale, and
/// the digits, 16 bits each.
fn integral(raw: &[u8]) -> Option<i128> {
    let mut words = raw.chunks_exact(2).filter_map(|word| word.try_into().ok().map(i16::from_be_bytes));
    let (count, weight, sign, _scale) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let negative = match sign {
        0 => false,
        0x4000 => true,
        _ => return None,
    };
    let digits: Vec<i16> = words.collect();
    if usize::try_from(count).ok()? != digits.len() {
        return None;
    }
    let mut number: i128 = 0;
    // Eight groups are 32 digits: far more than is accepted, and no overflow.
    for at in 0..=weight.min(8) {
        let digit = usize::try_from(at).ok().and_then(|at| digits.get(at)).copied().unwrap_or(0);
        number = number * 10_000 + i128::from(digit);
    }
    let whole = usize::try_from(i32::from(weight) + 1).unwrap_or(0);
    let fraction = digits.iter().skip(whole).any(|digit| *digit != 0);
    let fits = weight <= 4 && !fraction;
    fits.then_some(if negative { -number } else { number })
}
