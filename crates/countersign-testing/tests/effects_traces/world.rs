//! A gate with its outbox on a simulated disk, under a clock that stands still, that takes the steps of the model.

use crate::effects_traces::board::{Board, Order, PATIENCE, Seat};
use crate::effects_traces::clock::Still;
use crate::effects_traces::pact::{ABSENT_AFTER_MS, CLAIM_MS, COOLING_MS, WAIT_MS, fact_id, pact};
use crate::effects_traces::seen::{Seen, expected};
use countersign_core::action::{Action, ActionRequest};
use countersign_core::call::{EffectId, Outcome};
use countersign_core::decision::Verdict;
use countersign_core::effect::EffectRefusal;
use countersign_core::fence::ClaimId;
use countersign_core::halt::Scope;
use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_core::record::Event;
use countersign_core::value::Value;
use countersign_engine::audit::audit;
use countersign_engine::gate::{Gate, Options};
use countersign_engine::outbox::Outbox;
use countersign_engine::request::{Answer, Refusal, Request};
use countersign_testing::disk::{Faults, FaultyDisk};
use countersign_testing::gate::{ORIGIN, environment, feed, log_key, operator, publish};
use countersign_testing::model::{self, Code, Fact, Halt, Protocol, Resolution, State, Step, Worker};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// One life of the gate, from opening to crash.
struct Life {
    gate: Arc<Gate>,
    outbox: Outbox,
    board: Arc<Board>,
}

/// What an agent was told about its action.
enum Told {
    Nothing,
    Waits(Receiver<Result<Answer, Refusal>>),
    Decided { entry: u64, verdict: &'static str },
}

/// The gate, and what the agents around it know.
pub struct World {
    model: Protocol,
    disk: FaultyDisk,
    clock: Arc<Still>,
    life: Option<Life>,
    snapshot_every: u64,
    told: [Told; 3],
    claims: [Option<ClaimId>; 2],
    keys: BTreeMap<usize, Vec<String>>,
    patience: Duration,
}

impl World {
    /// A gate with the pact, the agents and both facts.
    pub fn new(model: Protocol, seed: u64, patience: Duration) -> Self {
        let mut world = Self {
            model,
            disk: FaultyDisk::new(seed, Faults::default()),
            clock: Arc::default(),
            life: None,
            // Half of the runs come back from snapshots as well.
            snapshot_every: if seed.is_multiple_of(2) { 2 } else { 0 },
            told: [Told::Nothing, Told::Nothing, Told::Nothing],
            claims: [None; 2],
            keys: BTreeMap::new(),
            patience,
        };
        world.open();
        world.call(publish(&pact(&world.model.config))).unwrap();
        for number in 0..world.told.len() {
            let claims = world.model.config.claims.iter().enumerate();
            let held = claims.filter(|(_, claim)| claim.holder == number);
            let roles: Vec<String> = held.map(|(claim, _)| format!("claims-{claim}")).collect();
            let value = serde_json::json!({"org": "o", "roles": roles, "standing": "active", "trust": 500});
            world.call(feed(&format!("Agent::\"agent-{number}\""), &value.to_string())).unwrap();
        }
        for fact in Fact::ALL {
            world.call(feed(&fact_id(fact), "{\"open\": true}")).unwrap();
        }
        world
    }

    fn open(&mut self) {
        let disk = Arc::new(self.disk.clone());
        let options = Options { segment_bytes: 64 << 10, snapshot_every: self.snapshot_every, ..Options::new(ORIGIN) };
        let (gate, _) = Gate::open(environment(disk, Arc::clone(&self.clock) as _), options).unwrap();
        let (gate, board) = (Arc::new(gate), Arc::new(Board::default()));
        let adapters = BTreeMap::from([("outside".into(), Arc::clone(&board) as _)]);
        let outbox = Outbox::start(Arc::clone(&gate), adapters).unwrap();
        self.life = Some(Life { gate, outbox, board });
    }

    fn life(&self) -> &Life {
        self.life.as_ref().unwrap()
    }

    fn call(&self, request: Request) -> Result<u64, Refusal> {
        match self.life().gate.call(request)? {
            Answer::Entered(entered) => Ok(entered.entry.index),
            Answer::Repeated(entry) => Ok(entry),
            Answer::Many(_) => panic!("one request was answered as several"),
        }
    }

    fn pass(&self, ms: u64) {
        self.clock.pass(ms);
    }

