//! Binding: the parameters of an action against the schema of its type.

#[cfg(test)]
mod tests;

use crate::action::Binding;
use crate::decimal::{self, Inexact};
use crate::json::{Members, to_map};
use crate::pact::ActionType;
use crate::pact::lower::{instance, scale_at, without_nulls};
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
    let mut inexact = Vec::new();
    let lowered = instance(&params, &declared.lowered, "", &mut |at, why, scale| {
        let what = match why {
            Inexact::NotANumber => Misfit::Type,
            Inexact::Digits => Misfit::Digits { limit: scale.into() },
            Inexact::Range => Misfit::Number,
        };
        inexact.push(BindProblem { at: at.to_owned(), what });
    });
    if !inexact.is_empty() {
        inexact.truncate(PROBLEMS_MAX);
        return Err(inexact);
    }
    if !declared.validator.is_valid(&lowered) {
        let problems = declared.validator.iter_errors(&lowered).take(PROBLEMS_MAX);
        return Err(problems.map(|error| problem(&error, &declared.lowered)).collect());
    }
    let Json::Object(params) = without_nulls(&params) else {
        return Err(vec![BindProblem { at: String::new(), what: Misfit::NotAnObject }]);
    };
    // What is free-form has no type: the schema has accepted it, and no condition reads it.
    let typed = params.iter().filter_map(|(name, json)| Some((name, json, declared.types.get(name.as_str())?)));
    typed
        .map(|(name, json, field)| {
            Value::from_json(json, &field.ty, name)
                .map(|value| (SmolStr::new(name), value))
                .map_err(|error| BindProblem { at: format!("/{name}"), what: misfit(error) })
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
        ValueError::Digits { scale, .. } => Misfit::Digits { limit: scale.into() },
        ValueError::Unknown(name) => Misfit::NotParameters { names: vec![name] },
        ValueError::Missing(name) => Misfit::Missing { name },
    }
}

/// The problem as our own data: it is recorded, and must come out the same under every version of the validator (I3).
fn problem(error: &ValidationError<'_>, lowered: &Json) -> BindProblem {
    let at = error.instance_path().to_string();
    // A limit of money is said in the number that was sent, not in its units.
    let limit_text = |limit: &dyn std::fmt::Display| {
        let units = scale_at(lowered, &at).and_then(|scale| Some((limit.to_string().parse().ok()?, scale)));
        units.map_or_else(|| limit.to_string(), |(units, scale)| decimal::text(units, scale))
    };
    let what = match error.kind() {
        ValidationErrorKind::Required { property } => {
            Misfit::Missing { name: property.as_str().map_or_else(|| property.to_string(), str::to_owned) }
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => Misfit::NotParameters { names: unexpected.clone() },
        ValidationErrorKind::Type { .. } => Misfit::Type,
        ValidationErrorKind::Minimum { limit } => Misfit::AtLeast { limit: limit_text(limit) },
        ValidationErrorKind::Maximum { limit } => Misfit::AtMost { limit: limit_text(limit) },
        ValidationErrorKind::ExclusiveMinimum { limit } => Misfit::MoreThan { limit: limit_text(limit) },
        ValidationErrorKind::ExclusiveMaximum { limit } => Misfit::LessThan { limit: limit_text(limit) },
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
    BindProblem { at, what }
}

/// A pact's own words, as far as a record has room for them.
fn shorten(text: &str) -> String {
    match text.char_indices().nth(LIMIT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
