//! The outbox: carries out what was dispatched, and settles it.

mod adapter;

pub use adapter::{Adapter, Attempt, Job, Judge, Judged, Outside, Probed};
