//! Writes that are guarded as read: what they rest on is what the agent had read when it asked, and nothing less.

mod arrived;

use super::world::World;
use countersign_core::action::{Action, ActionRequest};
use countersign_core::code::Code;
use countersign_core::decide::{Approval, approve, decide, dispatch, show};
use countersign_core::decision::{Decision, Verdict};
use countersign_core::identity::Auth;
use countersign_core::ids::{AgentId, Digest, FactId, Tag};
use countersign_core::limits::READINGS_MAX;
use countersign_core::reason::Reason;
use countersign_core::record::{Context, Decided, Encoder, Entry, Event, Leaf};
use countersign_core::review::{Parked, ReviewId, Shown};
use countersign_core::session::{self, Held, Place, READING, Reading, Reread, Session, SessionId, SessionRefusal};
use serde_json::{Value as Json, json};
use std::sync::Arc;

const PACT: &str = r#"
pact = "shop"
version = 1

[facts.Till]
attributes = { open = "Bool" }

[action.sell]
guard = "as-read"
rests_on = ["get_stock", "mail/read"]
must_read = ["get_stock"]
stale_after = "5m"
resource = 'Till::"{till}"'
allow = 'true'
call = { mcp = "shop", tool = "sell" }

[action.sell.params]
type = "object"
additionalProperties = false
required = ["till"]
properties.till = { type = "string", maxLength = 16 }

[[action.sell.require]]
id = "till-is-open"
that = 'resource.open'
"#;

/// The same without a tool that must have been read.
fn asking_for_nothing() -> String {
    PACT.replace("must_read = [\"get_stock\"]\n", "")
}

struct Shop {
    world: World,
    session: SessionId,
    unsure: Vec<Digest>,
    till: &'static str,
}

fn place(upstream: &str, tool: &str) -> Place {
    Place { upstream: upstream.into(), tool: tool.into(), arguments: "{}".into() }
}

fn reading(place: Place, content: &str, at_ms: u64) -> Reading {
    let digest = Digest::of(content.as_bytes());
    Reading {
        place,
        at_ms,
        digest,
        projection: "".into(),
        content: Some(content.into()),
        changes: Vec::new(),
        found: Default::default(),
    }
}

impl Shop {
    fn new() -> Self {
        Self::of(PACT)
    }

    fn of(pact: &str) -> Self {
        Self::under(pact, true)
    }

    fn under(pact: &str, is_open: bool) -> Self {
        let mut world = World::new(pact, "sell", json!({"till": "1"})).with_agent(&[]);
        world.feed("Till::\"1\"", Some(json!({"open": is_open})));
        let session = SessionId(world.next_entry);
        let writes = session::open(&AgentId::new("agent-1").unwrap(), session.0, &world.state);
        let mut shop = Self { world, session, unsure: Vec::new(), till: "1" };
        shop.enter(Event::Session { writes });
        shop
    }

    fn enter(&mut self, mut event: Event) {
        let [.., low] = self.world.next_entry.to_be_bytes();
        for (at, write) in (0_u8..).zip(event.writes_mut()) {
            write.tag.get_or_insert(Tag([low.wrapping_mul(7).wrapping_add(at); 12]));
        }
        self.world.enter("countersign", event);
    }

    fn read(&mut self, place: Place, content: &str) {
        let session = Session::find(self.session, &self.world.state).unwrap();
        let reading = reading(place, content, self.world.now_ms);
        let writes = session::read(&session, &reading, &self.world.state).unwrap();
        self.enter(Event::Reading { writes, effect: None });
    }

    fn action(&self) -> Action {
        let body = json!({
            "pact": "shop", "action": "sell", "params": {"till": self.till}, "session": self.session.to_string(),
            "idempotency_key": "0123456789abcdef0123456789abcdef",
            "unsure": self.unsure.iter().map(ToString::to_string).collect::<Vec<_>>(),
        });
        let body: Arc<str> = body.to_string().into();
        let request = ActionRequest::parse(&body).unwrap();
        Action::new(AgentId::new(self.world.agent).unwrap(), Auth::None, Arc::clone(&body), request, Vec::new())
    }

