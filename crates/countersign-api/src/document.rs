//! The OpenAPI 3.1 document. It is checked in as `openapi.json`, so that a change of the contract shows in its diff.

mod errors;
mod parameters;
mod paths;

pub use errors::{errors_of, operations};

use crate::error::ErrorBody;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityRequirement, SecurityScheme};
use utoipa::{OpenApi, PartialSchema as _, ToSchema as _};

const SIGNATURE: &str = "HTTP Message Signatures (RFC 9421) with Ed25519: `Signature-Input` and `Signature`, and `Content-Digest` \
    (RFC 9530, sha-256) where there is a body. Covered: \"@method\", \"@authority\", \"@path\", \"@query\" if there is a query, \
    \"content-digest\" if there is a body; parameters created, nonce (16 to 64 printable characters), keyid (a did:key) and tag \
    (`countersign:` and the origin, which is the first line of /log/checkpoint). A gate without operators takes unsigned \
    requests, on loopback only. Who may do what is in docs/guides/identity.md.";

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Countersign",
        version = "1",
        description = "The commit point for AI agents: an action runs only if everything it was decided on still holds at the \
            instant it takes effect. A verdict is HTTP 200 whatever it says; any 4xx or 5xx means that the request did not \
            come to be decided, and its code has a page in docs/codes/. Times are integer milliseconds UTC of the ledger's own \
            clock. Integers stay within 2^53-1; fractions are refused.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    servers((url = "http://127.0.0.1:8420", description = "Loopback only, until the gate has an admin")),
    tags(
        (name = "actions", description = "What agents do"),
        (name = "facts", description = "What is known, fed by operators"),
        (name = "identity", description = "Who may call"),
        (name = "pacts", description = "What must hold"),
        (name = "ledger", description = "What happened"),
        (name = "log", description = "The ledger for outsiders: C2SP tlog-tiles"),
        (name = "gate", description = "The gate itself"),
    ),
    components(schemas(crate::ErrorCode, crate::Problem, crate::Severity, crate::ErrorDetail)),
    paths(
        paths::observe, paths::act, paths::check, paths::get_action,
        paths::list_facts, paths::get_fact, paths::put_fact, paths::delete_fact, paths::confirm_fact, paths::fact_history,
        paths::list_agents, paths::list_operators, paths::get_caller,
        paths::list_pacts, paths::publish_pact, paths::check_pact, paths::get_pact,
        paths::list_entries, paths::get_entry, paths::get_receipt, paths::get_consistency, paths::erase,
        paths::list_reviews, paths::get_review, paths::approve, paths::refuse,
        paths::list_claims, paths::claim, paths::extend_claim, paths::withdraw_claim,
        paths::list_effects, paths::get_effect, paths::resolve_effect,
        paths::halt, paths::resume, paths::list_halts,
        paths::confirm_clock,
        paths::rotate_log_key,
        paths::get_checkpoint, paths::get_tile,
        paths::healthz, paths::readyz, paths::metrics, paths::openapi,
    )
)]
struct Document;

/// The OpenAPI document of v1.
pub fn openapi() -> utoipa::openapi::OpenApi {
    let mut document = Document::openapi();
    if let Some(components) = &mut document.components {
        components.schemas.insert(ErrorBody::name().into_owned(), ErrorBody::schema());
    }
    errors::list(&mut document);
    parameters::limit(&mut document);
    secure(&mut document);
    document
}

/// Operations that anybody may call.
const PUBLIC: [&str; 6] =
    ["/v1/ledger/consistency", "/log/checkpoint", "/log/{path}", "/healthz", "/readyz", "/openapi.json"];

/// Says how callers prove who they are. OpenAPI has no kind of its own for signed requests, so the scheme is an API key in
/// name only, and its description is what counts.
fn secure(document: &mut utoipa::openapi::OpenApi) {
    let scheme = ApiKey::Header(ApiKeyValue::with_description("Signature", SIGNATURE));
    document.components.get_or_insert_default().add_security_scheme("signature", SecurityScheme::ApiKey(scheme));
    // The second alternative is an open gate, which has no operators and knows nobody's key.
    let signed = SecurityRequirement::new("signature", [] as [&str; 0]);
    document.security = Some(vec![signed, SecurityRequirement::default()]);
    for (path, item) in &mut document.paths.paths {
        if let Some(get) = item.get.as_mut().filter(|_| PUBLIC.contains(&path.as_str())) {
            get.security = Some(vec![SecurityRequirement::default()]);
        }
    }
}
