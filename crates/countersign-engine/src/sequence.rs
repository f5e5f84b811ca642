//! The single writer: takes whatever has queued and decides one after the other, each on the state that the one before
//! left (I1). It never waits on a disk or a network; what it decides becomes visible only when the commit stage has made
//! it durable (I2).
//!
//! No rules live here: `decide` answers, this applies.

mod effects;
mod feeds;
mod many;
mod observe;
mod sessions;
mod waiting;

pub(crate) use effects::beside_all;

use crate::clock::{Clock, LedgerClock, Step};
use crate::idempotency::{Keys, Lookup, Seen, Sought, Window};
use crate::request::{Refusal, Reply, Request, Submission};
use crate::view::Live;
use countersign_core::action::Action;
use countersign_core::call::{Evidence, FoundCode};
use countersign_core::decide::Approval;
#[cfg(not(feature = "sabotage"))]
use countersign_core::decide::{approve, decide};
use countersign_core::decision::Write;
use countersign_core::identity::{Auth, KeyName, authorise, first_operator};
use countersign_core::ids::{AgentId, Tag};
use countersign_core::limits::REASON_BYTES_MAX;
use countersign_core::record::{Approved, Context, Decided, Entry, Event};
use countersign_core::review::{ReviewId, ReviewRefusal, Shown};
use countersign_core::state::State;
use observe::Asked;
use parking_lot::Mutex;
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::Rng as _;
use std::sync::Arc;
use waiting::{FenceWaiters, Waiter, Waits};

/// Most reviews that expire in one turn; the rest follows in the next.
const EXPIRED_AT_ONCE: usize = 256;

/// The sequencer: the state ahead of the disk, and the order.
pub struct Sequencer {
    state: Live,
    waiting: FenceWaiters,
    keys: Arc<Keys>,
    keys_per_agent: u32,
    clock: Arc<Mutex<LedgerClock>>,
    step_entered: bool,
    random: ChaCha12Rng,
    #[cfg(feature = "sabotage")]
    sabotaged: crate::sabotage::Sabotaged,
}

/// Gives facts that are new the tags that stand for them in leaves.
fn draw_tags(random: &mut ChaCha12Rng, writes: &mut [Write]) {
    for write in writes.iter_mut().filter(|write| write.tag.is_none()) {
        let mut tag = [0; 12];
        random.fill_bytes(&mut tag);
        write.tag = Some(Tag(tag));
    }
}

/// What one turn of the sequencer hands to the commit stage.
#[derive(Default)]
pub struct Batch {
    /// The entries, in order.
    pub entries: Vec<Sequenced>,
    /// Answers that need no entry, but must wait for what they rest on.
    pub answers: Vec<(Reply, Result<u64, Refusal>)>,
    /// Actions whose keys were looked up too long ago: nothing was decided, and a thread that may wait for a disk looks again.
    pub again: Vec<Submission>,
    /// Whether the wall clock has stepped and waits for confirmation.
    pub clock_step: Option<Step>,
}

impl Batch {
    /// Refuses a request; its answer waits for what the refusal rests on.
    fn refuse(&mut self, reply: Reply, refusal: impl Into<Refusal>) {
        self.answers.push((reply, Err(refusal.into())));
    }

    /// How many requests it holds.
    pub fn len(&self) -> usize {
        self.entries.len() + self.answers.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One entry, and who waits for it.
pub struct Sequenced {
    pub entry: Arc<Entry>,
    /// Whether it shares its commit with others, whatever happens.
    pub joint: Joint,
    /// Where the answer goes; the gate's own entries have no one waiting.
    pub reply: Option<Reply>,
}

/// Whether entries must be made durable together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joint {
    /// It is alone.
    Alone,
    /// It is the first of some that must share one commit, which have so many bytes of payload in all.
    First(usize),
    /// It goes with the one before.
    Next,
}

impl Sequencer {
    /// A sequencer that goes on from a state.
    pub fn new(state: Live, keys: Arc<Keys>, clock: Arc<Mutex<LedgerClock>>, random: ChaCha12Rng) -> Self {
        let waiting = FenceWaiters::default();
        Self {
            state,
            waiting,
            keys,
            keys_per_agent: u32::MAX,
            clock,
            step_entered: false,
            random,
            #[cfg(feature = "sabotage")]
            sabotaged: crate::sabotage::Sabotaged::default(),
        }
    }

    /// Keeps no more idempotency keys than this for one agent.
    pub fn with_keys_per_agent(self, keys_per_agent: u32) -> Self {
        Self { keys_per_agent, ..self }
    }

    /// Does without a control from now on.
    #[cfg(feature = "sabotage")]
    pub fn without(self, control: Option<crate::sabotage::Control>) -> Self {
        Self { sabotaged: crate::sabotage::Sabotaged::new(control), ..self }
    }

