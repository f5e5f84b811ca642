//! The shell round the core: store, commit loop, recovery, observations.
//!
//! Synchronous, with three threads of its own: one decides, one encodes, one makes durable. It knows no HTTP and makes no rules.

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

pub mod audit;
pub mod clock;
pub mod commit;
pub mod delegation;
pub mod denials;
pub mod fold;
pub mod gate;
pub mod idempotency;
pub mod identity;
pub mod log_key;
pub mod outbox;
pub mod request;
#[cfg(feature = "sabotage")]
pub mod sabotage;
pub mod sequence;
pub mod snapshot;
pub mod storage;
pub mod stream;
pub mod token;
pub mod view;
