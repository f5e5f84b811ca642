//! Tests of `decide`: the precedence of rejections as a table, the edges of each rule, and properties on any input.

mod binding;
mod cedar;
mod commands;
mod delegation;
mod disclosing;
mod edges;
mod explaining;
mod external;
mod group;
mod messages;
mod precedence;
mod properties;
mod readings;
mod records;
mod scopes;
mod standing;
mod turns;
mod world;
