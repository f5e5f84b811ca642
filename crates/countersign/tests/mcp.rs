//! The gateway as it runs: the built binary between a client that speaks raw JSON-RPC and servers that behave, and do not.
//!
//! The server is this very test binary, started again with its output on another descriptor, since the test harness writes
//! to its own. Everything is on loopback, bounded in time, and ended by process id.

mod approving;
mod as_read;
mod bounds;
pub mod client;
mod doubts;
mod gated;
pub mod hostile;
mod http;
mod interleaved;
mod many;
mod messages;
mod observing;
mod passing;
mod processes;
mod race;
mod real;
mod sandbox;
mod server;
mod tls;
mod troubles;
