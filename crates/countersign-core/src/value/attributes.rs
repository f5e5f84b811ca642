//! The attributes of a fact: values by name.

use super::{FieldType, Value, ValueError, ValueType, fields_from_json, json_kind};
use crate::canonical::Canonical;
use crate::ids::{Digest, check_identifier};
use smol_str::SmolStr;
use std::collections::BTreeMap;
use std::sync::Arc;

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
    pub fn with(&self, changes: Vec<(SmolStr, Value)>) -> Self {
        let is_new = |(name, _): &(SmolStr, Value)| self.get(name).is_none();
        if !changes.iter().any(is_new) {
            return self.replaced(&changes);
        }
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

    /// The attributes with some replaced and none added: copied once. Of several changes of one attribute the last counts.
    fn replaced(&self, changes: &[(SmolStr, Value)]) -> Self {
        let change = |name: &SmolStr| changes.iter().rev().find(|(changed, _)| changed == name);
        Self(self.0.iter().map(|field| change(&field.0).unwrap_or(field).clone()).collect())
    }

    /// The attribute at a place, with its name.
    pub fn at(&self, at: usize) -> Option<(&SmolStr, &Value)> {
        self.0.get(at).map(|(name, value)| (name, value))
    }

    /// The digest of exactly this content, whole: a front of it could be met by content that someone searched for.
    pub fn content_digest(&self) -> Digest {
        let mut out = Canonical::new();
        self.write(&mut out);
        Digest::of(out.as_str().as_bytes())
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
                    Value::Long(_) if matches!(field.ty, ValueType::Long | ValueType::Money(_)) => {
                        ValueError::Number(name.to_string())
                    }
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
