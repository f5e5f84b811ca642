//! Who acts, as the engine holds it: signatures, replays, restarts, revocation and authority.

mod attacks;
mod authority;
mod batches;
mod forged;
mod ledger;
mod restarts;
mod steps;
mod world;
