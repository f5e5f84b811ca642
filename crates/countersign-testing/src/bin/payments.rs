//! The payment service that tests call, to be tried by hand.

use countersign_testing::payments::{Options, serve};
use std::process::ExitCode;

const USAGE: &str = "usage: payments --book FILE [--listen ADDRESS] [--seed N] [--late-ms N] [--idempotent]";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some(options) = Options::parse(&words) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match serve(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
