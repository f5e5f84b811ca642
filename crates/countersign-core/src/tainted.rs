//! Which values an agent was shown with labels, and which parameters of an action carry one.
//!
//! A *value* is a text of six characters and more, a word or a part of one in a longer text, what is written in groups, or a number of
//! four digits and more. Values are kept *bare*: in normal form KC, without regard to case, without anything but letters and digits. So
//! white space, separators and case make no difference, and one search finds a value whole and embedded. What a parameter says in base64,
//! hexadecimal or percent-encoded is decoded where its letters allow it, and two texts are looked at as one across the place where they
//! meet. A value that trusted content holds too is clean (L7).
//!
//! What there is no room for counts as carried by everything (R10): leaving something out hides no origin. The caller keeps one of these for
//! each agent; what it finds is an input of the action's entry (L5), and nothing here is part of a decision.

mod search;
mod spelled;
mod table;
#[cfg(test)]
mod tests;
mod values;

pub use self::search::Search;
use self::table::Table;
use self::values::each_value;
use crate::labels::LabelSet;
use crate::limits::{TAINTED_BYTES_MAX, TAINTED_CONTENT_MAX, TAINTED_LIKE_MAX, TAINTED_VALUES_MAX};
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};

/// Parameters of an action that carry labelled values, with the labels.
pub type Tainted = BTreeMap<SmolStr, LabelSet>;

/// The fewest letters and digits by which a value is looked for at any place.
const BARE_MIN: usize = 6;
/// The fewest of one that has six characters with its separators.
const SHORT_MIN: usize = 4;
/// The fewest of one that is found split over two texts: shorter ones come about by chance.
const SPLIT_MIN: usize = 8;
/// What a value takes beside its bytes, roughly.
const VALUE_BYTES: usize = 96;

/// Labels as bits of [`Index::names`].
type Bits = u32;

/// A value, as it is compared.
#[derive(Debug, Clone)]
struct Value {
    /// Letters and digits alone.
    bare: SmolStr,
    /// With separators and without white space, where letters and digits alone are too few to tell it apart.
    exact: Option<SmolStr>,
    labels: Bits,
    /// When it was last shown.
    at_ms: u64,
}

/// The labelled values that one agent was shown.
#[derive(Debug, Clone, Default)]
pub struct Index {
    names: Vec<SmolStr>,
    values: Vec<Value>,
    /// Each value by its text: one that is shown again takes no more room.
    places: BTreeMap<SmolStr, usize>,
    long: Table,
    short: Table,
    numbers: BTreeMap<SmolStr, (Bits, u64)>,
    /// Labels of content of which something was left out, and until when that counts.
    unknown: BTreeMap<SmolStr, u64>,
    bytes: usize,
}

impl Index {
    /// Notes that content with these labels was shown whose values are not known: everything counts as carrying one, until then.
    pub fn add_unknown(&mut self, labels: &LabelSet, until_ms: u64) {
        for label in labels {
            let until = self.unknown.entry(label.clone()).or_default();
            *until = until_ms.max(*until);
        }
    }

    /// Adds what content says that was shown, as JSON or as a text. What does not fit counts as carried until `until_ms`.
    pub fn add(&mut self, labels: &LabelSet, content: &str, at_ms: u64, until_ms: u64) {
        if labels.is_empty() {
            return;
        }
        if content.len() > TAINTED_CONTENT_MAX {
            return self.add_unknown(labels, until_ms);
        }
        let bits = self.bits(labels);
        let mut fits = true;
        each_value(content, &mut |said| {
            fits &= match said {
                Said::Text { bare, exact } => self.insert(bare, exact, bits, at_ms),
                Said::Number(number) => self.insert_number(number, bits, at_ms),
            };
            fits
        });
        if !fits {
            self.add_unknown(labels, until_ms);
        }
    }

    /// Forgets values that were last shown before a time, where there is too little room for more.
    pub fn make_room(&mut self, before_ms: u64) {
        if self.len() < TAINTED_VALUES_MAX / 2 && self.bytes < TAINTED_BYTES_MAX / 2 {
            return;
        }
        let old = std::mem::take(self);
        self.names = old.names;
        self.unknown = old.unknown;
        for (number, (labels, at_ms)) in old.numbers {
            if at_ms >= before_ms {
                self.insert_number(number, labels, at_ms);
            }
        }
        for Value { bare, exact, labels, at_ms } in old.values {
            if at_ms >= before_ms {
                self.insert(bare, exact, labels, at_ms);
            }
        }
    }

    /// Whether nothing that was shown can be carried now.
    pub fn is_empty(&self, now_ms: u64) -> bool {
        self.values.is_empty() && self.numbers.is_empty() && self.unknown(now_ms).next().is_none()
    }

    /// How many values it has.
    pub fn len(&self) -> usize {
        self.values.len().saturating_add(self.numbers.len())
    }

    fn unknown(&self, now_ms: u64) -> impl Iterator<Item = &SmolStr> {
        self.unknown.iter().filter(move |(_, until_ms)| **until_ms > now_ms).map(|(label, _)| label)
    }

