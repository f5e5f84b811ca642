//! A pact as Cedar's own tools see it.
//!
//! Each action type becomes one `permit` whose conditions are all its rules, so that a rule that errors denies there as
//! it rejects here: a `forbid` would be skipped by Cedar's authorizer if its condition errs. What Cedar has no words for
//! (staleness, budgets, observations, effects) is said in comments; the gate's own verdict remains the one that counts.

use super::catalogue::{AGENT, agent_schema};
use super::schema::{Signature, action, entity};
use super::{ActionType, FactSchema, Grant, LimitRule, Measure, Mode, OnFail, Pact, Presence};
use crate::ids::FactType;
use crate::utc::Span;
use std::fmt::Write as _;

/// What observing is called among the actions of the export. No action type can have this name: a dot is not part of one.
const OBSERVE: &str = "gate.observe";

/// The Cedar schema that follows from a pact.
pub fn cedar_schema(pact: &Pact) -> String {
    let mut out = format!("// Derived from pact {} version {}, {}.\n\n", pact.name, pact.version, pact.hash);
    let agent = agent_schema();
    entity(&mut out, AGENT, &agent);
    for (ty, schema) in &pact.facts {
        entity(&mut out, ty.as_str(), schema);
    }
    let none = FactSchema::new();
    for one in pact.actions.values() {
        let schema_of = |read: &super::Read| match read.ty.as_str() {
            AGENT => &agent,
            _ => pact.facts.get(&read.ty).unwrap_or(&none),
        };
        out.push('\n');
        action(&mut out, &Signature::of(one, schema_of), &[]);
    }
    observable(&mut out, pact);
    out
}

/// The action of observing, for the types of which anything is granted. Cedar has no word for attributes that are left
/// out, so it gets the attribute as part of the question.
fn observable(out: &mut String, pact: &Pact) {
    let types: Vec<&str> =
        pact.observe.iter().filter(|(_, grants)| !grants.is_empty()).map(|(ty, _)| ty.as_str()).collect();
    if !types.is_empty() {
        let _ = write!(out, "\naction \"{OBSERVE}\" appliesTo {{\n  principal: [{AGENT}],\n");
        let _ = writeln!(out, "  resource: [{}],\n  context: {{ attribute: String }},\n}};", types.join(", "));
    }
}

/// The conditions of a pact as Cedar policies: one `permit` for each action type, and one for each grant.
pub fn cedar_policies(pact: &Pact) -> String {
    let mut out = format!("// Derived from pact {} version {}, {}.\n", pact.name, pact.version, pact.hash);
    for action in pact.actions.values() {
        policy(&mut out, action);
    }
    for (ty, grants) in &pact.observe {
        for (at, one) in grants.iter().enumerate() {
            grant(&mut out, ty, at, one);
        }
    }
    out
}

fn policy(out: &mut String, action: &ActionType) {
    out.push('\n');
    comment(out, action.doc.as_deref());
    if action.mode == Mode::Shadow {
        comment(out, Some("Shadow mode: the gate records what fails and does not block it."));
    }
    for read in action.reads.iter().filter(|read| read.unchanged || read.presence == Presence::Create) {
        let rule = if read.unchanged { "must be at the version that was observed" } else { "must not exist yet" };
        comment(out, Some(&format!("The gate also checks: `{}` {rule}.", read.name)));
    }
    for budget in &action.budgets {
        let what = match &budget.measure {
            Measure::Count => "actions",
            Measure::Sum(param) => param.as_str(),
        };
        let rule = match &budget.limit {
            LimitRule::Own(limit) => format!("at most {} {what} per {}", limit.max, Span(limit.per_ms)),
            LimitRule::Named(owner) => format!("{what}, with all that charges it, as pact {owner} says"),
        };
        comment(out, Some(&format!("The gate also checks budget {}: {rule}.", budget.id)));
    }
    if action.deliver.is_some() {
        comment(
            out,
            Some("The gate also checks: the recipient of its message is an active agent whose inbox has room."),
        );
    }
    let _ =
        writeln!(out, "@id(\"{}\")\npermit (principal, action == Action::\"{}\", resource)", action.name, action.name);
    condition(out, "who may do it", action.allow.text());
    if let Some(trust) = action.min_trust {
        condition(out, "least trust", &format!("principal.trust >= {trust}"));
    }
    for require in &action.require {
        let mut title = require.id.to_string();
        if let Some(ms) = require.stale_after_ms {
            let _ = write!(title, " (on an observation not older than {})", Span(ms));
        }
        if let Some(ms) = require.max_staleness_ms {
            let _ = write!(title, " (on facts that their source confirmed at most {} ago)", Span(ms));
        }
        if require.on_fail == OnFail::Review {
            title.push_str(" (otherwise a person decides)");
        }
        condition(out, &title, require.that.text());
    }
    out.truncate(out.trim_end().len());
    out.push_str(";\n");
}

fn grant(out: &mut String, ty: &FactType, at: usize, grant: &Grant) {
    out.push('\n');
    comment(out, grant.doc.as_deref());
    let _ = writeln!(out, "@id(\"{OBSERVE}-{ty}-{}\")", at + 1);
    let _ = writeln!(out, "permit (principal, action == Action::\"{OBSERVE}\", resource is {ty})");
    condition(out, "who is shown it", grant.who.text());
    let attributes: Vec<String> = grant.attributes.iter().map(|name| format!("\"{name}\"")).collect();
    condition(out, "what is shown", &format!("[{}].contains(context.attribute)", attributes.join(", ")));
    out.truncate(out.trim_end().len());
    out.push_str(";\n");
}

fn condition(out: &mut String, title: &str, text: &str) {
    // A comment at the end of an expression must not swallow the bracket.
    let _ = writeln!(out, "// {title}\nwhen {{\n  {}\n}}", text.trim());
}

fn comment(out: &mut String, text: Option<&str>) {
    for line in text.into_iter().flat_map(str::lines) {
        let _ = writeln!(out, "// {line}");
    }
}
