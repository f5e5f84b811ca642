//! Reviews through the gate: an approval executes exactly what was shown, once, and in every other case says why not.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that panics has failed, which is what it is for"
)]

use countersign_core::decision::{Decision, Verdict};
use countersign_core::identity::{Auth, KeyName, Signed};
use countersign_core::ids::AgentId;
use countersign_core::pact::load::load;
use countersign_core::record::Event;
use countersign_core::review::{Ended, ReviewId, ReviewRefusal};
use countersign_core::value::Attributes;
use countersign_engine::audit::audit;
use countersign_engine::clock::Clock;
use countersign_engine::gate::{Environment, Gate, Options};
use countersign_engine::request::{Answer, Refusal, Request};
use countersign_engine::storage::disk::RealDisk;
use countersign_engine::token::TokenError;
use ed25519_dalek::SigningKey;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const RULES: &str = r#"
[facts.Account]
attributes = { status = "String", balance = "Long", owner = "String", risk = "Long" }

[observe.Account]
who = 'principal.roles.contains("refunder")'
attributes = "*"

[action.refund]
resource = 'Account::"{account}"'
allow = 'principal.roles.contains("refunder")'
budget = { sum = "amount", max = 1000, per = "1d", by = "agent" }
set = { balance = "resource.balance - context.amount" }

[action.refund.params]
type = "object"
additionalProperties = false
required = ["account", "amount"]
properties.account = { type = "string", maxLength = 64 }
properties.amount = { type = "integer", minimum = 1, maximum = 5000 }

[[action.refund.require]]
id = "account-is-active"
that = 'resource.status == "active"'
stale_after = "2m"

[[action.refund.require]]
id = "small-enough"
that = 'context.amount < 100'
on_fail = "review"

[[action.refund.require]]
id = "low-risk"
that = 'resource.risk < 50'
on_fail = "review"
"#;

#[derive(Default)]
struct Hand(AtomicU64);

impl Clock for Hand {
    fn wall_ms(&self) -> u64 {
        1_800_000_000_000 + self.0.load(Ordering::SeqCst)
    }
    fn monotonic_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

struct World {
    gate: Gate,
    clock: Arc<Hand>,
    auth: fn(&str) -> Auth,
    dir: tempfile::TempDir,
}

fn name(text: &str) -> AgentId {
    AgentId::new(text).unwrap()
}

fn key_of(who: &str) -> KeyName {
    KeyName::of([who.as_bytes()[0]; 32])
}

fn signed(who: &str) -> Auth {
    Auth::Signature(Arc::new(Signed {
        key: key_of(who),
        input: "(\"@method\");created=1".into(),
        method: "POST".into(),
        authority: "localhost".into(),
        path: "/".into(),
        query: None,
        body: None,
        signature: [3; 64],
    }))
}

fn open(dir: &Path, clock: &Arc<Hand>) -> Gate {
    let environment = Environment {
        disk: Arc::new(RealDisk::open(dir).unwrap()),
        clock: Arc::clone(clock) as _,
        seed: [3; 32],
        log_key: SigningKey::from_bytes(&[1; 32]).into(),
        token_key: [2; 32],
    };
    Gate::open(environment, Options::new("test.example/review")).unwrap().0
}

impl World {
    fn new() -> Self {
        let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(Hand::default()));
        let world = Self { gate: open(dir.path(), &clock), clock, auth: |_| Auth::None, dir };
        world.publish(1);
        world.agent("active");
        world.account("active", 900, "jane", 10);
        world
    }

    fn reopen(self) -> Self {
        let Self { gate, clock, auth, dir } = self;
        gate.close().unwrap();
        Self { gate: open(dir.path(), &clock), clock, auth, dir }
    }

    fn publish(&self, version: u64) {
        let source = format!("pact = \"billing\"\nversion = {version}\n{RULES}");
        let pact = Arc::new(load(&source).unwrap().pact);
        self.gate.call(Request::Publish { by: name("operator"), auth: (self.auth)("operator"), pact }).unwrap();
    }

    fn feed(&self, fact: &str, json: serde_json::Value) {
        let value = Some(Attributes::from_untyped_json(json.as_object().unwrap()).unwrap());
        let (by, auth, fact) = (name("operator"), (self.auth)("operator"), fact.parse().unwrap());
        self.gate.call(Request::Feed { by, auth, fact, value, if_match: None }).unwrap();
    }

    fn agent(&self, standing: &str) {
        let key = key_of("refund-1").to_string();
        let value = serde_json::json!(
            {"roles": ["refunder"], "standing": standing, "org": "acme", "trust": 700, "key": key}
        );
        self.feed("Agent::\"refund-1\"", value);
    }

    fn operator(&self, who: &str, roles: &[&str], standing: &str) {
        let key = key_of(who).to_string();
        self.feed(
            &format!("Operator::\"{who}\""),
            serde_json::json!({"roles": roles, "standing": standing, "key": key}),
        );
    }