    fn bits(&mut self, labels: &LabelSet) -> Bits {
        let mut bits = 0;
        for label in labels {
            let at = self.names.iter().position(|name| name == label).unwrap_or_else(|| {
                self.names.push(label.clone());
                self.names.len().saturating_sub(1)
            });
            // A gate has at most 16 names; were there more, they would count as the last.
            bits |= u32::try_from(at).ok().and_then(|at| 1_u32.checked_shl(at)).unwrap_or(1 << 31);
        }
        bits
    }

    fn names_of(&self, bits: Bits) -> impl Iterator<Item = &SmolStr> {
        let is_set = move |at: usize| u32::try_from(at.min(31)).is_ok_and(|at| bits >> at & 1 == 1);
        self.names.iter().enumerate().filter(move |(at, _)| is_set(*at)).map(|(_, name)| name)
    }

    /// Whether there was room for a value.
    fn insert(&mut self, bare: SmolStr, exact: Option<SmolStr>, labels: Bits, at_ms: u64) -> bool {
        let key = exact.as_ref().unwrap_or(&bare);
        if let Some(value) = self.places.get(key).and_then(|at| self.values.get_mut(*at)) {
            value.labels |= labels;
            value.at_ms = at_ms.max(value.at_ms);
            return true;
        }
        let bytes = self.bytes.saturating_add(bare.len().saturating_mul(2)).saturating_add(VALUE_BYTES);
        if self.len() >= TAINTED_VALUES_MAX || bytes > TAINTED_BYTES_MAX {
            return false;
        }
        let table = if bare.len() < BARE_MIN { &mut self.short } else { &mut self.long };
        let width = if bare.len() < BARE_MIN { SHORT_MIN } else { BARE_MIN };
        let Some(front) = table::key(bare.as_bytes(), width) else { return true };
        // Too many that begin alike would make a search long.
        if !table.add(front, self.values.len(), TAINTED_LIKE_MAX) {
            return false;
        }
        self.bytes = bytes;
        self.places.insert(key.clone(), self.values.len());
        self.values.push(Value { bare, exact, labels, at_ms });
        true
    }

    fn insert_number(&mut self, number: SmolStr, labels: Bits, at_ms: u64) -> bool {
        if let Some((bits, at)) = self.numbers.get_mut(&number) {
            (*bits, *at) = (*bits | labels, at_ms.max(*at));
            return true;
        }
        let bytes = self.bytes.saturating_add(VALUE_BYTES);
        if self.len() >= TAINTED_VALUES_MAX || bytes > TAINTED_BYTES_MAX {
            return false;
        }
        self.bytes = bytes;
        self.numbers.insert(number, (labels, at_ms));
        true
    }
}

/// One value that a text says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Said {
    Text {
        bare: SmolStr,
        exact: Option<SmolStr>,
    },
    /// In one form.
    Number(SmolStr),
}

/// What trusted content says: a value that is in it is clean, whoever else says it too.
#[derive(Debug, Clone, Default)]
pub struct Trusted {
    said: BTreeSet<Said>,
    bytes: usize,
}

impl Trusted {
    /// Adds what trusted content says, as JSON or as a text. What there is no room for cleans nothing.
    pub fn add(&mut self, content: &str) {
        self.add_but(content, "");
    }

    /// The same of an answer: it cleans no value that what it was asked with carried.
    pub fn add_but(&mut self, content: &str, asked: &str) {
        if content.len() > TAINTED_CONTENT_MAX {
            return;
        }
        let mut excluded = BTreeSet::new();
        let mut whole = String::new();
        each_value(asked, &mut |said| excluded.insert(said) || true);
        values::bare(asked, &mut whole);
        each_value(content, &mut |said| {
            let is_asked = match &said {
                // Also a part of what was asked with, and what has a part of it that is a value.
                Said::Text { bare, .. } => {
                    whole.contains(bare.as_str())
                        || excluded
                            .iter()
                            .any(|it| matches!(it, Said::Text { bare: asked, .. } if bare.contains(asked.as_str())))
                }
                number @ Said::Number(_) => excluded.contains(number),
            };
            let bytes = self.bytes.saturating_add(VALUE_BYTES).saturating_add(said.len());
            if !is_asked && bytes <= TAINTED_BYTES_MAX && self.said.insert(said) {
                self.bytes = bytes;
            }
            bytes <= TAINTED_BYTES_MAX
        });
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.said.is_empty()
    }

    fn has(&self, bare: &SmolStr, exact: Option<&SmolStr>) -> bool {
        !self.said.is_empty() && self.said.contains(&Said::Text { bare: bare.clone(), exact: exact.cloned() })
    }

    fn has_number(&self, number: &SmolStr) -> bool {
        !self.said.is_empty() && self.said.contains(&Said::Number(number.clone()))
    }
}

impl Said {
    fn len(&self) -> usize {
        match self {
            Self::Text { bare, exact } => bare.len().saturating_add(exact.as_ref().map_or(0, SmolStr::len)),
            Self::Number(number) => number.len(),
        }
    }
}
