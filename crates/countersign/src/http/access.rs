//! Who may do what over HTTP: one table, and nothing is let through that has no row in it.
//!
//! The guard in [`super::caller`] works from this table. It keeps the door; what a request changes is authorised once more at
//! its own place in the order, so a role that is taken away holds from the next commit on even for what has passed here.

use axum::http::Method;
use countersign_core::identity::Role;

/// What it takes to be let through in an identified gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: for outsiders, and for whoever looks after the process.
    Nothing,
    /// Nothing on loopback; beyond it, an auditor.
    Metrics,
    /// An active agent.
    Agent,
    /// An active agent or operator.
    Known,
    /// An active agent, which is shown its own only, or an operator with one of these roles.
    AgentOr(&'static [Role]),
    /// An operator with one of these roles.
    Operator(&'static [Role]),
    /// A feeder; an admin where the fact is an agent's or an operator's.
    Feed,
}

/// One operation and what it takes.
#[derive(Debug, Clone)]
pub struct Row {
    /// The method.
    pub method: Method,
    /// The path, as the router has it.
    pub path: &'static str,
    /// What it takes.
    pub needs: Needs,
}

const fn row(method: Method, path: &'static str, needs: Needs) -> Row {
    Row { method, path, needs }
}

const READERS: &[Role] = &[Role::Feeder, Role::Auditor, Role::Admin];

/// Every operation of the interface.
pub const TABLE: &[Row] = &[
    row(Method::POST, "/v1/observe", Needs::Agent),
    row(Method::POST, "/v1/actions", Needs::Agent),
    row(Method::POST, "/v1/actions/check", Needs::Agent),
    row(Method::GET, "/v1/actions/{entry}", Needs::Agent),
    row(Method::GET, "/v1/facts/{type}", Needs::Operator(READERS)),
    row(Method::GET, "/v1/facts/{type}/{id}", Needs::Operator(READERS)),
    row(Method::PUT, "/v1/facts/{type}/{id}", Needs::Feed),
    row(Method::DELETE, "/v1/facts/{type}/{id}", Needs::Feed),
    row(Method::POST, "/v1/facts/{type}/{id}/confirm", Needs::Feed),
    row(Method::GET, "/v1/facts/{type}/{id}/history", Needs::Operator(READERS)),
    row(Method::GET, "/v1/agents", Needs::Operator(&[Role::Admin, Role::Auditor])),
    row(Method::GET, "/v1/operators", Needs::Operator(&[Role::Admin, Role::Auditor])),
    row(Method::GET, "/v1/caller", Needs::Known),
    row(Method::GET, "/v1/pacts", Needs::Known),
    row(Method::POST, "/v1/pacts", Needs::Operator(&[Role::Publisher])),
    row(Method::POST, "/v1/check/pact", Needs::Operator(&[Role::Publisher, Role::Auditor])),
    row(Method::GET, "/v1/pacts/{name}", Needs::Known),
    row(Method::GET, "/v1/ledger/entries", Needs::Operator(&[Role::Auditor])),
    row(Method::GET, "/v1/ledger/entries/{index}", Needs::Operator(&[Role::Auditor])),
    row(Method::GET, "/v1/ledger/receipts/{index}", Needs::AgentOr(&[Role::Auditor])),
    row(Method::GET, "/v1/ledger/consistency", Needs::Nothing),
    row(Method::POST, "/v1/ledger/erasures", Needs::Operator(&[Role::Admin])),
    row(Method::GET, "/v1/reviews", Needs::Operator(&[Role::Reviewer, Role::Auditor])),
    row(Method::GET, "/v1/reviews/{review}", Needs::Operator(&[Role::Reviewer])),
    row(Method::POST, "/v1/reviews/{review}/approve", Needs::Operator(&[Role::Reviewer])),
    row(Method::POST, "/v1/reviews/{review}/refuse", Needs::Operator(&[Role::Reviewer])),
    row(Method::GET, "/v1/claims", Needs::Known),
    row(Method::POST, "/v1/claims", Needs::Agent),
    row(Method::POST, "/v1/claims/{claim}/extend", Needs::Agent),
    row(Method::POST, "/v1/claims/{claim}/withdraw", Needs::Agent),
    row(Method::GET, "/v1/effects", Needs::Operator(&[Role::Reviewer, Role::Auditor, Role::Admin])),
    row(Method::GET, "/v1/effects/{effect}", Needs::AgentOr(&[Role::Reviewer, Role::Auditor, Role::Admin])),
    row(Method::POST, "/v1/effects/{effect}/resolve", Needs::Operator(&[Role::Reviewer])),
    row(Method::GET, "/v1/halts", Needs::Operator(&[Role::Admin, Role::Auditor])),
    row(Method::POST, "/v1/halts", Needs::Operator(&[Role::Admin])),
    row(Method::POST, "/v1/halts/resume", Needs::Operator(&[Role::Admin])),
    row(Method::POST, "/v1/clock/confirm", Needs::Operator(&[Role::Admin])),
    row(Method::POST, "/v1/keys/log/rotate", Needs::Operator(&[Role::Admin])),
    row(Method::GET, "/log/checkpoint", Needs::Nothing),
    row(Method::GET, "/log/{*path}", Needs::Nothing),
    row(Method::GET, "/healthz", Needs::Nothing),
    row(Method::GET, "/readyz", Needs::Nothing),
    row(Method::GET, "/metrics", Needs::Metrics),
    row(Method::GET, "/openapi.json", Needs::Nothing),
];

/// What an operation takes; `None` where there is no such operation. HEAD is GET without the body.
pub fn needs(method: &Method, path: &str) -> Option<Needs> {
    let method = if method == Method::HEAD { &Method::GET } else { method };
    TABLE.iter().find(|row| row.path == path && row.method == *method).map(|row| row.needs)
}

/// The methods that a path takes, as the header `Allow` has them.
pub fn allowed(path: &str) -> String {
    let mut allowed = Vec::new();
    for row in TABLE.iter().filter(|row| row.path == path) {
        allowed.push(row.method.as_str());
        if row.method == Method::GET {
            allowed.push("HEAD");
        }
    }
    allowed.join(",")
}
