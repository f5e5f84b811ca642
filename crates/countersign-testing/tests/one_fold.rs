//! One fold: random histories of every kind of entry give the same state in the sequencer, in what readers see, after a restart from a
//! snapshot, and folded from the start of the log as an audit does.

mod pacts;
mod sessions;

use self::pacts::{ACTIONS, PACT, SCRIBBLES, pact};
use self::sessions::{place, rests_on};
use countersign_core::action::{Action, ActionRequest, Observed};
use countersign_core::call::{Evidence, FoundCode, Outcome};
use countersign_core::denial::{DenialCode, Denied};
use countersign_core::erase::EraseTarget;
use countersign_core::fact::Version;
use countersign_core::fence::ClaimId;
use countersign_core::identity::Auth;
use countersign_core::ids::{AgentId, FactId};
use countersign_core::pact::load::load;
use countersign_core::record::{Context, Entry, Given, Kind, Leaf, NoPacts};
use countersign_core::review::Shown;
use countersign_core::state::{SHARDS, State};
use countersign_core::value::Attributes;
use countersign_engine::audit::audit;
use countersign_engine::fold::{Depth, Fold, read, walk_options};
use countersign_engine::gate::{Environment, FoundFacts, Options, Parts};
use countersign_engine::log_key::{HeldKey, KeyFiles};
use countersign_engine::request::{ActMany, Answer, Refusal, Request, Settlement, Submission};
use countersign_engine::sequence::Batch;
use countersign_engine::storage::ReadLog as _;
use countersign_engine::storage::disk::{Disk, replace_small};
use countersign_engine::storage::{self, StorageError, Walk, WalkedEntry};
use countersign_ledger::tree::Frontier;
use countersign_testing::disk::{Faults, FaultyDisk, SplitMix};
use countersign_testing::gate::{ORIGIN, log_key, operator, signing_key};
use countersign_testing::hands::Hands;
use countersign_testing::row_log::RowTable;
use parking_lot::Mutex;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One history.
struct History {
    rng: SplitMix,
    disk: FaultyDisk,
    clock: Arc<Hands>,
    parts: Parts,
    pacts: u64,
    keys: u64,
    /// Where the log is kept, if not in files.
    table: Option<RowTable>,
    /// What was answered, in order.
    answers: Arc<Mutex<Vec<String>>>,
    /// What each entry said of where it came from.
    contexts: BTreeMap<u64, Context>,
    gives_contexts: bool,
    /// Whether payloads are erased in it: then who last changed what is no longer the same by the log alone.
    erases: bool,
    /// How many lives began from a snapshot.
    from_snapshots: usize,
    is_snapshotting: bool,
    /// How many steps were made while a snapshot was being written.
    beside: usize,
}

fn open(disk: &FaultyDisk, table: Option<&RowTable>, clock: &Arc<Hands>, seed: u8) -> Parts {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let files = KeyFiles::new(Arc::clone(&disk), Arc::clone(&disk));
    let log_key = HeldKey::load(files).unwrap();
    let environment =
        Environment { disk, clock: Arc::clone(clock) as _, seed: [seed; 32], log_key, token_key: [2; 32] };
    let options = Options { segment_bytes: 1 << 20, snapshot_every: 0, table_keys: 3, ..Options::new(ORIGIN) };
    match table {
        Some(table) => Parts::open_on(table.take(), environment, options).unwrap(),
        None => Parts::open(environment, options).unwrap(),
    }
}

