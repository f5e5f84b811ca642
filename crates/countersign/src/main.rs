//! The `countersign` binary: command line, HTTP, demo and bench round the gate.

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
mod bench;
mod cli;
mod client;
mod commands;
mod config;
mod conform;
mod connections;
mod data;
mod demo;
mod examples;
mod http;
mod key_file;
mod mcp;
mod private_postgres;
#[cfg(feature = "sabotage")]
mod sabotage;
mod terminal;

/// Entries are made on one thread and freed on another, which the system's allocator does not like: with this one the
/// bench commits half as much again (docs/performance.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cli::main()
}
