//! Binding: the parameters of an action against the schema of its type.

#[cfg(test)]
mod tests;

use crate::action::Binding;
use crate::json::{Members, to_map};
use crate::pact::ActionType;
use crate::reason::{BindProblem, Misfit};
use crate::value::{Attributes, Value, ValueError};
use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::{Map, Value as Json};
use smol_str::SmolStr;

/// Most problems reported at once; a hostile body must not make a long record.
const PROBLEMS_MAX: usize = 8;

/// How much of a pattern or a list of values a problem quotes.
const LIMIT_CHARS_MAX: usize = 200;

/// Binds parameters to an action type. Pure, so admission may do it ahead and `decide` may do it again.
///
/// What fits is mostly bound by the slots that the schema was compiled into. Whatever they do not take is a matter for the schema
/// itself, which alone says what is wrong.
pub fn bind(kind: &ActionType, params: &Members<'_>) -> Binding {
    match kind.params.slots.as_ref().and_then(|slots| slots.bind(params)) {
        Some(bound) => Ok(bound),
        None => bind_by_schema(kind, to_map(params)),
    }
}

/// Binds parameters by the JSON Schema as it was written. For what does not come as the text of a body.
pub fn bind_by_schema(kind: &ActionType, params: Map<String, Json>) -> Binding {
    let declared = &kind.params;
    let params = Json::Object(params);
    if !declared.validator.is_valid(&params) {
        let problems = declared.validator.iter_errors(&params).take(PROBLEMS_MAX);
        return Err(problems.map(|error| problem(&error)).collect());
    }
    let Json::Object(params) = params else {
        return Err(vec![BindProblem { at: String::new(), what: Misfit::NotAnObject }]);
    };
    params
        .iter()
        .map(|(name, json)| match declared.types.get(name.as_str()) {
            Some(field) => Value::from_json(json, &field.ty, name)
                .map(|value| (SmolStr::new(name), value))
                .map_err(|error| BindProblem { at: format!("/{name}"), what: misfit(error) }),
            None => {
                let what = Misfit::NotParameters { names: vec![name.clone()] };
                Err(BindProblem { at: String::new(), what })
            }
        })
        .collect::<Result<Vec<_>, _>>()
        .map(Attributes::from_fields)
        .map_err(|problem| vec![problem])
}

/// What a schema accepted and a value cannot hold.
fn misfit(error: ValueError) -> Misfit {
    match error {
        ValueError::Type { .. } => Misfit::Type,
        ValueError::Number(_) => Misfit::Number,
        ValueError::Unknown(name) => Misfit::NotParameters { names: vec![name] },
        ValueError::Missing(name) => Misfit::Missing { name },
    }
}

/// The problem as our own data: it is recorded, and must come out the same under every version of the validator (I3).
fn problem(error: &ValidationError<'_>) -> BindProblem {
    let what = match error.kind() {
        ValidationErrorKind::Required { property } => {
            Misfit::Missing { name: property.as_str().map_or_else(|| property.to_string(), str::to_owned) }
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => Misfit::NotParameters { names: unexpected.clone() },
        ValidationErrorKind::Type { .. } => Misfit::Type,
        ValidationErrorKind::Minimum { limit } => Misfit::AtLeast { limit: limit.to_string() },
        ValidationErrorKind::Maximum { limit } => Misfit::AtMost { limit: limit.to_string() },
        ValidationErrorKind::ExclusiveMinimum { limit } => Misfit::MoreThan { limit: limit.to_string() },
        ValidationErrorKind::ExclusiveMaximum { limit } => Misfit::LessThan { limit: limit.to_string() },
        ValidationErrorKind::MinLength { limit } => Misfit::MinLength { limit: *limit },
        ValidationErrorKind::MaxLength { limit } => Misfit::MaxLength { limit: *limit },
        ValidationErrorKind::MinItems { limit } => Misfit::MinItems { limit: *limit },
        ValidationErrorKind::MaxItems { limit } => Misfit::MaxItems { limit: *limit },
        ValidationErrorKind::Pattern { pattern } => Misfit::Pattern { pattern: shorten(pattern) },
        ValidationErrorKind::Enum { options } => Misfit::Options { options: shorten(&options.to_string()) },
        ValidationErrorKind::Constant { expected_value } => {
            Misfit::Constant { value: shorten(&expected_value.to_string()) }
        }
        kind => Misfit::Keyword { keyword: kind.keyword().to_owned() },
    };
    BindProblem { at: error.instance_path().to_string(), what }
}

/// A pact's own words, as far as a record has room for them.
fn shorten(text: &str) -> String {
    match text.char_indices().nth(LIMIT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
