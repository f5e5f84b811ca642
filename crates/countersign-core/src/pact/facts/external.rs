//! Fact types whose facts live outside: `source`.

use crate::pact::call::adapter_name;
use crate::pact::diagnostic::Problems;
use crate::pact::source::{Table, Text, string, table};
use crate::pact::sql;
use crate::pact::template::{Part, parse_text};
use crate::pact::{FactSchema, FactSource, IdPart, SourceRead};
use crate::value::{FieldType, ValueType};
use smol_str::SmolStr;

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
    let name = body.required_string("tool", "name the tool that reads it: tool = \"get_account\"", problems);
    let at = body.string("at", problems).map_or(SmolStr::new_static("/structuredContent"), |at| at.value.into());
    let arguments = match body.table("arguments", problems) {
        None => {
            let hint = "say how the tool finds it: arguments = { id = \"{id}\" }";
            body.missing("arguments", hint, problems);
            return None;
        }
        Some((_, members)) => members
            .iter()
            .map(|(name, node)| {
                let text = string(source, node, "an argument", problems)?;
                Some((SmolStr::new(name.get_ref()), by_id(&text, problems)?))
            })
            .collect::<Option<Vec<_>>>(),
    };
    let version = version(body, schema, problems)?;
    Some(SourceRead::Tool { tool: name?.value.into(), arguments: arguments?, at, version })
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
        Part::Param(name, _) if name == "id" => Some(IdPart::Id),
        Part::Param(_, span) | Part::Attribute(_, _, span) => {
            problems.error(&span, "only `{id}` is allowed here", "an external fact is found by its id alone");
            None
        }
    };
    parts.into_iter().map(part).collect()
}
