//! A schema of parameters as slots, compiled when its pact is loaded: one for each parameter, with its type and bounds, so that
//! binding is one pass over what was sent.
//!
//! Slots take only what the schema accepts, and give the value that binding by the schema gives; a test holds the two against each
//! other. They say nothing about what they do not take. A schema with a keyword that is not known here has no slots.

use super::keywords::ANNOTATIONS;
use super::lower::{DECIMAL, SCALE, takes_null};
use crate::decimal;
use crate::json::{JsonRef, Members};
use crate::limits::INTEGER_MAX;
use crate::value::{Attributes, Set, Value};
use serde_json::{Map, Value as Json};
use smol_str::SmolStr;
use std::sync::Arc;

/// The parameters of an action type, or the fields of one that is a record.
#[derive(Debug)]
pub struct Slots {
    /// In order of their names.
    slots: Box<[Slot]>,
    /// How many of them must be filled.
    required: usize,
}

#[derive(Debug)]
struct Slot {
    name: SmolStr,
    required: bool,
    /// Whether null may stand for its absence.
    is_nullable: bool,
    rule: Rule,
}

/// What a slot takes.
#[derive(Debug)]
enum Rule {
    Bool(Listed<bool>),
    Long { min: i64, max: i64, listed: Listed<i64>, unit: Unit },
    String { chars_min: usize, chars_max: usize, listed: Listed<SmolStr> },
    Set { element: Box<Rule>, items_min: usize, items_max: usize, is_unique: bool },
    Record(Slots),
}

/// What a number is counted in.
#[derive(Debug, Clone, Copy)]
enum Unit {
    One,
    Money(u8),
    Decimal,
}

/// The only values that there are, where the schema lists them.
type Listed<T> = Option<Box<[T]>>;

impl Slots {
    /// Compiles the schema of an object that the reader has accepted; `None` where it uses what slots do not know.
    pub(super) fn compile(schema: &Json) -> Option<Self> {
        let schema = schema.as_object()?;
        knows(schema, &["type", "properties", "required", "additionalProperties"])?;
        let is_closed = schema.get("additionalProperties") == Some(&Json::Bool(false));
        // A record that may be null has both types; whether null is taken is the slot's matter.
        let is_object = match schema.get("type")? {
            Json::Array(types) => types.first().is_some_and(|ty| ty == "object"),
            ty => ty == "object",
        };
        if !is_closed || !is_object {
            return None;
        }
        let names = schema.get("required").map_or(Some(&[][..]), |names| Some(names.as_array()?.as_slice()))?;
        let properties = schema.get("properties").map_or(Some(None), |properties| properties.as_object().map(Some))?;
        let slot = |(name, schema): (&String, &Json)| {
            let required = names.iter().any(|required| required == name);
            let is_nullable = takes_null(schema);
            Some(Slot { name: SmolStr::new(name), required, is_nullable, rule: Rule::compile(schema)? })
        };
        let mut slots = properties.into_iter().flatten().map(slot).collect::<Option<Box<[_]>>>()?;
        slots.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let required = slots.iter().filter(|slot| slot.required).count();
        (required == names.len()).then_some(Self { slots, required })
    }

    /// Binds what was sent; `None` where it does not fit.
    pub(crate) fn bind(&self, params: &Members<'_>) -> Option<Attributes> {
        self.fill(params).map(Attributes::from_fields)
    }

    /// The fields in order of their names.
    fn fill(&self, members: &Members<'_>) -> Option<Vec<(SmolStr, Value)>> {
        let mut fields = Vec::with_capacity(members.len());
        let mut required = 0;
        for (name, json) in members {
            let at = self.slots.binary_search_by(|slot| slot.name.as_str().cmp(name)).ok()?;
            let slot = self.slots.get(at)?;
            required += usize::from(slot.required);
            if slot.is_nullable && *json == JsonRef::Null {
                continue;
            }
            fields.push((slot.name.clone(), slot.rule.value(json)?));
        }
        // No name is there twice, so as many as are required are all of these.
        if required != self.required {
            return None;
        }
        fields.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        Some(fields)
    }
}

