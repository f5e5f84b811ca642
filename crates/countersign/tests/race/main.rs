//! Races between real clients of a real server process, judged by checkers that share no code with the gate.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that panics has failed, which is what it is for"
)]

mod grants;
mod refunds;
mod server;
