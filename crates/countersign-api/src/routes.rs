//! Every operation of v1: the one table that the gate's router, its access rules, the limits of bodies and the OpenAPI document are
//! made from. A row names what the handler does not decide: method, path, who may call, what goes in, what comes out, and each error
//! it can answer with.
//!
//! [`Operation`] has a variant for each row and for nothing else. The gate matches on it to find the handler, so a row without a
//! handler does not compile, and a handler without a row is dead code.

mod errors;
mod params;
mod table;

pub use params::{Accepts, DAYS_MAX, HISTORY_MAX, INTEGER_MAX, PAGE_MAX, Param, Place, TEXT_ID_BYTES_MAX, WAIT_MS_MAX};
pub use table::{
    ACTION_BYTES_MAX, APPROVAL_BYTES_MAX, BATCH_BYTES_MAX, FEED_BYTES_MAX, LOG_KEY_BYTES_MAX, Operation,
    PACT_BYTES_MAX, ROUTES,
};

use crate::error::ErrorCode;
use crate::shape::Shape;

/// Longest body of a request that carries none by its row: it is read because a signature may cover it, and then ignored.
pub const IGNORED_BYTES_MAX: usize = 4096;

/// One operation.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    /// Which one.
    pub operation: Operation,
    /// Its method. A GET can be sent as HEAD.
    pub method: Method,
    /// Its path, as the router has it.
    pub path: &'static str,
    /// Who may call it in an identified gate.
    pub callers: Callers,
    /// Whom the header `Countersign-Agent` names in an open gate.
    pub names: Option<Named>,
    /// What it takes.
    pub body: Body,
    /// Parameters in the query and in headers; those in the path are in the path.
    params: &'static [Param],
    /// What it answers with when it does what was asked.
    pub answers: &'static [Answer],
    /// Errors that do not follow from the other members.
    errors: &'static [&'static [ErrorCode]],
    /// The section of the document that it is in.
    pub tag: &'static str,
    /// What it does, line by line.
    pub about: &'static [&'static str],
}

/// A method of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// GET, or HEAD, which is GET without the body of the answer.
    Get,
    /// PUT.
    Put,
    /// POST.
    Post,
    /// DELETE.
    Delete,
}

impl Method {
    /// As it is sent.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Post => "POST",
            Self::Delete => "DELETE",
        }
    }
}

/// A role of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Publishes pacts.
    Publisher,
    /// Feeds facts, but neither agents nor operators.
    Feeder,
    /// Decides reviews.
    Reviewer,
    /// Reads payloads.
    Auditor,
    /// Registers agents and operators, halts, erases, confirms the clock.
    Admin,
}

impl Role {
    /// As an operator's `roles` has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Publisher => "publisher",
            Self::Feeder => "feeder",
            Self::Reviewer => "reviewer",
            Self::Auditor => "auditor",
            Self::Admin => "admin",
        }
    }
}

/// Who may call an operation of an identified gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Callers {
    /// Anyone, unsigned.
    Anyone,
    /// Anyone on loopback; beyond it, an auditor.
    Metrics,
    /// An active agent.
    Agent,
    /// An active agent or operator.
    Known,
    /// An active agent, which is shown its own only, or an operator with one of these roles.
    AgentOr(&'static [Role]),
    /// An operator with one of these roles.
    Operator(&'static [Role]),
    /// A feeder; an admin where the fact is an agent's or an operator's, or says what is approved of an MCP server.
    Feed,
}

/// Whom a caller of an open gate names: it has no keys to go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// The agent that acts, which must be named.
    Agent,
    /// The operator; `operator` unless named.
    Operator,
}

/// What an operation takes.
#[derive(Debug, Clone, Copy)]
pub enum Body {
    /// Nothing.
    None,
    /// One JSON object of this shape; without a shape, an empty one.
    Json {
        /// The shape.
        shape: Option<Shape>,
        /// How large it may be.
        bytes_max: usize,
    },
    /// The text of a pact.
    Toml {
        /// How large it may be.
        bytes_max: usize,
    },
}

impl Body {
    /// The content types it can be sent with; none where there is no body.
    pub const fn types(&self) -> &'static [&'static str] {
        match self {
            Self::None => &[],
            Self::Json { .. } => &["application/json"],
            Self::Toml { .. } => &["application/toml", "text/plain"],
        }
    }

    /// How many bytes are read.
    pub const fn bytes_max(&self) -> usize {
        match self {
            Self::None => IGNORED_BYTES_MAX,
            Self::Json { bytes_max, .. } | Self::Toml { bytes_max } => *bytes_max,
        }
    }
}

/// One answer to a request that was fulfilled.
#[derive(Debug, Clone, Copy)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// What it means.
    pub about: &'static str,
    /// What is in it.
    pub content: Content,
    /// Whether the header `ETag` has the version.
    pub has_etag: bool,
}

/// What an answer holds.
#[derive(Debug, Clone, Copy)]
pub enum Content {
    /// JSON of a type of this crate.
    Json(Shape),
    /// An OpenAPI document.
    OpenApi,
    /// Plain text.
    Text,
    /// Bytes.
    Bytes,
}

/// The operation at a path, as the router has it; `None` where there is none.
pub fn find(method: &str, path: &str) -> Option<&'static Route> {
    let method = if method == "HEAD" { "GET" } else { method };
    ROUTES.iter().find(|route| route.path == path && route.method.as_str() == method)
}

/// The methods that a path takes, as the header `Allow` has them.
pub fn allowed(path: &str) -> String {
    let mut allowed = Vec::new();
    for route in ROUTES.iter().filter(|route| route.path == path) {
        allowed.push(route.method.as_str());
        if route.method == Method::Get {
            allowed.push("HEAD");
        }
    }
    allowed.join(",")
}

impl Route {
    /// All parameters: of the path, then the query, then the headers.
    pub fn params(&self) -> Vec<Param> {
        let mut params: Vec<Param> = self.placeholders().filter_map(params::in_path).collect();
        params.extend(self.params);
        params.extend(self.names.map(params::agent));
        params
    }

    /// The names of what varies in the path.
    pub fn placeholders(&self) -> impl Iterator<Item = &'static str> {
        let parts = self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        parts.map(|name| name.strip_prefix('*').unwrap_or(name))
    }

    /// Every error it can answer with.
    pub fn errors(&self) -> Vec<ErrorCode> {
        errors::of(self)
    }
}
