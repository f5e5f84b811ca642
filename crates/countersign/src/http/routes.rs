//! Each operation with its handler. Everything else about an operation is in the table of `countersign-api`, from which the router is
//! built, the guard decides and bodies are read.

use super::{
    App, actions, agents, batch, claims, effects, facts, halts, keys, ledger, log, pacts, reviews, service, sessions,
};
use axum::Router;
use axum::routing::{MethodFilter, MethodRouter, on};
use countersign_api::routes::{self, Method, Operation, ROUTES, Route};
use countersign_core::identity::Role;
use countersign_core::limits;
use std::sync::Arc;

/// A path for each row of the table.
pub fn router() -> Router<Arc<App>> {
    ROUTES.iter().fold(Router::new(), |router, route| router.route(route.path, handler(route)))
}

fn handler(route: &Route) -> MethodRouter<Arc<App>> {
    let method = match route.method {
        Method::Get => MethodFilter::GET,
        Method::Put => MethodFilter::PUT,
        Method::Post => MethodFilter::POST,
        Method::Delete => MethodFilter::DELETE,
    };
    match route.operation {
        Operation::Observe => on(method, actions::observe),
        Operation::Act => on(method, actions::act),
        Operation::ActMany => on(method, batch::act_many),
        Operation::Check => on(method, actions::check),
        Operation::GetAction => on(method, actions::show),
        Operation::OpenSession => on(method, sessions::open),
        Operation::CloseSession => on(method, sessions::close),
        Operation::Read => on(method, sessions::read),
        Operation::ListFacts => on(method, facts::list),
        Operation::GetFact => on(method, facts::get),
        Operation::PutFact => on(method, facts::put),
        Operation::DeleteFact => on(method, facts::delete),
        Operation::ConfirmFact => on(method, facts::confirm),
        Operation::FactHistory => on(method, facts::history),
        Operation::ListAgents => on(method, agents::agents),
        Operation::ListUnusedRights => on(method, agents::unused),
        Operation::ListOperators => on(method, agents::operators),
        Operation::GetCaller => on(method, agents::caller),
        Operation::ListPacts => on(method, pacts::list),
        Operation::PublishPact => on(method, pacts::publish),
        Operation::CheckPact => on(method, pacts::check),
        Operation::GetPact => on(method, pacts::get),
        Operation::ListEntries => on(method, ledger::entries),
        Operation::GetEntry => on(method, ledger::entry),
        Operation::GetReceipt => on(method, ledger::receipt),
        Operation::GetConsistency => on(method, ledger::consistency),
        Operation::Erase => on(method, ledger::erase),
        Operation::ListReviews => on(method, reviews::list),
        Operation::GetReview => on(method, reviews::show),
        Operation::Approve => on(method, reviews::approve),
        Operation::Refuse => on(method, reviews::refuse),
        Operation::ListClaims => on(method, claims::list),
        Operation::Claim => on(method, claims::claim),
        Operation::ExtendClaim => on(method, claims::extend),
        Operation::WithdrawClaim => on(method, claims::withdraw),
        Operation::ListEffects => on(method, effects::list),
        Operation::GetEffect => on(method, effects::show),
        Operation::ResolveEffect => on(method, effects::resolve),
        Operation::ListHalts => on(method, halts::list),
        Operation::Halt => on(method, halts::halt),
        Operation::Resume => on(method, halts::resume),
        Operation::ConfirmClock => on(method, service::confirm_clock),
        Operation::RotateLogKey => on(method, keys::rotate_log),
        Operation::GetCheckpoint => on(method, log::checkpoint),
        Operation::GetTile => on(method, log::tile),
        Operation::Healthz => on(method, service::healthz),
        Operation::Readyz => on(method, service::readyz),
        Operation::Metrics => on(method, service::metrics),
        Operation::Openapi => on(method, service::openapi),
    }
}

/// A role, as the gate has it.
pub fn role(role: routes::Role) -> Role {
    match role {
        routes::Role::Publisher => Role::Publisher,
        routes::Role::Feeder => Role::Feeder,
        routes::Role::Reviewer => Role::Reviewer,
        routes::Role::Auditor => Role::Auditor,
        routes::Role::Admin => Role::Admin,
    }
}

// The table knows nothing of the gate, so it repeats these limits; what it promises must be what the gate goes by.
const _: () = assert!(
    routes::ACTION_BYTES_MAX == limits::BODY_BYTES_MAX
        && routes::FEED_BYTES_MAX == 2 * limits::FACT_BYTES_MAX + 1024
        && routes::PACT_BYTES_MAX == limits::PACT_BYTES_MAX
        && routes::INTEGER_MAX == limits::INTEGER_MAX.unsigned_abs()
        && routes::TEXT_ID_BYTES_MAX == limits::ID_BYTES_MAX,
    "countersign-api/src/routes states a limit that is not the gate's"
);