impl History {
    fn new(seed: u64, table: Option<RowTable>) -> Self {
        let mut rng = SplitMix::new(seed);
        let disk = FaultyDisk::new(rng.next(), Faults::default());
        replace_small(&disk, "log", signing_key().as_bytes()).unwrap();
        let clock = Hands::at(1_800_000_000_005);
        let parts = open(&disk, table.as_ref(), &clock, 1);
        let erases = rng.below(2) == 0;
        let (answers, contexts, gives_contexts) = (Arc::default(), BTreeMap::new(), seed.is_multiple_of(4));
        let (pacts, keys, from_snapshots, is_snapshotting, beside) = (0, 0, 0, false, 0);
        let mut history = Self {
            rng,
            disk,
            clock,
            parts,
            pacts,
            keys,
            table,
            answers,
            contexts,
            gives_contexts,
            erases,
            from_snapshots,
            is_snapshotting,
            beside,
        };
        history.publish();
        for agent in ["ann", "ben"] {
            history.feed(&format!("Agent::\"{agent}\""), Some(trusted(1)));
        }
        history
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        let at = self.rng.below(from.len().max(1) as u64);
        from.get(usize::try_from(at).unwrap()).cloned()
    }

    fn agent(&mut self) -> AgentId {
        AgentId::new(self.pick(&["ann", "ben"]).unwrap()).unwrap()
    }

    fn note(&mut self) -> String {
        self.pick(&["1", "2", "3"]).unwrap().to_owned()
    }

    /// Has a request decided and made durable, then compares what readers see with the state ahead of them.
    fn enter(&mut self, request: Request) {
        let mut batch = Batch::default();
        let answers = Arc::clone(&self.answers);
        let answered = move |answer: Result<Answer, Refusal>| answers.lock().push(told(&answer));
        self.parts.sequence(&mut batch, [Submission::new(request, Box::new(answered))]);
        // Nothing writes a context yet; what is said in one must come back from the log, whoever reads it.
        for sequenced in &mut batch.entries {
            let labels = vec![format!("label-{}", self.rng.below(9)).into()];
            let given = Given { labels, severity: Some(self.rng.below(101)), ..Given::default() };
            let entry = Arc::get_mut(&mut sequenced.entry).unwrap();
            let is_given = self.gives_contexts && self.rng.below(2) == 0;
            entry.context = Context::new(if is_given { given } else { Given::default() }).unwrap();
            self.contexts.insert(entry.index, entry.context.clone());
        }
        self.parts.committer.commit(batch).unwrap();
        self.parts.tend_keys().unwrap();
        let view = self.parts.view();
        assert!(self.parts.sequencer.state() == view.whole_state(), "readers see another state at {}", view.position);
    }

    fn feed(&mut self, fact: &str, value: Option<serde_json::Value>) {
        let value = value.map(|value| Attributes::from_untyped_json(value.as_object().unwrap()).unwrap());
        let fact = fact.parse().unwrap();
        self.enter(Request::Feed { by: operator(), auth: Auth::None, fact, value, if_match: None });
    }

    fn publish(&mut self) {
        self.pacts += 1;
        for (rules, actions) in [(PACT, &ACTIONS[..]), (SCRIBBLES, &["jot"])] {
            let text = pact(rules, actions, self.pacts);
            let pact = Arc::new(load(&text).unwrap_or_else(|problems| panic!("{problems:#?}")).pact);
            self.enter(Request::Publish { by: operator(), auth: Auth::None, pact });
        }
    }

    /// What an agent is trusted with changes, whatever it has under way.
    fn feed_agent(&mut self) {
        let (agent, trust) = (self.agent(), self.rng.below(1000));
        self.feed(&format!("Agent::\"{agent}\""), Some(trusted(trust)));
    }

    fn act(&mut self) {
        let agent = self.agent();
        let action = self.action(agent);
        self.enter(Request::Act(Box::new(action)));
    }

    fn act_as(&mut self, kind: &str) {
        let agent = self.agent();
        let action = self.action_of(agent, "notes", kind);
        self.enter(Request::Act(Box::new(action)));
    }

