//! Every integration test of this crate, in one binary. A test that measures or limits a process does so to a child: it shares its own
//! process with the others.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that panics has failed, which is what it is for"
)]

mod admission_cost;
mod checker;
mod effects_model;
mod effects_traces;
mod fuzz;
mod groups_crash;
mod identity_cost;
mod inbox_cost;
mod keys;
mod keys_cost;
mod one_fold;
mod payments;
mod readings_model;
mod rotation;
mod sim;
mod storage_crash;
mod storage_faults;
mod storage_snapshot;
mod storage_tamper;
mod tamper;
