//! Whole runs of the built command line, as snapshots: what stands on stdout, what on stderr, and how it ends.
//!
//! What differs from run to run (hashes, tokens, times, ports, the folder) is replaced by its name, so that everything else
//! is compared. Runs are in a folder of their own with an empty environment; servers listen on loopback, on a port that is free,
//! and are ended by their process id.

mod acting;
mod configuring;
mod delegating;
mod erasing;
mod external;
mod helping;
mod identity;
mod pacts;
mod postgres;
mod redact;
mod rotating;
mod sandbox;
mod searching;
mod serving;
mod stopping;
mod tls;
mod verifying;
