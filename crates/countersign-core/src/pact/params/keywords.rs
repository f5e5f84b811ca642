//! The keywords of JSON Schema that parameters may use.

use crate::pact::diagnostic::{Problems, closest, list};
use crate::pact::source::shorten;
use std::collections::BTreeSet;
use toml::de::DeTable;

/// Keywords that say something to people and nothing to the gate.
pub(super) const ANNOTATIONS: [&str; 5] = ["title", "description", "examples", "$comment", "deprecated"];
/// Bounds of strings.
pub(super) const STRING: [&str; 3] = ["minLength", "maxLength", "pattern"];
/// Bounds of integers.
pub(super) const INTEGER: [&str; 5] = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
/// Bounds of money and decimals.
pub(super) const EXACT: [&str; 4] = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];
/// Keywords of lists.
pub(super) const ARRAY: [&str; 4] = ["items", "minItems", "maxItems", "uniqueItems"];
/// Keywords of objects.
pub(super) const OBJECT: [&str; 4] = ["properties", "required", "additionalProperties", "dependentRequired"];

/// Refuses every keyword that does not apply, with what to use instead.
pub(super) fn refuse_unknown(schema: &DeTable<'_>, known: &[&[&'static str]], problems: &mut Problems) {
    let known: BTreeSet<&str> = known.iter().flat_map(|keys| keys.iter().copied()).collect();
    for key in schema.keys() {
        let name = key.get_ref().as_ref();
        if known.contains(name) {
            continue;
        }
        let (message, hint) = match name {
            "$ref" | "$dynamicRef" | "$id" | "$defs" => (
                format!("`{name}` is not available here"),
                "definitions are in `$defs` of `params`, and { \"$ref\" = \"#/$defs/NAME\" } stands alone".to_owned(),
            ),
            "anyOf" | "oneOf" | "allOf" | "not" | "if" | "then" | "else" => (
                format!("`{name}` is not available here: every parameter has one type, or null"),
                "write the rule as a precondition: [[action.NAME.require]]".to_owned(),
            ),
            "default" => (
                "`default` would not be applied: agents sign exactly what they ask for".to_owned(),
                "make the parameter required, or guard with `context has …`".to_owned(),
            ),
            "format" => {
                ("`format` is not checked, so it would only look like a rule".to_owned(), "use `pattern`".to_owned())
            }
            _ => {
                let hint = match closest(name, known.iter().copied()) {
                    Some(candidate) => format!("did you mean `{candidate}`?"),
                    None => format!("known here: {}", list(&known.iter().copied().collect::<Vec<_>>())),
                };
                (format!("`{}` does not apply here or is unknown", shorten(name)), hint)
            }
        };
        problems.error(&key.span(), message, hint);
    }
}
