//! The expressions that a query may use: columns of its one row, constants, and functions that depend on nothing else.

use super::lexer::{Kind, Token};
use super::{SqlProblem, problem};
use crate::limits::EXPRESSION_DEPTH_MAX;
use std::ops::Range;

/// Functions whose answer depends on their arguments alone, and that look at one row.
const FUNCTIONS: &str = "\
    abs array_remove btrim ceil coalesce concat floor greatest least left length lower ltrim mod nullif \
    replace right round rtrim substr trunc upper";

/// Functions over many rows, to say so.
const AGGREGATES: &str = "\
    array_agg avg bit_and bit_or bool_and bool_or count every json_agg jsonb_agg max min stddev string_agg \
    sum variance";

/// Operators between two values.
const OPERATORS: [&str; 13] = ["=", "<>", "!=", "<", ">", "<=", ">=", "+", "-", "*", "/", "%", "||"];

/// Words that end an expression or are no names, each of which PostgreSQL reserves.
const RESERVED: &str = "\
    all and any array as asc between case cast collate cross current_date current_time current_timestamp \
    current_user desc distinct else end except exists fetch for from full group having in inner intersect \
    into is join left like limit natural not offset on only or order over returning select session_user union \
    where window with";

fn among(words: &str, word: &str) -> bool {
    words.split(' ').any(|known| known == word)
}

/// What an expression is, as far as it matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shape {
    /// A column, by its own name, perhaps cast.
    Column(String),
    /// `$1`, perhaps cast.
    Key,
    /// A column that equals `$1`.
    KeyIs,
    /// Anything else.
    Other,
}