    /// Several actions at once, mostly as one group: it commits or is rejected as a whole.
    fn act_many(&mut self) {
        let (by, count) = (self.agent(), 1 + self.rng.below(3));
        let actions: Vec<Action> = (0..count).map(|_| self.action(by.clone())).collect();
        let ids = actions.iter().map(|action| action.id).collect();
        let many = ActMany { by, auth: Auth::None, ids, actions, is_atomic: self.rng.below(3) > 0 };
        self.enter(Request::ActMany(Box::new(many)));
    }

    fn action(&mut self, agent: AgentId) -> Action {
        let (pact, kind) =
            if self.rng.below(4) == 0 { ("scribbles", "jot") } else { ("notes", self.pick(&ACTIONS).unwrap()) };
        self.action_of(agent, pact, kind)
    }

    fn action_of(&mut self, agent: AgentId, pact: &str, kind: &str) -> Action {
        let note = self.note();
        self.keys += 1;
        let body = json!({
            "pact": pact, "action": kind, "idempotency_key": format!("{:032}", self.keys),
            "params": {"note": note, "text": format!("text {}", self.rng.below(3))},
        });
        let mut body = body;
        let place = place(self.rng.below(3));
        if let Some((session, _)) = self.session(&agent).filter(|_| kind == "move") {
            body["session"] = json!(session.to_string());
            body["unsure"] = (self.rng.below(3) == 0).then(|| place.name().to_string()).into_iter().collect();
        }
        let body: Arc<str> = body.to_string().into();
        let observed = self.observed(&format!("Note::\"{note}\""));
        let request = ActionRequest::parse(&body).unwrap();
        Action::new(agent, Auth::None, Arc::clone(&body), request, observed.into_iter().collect())
    }

    /// What an agent observed: mostly the current version, sometimes an older one.
    fn observed(&mut self, fact: &str) -> Option<Observed> {
        let id: FactId = fact.parse().unwrap();
        let (how, view) = (self.rng.below(4), self.parts.view());
        let held = view.whole_state().facts.get(&id).filter(|_| how > 0)?;
        let version = if how == 1 { held.version().saturating_sub(1) } else { held.version() };
        Some(Observed { fact: id, version: Version::Number(version), at_ms: view.time_ms, value: held.value.clone() })
    }

    fn review(&mut self) {
        let view = self.parts.view();
        let open: Vec<_> =
            view.whole_state().reviews.open().map(|(id, parked)| (id, Arc::clone(&parked.action))).collect();
        let (at_ms, pact) = (view.time_ms, view.whole_state().pacts.values().next().cloned().unwrap());
        drop(view);
        let Some((review, action)) = self.pick(&open) else { return };
        let by = operator();
        if self.rng.below(3) == 0 {
            return self.enter(Request::Refuse { by, auth: Auth::None, review, reason: "no".into() });
        }
        let facts =
            ["Note::\"1\"", "Note::\"2\"", "Note::\"3\""].iter().filter(|note| action.body.contains(&note[7..8]));
        let notes: Vec<&str> = facts.copied().collect();
        let view = self.parts.view();
        let shown = |fact: &&str| {
            let fact: FactId = fact.parse().unwrap();
            let held = view.whole_state().facts.get(&fact);
            let version = Version::Number(held.map_or(0, |held| held.version()));
            Observed { fact, version, at_ms, value: held.and_then(|held| held.value.clone()) }
        };
        let mut facts: Vec<Observed> = notes.iter().map(shown).collect();
        facts.insert(0, shown(&&*format!("Agent::\"{}\"", action.agent)));
        drop(view);
        let pact =
            countersign_core::decision::PactRef { name: pact.name.clone(), version: pact.version, hash: pact.hash };
        let waives = vec!["note-is-closed".into()];
        let shown = Shown { to: by.clone(), review, action: action.id, pact, at_ms, facts, waives };
        let until_ms = at_ms + 60_000;
        self.enter(Request::Approve { by, auth: Auth::None, shown: Box::new(shown), until_ms });
    }

