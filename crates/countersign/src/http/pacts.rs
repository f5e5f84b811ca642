//! Pacts: listed, read, published.

use super::caller::Caller;
use super::error::HttpError;
use super::facts::bad_path;
use super::{App, body, json, receipt};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use countersign_api::{ErrorCode, PactChecked, PactList, PactPublished, PactResponse, PactSummary, Problem, Severity};
use countersign_core::ids::PactName;
use countersign_core::pact::Pact;
use countersign_core::pact::changes::unsaid;
use countersign_core::pact::diagnostic::{self, Diagnostic};
use countersign_core::pact::load::load;
use countersign_core::pact::manifest::manifest;
use countersign_core::state::PublishError;
use countersign_engine::outbox::Adapters;
use countersign_engine::request::{Refusal, Request as GateRequest};
use smol_str::SmolStr;
use std::collections::BTreeSet;
use std::sync::Arc;

/// `GET /v1/pacts`
pub async fn list(State(app): State<Arc<App>>) -> Result<Response, HttpError> {
    let pacts: Vec<Arc<Pact>> = app.gate.view().pacts().cloned().collect();
    json(&PactList { pacts: pacts.iter().map(|pact| summary(pact)).collect() })
}

/// `GET /v1/pacts/{name}`
pub async fn get(
    State(app): State<Arc<App>>,
    path: Result<Path<String>, PathRejection>,
) -> Result<Response, HttpError> {
    let Path(name) = path.map_err(|error| bad_path(&error))?;
    let name = PactName::new(name).map_err(|error| HttpError::path(&error))?;
    let pact = app.gate.view().pact(&name).cloned();
    let pact = pact.ok_or_else(|| {
        let message = format!("no pact `{name}` has been published");
        HttpError::new(
            ErrorCode::PactNotFound,
            message,
            "GET /v1/pacts lists those that are; publish it with POST /v1/pacts",
        )
    })?;
    json(&PactResponse { pact: summary(&pact), source: pact.source.to_string(), manifest: manifest(&pact) })
}

fn summary(pact: &Pact) -> PactSummary {
    PactSummary {
        name: pact.name.to_string(),
        version: pact.version,
        hash: pact.hash.to_string(),
        doc: pact.doc.clone(),
        actions: pact.actions.keys().map(ToString::to_string).collect(),
        facts: pact.facts.keys().map(ToString::to_string).collect(),
    }
}

