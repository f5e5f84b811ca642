//! Who calls: signatures on requests, verified once each, and remembered so that none counts twice.
//!
//! What is verified here says who sent a request. Whether that one may do what it asks is decided at the request's own
//! place in the order, by the core.

mod authenticate;
pub mod batches;
mod freshness;
mod kept;
pub mod meaning;
pub mod replay;
pub mod stored;

pub use authenticate::{AuthError, Authenticated, HeadAuthenticated};
pub(crate) use freshness::SigningTime;
pub use freshness::{AGE_MAX_S, AHEAD_MAX_S};
pub(crate) use kept::KeptFile;
