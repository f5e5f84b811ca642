//! A gate with a clock that tests turn, and an outside that does as it is told.

use countersign_core::call::{EffectId, Evidence, FoundCode, Outcome};
use countersign_core::effect::EffectRefusal;
use countersign_core::fence::ClaimId;
use countersign_core::identity::Auth;
use countersign_core::ids::{AgentId, FactId};
use countersign_core::pact::load::load;
use countersign_core::record::{Entry, Event};
use countersign_core::value::Attributes;
use countersign_engine::audit::audit;
use countersign_engine::gate::{Gate, Options};
use countersign_engine::outbox::{Adapter, Attempt, Job, Outbox, Probed};
use countersign_engine::request::{Answer, Refusal, Request};
use countersign_engine::storage::Walk;
use countersign_engine::storage::disk::{Disk, RealDisk};
use countersign_testing::disk::FaultyDisk;
use countersign_testing::gate::environment;
use countersign_testing::hands::Hands;
use countersign_testing::row_log::RowTable;
use ed25519_dalek::SigningKey;
use parking_lot::{Condvar, Mutex};
use serde_json::{Value as Json, json};
use std::collections::VecDeque;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PACT: &str = include_str!("billing.toml");

/// How long a test waits for something that happens on another thread.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the outside was asked, and what it answers: what it was told, one after the other.
#[derive(Default)]
pub struct Outsider {
    answers: Mutex<VecDeque<Attempt>>,
    probes: Mutex<VecDeque<Probed>>,
    pub asked: Mutex<Vec<(EffectId, String, Json)>>,
    changed: Condvar,
    /// What happens while the line to it is being opened.
    pub opening: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// Whether it panics when it is asked if it keeps receipts.
    pub panics_about_receipts: AtomicBool,
}

impl Outsider {
    pub fn answer(&self, attempt: Attempt) {
        self.answers.lock().push_back(attempt);
        self.changed.notify_all();
    }

    pub fn answer_probe(&self, probed: Probed) {
        self.probes.lock().push_back(probed);
        self.changed.notify_all();
    }

    fn next<T>(&self, queue: &Mutex<VecDeque<T>>) -> Option<T> {
        let mut queue = queue.lock();
        let until = Instant::now() + PATIENCE;
        while queue.is_empty() {
            if self.changed.wait_until(&mut queue, until).timed_out() {
                return None;
            }
        }
        queue.pop_front()
    }
}

impl Adapter for Outsider {
    fn attempt(&self, job: &Job<'_>) -> Attempt {
        if let Some(opening) = self.opening.lock().take() {
            opening();
        }
        if let Some(why) = job.held_back() {
            return Attempt::NotSent(Evidence::of(why));
        }
        let sent = match &job.call.send {
            Some(countersign_core::call::Send::Http { method, path, body }) => json!([method.as_str(), path, body]),
            Some(countersign_core::call::Send::Command { args }) => json!(args),
            other => panic!("{other:?}"),
        };
        self.asked.lock().push((job.effect, job.key.to_owned(), sent));
        self.changed.notify_all();
        self.next(&self.answers)
            .unwrap_or_else(|| Attempt::Unknown(Evidence::of(FoundCode::Resolved.said("nobody answered"))))
    }

    fn probe(&self, _: &Job<'_>) -> Probed {
        self.next(&self.probes)
            .unwrap_or_else(|| Probed::Unknown(Evidence::of(FoundCode::Resolved.said("nobody answered"))))
    }

    fn keeps_receipts(&self) -> bool {
        assert!(!self.panics_about_receipts.load(Ordering::SeqCst), "for the test");
        false
    }

    fn concurrency(&self) -> usize {
        8
    }
}

/// Done, as the outside says it.
pub fn done() -> Attempt {
    Attempt::Done(Evidence { status: Some(201), ..Evidence::of(FoundCode::Resolved.said("created")) })
}

/// Unknown, as the outside leaves it.
pub fn unknown() -> Attempt {
    Attempt::Unknown(Evidence::of(FoundCode::Resolved.said("the connection was closed")))
}