    fn account(&self, status: &str, balance: i64, owner: &str, risk: i64) {
        let value = serde_json::json!({"status": status, "balance": balance, "owner": owner, "risk": risk});
        self.feed("Account::\"42\"", value);
    }

    fn balance(&self) -> i64 {
        let fact = self.gate.fact(&"Account::\"42\"".parse().unwrap()).unwrap();
        fact.value.as_ref().unwrap().to_json()["balance"].as_i64().unwrap()
    }

    fn act(&self, key: &str, amount: i64) -> Answer {
        let agent = name("refund-1");
        let observed = self.gate.observe(agent.clone(), vec!["Account::\"42\"".parse().unwrap()]);
        self.act_on(key, amount, vec![observed.unwrap().token])
    }

    fn act_on(&self, key: &str, amount: i64, observations: Vec<String>) -> Answer {
        let body = serde_json::json!({
            "pact": "billing", "action": "refund", "idempotency_key": format!("{key:0>32}"),
            "params": {"account": "42", "amount": amount}, "observations": observations,
        });
        let action = self.gate.admit(name("refund-1"), (self.auth)("refund-1"), body.to_string().into()).unwrap();
        self.gate.call(Request::Act(Box::new(action))).unwrap()
    }

    fn park(&self, key: &str, amount: i64) -> ReviewId {
        let Answer::Entered(entered) = self.act(key, amount) else { panic!("repeated") };
        let decision = entered.entry.event.decision().unwrap();
        assert!(matches!(decision.verdict, Verdict::Review { .. }), "{decision:?}");
        ReviewId(entered.entry.index)
    }

    fn show(&self, review: ReviewId) -> String {
        self.gate.show_review(review, &name("vera")).unwrap().token
    }

    fn approve(&self, token: &str) -> Result<(u64, Decision), Refusal> {
        self.approve_within(token, 600_000)
    }

    fn approve_within(&self, token: &str, span_ms: u64) -> Result<(u64, Decision), Refusal> {
        let (by, auth) = (name("vera"), (self.auth)("vera"));
        let shown = self.gate.open_shown(token, &by).unwrap();
        let until_ms = shown.at_ms + span_ms;
        match self.gate.call(Request::Approve { by, auth, shown: Box::new(shown), until_ms })? {
            Answer::Entered(entered) => {
                let Event::Approval(approved) = entered.entry.event else { panic!("not an approval") };
                Ok((entered.entry.index, approved.decision))
            }
            Answer::Repeated(entry) => panic!("repeated {entry}"),
        }
    }

    fn halt(&self, on: bool) {
        let (by, auth, scope) = (name("operator"), (self.auth)("operator"), "agent:refund-1".parse().unwrap());
        let reason = "a test".into();
        let halt = Request::Halt { by: by.clone(), auth: auth.clone(), scope, reason };
        let (scope, reason) = ("agent:refund-1".parse().unwrap(), "a test".into());
        self.gate.call(if on { halt } else { Request::Resume { by, auth, scope, reason } }).unwrap();
    }

    fn audit(self) {
        let key = self.gate.log_key().clone();
        self.gate.close().unwrap();
        let report = audit(&RealDisk::open(self.dir.path()).unwrap(), &key, &mut |_| ()).unwrap();
        assert_eq!(report.differing_count, 0, "{:?}", report.differing);
        assert_eq!(report.verified + report.unverifiable.len() as u64, report.entries);
    }
}

fn void(refused: Result<(u64, Decision), Refusal>) -> String {
    match refused {
        Err(Refusal::Review(ReviewRefusal::Void(_, why))) => why,
        other => panic!("not void: {other:?}"),
    }
}

#[test]
fn an_approval_executes_what_was_shown_once() {
    let world = World::new();
    let review = world.park("a", 500);
    let (first, second) = (world.show(review), world.show(review));
    let (entry, decision) = world.approve(&first).unwrap();
    let waived = decision.waived_by.unwrap();
    assert_eq!((waived.reviewer, waived.review), (name("vera"), review.0));
    assert_eq!(waived.preconditions, ["small-enough"]);
    assert_eq!(decision.charges.len(), 1);
    assert_eq!(world.balance(), 400);
    for token in [&first, &second] {
        let again = world.approve(token).unwrap_err();
        let closed = ReviewRefusal::Closed { review, how: Ended::Approved, entry };
        assert_eq!(again, Refusal::Review(closed));
    }
    // Others that were parked before a restart, with a snapshot and without, can be decided after it.
    let (kept, refused) = (world.park("b", 200), world.park("c", 200));
    world.gate.snapshot().unwrap();
    let later = world.park("d", 200);
    world.account("active", 400, "john", 10);
    let world = world.reopen();
    let reason: Arc<str> = "no".into();
    let refuse = Request::Refuse { by: name("vera"), auth: Auth::None, review: refused, reason };
    assert!(matches!(world.gate.call(refuse), Ok(Answer::Entered(_))));
    let closed = world.gate.show_review(refused, &name("vera")).unwrap_err();
    assert!(matches!(closed, ReviewRefusal::Closed { how: Ended::Refused, .. }), "{closed}");
    for review in [kept, later] {
        world.approve(&world.show(review)).unwrap();
    }
    assert_eq!(world.balance(), 0);
    world.audit();
}

