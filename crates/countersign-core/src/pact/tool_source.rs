//! Facts that a tool reads: how an id becomes arguments, and arguments an id.
//!
//! Both ways are pure and shared: a gate builds the arguments of a fact that it reads, a gateway finds the fact that an agent's call
//! reads. An id that could be split in two ways is no id of the source.

use super::Normaliser;
use serde_json::{Map, Value as Json};
use smol_str::SmolStr;
use std::collections::BTreeMap;

/// The id of the one fact of a source that takes no arguments.
pub const ONLY: &str = "only";

/// A tool that reads facts of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolSource {
    pub tool: SmolStr,
    /// What an id is made of. Two pieces never stand side by side.
    pub id: Vec<IdPiece>,
    /// Its arguments by name.
    pub arguments: Vec<(SmolStr, Argument)>,
    /// The place of the value in the result, as a JSON pointer. A text on the way is read as JSON.
    pub at: SmolStr,
    /// Where the place holds a list: the member that the last piece of the id must be equal to.
    pub key: Option<SmolStr>,
    /// The attribute that is another after every change, if there is one.
    pub version: Option<SmolStr>,
}

/// A part of an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdPiece {
    /// Text as it stands.
    Literal(SmolStr),
    /// A value that arguments are made of.
    Piece {
        name: SmolStr,
        /// What it is as an argument.
        ty: PieceType,
        /// What makes one spelling of it.
        normalisers: Vec<Normaliser>,
    },
}

/// What a piece of an id is as an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PieceType {
    /// A string.
    Text,
    Integer,
    /// True or false.
    Boolean,
}

impl PieceType {
    /// Each by its name in pacts.
    pub const ALL: [(&str, Self); 3] = [("string", Self::Text), ("integer", Self::Integer), ("boolean", Self::Boolean)];

    /// A piece of an id as an argument.
    fn json(self, text: &str) -> Option<Json> {
        match self {
            Self::Text => Some(text.into()),
            Self::Integer => text.parse::<i64>().ok().filter(|number| number.to_string() == text).map(Json::from),
            Self::Boolean => ["true", "false"].contains(&text).then(|| (text == "true").into()),
        }
    }

    /// An argument as a piece of an id.
    fn text(self, json: &Json) -> Option<String> {
        match self {
            Self::Text => json.as_str().map(ToOwned::to_owned),
            Self::Integer => json.as_i64().map(|number| number.to_string()),
            Self::Boolean => json.as_bool().map(|truth| truth.to_string()),
        }
    }
}

/// One argument of a tool that reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Argument {
    /// Always this.
    Fixed(Json),
    /// A piece of the id, as what it is.
    Piece(SmolStr),
    /// A piece of the id between texts.
    Text {
        /// What is in front of it.
        before: SmolStr,
        piece: SmolStr,
        /// What is behind it.
        after: SmolStr,
    },
}

/// The element of a list that is meant: a member, and what it is.
pub type Element = (SmolStr, SmolStr);

impl ToolSource {
    fn pieces(&self) -> impl Iterator<Item = (&SmolStr, PieceType, &[Normaliser])> {
        self.id.iter().filter_map(|part| match part {
            IdPiece::Literal(_) => None,
            IdPiece::Piece { name, ty, normalisers } => Some((name, *ty, normalisers.as_slice())),
        })
    }

    fn literals(&self) -> impl Iterator<Item = &SmolStr> {
        self.id.iter().filter_map(|part| match part {
            IdPiece::Literal(text) => Some(text),
            IdPiece::Piece { .. } => None,
        })
    }

    /// Whether a value can be a piece of an id: where there are several, it must not hold what stands between them.
    fn is_piece(&self, text: &str) -> bool {
        let is_alone = self.pieces().nth(1).is_none();
        !text.is_empty() && (is_alone || !self.literals().any(|literal| text.contains(literal.as_str())))
    }

