//! The tools of a server, which is started to be asked for them; and what is said where it does not answer.

use super::ENDS_WITHIN;
use crate::commands::Failure;
use crate::mcp::buffers::{BUFFERED_MAX, Buffers};
use crate::mcp::direct::{Direct, NoAnswer, not_listed};
use crate::mcp::settings::Place;
use crate::mcp::tool::Tool;
use crate::mcp::upstream::Alive;
use crate::terminal::{count, inline, note};
use anyhow::{Context as _, Result};
use std::time::Duration;

/// After how long someone who waits for a server is told so.
const QUIET_FOR: Duration = Duration::from_secs(4);

/// Variables that programs find the way out by. They may hold a password, so a server gets none that is not listed for it.
const PROXIES: [&str; 6] = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

/// The tools of one server, which is started for this and ended again.
pub fn read_tools(upstream: &str, place: &Place) -> Result<Vec<Tool>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("the system gives no runtime")?;
    let read = runtime.block_on(async {
        let (alive, mut all_ended) = Alive::new();
        let reading = async move {
            let tools = match Direct::open(upstream, place, &alive, &Buffers::new(BUFFERED_MAX)).await {
                Ok(mut direct) => direct.tools().await,
                Err(error) => Err(error),
            };
            drop(alive);
            tools
        };
        tokio::pin!(reading);
        let tools = match tokio::time::timeout(QUIET_FOR, &mut reading).await {
            Ok(tools) => tools,
            Err(_) => {
                note(format_args!(
                    "waiting up to a minute for the MCP server `{upstream}` (its package may be downloading)"
                ));
                reading.await
            }
        };
        let _ = tokio::time::timeout(ENDS_WITHIN, all_ended.recv()).await;
        tools
    });
    let tools = read.map_err(|error| not_read(upstream, place, &error))?;
    note(format_args!("{upstream} has {}.", count(u64::try_from(tools.len()).unwrap_or_default(), "tool", "tools")));
    Ok(tools)
}

/// Says why there is no list, and what that is mostly due to.
fn not_read(upstream: &str, place: &Place, why: &NoAnswer) -> Failure {
    let failure = Failure::cannot(not_listed(&format!("the MCP server `{upstream}`"), &why.to_string(), why.is_exit()));
    let Place::Command(program) = place else {
        return failure.hint("is it running, and is that its address?");
    };
    let name = program.words.first().map(String::as_str).unwrap_or_default();
    if why.is_not_started() {
        let (is_path, name) = (name.contains('/'), inline(name));
        return failure.hint(match is_path {
            true => format!("is {name} there, and may it be run?"),
            false => format!("`{name}` is not on the PATH, or may not be run: install it, or name it by its path"),
        });
    }
    let unset = |name: &&str| std::env::var_os(name).is_some() && !program.env.iter().any(|(known, _)| known == name);
    let proxies: Vec<&str> = PROXIES.into_iter().filter(unset).collect();
    let failure = failure.hint(
        "its messages, if any, are above. It does not inherit your environment: --env NAME passes on what it needs, or `env` in \
         countersign.toml",
    );
    match proxies.as_slice() {
        [] => failure,
        proxies => {
            let options: Vec<String> = proxies.iter().map(|name| format!("--env {name}")).collect();
            failure.hint(format!(
                "a proxy is set here that the server does not see; pass it on with {}",
                options.join(" ")
            ))
        }
    }
}
