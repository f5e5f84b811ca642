//! Every integration test of this crate, in one binary. A test that measures or limits a process does so to a child: it shares its own
//! process with the others.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that panics has failed, which is what it is for"
)]

mod audit;
mod budgets;
mod decimals;
mod delegation;
mod delegation_vectors;
mod effects;
mod erasure;
mod gate;
mod halt;
mod identity;
mod normalisers;
mod observing;
mod proofs;
mod review;
mod row_log;
mod stages;
mod unused;
