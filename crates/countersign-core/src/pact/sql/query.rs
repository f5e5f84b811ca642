//! The query of a fact type: `select columns from table where key = $1`, and further conditions on the same row.

use super::expression::{Reader, Shape};
use super::lexer::{Kind, Token};
use super::{SqlProblem, problem};
use crate::pact::FactSchema;
use crate::pact::diagnostic::closest;
use std::collections::BTreeSet;
use std::ops::Range;

const FORM: &str = "write `select status, balance from accounts where id = $1`";

/// A query of the right form.
pub(super) struct Query {
    /// Where its table is named.
    pub(super) table: Range<usize>,
    columns: Vec<Column>,
    list: Range<usize>,
}

struct Column {
    name: Option<String>,
    span: Range<usize>,
}

/// Reads a query. Stops at the first thing that is not of the form, since nothing sensible can be said about the rest.
pub(super) fn parse(sql: &str, tokens: &[Token]) -> Result<Query, SqlProblem> {
    let mut reader = Reader::new(sql, tokens);
    if !reader.word("select") {
        return Err(reader.unexpected("`select`", FORM));
    }
    let (columns, list) = columns(&mut reader)?;
    if !reader.word("from") {
        return Err(reader.unexpected("`from`", FORM));
    }
    let (table, names) = table(&mut reader)?;
    if !reader.word("where") {
        return Err(match reader.peek() {
            Some(token) if token.is_sign(",") => {
                let hint = "read the other table's row as a fact of its own: each read locks one row";
                problem(reader.here(), "a second table reads several rows, and one query locks one row", hint)
            }
            _ => reader.unexpected("`where`", "find the row by its key: `where id = $1`"),
        });
    }
    conditions(&mut reader)?;
    if let Some((qualifier, span)) = reader.qualifiers.iter().find(|(qualifier, _)| !names.contains(qualifier)) {
        let hint = format!("write `{}`, or leave it out", names.last().map_or("", String::as_str));
        return Err(problem(span.clone(), format!("`{qualifier}` is not the table of this query"), hint));
    }
    Ok(Query { table, columns, list })
}

fn columns(reader: &mut Reader<'_>) -> Result<(Vec<Column>, Range<usize>), SqlProblem> {
    let start = reader.here().start;
    let mut columns = Vec::new();
    loop {
        let from = reader.here().start;
        let shape = reader.expression(true)?;
        let name = if reader.word("as") {
            Some(reader.name().ok_or_else(|| reader.unexpected("a name", "name the column after its attribute"))?)
        } else {
            reader.name().or(match shape {
                Shape::Column(name) => Some(name),
                _ => None,
            })
        };
        columns.push(Column { name, span: from..reader.behind() });
        if !reader.sign(",") {
            let list = start..reader.behind();
            return match reader.keys.first() {
                None => Ok((columns, list)),
                Some(key) => Err(problem(key.clone(), "$1 is the key, and no attribute", FORM)),
            };
        }
    }
}

/// The table, and what its columns may be qualified with.
fn table(reader: &mut Reader<'_>) -> Result<(Range<usize>, Vec<String>), SqlProblem> {
    let start = reader.here().start;
    let table = "a table";
    let mut name = reader.name().ok_or_else(|| reader.unexpected(table, FORM))?;
    if reader.sign(".") {
        name = reader.name().ok_or_else(|| reader.unexpected(table, "write `schema.table`"))?;
    }
    if reader.peek().is_some_and(|token| token.is_sign("(")) {
        return Err(problem(reader.here(), "a function's rows cannot be locked", "read from a table"));
    }
    let span = start..reader.behind();
    let aliased = reader.word("as");
    // An alias takes the place of the name, and PostgreSQL then does not know the name any more.
    let alias = match reader.peek().map(|token| &token.kind) {
        Some(Kind::Word(word)) if word == "tablesample" => None,
        _ => reader.name(),
    };
    if aliased && alias.is_none() {
        return Err(reader.unexpected("a name", "leave `as` out, or name the table behind it"));
    }
    Ok((span, vec![alias.unwrap_or(name)]))
}

fn conditions(reader: &mut Reader<'_>) -> Result<(), SqlProblem> {
    let start = reader.here().start;
    let mut found = false;
    loop {
        found |= reader.expression(false)? == Shape::KeyIs;
        if !reader.word("and") {
            break;
        }
    }
    if reader.peek().is_some() {
        return Err(reader.unexpected("the end of the query", "leave this out"));
    }
    let span = start..reader.behind();
    if !found {
        let message = "no condition says that a column equals the id of the fact";
        return Err(problem(span, message, "find the row by its key: `where id = $1`"));
    }
    match reader.keys.get(1) {
        None => Ok(()),
        Some(again) => Err(problem(again.clone(), "$1 is used twice", "compare the key with $1, and nothing else")),
    }
}

impl Query {
    /// Where the columns are not the attributes of the type.
    pub(super) fn problems(&self, attributes: &FactSchema) -> Vec<SqlProblem> {
        let mut problems = Vec::new();
        let mut seen = BTreeSet::new();
        // What a mistyped column most likely meant has been told with it, and is not told again as missing.
        let mut meant = BTreeSet::new();
        let names = || attributes.keys().map(|name| name.as_str());
        for column in &self.columns {
            let span = column.span.clone();
            match column.name.as_deref() {
                None => problems.push(problem(span, "this column has no name", "name its attribute: `… as status`")),
                Some(name) if !attributes.contains_key(name) => {
                    let close = closest(name, names());
                    meant.extend(close);
                    let hint = match close {
                        Some(close) => format!("did you mean `{close}`? write `{name} as {}`", quoted(close)),
                        None => "leave it out, or declare the attribute".to_owned(),
                    };
                    problems.push(problem(span, format!("`{name}` is not an attribute of the fact type"), hint));
                }
                Some(name) if !seen.insert(name) => {
                    problems.push(problem(span, format!("`{name}` is there twice"), "leave one of them out"));
                }
                Some(_) => {}
            }
        }
        for missing in names().filter(|name| !seen.contains(name) && !meant.contains(name)) {
            let message = format!("no column gives the attribute `{missing}`");
            let hint = format!("add the column, or name it: `… as {}`", quoted(missing));
            problems.push(problem(self.list.clone(), message, hint));
        }
        problems
    }
}

/// A name as it must be written for PostgreSQL to keep its capitals.
fn quoted(name: &str) -> String {
    if name.chars().any(|c| c.is_ascii_uppercase()) { format!("\"{name}\"") } else { name.to_owned() }
}
