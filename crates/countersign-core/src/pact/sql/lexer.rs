//! SQL as words, numbers, strings and signs, by PostgreSQL's rules.
//!
//! What two readers could take for different things is refused instead of guessed: comments, strings with escapes and
//! strings in dollars. So nothing can hide from the checks that come after.

use super::{SqlProblem, problem};
use std::ops::Range;

/// One piece of SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) span: Range<usize>,
}

/// What a piece is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// A keyword or a name without quotes, in lower case, as PostgreSQL reads it.
    Word(String),
    /// A name in double quotes, without them.
    Quoted(String),
    /// A number.
    Number,
    /// A string.
    Text,
    /// `$1`, `$2`, …
    Param(usize),
    /// An operator or a punctuation mark.
    Sign(String),
}

impl Token {
    pub(super) fn is_word(&self, word: &str) -> bool {
        matches!(&self.kind, Kind::Word(found) if found == word)
    }

    pub(super) fn is_sign(&self, sign: &str) -> bool {
        matches!(&self.kind, Kind::Sign(found) if found == sign)
    }
}

/// The characters that operators are made of.
const OPERATOR: &str = "+-*/<>=~!@#%^&|`?";

/// Reads all of it, or says where that ends.
pub(super) fn read(sql: &str) -> Result<Vec<Token>, SqlProblem> {
    let mut lexer = Lexer { sql, at: 0 };
    let mut tokens = Vec::new();
    while let Some(first) = lexer.peek() {
        if first.is_ascii_whitespace() {
            lexer.at += 1;
            continue;
        }
        let start = lexer.at;
        let kind = lexer.token(first)?;
        tokens.push(Token { kind, span: start..lexer.at });
    }
    Ok(tokens)
}

struct Lexer<'a> {
    sql: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        self.sql.get(self.at..).unwrap_or("")
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Takes characters while they fit.
    fn take(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.find(|c| !fits(c)).unwrap_or(rest.len());
        self.at += len;
        rest.get(..len).unwrap_or("")
    }

    fn token(&mut self, first: char) -> Result<Kind, SqlProblem> {
        match first {
            '\'' => self.quoted('\'').map(|_| Kind::Text),
            '"' => self.quoted('"').map(Kind::Quoted),
            '$' => self.param(),
            '0'..='9' => self.number(),
            'a'..='z' | 'A'..='Z' | '_' => self.word(),
            '(' | ')' | ',' | ';' | '.' | '[' | ']' | ':' => Ok(self.punctuation()),
            sign if OPERATOR.contains(sign) => self.operator(),
            other => Err(problem(
                self.at..self.at + other.len_utf8(),
                format!("`{}` is not allowed here", other.escape_debug()),
                "names with other than letters, digits and _ are written in double quotes",
            )),
        }
    }

    fn word(&mut self) -> Result<Kind, SqlProblem> {
        let start = self.at;
        let word = self.take(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$').to_ascii_lowercase();
        let prefix = match (word.as_str(), self.peek()) {
            ("e" | "b" | "x" | "n", Some('\'')) => true,
            ("u", Some('&')) => matches!(self.rest().chars().nth(1), Some('\'' | '"')),
            _ => false,
        };
        if prefix {
            let message = "strings with escapes are not supported";
            return Err(problem(start..self.at + 1, message, "write a plain string: 'it''s', or use a parameter"));
        }
        Ok(Kind::Word(word))
    }

    /// A string or a quoted name; a doubled quote stands for itself.
    fn quoted(&mut self, quote: char) -> Result<String, SqlProblem> {
        let start = self.at;
        self.at += 1;
        let mut inner = String::new();
        loop {
            inner.push_str(self.take(|c| c != quote && c != '\0'));
            if self.peek() != Some(quote) {
                let message = format!("the {quote} that opens here is not closed");
                return Err(problem(start..self.sql.len(), message, format!("add a {quote} where it ends")));
            }
            self.at += 1;
            if self.peek() != Some(quote) {
                break;
            }
            inner.push(quote);
            self.at += 1;
        }
        if quote == '"' && inner.is_empty() {
            return Err(problem(start..self.at, "a name cannot be empty", "write the name between the quotes"));
        }
        Ok(inner)
    }

    fn param(&mut self) -> Result<Kind, SqlProblem> {
        let start = self.at;
        self.at += 1;
        let digits = self.take(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$');
        let number = digits.parse().ok().filter(|number: &usize| *number > 0 && number.to_string() == digits);
        number.map(Kind::Param).ok_or_else(|| {
            let hint = "parameters are written $1, $2, …; strings are written in single quotes";
            problem(start..self.at, format!("`${digits}` is not a parameter"), hint)
        })
    }

    fn number(&mut self) -> Result<Kind, SqlProblem> {
        let start = self.at;
        self.take(|c| c.is_ascii_digit());
        if self.peek() == Some('.') {
            self.at += 1;
            self.take(|c| c.is_ascii_digit());
        }
        let junk = self.take(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$' || c == '.');
        if junk.is_empty() {
            return Ok(Kind::Number);
        }
        let message = format!("`{}` is not a number", self.sql.get(start..self.at).unwrap_or(""));
        Err(problem(start..self.at, message, "write digits, with a point where it has a fraction"))
    }

    fn punctuation(&mut self) -> Kind {
        let len = if self.rest().starts_with("::") { 2 } else { 1 };
        let sign = self.rest().get(..len).unwrap_or("").to_owned();
        self.at += len;
        Kind::Sign(sign)
    }

    fn operator(&mut self) -> Result<Kind, SqlProblem> {
        let start = self.at;
        let sign = self.take(|c| OPERATOR.contains(c));
        // PostgreSQL begins a comment inside a row of signs, too.
        match sign.find("--").or_else(|| sign.find("/*")) {
            None => Ok(Kind::Sign(sign.to_owned())),
            Some(at) => Err(problem(
                start + at..start + at + 2,
                "comments are not supported: what is behind one is easily overlooked",
                "say it in a comment of the pact, beginning with #",
            )),
        }
    }
}
