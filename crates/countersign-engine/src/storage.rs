//! The durable store: the ledger as write-ahead log, its anchor, and snapshots of what it folds to.
//!
//! What is here knows bytes, batches and files. It must not know what an entry means: the fold is the engine's, handed in
//! as a callback. It holds I2 (what was acknowledged survives, what was not is wholly there or not at all) and the disk's
//! share of I7 (every cut, gap or change is found and located).

pub mod disk;
