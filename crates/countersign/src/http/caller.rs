//! Who calls: the one place that says so, and that turns away anyone who may not.
//!
//! An open gate, which has no operators yet, believes the header `Countersign-Agent`, writes `auth: none`, and serves loopback
//! only. An identified one goes by signatures alone. The body is read here, whole, once its sender is known and may do what is asked,
//! and the bytes whose digest was checked are the very ones that the handler gets. A client certificate never stands in for a signature;
//! it restricts who may sign over its connection (`certificate`).

mod certificate;
mod guard;
mod open;

pub use certificate::scheme;
pub use guard::identify;
pub use open::{is_loopback, is_own_origin};

use super::App;
use super::error::HttpError;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use countersign_core::identity::{Auth, HolderKind};
use countersign_core::ids::AgentId;
use std::sync::Arc;

/// Who calls, and how that is known.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The name of the agent or operator.
    pub name: AgentId,
    /// How that is known.
    pub auth: Auth,
    /// Agent or operator; `None` in an open gate, which cannot tell.
    pub kind: Option<HolderKind>,
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, HttpError> {
        // Taken out: the proof goes into the entry, and is copied where it is still in use.
        let caller = parts.extensions.remove::<Self>();
        caller.ok_or_else(|| HttpError::internal("a handler asks for the caller of a route that needs none"))
    }
}
