//! `countersign ledger list`: the entries in order.

use crate::client::{Call, Client, escape};
use crate::commands::{Connection, Failure, Outcome, fact_word};
use crate::config::Config;
use crate::terminal::{inline, note, reader_is_gone, say, say_json_text, time};
use anyhow::Result;
use clap::Args;
use countersign_api::{EntriesResponse, EntryResponse, Ready};
use countersign_core::utc::Utc;
use serde_json::Value;
use std::time::Duration;

/// How many entries are asked for at a time.
const PAGE: u64 = 100;

/// How many entries are looked through at a time for the latest that match.
const PIECE: u64 = 4096;

/// How often new entries are asked for.
const FOLLOW_EVERY: Duration = Duration::from_millis(500);

/// Print entries in order, one per line
///
/// Each line has the index, the time, the kind, who caused it, and what it is about. Without --from it prints the latest. Filters
/// run in the gate; an entry is printed if all of them match.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign ledger list
  countersign ledger list --by refund-1 --verdict rejected --since 2026-11-15T09:00:00Z
  countersign ledger list --fact Account::42 --kind action
  countersign ledger list --follow --json | jq .leaf.kind")]
pub struct ListArgs {
    /// The first entry to print
    #[arg(long, value_name = "INDEX")]
    from: Option<u64>,
    /// How many to print at most
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: u64,
    #[command(flatten)]
    filters: Filters,
    /// Keep printing new entries until interrupted
    #[arg(long, conflicts_with = "data")]
    follow: bool,
    /// Print one JSON object for each entry, on a line of its own
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Filters")]
struct Filters {
    /// Only of this agent or operator
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Only of this kind, such as action, feed or halt
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Only with this verdict, such as rejected
    #[arg(long, value_name = "VERDICT")]
    verdict: Option<String>,
    /// Only under this pact
    #[arg(long, value_name = "NAME")]
    pact: Option<String>,
    /// Only of this action type
    #[arg(long, value_name = "NAME")]
    action: Option<String>,
    /// Only those that name this fact
    #[arg(long, value_name = "FACT")]
    fact: Option<String>,
    /// Only from this time on: 2026-11-15T09:30:00Z, or a duration ago, such as 2h
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
}

impl Filters {
    /// The filters as a query string.
    fn query(&self, client: &Client) -> Result<String> {
        let fact = self.fact.as_deref().map(fact_word).transpose()?.map(|fact| fact.to_string());
        let texts = [
            ("by", &self.by),
            ("kind", &self.kind),
            ("verdict", &self.verdict),
            ("pact", &self.pact),
            ("action", &self.action),
            ("fact", &fact),
        ];
        let mut query = String::new();
        for (name, text) in texts {
            if let Some(text) = text {
                query.push_str(&format!("&{name}={}", escape(text)));
            }
        }
        for (name, text) in [("since", &self.since), ("until", &self.until)] {
            if let Some(text) = text {
                query.push_str(&format!("&{name}={}", time_ms(text, client)?));
            }
        }
        Ok(query)
    }
}

/// A time in ledger milliseconds: a moment, or so long before now.
fn time_ms(text: &str, client: &Client) -> Result<u64> {
    if let Some(span) = countersign_core::pact::duration_ms(text) {
        let Ready { now, .. } = client.call(Call::get("/readyz"))?;
        return Ok(now.saturating_sub(span));
    }
    let wrong = || {
        Failure::usage(format!("`{text}` is not a time"))
            .hint("write 2026-11-15T09:30:00Z, or a span back from now such as 90s, 2h or 1d")
    };
    Ok(text.parse::<Utc>().map(|utc| utc.0).map_err(|_| wrong())?)
}

/// Runs it.
pub fn run(args: &ListArgs, config: &Config) -> Result<Outcome> {
    let client = args.connection.client(config)?;
    let list = List { filters: args.filters.query(&client)?, client: &client, json: args.json };
    let size = list.page(0, 1, None)?.size;
    let (mut start, size) = match args.from {
        Some(from) => (list.forward(from, args.limit)?, size),
        None => (list.latest(size, args.limit)?, size),
    };
    if !args.json && !args.follow {
        note(format_args!("The ledger has {size} entries."));
    }
    if args.follow {
        // Until it is interrupted, or the reader is gone.
        while !reader_is_gone() {
            std::thread::sleep(FOLLOW_EVERY);
            start = list.forward(start, u64::MAX)?;
        }
    }
    client.close()?;
    Ok(Outcome::Yes)
}

/// A list of entries as it is asked for and printed.
struct List<'a> {
    filters: String,
    client: &'a Client,
    json: bool,
}

