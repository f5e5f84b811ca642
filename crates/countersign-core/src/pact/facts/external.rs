//! Fact types whose facts live outside: `source`.

use crate::ids::check_identifier;
use crate::limits::INTEGER_MAX;
use crate::pact::call::adapter_name;
use crate::pact::diagnostic::Problems;
use crate::pact::source::{Node, Table, Text, integer, kind, shorten, string, table};
use crate::pact::sql;
use crate::pact::template::{Part, parse_piece, parse_text};
use crate::pact::tool_source::{Argument, IdPiece, ONLY, PieceType, ToolSource};
use crate::pact::{FactSchema, FactSource, IdPart, Normaliser, SourceRead};
use crate::value::{FieldType, ValueType};
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::ops::Range;
use toml::de::DeValue;

const HINT: &str = "say where it lives: source = { postgres = \"bank\", query = \"select … where id = $1\" }";

/// Reads `source` of a fact type.
pub(super) fn read<'a>(
    source: &'a str,
    fact_type: &mut Table<'a>,
    schema: &FactSchema,
    problems: &mut Problems,
) -> Option<FactSource> {
    let (span, node) = fact_type.get("source")?;
    let mut body = Table::new(source, table(node, "`source`", problems)?, span, "this source");
    let kinds = ["postgres", "http", "mcp"];
    let named: Vec<(&str, Text<'a>)> =
        kinds.iter().filter_map(|kind| Some((*kind, body.string(kind, problems)?))).collect();
    let [(kind, adapter)] = named.as_slice() else {
        problems.error(&body.span, "a source has one of `postgres`, `http` and `mcp`", HINT);
        return None;
    };
    let adapter = adapter_name(adapter, problems)?;
    let read = match *kind {
        "postgres" => query(&mut body, schema, problems),
        "http" => {
            let path = body.required_string("path", "say where: path = \"/accounts/{id}\"", problems);
            path.and_then(|path| by_id(&path, problems)).map(SourceRead::Path)
        }
        _ => tool(source, &mut body, schema, problems),
    };
    body.finish(problems);
    Some(FactSource { adapter, read: read? })
}

fn query(body: &mut Table<'_>, schema: &FactSchema, problems: &mut Problems) -> Option<SourceRead> {
    let text = body.required_string("query", HINT, problems)?;
    match sql::check_query(text.value, schema) {
        Ok(()) => Some(SourceRead::Query(text.value.into())),
        Err(found) => {
            for (place, message, hint) in found {
                problems.error(&text.part(&place), message, hint);
            }
            None
        }
    }
}

fn tool<'a>(source: &'a str, body: &mut Table<'a>, schema: &FactSchema, problems: &mut Problems) -> Option<SourceRead> {
    let before = problems.errors();
    let name = body.required_string("tool", "name the tool that reads it: tool = \"get_account\"", problems);
    let at = body.string("at", problems).map_or(SmolStr::new_static("/structuredContent"), |at| at.value.into());
    let key = body.string("key", problems);
    let id = body.string("id", problems);
    let mut pieces = id.as_ref().and_then(|id| id_pieces(id, problems));
    if id.is_some() && pieces.is_none() {
        // What is made of an id that is wrong would only look wrong, too.
        let _ = (body.get("arguments"), body.get("version"));
        return None;
    }
    let mut inferred: Option<IdPiece> = None;
    let mut arguments = Vec::new();
    for (name, node) in body.table("arguments", problems).into_iter().flat_map(|(_, members)| members) {
        let DeValue::String(_) = node.get_ref() else {
            arguments.extend(fixed(node, problems).map(|json| (SmolStr::new(name.get_ref()), Argument::Fixed(json))));
            continue;
        };
        let Some(text) = string(source, node, "an argument", problems) else { continue };
        let Some(parts) = parse_piece(&text, problems) else { continue };
        let argument = argument(parts, pieces.as_deref(), &mut inferred, problems);
        arguments.extend(argument.map(|argument| (SmolStr::new(name.get_ref()), argument)));
    }
    let version = version(body, schema, problems);
    if id.is_none() {
        let plain = IdPiece::Piece { name: "id".into(), ty: PieceType::Text, normalisers: Vec::new() };
        let only = || IdPiece::Literal(SmolStr::new_static(ONLY));
        pieces = Some(vec![inferred.unwrap_or_else(|| if key.is_some() { plain } else { only() })]);
    }
    let (pieces, key) = (pieces?, key.map(|key| SmolStr::new(key.value)));
    unused_pieces(&pieces, &arguments, key.is_some(), &body.span, problems);
    if problems.errors() > before {
        return None;
    }
    let tool = ToolSource { tool: name?.value.into(), id: pieces, arguments, at, key, version: version? };
    Some(SourceRead::Tool(tool))
}