impl Rule {
    fn compile(schema: &Json) -> Option<Self> {
        let rules = schema.as_object()?;
        let listed = || rules.get("enum").and_then(|values| values.as_array()?.first()).or_else(|| rules.get("const"));
        let ty = match (rules.get("type"), listed()) {
            (Some(Json::Array(types)), _) => types.first()?.as_str()?,
            (Some(ty), _) => ty.as_str()?,
            (None, Some(Json::Bool(_))) => "boolean",
            (None, Some(Json::Number(_))) => "integer",
            (None, Some(Json::String(_))) => "string",
            (None, _) => return None,
        };
        match ty {
            "boolean" => {
                knows(rules, &["type", "enum", "const"])?;
                Some(Self::Bool(values(rules, Json::as_bool)?))
            }
            "integer" => {
                let bounds = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];
                knows(rules, &[&["type", "enum", "const", SCALE, DECIMAL][..], &bounds].concat())?;
                let [minimum, maximum, above, below] = bounds.map(|bound| rules.get(bound).map(Json::as_i64));
                let [minimum, above] = [minimum, above].map(|bound| bound.unwrap_or(Some(i64::MIN)));
                let [maximum, below] = [maximum, below].map(|bound| bound.unwrap_or(Some(i64::MAX)));
                // Integers are within ±(2^53-1), far from both ends.
                let min = minimum?.max(above?.saturating_add(1));
                let max = maximum?.min(below?.saturating_sub(1));
                let unit = match (rules.get(SCALE), rules.contains_key(DECIMAL)) {
                    (None, _) => Unit::One,
                    (Some(_), true) => Unit::Decimal,
                    (Some(scale), false) => Unit::Money(u8::try_from(scale.as_u64()?).ok()?),
                };
                Some(Self::Long { min, max, listed: values(rules, Json::as_i64)?, unit })
            }
            "string" => {
                knows(rules, &["type", "enum", "const", "minLength", "maxLength"])?;
                let (chars_min, chars_max) = (count(rules, "minLength", 0)?, count(rules, "maxLength", usize::MAX)?);
                let listed = values(rules, |value| value.as_str().map(SmolStr::new))?;
                Some(Self::String { chars_min, chars_max, listed })
            }
            "array" => {
                knows(rules, &["type", "items", "minItems", "maxItems", "uniqueItems"])?;
                let element = Box::new(Self::compile(rules.get("items")?)?);
                let (items_min, items_max) = (count(rules, "minItems", 0)?, count(rules, "maxItems", usize::MAX)?);
                let is_unique = rules.get("uniqueItems").map_or(Some(false), Json::as_bool)?;
                // Records that differ by a null are different to the schema.
                if is_unique && matches!(*element, Self::Set { .. } | Self::Record(_)) {
                    return None;
                }
                Some(Self::Set { element, items_min, items_max, is_unique })
            }
            "object" => Slots::compile(schema).map(Self::Record),
            _ => None,
        }
    }

    /// The value, if it is one that the slot takes.
    fn value(&self, json: &JsonRef<'_>) -> Option<Value> {
        match (self, json) {
            (Self::Bool(listed), JsonRef::Bool(truth)) => allows(listed, truth).then_some(Value::Bool(*truth)),
            (Self::Long { min, max, listed, unit }, json) => {
                let number = match (unit, json) {
                    (Unit::One, JsonRef::Integer(number)) => *number,
                    (Unit::One, _) => return None,
                    (Unit::Money(scale), json) => {
                        units(json, *scale).filter(|units| (-INTEGER_MAX..=INTEGER_MAX).contains(units))?
                    }
                    (Unit::Decimal, json) => units(json, decimal::DECIMAL_SCALE)?,
                };
                let fits = (min..=max).contains(&&number) && allows(listed, &number);
                fits.then_some(if matches!(unit, Unit::Decimal) { Value::Decimal(number) } else { Value::Long(number) })
            }
            (Self::String { chars_min, chars_max, listed }, JsonRef::String(text)) => {
                // A character has at least one byte, so most strings need not be counted.
                let chars = || text.chars().count();
                let is_long_enough = *chars_min == 0 || *chars_min == 1 && !text.is_empty() || chars() >= *chars_min;
                let is_short_enough = text.len() <= *chars_max || chars() <= *chars_max;
                let is_listed = listed.as_ref().is_none_or(|listed| listed.iter().any(|value| **value == **text));
                (is_long_enough && is_short_enough && is_listed).then(|| Value::String(SmolStr::new(text)))
            }
            (Self::Set { element, items_min, items_max, is_unique }, JsonRef::Array(items)) => {
                if !(items_min..=items_max).contains(&&items.len()) {
                    return None;
                }
                let set = items.iter().map(|item| element.value(item)).collect::<Option<Set>>()?;
                (!is_unique || set.iter().count() == items.len()).then(|| Value::Set(Arc::new(set)))
            }
            (Self::Record(slots), JsonRef::Object(members)) => {
                Some(Value::Record(Arc::new(slots.fill(members)?.into_iter().collect())))
            }
            _ => None,
        }
    }
}

/// An exact number in units of its last digit.
fn units(json: &JsonRef<'_>, scale: u8) -> Option<i64> {
    match json {
        JsonRef::Decimal(text) => decimal::units(text, scale).ok(),
        JsonRef::Null | JsonRef::Bool(_) | JsonRef::Array(_) => None,
        other => decimal::units(&decimal::number_text(&other.to_value())?, scale).ok(),
    }
}

fn allows<T: PartialEq>(listed: &Listed<T>, value: &T) -> bool {
    listed.as_ref().is_none_or(|listed| listed.contains(value))
}

/// Whether a schema has only these keywords, besides what it says to people.
fn knows(schema: &Map<String, Json>, keywords: &[&str]) -> Option<()> {
    let is_known = |key: &String| keywords.contains(&key.as_str()) || ANNOTATIONS.contains(&key.as_str());
    schema.keys().all(is_known).then_some(())
}

/// The values that the schema lists, if it does: what `enum` has and `const` does not rule out.
fn values<T: PartialEq>(rules: &Map<String, Json>, of: impl Fn(&Json) -> Option<T>) -> Option<Listed<T>> {
    let constant = match rules.get("const") {
        Some(value) => Some(of(value)?),
        None => None,
    };
    let listed = match rules.get("enum") {
        Some(values) => {
            let values = values.as_array()?.iter().filter(|value| !value.is_null());
            Some(values.map(of).collect::<Option<Vec<T>>>()?)
        }
        None => None,
    };
    Some(match (listed, constant) {
        (None, None) => None,
        (Some(listed), None) => Some(listed.into()),
        (None, Some(constant)) => Some([constant].into()),
        (Some(mut listed), Some(constant)) => {
            listed.retain(|value| *value == constant);
            Some(listed.into())
        }
    })
}

/// A keyword that counts something.
fn count(rules: &Map<String, Json>, keyword: &str, otherwise: usize) -> Option<usize> {
    match rules.get(keyword) {
        Some(count) => usize::try_from(count.as_u64()?).ok(),
        None => Some(otherwise),
    }
}