impl List<'_> {
    fn page(&self, start: u64, limit: u64, end: Option<u64>) -> Result<EntriesResponse> {
        let end = end.map(|end| format!("&end={end}")).unwrap_or_default();
        self.client.call(Call::get(format!("/v1/ledger/entries?start={start}&limit={limit}{end}{}", self.filters)))
    }

    fn print(&self, entry: &EntryResponse) -> Result<()> {
        match self.json {
            true => say_json_text(&serde_json::to_string(entry)?),
            false => say(line(entry)?),
        }
        Ok(())
    }

    /// Prints what matches from an entry on; gives the first that was not looked at.
    fn forward(&self, mut start: u64, mut left: u64) -> Result<u64> {
        while left > 0 && !reader_is_gone() {
            let EntriesResponse { entries, next, size } = self.page(start, left.min(PAGE), None)?;
            left = left.saturating_sub(u64::try_from(entries.len()).unwrap_or(u64::MAX));
            entries.iter().try_for_each(|entry| self.print(entry))?;
            match next {
                Some(next) => start = next,
                None => return Ok(start.max(size)),
            }
        }
        Ok(start)
    }

    /// Prints the latest that match, going back through the log a piece at a time.
    fn latest(&self, size: u64, limit: u64) -> Result<u64> {
        let piece = if self.filters.is_empty() { limit } else { PIECE };
        let (mut found, mut end): (Vec<EntryResponse>, u64) = (Vec::new(), size);
        while end > 0 && u64::try_from(found.len()).unwrap_or(u64::MAX) < limit {
            let from = end.saturating_sub(piece);
            let (mut start, mut part) = (Some(from), Vec::new());
            while let Some(at) = start {
                let page = self.page(at, PAGE, Some(end))?;
                part.extend(page.entries);
                start = page.next;
            }
            part.append(&mut found);
            (found, end) = (part, from);
        }
        let surplus = found.len().saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
        found.iter().skip(surplus).try_for_each(|entry| self.print(entry))?;
        Ok(size)
    }
}

fn line(entry: &EntryResponse) -> Result<String> {
    let leaf: Value = serde_json::from_str(entry.leaf.get())?;
    let payload: Value = entry.payload.as_ref().map_or(Ok(Value::Null), |raw| serde_json::from_str(raw.get()))?;
    let text = |name: &str| leaf.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
    let at = leaf.get("time").and_then(Value::as_u64).unwrap_or_default();
    let mut about = Vec::new();
    if let Some(verdict) = leaf.get("verdict").and_then(Value::as_str) {
        about.push(verdict.to_owned());
    }
    let body = payload.get("body").and_then(Value::as_str).and_then(|body| serde_json::from_str::<Value>(body).ok());
    if let Some(action) = body.as_ref().and_then(|body| body.get("action")?.as_str()) {
        about.push(action.to_owned());
    }
    if let Some(pact) = leaf.get("pact").and_then(Value::as_object) {
        let field = |name| pact.get(name).map(Value::to_string).unwrap_or_default();
        about.push(format!("{} v{}", field("name").trim_matches('"'), field("version")));
    }
    if let Some(scope) = leaf.get("scope").and_then(Value::as_str) {
        about.push(scope.to_owned());
    }
    for (member, prefix) in [("review", "rev_"), ("effect", "eff_"), ("claim", "clm_")] {
        about.extend(leaf.get(member).and_then(Value::as_u64).map(|entry| format!("{prefix}{entry}")));
    }
    for fact in payload.get("facts").and_then(Value::as_array).into_iter().flatten() {
        about.extend(fact.as_str().map(str::to_owned));
    }
    about.extend(payload.get("fact").and_then(Value::as_str).map(str::to_owned));
    for denied in payload.get("denied").and_then(Value::as_array).into_iter().flatten() {
        let field = |name: &str| denied.get(name).and_then(Value::as_str).unwrap_or("others").to_owned();
        let count = denied.get("count").and_then(Value::as_u64).unwrap_or_default();
        about.push(format!("{} {} ×{count}", field("agent"), field("code")));
    }
    for write in payload.get("writes").and_then(Value::as_array).into_iter().flatten() {
        let fact = write.get("fact").and_then(Value::as_str).unwrap_or_default();
        about.push(format!("{fact} v{}", write.get("version").and_then(Value::as_u64).unwrap_or_default()));
    }
    if let Some(erased) = leaf.get("erased").and_then(Value::as_array) {
        about.push(format!("erased {}", erased.iter().map(Value::to_string).collect::<Vec<_>>().join(", ")));
    }
    if let Some(reason) = payload.get("reason").and_then(Value::as_str) {
        about.push(format!("“{}”", inline(reason)));
    }
    if entry.payload.is_none() {
        about.push("(payload erased)".into());
    }
    Ok(format!("{:>6}  {}  {:<8} {:<14} {}", entry.index, time(at), text("kind"), text("by"), about.join("  ")))
}
