//! The pure domain of Countersign: facts, pacts, `decide`, and the canonical bytes of records.
//!
//! Nothing here does I/O, reads a clock, draws randomness, uses floats or panics: time and randomness are arguments, so
//! the same inputs give the same bytes forever (I3).

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

pub mod action;
pub mod body;
pub mod call;
pub mod canonical;
pub mod carried;
pub mod code;
pub mod decide;
pub mod decimal;
pub mod decision;
pub mod delegation;
pub mod denial;
pub mod difference;
pub mod disclose;
pub mod effect;
pub mod erase;
pub mod expression;
pub mod fact;
pub mod fence;
pub mod halt;
pub mod hex;
pub mod identity;
pub mod ids;
pub mod json;
pub mod limits;
pub mod node;
pub mod observation;
pub mod observing;
pub mod pact;
pub mod reason;
pub mod record;
pub mod review;
pub mod screen;
pub mod session;
pub mod state;
pub mod utc;
pub mod value;
