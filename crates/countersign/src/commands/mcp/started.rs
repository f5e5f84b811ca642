//! What is said when a gateway or a gate starts: what no admin has approved, what is only watched, and what waits for a person.

use crate::client::{Call, Client};
use crate::commands::OPERATOR;
use crate::config::Config;
use crate::mcp::gate::{AS_READ, GateClient, PACT_NAME, SHADOW_TYPE};
use crate::mcp::mapping::Mapping;
use crate::mcp::operator::OperatorCommands;
use crate::mcp::settings::{Guard, Place, Proposal, Unmapped};
use crate::terminal::{inline, note};
use countersign_api::{Effect, EffectList, EffectState, PactList};
use serde_json::Value;
use std::collections::BTreeSet;

/// Says early what would otherwise be found out by an agent that sees no tools, or whose calls no pact maps.
pub fn check_set_up(client: &Client, upstreams: &[(String, Place)]) {
    // Whether the gate answers was found out before.
    let Ok(list) = client.call::<PactList>(Call::get("/v1/pacts")) else { return };
    if !list.pacts.iter().any(|pact| pact.name == PACT_NAME) {
        note("note: no tool is approved yet, so none will be shown; see `countersign mcp approve --help`");
    }
    let Ok(mapping) = Mapping::read(client, None) else { return };
    let mapped: BTreeSet<&str> = mapping.upstreams().collect();
    for name in mapped.into_iter().filter(|name| !upstreams.iter().any(|(known, _)| known == name)) {
        let known: Vec<&str> = upstreams.iter().map(|(name, _)| name.as_str()).collect();
        note(format_args!(
            "note: a pact maps tools of `{name}`, which this gateway does not have: it has {}",
            known.join(", ")
        ));
    }
}

/// That a server is only watched: calls are made that its guard would refuse.
pub fn shadow_in_force(upstream: &str, unmapped: Unmapped) -> String {
    let ends =
        "to enforce its guard: unmapped = \"deny\" under [mcp] in countersign.toml, and then `countersign mcp approve`";
    match unmapped {
        Unmapped::Shadow => format!(
            "{upstream} is in shadow mode: calls of its guarded tools are made although they should be refused, and the ledger says which; \
             {ends}"
        ),
        Unmapped::Deny | Unmapped::Pass => format!(
            "{upstream} is in shadow mode: the settings enforce its guard, and an admin's fact {SHADOW_TYPE}::\"{upstream}\" still lets \
             agents choose that calls are made which should be refused; {ends}"
        ),
    }
}

/// Says which calls are in doubt, as far as this caller may know, and how a person ends that. An agent knows its own.
pub fn warn_of_doubts(client: &Client, operator: &OperatorCommands) {
    // Whether the gate answers was found out before.
    let Ok(list) = client.call::<EffectList>(Call::get("/v1/effects").agent(OPERATOR)) else { return };
    for effect in list.effects.iter().filter(|effect| effect.state == EffectState::InDoubt) {
        let Effect { effect: name, held_feeds, probed, call, adapter, pact, action, .. } = effect;
        let tool = call.as_ref().and_then(|call| call.pointer("/send/tool")).and_then(Value::as_str);
        let what = match (adapter, tool) {
            (Some(adapter), Some(tool)) => format!("{adapter}/{tool}"),
            _ => format!("{pact}.{action}"),
        };
        note(format_args!("warning: {}", doubt(name, &what, held_feeds.len(), *probed == Some(true), operator)));
    }
}

/// That no one knows what became of a call, and what a person can do about it.
pub fn doubt(effect: &str, what: &str, held_feeds: usize, is_probed: bool, operator: &OperatorCommands) -> String {
    let held = match held_feeds {
        0 => String::new(),
        held => format!(" It holds up {held} feeds."),
    };
    let way = match is_probed {
        true => "It is probed until its outcome is known".to_owned(),
        false => format!("Find out, and say so: {}", operator.resolve(effect)),
    };
    format!("{effect}, a call of {}, is in doubt: no one knows whether it was carried out.{held} {way}", inline(what))
}

/// Says where the settings propose what no admin has approved: what was approved counts, and nothing else.
pub fn check_proposals(gate: &GateClient, upstreams: &[(String, Place)], unmapped: Unmapped, config: &Config) {
    for (name, _) in upstreams {
        let nothing = Proposal::default();
        let proposal = config.mcp.proposals.get(name).unwrap_or(&nothing);
        let tools: Vec<&str> = proposal.tools.keys().map(String::as_str).collect();
        // Whether the gate answers was found out before.
        let Ok(guarded) = gate.guarded(name, &tools) else { return };
        let is_proposed = proposal.guard == Some(Guard::AsRead);
        let server = (is_proposed && !guarded.server).then(|| name.clone());
        let of_tools = proposal.tools.iter().filter(|(tool, _)| !guarded.unknown.contains(*tool));
        let missing =
            of_tools.clone().filter(|(tool, own)| own.guard == Some(Guard::AsRead) && !guarded.tools.contains(*tool));
        let missing = missing.map(|(tool, _)| format!("{name}/{tool}"));
        for what in server.into_iter().chain(missing) {
            note(format_args!(
                "note: the settings propose guard = \"{AS_READ}\" for {what}, and no admin has approved that, so it is not guarded: \
                 countersign mcp approve"
            ));
        }
        for (tool, own) in of_tools {
            if own.reads.is_some_and(|reads| guarded.reads.contains(tool) != reads) {
                note(format_args!(
                    "note: what the settings propose under `reads` for {name}/{tool} is not what an admin has approved: countersign mcp \
                     approve"
                ));
            }
        }
        for tool in &guarded.unknown {
            note(format_args!(
                "warning: the settings say something of {name}/{}, and no tool of this name is approved: correct the name, or run \
                 countersign mcp approve",
                inline(tool)
            ));
        }
        if guarded.is_watched && (unmapped != Unmapped::Shadow || guarded.server) {
            note(format_args!("warning: {}", shadow_in_force(name, unmapped)));
        }
        if unmapped == Unmapped::Shadow && guarded.server && !guarded.is_watched {
            note(format_args!(
                "note: the settings say unmapped = \"shadow\", and no admin has approved that for the guarded tools of {name}, so \
                 they are refused where readings differ: countersign mcp approve"
            ));
        }
        if unmapped == Unmapped::Shadow && !guarded.server {
            note(format_args!(
                "warning: the settings say unmapped = \"shadow\": calls of {name} that no pact maps are made, and the ledger says which \
                 would have been refused"
            ));
        }
    }
}
