//! `countersign delegation new`: give part of a right to another agent, offline.

use super::{lines, reduced, token as read_token};
use crate::commands::{Exit, Failure, Outcome, fact_word};
use crate::config::Config;
use crate::key_file;
use crate::terminal::{note, say, say_json};
use anyhow::Result;
use clap::Args;
use countersign_core::delegation::{Limit, Scope, narrows};
use countersign_core::identity::KeyName;
use countersign_core::ids::{ActionName, AgentId, PactName, check_identifier};
use countersign_core::pact::duration_ms;
use countersign_engine::delegation::{extend, mint};
use serde_json::json;
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Give part of an agent's right to another agent, and print the delegation
///
/// Works offline: no gate is contacted. The delegation is signed with the delegator's key and names the agent that receives it,
/// with that agent's key. Only that agent can use it, only within the limits given here, and only while every agent in the chain
/// is active and holds its key. With --from, the delegator passes on a delegation it received; limits you do not give are
/// inherited.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign delegation new --key lead.pem --as lead --gate example.com/gate --to refund-1 \\
      --to-key did:key:z6Mk… --action billing.refund --max amount=1000 --expires 1h
  countersign delegation new --key refund-1.pem --as refund-1 --to helper --to-key did:key:z6Mk… \\
      --from @lead.dlg --max amount=100")]
pub struct NewArgs {
    /// The delegator's private key, a PKCS#8 PEM file
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The delegator
    #[arg(long = "as", value_name = "NAME")]
    delegator: String,
    /// The origin of the gate it is for [default: `origin` in countersign.toml]; not with --from
    #[arg(long, value_name = "ORIGIN", conflicts_with = "from")]
    gate: Option<String>,
    /// The agent that receives it
    #[arg(long, value_name = "NAME")]
    to: String,
    /// The key of that agent
    #[arg(long, value_name = "DID")]
    to_key: String,
    /// An action type it allows, as PACT.ACTION; may be repeated
    #[arg(long, value_name = "PACT.ACTION", required_unless_present_any = ["any_action", "from"])]
    action: Vec<String>,
    /// Allow every action type that the delegator may use
    #[arg(long, conflicts_with = "action")]
    any_action: bool,
    /// The highest value of a parameter, as NAME=NUMBER; may be repeated
    #[arg(long, value_name = "NAME=NUMBER")]
    max: Vec<String>,
    /// A value that a parameter may take, as NAME=VALUE; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    only: Vec<String>,
    /// A fact it may act on or write; may be repeated
    #[arg(long, value_name = "FACT")]
    fact: Vec<String>,
    /// How long it lasts, such as 30m, 1h or 7d
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,
    /// How many times it may be passed on
    #[arg(long, value_name = "N", default_value_t = 0)]
    depth: u32,
    /// Pass on this delegation, or the one in @FILE, instead of the delegator's own right
    #[arg(long, value_name = "TOKEN")]
    from: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Makes the delegation.
pub fn run(args: &NewArgs, config: &Config) -> Result<Outcome> {
    let delegator = AgentId::new(args.delegator.as_str()).map_err(|error| Failure::of(Exit::Usage, error))?;
    let key = key_file::read(&args.key)?;
    let mut scope = scope(args)?;
    let token = match &args.from {
        None => mint(&key, &delegator, &gate(args, config)?, &scope),
        Some(from) => {
            let from = read_token(from)?;
            let chain = reduced(&from)?;
            if *chain.actor() != delegator {
                let message = format!("this delegation was made to {}, not to {delegator}", chain.actor());
                return Err(Failure::no(message).into());
            }
            if let Some(parent) = chain.hops().last() {
                scope = scope.within(parent);
                within(parent, &scope)?;
            }
            extend(&from, &key, &scope)
        }
    };
    let token = token.map_err(|error| Failure::of(Exit::No, error))?;
    let chain = reduced(&token)?;
    if args.json {
        say_json(&json!({"delegation": token, "sha256": chain.token().to_string()}));
        return Ok(Outcome::Yes);
    }
    lines(&chain).iter().for_each(note);
    say(token);
    Ok(Outcome::Yes)
}

/// The origin of the gate that it is for.
fn gate(args: &NewArgs, config: &Config) -> Result<String> {
    let origin = args.gate.as_ref().or(config.origin.as_ref()).ok_or_else(|| {
        Failure::usage("a delegation must name the gate it is for").hint(
            "name it with --gate ORIGIN, or as `origin` in countersign.toml; it is the first line of /log/checkpoint",
        )
    })?;
    Ok(origin.clone())
}

/// Refuses to make what every gate would reject.
fn within(parent: &Scope, scope: &Scope) -> Result<()> {
    if parent.depth == 0 {
        let hint = "its delegator must make it with a --depth of at least 1";
        return Err(Failure::no("this delegation may not be passed on").hint(hint).into());
    }
    if scope.depth >= parent.depth {
        let most = parent.depth.saturating_sub(1);
        return Err(Failure::no(format!("it can be passed on at most {most} times after this")).into());
    }
    narrows(parent, scope).map_err(|widening| {
        let message = format!("this would claim {widening}");
        Failure::no(message)
            .hint("pass on no more than was given; `countersign delegation show` prints what was")
            .into()
    })
}

fn scope(args: &NewArgs) -> Result<Scope> {
    let usage = |error: &dyn std::fmt::Display| Failure::usage(error.to_string());
    let mut limits: BTreeMap<SmolStr, Limit> = BTreeMap::new();
    for given in &args.max {
        let (name, number) = pair(given)?;
        let wrong = || Failure::usage(format!("`{number}` is not a whole number"));
        limits.entry(name).or_default().max = Some(number.parse().map_err(|_| wrong())?);
    }
    for given in &args.only {
        let (name, value) = pair(given)?;
        limits.entry(name).or_default().one_of.get_or_insert_default().insert(value.into());
    }
    let mut actions = None;
    for given in &args.action {
        let wrong = || Failure::usage(format!("`{given}` is not PACT.ACTION")).hint("for example billing.refund");
        let (pact, action) = given.split_once('.').ok_or_else(wrong)?;
        let pact = PactName::new(pact).map_err(|error| usage(&error))?;
        let action = ActionName::new(action).map_err(|error| usage(&error))?;
        actions.get_or_insert_with(BTreeSet::new).insert((pact, action));
    }
    let facts = args.fact.iter().map(|fact| fact_word(fact)).collect::<Result<BTreeSet<_>>>()?;
    Ok(Scope {
        to: AgentId::new(args.to.as_str()).map_err(|error| usage(&error))?,
        key: args.to_key.parse::<KeyName>().map_err(|error| usage(&error))?,
        actions,
        limits,
        facts: (!facts.is_empty()).then_some(facts),
        expires_at_ms: args.expires.as_deref().map(expiry).transpose()?,
        depth: args.depth,
    })
}

fn pair(given: &str) -> Result<(SmolStr, &str)> {
    let (name, value) = given.split_once('=').ok_or_else(|| Failure::usage(format!("`{given}` is not NAME=VALUE")))?;
    check_identifier(name).map_err(|error| Failure::of(Exit::Usage, error))?;
    Ok((name.into(), value))
}

/// When it expires, by this machine's clock. The gate compares it with ledger time.
fn expiry(given: &str) -> Result<u64> {
    let wrong = || Failure::usage(format!("`{given}` is not a time such as 30m, 1h or 7d"));
    let lasts_ms = duration_ms(given).ok_or_else(wrong)?;
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    Ok(u64::try_from(now_ms)?.saturating_add(lasts_ms))
}
