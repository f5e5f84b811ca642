//! Reading one table of the settings: every key is known and fits, or is refused with a hint.

use crate::hinted::bail_hinted;
use anyhow::Result;
use countersign_core::pact::diagnostic::closest;
use countersign_core::pact::duration_ms;
use std::time::Duration;
use toml::Value;

/// A table, and the name it has in messages.
pub struct Table<'a> {
    at: String,
    table: &'a toml::Table,
}

impl<'a> Table<'a> {
    /// The value under a name, which must be a table.
    pub fn new(at: impl Into<String>, value: &'a Value) -> Result<Self> {
        let at = at.into();
        match value.as_table() {
            Some(table) => Ok(Self { at, table }),
            None => bail_hinted!("`{at}` must be a table"; "write `[{at}]`, and its keys on the lines below"),
        }
    }

    /// Its name in messages.
    pub fn at(&self) -> &str {
        &self.at
    }

    pub fn members(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.table.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// A member.
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        self.table.get(key)
    }

    /// Refuses every key but these.
    pub fn only(&self, keys: &[&str]) -> Result<()> {
        match self.table.keys().find(|key| !keys.contains(&key.as_str())) {
            None => Ok(()),
            Some(unknown) => {
                bail_hinted!("key `{unknown}` of `{}` is not known", self.at; "{}", suggestion(unknown, keys))
            }
        }
    }

    /// A member that must be there.
    pub fn required<T>(&self, key: &str, value: Option<T>, example: &str) -> Result<T> {
        match value {
            Some(value) => Ok(value),
            None => bail_hinted!("`{}` needs `{key}`", self.at; "write `{key} = {example}`"),
        }
    }

    /// A string that is not empty.
    pub fn string(&self, key: &str) -> Result<Option<String>> {
        self.get(key).map(|value| string(&self.name(key), value)).transpose()
    }

    /// Yes or no; no where the key is not there.
    pub fn flag(&self, key: &str) -> Result<bool> {
        let Some(value) = self.get(key) else { return Ok(false) };
        let name = self.name(key);
        match value.as_bool() {
            Some(flag) => Ok(flag),
            None => bail_hinted!("key `{name}` must be true or false"; "write it without quotes"),
        }
    }

    /// A whole number within bounds.
    pub fn number<T: TryFrom<i64>>(&self, key: &str, least: i64, most: i64) -> Result<Option<T>> {
        self.get(key).map(|value| number(&self.name(key), value, least, most)).transpose()
    }

    /// A span of time within bounds.
    pub fn duration(&self, key: &str, most: Duration) -> Result<Option<Duration>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let span = value.as_str().and_then(duration_ms).map(Duration::from_millis);
        match span.filter(|span| *span <= most) {
            Some(span) => Ok(Some(span)),
            None => {
                bail_hinted!(
                    "key `{}` must be a time of at most {} s", self.name(key), most.as_secs();
                    "write a number and a unit, such as \"500ms\" or \"30s\""
                )
            }
        }
    }

    /// A list of strings; none where the key is not there.
    pub fn strings(&self, key: &str) -> Result<Vec<String>> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let words = value.as_array().map(|items| items.iter().map(|item| item.as_str().map(str::to_owned)).collect());
        match words.flatten() {
            Some(words) => Ok(words),
            None => bail_hinted!("key `{}` must be a list of strings", self.name(key); "write `{key} = [\"…\"]`"),
        }
    }

    /// A list of whole numbers within bounds; none where the key is not there.
    pub fn numbers(&self, key: &str, least: i64, most: i64) -> Result<Vec<i64>> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        match value.as_array() {
            Some(items) => items.iter().map(|item| number(&self.name(key), item, least, most)).collect(),
            None => bail_hinted!("key `{}` must be a list of numbers", self.name(key); "write `{key} = [2, 3]`"),
        }
    }

    /// A table within; none where the key is not there.
    pub fn table(&self, key: &str) -> Result<Option<Self>> {
        self.get(key).map(|value| Self::new(self.name(key), value)).transpose()
    }

    fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.at)
    }
}

/// A string that is not empty.
pub fn string(key: &str, value: &Value) -> Result<String> {
    match value.as_str() {
        Some(text) if !text.is_empty() => Ok(text.to_owned()),
        _ => bail_hinted!("key `{key}` must be a non-empty string"; "write `{key} = \"…\"`"),
    }
}

/// A whole number within bounds.
pub fn number<T: TryFrom<i64>>(key: &str, value: &Value, least: i64, most: i64) -> Result<T> {
    let number = value.as_integer().filter(|number| (least..=most).contains(number));
    match number.and_then(|number| T::try_from(number).ok()) {
        Some(number) => Ok(number),
        None => bail_hinted!("key `{key}` must be a whole number from {least} to {most}"; "write it without quotes"),
    }
}

/// What a key that is not known was most likely meant to be.
pub fn suggestion(unknown: &str, keys: &[&str]) -> String {
    match closest(unknown, keys.iter().copied()) {
        Some(close) => format!("did you mean `{close}`?"),
        None => {
            let keys: Vec<_> = keys.iter().map(|key| format!("`{key}`")).collect();
            format!("the keys are {}", keys.join(", "))
        }
    }
}
