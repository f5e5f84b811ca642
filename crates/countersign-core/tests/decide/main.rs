//! Tests of `decide`: the precedence of rejections as a table, the edges of each rule, and properties on any input.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that panics has failed"
)]

mod binding;
mod cedar;
mod commands;
mod delegation;
mod disclosing;
mod edges;
mod explaining;
mod outside;
mod precedence;
mod properties;
mod records;
mod scopes;
mod standing;
mod world;
