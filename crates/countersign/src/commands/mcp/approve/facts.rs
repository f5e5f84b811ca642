//! The facts in which an admin's word on tools and servers is kept.

use super::{Terms, pretty};
use crate::client::{Call, Client};
use crate::commands::{fact_path, is_refused_as};
use crate::mcp::gate::{AS_READ, PACT, PACT_NAME, SERVER_TYPE, SHADOW_TYPE, tool_fact};
use crate::mcp::settings::Guard;
use crate::mcp::tool::Tool;
use crate::terminal::note;
use anyhow::Result;
use countersign_api::{ErrorCode, FactPut, FactResponse, FactWritten, PactList, PactPublished};
use countersign_core::ids::{Digest, FactId, FactType};
use countersign_core::pact::CARRIED;
use serde_json::{Map, Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The longest definition that is kept in the fact, so that changes of it can be shown; a fact has 16 KiB.
const TEXT_BYTES_MAX: usize = 12 << 10;

/// What the guard of a server excludes (R8): said when it is approved, because no call will say it.
const EXCLUDED: &str = "the gate makes every call of these tools, over one connection that all agents share:
  what a client sets up in its own session with the server (a login, a folder) does not count for them;
  questions that the server asks while it carries out a call are not passed on, nor is its progress;
  tools that only read and are not guarded, prompts and completions are asked of a process of the gateway's own;
  tasks/cancel, tasks/update and answers to its questions are refused, because they cannot be put in order with other calls.";

/// Makes sure that there is the pact that calls are decided under.
pub fn publish(client: &Client, by: &str) -> Result<()> {
    let list: PactList = client.call(Call::get("/v1/pacts"))?;
    let published = list.pacts.iter().find(|pact| pact.name == PACT_NAME);
    let version = published.map_or(0, |pact| pact.version);
    // As this program has it, whatever its number is on this gate.
    let text = |version: u64| PACT.replacen("version = 1\n", &format!("version = {version}\n"), 1);
    if published.is_some_and(|pact| pact.hash == Digest::of(text(version).as_bytes()).to_string()) {
        return Ok(());
    }
    let call = Call::post("/v1/pacts").agent(by).body("application/toml", text(version + 1).into_bytes());
    let published: PactPublished = client.call(call)?;
    note(format_args!(
        "published the gateway's own pact, {PACT_NAME} version {}, in entry {}: calls that no other pact maps are decided under it",
        published.version, published.entry
    ));
    Ok(())
}

/// A fact as it is; `None` where there is none.
pub fn current(client: &Client, fact: &FactId) -> Result<Option<FactResponse>> {
    match client.call(Call::get(fact_path(fact))) {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_refused_as(&error, ErrorCode::FactNotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The value of the fact of a tool that is approved on these terms.
pub fn tool_value(tool: &Tool, terms: &Terms) -> Result<Map<String, Value>> {
    let text = pretty(tool)?;
    let mut value = Map::new();
    value.insert("definition".to_owned(), json!(tool.definition));
    value.insert("read_only".to_owned(), json!(terms.reads));
    if text.len() <= TEXT_BYTES_MAX {
        value.insert("text".to_owned(), json!(text));
    }
    if terms.guard == Some(Guard::AsRead) {
        value.insert("guard".to_owned(), json!(AS_READ));
    }
    if terms.carried {
        value.insert("rests_on".to_owned(), json!(CARRIED));
    }
    for (name, paths) in [("ignore", &terms.ignore), ("only", &terms.only)] {
        if !paths.is_empty() {
            value.insert(name.to_owned(), json!(paths));
        }
    }
    if !terms.labels.is_empty() {
        value.insert("labels".to_owned(), json!(terms.labels));
    }
    if tool.is_destructive() {
        value.insert("destructive".to_owned(), json!(true));
    }
    Ok(value)
}

/// Approves a tool as it is, whatever was approved before.
pub fn approve_as(client: &Client, by: &str, upstream: &str, tool: &Tool, terms: &Terms) -> Result<()> {
    put_changed(client, by, &tool_fact(upstream, &tool.name)?, tool_value(tool, terms)?)
}

/// Guards a server; and lets agents use it otherwise than by its tools too, where that is approved as well and no operator has said before
/// whether they may.
pub fn approve_server(client: &Client, by: &str, upstream: &str, guard: Option<Guard>, uses: bool) -> Result<()> {
    let fact = FactId::new(FactType::new(SERVER_TYPE)?, upstream)?;
    let before = current(client, &fact)?;
    let is_guarded = |before: &FactResponse| before.value.get("guard").and_then(Value::as_str) == Some(AS_READ);
    if guard == Some(Guard::AsRead) && !before.as_ref().is_some_and(is_guarded) {
        note(format_args!("{upstream}: {EXCLUDED}"));
    }
    if let Some(before) = before {
        let mut value = before.value.as_object().cloned().unwrap_or_default();
        match guard {
            Some(Guard::AsRead) => drop(value.insert("guard".to_owned(), json!(AS_READ))),
            Some(Guard::None) => drop(value.remove("guard")),
            None => {}
        }
        return put_changed(client, by, &fact, value);
    }
    if !uses && guard != Some(Guard::AsRead) {
        return Ok(());
    }
    let mut value = Map::from_iter([("uses".to_owned(), Value::Bool(uses))]);
    if guard == Some(Guard::AsRead) {
        value.insert("guard".to_owned(), json!(AS_READ));
    }
    // A fact is put as a whole: what ends the one must not end the other.
    let mut otherwise = value.clone();
    otherwise.insert("uses".to_owned(), Value::Bool(!uses));
    let otherwise = Value::Object(otherwise);
    let written: FactWritten = client.call(Call::put(fact_path(&fact)).agent(by).json(&FactPut { value })?)?;
    if !uses {
        note(format_args!(
            "{upstream}: guarded, and only its tools may be used, in entry {}; countersign fact put {SERVER_TYPE} {upstream} \
             '{otherwise}' allows the rest",
            written.entry
        ));
        return Ok(());
    }
    note(format_args!(
        "{upstream}: its resources, prompts and other methods may be used, in entry {}. To withdraw this: \
         countersign fact put {SERVER_TYPE} {upstream} '{otherwise}'",
        written.entry
    ));
    Ok(())
}

/// Lets an agent use a server otherwise than by its tools too, and guards what it reads there.
pub fn approve_server_as(client: &Client, by: &str, upstream: &str) -> Result<()> {
    let fact = FactId::new(FactType::new(SERVER_TYPE)?, upstream)?;
    let value = [("uses".to_owned(), Value::Bool(true)), ("guard".to_owned(), json!(AS_READ))];
    put_changed(client, by, &fact, value.into_iter().collect())
}

/// How long shadow mode lasts unless it is approved again: a guard that is off must not be forgotten.
pub const SHADOW_DAYS: u64 = 7;

/// Puts the guarded tools of a server into shadow mode for some days, or ends that. Whether anything changed but its end.
pub fn watch(client: &Client, by: &str, upstream: &str, is_watched: bool) -> Result<bool> {
    let fact = FactId::new(FactType::new(SHADOW_TYPE)?, upstream)?;
    let is_there = current(client, &fact)?.is_some_and(|found| !found.value.is_null());
    if !is_there && !is_watched {
        return Ok(false);
    }
    let call = match is_watched {
        true => {
            let span = Duration::from_secs(SHADOW_DAYS * 24 * 60 * 60);
            let until = (SystemTime::now() + span).duration_since(UNIX_EPOCH)?;
            let value = Map::from_iter([("until".to_owned(), json!(u64::try_from(until.as_millis())?))]);
            Call::put(fact_path(&fact)).agent(by).json(&FactPut { value })?
        }
        false => Call::delete(fact_path(&fact)).agent(by),
    };
    client.call::<FactWritten>(call)?;
    Ok(is_there != is_watched)
}

/// Feeds a fact unless it has this value.
pub fn put_changed(client: &Client, by: &str, fact: &FactId, value: Map<String, Value>) -> Result<()> {
    let before: Result<FactResponse> = client.call(Call::get(fact_path(fact)));
    if before.is_ok_and(|before| before.value.as_object() == Some(&value)) {
        return Ok(());
    }
    let _: FactWritten = client.call(Call::put(fact_path(fact)).agent(by).json(&FactPut { value })?)?;
    Ok(())
}

/// Whether a tool was approved before.
pub enum Known {
    /// With this definition.
    AsItIs,
    /// With another one.
    Otherwise,
    /// Never, or not any more.
    No,
}

/// What was approved of a tool before.
pub fn approval(client: &Client, upstream: &str, tool: &Tool) -> Result<Known> {
    let before = current(client, &tool_fact(upstream, &tool.name)?)?;
    let definition = before.as_ref().and_then(|before| before.value.get("definition"));
    Ok(match definition {
        None => Known::No,
        Some(approved) if *approved == json!(tool.definition) => Known::AsItIs,
        Some(_) => Known::Otherwise,
    })
}
