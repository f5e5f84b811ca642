//! Which sources the values in a text came from: a bounded index of what was read, by value.
//!
//! A *value* is a text of six characters and more, a word in a longer text, or a number of four digits and more; not what the caller
//! lists as an enumeration. A value is found in a text whole or embedded, in normal form KC and without regard to case, to characters that
//! no one sees, and to single blanks and hyphens in it. Numbers are found by value. What a source says that does not fit the bounds counts
//! as carried by everything, so leaving something out never hides where a value came from (R10).

mod search;
mod spelling;
mod work;

use self::search::Search;
use self::spelling::joined_whole;
pub(crate) use self::spelling::{joined, normal, numbers};
use self::work::Work;
use crate::limits::{CARRIED_BYTES_MAX, CARRIED_LIKE_MAX};
use crate::node::Node;
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};

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
    fn say(&mut self, text: &str, work: &mut Work) {
        let Some(text) = work.normal(text) else { return };
        self.numbers.extend(numbers(&text));
        joined(&text, |text, is_number| {
            if is_number {
                self.numbers.extend(numbers(text));
            }
            self.text(text);
            work.may(text.len())
        });
        if text.chars().nth(CHARS_MAX).is_none() {
            self.text(&text);
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
    fn of(json: &str, work: &mut Work) -> Self {
        let mut values = Self::default();
        // Nothing that there is no more room for is read.
        if work.may(json.len()) {
            match Node::parse(json) {
                Some(node) => values.node(&node, work),
                None => values.say(json, work),
            }
        }
        values
    }

    fn node(&mut self, node: &Node, work: &mut Work) {
        match node {
            Node::Null | Node::Bool(_) => {}
            Node::Number(number) => self.say(number, work),
            Node::Text(text) => self.say(text, work),
            Node::List(items) => items.iter().for_each(|item| self.node(item, work)),
            Node::Object(members) => {
                for (name, value) in members {
                    // A name with a digit in it is most often an id.
                    if name.contains(|c: char| c.is_ascii_digit()) {
                        self.say(name, work);
                    }
                    self.node(value, work);
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

/// What was read, by value: which sources a value came from. What is added first is kept; what there is no room for counts as carried.
#[derive(Debug, Clone)]
pub struct Index<S> {
    /// Values, and whose they are.
    texts: BTreeMap<SmolStr, BTreeSet<S>>,
    numbers: BTreeMap<SmolStr, BTreeSet<S>>,
    names: BTreeMap<SmolStr, BTreeSet<S>>,
    /// How many values begin alike.
    alike: BTreeMap<SmolStr, usize>,
    bytes: usize,
    /// All that were added.
    sources: BTreeSet<S>,
    /// Sources of which something was left out.
    left_out: BTreeSet<S>,
    enumerations: BTreeSet<String>,
    /// What may still be read of sources.
    work: Work,
}

impl<S: Clone + Ord> Index<S> {
    /// An empty one, for which these words are no values.
    pub fn new<'a>(enumerations: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            texts: BTreeMap::new(),
            numbers: BTreeMap::new(),
            names: BTreeMap::new(),
            alike: BTreeMap::new(),
            bytes: 0,
            sources: BTreeSet::new(),
            left_out: BTreeSet::new(),
            enumerations: enumerations.into_iter().map(normal).collect(),
            work: Work::new(),
        }
    }

    /// Adds what a source says, as JSON or as a text.
    pub fn add(&mut self, source: &S, says: &str) {
        let values = Values::of(says, &mut self.work);
        self.keep(source, values);
    }

    /// Adds the values by which a source was asked, as JSON: they are found at any length, where they are the whole of a value.
    pub fn add_names(&mut self, source: &S, names: &str) {
        let mut values = Values::of(names, &mut self.work);
        each(names, &mut self.work, &mut |name, _| values.names.extend([SmolStr::from(name)]));
        self.keep(source, values);
    }

    /// Whether nothing more is looked at that is added: it counts as carried.
    pub fn is_full(&self) -> bool {
        self.work.is_over()
    }

    /// Notes that what a source says is not known: it counts as carried.
    pub fn add_unknown(&mut self, source: &S) {
        self.sources.insert(source.clone());
        self.left_out.insert(source.clone());
    }

    fn keep(&mut self, source: &S, mut values: Values) {
        self.sources.insert(source.clone());
        values.texts.retain(|text| !self.enumerations.contains(text.as_str()));
        values.names.retain(|name| !self.enumerations.contains(name.as_str()));
        let bytes = self.bytes.saturating_add(values.bytes());
        if self.work.is_over() || bytes > CARRIED_BYTES_MAX {
            self.left_out.insert(source.clone());
            return;
        }
        self.bytes = bytes;
        for text in values.texts {
            if !self.has_room_for(&text) {
                self.left_out.insert(source.clone());
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

    /// The sources of which something was left out: they count as carried by everything.
    pub fn left_out(&self) -> &BTreeSet<S> {
        &self.left_out
    }

    /// The sources whose values these parts of JSON carry, whole or embedded, and those of which something was left out. All of them where
    /// that takes too long to find out.
    pub fn carried(&self, says: &str) -> BTreeSet<S> {
        self.look(says, &mut Work::new())
    }

    fn look(&self, says: &str, work: &mut Work) -> BTreeSet<S> {
        // Values first, and whose they are once all are found: any number of sources may have the same ones.
        let mut search = Search::new(&self.texts);
        let (mut numbers_in, mut names_in) = (BTreeSet::new(), BTreeSet::new());
        each(says, work, &mut |text, work| {
            names_in.extend(self.names.get_key_value(text).map(|(name, _)| name));
            let mut note = |text: &str| {
                let known = |number: SmolStr| self.numbers.get_key_value(&number).map(|(number, _)| number);
                numbers_in.extend(numbers(text).into_iter().filter_map(known));
            };
            note(text);
            joined(text, |text, is_number| {
                if is_number {
                    note(text);
                }
                !is_number || work.may(text.len())
            });
            joined_whole(text, |text| search.find_in(text, work));
            search.find_in(text, work);
        });
        if work.is_over() {
            return self.sources.clone();
        }
        let of_names = names_in.into_iter().filter_map(|name| self.names.get(name)).flatten();
        let of_numbers = numbers_in.into_iter().filter_map(|number| self.numbers.get(number)).flatten();
        self.left_out.iter().chain(of_names).chain(of_numbers).chain(search.sources()).cloned().collect()
    }
}

/// What values are told apart by first.
fn beginning(text: &str) -> &str {
    let end = text.char_indices().nth(CHARS_MIN).map_or(text.len(), |(at, _)| at);
    text.get(..end).unwrap_or_default()
}

/// Every text and number in JSON, in normal form; a text that is no JSON is one.
fn each(json: &str, work: &mut Work, tell: &mut impl FnMut(&str, &mut Work)) {
    match work.may(json.len()).then(|| Node::parse(json)) {
        Some(Some(node)) => each_in(&node, work, tell),
        Some(None) => each_text(json, work, tell),
        None => {}
    }
}

fn each_text(text: &str, work: &mut Work, tell: &mut impl FnMut(&str, &mut Work)) {
    if let Some(text) = work.normal(text) {
        tell(&text, work);
    }
}

fn each_in(node: &Node, work: &mut Work, tell: &mut impl FnMut(&str, &mut Work)) {
    match node {
        Node::Null | Node::Bool(_) => {}
        Node::Number(number) => each_text(number, work, tell),
        Node::Text(text) => {
            each_text(text, work, tell);
            // Arguments are passed on as the text of JSON.
            if let Some(inner @ (Node::Object(_) | Node::List(_))) = Node::parse(text) {
                each_in(&inner, work, tell);
            }
        }
        Node::List(items) => items.iter().for_each(|item| each_in(item, work, tell)),
        Node::Object(members) => members.iter().for_each(|(name, value)| {
            if name.contains(|c: char| c.is_ascii_digit()) {
                each_text(name, work, tell);
            }
            each_in(value, work, tell);
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
    fn what_is_left_out_or_unknown_counts_as_carried() {
        let mut index: Index<u32> = Index::new([]);
        index.add_unknown(&0);
        let long = |seed: u32| (0..2000).map(|at| format!("{at:04}{seed}word ")).collect::<String>();
        (1..=9).for_each(|source| index.add(&source, &long(source)));
        assert!(index.left_out().contains(&9) && !index.left_out().contains(&1), "{:?}", index.left_out());
        let all = index.carried("nothing");
        assert_eq!(&all, index.left_out());
        assert!(index.carried("00771word").contains(&1));
        // Values that all begin alike do not make a look-up long.
        let mut alike: Index<u32> = Index::new([]);
        alike.add(&1, &(0..500).map(|at| format!("\"aaaaaa{at}z\" ")).collect::<String>());
        assert!(alike.left_out().contains(&1));
        alike.add(&2, &"y".repeat(CARRIED_BYTES_MAX / 16));
        assert!(!alike.left_out().contains(&2), "a long word is known by its beginning");
    }

    /// What an agent can choose so that looking takes long: values that begin alike, all of which many sources have, in a text in which
    /// each is found at every place, or nearly.
    fn hostile(sources: usize, says: usize) -> [(Index<usize>, String); 4] {
        let runs =
            |front: &str, of: &str| (1..65).map(|count| format!("{front}{} ", of.repeat(count))).collect::<String>();
        let index = |words: String| {
            let mut index: Index<usize> = Index::new([]);
            (0..sources).for_each(|source| index.add(&source, &format!("{words}{source}")));
            index
        };
        [
            (index(runs("aaaaa", "a")), "a".repeat(says)),
            (index(runs("aaaaa", "a")), format!("{}-", "a".repeat(99)).repeat(says / 100)),
            // None of which is ever found, and all of which are nearly.
            (index(runs("aaaaaa", "0")), "aaaaaa1 ".repeat(says / 8)),
            (index(runs("aaaaa", "a")), "a1-".repeat(says / 3)),
        ]
    }

    #[test]
    fn attack_looking_for_values_takes_no_longer_than_in_proportion_to_what_is_looked_at() {
        let steps = |sources, says| {
            hostile(sources, says).map(|(index, says)| {
                let mut work = Work::new();
                let found = index.look(&says, &mut work);
                // Too much to look at is as if it was found.
                assert!(!work.is_over() || found.len() == sources, "{found:?}");
                [index.work.done(), work.done()]
            })
        };
        let (small, more_sources, longer) = (steps(2, 3000), steps(20, 3000), steps(2, 6000));
        for (at, small) in small.into_iter().enumerate() {
            let [[read, looked], [read_more, looked_more]] = [small, more_sources[at]];
            assert_eq!(looked, looked_more, "{at}: how many have a value makes no difference");
            assert!(read_more <= read * 11, "{at}: {read} {read_more}");
            // Values that begin alike are all looked at where a text begins like them: 64 at most.
            let of_text = |[_, looked]: [usize; 2]| looked;
            assert!(of_text(longer[at]) <= looked * 21 / 10 + 256, "{at}: {looked} {}", of_text(longer[at]));
        }
        let all = steps(200, 48 * 1024).into_iter().flatten();
        assert!(all.max() <= Some(crate::limits::CARRIED_WORK_MAX));
    }

    #[test]
    fn a_long_text_of_plain_words_is_looked_at_to_its_end() {
        let index = index(&[(1, "Meet at Fischmarkt 7"), (2, "order-77123")]);
        let says = json!({"text": format!("{}order-77123", "A sentence of words, as they are - 4 812.50 of them. ".repeat(850))});
        assert!(says.to_string().len() > 44_000);
        assert_eq!(carried(&index, &says.to_string()), [2]);
        let inside = json!({"arguments": says.to_string()}).to_string();
        assert_eq!(carried(&index, &inside), [2]);
    }

    proptest! {
        #[test]
        fn every_value_that_a_text_holds_is_found(
            values in prop::collection::btree_set("[ab]{6,12}", 0..60),
            text in "[ab]{0,200}",
        ) {
            let mut index: Index<SmolStr> = Index::new([]);
            values.iter().for_each(|value| index.add(&value.as_str().into(), value));
            let held: BTreeSet<SmolStr> =
                values.iter().filter(|value| text.contains(value.as_str())).map(SmolStr::from).collect();
            prop_assert_eq!(index.left_out().len(), 0);
            prop_assert_eq!(index.carried(&text), held);
        }

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
