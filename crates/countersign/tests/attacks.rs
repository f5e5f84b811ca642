//! Attacks on the built binary, one test per finding, each named after what the attacker tried.
//!
//! A refusal proves nothing by itself: the worst hole so far was a call that ran while the client was told "rejected". So every
//! test here asks the attacked side what it saw: the upstream server, the service, the disk, the ledger, the other person.
//! Everything is on loopback, bounded in time, and ended by process id.

mod approvals;
mod beginnings;
mod callers;
mod clients;
mod connections;
mod erasure;
mod external;
mod files;
mod gateway;
mod rightless;
mod scripts;
mod service;
mod tampering;
mod told;
mod world;