    /// Asks for it; the effect that cools.
    fn ask(&mut self) -> u64 {
        let action = self.action();
        let decision = decide(&action, &self.world.state, self.world.now_ms);
        assert!(decision.blocked().is_none(), "{:?}", decision.blocked());
        let entry = self.world.next_entry;
        self.world.enter("agent-1", Event::Action(Box::new(Decided { action: Box::new(action), decision })));
        entry
    }

    fn code(&self) -> Option<Code> {
        decide(&self.action(), &self.world.state, self.world.now_ms).blocked().map(Reason::code)
    }

    fn fact(&self, place: &Place) -> FactId {
        self.session.reading(place).unwrap()
    }

    /// Decides the dispatch on what these places read now.
    fn dispatch(&self, effect: u64, now: &[(Place, Option<&str>)]) -> Decision {
        let reread = |(place, content): &(Place, Option<&str>)| Reread {
            digest: content.map(|content| Digest::of(content.as_bytes())),
            fact: self.fact(place),
            projection: "".into(),
            took_ms: 1,
            told: true,
            shown: Vec::new(),
            volatile: Vec::new(),
            why: None,
            held: None,
        };
        let rereads: Vec<Reread> = now.iter().map(reread).collect();
        let effect = self.world.state.effects.cooling(countersign_core::call::EffectId(effect)).unwrap();
        dispatch(effect, &rereads, &self.world.state, self.world.now_ms)
    }

    fn refused(&self, effect: u64, now: &[(Place, Option<&str>)]) -> Option<Code> {
        self.dispatch(effect, now).blocked().map(Reason::code)
    }
}

#[test]
fn it_goes_off_only_if_every_reading_reads_the_same() {
    let mut shop = Shop::new();
    let (stock, mail) = (place("shop", "get_stock"), place("mail", "read"));
    shop.read(stock.clone(), "10");
    shop.read(mail.clone(), "hello");
    shop.read(place("shop", "get_weather"), "sunny");
    let effect = shop.ask();
    let same = [(stock.clone(), Some("10")), (mail.clone(), Some("hello"))];
    let decision = shop.dispatch(effect, &same);
    assert!(decision.dispatched().is_some(), "{decision:?}");
    assert_eq!(
        decision.reads.iter().filter(|read| read.fact.ty().as_str() == "Reading").count(),
        2,
        "what counts is noted"
    );
    assert_eq!(
        shop.refused(effect, &[(stock.clone(), Some("9")), (mail.clone(), Some("hello"))]),
        Some(Code::ReadingChanged)
    );
    assert_eq!(
        shop.refused(effect, &[(stock.clone(), None), (mail.clone(), Some("hello"))]),
        Some(Code::ReadingUnread)
    );
    assert_eq!(
        shop.refused(effect, &[(stock, Some("10"))]),
        Some(Code::ReadingUnread),
        "what was not read again refuses"
    );
    assert_eq!(shop.refused(effect, &[]), Some(Code::ReadingUnread));
}

#[test]
fn what_was_read_after_it_was_asked_for_does_not_count() {
    let mut shop = Shop::new();
    let stock = place("shop", "get_stock");
    shop.read(stock.clone(), "10");
    let effect = shop.ask();
    shop.read(stock.clone(), "9");
    assert_eq!(shop.refused(effect, &[(stock.clone(), Some("9"))]), Some(Code::ReadingChanged), "the agent saw 10");
    assert_eq!(shop.refused(effect, &[(stock.clone(), Some("10"))]), None);
    shop.read(stock.clone(), "8");
    assert_eq!(
        shop.refused(effect, &[(stock, Some("10"))]),
        Some(Code::ReadingChanged),
        "what it saw is no longer known"
    );
}

