//! Stored entries, read by hand from their description (docs/formats/entry.md): with another CBOR library than the product's, and
//! none of its types.

use cbor4ii::core::Value;
use cbor4ii::core::dec::Decode as _;
use cbor4ii::core::utils::SliceReader;
use serde_json::{Map, Value as Json, json};

const MEMBERS: [&str; 33] = [
    "v",
    "kind",
    "commitment",
    "index",
    "time",
    "by",
    "auth",
    "action",
    "key",
    "verdict",
    "pact",
    "reads",
    "writes",
    "review",
    "effect",
    "claim",
    "held",
    "erased",
    "scope",
    "log_key",
    "session",
    "because_of",
    "labels",
    "severity",
    "confidence",
    "score",
    // A number that no member has.
    "",
    "deletes",
    "identity",
    "request",
    "batch",
    "actions",
    "keys",
];

const KINDS: [&str; 28] = [
    "action",
    "approval",
    "claim",
    "clock",
    "confirm",
    "denials",
    "dispatch",
    "erasure",
    "expiry",
    "extension",
    "feed",
    "genesis",
    "halt",
    "held",
    "pact",
    "refusal",
    "resume",
    "rotation",
    "settle",
    "shadow",
    "withdrawal",
    "batch",
    "group",
    "reading",
    "session",
    // Numbers that no kind has here.
    "",
    "",
    "observation",
];

const VERDICTS: [&str; 7] = ["committed", "failed", "in_doubt", "in_flight", "rejected", "review", "settled"];

const AUTH: [&str; 3] = ["none", "signature", "gateway"];

const IDENTITIES: [&str; 2] = ["agent", "operator"];

/// A leaf as JSON.
///
/// # Errors
/// Says what it is not.
pub fn leaf(bytes: &[u8]) -> Result<Json, String> {
    let read = Value::decode(&mut SliceReader::new(bytes)).map_err(|error| error.to_string())?;
    let mut leaf = Map::new();
    let Value::Map(members) = &read else { return Err("a leaf is no map".to_owned()) };
    for (member, value) in members {
        let name = MEMBERS.get(number(member)? as usize).filter(|name| !name.is_empty()).ok_or("an unknown member")?;
        let word = |words: &[&str], from: u64| {
            let at = number(value)?.checked_sub(from).ok_or("a number that is too low")?;
            words.get(at as usize).map(|word| json!(word)).ok_or_else(|| format!("an unknown {name}"))
        };
        let value = match *name {
            "kind" => word(&KINDS, 1)?,
            "verdict" => word(&VERDICTS, 1)?,
            "auth" => word(&AUTH, 0)?,
            "identity" => word(&IDENTITIES, 1)?,
            "pact" => match plain(value)?.as_array().map(Vec::as_slice) {
                Some([name, version, hash]) => json!({"hash": hash, "name": name, "version": version}),
                _ => return Err("a pact has three parts".to_owned()),
            },
            "reads" | "writes" | "score" => {
                let flat = plain(value)?;
                Json::Array(flat.as_array().ok_or("no list")?.chunks(2).map(|pair| json!(pair)).collect())
            }
            _ => plain(value)?,
        };
        if leaf.insert((*name).to_owned(), value).is_some() {
            return Err(format!("`{name}` is there twice"));
        }
    }
    Ok(Json::Object(leaf))
}

fn number(value: &Value) -> Result<u64, String> {
    match value {
        Value::Integer(number) => u64::try_from(*number).map_err(|error| error.to_string()),
        _ => Err("no number".to_owned()),
    }
}

fn plain(value: &Value) -> Result<Json, String> {
    match value {
        Value::Integer(number) => i64::try_from(*number)
            .map(|number| json!(number))
            .or_else(|_| u64::try_from(*number).map(|number| json!(number)))
            .map_err(|_| "a number that is too large".to_owned()),
        Value::Bytes(bytes) => Ok(json!(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())),
        Value::Text(text) => Ok(json!(text)),
        Value::Array(items) => items.iter().map(plain).collect(),
        other => Err(format!("a leaf holds no {other:?}")),
    }
}

