//! What is found, in which spelling, and what is never hidden.

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

/// Ways to say a value in one argument.
fn spellings(value: &str) -> Vec<(&'static str, String)> {
    let percent = |byte: u8| format!("%{byte:02X}");
    let every = |by: usize, between: &str| {
        let chars: Vec<char> = value.chars().collect();
        chars.chunks(by).map(|chunk| chunk.iter().collect::<String>()).collect::<Vec<_>>().join(between)
    };
    let encoded = base64(value.as_bytes(), b"+/");
    vec![
        ("upper", value.to_uppercase()),
        ("percent", value.bytes().map(percent).collect()),
        ("percent, in part", value.replace('1', "%31").replace('@', "%40")),
        ("percent, twice", value.bytes().map(|byte| percent(byte).replace('%', "%25")).collect()),
        ("base64", encoded.clone()),
        ("base64 of more", base64(format!("x: {value}!").as_bytes(), b"-_")),
        ("base64 behind letters", format!("x{encoded}")),
        (
            "base64 in lines",
            encoded.as_bytes().chunks(10).map(|it| format!("{}\n", String::from_utf8_lossy(it))).collect(),
        ),
        ("base64, twice", base64(encoded.as_bytes(), b"+/")),
        ("hex", value.bytes().map(|byte| format!("{byte:02x}")).collect()),
        ("hex with separators", value.bytes().map(|byte| format!("{byte:02X}:")).collect()),
        ("hex as in source", value.bytes().map(|byte| format!("\\x{byte:02x}")).collect()),
        ("white space", every(4, " ")),
        ("more white space", every(1, "\t ")),
        ("separators", every(3, "-")),
        ("decomposed", value.nfd().collect()),
    ]
}

/// Base64 as others write it, with padding.
fn base64(bytes: &[u8], last: &[u8; 2]) -> String {
    let alphabet: Vec<u8> = (b'A'..=b'Z').chain(b'a'..=b'z').chain(b'0'..=b'9').chain(*last).collect();
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let all = chunk.iter().chain([0; 2].iter()).take(3).fold(0_usize, |all, byte| all << 8 | usize::from(*byte));
        for at in 0..4 {
            let digit = all >> (18 - 6 * at) & 63;
            text.push(if at <= chunk.len() { char::from(alphabet[digit]) } else { '=' });
        }
    }
    text
}

#[test]
fn what_is_written_in_groups_is_one_value() {
    let index = index(&[
        (1, "Please pay to DE12 5001 0517 0648 4898 90, thanks"),
        (2, "call 030-1234-5678"),
        (3, "EUR 1 200 500"),
    ]);
    assert_eq!(carried(&index, r#"{"to":"DE12500105170648489890"}"#), [1]);
    assert_eq!(carried(&index, r#"{"to":"DE12-5001-0517-0648-4898-90"}"#), [1]);
    assert_eq!(carried(&index, r#"{"phone":"03012345678"}"#), [2]);
    assert_eq!(carried(&index, r#"{"amount":1200500}"#), [3]);
}

#[test]
fn nothing_is_found_in_what_only_looks_like_a_spelling() {
    let index = index(&[(1, r#"{"iban":"DE12500105170648489890","mail":"mallory@evil.example"}"#)]);
    for says in [
        "a perfectly ordinary sentence about nothing in particular",
        "deadbeefdeadbeefdeadbeef 0123456789",
        "dGhpcyBpcyBzb21ldGhpbmcgZWxzZQ==",
        "%zz%4 100% of it",
    ] {
        assert_eq!(carried(&index, &json!({"x": says, "y": 12, "z": true}).to_string()), [0; 0], "{says}");
    }
}

proptest! {
    /// However a value is spelled, whole or embedded, it is found.
    #[test]
    fn a_value_is_found_in_every_spelling(
        value in "[a-z0-9]{1,6}[A-Z]{2}[0-9]{4,12}(@[a-z]{4,8}\\.example)?",
        before in "([a-z]{1,9}[ :,/=]){0,2}",
    ) {
        let index = index(&[(1, &json!({"a": [{"b": value}]}).to_string())]);
        for (how, said) in spellings(&value) {
            prop_assert_eq!(carried(&index, &json!({"x": &said}).to_string()), vec![1], "{}: {}", how, &said);
            let embedded = format!("{before}{said} .");
            prop_assert_eq!(carried(&index, &json!({"x": &embedded, "y": 1}).to_string()), vec![1], "{}: {}", how, &embedded);
        }
    }

    /// Split over two arguments, in either order and with others between.
    #[test]
    fn a_value_that_is_split_over_two_arguments_is_found(
        value in "[a-z0-9]{4,10}[A-Z]{2}[0-9]{4,12}",
        at in 1_usize..9,
        others in prop::collection::vec("[a-z ]{0,12}", 0..6),
        is_turned in any::<bool>(),
    ) {
        let index = index(&[(1, &json!({"b": value}).to_string())]);
        let (first, second) = value.split_at(at);
        let mut said: Vec<&str> = others.iter().map(String::as_str).collect();
        let (front, back) = if is_turned { (second, first) } else { (first, second) };
        said.insert(0, front);
        said.push(back);
        prop_assert!(carried(&index, &json!(said).to_string()).contains(&1), "{:?}", said);
    }

    /// Nothing makes it fail, and what is long takes no longer than its length.
    #[test]
    fn any_text_is_looked_at(says in prop::collection::vec(".{0,300}", 0..20)) {
        let index = index(&[(1, r#"{"b":"DE12500105170648489890"}"#)]);
        let _ = carried(&index, &json!(says).to_string());
    }
}