    /// The state ahead of the disk, for tests that compare it with what others folded.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Ledger time, for tests that sign by it.
    pub fn time_ms(&self, clock: &dyn Clock) -> u64 {
        self.clock.lock().read(clock)
    }

    /// Decides requests at one reading of the clock and adds them to a batch.
    pub fn sequence(
        &mut self,
        batch: &mut Batch,
        submissions: impl IntoIterator<Item = Submission>,
        clock: &dyn Clock,
    ) {
        self.state.release();
        let (now_ms, stepped) = {
            let mut ledger_clock = self.clock.lock();
            (ledger_clock.read(clock), ledger_clock.stepped())
        };
        // The end of a step is told like its beginning: the wall clock is near the entry's time again.
        let told_ms = match stepped {
            Some(step) => (!self.step_entered).then_some(step.wall_ms),
            None => self.step_entered.then(|| clock.wall_ms()),
        };
        if let Some(wall_ms) = told_ms {
            let event = Event::Clock { wall_ms, confirmed: false };
            self.enter(batch, now_ms, AgentId::gate(), Auth::None, event, None);
        }
        self.step_entered = stepped.is_some();
        self.expire_reviews(batch, now_ms);
        #[cfg(feature = "sabotage")]
        self.sabotaged.begin(&self.state);
        let keys = Arc::clone(&self.keys);
        let mut keys = keys.window();
        keys.freeze_if_full();
        // Those that wait come before what has queued since: a claim that has run out must not be followed by the next
        // before they had their turn.
        self.try_waiting(batch, &mut keys, now_ms);
        for submission in submissions {
            self.one(batch, &mut keys, submission, now_ms, clock);
            if self.waiting.is_freed() {
                self.try_waiting(batch, &mut keys, now_ms);
            }
        }
        batch.clock_step = self.clock.lock().stepped();
    }

    /// The first entry of a new log, and the second where the log begins with an admin.
    pub fn genesis(
        &mut self,
        origin: String,
        log_key: String,
        first_admin: Option<&KeyName>,
        clock: &dyn Clock,
    ) -> Batch {
        let mut batch = Batch::default();
        let now_ms = self.clock.lock().read(clock);
        let event = Event::Genesis { origin, log_key, is_identified: first_admin.is_some() };
        self.enter(&mut batch, now_ms, AgentId::gate(), Auth::None, event, None);
        if let Some(key) = first_admin {
            let (fact, value) = first_operator(key);
            let event = Event::Feed { write: self.state.feed(&fact, Some(value)), held: None };
            self.enter(&mut batch, now_ms, AgentId::gate(), Auth::None, event, None);
        }
        batch
    }

