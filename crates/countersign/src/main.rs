//! The `countersign` binary.
fn main() {}
