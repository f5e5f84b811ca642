//! Which values begin at a place of a text, each found once.

use super::work::Work;
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};

/// A value among all of them.
struct Value<'a, S> {
    text: &'a str,
    of: &'a BTreeSet<S>,
    /// The longest other value that it begins with.
    begins: Option<usize>,
    is_found: bool,
}

/// Values in order. Those that begin a text are the last one that is not behind it in order, and what that begins with.
pub(super) struct Search<'a, S>(Vec<Value<'a, S>>);

impl<'a, S: Clone + Ord> Search<'a, S> {
    pub(super) fn new(values: &'a BTreeMap<SmolStr, BTreeSet<S>>) -> Self {
        let mut search: Vec<Value<'a, S>> = Vec::with_capacity(values.len());
        for (text, of) in values {
            let mut begins = search.len().checked_sub(1);
            while let Some(value) = begins.and_then(|at| search.get(at))
                && !text.starts_with(value.text)
            {
                begins = value.begins;
            }
            search.push(Value { text, of, begins, is_found: false });
        }
        Self(search)
    }

    /// Finds the values that a text holds at any place.
    pub(super) fn find_in(&mut self, text: &str, work: &mut Work) {
        let places = text.char_indices().filter_map(|(at, _)| text.get(at..));
        for rest in places {
            if !work.may(1) {
                return;
            }
            self.find_at_front(rest, work);
        }
    }

    fn find_at_front(&mut self, rest: &str, work: &mut Work) {
        let mut at = self.0.partition_point(|value| value.text <= rest).checked_sub(1);
        let Some(nearest) = at.and_then(|at| self.0.get(at)) else { return };
        let same = nearest.text.bytes().zip(rest.bytes()).take_while(|(one, other)| one == other).count();
        while let Some(value) = at.and_then(|at| self.0.get_mut(at)) {
            // What it begins with was found when it was.
            if value.is_found {
                return;
            }
            value.is_found = value.text.len() <= same;
            at = value.begins;
            if at.is_some() && !work.may(1) {
                return;
            }
        }
    }

    /// Whose the values are that were found.
    pub(super) fn sources(&self) -> impl Iterator<Item = &S> {
        self.0.iter().filter(|value| value.is_found).flat_map(|value| value.of)
    }
}