/// A payload as JSON, with the ids, versions and bodies in their places. `leaf` is its leaf, as [`leaf`] reads it.
///
/// # Errors
/// Says what it is not.
pub fn payload(leaf: &Json, bytes: &[u8]) -> Result<Json, String> {
    let mut objects = serde_json::Deserializer::from_slice(bytes).into_iter::<Map<String, Json>>();
    let mut payload = objects.next().ok_or("no payload")?.map_err(|error| error.to_string())?;
    let mut bodies = bytes.get(objects.byte_offset()..).unwrap_or_default();
    let mut take = |len: &Json| -> Result<Json, String> {
        let len = len.as_u64().ok_or("a body without a length")? as usize;
        let (body, rest) = bodies.split_at_checked(len).ok_or("a body is too short")?;
        bodies = rest;
        Ok(json!(std::str::from_utf8(body).map_err(|error| error.to_string())?))
    };
    if let Some(body) = payload.get_mut("body") {
        *body = take(body)?;
    }
    for action in items(&mut payload, "actions") {
        action["body"] = take(&action["body"])?;
    }
    if let Some(body) = payload.get_mut("signed").and_then(|signed| signed.get_mut("body")) {
        *body = take(body)?;
    }
    if !bodies.is_empty() {
        return Err(format!("{} bytes follow the bodies", bodies.len()));
    }
    let facts = named(payload.remove("facts"))?;
    let fact = |place: &Json| {
        let place = place.as_u64().and_then(|place| facts.get(place as usize));
        place.cloned().ok_or_else(|| "a fact that is not named".to_owned())
    };
    let absent = payload.remove("absent").unwrap_or_default();
    let is_absent = |place: &Json| absent.as_array().is_some_and(|absent| absent.contains(place));
    let mut versions = leaf["reads"].as_array().into_iter().flatten();
    for read in items(&mut payload, "reads") {
        let version = if is_absent(read) { json!(0) } else { versions.next().ok_or("a read too many")?[1].clone() };
        *read = json!([fact(read)?, version]);
    }
    let mut versions = leaf["writes"].as_array().into_iter().flatten();
    for write in items(&mut payload, "writes") {
        let version = versions.next().ok_or("a write too many")?;
        (write["fact"], write["tag"], write["version"]) =
            (fact(&write["fact"])?, version[0].clone(), version[1].clone());
    }
    for list in ["attested", "observed", "shown"] {
        for observed in items(&mut payload, list) {
            observed["fact"] = fact(&observed["fact"])?;
        }
    }
    for count in items(&mut payload, "counts") {
        for counted in count.get_mut("facts").and_then(Json::as_array_mut).into_iter().flatten() {
            *counted = fact(counted)?;
        }
    }
    for action in items(&mut payload, "actions") {
        for observed in action.get_mut("observed").and_then(Json::as_array_mut).into_iter().flatten() {
            observed["fact"] = fact(&observed["fact"])?;
        }
    }
    match leaf["kind"].as_str() {
        // What was read is a body as well, and is shown where the fact has it.
        Some("reading") => {
            if let (Some(content), Some(reading)) = (payload.remove("body"), items(&mut payload, "writes").next()) {
                reading["value"]["content"] = content;
            }
        }
        Some("claim") => drop(payload.insert("facts".to_owned(), json!(facts))),
        Some("action" | "shadow" | "approval" | "dispatch" | "group") => {
            let decision = payload.entry("decision").or_insert_with(|| json!({}));
            decision["verdict"] = leaf["verdict"].clone();
        }
        _ => {}
    }
    Ok(Json::Object(payload))
}

fn items<'a>(payload: &'a mut Map<String, Json>, list: &str) -> impl Iterator<Item = &'a mut Json> {
    payload.get_mut(list).and_then(Json::as_array_mut).into_iter().flatten()
}

/// The facts that a payload names: types and ids by turns.
fn named(facts: Option<Json>) -> Result<Vec<Json>, String> {
    let facts = facts.unwrap_or_else(|| json!([]));
    let named = |pair: &[Json]| match pair {
        [Json::String(ty), Json::String(id)] => {
            Ok(json!(format!("{ty}::\"{}\"", id.replace('\\', "\\\\").replace('"', "\\\""))))
        }
        _ => Err("a type without an id".to_owned()),
    };
    facts.as_array().ok_or("facts are no list")?.chunks(2).map(named).collect()
}
