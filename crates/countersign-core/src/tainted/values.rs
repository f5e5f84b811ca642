//! The values of content, each in its one form.

use super::spelled::decoded;
use super::{BARE_MIN, SHORT_MIN, Said};
use crate::carried::{joined, normal, numbers};
use crate::node::Node;
use smol_str::SmolStr;

/// The longest value; of a longer one its beginning stands for it, in bytes.
const BYTES_MAX: usize = 256;
/// The longest line that is one value: of longer ones the words are.
const LINE_MAX: usize = 96;

/// The letters and digits of a text, in one form.
pub(super) fn bare(text: &str, out: &mut String) {
    out.clear();
    if text.is_ascii() {
        out.extend(text.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| char::from(byte.to_ascii_lowercase())));
    } else {
        out.extend(normal(text).chars().filter(|c| c.is_alphanumeric()));
    }
}

/// A text in one form, with its separators and without white space.
pub(super) fn exact(text: &str) -> String {
    normal(text).chars().filter(|c| !c.is_whitespace()).collect()
}

/// Tells every value that content says, as JSON or as a text, for as long as more are asked for.
pub(super) fn each_value(content: &str, tell: &mut impl FnMut(Said) -> bool) {
    match Node::parse(content) {
        Some(node) => in_node(&node, tell),
        None => say_all(content, tell),
    };
}

fn in_node(node: &Node, tell: &mut impl FnMut(Said) -> bool) -> bool {
    match node {
        Node::Null | Node::Bool(_) => true,
        Node::Number(number) => say(number, tell),
        Node::Text(text) => match Node::parse(text) {
            // Answers hold JSON as texts.
            Some(inner @ (Node::Object(_) | Node::List(_))) => in_node(&inner, tell),
            _ => say_all(text, tell),
        },
        Node::List(items) => items.iter().all(|item| in_node(item, tell)),
        Node::Object(members) => members.iter().all(|(name, value)| {
            // A name with a digit in it is most often an id.
            let is_said = !name.contains(|c: char| c.is_ascii_digit()) || say(name, tell);
            is_said && in_node(value, tell)
        }),
    }
}

/// What a text says, and what it says once it is decoded.
fn say_all(text: &str, tell: &mut impl FnMut(Said) -> bool) -> bool {
    let mut is_told = say(text, tell);
    decoded(text, &mut |text| is_told = is_told && say(text, tell));
    is_told
}

/// What a text says: as a whole, by line, by word and by part of a word.
fn say(text: &str, tell: &mut impl FnMut(Said) -> bool) -> bool {
    let text = normal(text);
    let mut buffer = String::new();
    let mut value = |text: &str, tell: &mut dyn FnMut(Said) -> bool| match value(text, &mut buffer) {
        Some(said) => tell(said),
        None => true,
    };
    let mut is_told = numbers_of(&text, tell);
    joined(&text, |text, is_number| {
        is_told = is_told && value(text, tell) && (!is_number || numbers_of(text, tell));
        is_told
    });
    for line in text.lines().filter(|line| line.len() <= LINE_MAX) {
        is_told = is_told && value(line, tell);
    }
    let is_between = |c: char| c.is_whitespace() || "\"'`<>()[]{}|,;=".contains(c);
    for word in text.split(is_between) {
        is_told = is_told && value(word, tell);
        // An address or a path is said in parts as well.
        if word.contains(|c: char| !c.is_alphanumeric()) {
            is_told = is_told && word.split(|c: char| !c.is_alphanumeric()).all(|part| value(part, tell));
        }
    }
    is_told
}

fn numbers_of(text: &str, tell: &mut dyn FnMut(Said) -> bool) -> bool {
    numbers(text).into_iter().all(|number| tell(Said::Number(number)))
}

/// A text as a value; `None` where it is too short to be one.
fn value(text: &str, buffer: &mut String) -> Option<Said> {
    let text = text.trim_matches(|c: char| c.is_whitespace() || ".,:;!?".contains(c));
    text.char_indices().nth(BARE_MIN - 1)?;
    bare(text, buffer);
    let end = (0..=BYTES_MAX.min(buffer.len())).rev().find(|at| buffer.is_char_boundary(*at)).unwrap_or(0);
    let kept: SmolStr = buffer.get(..end)?.into();
    // Digits alone are a number, which is found by value.
    let is_number = kept.bytes().all(|byte| byte.is_ascii_digit()) && kept.len() < BARE_MIN;
    match kept.len() {
        _ if is_number => None,
        0..SHORT_MIN => None,
        SHORT_MIN..BARE_MIN => Some(Said::Text { bare: kept, exact: Some(exact(text).into()) }),
        _ => Some(Said::Text { bare: kept, exact: None }),
    }
}