    fn effect(&self, action: usize) -> Result<EffectId, String> {
        match &self.told[action] {
            Told::Decided { entry, .. } => Ok(EffectId(*entry)),
            _ => Err(format!("action {action} has no entry")),
        }
    }

    /// Takes a step of the model, and compares when the gate has taken it too.
    pub fn take(&mut self, before: &State, step: Step) -> Result<State, String> {
        let after = self.model.after(before, step);
        self.one(before, step)?;
        self.settles_as(&expected(&self.model, &after))?;
        Ok(after)
    }

    fn one(&mut self, before: &State, step: Step) -> Result<(), String> {
        match step {
            Step::Submit(action) => self.submit(before, action)?,
            Step::TimeUp(_) => self.pass(WAIT_MS),
            Step::Dispatch(_) => self.pass(COOLING_MS),
            // A second attempt does not even begin under a halt: the engine settles it before its adapter is asked.
            Step::Send(action) if is_stopped_retry(before, action) => {
                self.at(action, &[Seat::Sent, Seat::Recover], Order::Unknown)?;
            }
            Step::Send(action) => {
                self.ready_to_send(before, action)?;
                self.life().board.tell(action, Order::Send);
                // It must have looked at the halts before anything else happens.
                if before.durable.halt != Halt::Standing {
                    self.life().board.expect(action, &[Seat::Sent])?;
                }
            }
            Step::NotSent(action) => self.at(action, &[Seat::Attempt], Order::Refused)?,
            Step::Reply(action) => {
                let refused = before.lines[action].reply == Some(model::Answer::Refused);
                self.at(action, &[Seat::Sent], if refused { Order::Refused } else { Order::Done })?;
            }
            Step::Doubt(action) => self.doubt(before, action)?,
            Step::AbsentAfter(_) => self.pass(ABSENT_AFTER_MS),
            Step::Probe(action) => self.probe(before, action)?,
            Step::Resolve(action, resolution) => self.resolve(action, resolution)?,
            Step::Announce(claim) => self.announce(claim)?,
            Step::Expire(_) => self.pass(CLAIM_MS),
            Step::Withdraw(claim) => {
                let (by, id) = (self.holder(claim), self.claims[claim].ok_or("there is no such claim")?);
                self.call(Request::WithdrawClaim { by, auth: Auth::None, claim: id }).map_err(|e| e.to_string())?;
            }
            Step::Feed => {
                let (fact, open) = self.model.config.feed.ok_or("there is no feed")?;
                self.call(feed(&fact_id(fact), &format!("{{\"open\": {open}}}"))).map_err(|e| e.to_string())?;
            }
            Step::Halt => {
                // The model's workers look at halts when they send. The engine's look when they begin, too; so they have begun.
                for (action, line) in before.lines.iter().enumerate().filter(|(_, line)| line.worker == Worker::Fresh) {
                    let seat = self.life().board.expect(action, &[Seat::Attempt, Seat::Recover]);
                    seat.map_err(|why| format!("{why}, with {line:?}"))?;
                }
                let (by, reason) = (operator(), "as the trace says".into());
                let halt = Request::Halt { by, auth: Auth::None, scope: Scope::All, reason };
                self.call(halt).map_err(|e| e.to_string())?;
            }
            Step::Resume => {
                let (by, reason) = (operator(), "as the trace says".into());
                let resume = Request::Resume { by, auth: Auth::None, scope: Scope::All, reason };
                self.call(resume).map_err(|e| e.to_string())?;
            }
            Step::Crash => self.crash(before.crashes.into()),
            // What happens outside; the worker hears of it later, or never.
            Step::Deliver(..) | Step::Lose(..) | Step::Duplicate(_) | Step::GiveUp(_) | Step::Sync => {}
        }
        Ok(())
    }

