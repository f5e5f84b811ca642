//! What is found, in which spelling, what is clean, and what is never hidden.

use super::*;
use proptest::prelude::*;
use serde_json::json;
use unicode_normalization::UnicodeNormalization as _;

fn set(labels: &[&str]) -> LabelSet {
    labels.iter().map(SmolStr::new).collect()
}

fn index(shown: &[(&str, &str)]) -> Index {
    let mut index = Index::default();
    shown.iter().for_each(|(label, content)| index.add(&set(&[label]), content, 0, u64::MAX));
    index
}

/// The labels of one parameter that says this.
fn labels_with(index: &Index, trusted: &[&Trusted], says: &str) -> Vec<String> {
    let mut search = Search::new(index, trusted, 1);
    search.param("x");
    search.text(says);
    search.finish().remove("x").unwrap_or_default().into_iter().map(|label| label.to_string()).collect()
}

fn labels(index: &Index, says: &str) -> Vec<String> {
    labels_with(index, &[], says)
}

fn split(index: &Index, says: &[&str]) -> Vec<String> {
    let mut search = Search::new(index, &[], 1);
    for (at, text) in says.iter().enumerate() {
        search.param(&format!("p{at}"));
        search.text(text);
    }
    search.finish().into_keys().map(|name| name.to_string()).collect()
}

#[test]
fn a_value_is_found_whole_and_embedded() {
    let read =
        json!({"iban": "DE12500105170648489890", "owner": "Zoë Straße", "balance": 1200.50, "n": 12, "is": true});
    let index =
        index(&[("a", &read.to_string()), ("b", "Meet at Fischmarkt 7,\nbring \"the folder\" (order-77123), a@b.co")]);
    for (says, of) in [
        ("DE12500105170648489890", &["a"][..]),
        ("pay to de12500105170648489890, please", &["a"]),
        ("DE12 5001 0517 0648 4898 90", &["a"]),
        ("for ZOE\u{308} STRASSE", &["a"]),
        ("1200.5", &["a"]),
        ("EUR 1,200.50", &["a"]),
        ("EUR 1 200.50", &["a"]),
        ("1200", &[]),
        ("12", &[]),
        ("fischmarkt", &["b"]),
        ("https://shop.example/order-77123?x", &["b"]),
        ("77123", &["b"]),
        ("mail A@B.co today", &["b"]),
        ("jab.com", &[]),
        ("Fischmarkt de12500105170648489890", &["a", "b"]),
        ("something else", &[]),
    ] {
        assert_eq!(labels(&index, says), of, "{says}");
    }
}

/// Ways to say a value in one parameter.
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
        (
            "wide",
            value
                .chars()
                .map(|c| char::from_u32(u32::from(c) + 0xfee0).filter(|_| c.is_ascii_graphic()).unwrap_or(c))
                .collect(),
        ),
        ("invisible", every(2, "\u{200b}")),
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
fn what_is_shown_encoded_is_found_decoded() {
    let value = "mallory@evil.example";
    for (how, said) in spellings(value) {
        let index = index(&[("a", &json!({"text": format!("see {said} .")}).to_string())]);
        // What is written in single letters is no value of its own: its words are.
        if !["more white space", "white space", "separators"].contains(&how) {
            assert_eq!(labels(&index, value), ["a"], "{how}");
        }
    }
}

