//! The members of an object, each as it was sent.

use super::Raw;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::HashSet;
use std::fmt;

/// From so many members on, names are looked up and not compared one by one: a server may send millions of them.
const MEMBERS_FEW: usize = 32;

/// The members of one JSON object, in order, each as it stands.
#[derive(Debug, Clone, Default)]
pub struct Members(Vec<(String, Raw)>);

impl Members {
    /// Reads an object; one with a name twice is refused.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// A member.
    pub fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// A member that is a string.
    pub fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }

    /// A member that is an object.
    pub fn object(&self, name: &str) -> Option<Self> {
        Self::parse(self.get(name)?.get()).ok()
    }

    /// Puts a member in its old place, or at the end.
    pub fn set(&mut self, name: &str, value: Raw) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Takes a member away.
    pub fn remove(&mut self, name: &str) -> Option<Raw> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(at).1)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), &**value))
    }

    /// Writes the object.
    pub fn to_raw(&self) -> Raw {
        RawValue::from_string(self.to_text()).unwrap_or_default()
    }

    pub(super) fn to_text(&self) -> String {
        let length = self.0.iter().map(|(name, value)| name.len() + value.get().len() + 4).sum::<usize>() + 2;
        let mut text = String::with_capacity(length);
        text.push('{');
        for (at, (name, value)) in self.0.iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            text.push_str(&serde_json::Value::from(name.as_str()).to_string());
            text.push(':');
            text.push_str(value.get());
        }
        text.push('}');
        text
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Members;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members: Vec<(String, Raw)> = Vec::new();
                let mut names: HashSet<String> = HashSet::new();
                while let Some((name, value)) = map.next_entry::<String, Raw>()? {
                    if members.len() == MEMBERS_FEW {
                        names.extend(members.iter().map(|(name, _)| name.clone()));
                    }
                    let is_known = match members.len() < MEMBERS_FEW {
                        true => members.iter().any(|(known, _)| *known == name),
                        false => !names.insert(name.clone()),
                    };
                    if is_known {
                        return Err(A::Error::custom(format_args!("`{name}` appears twice")));
                    }
                    members.push((name, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}
