//! The MCP gateway: stands between an agent and the MCP servers that it already uses.
//!
//! It speaks MCP to both sides and leaves every message as it is, but for calls of tools, which the gate decides, and lists of
//! tools, in which only those stand that an operator has approved. It decides nothing itself.

pub mod adapter;
pub mod direct;
pub mod downstream;
pub mod draft;
pub mod gate;
mod gated;
mod lines;
mod mapping;
pub mod message;
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
    noted: Mutex<HashSet<String>>,
}

impl Gateway {
    /// In front of these servers.
    pub fn new(upstreams: Vec<(String, Place)>, gate: GateClient) -> Self {
        Self { upstreams, gate, noted: Mutex::default() }
    }

    /// Tells whoever runs the gateway, on stderr, and never twice.
    pub fn note_once(&self, what: String) {
        let is_new = self.noted.lock().unwrap_or_else(PoisonError::into_inner).insert(what.clone());
        if is_new {
            crate::terminal::note(what);
        }
    }
}
