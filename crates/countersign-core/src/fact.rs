//! One versioned entity of shared state.

use crate::canonical::Canonical;
use crate::ids::{AgentId, Digest, FactId, Tag};
use crate::labels::AttributeLabels;
use crate::value::{Attributes, Value};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use std::sync::Arc;

/// Who wrote what when: shared by all attributes that one write changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Written {
    /// The entry that wrote it.
    pub entry: u64,
    /// The version it made.
    pub version: u64,
    /// When, in ledger milliseconds.
    #[serde(rename = "at")]
    pub at_ms: u64,
    /// The agent or operator that wrote it.
    pub by: AgentId,
}

impl Written {
    /// Whether no one wrote it here: it was read outside, by the adapter that `by` names, at this time. Entry 0 begins the log and
    /// writes no fact, so it stands for none.
    pub fn is_external(&self) -> bool {
        self.entry == 0
    }
}

/// Which version of a fact: what is compared to tell whether it has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Version {
    /// Of a fact in the ledger, its number; 0 where there is no fact, wherever it would live.
    Number(u64),
    /// Of an external fact, whose changes the gate does not count, the digest of its whole content.
    Content(Digest),
}

impl Version {
    /// There is no fact.
    pub const NONE: Self = Self::Number(0);

    /// The number, unless it is the version of an external fact.
    pub fn number(self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(number),
            Self::Content(_) => None,
        }
    }

    /// The digest, if it is the version of an external fact.
    pub fn digest(self) -> Option<Digest> {
        match self {
            Self::Number(_) => None,
            Self::Content(digest) => Some(digest),
        }
    }

    /// Reads back the two members that a record has for it, of which one is there.
    pub fn read(number: Option<u64>, digest: Option<&str>) -> Option<Self> {
        match (number, digest) {
            (Some(number), None) => Some(Self::Number(number)),
            (None, Some(digest)) => digest.parse().ok().map(Self::Content),
            _ => None,
        }
    }

    /// Writes the digest, under a key that comes where `digest` does among the others, if it is one.
    pub(crate) fn write_digest(self, out: &mut Canonical, key: &str) {
        if let Self::Content(digest) = self {
            out.key(key);
            out.hex_string(&digest.0);
        }
    }

    /// Writes the number, if it is one.
    pub(crate) fn write_number(self, out: &mut Canonical, key: &str) {
        if let Self::Number(number) = self {
            out.key(key);
            out.u64(number);
        }
    }
}

/// The current version of a fact.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fact {
    pub id: FactId,
    /// What stands for it in public leaves.
    pub tag: Tag,
    /// Its value; `None` once deleted. A deleted fact keeps its version, so that it can never come back as an old one.
    pub value: Option<Attributes>,
    /// The write that made this version.
    pub written: Written,
    /// For each attribute of `value`, in order, the write that last changed it where that is an earlier one; absent where there is
    /// none such. Shared by versions that change the same attributes, which is what most action types do again and again.
    earlier: Option<Arc<[Option<Written>]>>,
    /// When its source last said that this is how things are, by feeding it or by confirming it, and who said so; `None` where none
    /// ever did. What an action writes does not count: it is what the gate believes, not what the source has said.
    pub confirmed: Option<Arc<Written>>,
    /// The entry that made the version before this one: history is a walk along the ledger.
    pub previous_entry: Option<u64>,
    /// The labels of attributes that actions wrote; those of all others are as its type says.
    pub labels: Option<Arc<AttributeLabels>>,
}

impl Fact {
    /// The number of the version; the first is 1. External facts have none: 0.
    pub fn version(&self) -> u64 {
        self.written.version
    }

    /// The entry that last changed anything about it: the one that made this version, or a later one that confirmed it.
    pub fn latest_entry(&self) -> u64 {
        let confirmed = self.confirmed.as_ref().map_or(0, |confirmed| confirmed.entry);
        self.written.entry.max(confirmed)
    }

    /// What an observation of the fact is compared with.
    pub fn current(&self) -> Version {
        match &self.value {
            Some(value) if self.written.is_external() => Version::Content(value.content_digest()),
            _ => Version::Number(self.version()),
        }
    }

    /// The write that last changed an attribute; for an absent attribute, the write that made this version.
    pub fn changed(&self, attribute: &str) -> &Written {
        let at = self.value.as_ref().and_then(|value| value.iter().position(|(name, _)| name == attribute));
        at.map_or(&self.written, |at| self.changed_at(at))
    }

    fn changed_at(&self, at: usize) -> &Written {
        self.changed_earlier(at).unwrap_or(&self.written)
    }

    /// The write before this version that last changed the attribute at this place, if this version did not.
    pub fn changed_earlier(&self, at: usize) -> Option<&Written> {
        self.earlier.as_ref()?.get(at)?.as_ref()
    }

    /// The write that last changed each attribute, in order.
    pub fn all_changed(&self) -> impl Iterator<Item = &Written> {
        (0..self.value.as_ref().map_or(0, Attributes::len)).map(|at| self.changed_at(at))
    }

    /// Puts back what [`Self::changed_earlier`] said of each attribute.
    pub fn with_earlier(self, earlier: Vec<Option<Written>>) -> Self {
        let is_any = earlier.iter().any(Option::is_some);
        Self { earlier: is_any.then(|| earlier.into()), ..self }
    }

    /// The fact that a write makes of `before`.
    pub fn after(before: Option<&Self>, id: FactId, tag: Tag, value: Option<Attributes>, written: Written) -> Self {
        let earlier = before.zip(value.as_ref()).and_then(|(before, value)| before.earlier_of(value));
        let previous_entry = before.map(|fact| fact.written.entry);
        let confirmed = before.and_then(|fact| fact.confirmed.clone());
        Self { id, tag, value, written, earlier, confirmed, previous_entry, labels: None }
    }

    /// What the next version, which has this value, keeps of earlier writes.
    fn earlier_of(&self, next: &Attributes) -> Option<Arc<[Option<Written>]>> {
        let old = self.value.as_ref()?;
        // Where an attribute was, if it is as it was. Mostly all are where they were.
        let unchanged = |at: usize, name: &SmolStr, value: &Value| match old.at(at) {
            Some((held, was)) if held == name => (was == value).then_some(at),
            _ => old.iter().position(|(held, was)| held == name && was == value),
        };
        let kept = |at: usize, (name, value): (&SmolStr, &Value)| unchanged(at, name, value);
        let is_same = |earlier: &Arc<[Option<Written>]>| {
            let mut both = next.iter().zip(earlier.iter()).enumerate();
            let is_kept = |(at, (attribute, earlier)): (usize, (_, &Option<Written>))| match earlier {
                Some(_) => kept(at, attribute) == Some(at),
                None => kept(at, attribute).is_none(),
            };
            next.len() == earlier.len() && both.all(is_kept)
        };
        if let Some(same) = self.earlier.as_ref().filter(|earlier| is_same(earlier)) {
            return Some(Arc::clone(same));
        }
        let at = |(at, attribute)| kept(at, attribute).map(|was| self.changed_at(was).clone());
        let earlier: Arc<[Option<Written>]> = next.iter().enumerate().map(at).collect();
        earlier.iter().any(Option::is_some).then_some(earlier)
    }
}

/// The version that a strong entity tag names: digits in quotes, as in `If-Match: "7"`.
pub fn version_in_tag(tag: &str) -> Option<u64> {
    let digits = tag.strip_prefix('"')?.strip_suffix('"')?;
    // A sign would be parsed as well.
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}