/// A reader of tokens.
pub(super) struct Reader<'a> {
    tokens: &'a [Token],
    at: usize,
    end: usize,
    depth: usize,
    /// Where `$1` is used.
    pub(super) keys: Vec<Range<usize>>,
    /// What columns were qualified with, and where.
    pub(super) qualifiers: Vec<(String, Range<usize>)>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(sql: &str, tokens: &'a [Token]) -> Self {
        Self { tokens, at: 0, end: sql.len(), depth: 0, keys: Vec::new(), qualifiers: Vec::new() }
    }

    pub(super) fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at)
    }

    fn second(&self) -> Option<&'a Token> {
        self.tokens.get(self.at + 1)
    }

    pub(super) fn word(&mut self, word: &str) -> bool {
        let there = self.peek().is_some_and(|token| token.is_word(word));
        self.at += usize::from(there);
        there
    }

    pub(super) fn sign(&mut self, sign: &str) -> bool {
        let there = self.peek().is_some_and(|token| token.is_sign(sign));
        self.at += usize::from(there);
        there
    }

    /// Where the reader is: the next token, or the end.
    pub(super) fn here(&self) -> Range<usize> {
        self.peek().map_or(self.end..self.end, |token| token.span.clone())
    }

    /// Where the token before ended.
    pub(super) fn behind(&self) -> usize {
        self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or(0, |token| token.span.end)
    }

    /// A name that is not reserved, as PostgreSQL knows it.
    pub(super) fn name(&mut self) -> Option<String> {
        let name = match &self.peek()?.kind {
            Kind::Word(word) if !among(RESERVED, word) => word.clone(),
            Kind::Quoted(name) => name.clone(),
            _ => return None,
        };
        self.at += 1;
        Some(name)
    }

    /// A problem at the next token.
    pub(super) fn unexpected(&self, wanted: &str, hint: &str) -> SqlProblem {
        match self.peek() {
            None => problem(self.here(), format!("{wanted} is missing at the end"), hint),
            Some(token) => {
                known(token).unwrap_or_else(|| problem(self.here(), format!("{wanted} is expected here"), hint))
            }
        }
    }

    /// An expression. `logic` says whether AND and OR belong to it.
    pub(super) fn expression(&mut self, logic: bool) -> Result<Shape, SqlProblem> {
        self.depth += 1;
        if self.depth > EXPRESSION_DEPTH_MAX {
            return Err(problem(self.here(), "the expression is nested too deeply", "put it into a view"));
        }
        let mut shape = self.operand()?;
        while let Some(token) = self.peek() {
            let equals = token.is_sign("=");
            if !self.operator(logic) {
                if token.is_word("in") || (token.is_word("not") && self.second().is_some_and(|t| t.is_word("in"))) {
                    self.at += 1 + usize::from(token.is_word("not"));
                    self.list("in")?;
                    shape = Shape::Other;
                    continue;
                }
                break;
            }
            let right = self.operand()?;
            shape = match (&shape, &right) {
                (Shape::Column(_), Shape::Key) | (Shape::Key, Shape::Column(_)) if equals => Shape::KeyIs,
                _ => Shape::Other,
            };
        }
        self.depth -= 1;
        Ok(shape)
    }

    /// Steps over an operator between two operands.
    fn operator(&mut self, logic: bool) -> bool {
        let Some(token) = self.peek() else { return false };
        let like = |token: &Token| token.is_word("like") || token.is_word("ilike");
        let len = match &token.kind {
            Kind::Sign(sign) if OPERATORS.contains(&sign.as_str()) => 1,
            Kind::Word(word) if logic && (word == "and" || word == "or") => 1,
            Kind::Word(_) if like(token) => 1,
            Kind::Word(word) if word == "not" && self.second().is_some_and(like) => 2,
            _ => return false,
        };
        self.at += len;
        true
    }

    fn operand(&mut self) -> Result<Shape, SqlProblem> {
        let mut prefixed = false;
        while self.word("not") || self.sign("-") || self.sign("+") {
            prefixed = true;
        }
        let mut shape = self.plain()?;
        loop {
            if self.sign("::") {
                self.ty()?;
            } else if self.word("is") {
                self.word("not");
                if !(self.word("null") || self.word("true") || self.word("false") || self.word("unknown")) {
                    return Err(self.unexpected("`null`, `true` or `false`", "write `is null` or `is not null`"));
                }
                shape = Shape::Other;
            } else {
                break;
            }
        }
        Ok(if prefixed { Shape::Other } else { shape })
    }

    fn plain(&mut self) -> Result<Shape, SqlProblem> {
        let hint = "a query may use columns, constants and simple functions";
        let Some(token) = self.peek() else { return Err(self.unexpected("a value", hint)) };
        match &token.kind {
            Kind::Number | Kind::Text => {
                self.at += 1;
                Ok(Shape::Other)
            }
            Kind::Param(1) => {
                self.keys.push(token.span.clone());
                self.at += 1;
                Ok(Shape::Key)
            }
            Kind::Param(number) => {
                let message = format!("there is no ${number}: a query has only $1, the id of the fact");
                Err(problem(token.span.clone(), message, "compare further columns with constants"))
            }
            Kind::Sign(sign) if sign == "(" => self.parenthesis(),
            Kind::Word(word) if word == "cast" => self.cast(),
            Kind::Word(word) if word == "extract" && self.second().is_some_and(|next| next.is_sign("(")) => {
                self.extract()
            }
            Kind::Word(word) if matches!(word.as_str(), "true" | "false" | "null") => {
                self.at += 1;
                Ok(Shape::Other)
            }
            Kind::Word(word) if self.second().is_some_and(|next| next.is_sign("(")) => self.function(word),
            _ => self.column(),
        }
    }

    fn parenthesis(&mut self) -> Result<Shape, SqlProblem> {
        self.at += 1;
        self.expression(true)?;
        self.close()?;
        Ok(Shape::Other)
    }

    fn close(&mut self) -> Result<(), SqlProblem> {
        if self.sign(")") { Ok(()) } else { Err(self.unexpected("`)`", "close the parenthesis")) }
    }

    fn cast(&mut self) -> Result<Shape, SqlProblem> {
        self.at += 1;
        if !self.sign("(") {
            return Err(self.unexpected("`(`", "write `cast(column as type)`"));
        }
        let shape = self.expression(true)?;
        if !self.word("as") {
            return Err(self.unexpected("`as`", "write `cast(column as type)`"));
        }
        self.ty()?;
        self.close()?;
        Ok(shape)
    }

    /// `extract(epoch from column)`: facts have no times, so a time is read as a number.
    fn extract(&mut self) -> Result<Shape, SqlProblem> {
        self.at += 2;
        if self.name().is_none() || !self.word("from") {
            return Err(self.unexpected("`epoch from`", "write `extract(epoch from column)::bigint`"));
        }
        self.expression(true)?;
        self.close()?;
        Ok(Shape::Other)
    }

    fn function(&mut self, name: &str) -> Result<Shape, SqlProblem> {
        let span = self.here();
        if among(AGGREGATES, name) {
            let message = format!("`{name}` looks at many rows, and only one can be locked");
            return Err(problem(span, message, "keep the figure in a column of a row of its own, and read that"));
        }
        if !among(FUNCTIONS, name) {
            let known = FUNCTIONS.replace(' ', ", ");
            let message = format!("`{name}` is not among the functions that depend on nothing but the row");
            return Err(problem(span, message, format!("use one of {known}, or decide in a condition of the pact")));
        }
        self.at += 1;
        self.list(name)?;
        if self.peek().is_some_and(|token| token.is_word("over") || token.is_word("filter")) {
            return Err(self.unexpected("an operator", "leave it out"));
        }
        Ok(Shape::Other)
    }

    /// `(a, b, …)`
    fn list(&mut self, before: &str) -> Result<(), SqlProblem> {
        if !self.sign("(") {
            return Err(self.unexpected("`(`", &format!("write a list of constants behind `{before}`")));
        }
        loop {
            self.expression(true)?;
            if !self.sign(",") {
                return self.close();
            }
        }
    }

    fn column(&mut self) -> Result<Shape, SqlProblem> {
        let hint = "a query may use columns, constants and simple functions";
        let span = self.here();
        let Some(mut name) = self.name() else { return Err(self.unexpected("a column", hint)) };
        if self.sign(".") {
            self.qualifiers.push((name, span));
            name = self.name().ok_or_else(|| self.unexpected("a column", "write `table.column`"))?;
        }
        Ok(Shape::Column(name))
    }

    fn zone(&mut self) -> bool {
        self.word("time") && self.word("zone")
    }

    /// The name of a type.
    fn ty(&mut self) -> Result<(), SqlProblem> {
        let hint = "write the name of a type, such as `text` or `bigint`";
        let Some(name) = self.name() else { return Err(self.unexpected("a type", hint)) };
        match name.as_str() {
            "double" => _ = self.word("precision"),
            "character" => _ = self.word("varying"),
            "timestamp" | "time" if (self.word("with") || self.word("without")) && !self.zone() => {
                return Err(self.unexpected("`time zone`", "write `timestamp with time zone`"));
            }
            _ if self.sign(".") && self.name().is_none() => return Err(self.unexpected("a type", hint)),
            _ => {}
        }
        if self.sign("(") {
            while self.peek().is_some_and(|token| token.kind == Kind::Number || token.is_sign(",")) {
                self.at += 1;
            }
            self.close()?;
        }
        while self.sign("[") {
            if !self.sign("]") {
                return Err(self.unexpected("`]`", "write `type[]`"));
            }
        }
        Ok(())
    }
}

