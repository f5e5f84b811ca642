//! TLS: certificates and keys from files, who is trusted, and whose certificate a connection was opened with.
//!
//! Both sides are here: what the gate and its gateway listen with (`server`), and what they and the commands connect with (`client`).
//! Both are made of the same four files, and made again when those change (`kept`).
//!
//! TLS keeps others from listening in, and says at which door a caller stands. It never says who acts: that takes a signature,
//! with a client certificate or without one (I8).

mod certificate;
pub mod client;
pub mod dev;
mod files;
mod kept;
mod server;
#[cfg(test)]
mod tests;
mod why;

pub use certificate::Certificate;
pub use files::Files;
pub use server::{Acceptor, Rules};
pub use why::{Side, Why};

use rustls::crypto::CryptoProvider;
use std::sync::Arc;

/// The cryptography. Named here, so that no feature of some other crate can choose another.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
