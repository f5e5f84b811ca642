//! SQL in pacts: the query that a fact type is read by, and the statements of an effect.
//!
//! A query is checked against a small grammar of what is allowed, so that what no one thought of is refused and not passed: the
//! worker must be able to lock exactly the one row that it reads. Statements may be richer, since PostgreSQL itself says how
//! many rows each has changed; here it is only made sure that each is one statement and that its parameters are parameters.
//! Nothing here knows the tables. What they hold is found out when the query runs.

mod expression;
mod lexer;
mod query;
mod statement;

use super::FactSchema;
use crate::limits::SQL_BYTES_MAX;
use lexer::Token;
use std::ops::Range;

/// What is wrong with a piece of SQL: the bytes of it, what is wrong with them, and what to do about it.
pub type SqlProblem = (Range<usize>, String, String);

/// Checks the query of a fact type: one SELECT from one table that finds at most one row by its key, and gives exactly the
/// attributes of the type.
pub fn check_query(sql: &str, attributes: &FactSchema) -> Result<(), Vec<SqlProblem>> {
    let tokens = read(sql).map_err(|problem| vec![problem])?;
    let query = query::parse(sql, &tokens).map_err(|problem| vec![problem])?;
    let problems = query.problems(attributes);
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// The table that a query reads, as the query names it; `None` for what `check_query` refuses whatever the attributes.
pub fn query_table(sql: &str) -> Option<&str> {
    let query = query::parse(sql, &read(sql).ok()?).ok()?;
    sql.get(query.table)
}

/// Checks a statement of an effect: one INSERT, UPDATE or DELETE. Answers with how many parameters it takes.
pub fn check_statement(sql: &str) -> Result<usize, Vec<SqlProblem>> {
    let tokens = read(sql).map_err(|problem| vec![problem])?;
    statement::check(sql, &tokens)
}

fn read(sql: &str) -> Result<Vec<Token>, SqlProblem> {
    if sql.len() > SQL_BYTES_MAX {
        let message = format!("{} bytes of SQL are more than the {SQL_BYTES_MAX} that are allowed", sql.len());
        return Err((0..sql.len(), message, "put what is long into a view or a function of the database".to_owned()));
    }
    lexer::read(sql)
}

/// A problem with both sentences.
fn problem(span: Range<usize>, message: impl Into<String>, hint: impl Into<String>) -> SqlProblem {
    (span, message.into(), hint.into())
}
