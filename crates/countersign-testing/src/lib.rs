//! Unshipped: simulator, faulty disk, workloads and the independent checker.
