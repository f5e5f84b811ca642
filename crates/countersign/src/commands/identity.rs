//! What `countersign agent` and `countersign operator` share: who somebody is, is a fact, and these commands feed it.
//!
//! Every change goes out with `If-Match`, so that two admins cannot overwrite each other unseen.

use super::{Failure, fact_path};
use crate::client::{Call, Client};
use crate::key_file;
use anyhow::Result;
use clap::Args;
use countersign_api::{FactPut, FactResponse, FactWritten, Ready};
use countersign_core::identity::KeyName;
use countersign_core::ids::{FactId, FactType};
use countersign_core::pact::duration_ms;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Where the public key comes from.
#[derive(Debug, Clone, Args)]
pub struct KeySource {
    /// Make the key in this file, which must not exist [default: NAME.key]
    #[arg(long, value_name = "FILE", conflicts_with = "public_key")]
    key_file: Option<PathBuf>,
    /// Register this public name instead, of a key that somebody else made and keeps
    #[arg(long, value_name = "DID")]
    public_key: Option<String>,
}

/// A public key, and the file it was made in, if it was made here.
pub struct NewKey {
    /// The public name.
    pub name: KeyName,
    /// The file.
    pub file: Option<PathBuf>,
}

impl KeySource {
    /// Makes the key, or takes the public name that was given.
    pub fn key(&self, name: &str) -> Result<NewKey> {
        if let Some(public) = &self.public_key {
            let name = public
                .parse()
                .map_err(|error: countersign_core::identity::KeyNameError| Failure::usage(error.to_string()))?;
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
            None => "its private key is with whoever made it".to_owned(),
        }
    }
}

/// The fact of an agent or operator.
pub fn fact(ty: &str, name: &str) -> Result<FactId> {
    let ty = FactType::new(ty).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(FactId::new(ty, name).map_err(|error| Failure::usage(error.to_string()))?)
}

/// Writes a fact that must not be there yet.
pub fn register(client: &Client, fact: &FactId, value: Value) -> Result<FactWritten> {
    put(client, fact, 0, value)
}

/// Changes a fact as it is now.
pub fn change(
    client: &Client,
    fact: &FactId,
    with: impl FnOnce(&mut Map<String, Value>) -> Result<()>,
) -> Result<FactWritten> {
    let found: FactResponse = client.call(Call::get(fact_path(fact)))?;
    let mut value = found.value.as_object().cloned().unwrap_or_default();
    with(&mut value)?;
    put(client, fact, found.version, Value::Object(value))
}

fn put(client: &Client, fact: &FactId, version: u64, value: Value) -> Result<FactWritten> {
    let Value::Object(value) = value else { return Err(Failure::usage("a fact is an object").into()) };
    let call = Call::put(fact_path(fact)).header("if-match", format!("\"{version}\""));
    client.call(call.json(&FactPut { value })?)
}

/// Gives a fact a new key, and lets the one before it count for a while.
pub fn rotate(client: &Client, fact: &FactId, key: &KeyName, overlap: &str) -> Result<FactWritten> {
    let overlap_ms = match overlap {
        "0" => Some(0),
        text => duration_ms(text),
    };
    let overlap_ms = overlap_ms.ok_or_else(|| {
        Failure::usage(format!("`{overlap}` is not a span of time"))
            .hint("write a number and s, m, h or d, such as 1h; or 0")
    })?;
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

/// Sets somebody's standing.
pub fn stand(client: &Client, fact: &FactId, standing: &str) -> Result<FactWritten> {
    change(client, fact, |value| {
        value.insert("standing".to_owned(), json!(standing));
        Ok(())
    })
}
