//! What carries external calls out: HTTP services, commands and PostgreSQL, as the settings name them.
//!
//! An adapter knows the wire and no rules. Its one duty towards the ledger is to say honestly what an attempt found: *not sent*
//! only where nothing can have left, *refused* and *done* only on a clear answer, and *unknown* for everything else (I6).

pub mod address;
pub mod breaker;
pub mod command;
pub mod http;
pub mod kept;
pub mod postgres;
pub mod secret;

#[cfg(test)]
mod tests;

use crate::commands::{Exit, Failure};
use crate::config::Config;
use crate::config::adapters::AdapterSettings;
use anyhow::{Context as _, Result};
use countersign_engine::outbox::{Adapter, Adapters};
use secret::Environment;
use smol_str::SmolStr;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Everything that calls can go out through: the adapters of the settings, and their MCP servers.
pub fn all(config: &Config, origin: &str) -> Result<Adapters> {
    let mut adapters = build(&config.adapters, &|name| std::env::var(name).ok(), origin)
        .map_err(|error| Failure::of(Exit::Cannot, error))?;
    for (name, place) in &config.mcp.upstreams {
        place.check_environment(name).map_err(|error| Failure::of(Exit::Cannot, error))?;
    }
    for (name, adapter) in crate::mcp::adapter::adapters(&config.mcp).context("the system gives no runtime")? {
        if adapters.insert(name.clone(), adapter).is_some() {
            return Err(Failure::usage(format!("`{name}` names an adapter and an MCP server"))
                .hint("rename one of them: pacts could not tell them apart")
                .into());
        }
    }
    Ok(adapters)
}

/// Makes the adapters that the settings name. Fails where a secret, a certificate or a program is missing: better now than
/// with the first call. `origin` names the log that they act for.
pub fn build(
    settings: &BTreeMap<String, AdapterSettings>,
    environment: Environment<'_>,
    origin: &str,
) -> Result<Adapters> {
    let build = |(name, settings): (&String, &AdapterSettings)| {
        let adapter: Arc<dyn Adapter> = match settings {
            AdapterSettings::Http(settings) => Arc::new(http::HttpAdapter::new(name, settings, environment)?),
            AdapterSettings::Command(settings) => Arc::new(command::CommandAdapter::new(name, settings, environment)?),
            AdapterSettings::Postgres(settings) => {
                let settings = postgres::settings::Settings::open(name, settings, environment)?;
                Arc::new(postgres::Postgres::new(settings, origin))
            }
        };
        Ok((SmolStr::new(name), adapter))
    };
    settings.iter().map(build).collect()
}
