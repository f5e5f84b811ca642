//! The `countersign` binary.

#[allow(
    dead_code,
    reason = "the bench command that calls the baselines is not there yet"
)]
mod bench;

fn main() {}
