//! Measurements: the gate beside what it is compared with, all with real durability on the same disk.
//!
//! The baselines live in modules of their own and know nothing of the gate, so that neither side can be tuned by accident
//! while the other is being measured.

pub mod floor;
pub mod postgres;
