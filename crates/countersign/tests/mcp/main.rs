//! The gateway as it runs: the built binary between a client that speaks raw JSON-RPC and servers that behave, and do not.
//!
//! The server is this very test binary, started again with its output on another descriptor, since the test harness writes
//! to its own. Everything is on loopback, bounded in time, and ended by process id.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that panics has failed, which is what it is for"
)]

mod approving;
mod client;
mod doubts;
mod gated;
mod hostile;
mod http;
mod many;
mod observing;
mod passing;
mod processes;
mod race;
mod sandbox;
mod server;
mod troubles;