    fn one(&mut self, batch: &mut Batch, keys: &mut Window, submission: Submission, now_ms: u64, clock: &dyn Clock) {
        let is_action = matches!(submission.request, Request::Act(_) | Request::ActMany(_));
        if is_action && submission.known.as_of() < keys.start() {
            return batch.again.push(submission);
        }
        let Submission { request, reply, known, since_ms, .. } = submission;
        // Asked here, at the request's own place: who lost a role one entry earlier has lost it.
        let asked = request.authority();
        #[cfg(feature = "sabotage")]
        let asked = asked.filter(|_| !self.sabotaged.is(crate::sabotage::Control::Roles));
        if let Some((by, auth, role)) = asked
            && let Err(refused) = authorise(&*self.state, by, auth, role, now_ms)
        {
            return batch.refuse(reply, refused);
        }
        match request {
            Request::Act(action) => self.act(batch, keys, (action, known.of(0)), reply, now_ms, since_ms),
            Request::ActMany(many) => self.act_many(batch, keys, (*many, &known), reply, now_ms),
            Request::Claim { .. } | Request::ExtendClaim { .. } | Request::WithdrawClaim { .. } => {
                self.claim(batch, request, reply, now_ms);
            }
            Request::Dispatch { effect } => self.dispatch(batch, effect, reply, now_ms, None),
            Request::DispatchAsRead(request) => self.dispatch_as_read(batch, *request, reply, now_ms),
            Request::SettleAsRead { settlement, fresh } => {
                self.settle_as_read(batch, *settlement, &fresh, reply, now_ms);
            }
            Request::OpenSession { agent, auth } => self.open_session(batch, (&agent, &auth), reply, now_ms),
            Request::FollowSession { session, agent, auth } => {
                self.follow_session(batch, (session, &agent, &auth), reply, now_ms);
            }
            Request::CloseSession { session, agent } => self.close_session(batch, (session, &agent), reply, now_ms),
            Request::Read { session, agent, auth, reading } => {
                self.read(batch, (session, &agent, &auth), &reading, reply, now_ms);
            }
            Request::Observe { agent, auth, ids, external, attest, found } => {
                let asked = Asked { agent, auth, ids, external, attest };
                self.observe(batch, asked, &found, reply, now_ms);
            }
            Request::Settle(settlement) => self.settle(batch, *settlement, reply, now_ms),
            Request::Resolve { by, auth, effect, outcome, attempts, reason } => {
                // As it was given: how long it may be is checked, and not cut.
                let found = FoundCode::Resolved.said(&*reason);
                let evidence = Evidence { attempts, found: Box::new(found), ..Evidence::default() };
                self.resolve(batch, (by, auth), effect, outcome, evidence, reply, now_ms);
            }
            Request::Wake => {}
            Request::Denials(denied) => {
                self.enter(batch, now_ms, AgentId::gate(), Auth::None, Event::Denials(denied), Some(reply));
            }
            Request::Feed { by, auth, fact, value, if_match } => match self.check_feed(&fact, value.as_ref(), if_match)
            {
                Ok(()) => {
                    let event = if self.state.must_hold(&fact) {
                        Event::Held { fact, value }
                    } else {
                        Event::Feed { write: self.state.feed(&fact, value), held: None }
                    };
                    self.enter(batch, now_ms, by, auth, event, Some(reply));
                }
                Err(refusal) => batch.refuse(reply, refusal),
            },
            Request::Confirm { by, auth, fact, version } => match self.check_confirm(&fact, version) {
                Ok(tag) => {
                    let event = Event::Confirm { fact, tag, version };
                    self.enter(batch, now_ms, by, auth, event, Some(reply));
                }
                Err(refusal) => batch.refuse(reply, refusal),
            },
            Request::Publish { by, auth, pact } => match self.state.check_publish(&pact) {
                Ok(()) => self.enter(batch, now_ms, by, auth, Event::Pact(pact), Some(reply)),
                Err(refusal) => batch.refuse(reply, refusal),
            },
            Request::Erase { by, auth, targets, reason } => match self.check_erase(&targets, now_ms) {
                Ok((entries, forgotten)) => {
                    let event = Event::Erasure { entries, forgotten, reason };
                    self.enter(batch, now_ms, by, auth, event, Some(reply));
                }
                Err(refusal) => batch.refuse(reply, refusal),
            },
            Request::Approve { by, auth, shown, until_ms } => {
                self.approve(batch, by, auth, *shown, until_ms, reply, now_ms);
            }
            Request::Refuse { by, auth, review, reason } => match self.check_refuse(review, &reason, now_ms) {
                Ok(()) => self.enter(batch, now_ms, by, auth, Event::Refusal { review, reason }, Some(reply)),
                Err(refusal) => batch.refuse(reply, refusal),
            },
            Request::Halt { by, auth, scope, reason } => match self.state.halts.check_halt(&scope, &reason) {
                Ok(()) => self.enter(batch, now_ms, by, auth, Event::Halt { scope, reason }, Some(reply)),
                Err(refusal) => batch.refuse(reply, refusal),
            },
            Request::Resume { by, auth, scope, reason } => match self.state.halts.check_resume(&scope, &reason) {
                Ok(()) => self.enter(batch, now_ms, by, auth, Event::Resume { scope, reason }, Some(reply)),
                Err(refusal) => batch.refuse(reply, refusal),
            },
            Request::RotateLogKey { by, auth, next, reason } => {
                let event = Event::Rotation { log_key: next.public().to_string(), reason };
                self.enter(batch, now_ms, by, auth, event, Some(reply));
            }
            Request::ConfirmClock { by, auth } => {
                let mut ledger_clock = self.clock.lock();
                if ledger_clock.stepped().is_none() {
                    return batch.refuse(reply, Refusal::ClockSteady);
                }
                ledger_clock.confirm(clock);
                drop(ledger_clock);
                self.step_entered = false;
                let event = Event::Clock { wall_ms: clock.wall_ms(), confirmed: true };
                self.enter(batch, now_ms, by, auth, event, Some(reply));
            }
        }
    }

