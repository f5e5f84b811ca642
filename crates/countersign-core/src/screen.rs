//! Screening: what in a text looks like an attack on an agent, or like a secret that leaves.

pub mod visible;