    fn call(&mut self) {
        let view = self.parts.view();
        let open = view.whole_state().effects.open();
        let open: Vec<_> = open.map(|(id, effect)| (id, effect.phase.as_str(), rests_on(effect))).collect();
        drop(view);
        let Some((effect, phase, rests_on)) = self.pick(&open) else { return };
        if let ("cooling", Some(rests_on)) = (phase, &rests_on) {
            return self.dispatch_as_read(effect, rests_on);
        }
        if let ("dispatched", Some(rests_on)) = (phase, &rests_on)
            && !rests_on.is_empty()
            && self.rng.below(2) == 0
        {
            return self.settle_as_read(effect);
        }
        let evidence = Evidence::of(FoundCode::Resolved.said("so they say"));
        let request = match phase {
            "cooling" => Request::Dispatch { effect },
            "in_doubt" => {
                let outcome = self.pick(&[Outcome::Settled, Outcome::Failed]).unwrap();
                let (by, auth, reason) = (operator(), Auth::None, "asked them".into());
                Request::Resolve { by, auth, effect, outcome, attempts: 1, reason }
            }
            _ => {
                let outcome = self.pick(&[Outcome::Settled, Outcome::Failed, Outcome::InDoubt]).unwrap();
                Request::Settle(Box::new(Settlement {
                    effect,
                    outcome,
                    evidence,
                    judged: None,
                    is_stopped: false,
                    beside: Vec::new(),
                }))
            }
        };
        self.enter(request);
    }

    fn claim(&mut self) {
        let (by, auth) = (self.agent(), Auth::None);
        let view = self.parts.view();
        let open: Vec<(ClaimId, AgentId)> =
            view.whole_state().fences.claims().map(|(id, claim)| (id, claim.by.clone())).collect();
        drop(view);
        let request = match (self.rng.below(4), self.pick(&open)) {
            (0, Some((claim, by))) => Request::ExtendClaim { by, auth, claim, for_ms: 2_000 },
            (1, Some((claim, by))) => Request::WithdrawClaim { by, auth, claim },
            _ => {
                let facts = vec![format!("Note::\"{}\"", self.note()).parse().unwrap()];
                Request::Claim { by, auth, facts, for_ms: 1_000, reason: "soon".into() }
            }
        };
        self.enter(request);
    }

    /// An agent has entered what it is shown, or is refused.
    fn observe(&mut self) {
        let agent = self.agent();
        let mut ids: Vec<FactId> = vec![format!("Note::\"{}\"", self.note()).parse().unwrap()];
        if self.rng.below(2) == 0 {
            ids.push(format!("Agent::\"{agent}\"").parse().unwrap());
        }
        let (external, attest, found) = (Box::default(), self.rng.below(2) == 0, FoundFacts::default());
        self.enter(Request::Observe { agent, auth: Auth::None, ids, external, attest, found });
    }

    fn erase(&mut self) {
        if !self.erases {
            return;
        }
        let position = self.parts.view().position;
        let index = self.rng.below(position);
        let stored = self.parts.committer.log().read_entry(index).unwrap();
        let Some((_, payload)) = stored.content else { return };
        let entry = Entry::decode(Leaf::decode(&stored.leaf).unwrap(), Some(&payload)).unwrap();
        if countersign_core::erase::kept_for_ever(entry.event.kind(), entry.event.identity()).is_some() {
            return;
        }
        let (by, targets) = (operator(), vec![EraseTarget::new(&entry)]);
        self.enter(Request::Erase { by, auth: Auth::None, targets, reason: "asked".into() });
    }

