//! A gate for tests: fixed keys and randomness, on whatever disk and clock a test has, and the requests that furnish it.

#![allow(clippy::unwrap_used, reason = "what cannot be set up fails the test that wants it")]

use crate::pacts::whole;
use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_core::pact::load::load;
use countersign_core::value::Attributes;
use countersign_engine::clock::{Clock, SystemClock};
use countersign_engine::gate::{Environment, Gate, Options};
use countersign_engine::request::Request;
use countersign_engine::storage::disk::{Disk, RealDisk};
use countersign_ledger::checkpoint::LogKey;
use ed25519_dalek::SigningKey;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// The origin of the logs of tests.
pub const ORIGIN: &str = "test.example/log";

/// The machine's clock, which a test can set.
#[derive(Debug, Default)]
pub struct Wall {
    system: SystemClock,
    ahead_ms: AtomicI64,
}

impl Wall {
    /// Sets the wall clock so many milliseconds ahead, or behind.
    pub fn step(&self, ahead_ms: i64) {
        self.ahead_ms.store(ahead_ms, Ordering::SeqCst);
    }
}

impl Clock for Wall {
    fn wall_ms(&self) -> u64 {
        self.system.wall_ms().saturating_add_signed(self.ahead_ms.load(Ordering::SeqCst))
    }
    fn monotonic_ms(&self) -> u64 {
        self.system.monotonic_ms()
    }
}

/// What a gate needs from the world, with the keys that all tests share.
#[must_use]
pub fn environment(disk: Arc<dyn Disk>, clock: Arc<dyn Clock>) -> Environment {
    Environment { disk, clock, seed: [3; 32], log_key: signing_key().into(), token_key: [2; 32] }
}

/// The same on a folder, with the machine's clock.
#[must_use]
pub fn on_folder(dir: &Path) -> Environment {
    on_folder_by(dir, Arc::new(SystemClock::default()))
}

/// The same by another clock.
#[must_use]
pub fn on_folder_by(dir: &Path, clock: Arc<dyn Clock>) -> Environment {
    environment(Arc::new(RealDisk::open(dir).unwrap()), clock)
}

/// Opens a gate on a folder.
#[must_use]
pub fn open(dir: &Path) -> Gate {
    Gate::open(on_folder(dir), Options::new(ORIGIN)).unwrap().0
}

/// The key that signs the logs of tests first.
#[must_use]
pub fn signing_key() -> SigningKey {
    SigningKey::from_bytes(&[1; 32])
}

/// The public key of the logs of tests.
#[must_use]
pub fn log_key() -> LogKey {
    LogKey::new(ORIGIN, signing_key().verifying_key()).unwrap()
}

/// Who feeds and publishes in tests.
#[must_use]
pub fn operator() -> AgentId {
    AgentId::new("operator").unwrap()
}

/// Feeds a fact with a JSON object.
#[must_use]
pub fn feed(fact: &str, json: &str) -> Request {
    let value = Some(Attributes::from_untyped_json(&serde_json::from_str(json).unwrap()).unwrap());
    Request::Feed { by: operator(), auth: Auth::None, fact: fact.parse().unwrap(), value, if_match: None }
}

/// Publishes a pact.
#[must_use]
pub fn publish(source: &str) -> Request {
    Request::Publish { by: operator(), auth: Auth::None, pact: Arc::new(load(&whole(source)).unwrap().pact) }
}
