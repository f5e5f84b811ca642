//! Which sources the values in a text came from: a bounded index of what was read, by value.
//!
//! A *value* is a text of six characters and more, a word in a longer text, or a number of four digits and more; not what the caller
//! lists as an enumeration. A value is found in a text whole or embedded, in normal form C and without regard to case; with other white
//! space and separators, percent-encoded, in base64 and in hexadecimal; and split over two texts. What a
//! source says that does not fit the bounds counts as carried by everything, so leaving something out never hides where a value came
//! from (R10).

mod spelled;
#[cfg(test)]
mod tests;

use self::spelled::{bare, decoded, joined};
use crate::limits::{CARRIED_BYTES_MAX, CARRIED_LIKE_MAX};
use crate::node::Node;
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use unicode_normalization::UnicodeNormalization as _;

/// The shortest text that is a value, in characters.
const CHARS_MIN: usize = 6;
/// The longest, in characters; of a longer word its beginning stands for it.
const CHARS_MAX: usize = 256;
/// The fewest digits of a number that is a value.
const DIGITS_MIN: usize = 4;

/// A text in the one form in which texts are compared.
fn normal(text: &str) -> String {
    // Upper case first: some letters have two forms in lower case.
    let folded = text.nfc().flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    folded.collect::<String>().nfc().collect()
}

/// The values of a text, which is in normal form.
#[derive(Debug, Default, PartialEq, Eq)]
struct Values {
    texts: BTreeSet<SmolStr>,
    numbers: BTreeSet<SmolStr>,
    /// Texts of any length, which count only where they are the whole of a value.
    names: BTreeSet<SmolStr>,
}

impl Values {
    fn text(&mut self, text: &str) {
        let text = text.trim_matches(|c: char| c.is_whitespace() || ".,:;!?".contains(c));
        let mut chars = text.char_indices();
        if chars.nth(CHARS_MIN.saturating_sub(1)).is_none() {
            return;
        }
        let end = text.char_indices().nth(CHARS_MAX).map_or(text.len(), |(at, _)| at);
        self.texts.extend(text.get(..end).map(SmolStr::from));
    }

    /// What a text says: as a whole, by line and by word.
    fn say(&mut self, text: &str) {
        self.numbers.extend(numbers(text));
        if text.chars().nth(CHARS_MAX).is_none() {
            self.text(text);
        }
        for line in text.lines().filter(|line| line.chars().nth(CHARS_MAX).is_none()) {
            self.text(line);
        }
        self.spaced(text);
        let is_between = |c: char| c.is_whitespace() || "\"'`<>()[]{}|,;=".contains(c);
        for word in text.split(is_between) {
            self.text(word);
            // With other separators, or none.
            self.text(&bare(word));
            // An address or a path is said in parts as well.
            word.split(|c: char| !c.is_alphanumeric()).for_each(|part| self.text(part));
        }
    }

    /// Ids and numbers that are written in groups: those beside each other which have a digit in them.
    fn spaced(&mut self, text: &str) {
        let mut group = String::new();
        for word in text.split_whitespace().chain([""]) {
            let part = bare(word);
            let is_part = part.contains(|c: char| c.is_ascii_digit());
            if !is_part || group.len() >= CHARS_MAX {
                self.text(&group);
                self.numbers.extend(numbers(&group));
                group.clear();
            }
            if is_part {
                group.push_str(&part);
            }
        }
    }

    /// Everything that JSON says; a text that is none says itself.
    fn of(json: &str) -> Self {
        let mut values = Self::default();
        match Node::parse(json) {
            Some(node) => values.node(&node),
            None => values.say(&normal(json)),
        }
        values
    }

    fn node(&mut self, node: &Node) {
        match node {
            Node::Null | Node::Bool(_) => {}
            Node::Number(number) => self.say(&normal(number)),
            Node::Text(text) => self.say(&normal(text)),
            Node::List(items) => items.iter().for_each(|item| self.node(item)),
            Node::Object(members) => {
                for (name, value) in members {
                    // A name with a digit in it is most often an id.
                    if name.contains(|c: char| c.is_ascii_digit()) {
                        self.say(&normal(name));
                    }
                    self.node(value);
                }
            }
        }
    }

