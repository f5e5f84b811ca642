//! The MCP gateway: stands between an agent and the MCP servers that it already uses.
//!
//! It speaks MCP to both sides and leaves every message as it is, but for lists of tools, in which only those stand that an
//! operator has approved. What acts or discloses leaves the gateway only after the gate has committed an entry that allows it
//! (`methods` has the table). The gateway decides nothing itself.

pub mod adapter;
mod advice;
pub mod buffers;
mod connection;
mod delivery;
pub mod direct;
pub mod downstream;
pub mod draft;
pub mod gate;
mod gated;
mod lines;
pub mod mapping;
pub mod message;
mod messages;
pub mod methods;
mod names;
mod observed;
pub mod operator;
mod readings;
mod refusal;
pub mod report;
pub mod resumed;
pub mod session;
pub mod settings;
pub mod shell;
mod sse;
pub mod tool;
pub mod upstream;

use buffers::Buffers;
use gate::GateClient;
use names::Names;
use settings::Place;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// How many different notes are given; each is remembered, so that it is given once.
const NOTED_MAX: usize = 1024;

/// What all sessions share.
pub struct Gateway {
    /// The servers behind, by name.
    pub upstreams: Vec<(String, Place)>,
    pub gate: GateClient,
    /// What all messages together may take.
    pub buffers: Arc<Buffers>,
    /// Methods without a rule that the settings let pass, recorded.
    allowed: HashSet<String>,
    noted: Mutex<HashSet<String>>,
}

impl Gateway {
    /// In front of these servers.
    pub fn new(
        upstreams: Vec<(String, Place)>,
        gate: GateClient,
        allowed: HashSet<String>,
        buffers: Arc<Buffers>,
    ) -> Self {
        let gate = gate.naming(Names::new(upstreams.iter().map(|(name, _)| name)));
        Self { upstreams, gate, buffers, allowed, noted: Mutex::default() }
    }

    /// Whether the settings let a method pass that has no rule.
    pub fn allows(&self, method: &str) -> bool {
        self.allowed.contains(method)
    }

    /// Tells the operator of the gateway, on stderr, and never twice.
    pub fn note_once(&self, what: String) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        // What is noted holds names that servers and agents choose: past so many, nothing more is.
        let is_new = noted.len() < NOTED_MAX && noted.insert(what.clone());
        drop(noted);
        if is_new {
            crate::terminal::note(what);
        }
    }
}