/// A gate with its outbox.
pub struct World {
    dir: tempfile::TempDir,
    /// A disk that can fail, in the folder's place.
    pub faulty: Option<FaultyDisk>,
    /// A table, if the log is not kept in files.
    pub table: Option<RowTable>,
    clock: Arc<Hands>,
    pub outside: Arc<Outsider>,
    gate: Option<Arc<Gate>>,
    outbox: Option<Outbox>,
    keys: u64,
}

impl World {
    /// A gate with agents, and accounts `a` and `b` of 500 each.
    pub fn new() -> Self {
        Self::furnished(None, None)
    }

    /// The same with its log in a table.
    pub fn on_rows() -> Self {
        Self::furnished(None, Some(RowTable::default()))
    }

    /// The same on a disk that can fail.
    pub fn on(disk: FaultyDisk) -> Self {
        Self::furnished(Some(disk), None)
    }

    fn furnished(faulty: Option<FaultyDisk>, table: Option<RowTable>) -> Self {
        let world = Self::bare(faulty, table);
        let pact = Arc::new(load(PACT).unwrap_or_else(|problems| panic!("{problems:#?}")).pact);
        world.call(Request::Publish { by: operator(), auth: Auth::None, pact }).unwrap();
        for (agent, role) in [("payer-1", "payer"), ("payer-2", "payer"), ("fraud-1", "fraud"), ("clerk-1", "clerk")] {
            let agent = format!("Agent::\"{agent}\"");
            world.feed(&agent, json!({"roles": [role], "standing": "active", "org": "acme", "trust": 700}));
        }
        for account in ["a", "b"] {
            world.feed(&account_id(account), json!({"status": "active", "balance": 500}));
        }
        world
    }

    fn bare(faulty: Option<FaultyDisk>, table: Option<RowTable>) -> Self {
        let mut world = Self {
            dir: tempfile::tempdir().unwrap(),
            faulty,
            table,
            clock: Hands::at(1_700_000_000_000),
            outside: Arc::default(),
            gate: None,
            outbox: None,
            keys: 0,
        };
        world.open();
        world
    }

    fn open(&mut self) {
        let disk: Arc<dyn Disk> = match &self.faulty {
            Some(faulty) => Arc::new(faulty.clone()),
            None => Arc::new(RealDisk::open(self.dir.path()).unwrap()),
        };
        let environment = environment(disk, Arc::<Hands>::clone(&self.clock));
        let options = Options::new("test.example/effects");
        let (gate, _) = match &self.table {
            Some(table) => Gate::open_on(table.take(), environment, options).unwrap(),
            None => Gate::open(environment, options).unwrap(),
        };
        let gate = Arc::new(gate);
        let adapter = Arc::clone(&self.outside) as Arc<dyn Adapter>;
        let adapters = [("payments".into(), Arc::clone(&adapter)), ("mails".into(), adapter)].into_iter().collect();
        self.outbox = Some(Outbox::start(Arc::clone(&gate), adapters).unwrap());
        self.gate = Some(gate);
    }

    pub fn gate(&self) -> &Arc<Gate> {
        self.gate.as_ref().unwrap()
    }

    /// Stops the outbox and the gate, and starts them again on the same folder.
    pub fn restart(&mut self) {
        self.close();
        self.open();
    }

    /// Ends as a crash would: what a worker finds out from here on, nobody hears. A copy of the folder goes on.
    pub fn crash(&mut self) {
        self.crash_and(|| ());
    }

    /// The same; what the old gate was kept from may go on once the new one runs.
    pub fn crash_and(&mut self, go_on: impl FnOnce()) {
        let copy = tempfile::tempdir().unwrap();
        copy_folder(self.dir.path(), copy.path());
        // Whatever the old gate still does, it does to a folder that nobody looks at any more.
        let (old_dir, outbox, gate) = (std::mem::replace(&mut self.dir, copy), self.outbox.take(), self.gate.take());
        let outside = std::mem::take(&mut self.outside);
        self.outside.asked.lock().extend(outside.asked.lock().iter().cloned());
        self.open();
        go_on();
        outside.answer(unknown());
        drop((outbox, gate));
        drop(old_dir);
    }