    fn bytes(&self) -> usize {
        let all = self.texts.iter().chain(&self.numbers).chain(&self.names);
        all.fold(0_usize, |sum, value| sum.saturating_add(value.len()).saturating_add(ENTRY_BYTES))
    }
}

/// What a value takes beside its bytes, roughly.
const ENTRY_BYTES: usize = 64;

/// The numbers in a text, each in one form: without sign, without zeros in front or at the end of a fraction. Commas are left out: they
/// group digits.
fn numbers(text: &str) -> BTreeSet<SmolStr> {
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | '\'' | '_');
    let runs = text.split(|c: char| !is_part(c)).filter(|run| run.contains(|c: char| c.is_ascii_digit()));
    let mut found = BTreeSet::new();
    for run in runs {
        let together: String = run.chars().filter(|c| c.is_ascii_digit() || *c == '.').collect();
        let apart = run.split([',', '\'', '_']).map(ToOwned::to_owned);
        for number in apart.chain([together]) {
            let number = number.trim_matches('.');
            let digits = number.trim_start_matches('0').bytes().filter(u8::is_ascii_digit).count();
            if digits >= DIGITS_MIN {
                found.insert(one_form(number));
            }
        }
    }
    found
}

fn one_form(number: &str) -> SmolStr {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    if fraction.is_empty() { whole.into() } else { format!("{whole}.{fraction}").into() }
}

/// What was read, by value: which sources a value came from.
#[derive(Debug, Clone)]
pub struct Index<S> {
    /// Values, and whose they are. Ordered, so that those that begin alike are beside each other.
    texts: BTreeMap<SmolStr, BTreeSet<S>>,
    numbers: BTreeMap<SmolStr, BTreeSet<S>>,
    names: BTreeMap<SmolStr, BTreeSet<S>>,
    /// How many values begin alike.
    alike: BTreeMap<SmolStr, usize>,
    /// Sources in the order in which they came, with what they take.
    sources: VecDeque<(S, usize)>,
    bytes: usize,
    /// Sources of which something was left out.
    evicted: BTreeSet<S>,
    enumerations: BTreeSet<String>,
}

