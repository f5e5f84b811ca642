//! `countersign act`: one action of an agent, and the verdict on it.

mod batch;
mod interrupt;
mod repeat;

pub use repeat::or_find_out;

use super::observe::{agent, observe};
use super::{Connection, Failure, Outcome, delegation, verdict};
use crate::client::{Call, Client, escape};
use crate::config::Config;
use crate::terminal::{note, say_json};
use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use clap::Args;
use countersign_api::{ActionRequest, PactResponse, Verdict};
use countersign_core::ids::ActionName;
use countersign_core::pact::load::load;
use countersign_core::value::{FieldType, ValueType};
use interrupt::Interrupt;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Act as an agent under a pact, and print the verdict
///
/// The gate checks every precondition of the action type on the facts as they are now, applies the effects in the same step,
/// and answers with a verdict. A rejected one says which preconditions failed, what the agent had seen, what is there now,
/// who changed it and when, and what to observe again.
///
/// Parameters are given as NAME=VALUE and read by the types that the pact declares, or as NAME:=JSON, exactly as written.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign act --key refund-1.key --pact billing --action refund \\
      account=42 amount=480000 currency=USD destination=acct_treasury_1 \\
      --observe 'Account::\"42\"'
  countersign act --key refund-1.key --pact billing --action refund \\
      --params @refund.json --observation $TOKEN
  countersign act --check …          what would the verdict be now? writes nothing
  countersign act --key refund-1.key --batch refunds.jsonl --json   one result a line
  countersign act --key refund-1.key --batch transfer.jsonl --atomic   all of them, or none
  countersign act --agent refund-1 … in an open gate (`init --open`), which believes the name

Exit codes: 0 committed or settled, 1 rejected, 4 waiting for a person, 5 in doubt, 6 in flight,
7 the call failed, 2 not understood, 3 not done. Also 5 if no answer came or Ctrl-C ended the wait
and the action may have committed: the message has the command that finds out, by the same
--idempotency-key, without doing it twice. With --batch: 0 if all committed or settled, otherwise
that of the worst result: 5, then 7, 1 (rejected or refused), 4, 6. The same file can be sent again
within 24 hours; nothing is done twice")]
pub struct ActArgs {
    /// The agent that acts, in an open gate; elsewhere it is the one whose --key signs
    #[arg(long, value_name = "NAME", env = "COUNTERSIGN_AGENT", hide_env_values = true)]
    agent: Option<String>,
    /// The pact
    #[arg(long, value_name = "NAME", required_unless_present = "batch", default_value = "", hide_default_value = true)]
    pact: String,
    /// The action type within the pact
    #[arg(long, value_name = "NAME", required_unless_present = "batch", default_value = "", hide_default_value = true)]
    action: String,
    /// Parameters, as NAME=VALUE or NAME:=JSON
    #[arg(value_name = "NAME=VALUE", conflicts_with = "params")]
    pairs: Vec<String>,
    /// Send every line of this file, or of standard input (`-`), as an action: JSON with `pact`, `action`, `params` and an
    /// `idempotency_key` of its own
    #[arg(long, value_name = "FILE", conflicts_with_all = SINGLE)]
    batch: Option<String>,
    /// With --batch: all of them commit, or none; at most 32
    #[arg(long)]
    atomic: bool,
    /// All parameters as one JSON object, or @FILE
    #[arg(long, value_name = "JSON")]
    params: Option<String>,
    /// Observe this fact first and send the observation along; may be repeated
    #[arg(long, value_name = "FACT")]
    observe: Vec<String>,
    /// Send this observation along; may be repeated
    #[arg(long, value_name = "TOKEN")]
    observation: Vec<String>,
    /// Act under this delegation, or the one in @FILE: with a part of another agent's right
    #[arg(long, value_name = "TOKEN")]
    delegation: Option<String>,
    /// Act under this claim: rejected if it no longer holds
    #[arg(long, value_name = "CLAIM")]
    claim: Option<String>,
    /// How long to wait for a call to settle, such as 10s; at most 1m
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = super::wait_seconds)]
    wait: u32,
    /// The idempotency key; the same key and body never act twice [default: a random one]
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Only check: say what the verdict would be now, and write nothing
    #[arg(long)]
    check: bool,
    /// Print the verdict as one JSON object; with --batch, one a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// What speaks of one action, and not of a batch.