    fn close(&mut self) {
        drop(self.outbox.take());
        let gate = self.gate.take().unwrap();
        // A last answer may still be on its way out of a thread of the gate.
        let until = Instant::now() + PATIENCE;
        while Arc::strong_count(&gate) > 1 {
            assert!(Instant::now() < until, "somebody keeps the gate");
            std::thread::yield_now();
        }
        Arc::into_inner(gate).unwrap().close().unwrap();
    }

    /// Another gate takes the log while this one still runs; it has an outbox and an outside of its own.
    pub fn successor(&self) -> Self {
        let mut successor = Self {
            dir: tempfile::tempdir().unwrap(),
            faulty: None,
            table: self.table.clone(),
            clock: Arc::clone(&self.clock),
            outside: Arc::default(),
            gate: None,
            outbox: None,
            keys: self.keys + 1_000,
        };
        successor.open();
        successor
    }

    /// Somebody removes the lock and could take the folder.
    pub fn take_lock_away(&self) {
        std::fs::remove_file(self.dir.path().join("lock")).unwrap();
    }

    /// Replaces bytes by as many others wherever they are in the log's files, while the gate runs; says how often.
    pub fn edit_log(&self, from: &[u8], to: &[u8]) -> usize {
        let files = std::fs::read_dir(self.dir.path()).unwrap().map(|file| file.unwrap().path());
        let mut edited = 0;
        for file in files.filter(|file| file.extension().is_some_and(|end| end == "seg")) {
            let mut bytes = std::fs::read(&file).unwrap();
            let found: Vec<usize> =
                bytes.windows(from.len()).enumerate().filter(|(_, at)| *at == from).map(|(at, _)| at).collect();
            found.iter().for_each(|at| bytes[*at..*at + to.len()].copy_from_slice(to));
            edited += found.len();
            // In place: the gate has it open.
            std::fs::OpenOptions::new().write(true).open(&file).unwrap().write_all(&bytes).unwrap();
        }
        edited
    }

    /// Ends the outbox: whatever was under way has come back.
    pub fn stop_outbox(&mut self) {
        drop(self.outbox.take());
    }

    /// Lets time pass.
    pub fn pass(&self, ms: u64) {
        self.clock.pass(ms);
    }

    /// Opening the next line to the outside takes so long.
    pub fn slow_line(&self, ms: u64) {
        let clock = Arc::clone(&self.clock);
        let wait = move || {
            clock.pass(ms);
        };
        *self.outside.opening.lock() = Some(Box::new(wait));
    }

    pub fn call(&self, request: Request) -> Result<Answer, Refusal> {
        self.gate().call(request)
    }

    pub fn feed(&self, fact: &str, value: Json) -> Entry {
        let value = Some(Attributes::from_untyped_json(value.as_object().unwrap()).unwrap());
        let fact = fact.parse().unwrap();
        entry(self.call(Request::Feed { by: operator(), auth: Auth::None, fact, value, if_match: None }).unwrap())
    }

    pub fn request(&mut self, agent: &str, action: &str, params: Json, claim: Option<ClaimId>) -> Request {
        self.keys += 1;
        let mut body = json!({
            "pact": "billing", "action": action, "params": params, "idempotency_key": format!("{:032}", self.keys),
        });
        if let Some(claim) = claim {
            body["claim"] = claim.to_string().into();
        }
        let agent = AgentId::new(agent).unwrap();
        Request::Act(Box::new(self.gate().admit(agent, Auth::None, body.to_string().into()).unwrap()))
    }

    /// Acts; the verdict, or the code, and the entry.
    pub fn act(&mut self, agent: &str, action: &str, params: Json) -> (String, u64) {
        let request = self.request(agent, action, params, None);
        verdict(self.call(request))
    }