    fn submit(&mut self, before: &State, action: usize) -> Result<(), String> {
        let claim = self.model.config.actions[action].names.map(|claim| {
            // A claim that was refused has no name; naming something else is as good as naming a lost one.
            let named = self.claims[claim].map_or_else(|| "clm_0".to_owned(), |claim| claim.to_string());
            format!(", \"claim\": \"{named}\"")
        });
        let body = format!(
            "{{\"pact\": \"model\", \"action\": \"act{action}\", \"idempotency_key\": \"key-of-the-action-{action}-00\", \
             \"params\": {{}}{}}}",
            claim.unwrap_or_default()
        );
        let request = ActionRequest::parse(&body).map_err(|e| e.to_string())?;
        let agent = AgentId::new(format!("agent-{action}")).map_err(|e| e.to_string())?;
        let action_sent = Action::new(agent, Auth::None, body.as_str().into(), request, Vec::new());
        let (tell, told) = channel();
        // The receiver goes with a life that ends while the action waits.
        let reply = Box::new(move |answer| drop(tell.send(answer)));
        self.life().gate.submit(Request::Act(Box::new(action_sent)), reply).map_err(|e| e.to_string())?;
        let code = self.model.decide(&before.tip, action);
        let waits =
            self.model.config.actions[action].waits && matches!(code, Some(Code::FactFenced | Code::FactClaimed));
        self.told[action] = Told::Waits(told);
        if waits {
            return Ok(());
        }
        let Told::Waits(told) = &self.told[action] else { return Ok(()) };
        let answer = told.recv_timeout(PATIENCE).map_err(|_| format!("action {action} gets no answer"))?;
        self.told[action] = heard(answer, code)?;
        Ok(())
    }

    /// Brings the worker of an action to where it would send.
    fn ready_to_send(&self, before: &State, action: usize) -> Result<(), String> {
        if let Worker::Unknown(_) = before.lines[action].worker {
            self.at(action, &[Seat::Sent, Seat::Recover], Order::Unknown)?;
        }
        self.life().board.expect(action, &[Seat::Attempt]).map(|_| ())
    }

    fn at(&self, action: usize, seats: &[Seat], order: Order) -> Result<(), String> {
        self.life().board.expect(action, seats)?;
        self.life().board.tell(action, order);
        Ok(())
    }

    fn doubt(&self, before: &State, action: usize) -> Result<(), String> {
        self.at(action, &[Seat::Sent, Seat::Recover], Order::Unknown)?;
        let Worker::Unknown(attempts) = before.lines[action].worker else { return Err("nothing is unknown".into()) };
        if attempts < self.model.config.actions[action].attempts && !is_stopped_retry(before, action) {
            self.at(action, &[Seat::Attempt], Order::Unknown)?;
        }
        Ok(())
    }

