//! `countersign effect undo`: the action that a pact declares to undo a call, with the parameters of the call.

use crate::client::{Call, escape};
use crate::commands::act::{call, or_find_out, told};
use crate::commands::observe::{agent, observe};
use crate::commands::{Connection, Failure, Outcome, delegation};
use crate::config::Config;
use anyhow::Result;
use clap::Args;
use countersign_api::{ActionRequest, Effect, EffectState, UndoWith, Verdict};

/// Undo an effect that has settled, and print the verdict
///
/// Acts by the action type that the pact names in `undo`, with the parameters of the original, as its own agent. It is an action
/// like any other: it is decided on the facts as they are now, may be rejected, and may be a call itself. Its idempotency key
/// follows from the effect, so running this twice within a day acts once; later than that, only a condition in the pact can know
/// that it was undone before.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  countersign effect undo eff_813 --key payer-1.key
  countersign effect undo eff_813 --key payer-1.key --observe Account::42 --wait 10

Exit codes: 0 committed or settled, 1 rejected or not to be undone, 4 waiting for a person,
5 in doubt or unknown: it may have happened, 6 in flight, 7 the call failed, 2 not understood, 3 not done")]
pub struct UndoArgs {
    /// The effect, such as eff_813
    #[arg(value_name = "EFFECT")]
    effect: String,
    /// The agent that acted, in an open gate; elsewhere it is the one whose --key signs
    #[arg(long, value_name = "NAME", env = "COUNTERSIGN_AGENT", hide_env_values = true)]
    agent: Option<String>,
    /// Observe this fact first and send the observation along; may be repeated
    #[arg(long, value_name = "FACT")]
    observe: Vec<String>,
    /// Act under this delegation, or the one in @FILE: with a part of another agent's right
    #[arg(long, value_name = "TOKEN")]
    delegation: Option<String>,
    /// Wait for the call to settle: 10, 10s; at most 1m
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = crate::commands::wait_seconds)]
    wait: u32,
    /// Print the verdict as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Undoes.
pub fn run(args: &UndoArgs, config: &Config) -> Result<Outcome> {
    let agent = agent(args.agent.as_deref(), &args.connection, config)?;
    let client = args.connection.client(config)?;
    let effect: Effect = client.call(Call::get(format!("/v1/effects/{}", escape(&args.effect))).agent(&agent))?;
    let (action, UndoWith { idempotency_key, params }) = undoing(&effect)?;
    let observations =
        if args.observe.is_empty() { Vec::new() } else { vec![observe(&client, &agent, &args.observe)?.observation] };
    let request = ActionRequest {
        pact: effect.pact,
        action,
        idempotency_key,
        params,
        observations,
        delegation: args.delegation.as_deref().map(delegation::token).transpose()?,
        claim: None,
        session: None,
        unsure: Vec::new(),
    };
    let answer = client.call(call(&request, args.wait)?.agent(&agent));
    let named = args.agent.as_deref();
    let verdict: Verdict =
        answer.map_err(|error| or_find_out(error, &request, args.delegation.as_deref(), named, &args.connection))?;
    let outcome = told(&verdict, args.json);
    client.close()?;
    outcome
}

/// What undoes an effect, if something does.
fn undoing(effect: &Effect) -> Result<(String, UndoWith)> {
    let Effect { effect: name, state, pact, action, .. } = effect;
    let erased = || {
        Failure::no(format!("the parameters of {name} were erased, so it cannot be undone by command"))
            .hint("undo it by hand: `countersign act` with the action type that undoes it and parameters that you know")
    };
    if *state != EffectState::Settled {
        let hint = match state {
            EffectState::Cooling => {
                "it has not been sent yet: change a fact that it relies on, and its dispatch cancels it"
            }
            EffectState::Dispatched => "wait until it has ended: `countersign effect show --wait 60`",
            EffectState::InDoubt => "find out whether it happened, and say so with `countersign effect resolve`",
            EffectState::Settled | EffectState::Failed => "it never happened, so there is nothing to undo",
        };
        let message = format!("{name} is {}, and only what has settled can be undone", state.as_str());
        return Err(Failure::no(message).hint(hint).into());
    }
    // Only a payload that is gone does not say which action it was.
    if action.is_empty() {
        return Err(erased().into());
    }
    let Some(undo) = &effect.undo else {
        return Err(Failure::no(format!("no action type undoes {pact}.{action}"))
            .hint("name one in the pact: `call.undo = \"ACTION\"`, or act by hand with `countersign act`")
            .into());
    };
    Ok((undo.clone(), effect.undo_with.clone().ok_or_else(erased)?))
}
