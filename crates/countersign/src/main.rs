//! The `countersign` binary: command line, HTTP, demo and bench round the gate.

mod bench;
mod cli;
mod commands;
mod data;
mod demo;
mod http;

fn main() -> std::process::ExitCode {
    cli::main()
}