#[test]
fn a_repeated_key_answers_with_what_became_of_the_action() {
    let world = World::new();
    let observed = world.gate.observe(name("refund-1"), vec!["Account::\"42\"".parse().unwrap()]);
    let tokens = vec![observed.unwrap().token];
    let Answer::Entered(entered) = world.act_on("a", 500, tokens.clone()) else { panic!() };
    let review = ReviewId(entered.entry.index);
    assert!(matches!(world.act_on("a", 500, tokens.clone()), Answer::Repeated(entry) if entry == review.0));
    let (approval, _) = world.approve(&world.show(review)).unwrap();
    assert!(matches!(world.act_on("a", 500, tokens.clone()), Answer::Repeated(entry) if entry == approval));
    let world = world.reopen();
    assert!(matches!(world.act_on("a", 500, tokens), Answer::Repeated(entry) if entry == approval));
}

/// What happens between showing and approving, and what the refusal must say.
type Step = (fn(&World), &'static str);

#[test]
fn a_stale_approval_never_executes_and_says_why() {
    let steps: [Step; 7] = [
        (
            |world| world.account("active", 800, "jane", 10),
            "Account::\"42\".balance was 900 when it was shown, and is now 800, by operator",
        ),
        (|world| world.account("frozen", 900, "jane", 10), "Account::\"42\".status was \"active\""),
        (|world| world.account("active", 900, "jane", 90), "Account::\"42\".risk was 10"),
        (|world| world.publish(2), "pact `billing` was shown at version 1, and is now at version 2"),
        (|world| world.agent("quarantined"), "agent_not_active"),
        (|world| world.halt(true), "halted: `agent:refund-1` is halted since entry"),
        (|world| drop(world.act("small", 90)), "Account::\"42\".balance"),
    ];
    for (at, (step, says)) in steps.iter().enumerate() {
        // Before it was shown, what happens is part of what is shown; after, it voids the approval.
        let world = World::new();
        let review = world.park("a", 500);
        let token = world.show(review);
        step(&world);
        let before = world.balance();
        let why = void(world.approve(&token));
        assert!(why.contains(says), "step {at}: {why}");
        assert_eq!(world.balance(), before, "step {at}");
        // The review waits on, and nothing about it has changed for those who look again.
        assert!(world.gate.show_review(review, &name("vera")).is_ok(), "step {at}");
        world.audit();
    }
}

#[test]
fn what_no_condition_reads_may_change() {
    let world = World::new();
    let token = world.show(world.park("a", 500));
    world.account("active", 900, "john", 10);
    world.approve(&token).unwrap();
    assert_eq!(world.balance(), 400);
    world.audit();
}

#[test]
fn only_what_was_shown_is_waived() {
    let world = World::new();
    let review = world.park("a", 500);
    // Shown after the risk rose: both are waived. Shown before: the other is not.
    let early = world.show(review);
    world.account("active", 900, "jane", 90);
    assert!(void(world.approve(&early)).contains("risk"));
    let (_, decision) = world.approve(&world.show(review)).unwrap();
    assert_eq!(decision.waived_by.unwrap().preconditions, ["small-enough", "low-risk"]);
    // A budget is not waived, nor a precondition that rejects.
    let review = world.park("b", 600);
    assert!(void(world.approve(&world.show(review))).starts_with("budget_exceeded"));
    world.account("frozen", 400, "jane", 10);
    assert!(void(world.approve(&world.show(review))).contains("account-is-active"));
    assert_eq!(world.balance(), 400);
    world.audit();
}

#[test]
fn staleness_counts_from_what_the_reviewer_was_shown() {
    let world = World::new();
    let review = world.park("a", 500);
    // The agent's observation is too old by now; the reviewer's is not.
    world.clock.0.fetch_add(600_000, Ordering::SeqCst);
    let token = world.show(review);
    world.clock.0.fetch_add(60_000, Ordering::SeqCst);
    world.approve(&token).unwrap();
    let review = world.park("b", 200);
    let token = world.show(review);
    world.clock.0.fetch_add(121_000, Ordering::SeqCst);
    assert!(void(world.approve(&token)).contains("account-is-active was checked too long ago"));
    world.audit();
}

#[test]
fn after_its_time_neither_an_approval_nor_a_review_is_good() {
    let world = World::new();
    let review = world.park("a", 500);
    let token = world.show(review);
    world.clock.0.fetch_add(1_001, Ordering::SeqCst);
    let late = world.approve_within(&token, 1_000).unwrap_err();
    assert!(matches!(late, Refusal::Review(ReviewRefusal::ApprovalExpired(..))), "{late}");
    // However long the reviewer's client says: ten minutes at most.
    world.clock.0.fetch_add(600_000, Ordering::SeqCst);
    let late = world.approve_within(&token, u64::MAX / 2).unwrap_err();
    assert!(matches!(late, Refusal::Review(ReviewRefusal::ApprovalExpired(..))), "{late}");
    let token = world.show(review);
    world.clock.0.fetch_add(3_600_000, Ordering::SeqCst);
    let late = world.approve(&token).unwrap_err();
    assert!(matches!(late, Refusal::Review(ReviewRefusal::Expired(..))), "{late}");
    assert_eq!(world.balance(), 900);
}

#[test]
fn nobody_approves_by_what_somebody_else_was_shown_nor_themselves() {
    let world = World::new();
    let (review, other) = (world.park("a", 500), world.park("b", 501));
    let token = world.show(review);
    assert_eq!(world.gate.open_shown(&token, &name("mallory")), Err(TokenError::NotYours));
    let mut altered = token.clone().into_bytes();
    let last = altered.len() - 1;
    altered[last] = if altered[last] == b'A' { b'B' } else { b'A' };
    assert!(world.gate.open_shown(&String::from_utf8(altered).unwrap(), &name("vera")).is_err());
    // An observation does not open as what a reviewer was shown.
    let observed = world.gate.observe(name("refund-1"), vec!["Account::\"42\"".parse().unwrap()]).unwrap().token;
    assert!(world.gate.open_shown(&observed.replace("obs1.", "rvw1."), &name("vera")).is_err());
    // What was shown of one action moved to another.
    let mut shown = world.gate.open_shown(&token, &name("vera")).unwrap();
    shown.review = other;
    let until_ms = shown.at_ms + 1_000;
    let moved = Request::Approve { by: name("vera"), auth: Auth::None, shown: Box::new(shown), until_ms };
    let Err(Refusal::Review(ReviewRefusal::Void(_, why))) = world.gate.call(moved) else { panic!("executed") };
    assert!(why.contains("another action was shown"), "{why}");
    let own = world.gate.show_review(review, &name("refund-1")).unwrap().shown;
    let until_ms = own.at_ms + 1_000;
    let own = Request::Approve { by: name("refund-1"), auth: Auth::None, shown: Box::new(own), until_ms };
    let refused = world.gate.call(own).unwrap_err();
    assert!(matches!(refused, Refusal::Review(ReviewRefusal::SelfApproval { .. })), "{refused}");
    assert_eq!(world.balance(), 900);
}

#[test]
fn a_reviewer_whose_role_or_standing_is_gone_approves_nothing() {
    let steps: [fn(&World); 3] = [
        |world| world.operator("vera", &["reviewer"], "revoked"),
        |world| world.operator("vera", &["reviewer"], "quarantined"),
        |world| world.operator("vera", &["auditor"], "active"),
    ];
    for (at, step) in steps.iter().enumerate() {
        let mut world = World::new();
        world.operator("operator", &["admin", "feeder", "publisher"], "active");
        world.auth = signed;
        world.operator("vera", &["reviewer"], "active");
        let (review, kept) = (world.park("a", 500), world.park("b", 400));
        let token = world.show(review);
        step(&world);
        let refused = world.approve(&token).unwrap_err();
        assert!(matches!(refused, Refusal::NotAuthorised(_)), "step {at}: {refused}");
        assert_eq!(world.balance(), 900);
        world.operator("vera", &["reviewer"], "active");
        world.halt(true);
        world.halt(false);
        world.approve(&world.show(kept)).unwrap();
        world.audit();
    }
}

#[test]
fn an_erased_action_can_no_longer_be_approved() {
    let world = World::new();
    let (erased, done) = (world.park("a", 500), world.park("b", 300));
    let token = world.show(erased);
    world.gate.erase(name("operator"), Auth::None, &[erased.0], "asked for".to_owned()).unwrap();
    let refused = world.approve(&token).unwrap_err();
    assert!(matches!(refused, Refusal::Review(ReviewRefusal::Closed { how: Ended::Erased, .. })), "{refused}");
    // What was approved before its action is erased stays done, and says that it cannot be decided again.
    world.approve(&world.show(done)).unwrap();
    world.gate.erase(name("operator"), Auth::None, &[done.0], "asked for".to_owned()).unwrap();
    let world = world.reopen();
    assert_eq!(world.balance(), 600);
    world.audit();
}
