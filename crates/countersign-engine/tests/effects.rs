//! Effects that leave the building, through the gate: fences, claims, and calls from intent to settlement.

mod altered;
mod approvals;
mod as_read;
mod batches;
mod calls;
mod claims;
mod counts;
mod crashes;
mod fences;
mod lost;
mod panics;
mod stops;
mod turns;
mod world;
