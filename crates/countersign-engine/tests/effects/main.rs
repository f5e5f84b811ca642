//! Effects that leave the building, through the gate: fences, claims, and calls from intent to settlement.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that panics has failed, which is what it is for"
)]

mod approvals;
mod calls;
mod claims;
mod crashes;
mod fences;
mod lost;
mod stops;
mod world;
