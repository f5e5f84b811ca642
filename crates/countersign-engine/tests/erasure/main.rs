//! Erasing a person from a gate, seen from the disk: every kind of entry that can speak of one, and what is in force meanwhile.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that panics has failed, which is what it is for"
)]

mod attacked;
mod everything;
mod in_force;
mod world;