    /// Decides an action. One that is in front of a fence waits, if its action type says so; `since` is when it began to. Its key was
    /// sought as of a position that the window goes back to.
    fn act(
        &mut self,
        batch: &mut Batch,
        keys: &mut Window,
        (mut action, sought): (Box<Action>, Sought),
        reply: Reply,
        now_ms: u64,
        since: Option<u64>,
    ) {
        let key = action.key;
        match self.known(keys, &action, sought, now_ms) {
            Lookup::New => {}
            // The same key answers with what became of the action.
            Lookup::Same(entry) => {
                return batch.answers.push((reply, Ok(self.state.latest_of(entry))));
            }
            Lookup::Other(entry) => return batch.refuse(reply, Refusal::KeyReused(entry)),
        }
        if keys.of_agent(action.agent.smol(), now_ms) >= self.keys_per_agent {
            let refusal = Refusal::TooManyKeys(action.agent.clone(), self.keys_per_agent);
            return batch.refuse(reply, refusal);
        }
        action.auth = self.state.with_custody(action.auth);
        #[cfg(not(feature = "sabotage"))]
        let decision = decide(&action, &*self.state, now_ms);
        #[cfg(feature = "sabotage")]
        let decision = self.sabotaged.decide(&action, &*self.state, now_ms);
        let since_ms = since.unwrap_or(now_ms);
        if let Some(until_ms) = self.waits(&action, &decision, since_ms, now_ms) {
            let wakes_at_ms = self.wakes_at(&decision, until_ms, now_ms);
            return self.waiting.enter(Waiter { what: Waits::Action(action, sought), reply, since_ms, wakes_at_ms });
        }
        keys.insert(action.agent.smol(), key, Seen::new(&action.id, self.state.next_entry, now_ms));
        let (by, auth) = (action.agent.clone(), action.auth.clone());
        let event = Event::Action(Box::new(Decided { action, decision }));
        self.enter_as(batch, now_ms, (by, auth), event, Some(reply));
    }

    /// What is known of the key of an action, which was sought as of a position that the window goes back to.
    fn known(&self, keys: &Window, action: &Action, sought: Sought, now_ms: u64) -> Lookup {
        #[cfg(feature = "sabotage")]
        if self.sabotaged.is(crate::sabotage::Control::Idempotency) {
            return Lookup::New;
        }
        Lookup::of(keys.find(&action.key).or(sought.seen), &action.id, now_ms)
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one request, named at the call")]
    fn approve(
        &mut self,
        batch: &mut Batch,
        by: AgentId,
        auth: Auth,
        shown: Shown,
        until_ms: u64,
        reply: Reply,
        now_ms: u64,
    ) {
        let approval = Approval { by: &by, shown: &shown, until_ms };
        let waiting = self.state.reviews.waiting(shown.review, now_ms);
        #[cfg(not(feature = "sabotage"))]
        let approve = |parked| approve(&approval, parked, &*self.state, now_ms);
        #[cfg(feature = "sabotage")]
        let approve = |parked| self.sabotaged.approve(&approval, parked, &*self.state, now_ms);
        let decided = waiting.map(|parked| (Arc::clone(&parked.action), approve(parked)));
        match decided {
            Ok((action, Ok(decision))) => {
                let event = Event::Approval(Box::new(Approved { action, shown, until_ms, decision }));
                self.enter(batch, now_ms, by, auth, event, Some(reply));
            }
            Ok((action, Err(void))) => {
                // What was tried is told by an entry of its own, and the reviewer by the refusal.
                if let Some(decision) = void.decision {
                    let event = Event::Approval(Box::new(Approved { action, shown, until_ms, decision }));
                    self.enter(batch, now_ms, by, auth, event, None);
                }
                batch.refuse(reply, void.refusal);
            }
            Err(refusal) => batch.refuse(reply, refusal),
        }
    }

    /// Ends the reviews that no one decided in time, so that what became of every parked action is in the ledger.
    fn expire_reviews(&mut self, batch: &mut Batch, now_ms: u64) {
        for _ in 0..EXPIRED_AT_ONCE {
            let Some((review, _)) = self.state.reviews.first().filter(|(_, expires_at_ms)| *expires_at_ms < now_ms)
            else {
                return;
            };
            self.enter(batch, now_ms, AgentId::gate(), Auth::None, Event::Expiry { review }, None);
        }
    }

    fn check_refuse(&self, review: ReviewId, reason: &str, now_ms: u64) -> Result<(), ReviewRefusal> {
        if !(1..=REASON_BYTES_MAX).contains(&reason.len()) {
            return Err(ReviewRefusal::Reason(reason.len()));
        }
        self.state.reviews.waiting(review, now_ms).map(|_| ())
    }

    fn enter(&mut self, batch: &mut Batch, time_ms: u64, by: AgentId, auth: Auth, event: Event, reply: Option<Reply>) {
        let auth = self.state.with_custody(auth);
        self.enter_as(batch, time_ms, (by, auth), event, reply);
    }

    /// The same where it is known who holds the key that signed.
    fn enter_as(
        &mut self,
        batch: &mut Batch,
        time_ms: u64,
        (by, auth): (AgentId, Auth),
        mut event: Event,
        reply: Option<Reply>,
    ) {
        draw_tags(&mut self.random, event.writes_mut());
        let index = self.state.next_entry;
        let entry = Entry { index, time_ms, by, auth, context: Context::default(), event };
        self.state.apply(&entry);
        batch.entries.push(Sequenced { entry: Arc::new(entry), joint: Joint::Alone, reply });
    }
}
