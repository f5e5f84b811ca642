//! What `countersign agent` and `countersign operator` share: who someone is, is a fact, and these commands feed it.
//!
//! Every change goes out with `If-Match`, so that two admins cannot overwrite each other unseen.

use super::{Exit, Failure, Outcome, did_you_mean, fact_path, is_refused_as};
use crate::client::{Call, Client};
use crate::key_file;
use crate::terminal::{note, say, say_json};
use anyhow::Result;
use clap::Args;
use countersign_api::{ErrorCode, FactPut, FactResponse, FactWritten, Ready, Registered};
use countersign_core::identity::KeyName;
use countersign_core::ids::{FactId, FactType};
use countersign_core::pact::duration_ms;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Whom a command is about, and how it answers.
#[derive(Debug, Clone, Copy)]
pub struct Who<'a> {
    /// The fact type: `Agent` or `Operator`.
    pub ty: &'a str,
    pub name: &'a str,
    /// Whether one JSON object is asked for.
    pub json: bool,
}

/// Where the public key comes from.
#[derive(Debug, Clone, Args)]
pub struct KeySource {
    /// Make the key in this file, which must not exist [default: NAME.key]
    #[arg(long, value_name = "FILE", conflicts_with = "public_key")]
    key_file: Option<PathBuf>,
    /// Register this public name instead, of a key that someone else made and keeps
    #[arg(long, value_name = "DID")]
    public_key: Option<String>,
}

/// A public key, and the file it was made in, if it was made here.
pub struct NewKey {
    pub name: KeyName,
    pub file: Option<PathBuf>,
}

impl KeySource {
    /// Makes the key, or takes the public name that was given.
    pub fn key(&self, name: &str) -> Result<NewKey> {
        if let Some(public) = &self.public_key {
            let name = public
                .parse()
                .map_err(|error: countersign_core::identity::KeyNameError| Failure::of(Exit::Usage, error))?;
            return Ok(NewKey { name, file: None });
        }
        let file = match &self.key_file {
            Some(file) => file.clone(),
            None if name.contains(['/', '\0']) => {
                return Err(Failure::usage(format!("`{name}` cannot name a file"))
                    .hint("say where with --key-file")
                    .into());
            }
            None => Path::new(&format!("{name}.key")).to_path_buf(),
        };
        Ok(NewKey { name: key_file::name(&key_file::create(&file)?), file: Some(file) })
    }
}

impl NewKey {
    /// Where the private key is, for people.
    pub fn place(&self) -> String {
        match &self.file {
            Some(file) => format!("its private key is in {}, and nowhere else", file.display()),
            None => "its private key stays with the person who made it".to_owned(),
        }
    }

    /// Removes the file of a key that the gate has refused to register. Where it is not known what became of the request the
    /// file stays: the key may be registered.
    fn not_registered(&self, error: anyhow::Error) -> anyhow::Error {
        let Some(file) = &self.file else { return error };
        if error.downcast_ref::<Failure>().is_some_and(|failure| !matches!(failure.exit, Exit::Cannot | Exit::Unknown))
        {
            // A file that cannot be removed does no harm, and what the gate said is the better message.
            let _ = std::fs::remove_file(file);
            return error;
        }
        error.context(format!("it is not known whether the key was registered, so {} is kept", file.display()))
    }
}

/// The fact of an agent or operator.
fn fact(ty: &str, name: &str) -> Result<FactId> {
    let ty = FactType::new(ty).map_err(|error| Failure::of(Exit::Usage, error))?;
    Ok(FactId::new(ty, name).map_err(|error| Failure::of(Exit::Usage, error))?)
}

/// Changes a fact as it is now.
fn change(
    client: &Client,
    fact: &FactId,
    with: impl FnOnce(&mut Map<String, Value>) -> Result<()>,
) -> Result<FactWritten> {
    let found: FactResponse = client.call(Call::get(fact_path(fact))).map_err(|error| unknown(client, fact, error))?;
    let mut value = found.value.as_object().cloned().unwrap_or_default();
    with(&mut value)?;
    put(client, fact, found.version, value)
}

/// There is no one of this name: says who may have been meant.
fn unknown(client: &Client, fact: &FactId, error: anyhow::Error) -> anyhow::Error {
    if !is_refused_as(&error, ErrorCode::FactNotFound) {
        return error;
    }
    let kind = fact.ty().as_str().to_lowercase();
    let list: Value = client.call(Call::get(format!("/v1/{kind}s"))).unwrap_or_default();
    let listed = list.as_object().into_iter().flat_map(Map::values).filter_map(Value::as_array).flatten();
    let names = listed.filter_map(|who| who.get("name")?.as_str());
    let otherwise = format!("`countersign {kind} list` has the names");
    let hint = did_you_mean(fact.id(), names, &otherwise);
    Failure::no(format!("there is no {kind} `{}`, and nothing was changed", fact.id())).hint(hint).into()
}

/// Writes a fact that must be at this version; 0 where there must be none.
fn put(client: &Client, fact: &FactId, version: u64, value: Map<String, Value>) -> Result<FactWritten> {
    let call = Call::put(fact_path(fact)).header("if-match", format!("\"{version}\""));
    client.call(call.json(&FactPut { value })?)
}

