//! Reviews through the gate: an approval executes exactly what was shown, once, and in every other case says why not.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that panics has failed, which is what it is for"
)]

mod executing;
mod reviewers;
mod voiding;
mod world;