impl<S: Clone + Ord> Index<S> {
    /// An empty one, for which these words are no values.
    pub fn new<'a>(enumerations: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            texts: BTreeMap::new(),
            numbers: BTreeMap::new(),
            names: BTreeMap::new(),
            alike: BTreeMap::new(),
            sources: VecDeque::new(),
            bytes: 0,
            evicted: BTreeSet::new(),
            enumerations: enumerations.into_iter().map(normal).collect(),
        }
    }

    /// Adds what a source says, as JSON or as a text. Where there is no room, what came first goes.
    pub fn add(&mut self, source: &S, says: &str) {
        self.keep(source, Values::of(says));
    }

    /// Adds the values by which a source was asked, as JSON: they are found at any length, where they are the whole of a value.
    pub fn add_names(&mut self, source: &S, names: &str) {
        let mut values = Values::of(names);
        each(names, &mut |name| values.names.extend([SmolStr::from(normal(name))]));
        self.keep(source, values);
    }

    /// Notes that what a source says is not known: it counts as carried.
    pub fn add_unknown(&mut self, source: &S) {
        self.evicted.insert(source.clone());
    }

    fn keep(&mut self, source: &S, mut values: Values) {
        values.texts.retain(|text| !self.enumerations.contains(text.as_str()));
        values.names.retain(|name| !self.enumerations.contains(name.as_str()));
        let bytes = values.bytes();
        while self.bytes.saturating_add(bytes) > CARRIED_BYTES_MAX {
            let Some((oldest, freed)) = self.sources.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(freed);
            self.forget(&oldest);
        }
        if bytes > CARRIED_BYTES_MAX {
            self.evicted.insert(source.clone());
            return;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.sources.push_back((source.clone(), bytes));
        for text in values.texts {
            if !self.has_room_for(&text) {
                self.evicted.insert(source.clone());
                continue;
            }
            self.texts.entry(text).or_default().insert(source.clone());
        }
        for number in values.numbers {
            self.numbers.entry(number).or_default().insert(source.clone());
        }
        for name in values.names {
            self.names.entry(name).or_default().insert(source.clone());
        }
    }

    /// Too many values that begin alike would make each look-up long.
    fn has_room_for(&mut self, text: &SmolStr) -> bool {
        if self.texts.contains_key(text) {
            return true;
        }
        let alike = self.alike.entry(beginning(text).into()).or_default();
        if *alike >= CARRIED_LIKE_MAX {
            return false;
        }
        *alike = alike.saturating_add(1);
        true
    }

    /// Forgets all values of a source, which counts as carried from then on.
    fn forget(&mut self, source: &S) {
        self.evicted.insert(source.clone());
        let alike = &mut self.alike;
        self.texts.retain(|text, of| {
            of.remove(source);
            if of.is_empty()
                && let Some(count) = alike.get_mut(beginning(text))
            {
                *count = count.saturating_sub(1);
            }
            !of.is_empty()
        });
        for values in [&mut self.numbers, &mut self.names] {
            values.retain(|_, of| {
                of.remove(source);
                !of.is_empty()
            });
        }
        self.alike.retain(|_, count| *count > 0);
    }

    /// The sources of which something was left out: they count as carried by everything.
    pub fn evicted(&self) -> &BTreeSet<S> {
        &self.evicted
    }

    /// The sources whose values these parts of JSON carry, in whichever spelling, and those of which something was left out.
    pub fn carried(&self, says: &str) -> BTreeSet<S> {
        let (mut found, mut bares) = (self.evicted.clone(), Vec::new());
        let look = |text: &str, found: &mut BTreeSet<S>| {
            let text = normal(text);
            self.look(&text, found);
            let bare = bare(&text);
            if bare != text {
                self.look(&bare, found);
            }
            bare
        };
        each(says, &mut |text| {
            bares.push(look(text, &mut found));
            decoded(text, &mut |text| drop(look(text, &mut found)));
        });
        joined(&bares, &mut |text| self.look(text, &mut found));
        found
    }

    /// The sources whose values are in a text, which is in normal form.
    fn look(&self, text: &str, found: &mut BTreeSet<S>) {
        found.extend(self.names.get(text).into_iter().flatten().cloned());
        found.extend(numbers(text).iter().filter_map(|number| self.numbers.get(number)).flatten().cloned());
        for (at, _) in text.char_indices() {
            let Some(rest) = text.get(at..) else { continue };
            let begins = beginning(rest);
            if begins.chars().count() < CHARS_MIN {
                break;
            }
            let alike = self.texts.range::<str, _>((Bound::Included(begins), Bound::Unbounded));
            let alike = alike.take_while(|(value, _)| value.starts_with(begins));
            let embedded = alike.filter(|(value, _)| rest.starts_with(value.as_str()));
            found.extend(embedded.flat_map(|(_, of)| of.iter().cloned()));
        }
    }
}

/// What values are told apart by first.
fn beginning(text: &str) -> &str {
    let end = text.char_indices().nth(CHARS_MIN).map_or(text.len(), |(at, _)| at);
    text.get(..end).unwrap_or_default()
}

/// Every text and number in JSON, as it is written; a text that is no JSON is one.
fn each(json: &str, tell: &mut impl FnMut(&str)) {
    match Node::parse(json) {
        Some(node) => each_in(&node, tell),
        None => tell(json),
    }
}

fn each_in(node: &Node, tell: &mut impl FnMut(&str)) {
    match node {
        Node::Null | Node::Bool(_) => {}
        Node::Number(number) => tell(number),
        Node::Text(text) => {
            tell(text);
            // Arguments are passed on as the text of JSON.
            if let Some(inner @ (Node::Object(_) | Node::List(_))) = Node::parse(text) {
                each_in(&inner, tell);
            }
        }
        Node::List(items) => items.iter().for_each(|item| each_in(item, tell)),
        Node::Object(members) => members.iter().for_each(|(name, value)| {
            if name.contains(|c: char| c.is_ascii_digit()) {
                tell(name);
            }
            each_in(value, tell);
        }),
    }
}