    fn step(&mut self) {
        let passed = self.pick(&[0, 0, 7, 400, 1_500, 20_000, 90_000_000]).unwrap();
        self.clock.pass(passed);
        let (by, auth) = (operator(), Auth::None);
        match self.rng.below(32) {
            0..4 => self.act(),
            4..6 => self.act_many(),
            6 if self.rng.below(3) == 0 => self.feed_agent(),
            6..9 => {
                let (note, text) = (self.note(), self.rng.below(3));
                let value = json!({"text": format!("fed {text}"), "open": self.rng.below(2) == 0});
                let value = (self.rng.below(5) > 0).then_some(value);
                self.feed(&format!("Note::\"{note}\""), value);
            }
            9..11 => self.review(),
            11..15 => self.call(),
            15..17 => self.claim(),
            17 => {
                let fact: FactId = format!("Note::\"{}\"", self.note()).parse().unwrap();
                let version = self.parts.view().whole_state().facts.get(&fact).map_or(1, |held| held.version());
                self.enter(Request::Confirm { by, auth, fact, version });
            }
            18 => {
                let scope = self.pick(&["agent:ann", "org:b", "agent:nobody"]).unwrap().parse().unwrap();
                let request = match self.rng.below(2) {
                    0 => Request::Halt { by, auth, scope, reason: "a race".into() },
                    _ => Request::Resume { by, auth, scope, reason: "over".into() },
                };
                self.enter(request);
            }
            19 => self.erase(),
            20 => {
                let denied = Denied {
                    agent: Some(self.agent()),
                    code: DenialCode::NotObservable,
                    count: 3,
                    first_ms: 1,
                    last_ms: 2,
                    sample: "Note".to_owned(),
                };
                self.enter(Request::Denials(vec![denied]));
            }
            21 if self.pacts < 5 => self.publish(),
            22 => {
                let mut seed = [0; 32];
                seed.fill_with(|| (self.rng.next() & 0xff) as u8);
                let next = self.parts.log_keys().prepare(seed);
                if let Ok(next) = next {
                    self.enter(Request::RotateLogKey { by, auth, next, reason: "yearly".into() });
                    self.parts.log_keys().settle().unwrap();
                }
            }
            23 => {
                self.clock.step(i64::from(self.rng.below(2) == 1) * 100_000);
                self.enter(Request::ConfirmClock { by, auth });
            }
            24..29 => self.read(),
            29..31 => self.observe(),
            _ => self.snapshot(),
        }
    }

    /// Takes a snapshot. While it is written entries go on, of what it already has and of what it still has to copy.
    fn snapshot(&mut self) {
        if std::mem::replace(&mut self.is_snapshotting, true) {
            return;
        }
        let take = self.parts.snapshot_between();
        let steps = self.rng.below(12);
        let mut at: Vec<u64> = (0..steps).map(|_| self.rng.below(SHARDS as u64)).collect();
        at.sort_unstable();
        let mut pieces = 0;
        let taken = take(&mut || {
            for _ in at.iter().filter(|at| **at == pieces) {
                match self.rng.below(3) {
                    0 => self.act_as("debit"),
                    1 => self.feed_agent(),
                    _ => self.step(),
                }
                self.beside += 1;
            }
            pieces += 1;
        });
        taken.unwrap();
        assert!(pieces >= SHARDS as u64);
        self.is_snapshotting = false;
    }

    /// Restarts: from the newest snapshot and the tail of the log. Compares with the state before, and with the whole log folded.
    fn restart(&mut self, seed: u8) {
        let before = self.parts.view().whole_state().clone();
        self.disk = self.disk.restart();
        self.parts = open(&self.disk, self.table.as_ref(), &self.clock, seed);
        // One that was taken before the log's key was changed is of no use any more; there is nothing wrong with any other.
        let is_outdated = |reason: &str| reason == "it is not signed by the log's key";
        let ignored: Vec<_> = self.parts.report.ignored.iter().filter(|it| !is_outdated(&it.reason)).collect();
        assert!(ignored.is_empty(), "a snapshot that this gate took cannot be used: {ignored:?}");
        self.from_snapshots += usize::from(self.parts.report.snapshot.is_some());
        let position = self.parts.view().position;
        let restarted = self.parts.sequencer.state();
        let folded = self.folded();
        if self.erases {
            alike(restarted, &before, position);
            alike(&folded, &before, position);
        } else {
            same(restarted, &before, "restarted", position);
            same(&folded, &before, "folded", position);
        }
        assert!(self.parts.sequencer.state() == self.parts.view().whole_state());
    }

