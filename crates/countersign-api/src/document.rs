//! The OpenAPI 3.1 document, made from the table of [routes](crate::routes). It is checked in as `openapi.json`, so that a change of the
//! contract shows in its diff.

mod operation;
mod refusals;

use crate::error::ErrorBody;
use crate::routes::{Body, Content, ROUTES};
use crate::shape::Shape;
use utoipa::OpenApi;
use utoipa::openapi::PathItem;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityRequirement, SecurityScheme};

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
    components(schemas(crate::ErrorCode, crate::Problem, crate::Severity, crate::ErrorDetail))
)]
struct Frame;

/// The OpenAPI document of v1.
pub fn openapi() -> utoipa::openapi::OpenApi {
    let mut document = Frame::openapi();
    let components = document.components.get_or_insert_default();
    let mut schemas = Vec::new();
    (Shape::of::<ErrorBody>().collect)(&mut schemas);
    for route in ROUTES {
        if let Body::Json { shape: Some(shape), .. } = route.body {
            (shape.collect)(&mut schemas);
        }
        for answer in route.answers {
            if let Content::Json(shape) | Content::JsonOrEvents(shape) = answer.content {
                (shape.collect)(&mut schemas);
            }
        }
        components.responses.extend(refusals::of(route).into_iter().map(|(_, name, refusal)| (name, refusal.into())));
        let item = PathItem::new(operation::http_method(route.method), operation::of(route));
        let path = route.path.replace("{*", "{");
        document.paths.paths.entry(path).or_default().merge_operations(item);
    }
    components.schemas.extend(schemas);
    // OpenAPI has no kind of its own for signed requests, so the scheme is an API key in name only, and its description counts.
    let scheme = ApiKey::Header(ApiKeyValue::with_description("Signature", SIGNATURE));
    components.add_security_scheme("signature", SecurityScheme::ApiKey(scheme));
    // The second alternative is an open gate, which has no operators and knows no keys.
    let signed = SecurityRequirement::new("signature", [] as [&str; 0]);
    document.security = Some(vec![signed, SecurityRequirement::default()]);
    document
}
