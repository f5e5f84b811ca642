//! Wire types, error codes, routes and the OpenAPI document of the v1 HTTP interface.
//!
//! This is the contract between the gate and everyone who talks to it, and nothing else: no behaviour, and no dependency
//! on the gate itself, so that a client can use these types without bringing a gate along. Fields may be added to answers;
//! none is ever taken away or given another meaning within v1. A verdict is an answer, not an error, whatever it says.

#![warn(missing_docs)]
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        reason = "a test that panics has failed, which is what it is for"
    )
)]

mod action;
mod agents;
mod batch;
#[cfg(feature = "document")]
pub mod document;
mod effects;
pub mod error;
mod facts;
mod ledger;
mod pacts;
mod reviews;
pub mod routes;
mod sessions;
mod shape;
mod stops;

pub use action::{
    ActionRequest, Evidence, FailedPrecondition, FailedRead, PactRef, ParamMisfit, Shadowed, Verdict, VerdictKind,
    WaivedBy, Why, Wrote,
};
pub use agents::{AgentList, CallerResponse, OperatorList, Registered, UnusedRight, UnusedRights};
pub use batch::{ActionError, ActionRefused, BatchRequest, BatchResponse, BatchResult};
#[cfg(feature = "document")]
pub use document::openapi;
pub use effects::{
    ClaimEntered, ClaimExtension, ClaimInForce, ClaimList, ClaimRequest, Effect, EffectList, EffectState, LastTry,
    ResolveRequest, Resolved, UndoWith,
};
pub use error::{ErrorBody, ErrorCode, ErrorDetail, Problem, Severity};
pub use facts::{
    Attested, FactConfirm, FactConfirmed, FactList, FactPut, FactResponse, FactSummary, FactVersion, FactWritten,
    HeldFeed, HistoryResponse, ObserveRequest, ObserveResponse, ObservedFact,
};
pub use ledger::{
    ClockConfirmed, ConsistencyResponse, EntriesResponse, EntryResponse, ErasureRequest, ErasureResponse, Health,
    KeptEntry, LogKeyRotated, LogKeyRotation, Ready, ReceiptResponse,
};
pub use pacts::{PactChecked, PactList, PactPublished, PactResponse, PactSummary};
pub use reviews::{
    ApproveRequest, RefuseRequest, Refused, ReviewFact, ReviewList, ReviewReading, ReviewShown, ReviewSummary,
};
pub use sessions::{
    AnsweringTool, Change, ChangedReading, CountedReading, EndedCall, Outdated, ReadRequest, ReadResponse,
    RefusedReading, RestsOn, SessionClosed, SessionOpened, SessionRequest,
};
pub use stops::{HaltEntered, HaltInForce, HaltList, HaltRequest, InFlight};

use serde::{Deserialize, Serialize};

/// The OpenAPI document of v1, as it is served. A test compares it with the one that the table of routes makes.
pub const DOCUMENT: &str = include_str!("../../../openapi.json");

/// The header that names the agent or operator while there is no identity (`auth: none`).
pub const AGENT_HEADER: &str = "countersign-agent";

/// The header that says in which log (`log` of `GET /v1/caller`) a request names a session. In another log the same name is another's.
pub const LOG_HEADER: &str = "countersign-log";

/// How strong the guarantee is that a fact was what it was when an action took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "document", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Atomicity {
    /// One step against everyone: in the gate's own store, or in a transaction of the user's database.
    Atomic,
    /// The outside itself refuses if the fact has changed since it was read.
    Conditional,
    /// The fact is read again right before the call; what other calls change is not declared, so one can still come between.
    Rechecked,
}
