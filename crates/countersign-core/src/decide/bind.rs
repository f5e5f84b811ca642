//! Binding: the parameters of an action against the schema of its type.

use super::blocked;
use crate::action::{BindProblem, Binding};
use crate::code::Code;
use crate::decision::Blocked;
use crate::pact::ActionType;
use crate::value::{Attributes, Value};
use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value as Json;
use smol_str::SmolStr;

/// Most problems reported at once; a hostile body must not make a long record.
const PROBLEMS_MAX: usize = 8;

/// How much of a pattern or a list of values a problem quotes.
const LIMIT_CHARS_MAX: usize = 200;

/// Binds parameters to an action type. Pure, so admission may do it ahead and `decide` may do it again.
pub fn bind(kind: &ActionType, params: &Json) -> Binding {
    if !kind.params.validator.is_valid(params) {
        let problems = kind.params.validator.iter_errors(params).take(PROBLEMS_MAX);
        return Err(problems.map(|error| problem(&error)).collect());
    }
    let Json::Object(params) = params else {
        return Err(vec![BindProblem { at: String::new(), message: "the parameters are not an object".to_owned() }]);
    };
    params
        .iter()
        .map(|(name, json)| match kind.params.types.get(name.as_str()) {
            Some(field) => Value::from_json(json, &field.ty, name)
                .map(|value| (SmolStr::new(name), value))
                .map_err(|error| BindProblem { at: format!("/{name}"), message: error.to_string() }),
            None => Err(BindProblem { at: format!("/{name}"), message: format!("`{name}` is not a parameter") }),
        })
        .collect::<Result<Vec<_>, _>>()
        .map(Attributes::from_fields)
        .map_err(|problem| vec![problem])
}

/// The problem in our own words: they are recorded, and must come out the same under every version of the validator (I3).
fn problem(error: &ValidationError<'_>) -> BindProblem {
    let message = match error.kind() {
        ValidationErrorKind::Required { property } => format!("{property} is required and missing"),
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            format!("not a parameter of this action: {}", unexpected.join(", "))
        }
        ValidationErrorKind::Type { .. } => "it has another type than the pact says".to_owned(),
        ValidationErrorKind::Minimum { limit } => format!("it must be at least {limit}"),
        ValidationErrorKind::Maximum { limit } => format!("it must be at most {limit}"),
        ValidationErrorKind::ExclusiveMinimum { limit } => format!("it must be more than {limit}"),
        ValidationErrorKind::ExclusiveMaximum { limit } => format!("it must be less than {limit}"),
        ValidationErrorKind::MinLength { limit } => format!("it must have at least {limit} characters"),
        ValidationErrorKind::MaxLength { limit } => format!("it must have at most {limit} characters"),
        ValidationErrorKind::MinItems { limit } => format!("it must have at least {limit} items"),
        ValidationErrorKind::MaxItems { limit } => format!("it must have at most {limit} items"),
        ValidationErrorKind::Pattern { pattern } => format!("it must match {}", shorten(pattern)),
        ValidationErrorKind::Enum { options } => format!("it must be one of {}", shorten(&options.to_string())),
        ValidationErrorKind::Constant { expected_value } => {
            format!("it must be {}", shorten(&expected_value.to_string()))
        }
        kind => format!("it does not satisfy `{}` of the pact", kind.keyword()),
    };
    BindProblem { at: error.instance_path().to_string(), message }
}

/// A pact's own words, as far as a record has room for them.
fn shorten(text: &str) -> String {
    match text.char_indices().nth(LIMIT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

pub(super) fn invalid_params(problems: &[BindProblem]) -> Blocked {
    let list: Vec<_> = problems
        .iter()
        .map(|problem| match problem.at.as_str() {
            "" => problem.message.clone(),
            at => format!("{at}: {}", problem.message),
        })
        .collect();
    let hint = "mend the parameters; their schema is in the pact (`countersign pact check --manifest`)";
    blocked(Code::InvalidParams, format!("the parameters do not fit the pact: {}", list.join("; ")), hint)
}
