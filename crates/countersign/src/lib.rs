//! The `countersign` binary: command line, HTTP, adapters and the demo round the gate. `main.rs` only calls it; the bench, which is a
//! crate of its own ([ADR 0016](../../../docs/adr/0016-the-bench-is-not-shipped.md)), reaches it through [`measured`].

#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        reason = "a test that panics has failed, which is what it is for"
    )
)]

mod adapters;
mod cli;
mod client;
mod commands;
mod config;
mod conform;
mod connections;
mod data;
mod demo;
mod examples;
mod hinted;
mod http;
mod key_file;
mod mcp;
#[cfg(feature = "sabotage")]
mod sabotage;
mod terminal;
mod tls;

/// Entries are made on one thread and freed on another, which the system's allocator does not like: with this one the
/// bench commits half as much again (docs/performance.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub use cli::main;

/// What the bench measures, as the binary uses it. Not for anyone else: it changes whenever the binary does.
pub mod measured {
    pub use crate::adapters::build as adapters;
    pub use crate::config::Config;
    pub use crate::data::DataFolder;
    pub use crate::http::{serve_on, serve_router};

    /// What a listener over TLS is made of.
    pub mod tls {
        pub use crate::connections::Listener;
        pub use crate::tls::client::Client;
        pub use crate::tls::{Acceptor, Files, Rules};
    }

    /// Facts in the user's own PostgreSQL.
    pub mod postgres {
        pub use crate::adapters::postgres::Postgres;
        pub use crate::adapters::postgres::settings::Settings;
        pub use crate::adapters::postgres::setup::{Wanted, run as set_up};
    }
}
