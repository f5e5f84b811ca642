//! Time: thresholds to the millisecond, and clocks that are set (AG-097-4.7 and 8.4).
//!
//! The gate runs in this process, on loopback, with a clock whose hands are moved here; everything else is as in `serve`.

use super::gate::{Agent, Subject, entry_of, failed, must_refuse, passed};
use super::own;
use crate::client::{Call, Client};
use crate::data::DataFolder;
use crate::demo::schedule::Hands;
use anyhow::{Context as _, Result, ensure};
use countersign_api::{ErrorCode, Ready};
use countersign_engine::clock::{Clock as _, SystemClock};
use countersign_engine::gate::Gate;
use serde_json::{Value as Json, json};
use std::sync::Arc;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// How old an observation may be under the pact.
const LIMIT_MS: u64 = 5_000;

/// The hands start this far ahead: signatures are made by the machine's clock, and may be a little old but hardly ahead.
const AHEAD_MS: u64 = 5_000;

/// An hour, by which the wall clock is set.
const HOUR_MS: i64 = 3_600_000;

const PACT: &str = r#"
pact = "conform-fresh"
version = 1

[facts.ConformQuote]
attributes = { price = "Long", taken = "Long" }

[observe.ConformQuote]
who = 'principal.roles.contains("buyer")'
attributes = "*"

[action.take]
resource = 'ConformQuote::"{quote}"'
allow = 'principal.roles.contains("buyer")'
set = { taken = "resource.taken + 1" }
params = { type = "object", additionalProperties = false, required = ["quote"], properties.quote = { type = "string", maxLength = 64 } }

[[action.take.require]]
id = "price-is-low"
that = 'resource.price <= 100'
stale_after = "5s"
"#;

/// A gate whose clock is ours.
struct Clocked {
    subject: Subject,
    agent: Arc<Agent>,
    hands: Arc<Hands>,
    _runtime: Runtime,
    _folder: TempDir,
}

/// AG-097-4.7, as far as it goes
pub fn threshold() -> Result<Json> {
    Clocked::start()?.threshold()
}

/// AG-097-8.4
pub fn clocks() -> Result<Json> {
    let clocked = Clocked::start()?;
    let at_threshold = clocked.threshold()?;
    // Set back an hour: by the wall, the observation lies in the future; by time that has passed, it is too old.
    let back = clocked.take(|hands| {
        hands.set_wall_by(-HOUR_MS);
        hands.pass(LIMIT_MS + 1);
    })?;
    ensure!(!back.is_taken, "a clock set back has revived a stale observation, in entry {}", back.entry);
    let ready = Client::remote(clocked.subject.url())?.call_once::<Ready>(Call::get("/readyz"));
    must_refuse(ready, ErrorCode::NotReady, "readiness with a clock set back an hour")?;
    // Set forward two hours: by the wall, the observation is an hour old; hardly any time has passed.
    let forward = clocked.take(|hands| {
        hands.set_wall_by(2 * HOUR_MS);
        hands.pass(1);
    })?;
    ensure!(forward.is_taken, "a clock set forward has aged a fresh observation, in entry {}", forward.entry);
    Ok(json!({"threshold": at_threshold, "set_back": back.to_json(), "set_forward": forward.to_json()}))
}

/// What came of one action.
struct Taken {
    is_taken: bool,
    entry: u64,
    gap_ms: Option<u64>,
}

impl Taken {
    fn to_json(&self) -> Json {
        json!({"entry": self.entry, "gap_ms": self.gap_ms, "passed": self.is_taken})
    }
}

impl Clocked {
    fn start() -> Result<Self> {
        let folder = tempfile::tempdir().context("no temporary folder can be made")?;
        let key = own::make(folder.path())?;
        let data = DataFolder::find(&folder.path().join("data"))?;
        let hands = Arc::new(Hands::at(SystemClock::default().wall_ms().saturating_add(AHEAD_MS)));
        let mut environment = data.environment()?;
        environment.clock = Arc::clone(&hands) as _;
        let gate = Arc::new(Gate::open(environment, data.options())?.0);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.context("the system gives no runtime")?;
        let listener = runtime.block_on(crate::http::listen(&gate, ([127, 0, 0, 1], 0).into()))?;
        let url = format!("http://{}", listener.local_addr()?);
        runtime.spawn(crate::http::serve_on(gate, Arc::default(), listener, std::future::pending()));
        let subject = Subject::at(&url, key, None)?;
        subject.publish_text(PACT)?;
        let agent = subject.agent("buyer", &["buyer"])?;
        subject.feed("Quote::\"q\"", &json!({"price": 90, "taken": 0}))?;
        Ok(Self { subject, agent, hands, _runtime: runtime, _folder: folder })
    }

    /// A millisecond before the threshold, at it, and a millisecond after.
    fn threshold(&self) -> Result<Json> {
        let mut seen = Vec::new();
        for (gap_ms, should) in [(LIMIT_MS - 1, true), (LIMIT_MS, true), (LIMIT_MS + 1, false)] {
            let taken = self.take(|hands| hands.pass(gap_ms))?;
            ensure!(taken.gap_ms == Some(gap_ms), "the gap is {:?} and not {gap_ms} ms", taken.gap_ms);
            ensure!(taken.is_taken == should, "with a limit of {LIMIT_MS} ms: {}", taken.to_json());
            seen.push(taken.to_json());
        }
        Ok(Json::Array(seen))
    }

    /// Observes, lets something happen to the clock, and acts.
    fn take(&self, between: impl FnOnce(&Hands)) -> Result<Taken> {
        let before = self.taken()?;
        let token = self.agent.observe(["Quote::\"q\""])?;
        between(&self.hands);
        let verdict = self.agent.act("fresh", "take", &json!({"quote": "q"}), &[token])?;
        let is_taken = passed(&verdict);
        ensure!(is_taken || failed(&verdict) == ["price-is-low"], "stopped for another reason: {:?}", verdict.code);
        let after = self.taken()?;
        ensure!(after == before + u64::from(is_taken), "the fact says {after} after {before}, the verdict {is_taken}");
        Ok(Taken { is_taken, entry: entry_of(&verdict)?, gap_ms: verdict.gap_ms })
    }

    fn taken(&self) -> Result<u64> {
        self.subject.attribute("Quote::\"q\"", "taken")?.as_u64().context("the quote is gone")
    }
}
