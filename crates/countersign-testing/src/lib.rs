//! Unshipped: simulator, faulty disk, workloads and the independent checker.

pub mod bank;
pub mod checker;
pub mod disk;
pub mod folder;
pub mod log_workload;
pub mod sim;
