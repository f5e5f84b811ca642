//! Which sources the values in a text came from: a bounded index of what was read, by value.
//!
//! A *value* is a text of six characters and more, a word in a longer text, or a number of four digits and more; not what the caller
//! lists as an enumeration. A value is found in a text whole or embedded, in normal form KC and without regard to case, to characters that
//! no one sees, and to single blanks and hyphens in it. Numbers are found by value. What a source says that does not fit the bounds counts
//! as carried by everything, so leaving something out never hides where a value came from (R10).

mod spelling;

use self::spelling::{joined, normal, numbers};
use crate::limits::{CARRIED_BYTES_MAX, CARRIED_LIKE_MAX};
use crate::node::Node;
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

/// The shortest text that is a value, in characters.
const CHARS_MIN: usize = 6;
/// The longest, in characters; of a longer word its beginning stands for it.
const CHARS_MAX: usize = 256;

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
        for joined in joined(text) {
            if joined.is_number {
                self.numbers.extend(numbers(&joined.text));
            }
            self.text(&joined.text);
        }
        if text.chars().nth(CHARS_MAX).is_none() {
            self.text(text);
        }
        for line in text.lines().filter(|line| line.chars().nth(CHARS_MAX).is_none()) {
            self.text(line);
        }
        let is_between = |c: char| c.is_whitespace() || "\"'`<>()[]{}|,;=".contains(c);
        for word in text.split(is_between) {
            self.text(word);
            // An address or a path is said in parts as well.
            word.split(|c: char| !c.is_alphanumeric()).for_each(|part| self.text(part));
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
        each(names, &mut |name| values.names.extend([SmolStr::from(name)]));
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

    /// The sources whose values these parts of JSON carry, whole or embedded, and those of which something was left out.
    pub fn carried(&self, says: &str) -> BTreeSet<S> {
        let mut found = self.evicted.clone();
        each(says, &mut |text| {
            found.extend(self.names.get(text).into_iter().flatten().cloned());
            let numbers_in =
                |text: &str| numbers(text).into_iter().filter_map(|number| self.numbers.get(&number)).flatten();
            found.extend(numbers_in(text).cloned());
            for joined in joined(text) {
                if joined.is_number {
                    found.extend(numbers_in(&joined.text).cloned());
                }
                if joined.is_longest {
                    self.find_embedded(&joined.text, &mut found);
                }
            }
            self.find_embedded(text, &mut found);
        });
        found
    }

    /// The sources of values that a text holds at any place.
    fn find_embedded(&self, text: &str, found: &mut BTreeSet<S>) {
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

/// Every text and number in JSON, in normal form; a text that is no JSON is one.
fn each(json: &str, tell: &mut impl FnMut(&str)) {
    match Node::parse(json) {
        Some(node) => each_in(&node, tell),
        None => tell(&normal(json)),
    }
}

fn each_in(node: &Node, tell: &mut impl FnMut(&str)) {
    match node {
        Node::Null | Node::Bool(_) => {}
        Node::Number(number) => tell(&normal(number)),
        Node::Text(text) => {
            tell(&normal(text));
            // Arguments are passed on as the text of JSON.
            if let Some(inner @ (Node::Object(_) | Node::List(_))) = Node::parse(text) {
                each_in(&inner, tell);
            }
        }
        Node::List(items) => items.iter().for_each(|item| each_in(item, tell)),
        Node::Object(members) => members.iter().for_each(|(name, value)| {
            if name.contains(|c: char| c.is_ascii_digit()) {
                tell(&normal(name));
            }
            each_in(value, tell);
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn index(sources: &[(u32, &str)]) -> Index<u32> {
        let mut index = Index::new(["pending"]);
        sources.iter().for_each(|(source, says)| index.add(source, says));
        index
    }

    fn carried(index: &Index<u32>, says: &str) -> Vec<u32> {
        index.carried(says).into_iter().collect()
    }

    #[test]
    fn a_value_is_found_whole_embedded_and_in_any_spelling() {
        let read = json!({"iban": "DE12500105170648489890", "owner": "Zoë Straße", "balance": 1200.50, "state": "pending", "n": 12});
        let index = index(&[(1, &read.to_string()), (2, "Meet at Fischmarkt 7,\nbring \"the folder\" (order-77123)")]);
        for (says, of) in [
            (json!({"to": "DE12500105170648489890"}), vec![1]),
            (json!({"note": "pay to de12500105170648489890, please"}), vec![1]),
            (json!({"note": "for ZOE\u{308} STRASSE"}), vec![1]),
            (json!({"amount": 1200.5}), vec![1]),
            (json!({"amount": "EUR 1,200.50"}), vec![1]),
            (json!({"amount": [1200]}), vec![]),
            (json!({"state": "pending", "n": 12}), vec![]),
            (json!({"at": "fischmarkt"}), vec![2]),
            (json!({"url": "https://shop.example/order-77123?x"}), vec![2]),
            (json!({"id": 77123}), vec![2]),
            (json!({"arguments": "{\"a\":{\"b\":\"Fischmarkt\"}}"}), vec![2]),
            (json!({"both": "Fischmarkt de12500105170648489890"}), vec![1, 2]),
            (json!({"text": "something else"}), vec![]),
        ] {
            assert_eq!(carried(&index, &says.to_string()), of, "{says}");
        }
    }

    #[test]
    fn no_spelling_hides_where_a_value_came_from() {
        for (read, written) in [
            ("1200000", "12e5"),
            ("1200000", "1.2e6"),
            ("1.2E+6", "1200000"),
            ("0.00125", "125e-5"),
            ("12000000e-1", "1200000.0"),
            ("\"1.2e6 in all\"", "1200000"),
            ("\"DE12 5001 0517 0648 4898 90\"", "\"DE12500105170648489890\""),
            ("\"DE12500105170648489890\"", "\"to de12 5001 0517 0648 4898 90, please\""),
            ("\"Account: DE12 5001 0517 0648 4898 90 (new)\"", "\"DE12-5001-0517-0648-4898-90\""),
            ("\"4 800\"", "4800"),
            ("4800", "\"EUR 4\u{2009}800.00\""),
            ("\"4\u{a0}800 left\"", "\"4'800\""),
            ("\"pass\u{ad}word\"", "\"password\""),
            ("\"password\"", "\"ＰＡＳＳＷＯＲＤ\""),
            ("\"pass\u{200b}word\"", "\"pass\u{2060}wo\u{fe0f}rd\""),
            ("\"well-known\"", "\"wellknown\""),
            ("\"ﬁnance\"", "\"finance\""),
        ] {
            assert_eq!(carried(&index(&[(1, read)]), written), [1], "{read} {written}");
        }
        for (read, written) in
            [("1200000", "12e4"), ("\"4 800\"", "480"), ("\"de12 a b c\"", "\"de12ab\""), ("1e999", "1e998")]
        {
            assert_eq!(carried(&index(&[(1, read)]), written), [0; 0], "{read} {written}");
        }
    }

    #[test]
    fn what_something_was_asked_by_is_found_at_any_length_and_only_whole() {
        let mut index: Index<u32> = Index::new([]);
        index.add_names(&1, r#"{"item":"tea"}"#);
        assert_eq!(carried(&index, r#"{"item":"Tea"}"#), [1]);
        assert_eq!(carried(&index, r#"{"item":"teapot"}"#), [0; 0]);
    }

    #[test]
    fn what_is_evicted_or_unknown_counts_as_carried() {
        let mut index: Index<u32> = Index::new([]);
        index.add_unknown(&0);
        let long = |seed: u32| (0..2000).map(|at| format!("{at:04}{seed}word ")).collect::<String>();
        (1..=9).for_each(|source| index.add(&source, &long(source)));
        assert!(index.evicted().contains(&1) && !index.evicted().contains(&9), "{:?}", index.evicted());
        let all = index.carried("nothing");
        assert_eq!(&all, index.evicted());
        assert!(index.carried("00779word").contains(&9));
        // Values that all begin alike do not make a look-up long.
        let mut alike: Index<u32> = Index::new([]);
        alike.add(&1, &(0..500).map(|at| format!("\"aaaaaa{at}z\" ")).collect::<String>());
        assert!(alike.evicted().contains(&1));
        alike.add(&2, &"y".repeat(CARRIED_BYTES_MAX));
        assert!(!alike.evicted().contains(&2), "a long word is known by its beginning");
    }

    proptest! {
        #[test]
        fn a_value_that_is_mentioned_is_found(
            value in "[a-zA-Z0-9äöüßÉ@._-]{0,4}[a-zA-Zäß][a-zA-Z0-9äöüßÉ]{7,40}",
            around in "[ a-z\"\\\\\n]{0,20}",
            is_upper in any::<bool>(),
            other in "[a-z ]{0,60}",
        ) {
            let read = json!({"a": [{"b": value}], "c": other}).to_string();
            let index = index(&[(1, &read)]);
            let said = if is_upper { value.to_uppercase() } else { value.clone() };
            let says = json!({"x": {"y": format!("{around}{said}{around}")}}).to_string();
            prop_assert_eq!(carried(&index, &says), vec![1]);
            // A word of a longer text.
            let index = self::index(&[(1, &json!({"mail": format!("{other} {value} {other}")}).to_string())]);
            prop_assert_eq!(carried(&index, &says), vec![1]);
        }

        #[test]
        fn a_number_that_is_mentioned_is_found(number in 1000_u64.., fraction in 0_u32..1000, is_text in any::<bool>()) {
            let index = index(&[(1, &format!(r#"{{"n":{number}.{fraction}}}"#))]);
            let says = if is_text { format!(r#"{{"t":"EUR {number}.{fraction}0!"}}"#) } else { format!("[{number}.{fraction}]") };
            prop_assert_eq!(carried(&index, &says), vec![1]);
        }

        #[test]
        fn a_number_is_found_in_any_spelling(number in 1000_u64..1_000_000_000, shift in 0_usize..9, sign in prop::bool::ANY) {
            let text = number.to_string();
            let (whole, fraction) = text.split_at(1);
            let exponent = fraction.len();
            let plus = if sign { "+" } else { "" };
            let spelled = [
                format!("{whole}.{fraction}e{plus}{exponent}"),
                format!("{number}{}e-{shift}", "0".repeat(shift)),
                text.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap()).collect::<Vec<_>>().join(" "),
            ];
            for spelling in spelled {
                let both = [format!("{{\"n\":\"{spelling}\"}}"), format!("[{number}]")];
                prop_assert_eq!(carried(&index(&[(1, &both[0])]), &both[1]), vec![1], "{} {}", spelling, number);
                prop_assert_eq!(carried(&index(&[(1, &both[1])]), &both[0]), vec![1], "{} {}", spelling, number);
            }
        }

        #[test]
        fn it_stays_within_its_bounds_and_never_hides_a_source(texts in prop::collection::vec("[a-z0-9 ]{0,2000}", 0..40)) {
            let mut index: Index<usize> = Index::new([]);
            for (source, text) in texts.iter().enumerate() {
                index.add(&source, text);
            }
            prop_assert!(index.bytes <= CARRIED_BYTES_MAX);
            for (source, text) in texts.iter().enumerate() {
                let is_value = text.split(' ').any(|word| word.len() >= CHARS_MIN);
                prop_assert!(!is_value || index.carried(text).contains(&source));
            }
        }
    }
}