/// What an id is made of, as written: `{owner}/{repo}#{number:integer}`.
fn id_pieces(text: &Text<'_>, problems: &mut Problems) -> Option<Vec<IdPiece>> {
    let parts = parse_piece(text, problems)?;
    let before = problems.errors();
    let mut pieces: Vec<IdPiece> = Vec::new();
    for part in parts {
        let one = match part {
            Part::Literal(text) => IdPiece::Literal(text.into()),
            Part::Param(name, normalisers, span) => {
                let Some((name, ty)) = piece(&name, &normalisers, &span, problems) else { continue };
                let same = |one: &IdPiece| matches!(one, IdPiece::Piece { name: other, .. } if *other == name);
                if pieces.iter().any(same) {
                    problems.error(&span, format!("`{name}` appears twice in this id"), "name each piece once");
                }
                if matches!(pieces.last(), Some(IdPiece::Piece { .. })) {
                    let message = format!("nothing stands between `{name}` and the piece in front of it");
                    problems.error(&span, message, "put a text between them that neither can hold: \"{owner}/{repo}\"");
                }
                IdPiece::Piece { name, ty, normalisers }
            }
            Part::Attribute(.., span) => {
                problems.error(&span, "a piece of an id is a name", "write {owner}, or {number:integer}");
                continue;
            }
        };
        pieces.push(one);
    }
    (problems.errors() == before).then_some(pieces)
}

/// The name and type of a piece: `number:integer`.
fn piece(
    text: &str,
    normalisers: &[Normaliser],
    span: &Range<usize>,
    problems: &mut Problems,
) -> Option<(SmolStr, PieceType)> {
    let (name, ty) = text.split_once(':').unwrap_or((text, "string"));
    let found = PieceType::ALL.iter().find(|(known, _)| *known == ty).map(|(_, ty)| *ty);
    if check_identifier(name).is_err() || found.is_none() {
        let message = format!("`{}` is no piece of an id", shorten(text));
        problems.error(span, message, "write {owner}, {number:integer} or {all:boolean}");
        return None;
    }
    if found != Some(PieceType::Text) && !normalisers.is_empty() {
        problems.error(span, format!("`{name}` is no text, and has one spelling already"), "remove the normaliser");
        return None;
    }
    found.map(|ty| (SmolStr::new(name), ty))
}

/// One argument that is a text: fixed, a piece of the id, or one between texts.
fn argument(
    parts: Vec<Part>,
    pieces: Option<&[IdPiece]>,
    inferred: &mut Option<IdPiece>,
    problems: &mut Problems,
) -> Option<Argument> {
    let mut named = None;
    let (mut before, mut after) = (String::new(), String::new());
    for part in parts {
        match part {
            Part::Literal(literal) => if named.is_none() { &mut before } else { &mut after }.push_str(&literal),
            Part::Param(name, normalisers, span) => {
                let (name, ty) = piece(&name, &normalisers, &span, problems)?;
                if named.is_some() {
                    let hint = "give each its own argument, or read the fact by another tool";
                    problems.error(&span, "an argument holds one piece of the id at most", hint);
                    return None;
                }
                let one = IdPiece::Piece { name: name.clone(), ty, normalisers };
                match pieces {
                    Some(pieces) => {
                        let is_known =
                            |known: &IdPiece| matches!(known, IdPiece::Piece { name: other, .. } if *other == name);
                        if !pieces.iter().any(is_known) || !is_plain(&one) {
                            let message =
                                format!("`{name}` is no piece of this source's `id`, or says more than its name");
                            problems.error(
                                &span,
                                message,
                                "name a piece of `id`; its type and normalisers stand there",
                            );
                            return None;
                        }
                    }
                    None if name != "id" => {
                        let hint =
                            "arguments are made of {id} alone, unless the source names pieces: id = \"{owner}/{repo}\"";
                        problems.error(&span, format!("`{name}` is not known here"), hint);
                        return None;
                    }
                    None => {
                        if inferred.as_ref().is_none_or(is_plain) {
                            *inferred = Some(one);
                        }
                    }
                }
                named = Some(name);
            }
            Part::Attribute(.., span) => {
                problems.error(&span, "an external fact is found by its id alone", "write {id}, or a piece of `id`");
                return None;
            }
        }
    }
    Some(match named {
        None => Argument::Fixed(before.into()),
        Some(piece) if before.is_empty() && after.is_empty() => Argument::Piece(piece),
        Some(piece) => Argument::Text { before: before.into(), piece, after: after.into() },
    })
}

