//! Unshipped: simulator, faulty disk, workloads and the independent checker.

pub mod disk;
pub mod log_workload;