    pub fn claim(&self, agent: &str, facts: &[&str], for_ms: u64) -> Result<ClaimId, Refusal> {
        let by = AgentId::new(agent).unwrap();
        let facts = facts.iter().map(|fact| fact.parse().unwrap()).collect();
        let request = Request::Claim { by, auth: Auth::None, facts, for_ms, reason: "an investigation".into() };
        self.call(request).map(|answer| ClaimId(entry(answer).index))
    }

    pub fn value(&self, fact: &str) -> Json {
        let id: FactId = fact.parse().unwrap();
        let view = self.gate().view();
        view.whole_state()
            .facts
            .get(&id)
            .and_then(|fact| fact.value.as_ref())
            .map(Attributes::to_json)
            .unwrap_or_default()
    }

    pub fn balance(&self, account: &str) -> i64 {
        self.value(&account_id(account))["balance"].as_i64().unwrap()
    }

    /// Where an effect is.
    pub fn phase(&self, effect: u64) -> String {
        match self.gate().view().whole_state().effects.find(EffectId(effect)) {
            Ok(effect) => effect.phase.as_str().to_owned(),
            Err(EffectRefusal::Ended { how, .. }) => how.as_str().to_owned(),
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits until an effect is there; time does not pass by itself meanwhile.
    pub fn until(&self, effect: u64, phase: &str) {
        self.wait(|world| world.phase(effect) == phase, &format!("eff_{effect} never came to be {phase}"));
    }

    /// Waits until something is so.
    pub fn wait(&self, is_so: impl Fn(&Self) -> bool, otherwise: &str) {
        let until = Instant::now() + PATIENCE;
        while !is_so(self) {
            assert!(Instant::now() < until, "{otherwise}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// How often the outside was asked.
    pub fn asked(&self) -> usize {
        self.outside.asked.lock().len()
    }

    pub fn resolve(&self, effect: u64, outcome: Outcome) -> Result<Answer, Refusal> {
        let reason = "the bank was called".into();
        let (by, effect) = (operator(), EffectId(effect));
        self.call(Request::Resolve { by, auth: Auth::None, effect, outcome, attempts: 1, reason })
    }

    /// Ends, and checks that every entry would be decided the same again.
    pub fn audited(mut self) {
        self.close();
        let disk = RealDisk::open(self.dir.path()).unwrap();
        let log = self.table.as_ref().map_or(&disk as &dyn Walk, |table| table);
        let key = countersign_ledger::checkpoint::LogKey::new(
            "test.example/effects",
            SigningKey::from_bytes(&[1; 32]).verifying_key(),
        )
        .unwrap();
        let report = audit(log, &key, &mut |_| ()).unwrap();
        assert_eq!((report.differing, report.unverifiable.len()), (Vec::new(), 0));
        assert_eq!(report.entries, report.verified);
    }
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            copy_folder(&entry.path(), &target);
        } else {
            // The anchor is written anew now and then; the folder is good with the old one, or with none.
            let copied = std::fs::copy(entry.path(), target);
            assert!(copied.is_ok() || !entry.path().exists(), "{copied:?}");
        }
    }
}

pub fn operator() -> AgentId {
    AgentId::new("operator").unwrap()
}

pub fn account_id(account: &str) -> String {
    format!("Account::\"{account}\"")
}

pub fn entry(answer: Answer) -> Entry {
    match answer {
        Answer::Entered(entered) => Arc::unwrap_or_clone(entered.entry),
        other => panic!("no new entry: {other:?}"),
    }
}

/// The verdict, or the code, and the entry.
pub fn verdict(answer: Result<Answer, Refusal>) -> (String, u64) {
    let entry = entry(answer.unwrap());
    let Event::Action(decided) = &entry.event else { panic!("not an action") };
    let decision = &decided.decision;
    let word = decision.blocked().map_or(decision.verdict.as_str(), |blocked| blocked.code().as_str());
    (word.to_owned(), entry.index)
}