    /// The log as anyone reads it, wherever it is kept.
    fn log(&self) -> &dyn Walk {
        self.table.as_ref().map_or(&self.disk as &dyn Walk, |table| table)
    }

    fn walk(&self, visit: &mut storage::Fold<'_>) -> Result<(), StorageError> {
        self.log().walk(walk_options(&log_key()), Frontier::new(), visit).map(drop)
    }

    fn folded(&self) -> State {
        // As an opening reads entries, and as an audit and a replay do.
        let (mut fold, mut whole) = (Fold::default(), Fold::default());
        self.walk(&mut |placed| {
            for entry in placed.entries() {
                for (fold, depth) in [(&mut whole, Depth::Whole(&NoPacts)), (&mut fold, Depth::Fold)] {
                    let read = read(&entry, depth)?;
                    assert_eq!(self.contexts.get(&entry.index).unwrap_or(&Context::default()), &read.entry.context);
                    fold.apply(&read)?;
                }
            }
            Ok(())
        })
        .unwrap();
        same(&whole.state, &fold.state, "read whole", fold.position);
        fold.state
    }

    fn kinds(&self) -> BTreeSet<Kind> {
        let position = self.parts.view().position;
        let log = self.parts.committer.log();
        let kind = |index| Leaf::decode(&log.read_entry(index).unwrap().leaf).unwrap().kind;
        (0..position).map(kind).collect()
    }
}

/// What the fact of an agent says.
fn trusted(trust: u64) -> serde_json::Value {
    json!({"roles": [], "standing": "active", "org": "a", "trust": trust})
}

/// The very same state, part by part, so that a failure says which.
fn same(state: &State, expected: &State, who: &str, position: u64) {
    assert_eq!(state.reviews, expected.reviews, "{who} at {position}: reviews");
    assert_eq!(state.effects, expected.effects, "{who} at {position}: effects");
    assert_eq!(state.fences, expected.fences, "{who} at {position}: fences");
    assert_eq!(state.budgets, expected.budgets, "{who} at {position}: budgets");
    for fact in expected.facts.iter() {
        assert_eq!(state.facts.get(&fact.id), Some(fact), "{who} at {position}");
    }
    assert!(state == expected, "{who} at {position}");
}

/// The same in everything that decides. What an erased entry alone said (who last changed an attribute, what a closed window held) is
/// gone.
fn alike(state: &State, expected: &State, position: u64) {
    let values = |state: &State| {
        let fact =
            |fact: &Arc<countersign_core::fact::Fact>| (fact.id.clone(), fact.tag, fact.version(), fact.value.clone());
        let mut facts: Vec<_> = state.facts.iter().map(fact).collect();
        facts.sort_by_key(|(id, ..)| id.to_string());
        facts
    };
    assert_eq!(values(state), values(expected), "at {position}");
    let open = |state: &State| state.reviews.open().map(|(id, parked)| (id, parked.clone())).collect::<Vec<_>>();
    assert_eq!(open(state), open(expected), "at {position}");
    let phases = |state: &State| {
        state.effects.open().map(|(id, effect)| (id, effect.phase.as_str(), effect.latest)).collect::<Vec<_>>()
    };
    assert_eq!(phases(state), phases(expected), "at {position}");
    assert_eq!((&state.halts, &state.held), (&expected.halts, &expected.held), "at {position}");
    assert_eq!((&state.pacts, state.version_floor), (&expected.pacts, expected.version_floor), "at {position}");
}

/// An answer in words: what differs between two logs would show here.
fn told(answer: &Result<Answer, Refusal>) -> String {
    match answer {
        Ok(Answer::Entered(entered)) => format!("{:?} {:?}", entered.entry, entered.proof.receipt(&entered.entry)),
        other => format!("{other:?}"),
    }
}