const SINGLE: [&str; 9] =
    ["pact", "action", "pairs", "params", "observe", "observation", "delegation", "claim", "idempotency_key"];

/// Acts.
pub fn run(args: &ActArgs, config: &Config) -> Result<Outcome> {
    if args.atomic && args.batch.is_none() {
        return Err(Failure::usage("--atomic is for several actions").hint("give them with --batch FILE").into());
    }
    let agent = agent(args.agent.as_deref(), &args.connection, config)?;
    if let Some(given) = &args.batch {
        return batch::run(args, given, &agent, config);
    }
    let client = args.connection.client(config)?;
    let request = ActionRequest {
        pact: args.pact.clone(),
        action: args.action.clone(),
        idempotency_key: args.idempotency_key.clone().map_or_else(random_key, Ok)?,
        params: params(args, &client)?,
        observations: observations(args, &client, &agent)?,
        delegation: args.delegation.as_deref().map(delegation::token).transpose()?,
        claim: args.claim.clone(),
        session: None,
        unsure: Vec::new(),
    };
    let call = if args.check {
        Call::post("/v1/actions/check").agent(&agent).json(&request)?.reading()
    } else {
        call(&request, args.wait)?.agent(&agent)
    };
    let named = args.agent.as_deref();
    let find_out = |error| or_find_out(error, &request, args.delegation.as_deref(), named, &args.connection);
    let key = Some(request.idempotency_key.as_str());
    let interrupted = Failure::no("interrupted").into_unknown("the action may have committed", key);
    let waiting = if args.check { None } else { Some(Interrupt::watch(find_out(interrupted.into()), args.json)?) };
    let verdict: Verdict = client.call(call).map_err(find_out)?;
    drop(waiting);
    // Whatever closing meets with, the verdict has been given.
    let outcome = told(&verdict, args.json);
    client.close()?;
    outcome
}

/// Asks for an action, to be answered at once or up to so many seconds later.
pub fn call(request: &ActionRequest, wait_seconds: u32) -> Result<Call> {
    let call = Call::post("/v1/actions").keyed(&request.idempotency_key).waiting_ms(u64::from(wait_seconds) * 1000);
    call.json(request)
}

/// Shows a verdict; each has an exit code of its own.
pub fn told(verdict: &Verdict, json: bool) -> Result<Outcome> {
    if json {
        say_json(&serde_json::to_value(verdict)?);
    } else {
        verdict::show(verdict);
    }
    Ok(verdict.verdict.into())
}

