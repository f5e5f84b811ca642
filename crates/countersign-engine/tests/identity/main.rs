//! Who acts, as the engine holds it: signatures, replays, restarts, revocation and authority.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that panics has failed, which is what it is for"
)]

mod attacks;
mod authority;
mod ledger;
mod restarts;
mod steps;
mod world;
