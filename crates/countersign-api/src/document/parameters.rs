//! What a parameter may be, by its name: the same wherever it occurs, so it is said once. The gate refuses everything else.

use utoipa::openapi::path::Parameter;
use utoipa::openapi::{Object, OpenApi, RefOr, Schema};

/// Integers stay within what every JSON reader keeps exact.
const INTEGER_MAX: usize = (1 << 53) - 1;

/// Ids are bounded in bytes, which are at least as many as characters.
const ID_CHARS_MAX: usize = 256;

const IDENTIFIER: &str = "^[A-Za-z_][A-Za-z0-9_]{0,63}$";
const NAME: &str = "^[A-Za-z_][A-Za-z0-9_-]{0,63}$";
/// No control characters.
const ID: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$";
const NUMBER: &str = "(0|[1-9][0-9]{0,15})";

/// Puts the limits of every parameter into the document.
pub(super) fn limit(document: &mut OpenApi) {
    for (path, item) in &mut document.paths.paths {
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete];
        for operation in operations.into_iter().filter_map(Option::as_mut) {
            for parameter in operation.parameters.iter_mut().flatten() {
                if let RefOr::T(parameter) = parameter {
                    limit_one(path, parameter);
                }
            }
        }
    }
}

fn limit_one(path: &str, parameter: &mut Parameter) {
    let Some(RefOr::T(Schema::Object(schema))) = &mut parameter.schema else { return };
    match parameter.name.as_str() {
        "wait_ms" => schema.maximum = Some(60_000_usize.into()),
        "limit" => {
            schema.minimum = Some(1_usize.into());
            schema.maximum = Some(if path.ends_with("/history") { 100_usize } else { 256 }.into());
        }
        "index" | "entry" | "start" | "end" | "old" | "before" | "since" | "until" => {
            schema.maximum = Some(INTEGER_MAX.into())
        }
        "type" => text(schema, IDENTIFIER.to_owned(), 64),
        "name" => text(schema, NAME.to_owned(), 64),
        "id" | "Countersign-Agent" => text(schema, ID.to_owned(), ID_CHARS_MAX),
        "review" => text(schema, format!("^rev_{NUMBER}$"), 20),
        "claim" => text(schema, format!("^clm_{NUMBER}$"), 20),
        "effect" => text(schema, format!("^eff_{NUMBER}$"), 20),
        "If-Match" => text(schema, "^\"[0-9]{1,16}\"$".to_owned(), 18),
        "path" => schema.min_length = Some(1),
        _ => {}
    }
}

fn text(schema: &mut Object, pattern: String, chars_max: usize) {
    schema.pattern = Some(pattern);
    schema.min_length = Some(1);
    schema.max_length = Some(chars_max);
}