/// `POST /v1/pacts`
pub async fn publish(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Result<Response, HttpError> {
    let source = body::text(request).await?;
    // Type-checking a large pact takes milliseconds, which the threads that serve must not spend on one caller.
    let text = Arc::clone(source.text());
    #[cfg(feature = "sabotage")]
    let load = crate::sabotage::load;
    let loaded = app.blocking(move |_| load(&text).map_err(|found| invalid(&text, &found))).await?;
    let pact = Arc::new(loaded.pact);
    app.check_sources(&pact, &source)?;
    let entered =
        app.enter(GateRequest::Publish { by: caller.name, auth: caller.auth, pact: Arc::clone(&pact) }).await?;
    let mut warnings: Vec<Problem> = loaded.warnings.iter().map(|found| problem(&source, found)).collect();
    warnings.extend(app.unknown_calls(&pact, &source));
    warnings.extend(app.unsaid_changes(&pact, &source));
    json(&PactPublished {
        name: pact.name.to_string(),
        version: pact.version,
        hash: pact.hash.to_string(),
        entry: entered.entry.index,
        receipt: receipt(&entered),
        warnings,
    })
}

impl App {
    /// Refuses a pact whose facts live where the settings of the gate name nothing. No one could read them, and the type would be bound
    /// to that name from then on: publishing is the last moment at which a typo costs nothing.
    fn check_sources(&self, pact: &Pact, source: &str) -> Result<(), HttpError> {
        let named = pact.sources.values().map(|source| &source.adapter).collect();
        let problems = self.unknown_adapters(named, source, Severity::Error);
        if problems.is_empty() {
            return Ok(());
        }
        let message = "the pact has external facts that this gate cannot read";
        let mut error =
            HttpError::new(ErrorCode::PactInvalid, message, "fix what `problems` lists, then publish again");
        error.problems = problems;
        Err(error)
    }

    /// Calls that the settings of the gate name no adapter for. They stay undone until one is set up.
    fn unknown_calls(&self, pact: &Pact, source: &str) -> Vec<Problem> {
        let calls = pact.actions.values().filter_map(|action| action.call.as_ref()).map(|call| &call.adapter);
        let changed = pact.actions.values().filter_map(|action| action.changes.as_ref());
        let named = calls.chain(changed.flat_map(|changes| &changes.servers));
        self.unknown_adapters(named.collect(), source, Severity::Warning)
    }

    /// Calls that may change what other published pacts rest on, and do not say so; and the other way round.
    fn unsaid_changes(&self, pact: &Pact, source: &str) -> Vec<Problem> {
        let view = self.gate.view();
        let others: Vec<&Pact> = view.pacts().map(|other| &**other).filter(|other| other.name != pact.name).collect();
        let known = unsaid(pact, &[]);
        let own = unsaid(pact, &others).into_iter().filter(|found| !known.contains(found));
        let mut problems: Vec<Problem> = own.map(|found| problem(source, &found)).collect();
        for other in &others {
            let before = unsaid(other, &[]);
            let found = unsaid(other, &[pact]).into_iter().filter(|found| !before.contains(found));
            problems.extend(found.map(|found| Problem {
                severity: Severity::Warning,
                line: 1,
                column: 1,
                message: found.message,
                hint: Some(format!("publish the next version of pact `{}` with `changes`", other.name)),
            }));
        }
        problems
    }

    fn unknown_adapters(&self, named: BTreeSet<&SmolStr>, source: &str, severity: Severity) -> Vec<Problem> {
        // A folder that is opened by a command has no adapters: it cannot tell.
        let unknown = named.into_iter().filter(|name| self.knows_adapters && !self.adapters.contains_key(*name));
        unknown.map(|name| unknown_adapter(name, source, severity, &self.adapters)).collect()
    }
}

fn unknown_adapter(name: &SmolStr, source: &str, severity: Severity, adapters: &Adapters) -> Problem {
    let line = source.lines().position(|line| line.contains(&format!("\"{name}\""))).unwrap_or_default();
    let names: Vec<&str> = adapters.keys().map(SmolStr::as_str).collect();
    let known = if names.is_empty() { "they name none".to_owned() } else { format!("they name {}", names.join(", ")) };
    let hint = match diagnostic::closest(name, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? If not, add it to countersign.toml and restart the gate"),
        None => "add it to countersign.toml and restart the gate, or use a name that is there".to_owned(),
    };
    Problem {
        severity,
        line: u64::try_from(line + 1).unwrap_or(u64::MAX),
        column: 1,
        message: format!("the gate's settings name no adapter or MCP server `{name}`; {known}"),
        hint: Some(hint),
    }
}

/// `POST /v1/check/pact`
pub async fn check(State(app): State<Arc<App>>, request: Request) -> Result<Response, HttpError> {
    let source = body::text(request).await?;
    let text = Arc::clone(source.text());
    let loaded = app.blocking(move |_| load(&text).map_err(|found| invalid(&text, &found))).await?;
    // The very check that publishing makes at its place in the order, on what is published now.
    let checked = app.gate.view().check_publish(&loaded.pact);
    let unchanged = matches!(checked, Err(PublishError::Unchanged { .. }));
    if let Err(refused) = checked
        && !unchanged
    {
        return Err(Refusal::Publish(refused).into());
    }
    app.check_sources(&loaded.pact, &source)?;
    let mut warnings: Vec<Problem> = loaded.warnings.iter().map(|found| problem(&source, found)).collect();
    warnings.extend(app.unknown_calls(&loaded.pact, &source));
    warnings.extend(app.unsaid_changes(&loaded.pact, &source));
    json(&PactChecked { pact: summary(&loaded.pact), unchanged, warnings })
}

fn invalid(source: &str, found: &[Diagnostic]) -> HttpError {
    let message = match found.len() {
        1 => "the pact has one problem".to_owned(),
        many => format!("the pact has {many} problems"),
    };
    let mut error = HttpError::new(
        ErrorCode::PactInvalid,
        message,
        "fix what `problems` lists; `countersign pact check` shows it in place",
    );
    error.problems = found.iter().map(|found| problem(source, found)).collect();
    error
}

fn problem(source: &str, found: &Diagnostic) -> Problem {
    let before = source.get(..found.span.start).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    Problem {
        severity: match found.severity {
            diagnostic::Severity::Error => Severity::Error,
            diagnostic::Severity::Warning => Severity::Warning,
        },
        line: count(before.matches('\n').count() + 1),
        column: count(before.get(line_start..).unwrap_or_default().chars().count() + 1),
        message: found.message.clone(),
        hint: found.hint.clone(),
    }
}
