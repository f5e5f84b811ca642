//! A statement of an effect: one INSERT, UPDATE or DELETE, with parameters and nothing hidden.

use super::lexer::{Kind, Token};
use super::{SqlProblem, problem};
use crate::limits::{EXPRESSION_DEPTH_MAX, SQL_PARAMS_MAX};

/// Checks a statement, and answers with how many parameters it takes.
pub(super) fn check(sql: &str, tokens: &[Token]) -> Result<usize, Vec<SqlProblem>> {
    let mut problems = Vec::new();
    let first = tokens.first();
    let verb = match first.map(|token| &token.kind) {
        Some(Kind::Word(word)) if matches!(word.as_str(), "insert" | "update" | "delete") => Some(word.as_str()),
        _ => {
            let span = first.map_or(0..sql.len(), |token| token.span.clone());
            let hint = "write one `insert`, `update` or `delete` that changes one row";
            problems.push(problem(span, "this is not a statement that changes a row", hint));
            None
        }
    };
    let has_where = shape(sql, tokens, &mut problems);
    if let (Some(verb @ ("update" | "delete")), false, Some(first)) = (verb, has_where, first) {
        let message = format!("without `where`, this would {verb} every row of the table");
        problems.push(problem(first.span.clone(), message, "say which row: `where id = $1`"));
    }
    let count = params(tokens, &mut problems);
    if problems.is_empty() { Ok(count) } else { Err(problems) }
}

/// Looks at parentheses, at what would be a second statement, and for a WHERE outside of all parentheses.
fn shape(sql: &str, tokens: &[Token], problems: &mut Vec<SqlProblem>) -> bool {
    let mut open = Vec::new();
    let mut has_where = false;
    for (at, token) in tokens.iter().enumerate() {
        let span = token.span.clone();
        match &token.kind {
            Kind::Sign(sign) if sign == "(" => open.push(span),
            Kind::Sign(sign) if sign == ")" && open.pop().is_none() => {
                problems.push(problem(span, "this `)` closes nothing", "leave it out, or open it before"));
            }
            Kind::Sign(sign) if sign == ";" => {
                let hint = "leave the `;` out, and give each statement an entry of its own in the list";
                problems.push(problem(span, "only one statement is allowed here", hint));
            }
            Kind::Word(word) if word == "where" => has_where |= open.is_empty(),
            // `with time zone` is part of the name of a type.
            Kind::Word(word) if word == "with" && !tokens.get(at + 1).is_some_and(|next| next.is_word("time")) => {
                let hint = "write what it does as statements of their own, in order";
                problems.push(problem(span, "`with` can change rows that are not counted", hint));
            }
            _ => {}
        }
        if open.len() > EXPRESSION_DEPTH_MAX {
            problems.push(problem(token.span.clone(), "the statement is nested too deeply", "put it into a function"));
            return has_where;
        }
    }
    if let Some(span) = open.pop() {
        problems.push(problem(span.start..sql.len(), "this `(` is not closed", "close it with `)`"));
    }
    has_where
}

/// `$1` to `$n`, without a gap.
fn params(tokens: &[Token], problems: &mut Vec<SqlProblem>) -> usize {
    let mut used = [false; SQL_PARAMS_MAX];
    let mut count = 0;
    for token in tokens {
        let Kind::Param(number) = token.kind else { continue };
        match number.checked_sub(1).and_then(|at| used.get_mut(at)) {
            Some(used) => {
                *used = true;
                count = count.max(number);
            }
            None => {
                let message = format!("${number} is more than the {SQL_PARAMS_MAX} parameters that are allowed");
                problems.push(problem(token.span.clone(), message, "number parameters from $1 on"));
            }
        }
    }
    let unused = used.iter().take(count).position(|used| !used);
    if let Some(missing) = unused.map(|at| at + 1) {
        let last = tokens.iter().find(|token| token.kind == Kind::Param(count));
        let span = last.map_or(0..0, |token| token.span.clone());
        let message = format!("there is ${count}, but no ${missing}");
        problems.push(problem(span, message, "number the parameters from $1 on, without a gap"));
    }
    count
}