/// For how long the key before still counts.
fn overlap_ms(overlap: &str) -> Result<u64> {
    let overlap_ms = if overlap == "0" { Some(0) } else { duration_ms(overlap) };
    Ok(overlap_ms.ok_or_else(|| {
        Failure::usage(format!("`{overlap}` is not a span of time"))
            .hint("write a number and s, m, h or d, such as 1h; or 0")
    })?)
}

/// Gives a fact a new key, and lets the one before it count for a while.
fn rotate(client: &Client, fact: &FactId, key: &KeyName, overlap_ms: u64) -> Result<FactWritten> {
    let Ready { now, .. } = client.call(Call::get("/readyz"))?;
    change(client, fact, |value| {
        value.remove("old_key");
        value.remove("old_key_until");
        if let Some(old) = value.insert("key".to_owned(), json!(key.as_str())).filter(|_| overlap_ms > 0) {
            value.insert("old_key".to_owned(), old);
            value.insert("old_key_until".to_owned(), json!(now.saturating_add(overlap_ms)));
        }
        Ok(())
    })
}

/// Sets someone's standing.
fn stand(client: &Client, fact: &FactId, standing: &str) -> Result<FactWritten> {
    change(client, fact, |value| {
        value.insert("standing".to_owned(), json!(standing));
        Ok(())
    })
}

/// Registers someone with a key of its own, which is made only now, and says so.
pub fn registered(who: &Who<'_>, client: Client, source: &KeySource, mut value: Map<String, Value>) -> Result<Outcome> {
    let id = fact(who.ty, who.name)?;
    let key = source.key(who.name)?;
    value.insert("key".to_owned(), json!(key.name.as_str()));
    let written = put(&client, &id, 0, value).map_err(|error| {
        let is_there = is_refused_as(&error, ErrorCode::VersionMismatch);
        let error = key.not_registered(error);
        if is_there { taken(who) } else { error }
    })?;
    client.close()?;
    let kind = who.ty.to_lowercase();
    if !who.json {
        note(format_args!(
            "Registered {kind} {} in entry {}; {}. Its public name:",
            who.name,
            written.entry,
            key.place()
        ));
    }
    shown_key(who, &written, &key)
}

fn taken(who: &Who<'_>) -> anyhow::Error {
    let kind = who.ty.to_lowercase();
    let hint = format!(
        "choose another name; `countersign {kind} list` has those that are there, and `{kind} rotate` gives a new key"
    );
    Failure::no(format!("{kind} `{}` is registered already, and nothing was changed", who.name)).hint(hint).into()
}

/// Gives someone a new key, and says so.
pub fn rotated(who: &Who<'_>, client: Client, source: &KeySource, overlap: &str) -> Result<Outcome> {
    let id = fact(who.ty, who.name)?;
    let overlap_ms = overlap_ms(overlap)?;
    let key = source.key(who.name)?;
    let written = rotate(&client, &id, &key.name, overlap_ms).map_err(|error| key.not_registered(error))?;
    client.close()?;
    if !who.json {
        note(format_args!("{} has a new key; {}. Its public name:", who.name, key.place()));
    }
    shown_key(who, &written, &key)
}

/// Sets someone's standing, and says so.
pub fn stood(who: &Who<'_>, client: Client, standing: &str) -> Result<Outcome> {
    let written = stand(&client, &fact(who.ty, who.name)?, standing)?;
    client.close()?;
    let line = format!("{} {} is {standing} from entry {} on", who.ty.to_lowercase(), who.name, written.entry);
    shown(who.json, &written, json!({"standing": standing}), &line)
}

/// Changes attributes of an agent or operator, and says so.
pub fn changed(who: &Who<'_>, client: Client, named: Map<String, Value>) -> Result<Outcome> {
    let told = Value::Object(named.clone());
    let written = change(&client, &fact(who.ty, who.name)?, |value| {
        value.extend(named);
        Ok(())
    })?;
    client.close()?;
    let said: Vec<String> =
        told.as_object().into_iter().flatten().map(|(name, value)| format!("{name} {value}")).collect();
    let line =
        format!("{} {} has {} from entry {} on", who.ty.to_lowercase(), who.name, said.join(", "), written.entry);
    shown(who.json, &written, told, &line)
}

fn shown_key(who: &Who<'_>, written: &FactWritten, key: &NewKey) -> Result<Outcome> {
    shown(who.json, written, json!({"key": key.name.as_str(), "file": key.file}), key.name.as_str())
}

/// What was written, with what else a program wants to know.
fn shown(json: bool, written: &FactWritten, more: Value, line: &str) -> Result<Outcome> {
    if json {
        let mut all = serde_json::to_value(written)?;
        if let (Value::Object(all), Value::Object(more)) = (&mut all, more) {
            all.extend(more);
        }
        say_json(&all);
    } else {
        say(line);
    }
    Ok(Outcome::Yes)
}

/// Name, standing, roles and key of someone on one line.
pub fn line(registered: &Registered) -> String {
    let roles: Vec<&str> = match registered.value.get("roles") {
        Some(Value::Array(roles)) => roles.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let key = match text(registered, "key") {
        "" => "no key",
        key => key,
    };
    format!("{:<16} {:<11}  {key}  roles {}", registered.name, text(registered, "standing"), roles.join(","))
}

/// An attribute that is text; empty where there is none.
pub fn text<'a>(registered: &'a Registered, name: &str) -> &'a str {
    registered.value.get(name).and_then(Value::as_str).unwrap_or_default()
}
