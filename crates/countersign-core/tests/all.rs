//! Every integration test of this crate, in one binary. A test that measures or limits a process does so to a child: it shares its own
//! process with the others.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that panics has failed, which is what it is for"
)]

mod bad_pacts;
mod behind;
mod decide;
mod examples;
mod good_pacts;
mod identity;
mod pact_properties;
mod screen;
mod sql;
