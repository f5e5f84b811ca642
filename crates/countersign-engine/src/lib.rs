//! The shell round the core: store, commit loop, recovery, observations.

pub mod storage;
