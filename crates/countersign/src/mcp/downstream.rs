//! Clients of the gateway: one over standard input and output, or any number over streamable HTTP.

pub mod http;
pub mod stdio;

/// The largest message of a client that is accepted.
const MESSAGE_BYTES_MAX: usize = 4 << 20;