    /// Lets probes answer until the call is settled: one that was asked too early to count is asked again.
    fn probe(&self, before: &State, action: usize) -> Result<(), String> {
        let order = if before.outside[action].did > 0 { Order::There } else { Order::Absent };
        let effect = self.effect(action)?;
        let until = Instant::now() + PATIENCE;
        while self.life().gate.view().whole_state().effects.find(effect).is_ok() {
            if self.life().board.seat(action) == Some(Seat::Probe) {
                self.life().board.tell(action, order);
            }
            if Instant::now() > until {
                return Err(format!("no probe settles action {action}"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    fn resolve(&self, action: usize, resolution: Resolution) -> Result<(), String> {
        let outcome = match resolution {
            Resolution::Settled => Outcome::Settled,
            Resolution::Failed => Outcome::Failed,
        };
        let (by, effect, reason) = (operator(), self.effect(action)?, "looked at the books".into());
        let request = Request::Resolve { by, auth: Auth::None, effect, outcome, attempts: 1, reason };
        self.call(request).map(|_| ()).map_err(|e| e.to_string())
    }

    fn holder(&self, claim: usize) -> AgentId {
        AgentId::new(format!("agent-{}", self.model.config.claims[claim].holder)).unwrap()
    }

    fn announce(&mut self, claim: usize) -> Result<(), String> {
        let facts = vec![fact_id(self.model.config.claims[claim].fact).parse().unwrap()];
        let (by, reason) = (self.holder(claim), "as the trace says".into());
        match self.call(Request::Claim { by, auth: Auth::None, facts, for_ms: CLAIM_MS, reason }) {
            Ok(entry) => self.claims[claim] = Some(ClaimId(entry)),
            Err(Refusal::Claim(_)) => {}
            Err(other) => return Err(other.to_string()),
        }
        Ok(())
    }

    /// Cuts the power, so that nothing more becomes durable, and only then lets the workers go.
    fn crash(&mut self, seed: u64) {
        let disk = self.disk.crash(seed);
        self.end();
        self.disk = disk;
        for told in &mut self.told {
            if let Told::Waits(_) = told {
                *told = Told::Nothing;
            }
        }
        self.open();
    }

    fn end(&mut self) {
        let Some(Life { gate, outbox, board }) = self.life.take() else { return };
        board.end();
        outbox.stop();
        drop(gate);
        for (action, keys) in board.keys() {
            self.keys.entry(action).or_default().extend(keys);
        }
    }

    /// Waits until the gate is as the model says.
    fn settles_as(&mut self, expected: &Seen) -> Result<(), String> {
        let until = Instant::now() + self.patience;
        loop {
            let seen = self.seen()?;
            if seen == *expected {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(format!("the model says\n  {expected:?}\nthe gate is\n  {seen:?}"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn seen(&mut self) -> Result<Seen, String> {
        for told in &mut self.told {
            if let Told::Waits(answers) = told
                && let Ok(answer) = answers.try_recv()
            {
                *told = heard(answer, None)?;
            }
        }
        let gate = &self.life().gate;
        let now_ms = gate.now_ms();
        let view = gate.view();
        let ids = Fact::ALL.map(|fact| fact_id(fact).parse().unwrap());
        let facts = ids.each_ref().map(|id| {
            let fact = &view.whole_state().facts.get(id).unwrap();
            (fact.version(), fact.value.as_ref().unwrap().get("open") == Some(&Value::Bool(true)))
        });
        let actions = self.told.each_ref().map(|told| match told {
            Told::Nothing | Told::Waits(_) => "new",
            Told::Decided { entry, verdict: "in_flight" } => match view.whole_state().effects.find(EffectId(*entry)) {
                Ok(effect) => effect.phase.as_str(),
                Err(EffectRefusal::Ended { how, .. }) => how.as_str(),
                Err(_) => "not there",
            },
            Told::Decided { verdict, .. } => verdict,
        });
        let fences = &view.whole_state().fences;
        let fenced = ids.each_ref().map(|id| fences.is_steady(id));
        let claims = self.claims.map(|claim| claim.is_some_and(|id| fences.claim(id, now_ms).is_some()));
        let halted = view.whole_state().halts.get(&Scope::All).is_some();
        let (held, waiting) =
            (!view.whole_state().held.is_empty(), usize::try_from(gate.waiting()).unwrap_or(usize::MAX));
        Ok(Seen { facts, actions, fenced, claims, held, halted, waiting })
    }

    /// Closes the gate, and has everything decided again from the ledger.
    pub fn close(mut self) -> Result<(), String> {
        self.end();
        let all: Vec<&String> = self.keys.values().flatten().collect();
        for (action, keys) in &self.keys {
            let alike = all.iter().filter(|key| **key == &keys[0]).count();
            if alike != keys.len() {
                return Err(format!("action {action} does not have one key of its own: {:?}", self.keys));
            }
        }
        let report = audit(&self.disk, &log_key(), &mut |_| ()).map_err(|error| error.to_string())?;
        if report.differing.is_empty() && report.verified == report.entries {
            return Ok(());
        }
        Err(format!("the audit finds {report:?}"))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // A way that differs ends with workers at the board, for which an outbox would wait.
        self.end();
    }
}

fn heard(answer: Result<Answer, Refusal>, code: Option<Code>) -> Result<Told, String> {
    let entry = match answer {
        Ok(Answer::Entered(entered)) => Arc::unwrap_or_clone(entered.entry),
        other => return Err(format!("an action is answered with {other:?}")),
    };
    let Event::Action(decided) = &entry.event else { return Err(format!("{entry:?} is not an action")) };
    let verdict = match &decided.decision.verdict {
        Verdict::Committed => "committed",
        Verdict::InFlight(_) => "in_flight",
        Verdict::Review { .. } => "review",
        Verdict::Rejected(blocked) => {
            let named = match code {
                Some(Code::Halted) => "halted",
                Some(Code::ClaimLost) => "claim_lost",
                Some(Code::FactClaimed) => "fact_claimed",
                Some(Code::FactFenced) => "fact_fenced",
                Some(Code::PreconditionFailed) => "precondition_failed",
                None => blocked.code().as_str(),
            };
            if named != blocked.code().as_str() {
                return Err(format!("the model rejects with {named}, the gate with {}", blocked.message()));
            }
            "rejected"
        }
    };
    Ok(Told::Decided { entry: entry.index, verdict })
}

/// Whether the next attempt of an action would be one more, under a halt.
fn is_stopped_retry(before: &State, action: usize) -> bool {
    before.durable.halt == Halt::Standing && matches!(before.lines[action].worker, Worker::Unknown(_))
}