    /// The pieces of an id; `None` where it is none of this source.
    fn split<'i>(&self, id: &'i str) -> Option<BTreeMap<&SmolStr, &'i str>> {
        let mut found = BTreeMap::new();
        let (mut rest, mut parts) = (id, self.id.iter().peekable());
        while let Some(part) = parts.next() {
            match part {
                IdPiece::Literal(text) => rest = rest.strip_prefix(text.as_str())?,
                IdPiece::Piece { name, ty, normalisers } => {
                    let (piece, behind) = match parts.peek() {
                        None => (rest, ""),
                        // With one piece, all up to the end of the text behind it is that piece.
                        Some(IdPiece::Literal(text)) if self.pieces().nth(1).is_none() => {
                            rest.split_at_checked(rest.len().checked_sub(text.len())?)?
                        }
                        Some(IdPiece::Literal(text)) => rest.split_at_checked(rest.find(text.as_str())?)?,
                        Some(IdPiece::Piece { .. }) => return None,
                    };
                    let is_normal = Normaliser::apply_all(normalisers, piece).is_ok_and(|normal| normal == piece);
                    if !is_normal || !self.is_piece(piece) || ty.json(piece).is_none() {
                        return None;
                    }
                    found.insert(name, piece);
                    rest = behind;
                }
            }
        }
        rest.is_empty().then_some(found)
    }

    /// The arguments that read the fact of an id, and what its element of a list must be equal to; `None` where the id is none of this
    /// source.
    pub fn arguments_for(&self, id: &str) -> Option<(Map<String, Json>, Option<Element>)> {
        let found = self.split(id)?;
        let argument = |(name, argument): &(SmolStr, Argument)| {
            let json = match argument {
                Argument::Fixed(json) => json.clone(),
                Argument::Piece(piece) => {
                    let (_, ty, _) = self.pieces().find(|(name, ..)| *name == piece)?;
                    ty.json(found.get(piece)?)?
                }
                Argument::Text { before, piece, after } => format!("{before}{}{after}", found.get(piece)?).into(),
            };
            Some((name.to_string(), json))
        };
        let arguments = self.arguments.iter().map(argument).collect::<Option<_>>()?;
        let last = self.pieces().last().and_then(|(name, ..)| found.get(name)).map(SmolStr::new);
        Some((arguments, self.key.clone().zip(last)))
    }

    /// The id of the fact that a call with these arguments reads; `None` where it reads no one fact. What is null was not given.
    pub fn id_of(&self, arguments: &Map<String, Json>) -> Option<String> {
        let given = || arguments.iter().filter(|(_, json)| !json.is_null());
        if given().count() != self.arguments.len() {
            return None;
        }
        let mut found: BTreeMap<&SmolStr, SmolStr> = BTreeMap::new();
        for (name, argument) in &self.arguments {
            let (_, json) = given().find(|(given, _)| *given == name)?;
            let (piece, text) = match argument {
                Argument::Fixed(fixed) if fixed == json => continue,
                Argument::Fixed(_) => return None,
                Argument::Piece(piece) => {
                    let (_, ty, _) = self.pieces().find(|(name, ..)| *name == piece)?;
                    (piece, ty.text(json)?)
                }
                Argument::Text { before, piece, after } => {
                    let text = json.as_str()?.strip_prefix(before.as_str())?.strip_suffix(after.as_str())?;
                    (piece, text.to_owned())
                }
            };
            let (_, _, normalisers) = self.pieces().find(|(name, ..)| *name == piece)?;
            let text = Normaliser::apply_all(normalisers, &text).ok()?;
            if found.insert(piece, text.clone()).is_some_and(|other| other != text) {
                return None;
            }
        }
        let part = |part: &IdPiece| match part {
            IdPiece::Literal(text) => Some(text.clone()),
            IdPiece::Piece { name, .. } => found.get(name).cloned(),
        };
        let id: String = self.id.iter().map(part).collect::<Option<Vec<_>>>()?.concat();
        self.split(&id).is_some().then_some(id)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics has failed")]

    use crate::pact::SourceRead;
    use crate::pact::load::load;
    use serde_json::json;

    fn source(source: &str) -> super::ToolSource {
        let text = format!(
            "pact = \"p\"\nversion = 1\n[facts.Thing]\nattributes = {{ a = \"Long\" }}\n\
             source = {{ mcp = \"m\", tool = \"get\", {source} }}\n\
             [action.act]\nresource = 'Thing::\"{{x}}\"'\nallow = 'true'\ncall = {{ mcp = \"m\", tool = \"set\" }}\n\
             params = {{ type = \"object\", additionalProperties = false, required = [\"x\"], properties.x.type = \"string\" }}\n\
             [[action.act.require]]\nid = \"a\"\nthat = 'resource.a > 0'\n"
        );
        let pact = load(&text).unwrap_or_else(|problems| panic!("{problems:#?}\n{text}")).pact;
        match &pact.sources.values().next().unwrap().read {
            SourceRead::Tool(tool) => tool.clone(),
            other => panic!("{other:?}"),
        }
    }

    /// Each source, an id, its arguments, and arguments and ids that are none of it.
    #[test]
    fn ids_and_arguments_lead_to_each_other() {
        let rows = [
            ("", "only", json!({}), vec![json!({"x": 1})], vec!["other", ""]),
            (
                "arguments = { limit = 10, all = true }",
                "only",
                json!({"limit": 10, "all": true}),
                vec![json!({})],
                vec![],
            ),
            ("arguments = { id = \"{id}\" }", "4/2", json!({"id": "4/2"}), vec![json!({"id": 4}), json!({})], vec![""]),
            (
                "arguments = { n = \"{id:integer}\" }",
                "42",
                json!({"n": 42}),
                vec![json!({"n": "42"})],
                vec!["x", "042"],
            ),
            ("arguments = { p = \"{id|normal}\" }", "a/b", json!({"p": "a/b"}), vec![json!({"p": ".."})], vec!["a//b"]),
            (
                "arguments = { path = \"/accounts/{id}.json\" }",
                "42",
                json!({"path": "/accounts/42.json"}),
                vec![json!({"path": "/accounts/42.txt"}), json!({"path": "/accounts/.json"})],
                vec![],
            ),
            (
                "id = \"{owner}/{repo}#{number:integer}\", \
                 arguments = { owner = \"{owner}\", repo = \"{repo}\", issue = \"{number}\", deep = false }",
                "acme/web#7",
                json!({"owner": "acme", "repo": "web", "issue": 7, "deep": false}),
                vec![
                    json!({"owner": "acme/web", "repo": "x", "issue": 7, "deep": false}),
                    json!({"owner": "acme", "repo": "web", "issue": "7", "deep": false}),
                    json!({"owner": "acme", "repo": "web", "issue": 7}),
                ],
                vec!["acme/web", "acme/web#x", "a/b/c#7", "/web#7"],
            ),
            (
                "arguments = { a = \"{id}\", b = \"x{id}\" }",
                "1",
                json!({"a": "1", "b": "x1"}),
                vec![json!({"a": "1", "b": "x2"})],
                vec![],
            ),
        ];
        for (text, id, arguments, other_arguments, other_ids) in rows {
            let source = source(text.trim_end_matches(", "));
            let arguments = arguments.as_object().unwrap();
            assert_eq!(source.arguments_for(id), Some((arguments.clone(), None)), "{text}");
            assert_eq!(source.id_of(arguments).as_deref(), Some(id), "{text}");
            let mut with_null = arguments.clone();
            with_null.insert("optional".to_owned(), json!(null));
            assert_eq!(source.id_of(&with_null).as_deref(), Some(id), "{text}");
            for other in other_arguments {
                assert_eq!(source.id_of(other.as_object().unwrap()), None, "{text} {other}");
            }
            for other in other_ids {
                assert_eq!(source.arguments_for(other), None, "{text} {other}");
            }
        }
        let normal = source("arguments = { p = \"{id|normal}\" }");
        assert_eq!(normal.id_of(json!({"p": "./a//b"}).as_object().unwrap()).as_deref(), Some("a/b"));
        let item = source("at = \"/structuredContent/events\", key = \"id\"");
        assert_eq!(item.arguments_for("7"), Some((serde_json::Map::new(), Some(("id".into(), "7".into())))));
        assert_eq!(item.id_of(&serde_json::Map::new()), None, "a list is no one fact");
    }
}
