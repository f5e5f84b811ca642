//! Sessions at random: opened, read in, gone on in, written in, closed, erased, with restarts between; and claims and groups beside them.

mod claims;

use crate::tamper::folders::{ORIGIN, public};
use countersign_core::call::{EffectId, Evidence, FoundCode, Outcome};
use countersign_core::identity::Auth;
use countersign_core::ids::{AgentId, Digest};
use countersign_core::limits::READINGS_MAX;
use countersign_core::pact::load::load;
use countersign_core::record::{Event, LeafVerdict};
use countersign_core::review::ReviewId;
use countersign_core::session::{Held, Place, Reading, Reread, SessionName};
use countersign_engine::audit::{AuditReport, audit};
use countersign_engine::gate::{Environment, Gate, Options};
use countersign_engine::request::{Answer, DispatchAsRead, Refusal, Request, Settlement};
use countersign_engine::storage::disk::Disk;
use countersign_testing::disk::{Faults, FaultyDisk, SplitMix};
use countersign_testing::gate::{environment, feed, operator};
use countersign_testing::hands::Hands;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One action for each way to rest on readings.
const PACT: &str = r#"
pact = "shop"
version = 1

[facts.Till]
attributes = { open = "Bool" }

[readings.stock]
mcp = "shop"
tool = "get_stock"
attributes = { left = "Long" }

[action.sell]
guard = "as-read"
resource = 'Till::"{till}"'
allow = 'true'
call = { mcp = "shop", tool = "sell" }
params.type = "object"
params.additionalProperties = false
params.required = ["till", "note"]
params.properties.till = { type = "string", maxLength = 9 }
params.properties.note = { type = "string", maxLength = 99 }
require = [{ id = "open", that = 'resource.open' }]

[action.burn]
guard = "as-read"
rests_on = "carried"
resource = 'Till::"{till}"'
allow = 'true'
call = { mcp = "shop", tool = "burn" }
params.type = "object"
params.additionalProperties = false
params.required = ["till", "note"]
params.properties.till = { type = "string", maxLength = 9 }
params.properties.note = { type = "string", maxLength = 99 }
require = [{ id = "open", that = 'resource.open' }]

[action.count]
guard = "as-read"
rests_on = ["get_stock"]
must_read = ["get_stock"]
stale_after = "5s"
resource = 'Till::"{till}"'
allow = 'true'
call = { mcp = "shop", tool = "count" }
params.type = "object"
params.additionalProperties = false
params.required = ["till", "note"]
params.properties.till = { type = "string", maxLength = 9 }
params.properties.note = { type = "string", maxLength = 99 }
require = [{ id = "some", that = 'context.readings.stock.left > 300' }]

[action.ask]
guard = "as-read"
resource = 'Till::"{till}"'
allow = 'true'
call = { mcp = "shop", tool = "ask" }
params.type = "object"
params.additionalProperties = false
params.required = ["till", "note"]
params.properties.till = { type = "string", maxLength = 9 }
params.properties.note = { type = "string", maxLength = 99 }
require = [{ id = "closed", that = '!resource.open', on_fail = "review" }]
"#;

const ACTIONS: [&str; 4] = ["sell", "burn", "count", "ask"];
const AGENTS: [&str; 2] = ["ann", "bob"];
const ITEMS: u64 = 5;

pub(super) fn agent(name: &str) -> AgentId {
    AgentId::new(name).unwrap()
}

/// An open session, as its client knows it.
#[derive(Debug, Clone)]
pub(super) struct Open {
    pub(super) name: SessionName,
    pub(super) agent: AgentId,
}

pub(super) struct Fuzz {
    random: SplitMix,
    disk: FaultyDisk,
    pub(super) clock: Arc<Hands>,
    gate: Option<Gate>,
    starts: u8,
    sessions: Vec<Open>,
    cooling: Vec<EffectId>,
    sent: Vec<EffectId>,
    doubted: Vec<EffectId>,
    parked: Vec<ReviewId>,
    pub(super) stock: [u64; 5],
    pub(super) keys: u64,
    /// How often each thing was done, so that a test sees that all were.
    did: BTreeMap<String, u64>,
}