/// What is often written and cannot be, with its reason.
fn known(token: &Token) -> Option<SqlProblem> {
    let join = "read the other table's row as a fact of its own: each read locks one row";
    let (message, hint) = match &token.kind {
        Kind::Sign(sign) => match sign.as_str() {
            "*" => ("`*` would change with the table", "name a column for each attribute"),
            ";" => ("only one query is allowed here, without a semicolon", "leave the `;` out"),
            "[" => ("single elements of arrays cannot be read", "read the whole array, as a set"),
            _ => return None,
        },
        Kind::Word(word) => match word.as_str() {
            "distinct" => {
                ("`distinct` merges rows, which then cannot be locked", "leave it out: the key finds one row")
            }
            "join" | "inner" | "left" | "right" | "full" | "cross" | "natural" | "lateral" => {
                ("a join reads several rows, and one query locks one row", join)
            }
            "select" | "exists" => ("a subquery reads rows that are not locked", join),
            "with" => ("`with` reads rows that are not locked", join),
            "group" | "having" => ("`group by` merges rows, which then cannot be locked", "read one row by its key"),
            "union" | "intersect" | "except" => ("a union reads several rows", join),
            "limit" | "offset" | "fetch" => {
                ("`limit` picks a row by chance", "find exactly one row by its key: `id = $1`")
            }
            "order" => ("one row has no order", "leave `order by` out"),
            "window" | "over" | "filter" => {
                ("windows look at many rows, and only one can be locked", "read one row by its key")
            }
            "for" => ("the gate adds `for update` by itself", "leave the locking out"),
            "or" => {
                ("an `or` here lets other rows than the fact's match", "put it in parentheses: `id = $1 and (a or b)`")
            }
            "case" => ("`case` is not supported", "read the columns, and decide in a condition of the pact"),
            "between" => ("`between` is not supported", "write `a >= 1 and a <= 2`"),
            "current_date" | "current_time" | "current_timestamp" | "current_user" | "session_user" => {
                ("what depends on time or on the connection is not part of the row", "use `context.now` in a condition")
            }
            _ => return None,
        },
        _ => return None,
    };
    Some(problem(token.span.clone(), message, hint))
}