#[test]
fn where_delivery_is_unknown_the_reading_before_counts_as_well() {
    let mut shop = Shop::of(&asking_for_nothing());
    let stock = place("shop", "get_stock");
    shop.unsure = vec![stock.name()];
    shop.read(stock.clone(), "10");
    let first = shop.ask();
    assert_eq!(shop.refused(first, &[(stock.clone(), Some("10"))]), None, "there is none before");
    shop.read(stock.clone(), "9");
    let second = shop.ask();
    for now in ["9", "10"] {
        assert_eq!(shop.refused(second, &[(stock.clone(), Some(now))]), Some(Code::ReadingChanged), "{now}");
    }
    shop.read(stock.clone(), "9");
    let third = shop.ask();
    assert_eq!(shop.refused(third, &[(stock, Some("9"))]), None, "both read the same");
}

#[test]
fn a_session_is_asked_for_and_must_be_open_and_ones_own_and_fresh() {
    let mut shop = Shop::new();
    assert_eq!(shop.code(), Some(Code::ReadingRequired), "nothing was read");
    shop.read(place("shop", "get_stock"), "10");
    assert_eq!(shop.code(), None);
    shop.world.now_ms += 300_001;
    assert_eq!(shop.code(), Some(Code::ReadingStale));
    shop.read(place("shop", "get_stock"), "10");
    let open = shop.session;
    shop.session = SessionId(999);
    assert_eq!(shop.code(), Some(Code::SessionNotOpen));
    shop.session = open;
    shop.world.agent = "agent-2";
    shop.world.register(&[], "active", 700);
    assert_eq!(shop.code(), Some(Code::SessionNotOpen), "it is another agent's");
    shop.world.agent = "agent-1";
    let effect = shop.ask();
    let session = Session::find(shop.session, &shop.world.state).unwrap();
    let writes = session::close(&session, &shop.world.state);
    shop.enter(Event::Session { writes });
    assert_eq!(shop.code(), Some(Code::SessionNotOpen));
    assert_eq!(shop.refused(effect, &[(place("shop", "get_stock"), Some("10"))]), Some(Code::SessionNotOpen));
    let fact = shop.world.state.facts.get(&shop.fact(&place("shop", "get_stock"))).unwrap();
    assert!(Held::of(fact).is_none(), "what was read went with it");
}

#[test]
fn who_was_cut_off_asks_for_nothing_more_in_a_session_that_another_client_goes_on_in() {
    let mut shop = Shop::new();
    shop.read(place("shop", "get_stock"), "10");
    let effect = shop.ask();
    let session = Session::find(shop.session, &shop.world.state).unwrap();
    let writes = session::follow(&session, &shop.world.state);
    shop.enter(Event::Session { writes });
    // The client that goes on in it reads on; none of that is known to the one before.
    shop.read(place("shop", "get_stock"), "2");
    assert_eq!(shop.code(), Some(Code::SessionNotOpen));
    let read_again = [(place("shop", "get_stock"), Some("2"))];
    assert_eq!(shop.refused(effect, &read_again), Some(Code::ReadingChanged), "it rests on what it rested on");
}

#[test]
fn without_a_session_nothing_guarded_is_done() {
    let world = World::new(PACT, "sell", json!({"till": "1"})).with_agent(&[]);
    let mut world = world;
    world.feed("Till::\"1\"", Some(json!({"open": true})));
    assert_eq!(world.verdict(), "session_required");
}

#[test]
fn what_was_made_once_is_known_or_unknown_and_never_stale() {
    let mut shop = Shop::of(&asking_for_nothing());
    let stock = place("shop", "get_stock");
    shop.unsure = vec![stock.name(), stock.name()];
    shop.read(stock.clone(), "10");
    let effect = shop.ask();
    assert_eq!(shop.refused(effect, &[(stock.clone(), Some("10"))]), None);
    shop.read(stock.clone(), "10");
    let effect = shop.ask();
    assert_eq!(
        shop.refused(effect, &[(stock, Some("10"))]),
        Some(Code::ReadingChanged),
        "there may have been another before"
    );
}

