//! Unshipped: simulator, faulty disk, workloads and the independent checker.

#![allow(
    clippy::indexing_slicing,
    reason = "plain JSON is read by key here, where a missing key is null, and nothing of this is shipped"
)]

pub mod bank;
pub mod certificates;
pub mod checker;
pub mod delegations;
pub mod disk;
pub mod folder;
pub mod gate;
pub mod hands;
pub mod identities;
pub mod log_workload;
pub mod model;
pub mod pacts;
pub mod paying;
pub mod payments;
pub mod postgres;
pub mod rotating;
pub mod row_log;
pub mod sim;
