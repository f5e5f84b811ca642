//! What is wrong with a parameter, in words.

use crate::reason::Misfit;
use crate::screen::visible::one_line;
use std::fmt;

/// How many of the names that a caller made up are repeated, and how much of each.
const NAMES_MAX: usize = 8;
const NAME_BYTES_MAX: usize = 80;

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { name } => write!(f, "\"{name}\" is required and missing"),
            Self::NotParameters { names } => {
                // They are the caller's words, and stand as such.
                let quoted = |name: &String| serde_json::Value::from(one_line(name, NAME_BYTES_MAX)).to_string();
                let shown: Vec<String> = names.iter().take(NAMES_MAX).map(quoted).collect();
                write!(f, "not a parameter of this action: {}", shown.join(", "))?;
                match names.len().saturating_sub(NAMES_MAX) {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
            Self::NotAnObject => f.write_str("the parameters are not an object"),
            Self::Type => f.write_str("it has the wrong type; the pact says which"),
            Self::Digits { limit } => write!(f, "it must have at most {limit} digits behind its point"),
            Self::Number => {
                f.write_str("it must be a whole number between -(2^53-1) and 2^53-1; write money in minor units")
            }
            Self::AtLeast { limit } => write!(f, "it must be at least {limit}"),
            Self::AtMost { limit } => write!(f, "it must be at most {limit}"),
            Self::MoreThan { limit } => write!(f, "it must be more than {limit}"),
            Self::LessThan { limit } => write!(f, "it must be less than {limit}"),
            Self::MinLength { limit } => write!(f, "it must have at least {limit} characters"),
            Self::MaxLength { limit } => write!(f, "it must have at most {limit} characters"),
            Self::MinItems { limit } => write!(f, "it must have at least {limit} items"),
            Self::MaxItems { limit } => write!(f, "it must have at most {limit} items"),
            Self::Pattern { pattern } => write!(f, "it must match {pattern}"),
            Self::Options { options } => write!(f, "it must be one of {options}"),
            Self::Constant { value } => write!(f, "it must be {value}"),
            Self::Keyword { keyword } => write!(f, "it does not satisfy `{keyword}` of the pact"),
        }
    }
}