impl Fuzz {
    pub(super) fn new(seed: u64) -> Self {
        let mut fuzz = Self {
            random: SplitMix::new(seed),
            disk: FaultyDisk::new(seed, Faults::default()),
            clock: Hands::at(1_800_000_000_000),
            gate: None,
            starts: 0,
            sessions: Vec::new(),
            cooling: Vec::new(),
            sent: Vec::new(),
            doubted: Vec::new(),
            parked: Vec::new(),
            stock: [10; 5],
            keys: 0,
            did: BTreeMap::new(),
        };
        fuzz.open();
        for text in [PACT, claims::PACT] {
            let pact = Arc::new(load(text).unwrap_or_else(|problems| panic!("{problems:#?}")).pact);
            fuzz.call(Request::Publish { by: operator(), auth: Auth::None, pact }).unwrap();
        }
        for name in AGENTS {
            let value = r#"{"roles":[],"standing":"active","org":"a","trust":1}"#;
            fuzz.call(feed(&format!("Agent::\"{name}\""), value)).unwrap();
        }
        fuzz.call(feed("Till::\"1\"", r#"{"open":true}"#)).unwrap();
        fuzz.furnish_bank();
        fuzz
    }

    fn open(&mut self) {
        self.starts += 1;
        self.disk = self.disk.restart();
        let (disk, clock) = (Arc::new(self.disk.clone()), Arc::<Hands>::clone(&self.clock));
        // Tags must not come twice.
        let environment = Environment { seed: [self.starts; 32], ..environment(disk, clock) };
        self.gate =
            Some(Gate::open(environment, Options { segment_bytes: 1 << 20, ..Options::new(ORIGIN) }).unwrap().0);
    }

    pub(super) fn gate(&self) -> &Gate {
        self.gate.as_ref().unwrap()
    }

    pub(super) fn call(&self, request: Request) -> Result<Answer, Refusal> {
        self.gate().call(request)
    }

    fn note(&mut self, what: &str) {
        *self.did.entry(what.to_owned()).or_default() += 1;
    }

    fn one_of<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        let at = self.random.below(of.len() as u64);
        of.get(usize::try_from(at).unwrap()).cloned()
    }

    fn is_one_in(&mut self, many: u64) -> bool {
        self.random.below(many) == 0
    }

    fn place(&mut self) -> Place {
        let item = self.random.below(ITEMS);
        let tool = if self.is_one_in(4) { "list" } else { "get_stock" };
        Place { upstream: "shop".into(), tool: tool.into(), arguments: format!("{{\"item\":{item}}}").into() }
    }

    /// What a place reads now.
    pub(super) fn reading(&self, place: Place) -> Reading {
        let item: usize = place.arguments.bytes().rev().nth(1).map_or(0, |digit| usize::from(digit - b'0'));
        let left = self.stock[item % 5];
        // Some is too long to be kept, or to be told.
        let more = if left.is_multiple_of(7) { "x".repeat(usize::try_from(left).unwrap() * 4) } else { String::new() };
        let content = json!({"left": left, "note": format!("lot {left:06}"), "more": more}).to_string();
        let digest = Digest::of(content.as_bytes());
        let content = (!left.is_multiple_of(11)).then_some(content.into());
        Reading {
            place,
            at_ms: self.gate().now_ms(),
            digest,
            projection: "".into(),
            content,
            changes: Vec::new(),
            found: Default::default(),
        }
    }

    pub(super) fn step(&mut self) {
        self.clock.pass(self.stock[0] % 40 + 1);
        if self.is_one_in(3) {
            return match self.random.below(8) {
                0..3 => self.claim(),
                3..7 => self.act_many(),
                _ => self.feed_account(),
            };
        }
        let session = self.one_of(&self.sessions.clone());
        let what = self.random.below(100);
        match (what, session) {
            (0..7, _) | (_, None) => {
                let agent = agent(self.one_of(&AGENTS).unwrap());
                let name = self.gate().open_session(agent.clone(), Auth::None).unwrap();
                self.sessions.push(Open { name, agent });
            }
            (7..30, Some(session)) => {
                let place = self.place();
                self.read(&session, place);
            }
            (30, Some(session)) => {
                for number in 0..=READINGS_MAX {
                    let arguments = format!("{{\"z\":{number}}}").into();
                    self.read(&session, Place { upstream: "shop".into(), tool: "list".into(), arguments });
                }
            }
            (31..48, Some(session)) => self.write(&session),
            (48..62, _) => self.dispatch(),
            (62..70, _) => self.settle(),
            (70..72, _) => self.resolve(),
            (72..74, _) => self.approve(),
            (74..78, Some(session)) => {
                let followed = self.gate().follow_session(session.name.id, session.agent.clone(), Auth::None);
                self.sessions.retain(|other| other.name != session.name);
                self.sessions.push(Open { name: followed.unwrap(), ..session });
                self.note("followed");
            }
            (78..83, _) => {
                let item = usize::try_from(self.random.below(ITEMS)).unwrap();
                self.stock[item] = self.random.below(900);
            }
            (83..87, Some(session)) => {
                self.gate().close_session(session.name, session.agent).unwrap();
                self.sessions.retain(|other| other.name != session.name);
                self.note("closed");
            }
            (87..98, _) => self.erase(),
            _ => self.restart(),
        }
    }

    pub(super) fn read(&mut self, session: &Open, place: Place) {
        let reading = Box::new(self.reading(place));
        let Open { name, agent } = session.clone();
        self.call(Request::Read { session: name, agent, auth: Auth::None, reading }).unwrap();
        self.note("read");
    }

    fn write(&mut self, session: &Open) {
        self.keys += 1;
        let action = self.one_of(&ACTIONS).unwrap();
        let item = usize::try_from(self.random.below(ITEMS)).unwrap();
        let place = self.place();
        let unsure = vec![place.name().to_string(); usize::try_from(self.random.below(3)).unwrap()];
        // A client that was cut off may yet ask under the old name.
        let name = if self.is_one_in(12) { session.name.id.first_name() } else { session.name };
        let body = json!({
            "pact": "shop", "action": action, "idempotency_key": format!("{:032}", self.keys),
            "params": {"till": "1", "note": format!("for lot {:06}", self.stock[item])},
            "session": name.to_string(), "unsure": unsure,
        });
        let action = self.gate().admit(session.agent.clone(), Auth::None, body.to_string().into()).unwrap();
        let Answer::Entered(entered) = self.call(Request::Act(Box::new(action))).unwrap() else { panic!() };
        let index = entered.entry.index;
        match entered.entry.event.verdict() {
            Some(LeafVerdict::InFlight) => self.cooling.push(EffectId(index)),
            Some(LeafVerdict::Review) => self.parked.push(ReviewId(index)),
            _ => {}
        }
        let reason = entered.entry.event.decision().and_then(|decision| decision.reason());
        let said = reason.map_or_else(|| "asked".to_owned(), |reason| reason.code().to_string());
        self.note(&said);
    }

    /// What an effect rests on, as the session has it.
    pub(super) fn rested_on(&self, id: EffectId) -> Vec<Held> {
        let view = self.gate().view();
        let state = view.whole_state();
        let Ok(effect) = state.effects.find(id) else { return Vec::new() };
        effect.rests_on.iter().filter_map(|(fact, _)| Held::of(state.facts.get(fact)?)).collect()
    }

    /// The session that an effect was asked for in.
    fn session_of(&self, id: EffectId) -> Option<SessionName> {
        self.gate().view().whole_state().effects.find(id).ok()?.action.session
    }

    fn dispatch(&mut self) {
        let Some(id) = self.one_of(&self.cooling.clone()) else { return };
        let (is_telling, is_unread, has_ended) = (!self.is_one_in(4), self.is_one_in(15), self.is_one_in(20));
        let held = self.rested_on(id);
        let now: Vec<Reading> = held.iter().map(|held| self.reading(held.reading.place.clone())).collect();
        let reread = |(held, now): (&Held, &Reading)| Reread {
            digest: (!is_unread).then_some(now.digest),
            fact: held.fact.clone(),
            projection: "".into(),
            took_ms: 1,
            told: is_telling && now.digest != held.digest,
            volatile: Vec::new(),
            held: None,
            shown: Vec::new(),
            why: None,
        };
        let mut rereads: Vec<Reread> = held.iter().zip(&now).map(reread).collect();
        if let Some(session) = self.session_of(id).filter(|_| has_ended) {
            rereads = vec![Reread::none(session.id.fact().unwrap(), None)];
        }
        let fresh = held.iter().zip(now).filter(|(held, now)| held.digest != now.digest).map(|(_, now)| now).collect();
        let request = Request::DispatchAsRead(Box::new(DispatchAsRead { effect: id, rereads, fresh }));
        let Ok(Answer::Entered(entered)) = self.call(request) else { return };
        self.cooling.retain(|other| *other != id);
        let Event::Dispatch(dispatch) = &entered.entry.event else { panic!("{entered:?}") };
        let said = match dispatch.decision.blocked() {
            None => "sent".to_owned(),
            Some(reason) => format!("not sent: {}", reason.code()),
        };
        if dispatch.decision.dispatched().is_some() {
            self.sent.push(id);
        }
        self.note(&said);
    }

    fn settle(&mut self) {
        let Some(id) = self.one_of(&self.sent.clone()) else { return };
        self.sent.retain(|other| *other != id);
        let item = usize::try_from(self.random.below(ITEMS)).unwrap();
        self.stock[item] = self.random.below(900);
        let outcome = self.one_of(&[Outcome::Settled, Outcome::Settled, Outcome::Failed, Outcome::InDoubt]).unwrap();
        let fresh = match outcome {
            Outcome::Settled => self.rested_on(id).into_iter().map(|held| self.reading(held.reading.place)).collect(),
            _ => Vec::new(),
        };
        let result = (outcome == Outcome::Settled).then(|| "{}".to_owned());
        let evidence = Evidence { attempts: 1, result, ..Evidence::of(FoundCode::Resolved.said("answered")) };
        let settlement = Settlement {
            effect: id,
            outcome,
            evidence,
            judged: None,
            is_stopped: false,
            found: Default::default(),
            beside: Vec::new(),
        };
        self.call(Request::SettleAsRead { settlement: Box::new(settlement), fresh }).unwrap();
        if outcome == Outcome::InDoubt {
            self.doubted.push(id);
        }
        self.note("settled");
    }

    fn resolve(&mut self) {
        let Some(effect) = self.doubted.pop() else { return };
        let (outcome, reason) = (Outcome::Settled, "they say so".into());
        let resolve = Request::Resolve { by: operator(), auth: Auth::None, effect, outcome, attempts: 1, reason };
        self.call(resolve).unwrap();
    }

    fn approve(&mut self) {
        let Some(review) = self.parked.pop() else { return };
        let Ok(shown) = self.gate().show_review(review, &operator()) else { return };
        let until_ms = shown.shown.at_ms + 60_000;
        let approve = Request::Approve { by: operator(), auth: Auth::None, shown: Box::new(shown.shown), until_ms };
        if let Ok(Answer::Entered(entered)) = self.call(approve) {
            if entered.entry.event.verdict() == Some(LeafVerdict::InFlight) {
                self.cooling.extend(entered.entry.event.effect().or(Some(EffectId(entered.entry.index))));
            }
            self.note("approved");
        }
    }

    /// Erases some entries, if an operator may: one of them, or everything that followed it for a while.
    fn erase(&mut self) {
        let position = self.gate().view().position;
        let first = self.random.below(position);
        let many = if self.is_one_in(3) { self.random.below(12) } else { 0 };
        for entry in first..=first + many {
            let is_erased = self.gate().erase(operator(), Auth::None, &[entry], "asked".into()).is_ok();
            self.note(if is_erased { "erased" } else { "kept" });
        }
    }

    fn restart(&mut self) {
        if self.is_one_in(2) {
            self.gate().snapshot().unwrap();
        }
        self.gate.take().unwrap().close().unwrap();
        if self.is_one_in(2) {
            let snapshots = self.disk.list().unwrap().into_iter().filter(|name| name.ends_with("snap"));
            snapshots.for_each(|name| self.disk.remove(&name).unwrap());
        }
        self.open();
    }

    /// Ends it; what an audit says.
    pub(super) fn audited(mut self) -> (FaultyDisk, AuditReport, BTreeMap<String, u64>) {
        self.gate.take().unwrap().close().unwrap();
        let disk = self.disk.restart();
        let report = audit(&disk, &public(), &mut |_| ()).unwrap();
        (disk, report, self.did)
    }
}
