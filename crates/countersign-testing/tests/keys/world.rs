//! A gate whose parts a test drives, with tables of four keys, and an agent that always does the same.

use countersign_core::action::{Action, ActionRequest};
use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_engine::fold::walk_options;
use countersign_engine::gate::{Options, Parts};
use countersign_engine::request::{Answer, Refusal, Request, Submission};
use countersign_engine::sequence::Batch;
use countersign_engine::storage::disk::Disk as _;
use countersign_engine::storage::{StorageError, Walk as _};
use countersign_ledger::tree::Frontier;
use countersign_testing::disk::{Faults, FaultyDisk};
use countersign_testing::gate::{ORIGIN, environment, feed, log_key, publish};
use countersign_testing::hands::Hands;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

pub const TABLE_KEYS: usize = 4;

const PACT: &str = r#"
pact = "notes"
version = 1

[facts.Note]
attributes = { times = "Long" }

[claim.Note]
who = 'true'
max = "10m"

[action.write]
resource = 'Note::"{note}"'
allow = 'true'
wait = "60s"
set = { times = "resource.times + 1" }

[[action.write.require]]
id = "has-begun"
that = 'resource.times >= 0'

[action.jot]
resource = 'Note::"{note}"'
allow = 'true'
set = { times = "resource.times + 1" }

[[action.jot.require]]
id = "has-begun"
that = 'resource.times >= 0'
"#;

/// What the sender of an action was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    Entered(u64),
    Repeated(u64),
    Refused(Refusal),
    /// Of a batch, each.
    Many(Vec<Told>),
}

impl Told {
    pub fn entered(self) -> u64 {
        match self {
            Self::Entered(entry) => entry,
            other => panic!("{other:?}"),
        }
    }
}

impl From<Result<Answer, Refusal>> for Told {
    fn from(answer: Result<Answer, Refusal>) -> Self {
        match answer {
            Ok(Answer::Entered(entered)) => Self::Entered(entered.entry.index),
            Ok(Answer::Repeated(entry)) => Self::Repeated(entry),
            Ok(Answer::Many(answers)) => Self::Many(answers.into_iter().map(Self::from).collect()),
            Err(refusal) => Self::Refused(refusal),
        }
    }
}

pub fn options() -> Options {
    Options { segment_bytes: 64 << 10, snapshot_every: 0, table_keys: TABLE_KEYS, ..Options::new(ORIGIN) }
}

pub fn agent() -> AgentId {
    AgentId::new("ann").unwrap()
}

pub fn body(note: &str, key: u64) -> String {
    let key = format!("{key:032}");
    serde_json::json!({"pact": "notes", "action": "write", "idempotency_key": key, "params": {"note": note}})
        .to_string()
}

pub fn action(note: &str, key: u64) -> Action {
    of_body(&body(note, key))
}

/// An action that does not wait, so that it may be in an atomic group.
pub fn jot(key: u64) -> Action {
    of_body(&body("1", key).replace("write", "jot"))
}

fn of_body(body: &str) -> Action {
    let request = ActionRequest::parse(body).unwrap();
    Action::new(agent(), Auth::None, body.into(), request, Vec::new())
}

pub fn furniture() -> Vec<Request> {
    vec![
        publish(PACT),
        feed("Agent::\"ann\"", r#"{"roles":[],"standing":"active","org":"a","trust":1}"#),
        feed("Agent::\"ben\"", r#"{"roles":[],"standing":"active","org":"a","trust":1}"#),
        feed("Note::\"1\"", r#"{"times":0}"#),
        feed("Note::\"2\"", r#"{"times":0}"#),
    ]
}

pub struct World {
    pub disk: FaultyDisk,
    pub clock: Arc<Hands>,
    pub parts: Parts,
}

impl World {
    pub fn new() -> Self {
        Self::with(options())
    }

    pub fn with(options: Options) -> Self {
        let disk = FaultyDisk::new(7, Faults::default());
        let clock = Hands::at(1_800_000_000_000);
        let parts = Parts::open(environment(Arc::new(disk.clone()), Arc::clone(&clock) as _), options).unwrap();
        let mut world = Self { disk, clock, parts };
        world.enter(furniture()).unwrap();
        world
    }

    /// Opens what is on a disk.
    pub fn on(disk: FaultyDisk, clock: &Arc<Hands>) -> Result<Self, String> {
        let opened = Parts::open(environment(Arc::new(disk.clone()), Arc::clone(clock) as _), options());
        let parts = opened.map_err(|error| error.to_string())?;
        Ok(Self { disk, clock: Arc::clone(clock), parts })
    }

    pub fn reopen(&mut self) {
        self.reopen_with(options());
    }

    pub fn reopen_with(&mut self, options: Options) {
        self.disk = self.disk.restart();
        let environment = environment(Arc::new(self.disk.clone()), Arc::clone(&self.clock) as _);
        self.parts = Parts::open(environment, options).unwrap();
    }

    /// Has requests decided in one turn and made durable. What waits for a fence has no answer yet.
    pub fn enter(&mut self, requests: Vec<Request>) -> Result<Vec<Told>, String> {
        let answers = Arc::new(Mutex::new(Vec::new()));
        let submissions: Vec<_> = requests.into_iter().map(|request| submission(request, &answers)).collect();
        let mut batch = Batch::default();
        self.parts.sequence(&mut batch, submissions);
        self.parts.committer.commit(batch).map_err(|error| error.to_string())?;
        let told = std::mem::take(&mut *answers.lock());
        Ok(told)
    }

    pub fn told(&mut self, request: Request) -> Told {
        self.enter(vec![request]).unwrap().pop().unwrap()
    }

    /// The agent acts under a key.
    pub fn act(&mut self, key: u64) -> Told {
        self.told(Request::Act(Box::new(action("1", key))))
    }

    /// The agent acts under each of these keys, for the first time.
    pub fn act_all(&mut self, keys: std::ops::Range<u64>) {
        for key in keys {
            self.act(key).entered();
        }
    }

    /// The agent does something else under the key.
    pub fn act_otherwise(&mut self, key: u64) -> Told {
        self.told(Request::Act(Box::new(action("2", key))))
    }

    pub fn origin(&self) -> String {
        self.parts.view().whole_state().origin.to_string()
    }

    /// The files of keys.
    pub fn run_names(&self) -> Vec<String> {
        let mut names = self.disk.list().unwrap();
        names.retain(|name| name.ends_with(".keys"));
        names.sort();
        names
    }

    /// How often each key is in the log.
    pub fn uses(&self) -> BTreeMap<[u8; 16], usize> {
        uses(&self.disk).unwrap()
    }
}

pub fn submission(request: Request, answers: &Arc<Mutex<Vec<Told>>>) -> Submission {
    let answers = Arc::clone(answers);
    Submission::new(request, Box::new(move |answer| answers.lock().push(answer.into())))
}

pub fn uses(disk: &FaultyDisk) -> Result<BTreeMap<[u8; 16], usize>, StorageError> {
    let mut uses = BTreeMap::new();
    disk.walk(walk_options(&log_key()), Frontier::new(), &mut |placed| {
        for entry in placed.entries() {
            let leaf = countersign_core::record::Leaf::decode(entry.leaf).unwrap();
            for key in leaf.key.into_iter().chain(leaf.keys.unwrap_or_default()) {
                *uses.entry(key).or_default() += 1;
            }
        }
        Ok(())
    })?;
    Ok(uses)
}
