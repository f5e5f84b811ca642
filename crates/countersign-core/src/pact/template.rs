//! Templates of fact ids: `Account::"{account}"`.
//!
//! The type is fixed text; only the id is built, from literals, parameters, and attributes of facts read before. Ids are
//! joined structurally and checked by `FactId`, never pasted into an expression.

use super::Normaliser;
use super::diagnostic::{Problems, suggestion};
use super::source::{Text, shorten};
use std::ops::Range;

/// A template as written.
#[derive(Debug)]
pub(super) struct Template {
    /// The name of the type and its place.
    pub(super) ty: (String, Range<usize>),
    /// The parts of the id.
    pub(super) parts: Vec<Part>,
}

/// A part of a template as written, with the place of each placeholder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// Text as it stands.
    Literal(String),
    /// `{name}`, `{name|normaliser}`
    Param(String, Vec<Normaliser>, Range<usize>),
    /// `{read.attribute}`, `{read.attribute|normaliser}`
    Attribute(String, String, Vec<Normaliser>, Range<usize>),
}

const HINT: &str = "write it as 'Account::\"{account}\"'; {{ and }} are literal braces";

/// Parses a template.
pub(super) fn parse(text: &Text<'_>, problems: &mut Problems) -> Option<Template> {
    let value = text.value;
    let body = value.split_once("::\"").and_then(|(ty, rest)| Some((ty, rest.strip_suffix('"')?)));
    let Some((ty, body)) = body else {
        problems.error(&text.content(), "this is not a template of a fact id: Type::\"…\" is expected", HINT);
        return None;
    };
    let start = ty.len() + "::\"".len();
    let (parts, literal) = (Vec::new(), String::new());
    let mut scanner = Scanner { text, start, body, is_id: true, is_normalised: true, problems, parts, literal };
    let whole = scanner.scan();
    let mut parts = scanner.parts;
    if !scanner.literal.is_empty() {
        parts.push(Part::Literal(scanner.literal));
    }
    if whole && parts.is_empty() {
        problems.error(&text.content(), "the id of a fact must not be empty", HINT);
        return None;
    }
    whole.then(|| Template { ty: (ty.to_owned(), text.part(&(0..ty.len()))), parts })
}

/// Parses a text with placeholders that becomes part of a fact id, or is made of one.
pub(super) fn parse_piece(text: &Text<'_>, problems: &mut Problems) -> Option<Vec<Part>> {
    parse_plain(text, true, problems)
}

/// Parses a text with placeholders that is no fact id.
pub(super) fn parse_text(text: &Text<'_>, problems: &mut Problems) -> Option<Vec<Part>> {
    parse_plain(text, false, problems)
}

fn parse_plain(text: &Text<'_>, is_normalised: bool, problems: &mut Problems) -> Option<Vec<Part>> {
    let (body, parts, literal) = (text.value, Vec::new(), String::new());
    let mut scanner = Scanner { text, start: 0, body, is_id: false, is_normalised, problems, parts, literal };
    let whole = scanner.scan();
    let mut parts = scanner.parts;
    if !scanner.literal.is_empty() {
        parts.push(Part::Literal(scanner.literal));
    }
    whole.then_some(parts)
}

struct Scanner<'a, 'p> {
    text: &'a Text<'a>,
    start: usize,
    body: &'a str,
    /// Inside the quotes of a fact id, quotes and backslashes are escaped.
    is_id: bool,
    /// Whether values may be normalised.
    is_normalised: bool,
    problems: &'p mut Problems,
    parts: Vec<Part>,
    literal: String,
}

impl Scanner<'_, '_> {
    fn span(&self, range: Range<usize>) -> Range<usize> {
        self.text.part(&(self.start + range.start..self.start + range.end))
    }

    fn refuse(&mut self, range: Range<usize>, message: impl Into<String>) -> bool {
        let span = self.span(range);
        self.problems.error(&span, message, HINT);
        false
    }

    /// Whether the whole body could be read.
    fn scan(&mut self) -> bool {
        let body = self.body;
        let mut chars = body.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let next = chars.peek().map(|(_, next)| *next);
            match (c, next) {
                ('{', Some('{')) | ('}', Some('}')) => {
                    self.literal.extend(next);
                    chars.next();
                }
                ('\\', Some('\\' | '"')) if self.is_id => {
                    self.literal.extend(next);
                    chars.next();
                }
                ('{', _) => {
                    let rest = body.get(at + 1..).unwrap_or_default();
                    let Some(length) =
                        rest.find(['}', '{']).filter(|end| rest.get(*end..).is_some_and(|r| r.starts_with('}')))
                    else {
                        return self.refuse(at..at + 1, "this `{` is never closed");
                    };
                    let name = rest.get(..length).unwrap_or_default();
                    self.placeholder(name, at..at + length + 2);
                    while chars.next_if(|(i, _)| *i <= at + 1 + length).is_some() {}
                }
                ('}', _) => return self.refuse(at..at + 1, "this `}` closes nothing"),
                ('\\', _) if self.is_id => {
                    return self.refuse(at..at + 1, "a backslash must be followed by another, or by a quote");
                }
                ('"', _) if self.is_id => {
                    return self.refuse(at..at + 1, "a quote inside an id must be written \\\"");
                }
                (c, _) if c.is_control() => {
                    return self.refuse(at..at + c.len_utf8(), "control characters are not allowed here");
                }
                (c, _) => self.literal.push(c),
            }
        }
        true
    }

    fn placeholder(&mut self, name: &str, range: Range<usize>) {
        if !self.literal.is_empty() {
            self.parts.push(Part::Literal(std::mem::take(&mut self.literal)));
        }
        let span = self.span(range);
        let mut words = name.split('|');
        let name = words.next().unwrap_or_default();
        let normalisers = words.filter_map(|word| self.normaliser(word, &span)).collect();
        self.parts.push(match name.split_once('.') {
            Some((read, attribute)) => Part::Attribute(read.to_owned(), attribute.to_owned(), normalisers, span),
            None => Part::Param(name.to_owned(), normalisers, span),
        });
    }

    fn normaliser(&mut self, word: &str, span: &Range<usize>) -> Option<Normaliser> {
        if !self.is_normalised {
            let message = format!("`|{}`: only ids of facts are normalised", shorten(word));
            self.problems.error(
                span,
                message,
                "what is sent, is sent as it was given; let a `pattern` refuse other spellings",
            );
            return None;
        }
        let found = Normaliser::ALL.iter().find(|(name, _)| *name == word).map(|(_, one)| *one);
        if found.is_none() {
            let names = Normaliser::ALL.map(|(name, _)| name);
            let hint = suggestion(word, &names, "use one of");
            self.problems.error(span, format!("there is no normaliser `{}`", shorten(word)), hint);
        }
        found
    }
}
