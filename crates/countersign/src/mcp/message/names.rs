//! Member names that another reader could take for others. Many readers of JSON ignore case (Go's does, and takes the last of two),
//! some also dashes and underscores, and some end a name at a NUL. So `Method` beside `method` lets the gateway decide one message
//! and a server execute another.

use super::{Kind, Members};
use countersign_core::screen::visible::inline;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// The members of a message.
const OUTER: &[&str] = &["jsonrpc", "id", "method", "params", "result", "error"];

/// The members of params, and of the objects in them, that say what is done and to what.
const PARAMS: &[&str] = &[
    "_meta",
    "argument",
    "arguments",
    "capabilities",
    "clientInfo",
    "countersign",
    "cursor",
    "inputResponses",
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/subscriptionId",
    "level",
    "name",
    "progressToken",
    "protocolVersion",
    "ref",
    "requestId",
    "requestState",
    "task",
    "taskId",
    "uri",
];

/// The members of results that the gateway or a client acts on.
const RESULT: &[&str] = &[
    "_meta",
    "capabilities",
    "content",
    "countersign",
    "io.modelcontextprotocol/subscriptionId",
    "isError",
    "nextCursor",
    "prompts",
    "protocolVersion",
    "resourceTemplates",
    "resources",
    "structuredContent",
    "supportedVersions",
    "task",
    "tools",
];

/// The members of errors.
const ERROR: &[&str] = &["code", "countersign", "data", "message"];

/// How much of a name messages quote.
const SHOWN_BYTES_MAX: usize = 64;

type Known = LazyLock<HashMap<String, &'static str>>;

static OUTER_FOLDED: Known = LazyLock::new(|| folded(OUTER));
static PARAMS_FOLDED: Known = LazyLock::new(|| folded(PARAMS));
static RESULT_FOLDED: Known = LazyLock::new(|| folded(RESULT));
static ERROR_FOLDED: Known = LazyLock::new(|| folded(ERROR));

fn folded(names: &[&'static str]) -> HashMap<String, &'static str> {
    names.iter().map(|name| (fold(name), *name)).collect()
}

/// What stays of a name for a reader that ignores case, dashes and underscores. Upper case first: it makes `S` of U+017F and `SS` of
/// `ß`; lower case then makes `k` of the Kelvin sign. Only `_meta` keeps its underscore: `meta` is a member that servers do have.
fn fold(name: &str) -> String {
    let upper = name.chars().flat_map(char::to_uppercase);
    // The dot is what is left of U+0130 in lower case.
    let lower = upper.flat_map(char::to_lowercase).filter(|char| !['-', '_', '\u{307}'].contains(char));
    let lower: String = lower.collect();
    if lower == "meta" && name.contains('_') { "_meta".to_owned() } else { lower }
}

/// A name as messages quote it: its front.
fn shown(name: &str) -> String {
    inline(name.get(..name.floor_char_boundary(SHOWN_BYTES_MAX)).unwrap_or_default())
}

fn check(members: &Members, known: &Known) -> Result<(), String> {
    let mut seen = HashSet::new();
    for (name, _) in members.iter() {
        if name.contains('\0') {
            return Err("a member has a NUL in its name".to_owned());
        }
        let folded = fold(name);
        if let Some(known) = known.get(&folded).filter(|known| **known != name) {
            return Err(format!("`{}` can be read as `{known}`", shown(name)));
        }
        if !seen.insert(folded) {
            return Err(format!("two members can both be read as `{}`", shown(name)));
        }
    }
    Ok(())
}

/// Checks the names of a message's own members.
pub(super) fn outer(members: &Members) -> Result<(), String> {
    check(members, &OUTER_FOLDED)
}

/// Whether a message has no members but those that its kind has.
pub(super) fn only_known(members: &Members, kind: Kind) -> Result<(), String> {
    let has: &[&str] = match kind {
        Kind::Request => &["jsonrpc", "id", "method", "params"],
        Kind::Notification => &["jsonrpc", "method", "params"],
        Kind::Response => &["jsonrpc", "id", "result", "error"],
    };
    match members.iter().find(|(name, _)| !has.contains(name)) {
        Some((name, _)) => Err(format!("`{}` is no member of such a message: {}", shown(name), has.join(", "))),
        None => Ok(()),
    }
}

/// Checks the names in params, and in the objects in them that the gateway looks into.
pub(super) fn params(members: &Members) -> Result<(), String> {
    let Some(params) = object(members, "params")? else { return Ok(()) };
    inner(&params, &PARAMS_FOLDED, &["_meta", "ref"])
}

/// Checks the names in a result, or in an error.
pub(super) fn answer(members: &Members) -> Result<(), String> {
    if let Some(result) = object(members, "result")? {
        inner(&result, &RESULT_FOLDED, &["_meta"])?;
    }
    object(members, "error")?.map_or(Ok(()), |error| inner(&error, &ERROR_FOLDED, &["data"]))
}

fn inner(members: &Members, known: &Known, below: &[&str]) -> Result<(), String> {
    check(members, known)?;
    for name in below {
        if let Some(found) = object(members, name)? {
            check(&found, known).map_err(|why| format!("in `{name}`, {why}"))?;
        }
    }
    Ok(())
}

/// A member that is an object; an error where a name is duplicated in it.
fn object(members: &Members, name: &str) -> Result<Option<Members>, String> {
    let Some(found) = members.get(name).filter(|found| found.get().starts_with('{')) else { return Ok(None) };
    Members::parse(found.get()).map(Some).map_err(|error| format!("`{name}` can be read in two ways: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_another_reader_takes_for_others_are_found() {
        for (name, folded) in [
            ("Method", "method"),
            ("param\u{17f}", "params"),
            ("\u{212a}ey", "key"),
            ("pro\u{67}re\u{df}Token", "progresstoken"),
            ("ur\u{130}", "uri"),
            ("ur\u{131}", "uri"),
            ("na_me", "name"),
            ("_Meta", "_meta"),
            ("meta", "meta"),
        ] {
            assert_eq!(fold(name), folded, "{name}");
        }
        let check = |text: &str| params(&Members::parse(text).expect("is an object"));
        for wrong in [
            r#"{"params":{"name":"a","Name":"b"}}"#,
            r#"{"params":{"Name":"b"}}"#,
            r#"{"params":{"x":1,"X":2}}"#,
            r#"{"params":{"name":"a","name":"b"}}"#,
            r#"{"params":{"name\u0000":"b"}}"#,
            r#"{"params":{"ref":{"name":"a","NAME":"b"}}}"#,
            r#"{"params":{"_meta":{"progresstoken":1}}}"#,
        ] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
        for right in [
            r#"{"params":{"name":"a","arguments":{"a":1,"A":2},"meta":1,"_meta":{"io.x/y":1}}}"#,
            r#"{"params":[1]}"#,
            "{}",
        ] {
            assert_eq!(check(right), Ok(()), "{right}");
        }
    }
}