/// Lives through one history; says how many actions waited and calls were under way at its restarts, and what shared budgets held.
fn live(history: &mut History) -> (usize, usize, i64) {
    let mut undone = (0, 0, 0);
    for life in 0..6 {
        for _ in 0..history.rng.below(40) {
            history.step();
        }
        let view = history.parts.view();
        undone.0 += view.whole_state().reviews.open().count();
        let effects = view.whole_state().effects.open();
        undone.1 += effects.filter(|(_, it)| it.flight().is_some_and(|it| it.context.is_some())).count();
        let named = view.whole_state().budgets.iter().filter(|(key, _)| key.action.is_none());
        undone.2 += named.map(|(_, held)| held.used).sum::<i64>();
        drop(view);
        history.restart(life + 2);
    }
    undone
}

#[test]
fn every_way_of_folding_gives_the_same_state() {
    let mut kinds = BTreeSet::new();
    let (mut undone, mut from_snapshots, mut beside) = ((0, 0, 0), 0, 0);
    for seed in 0..48 {
        let mut history = History::new(seed, None);
        let (reviews, calls, charged) = live(&mut history);
        undone = (undone.0 + reviews, undone.1 + calls, undone.2 + charged);
        kinds.extend(history.kinds());
        (from_snapshots, beside) = (from_snapshots + history.from_snapshots, beside + history.beside);
        let report = audit(history.log(), &log_key(), &mut |_| ()).unwrap();
        // No gate writes a context, so an audit finds each that was given, and nothing else.
        let given = history.contexts.iter().filter(|(_, context)| context.given().is_some()).map(|(entry, _)| *entry);
        let differing: Vec<u64> = report.differing.iter().map(|it| it.entry).collect();
        let others = report.differing.iter().filter(|it| !it.what.contains("has a context")).collect::<Vec<_>>();
        assert_eq!(differing, given.collect::<Vec<_>>(), "seed {seed}: {others:?}");
    }
    let missing: Vec<_> = Kind::ALL.iter().filter(|kind| !kinds.contains(kind)).collect();
    assert_eq!(missing, Vec::<&Kind>::new(), "histories must hold every kind");
    // Restarts met actions that waited, and calls that rest on what was read at their dispatch.
    assert!(undone.0 > 5 && undone.1 > 5 && undone.2 > 20, "{undone:?}");
    assert!(from_snapshots > 20, "only {from_snapshots} lives began from a snapshot");
    assert!(beside > 200, "only {beside} steps were made while a snapshot was written");
}

#[test]
fn a_log_in_rows_gives_the_same_answers_states_and_bytes_as_one_in_files() {
    for seed in 100..112 {
        let mut logs = [History::new(seed, None), History::new(seed, Some(RowTable::default()))];
        for history in &mut logs {
            live(history);
        }
        let [files, rows] = &logs;
        assert_eq!(*files.answers.lock(), *rows.answers.lock(), "seed {seed}");
        assert!(files.parts.sequencer.state() == rows.parts.sequencer.state(), "seed {seed}");
        let batches = |history: &History| {
            let mut batches = Vec::new();
            let read = history.walk(&mut |placed| {
                batches.push((placed.batch.header().first_index, placed.batch.note().to_vec()));
                let bytes = |entry: WalkedEntry<'_>| [entry.leaf, entry.payload.unwrap_or(b"erased")].concat();
                batches.extend(placed.entries().map(|entry| (entry.index, bytes(entry))));
                Ok(())
            });
            read.unwrap();
            batches
        };
        assert_eq!(batches(files), batches(rows), "seed {seed}");
        let audited = |history: &History| audit(history.log(), &log_key(), &mut |_| ()).unwrap();
        assert_eq!(audited(files), audited(rows), "seed {seed}");
    }
}
