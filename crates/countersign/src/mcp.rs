//! The MCP gateway: stands between an agent and the MCP servers that it already uses.
//!
//! It speaks MCP to both sides and leaves every message as it is, but for lists of tools, in which only those stand that an
//! operator has approved. What acts or discloses leaves the gateway only after the gate has committed an entry that allows it
//! (`methods` has the table). The gateway decides nothing itself.

pub mod adapter;
pub mod direct;
pub mod downstream;
pub mod draft;
pub mod gate;
mod gated;
mod lines;
pub mod mapping;
pub mod message;
pub mod methods;
mod observed;
mod refusal;
mod screen;
pub mod session;
pub mod settings;
mod sse;
pub mod tool;
pub mod upstream;

use gate::GateClient;
use settings::Place;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// What all sessions share.
pub struct Gateway {
    /// The servers behind, by name.
    pub upstreams: Vec<(String, Place)>,
    /// The gate.
    pub gate: GateClient,
    /// Methods without a rule that the settings let pass, recorded.
    allowed: HashSet<String>,
    noted: Mutex<HashSet<String>>,
}

impl Gateway {
    /// In front of these servers.
    pub fn new(upstreams: Vec<(String, Place)>, gate: GateClient, allowed: HashSet<String>) -> Self {
        Self { upstreams, gate, allowed, noted: Mutex::default() }
    }

    /// Whether the settings let a method pass that has no rule.
    pub fn allows(&self, method: &str) -> bool {
        self.allowed.contains(method)
    }

    /// Tells whoever runs the gateway, on stderr, and never twice.
    pub fn note_once(&self, what: String) {
        let is_new = self.noted.lock().unwrap_or_else(PoisonError::into_inner).insert(what.clone());
        if is_new {
            crate::terminal::note(what);
        }
    }
}