fn random_key() -> Result<String> {
    let mut bytes = [0; 18];
    getrandom::fill(&mut bytes).context("the system gives no randomness")?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

fn observations(args: &ActArgs, client: &Client, agent: &str) -> Result<Vec<String>> {
    let mut tokens = args.observation.clone();
    if !args.observe.is_empty() {
        tokens.push(observe(client, agent, &args.observe)?.observation);
    }
    Ok(tokens)
}

fn params(args: &ActArgs, client: &Client) -> Result<Map<String, Value>> {
    if let Some(given) = &args.params {
        let text = match given.strip_prefix('@') {
            Some(file) => std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?,
            None => given.clone(),
        };
        let parsed = countersign_core::json::parse_object_exact(&text);
        return Ok(parsed.map_err(|error| {
            Failure::usage(format!("--params is not acceptable JSON: {error}"))
                .hint("write an object in single quotes, such as '{\"account\":\"42\"}', or @FILE")
        })?);
    }
    let types = if args.pairs.is_empty() { BTreeMap::new() } else { types(args, client) };
    let mut params = Map::new();
    for pair in &args.pairs {
        let (name, value) = param(pair, &types)?;
        if params.insert(name.clone(), value).is_some() {
            return Err(Failure::usage(format!("parameter `{name}` is given twice")).hint("give it once").into());
        }
    }
    Ok(params)
}

/// The types of the parameters as the published pact declares them. Where it cannot be had, the verdict will say why, so
/// that everything is taken as text here.
fn types(args: &ActArgs, client: &Client) -> BTreeMap<String, FieldType> {
    let pact: Result<PactResponse> = client.call(Call::get(format!("/v1/pacts/{}", escape(&args.pact))));
    let pact = pact.ok().and_then(|pact| load(&pact.source).ok());
    let name = ActionName::new(args.action.as_str()).ok();
    let action = pact.as_ref().zip(name).and_then(|(loaded, name)| loaded.pact.actions.get(&name));
    let types = action.into_iter().flat_map(|action| &action.params.types);
    types.map(|(name, field)| (name.to_string(), field.clone())).collect()
}

fn param(pair: &str, types: &BTreeMap<String, FieldType>) -> Result<(String, Value)> {
    let wrong = |message: String| Failure::usage(message).hint("write NAME=VALUE, or NAME:=JSON to give JSON as it is");
    let (name, value) = pair.split_once('=').ok_or_else(|| wrong(format!("`{pair}` is not a parameter")))?;
    if let Some(name) = name.strip_suffix(':') {
        let json = countersign_core::json::parse_exact(value);
        return Ok((
            name.to_owned(),
            json.map_err(|error| wrong(format!("`{pair}` is not acceptable JSON: {error}")))?,
        ));
    }
    let misfit = |what: &str| wrong(format!("parameter `{name}` must be {what}, not `{value}`"));
    let value = match types.get(name).map(|field| &field.ty) {
        Some(ValueType::Long) => json!(value.parse::<i64>().map_err(|_| misfit("a whole number"))?),
        Some(ValueType::Bool) => json!(value.parse::<bool>().map_err(|_| misfit("true or false"))?),
        Some(ValueType::String | ValueType::Money(_) | ValueType::Decimal) | None => json!(value),
        Some(_) => countersign_core::json::parse_exact(value).map_err(|_| misfit("JSON"))?,
    };
    if types.get(name).is_none() && !types.is_empty() {
        note(format_args!("note: the pact has no parameter `{name}`; it is sent as text"));
    }
    Ok((name.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_by_their_types() {
        let field = |ty| FieldType { ty, required: true };
        let types = BTreeMap::from([
            ("account".to_owned(), field(ValueType::String)),
            ("amount".to_owned(), field(ValueType::Long)),
            ("urgent".to_owned(), field(ValueType::Bool)),
            ("tags".to_owned(), field(ValueType::Set(Box::new(ValueType::String)))),
        ]);
        let cases = [
            ("account=42", json!("42")),
            ("account=a=b", json!("a=b")),
            ("amount=42", json!(42)),
            ("urgent=true", json!(true)),
            ("tags=[\"a\"]", json!(["a"])),
            ("amount:=\"x\"", json!("x")),
        ];
        for (pair, value) in cases {
            assert_eq!(param(pair, &types).expect("fits").1, value, "{pair}");
        }
        for pair in ["amount=4.2", "urgent=yes", "tags=a", "amount:={", "account"] {
            let error = param(pair, &types).expect_err("does not fit");
            assert_eq!(error.downcast_ref::<Failure>().map(|failure| failure.exit), Some(crate::commands::Exit::Usage));
        }
    }

    #[test]
    fn keys_are_long_enough_and_never_the_same() {
        let (one, other) = (random_key().expect("is random"), random_key().expect("is random"));
        assert!(one.len() >= countersign_core::limits::IDEMPOTENCY_KEY_CHARS_MIN);
        assert_ne!(one, other);
    }
}