#[test]
fn nothing_is_found_in_what_only_looks_like_a_spelling() {
    let index = index(&[("a", r#"{"iban":"DE12500105170648489890","mail":"mallory@evil.example"}"#)]);
    for says in [
        "a perfectly ordinary sentence about nothing in particular",
        "deadbeefdeadbeefdeadbeef 0123456789",
        "dGhpcyBpcyBzb21ldGhpbmcgZWxzZQ==",
        "%zz%4 100% of it",
    ] {
        assert_eq!(labels(&index, says), [""; 0], "{says}");
    }
}

#[test]
fn what_trusted_content_says_too_is_clean() {
    let index = index(&[("a", "Send it to mallory@evil.example or bob@corp.example, 4800 EUR")]);
    let mut words = Trusted::default();
    words.add("please pay Bob <bob@corp.example> what he asks for");
    let with = |says: &str| labels_with(&index, &[&words], says);
    assert_eq!(with("bob@corp.example"), [""; 0]);
    assert_eq!(with("Ym9iQGNvcnAuZXhhbXBsZQ=="), [""; 0]);
    assert_eq!(with("mallory@evil.example"), ["a"]);
    assert_eq!(with("bob@corp.example, mallory@evil.example"), ["a"]);
    assert_eq!(with("4800"), ["a"]);
    words.add("4,800 at most");
    assert_eq!(labels_with(&index, &[&words], "4800"), [""; 0]);
    // An answer cleans nothing that it was asked with.
    let mut answers = Trusted::default();
    answers.add_but(
        r#"{"asked":"mallory@evil.example","found":"bob@corp.example"}"#,
        r#"{"name":"mallory@evil.example"}"#,
    );
    assert_eq!(labels_with(&index, &[&answers], "mallory@evil.example"), ["a"]);
    let mut echoed = Trusted::default();
    echoed.add_but("no entry for <mallory@evil.example>", "mallory@evil.example");
    assert_eq!(labels_with(&index, &[&echoed], "mallory@evil.example"), ["a"]);
}

#[test]
fn what_there_is_no_room_for_counts_as_carried() {
    let mut index = Index::default();
    index.add(&set(&["a"]), &"word123 ".repeat(80_000), 0, 100);
    let at = |now_ms: u64, says: &str| {
        let mut search = Search::new(&index, &[], now_ms);
        search.param("x");
        search.text(says);
        search.finish().contains_key("x")
    };
    assert!(at(99, "anything at all") && !at(99, "no") && !at(100, "anything at all"));
    let mut words = Trusted::default();
    words.add("\"anything\" 4800");
    let trusted = [&words];
    let mut search = Search::new(&index, &trusted, 1);
    search.param("x");
    search.text("anything");
    search.param("y");
    search.text("4800");
    assert!(search.finish().is_empty());
    // Values that all begin alike do not make a search long.
    let alike: String = (0..500).map(|at| format!("aaaaaa{at}z ")).collect();
    let mut index = Index::default();
    index.add(&set(&["a"]), &alike, 0, 100);
    assert!(!index.unknown.is_empty());
    let mut search = Search::new(&index, &[], 1);
    search.param("x");
    search.text(&"a".repeat(1 << 20));
    assert!(search.finish().contains_key("x"));
}

#[test]
fn room_is_made_by_forgetting_what_is_old() {
    let mut index = Index::default();
    let many = |from: usize| (from..from + 5_000).map(|at| format!("{at:06}value ")).collect::<String>();
    index.add(&set(&["a"]), &many(0), 10, 100);
    index.add(&set(&["b"]), &many(5_000), 20, 100);
    let before = index.len();
    index.make_room(15);
    assert!(index.len() < before && index.unknown.is_empty(), "{before} {}", index.len());
    assert_eq!(labels(&index, "000001value"), [""; 0]);
    assert_eq!(labels(&index, "009001value"), ["b"]);
}

proptest! {
    /// However a value is spelled, whole or embedded, it is found.
    #[test]
    fn a_value_is_found_in_every_spelling(
        value in "[a-z0-9]{1,6}[A-Z]{2}[0-9]{4,12}(@[a-z]{4,8}\\.example)?",
        before in "([a-z]{1,9}[ :,/=]){0,2}",
    ) {
        let index = index(&[("a", &json!({"a": [{"b": value}]}).to_string())]);
        for (how, said) in spellings(&value) {
            prop_assert_eq!(labels(&index, &said), vec!["a"], "{}: {}", how, &said);
            let embedded = format!("{before}{said} .");
            prop_assert_eq!(labels(&index, &embedded), vec!["a"], "{}: {}", how, &embedded);
        }
    }

    /// Split over two parameters, in either order and with others between; both carry it.
    #[test]
    fn a_value_that_is_split_over_two_parameters_is_found(
        value in "[a-z0-9]{4,10}[A-Z]{2}[0-9]{4,12}",
        at in 1_usize..9,
        others in prop::collection::vec("[a-z ]{0,12}", 0..6),
        is_turned in any::<bool>(),
    ) {
        let index = index(&[("a", &json!({"b": value}).to_string())]);
        let (first, second) = value.split_at(at);
        let mut said: Vec<&str> = others.iter().map(String::as_str).collect();
        let (front, back) = if is_turned { (second, first) } else { (first, second) };
        said.insert(0, front);
        said.push(back);
        let found = split(&index, &said);
        prop_assert!(found.contains(&"p0".to_owned()) && found.contains(&format!("p{}", said.len() - 1)), "{:?} {:?}", said, found);
    }

    /// Nothing makes it fail.
    #[test]
    fn any_text_is_looked_at(says in prop::collection::vec(".{0,300}", 0..20), content in ".{0,300}") {
        let index = index(&[("a", &content), ("b", r#"{"b":"DE12500105170648489890"}"#)]);
        let said: Vec<&str> = says.iter().map(String::as_str).collect();
        split(&index, &said);
    }
}
