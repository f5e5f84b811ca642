//! JSON as a server wrote it: numbers keep their digits, names come in one order, and a part can be left out of a comparison.
//!
//! Answers of tools hold fractions and numbers of any length. Reading them as floats would make different ones equal, so nothing here
//! does: what is compared is text.

use crate::canonical::Canonical;
use smol_str::SmolStr;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Deeper nesting is not read: the text is then compared as it stands.
const DEPTH_MAX: usize = 64;

/// The path of all of it.
pub const WHOLE: &str = "/";

/// A JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    Null,
    /// True or false.
    Bool(bool),
    /// A number, as it was written.
    Number(SmolStr),
    Text(String),
    List(Vec<Node>),
    Object(BTreeMap<String, Node>),
}

impl Node {
    /// Reads JSON. `None` for what is none, holds a name twice in one object, or is nested too deep.
    pub fn parse(text: &str) -> Option<Self> {
        let mut reader = Reader { rest: text };
        let node = reader.value(0)?;
        reader.space();
        reader.rest.is_empty().then_some(node)
    }

    /// Writes it in its one form.
    pub fn text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
            Self::Number(number) => out.push_str(number),
            Self::Text(text) => quoted(out, text),
            Self::List(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    item.write(out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (at, (name, value)) in members.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    quoted(out, name);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    /// Leaves out what a path names: names and places after `/`, `*` for any, and nothing after it for all.
    pub fn leave_out(&mut self, path: &str) {
        if path == WHOLE {
            *self = Self::Null;
            return;
        }
        let steps: Vec<&str> = path.split('/').skip(1).collect();
        self.leave_out_at(&steps);
    }

    /// What is left where these paths are left out. `None` where that is nothing, of something: a comparison of it would compare nothing.
    pub fn without<P: AsRef<str>>(&self, paths: impl IntoIterator<Item = P>) -> Option<Self> {
        let mut left = self.clone();
        paths.into_iter().for_each(|path| left.leave_out(path.as_ref()));
        (left == *self || !left.is_bare()).then_some(left)
    }

    /// Whether it has no value in it: an empty object or list, or objects of nothing else.
    fn is_bare(&self) -> bool {
        match self {
            Self::Null => true,
            Self::List(items) => items.is_empty(),
            // A member that is null says so.
            Self::Object(members) => members.values().all(|value| *value != Self::Null && value.is_bare()),
            Self::Bool(_) | Self::Number(_) | Self::Text(_) => false,
        }
    }

    fn leave_out_at(&mut self, steps: &[&str]) {
        let [step, rest @ ..] = steps else { return };
        match self {
            Self::Object(members) if rest.is_empty() => members.retain(|name, _| !(*step == "*" || name == step)),
            Self::Object(members) => {
                let named = members.iter_mut().filter(|(name, _)| *step == "*" || *name == step);
                named.for_each(|(_, value)| value.leave_out_at(rest));
            }
            Self::List(items) if rest.is_empty() => {
                let mut at = 0_usize;
                items.retain(|_| {
                    at = at.saturating_add(1);
                    !(*step == "*" || *step == at.saturating_sub(1).to_string())
                });
            }
            Self::List(items) => {
                let named = items.iter_mut().enumerate().filter(|(at, _)| *step == "*" || *step == at.to_string());
                named.for_each(|(_, value)| value.leave_out_at(rest));
            }
            _ => {}
        }
    }

    /// Only what a path names, or nothing.
    pub fn at(&self, path: &str) -> Option<&Self> {
        path.split('/').skip(1).try_fold(self, |node, step| match node {
            Self::Object(members) => members.get(step),
            Self::List(items) => items.get(step.parse::<usize>().ok()?),
            _ => None,
        })
    }
}

fn quoted(out: &mut String, text: &str) {
    let mut canonical = Canonical::new();
    canonical.string(text);
    let _ = out.write_str(canonical.as_str());
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    fn take(&mut self, start: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(start)?;
        Some(())
    }

    fn value(&mut self, depth: usize) -> Option<Node> {
        if depth > DEPTH_MAX {
            return None;
        }
        self.space();
        match self.rest.as_bytes().first()? {
            b'{' => self.object(depth),
            b'[' => self.list(depth),
            b'"' => self.string().map(Node::Text),
            b't' => self.take("true").map(|()| Node::Bool(true)),
            b'f' => self.take("false").map(|()| Node::Bool(false)),
            b'n' => self.take("null").map(|()| Node::Null),
            _ => self.number(),
        }
    }

    fn object(&mut self, depth: usize) -> Option<Node> {
        self.take("{")?;
        let mut members = BTreeMap::new();
        self.space();
        if self.take("}").is_some() {
            return Some(Node::Object(members));
        }
        loop {
            self.space();
            let name = self.string()?;
            self.space();
            self.take(":")?;
            let value = self.value(depth.saturating_add(1))?;
            if members.insert(name, value).is_some() {
                return None;
            }
            self.space();
            if self.take("}").is_some() {
                return Some(Node::Object(members));
            }
            self.take(",")?;
        }
    }

    fn list(&mut self, depth: usize) -> Option<Node> {
        self.take("[")?;
        let mut items = Vec::new();
        self.space();
        if self.take("]").is_some() {
            return Some(Node::List(items));
        }
        loop {
            items.push(self.value(depth.saturating_add(1))?);
            self.space();
            if self.take("]").is_some() {
                return Some(Node::List(items));
            }
            self.take(",")?;
        }
    }

    /// A string, by the library that reads all others.
    fn string(&mut self) -> Option<String> {
        let inside = self.rest.strip_prefix('"')?;
        let mut is_escaped = false;
        let end = inside.bytes().position(|byte| {
            let ends = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            ends
        })?;
        let (text, rest) = self.rest.split_at_checked(end.saturating_add(2))?;
        self.rest = rest;
        serde_json::from_str(text).ok()
    }

    fn number(&mut self) -> Option<Node> {
        let is_of_number = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
        let end = self.rest.find(|c| !is_of_number(c)).unwrap_or(self.rest.len());
        let (number, rest) = self.rest.split_at_checked(end)?;
        // Whether it is one is asked of the library; what it makes of it is not used.
        serde_json::from_str::<serde_json::Number>(number).ok()?;
        self.rest = rest;
        Some(Node::Number(number.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_in_any_digit_is_different_and_order_of_names_is_not() {
        let text = |json: &str| Node::parse(json).map(|node| node.text());
        assert_eq!(text(r#"{"b":1, "a":[1.50,"x\u0041"]}"#).as_deref(), Some(r#"{"a":[1.50,"xA"],"b":1}"#));
        assert_ne!(text("12345678901234567890123"), text("12345678901234567890124"));
        for none in ["", "{", r#"{"a":1,"a":2}"#, "1 2", "nul", "--1", r#""\x""#, &"[".repeat(100)] {
            assert_eq!(Node::parse(none), None, "{none}");
        }
    }

    #[test]
    fn a_path_leaves_out_what_it_names_and_nothing_else() {
        let mut node = Node::parse(r#"{"at":1,"items":[{"at":2,"id":1},{"at":3,"id":2}]}"#).unwrap();
        node.leave_out("/items/*/at");
        assert_eq!(node.text(), r#"{"at":1,"items":[{"id":1},{"id":2}]}"#);
        node.leave_out("/items/0");
        node.leave_out("/nothing/here");
        assert_eq!(node.text(), r#"{"at":1,"items":[{"id":2}]}"#);
        node.leave_out("/");
        assert_eq!(node.text(), "null");
    }

    #[test]
    fn what_leaves_nothing_leaves_nothing_out() {
        let left = |json: &str, paths: &[&str]| Node::parse(json).unwrap().without(paths).map(|node| node.text());
        assert_eq!(left(r#"{"at":1,"n":2}"#, &["/at"]).as_deref(), Some(r#"{"n":2}"#));
        assert_eq!(left(r#"{"items":[{"at":1}]}"#, &["/items/*/at"]).as_deref(), Some(r#"{"items":[{}]}"#));
        for (json, paths) in [
            (r#"{"at":1,"n":2}"#, &["/at", "/n"] as &[&str]),
            (r#"{"at":1}"#, &["/"]),
            (r#"{"a":{"at":1}}"#, &["/a/*"]),
            ("[1,2]", &["/*"]),
            (r#""text""#, &["/"]),
        ] {
            assert_eq!(left(json, paths), None, "{json} {paths:?}");
        }
        // There was nothing before.
        assert_eq!(left("[]", &["/*"]).as_deref(), Some("[]"));
    }
}