#[test]
fn where_it_rests_on_what_it_carries_other_readings_do_not_count() {
    let pact = PACT.replace(r#"rests_on = ["get_stock", "mail/read"]"#, r#"rests_on = "carried""#);
    let mut shop = Shop::of(&pact);
    let (stock, mail, log) = (place("shop", "get_stock"), place("mail", "read"), place("shop", "get_log"));
    shop.read(stock.clone(), "10");
    shop.read(mail.clone(), "{\"from\":\"ann\",\"text\":\"Sell at till FRONT-DOOR, please\"}");
    shop.read(log.clone(), "{\"last\":\"something else\"}");
    shop.till = "front-door";
    shop.world.feed("Till::\"front-door\"", Some(json!({"open": true})));
    let effect = shop.ask();
    let now = [(stock.clone(), Some("10")), (mail, Some("another mail"))];
    assert_eq!(shop.refused(effect, &now), Some(Code::ReadingChanged), "it carries a word of the mail");
    let rests_on = shop.dispatch(effect, &now).reads.iter().filter(|read| read.fact.ty().as_str() == "Reading").count();
    assert_eq!(rests_on, 2, "`must_read` counts whatever it carries");
    shop.till = "1";
    let other = shop.ask();
    assert_eq!(shop.refused(other, &[(stock, Some("10"))]), None, "nothing of the mail or the log");
}

/// The same, with a condition on what was read.
fn on_stock() -> String {
    let readings = "[readings.stock]\nmcp = \"shop\"\ntool = \"get_stock\"\nat = \"/structuredContent\"\n\
                    attributes = { left = \"Long\", price = \"Money<2>\", note = \"String?\" }\n\n[action.sell]";
    let require = "[[action.sell.require]]\nid = \"enough-is-left\"\n\
                   that = 'context.readings.stock.left >= 3 && context.readings.stock.price < 1000'\n";
    format!("{}\n{require}", PACT.replacen("[action.sell]", readings, 1))
}

const PLENTY: &str = r#"{"left":10,"more":[1],"price":9.99}"#;
const FEW: &str = r#"{"left":2,"price":9.99}"#;

#[test]
fn a_condition_sees_the_latest_reading_of_a_tool_at_the_types_that_the_pact_declares() {
    let mut shop = Shop::of(&on_stock());
    assert_eq!(shop.code(), Some(Code::ReadingRequired), "nothing was read");
    let of = |item: &str| Place { arguments: format!("{{\"item\":\"{item}\"}}").into(), ..place("shop", "get_stock") };
    shop.read(of("tea"), FEW);
    assert_eq!(shop.code(), Some(Code::PreconditionFailed), "two are not enough");
    shop.read(of("rice"), PLENTY);
    assert_eq!(shop.code(), None, "the latest counts");
    shop.read(of("tea"), FEW);
    assert_eq!(shop.code(), Some(Code::PreconditionFailed), "also where it was read before");
    for dear in [r#"{"left":10,"price":10}"#, r#"{"left":10,"price":10.00}"#] {
        shop.read(of("salt"), dear);
        assert_eq!(shop.code(), Some(Code::PreconditionFailed), "{dear}");
    }
    // Beside other content it stands where an answer has it.
    shop.read(of("oil"), &format!(r#"{{"content":"ten","structuredContent":{PLENTY}}}"#));
    assert_eq!(shop.code(), None);
}

#[test]
fn what_a_reading_does_not_say_as_declared_is_not_guessed() {
    let mut shop = Shop::of(&on_stock());
    let stock = place("shop", "get_stock");
    for unusable in [
        "10",
        "\"ten\"",
        "null",
        "[]",
        "not JSON",
        r#"{"left":10}"#,
        r#"{"left":"10","price":1}"#,
        r#"{"left":10.5,"price":1}"#,
        r#"{"left":10,"price":1.999}"#,
        r#"{"left":10,"left":1,"price":1}"#,
        r#"{"content":"no such item","isError":true}"#,
    ] {
        shop.read(stock.clone(), unusable);
        assert_eq!(shop.code(), Some(Code::ReadingUnusable), "{unusable}");
    }
    let long = format!(r#"{{"left":10,"note":"{}","price":1}}"#, "x".repeat(20_000));
    shop.read(stock.clone(), &long);
    assert_eq!(shop.code(), Some(Code::ReadingUnusable), "it is kept by its digest alone");
    shop.read(stock, PLENTY);
    assert_eq!(shop.code(), None);
}

#[test]
fn at_the_dispatch_a_condition_sees_what_the_intent_noted_and_what_reads_the_same_now() {
    let mut shop = Shop::of(&on_stock());
    let stock = place("shop", "get_stock");
    shop.read(stock.clone(), PLENTY);
    let effect = shop.ask();
    assert_eq!(shop.refused(effect, &[(stock.clone(), Some(PLENTY))]), None);
    assert_eq!(shop.refused(effect, &[(stock.clone(), Some(FEW))]), Some(Code::ReadingChanged));
    // What was read from elsewhere since does not count for this write.
    let elsewhere = Place { arguments: "{\"item\":\"tea\"}".into(), ..stock.clone() };
    shop.read(elsewhere.clone(), FEW);
    assert_eq!(shop.refused(effect, &[(stock.clone(), Some(PLENTY))]), None);
    shop.read(stock.clone(), PLENTY);
    assert_eq!(shop.refused(effect, &[(stock.clone(), Some(PLENTY))]), None, "it reads the same again");
    let effect = shop.ask();
    shop.read(stock.clone(), FEW);
    assert_eq!(
        shop.refused(effect, &[(stock, Some(PLENTY)), (elsewhere, Some(FEW))]),
        Some(Code::ReadingUnusable),
        "which was the latest is not known"
    );
}

#[test]
fn a_pact_decides_on_readings_only_where_it_rests_on_them() {
    let errors = |text: &str| match countersign_core::pact::load::load(text) {
        Ok(_) => String::new(),
        Err(found) => found.into_iter().map(|it| it.message + "\n").collect(),
    };
    let sound = on_stock();
    assert_eq!(errors(&sound), "");
    for (from, to, said) in [
        (
            "guard = \"as-read\"\nrests_on = [\"get_stock\", \"mail/read\"]\nmust_read = [\"get_stock\"]\nstale_after = \"5m\"",
            "",
            "is for actions that are guarded as read",
        ),
        (
            "rests_on = [\"get_stock\", \"mail/read\"]\nmust_read = [\"get_stock\"]",
            "rests_on = [\"mail/read\"]",
            "does not rest on get_stock",
        ),
        ("allow = 'true'", "allow = 'context.readings.stock.left > 0'", "depends on no reading"),
        (
            "context.readings.stock.left >= 3",
            "context.readings.stok.left >= 3",
            "`context.readings.stok` is not a reading",
        ),
        ("context.readings.stock.left >= 3", "context.readings.stock.left == \"3\"", "Long"),
        ("context.readings.stock.left >= 3", "context.readings.stock.note == \"\"", "note"),
        ("at = \"/structuredContent\"", "at = \"structuredContent\"", "is no place in an answer"),
        ("left = \"Long\"", "left = \"Float\"", "is not a type of an attribute"),
    ] {
        assert!(sound.contains(from), "{from}");
        let found = errors(&sound.replacen(from, to, 1));
        assert!(found.contains(said), "{to}: {found}");
    }
}

#[test]
fn money_of_two_scales_is_not_mixed_in_one_comparison() {
    let loads = |condition: &str| {
        let text = on_stock().replacen("left = \"Long\"", "left = \"Money<3>\"", 1);
        let text = text.replacen("context.readings.stock.left >= 3", condition, 1);
        countersign_core::pact::load::load(&text).map(drop).map_err(|found| {
            found.into_iter().map(|it| format!("{}: {}\n", it.message, it.hint.unwrap_or_default())).collect::<String>()
        })
    };
    let (left, price) = ("context.readings.stock.left", "context.readings.stock.price");
    for mixed in [
        format!("{left} >= {price}"),
        format!("{left} - {price} > 0"),
        format!("(if {price} > 1 then {price} else 0) == {left}"),
        format!("-{price} == {left} + 1"),
    ] {
        let said = loads(&mixed).expect_err(&mixed);
        assert!(said.contains("mixes money with 2 and with 3 digits") && said.contains("by 10"), "{mixed}: {said}");
    }
    for sound in [format!("{left} >= {price} * 10"), format!("{left} > 1 && {price} > 1"), format!("{left} >= 3")] {
        assert_eq!(loads(&sound), Ok(()), "{sound}");
    }
}

/// A pact whose failed precondition needs a person, and an action of it that waits, with what it rests on.
fn waiting() -> (Shop, Parked) {
    let pact = PACT.replace("that = 'resource.open'", "that = 'resource.open'\non_fail = \"review\"");
    let mut shop = Shop::under(&pact, false);
    shop.read(place("shop", "get_stock"), "10");
    let action = shop.action();
    let decision = decide(&action, &shop.world.state, shop.world.now_ms);
    assert!(matches!(decision.verdict, Verdict::Review { .. }), "{decision:?}");
    let readings = decision.reads.iter().filter(|read| read.fact.ty().as_str() == READING);
    let rests_on = readings.map(|read| (read.fact.clone(), read.version)).collect();
    let parked = Parked { action: Arc::new(action), rests_on, at_ms: shop.world.now_ms, expires_at_ms: u64::MAX };
    (shop, parked)
}

/// What a reviewer is shown now, why it cannot be approved, and what approving it comes to.
fn approved(shop: &Shop, parked: &Parked, shown: Option<&Shown>) -> (Shown, Option<Code>, Result<Decision, Code>) {
    let (jo, now_ms) = (AgentId::new("jo").unwrap(), shop.world.now_ms);
    let (now, decision) = show(ReviewId(9), parked, &jo, &shop.world.state, &[], now_ms).unwrap();
    let approval = Approval { by: &jo, shown: shown.unwrap_or(&now), until_ms: now_ms + 60_000 };
    let outcome = approve(&approval, parked, &shop.world.state, now_ms)
        .map_err(|void| void.decision.unwrap().blocked().map(Reason::code).unwrap());
    (now, decision.blocked().map(Reason::code), outcome)
}

#[test]
fn an_approval_is_bound_to_the_readings_that_were_shown() {
    let (mut shop, parked) = waiting();
    let stock = place("shop", "get_stock");
    let (shown, _, outcome) = approved(&shop, &parked, None);
    let reading = shown.facts.iter().find(|shown| shown.fact == shop.fact(&stock)).unwrap();
    let value = reading.value.as_ref().unwrap();
    assert!(value.get("digest").is_some() && value.get("arguments").is_some() && value.get("content").is_none());
    assert!(matches!(outcome.unwrap().verdict, Verdict::InFlight(_)));
    shop.read(stock.clone(), "10");
    assert!(approved(&shop, &parked, Some(&shown)).2.is_ok(), "it was read again, and reads as it was shown");
    shop.read(stock, "9");
    let outcome = approved(&shop, &parked, Some(&shown)).2;
    assert_eq!(outcome.unwrap_err(), Code::ApprovalOutdated, "it reads differently by now");
}

#[test]
fn an_approval_counts_nothing_that_was_read_after_the_write_was_asked_for() {
    let (mut shop, parked) = waiting();
    shop.read(place("shop", "get_stock"), "1");
    let (shown, blocked, outcome) = approved(&shop, &parked, None);
    assert_eq!(blocked, Some(Code::ApprovalOutdated), "whoever is shown it now is told that it cannot be approved");
    assert_eq!(outcome.unwrap_err(), Code::ApprovalOutdated, "its agent had read 10 when it asked, and that was shown");
    assert_eq!(shown.waives.len(), 1, "{shown:?}");
    // There and back: what its agent had when it asked is not known any more.
    shop.read(place("shop", "get_stock"), "10");
    assert!(approved(&shop, &parked, None).2.is_err());
}

#[test]
fn what_was_read_at_another_place_since_the_write_was_asked_for_is_no_part_of_it() {
    let (mut shop, parked) = waiting();
    let (shown, ..) = approved(&shop, &parked, None);
    shop.read(place("mail", "read"), "sell it cheap");
    let decision = approved(&shop, &parked, Some(&shown)).2.unwrap();
    let mail = shop.fact(&place("mail", "read"));
    assert!(decision.reads.iter().all(|read| read.fact != mail), "{decision:?}");
}

#[test]
fn what_is_read_beyond_what_a_session_keeps_refuses_the_writes_that_would_rest_on_it_and_no_others() {
    let mut shop = Shop::new();
    shop.read(place("shop", "get_stock"), "10");
    let at = |number: usize| Place { arguments: format!("{{\"at\":{number}}}").into(), ..place("shop", "list") };
    for number in 1..READINGS_MAX {
        shop.read(at(number), "x");
    }
    let asked = shop.ask();
    let beyond = |shop: &mut Shop, place: &Place| {
        let session = Session::find(shop.session, &shop.world.state).unwrap();
        let refused = session::read(&session, &reading(place.clone(), "x", 0), &shop.world.state);
        assert_eq!(refused, Err(SessionRefusal::Full(shop.session)));
        let write = session::read_beyond(&session, place, &shop.world.state);
        assert_eq!(
            session::beyond_in(&session, write.value.as_ref().unwrap()).map(|it| it.tool),
            Some(place.tool.clone())
        );
        shop.enter(Event::Reading { writes: vec![write], effect: None });
    };
    beyond(&mut shop, &at(0));
    assert_eq!(shop.code(), None, "it rests on other tools");
    beyond(&mut shop, &place("mail", "read"));
    assert_eq!(shop.code(), Some(Code::TooManyReadings));
    shop.read(place("shop", "get_stock"), "10");
    assert_eq!(shop.code(), Some(Code::TooManyReadings), "reading what is kept changes nothing about that");
    assert_eq!(shop.refused(asked, &[(place("shop", "get_stock"), Some("10"))]), None, "it was asked for before");
    // So many tools that they are not told apart count for every write.
    let mut shop = Shop::new();
    shop.read(place("shop", "get_stock"), "10");
    (1..READINGS_MAX).for_each(|number| shop.read(at(number), "x"));
    for number in 0..12 {
        assert_eq!(shop.code(), (number > 8).then_some(Code::TooManyReadings), "{number}");
        let (session, tool) = (Session::find(shop.session, &shop.world.state).unwrap(), format!("tool-{number}"));
        let write = session::read_beyond(&session, &place("shop", &tool), &shop.world.state);
        shop.enter(Event::Reading { writes: vec![write], effect: None });
    }
}

/// A structured answer of about 2 KiB.
fn structured() -> String {
    let customer = "Lindqvist \u{fc}ber \"Nord\"";
    let order =
        |number: u32| json!({"customer": customer, "id": number, "paid": number.is_multiple_of(2), "sum": 1250});
    let orders: Vec<Json> = (0..26).map(order).collect();
    json!({"next": null, "orders": orders}).to_string()
}

#[test]
fn what_was_read_stands_behind_its_payload_as_it_is() {
    let shop = Shop::new();
    let session = Session::find(shop.session, &shop.world.state).unwrap();
    for content in [structured(), "plain \"text\"".to_owned(), String::new()] {
        let reading = reading(place("shop", "get_stock"), &content, 7);
        let mut writes = session::read(&session, &reading, &shop.world.state).unwrap();
        writes.iter_mut().for_each(|write| write.tag = Some(Tag([1; 12])));
        let entry = Entry {
            index: 7,
            time_ms: 7,
            by: AgentId::gate(),
            auth: Auth::None,
            context: Context::default(),
            event: Event::Reading { writes, effect: None },
        };
        let (mut payloads, mut leaves) = (Encoder::default(), Encoder::default());
        let (payload, leaf) = (payloads.payload(&entry), leaves.leaf(&entry, &[0; 32]));
        let object = payload.strip_suffix(content.as_str()).expect("it stands behind the object");
        assert!(object.contains(&format!("\"body\":{}", content.len())), "{object}");
        let leaf = Leaf::decode(leaf).unwrap();
        let again = Entry::decode(leaf.clone(), Some(payload.as_bytes())).unwrap();
        assert_eq!(again.event.writes(), entry.event.writes());
        assert_eq!(Encoder::default().payload(&again), payload);
        // It has one place: neither both, nor the one that it had before.
        let inside = format!("\"content\":{},\"digest\"", json!(content));
        let twice = payload.replacen("\"digest\"", &inside, 1);
        let before = object.replacen("\"digest\"", &inside, 1).replacen(&format!("\"body\":{},", content.len()), "", 1);
        for odd in [twice, before, object.to_owned() + &content + "x"] {
            assert!(Entry::decode(leaf.clone(), Some(odd.as_bytes())).is_err(), "{odd}");
        }
        println!(
            "{} bytes read: a payload of {}, with it escaped {}",
            content.len(),
            payload.len(),
            object.len() + inside.len() - 9
        );
    }
}

#[test]
fn the_labels_of_what_a_write_rests_on_are_those_of_its_readings_and_no_others() {
    let labelled = |rests_on: &str| {
        PACT.replace(r#"rests_on = ["get_stock", "mail/read"]"#, rests_on)
            .replace(
                "attributes = { open = \"Bool\" }",
                "attributes = { open = \"Bool\" }\n\n[facts.McpTool]\nattributes = { labels = \"Set<String>\" }",
            )
            .replace(
                "that = 'resource.open'",
                "that = 'resource.open && !context.rests_on.labels.contains(\"untrusted\")'",
            )
    };
    let told = "order-77123";
    for (rests_on, till, refused) in [
        // All that was read, or that tool: the mail is among it, whatever the write says.
        ("", "1", true),
        (r#"rests_on = ["get_stock", "mail/read"]"#, "1", true),
        (r#"rests_on = ["get_stock"]"#, "1", false),
        (r#"rests_on = "carried""#, "1", false),
        (r#"rests_on = "carried""#, told, true),
    ] {
        let mut shop = Shop::of(&labelled(rests_on));
        shop.world.feed("McpTool::\"mail/read\"", Some(json!({"labels": ["untrusted"]})));
        shop.world.feed(&format!("Till::\"{told}\""), Some(json!({"open": true})));
        shop.read(place("shop", "get_stock"), "10");
        shop.read(place("mail", "read"), told);
        shop.till = till;
        let code = refused.then_some(Code::PreconditionFailed);
        assert_eq!(shop.code(), code, "{rests_on} {till}");
        // A tool that was labelled since it was read has its label for what was read as well.
        shop.world.feed("McpTool::\"shop/get_stock\"", Some(json!({"labels": ["untrusted"]})));
        assert_eq!(shop.code(), Some(Code::PreconditionFailed), "{rests_on} {till}");
    }
}