/// Whether a piece says nothing but its name.
fn is_plain(piece: &IdPiece) -> bool {
    matches!(piece, IdPiece::Piece { ty: PieceType::Text, normalisers, .. } if normalisers.is_empty())
}

/// A piece that no argument holds would be read as any other: only the last one of an id can be found in a list instead.
fn unused_pieces(
    pieces: &[IdPiece],
    arguments: &[(SmolStr, Argument)],
    is_item: bool,
    span: &Range<usize>,
    problems: &mut Problems,
) {
    let used = |name: &SmolStr| {
        arguments.iter().any(|(_, argument)| match argument {
            Argument::Fixed(_) => false,
            Argument::Piece(piece) | Argument::Text { piece, .. } => piece == name,
        })
    };
    let names: Vec<&SmolStr> = pieces
        .iter()
        .filter_map(|piece| if let IdPiece::Piece { name, .. } = piece { Some(name) } else { None })
        .collect();
    for (at, name) in names.iter().enumerate() {
        let is_last = at + 1 == names.len();
        let is_found = used(name) || is_item && is_last;
        if !is_found {
            let message =
                format!("no argument holds the piece `{name}` of the id, so every value of it would be the same fact");
            problems.error(span, message, format!("pass it on: arguments = {{ {name} = \"{{{name}}}\" }}"));
        }
    }
    if is_item && names.is_empty() {
        let message = "`key` finds one element of a list by the last piece of the id, and this id has none";
        problems.error(span, message, "name one: id = \"{event}\"");
    }
}

/// An argument that is always the same.
fn fixed(node: Node<'_>, problems: &mut Problems) -> Option<Json> {
    match node.get_ref() {
        DeValue::Boolean(truth) => Some((*truth).into()),
        DeValue::Array(items) => {
            items.iter().map(|item| fixed(item, problems)).collect::<Option<Vec<_>>>().map(Json::from)
        }
        DeValue::String(text) => Some(text.as_ref().into()),
        other => {
            let number = integer(other).filter(|number| (-INTEGER_MAX..=INTEGER_MAX).contains(number));
            if number.is_none() {
                let message = format!("an argument of a source cannot be {}", kind(other));
                problems.error(&node.span(), message, "use a text, a whole number, true or false, or a list of these");
            }
            number.map(Json::from)
        }
    }
}

/// The attribute that is another after every change; `None` within where the source names none.
fn version(body: &mut Table<'_>, schema: &FactSchema, problems: &mut Problems) -> Option<Option<SmolStr>> {
    let Some(text) = body.string("version", problems) else { return Some(None) };
    let is_version = |field: &FieldType| field.required && matches!(field.ty, ValueType::String | ValueType::Long);
    if !schema.get(text.value).is_some_and(is_version) {
        let message = format!("`{}` cannot be the version of this fact", text.value);
        let hint = "name an attribute of type String or Long that is always there and another after every change";
        problems.error(&text.content(), message, hint);
        return None;
    }
    Some(Some(text.value.into()))
}

/// A text in which only the fact's id can be filled in.
fn by_id(text: &Text<'_>, problems: &mut Problems) -> Option<Vec<IdPart>> {
    let parts = parse_text(text, problems)?;
    let part = |part: Part| match part {
        Part::Literal(text) => Some(IdPart::Literal(text.into())),
        Part::Param(name, ..) if name == "id" => Some(IdPart::Id),
        Part::Param(.., span) | Part::Attribute(.., span) => {
            problems.error(&span, "only `{id}` is allowed here", "an external fact is found by its id alone");
            None
        }
    };
    parts.into_iter().map(part).collect()
}
