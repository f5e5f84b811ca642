//! A gate with one account, one agent whose larger refunds wait for a person, and a clock that a test moves.

use countersign_core::decision::{Decision, Verdict};
use countersign_core::disclose::Disclosure;
use countersign_core::identity::{Auth, KeyName, Signed};
use countersign_core::ids::{AgentId, FactId};
use countersign_core::pact::load::load;
use countersign_core::reason::Reason;
use countersign_core::record::Event;
use countersign_core::review::{ReviewId, ReviewRefusal};
use countersign_core::value::Attributes;
use countersign_engine::audit::audit;
use countersign_engine::gate::{Gate, Options};
use countersign_engine::request::{Answer, Refusal, Request};
use countersign_engine::storage::disk::RealDisk;
use countersign_signature::tag;
use countersign_testing::gate::on_folder_by;
use countersign_testing::hands::Hands;
use ed25519_dalek::SigningKey;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const ORIGIN: &str = "test.example/review";

pub const RULES: &str = r#"
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

/// How someone signs: by their name, for a method and path, over a body, at a second.
pub type Signs = fn(&str, (&str, &str), &str, u64) -> Auth;

pub struct World {
    pub gate: Gate,
    pub clock: Arc<Hands>,
    pub auth: Signs,
    dir: tempfile::TempDir,
}

pub fn name(text: &str) -> AgentId {
    AgentId::new(text).unwrap()
}

pub fn secret_of(who: &str) -> SigningKey {
    SigningKey::from_bytes(&[who.as_bytes()[0]; 32])
}

pub fn key_of(who: &str) -> KeyName {
    KeyName::of(secret_of(who).verifying_key().to_bytes())
}

/// A request to a method and path, as an entry keeps it. Its signature is none: nothing here verifies it.
pub fn signed(who: &str, (method, path): (&str, &str), body: &str, created_s: u64) -> Auth {
    static SENT: AtomicU64 = AtomicU64::new(0);
    let (nonce, tag) = (SENT.fetch_add(1, Ordering::Relaxed), tag(ORIGIN));
    let key = key_of(who);
    let input =
        format!(r#"("@method" "@path");created={created_s};nonce="sent-{nonce:020}";keyid="{key}";tag="{tag}""#);
    Auth::Signature(Arc::new(Signed {
        key,
        input: input.into(),
        method: method.into(),
        authority: "localhost".into(),
        path: path.into(),
        query: None,
        if_match: None,
        batch: None,
        body: Some(body.into()),
        signature: [3; 64],
    }))
}

pub fn open(dir: &Path, clock: &Arc<Hands>) -> Gate {
    let environment = on_folder_by(dir, Arc::<Hands>::clone(clock));
    Gate::open(environment, Options::new(ORIGIN)).unwrap().0
}

impl World {
    pub fn new() -> Self {
        let (dir, clock) = (tempfile::tempdir().unwrap(), Hands::at(1_800_000_000_000));
        let world = Self { gate: open(dir.path(), &clock), clock, auth: |_, _, _, _| Auth::None, dir };
        world.publish(1);
        world.agent("active");
        world.account("active", 900, "jane", 10);
        world
    }

    /// How a request of someone is authenticated.
    pub fn sign(&self, who: &str, line: (&str, &str), body: &str) -> Auth {
        (self.auth)(who, line, body, self.clock.now_s())
    }

    pub fn reopen(self) -> Self {
        let Self { gate, clock, auth, dir } = self;
        gate.close().unwrap();
        Self { gate: open(dir.path(), &clock), clock, auth, dir }
    }

    /// The same after a stop during which time went by.
    pub fn stopped_for(self, span_ms: u64) -> Self {
        let Self { gate, clock, auth, dir } = self;
        gate.close().unwrap();
        clock.pass(span_ms);
        Self { gate: open(dir.path(), &clock), clock, auth, dir }
    }

    /// The leaves and payloads of all entries of one kind.
    fn entries(&self, kind: &str) -> Vec<(serde_json::Value, serde_json::Value)> {
        let position = self.gate.view().position;
        let json = |text: &str| serde_json::from_str(text).unwrap();
        let entry = |index| self.gate.read_log(index).unwrap().show().unwrap();
        let entries = (0..position)
            .map(entry)
            .map(|entry| (json(&entry.leaf), entry.payload.as_deref().map_or(serde_json::Value::Null, json)));
        entries.filter(|(leaf, _): &(serde_json::Value, _)| leaf["kind"] == kind).collect()
    }

    /// The latest entry of a kind.
    pub fn last(&self, kind: &str) -> (serde_json::Value, serde_json::Value) {
        self.entries(kind).pop().unwrap()
    }

    /// Whether an entry of a kind speaks of a review.
    pub fn has(&self, kind: &str, review: ReviewId) -> bool {
        self.entries(kind).iter().any(|(leaf, _)| leaf["review"] == review.0)
    }

    pub fn publish(&self, version: u64) {
        let source = format!("pact = \"billing\"\nversion = {version}\n{RULES}");
        let pact = Arc::new(load(&source).unwrap().pact);
        self.gate
            .call(Request::Publish {
                by: name("operator"),
                auth: self.sign("operator", ("POST", "/v1/pacts"), &source),
                pact,
            })
            .unwrap();
    }

    pub fn feed(&self, fact: &str, json: serde_json::Value) {
        let value = Some(Attributes::from_untyped_json(json.as_object().unwrap()).unwrap());
        let fact: FactId = fact.parse().unwrap();
        let path = format!("/v1/facts/{}/{}", fact.ty(), fact.id());
        let (by, auth) =
            (name("operator"), self.sign("operator", ("PUT", &path), &serde_json::json!({"value": json}).to_string()));
        self.gate.call(Request::Feed { by, auth, fact, value, if_match: None }).unwrap();
    }

    pub fn agent(&self, standing: &str) {
        self.member("refund-1", standing);
    }

    pub fn member(&self, who: &str, standing: &str) {
        let key = key_of(who).to_string();
        let value = serde_json::json!(
            {"roles": ["refunder"], "standing": standing, "org": "acme", "trust": 700, "key": key}
        );
        self.feed(&format!("Agent::\"{who}\""), value);
    }

    pub fn operator(&self, who: &str, roles: &[&str], standing: &str) {
        let key = key_of(who).to_string();
        self.feed(
            &format!("Operator::\"{who}\""),
            serde_json::json!({"roles": roles, "standing": standing, "key": key}),
        );
    }

    pub fn account(&self, status: &str, balance: i64, owner: &str, risk: i64) {
        let value = serde_json::json!({"status": status, "balance": balance, "owner": owner, "risk": risk});
        self.feed("Account::\"42\"", value);
    }

    pub fn balance(&self) -> i64 {
        let fact = self.gate.fact(&"Account::\"42\"".parse().unwrap()).unwrap();
        fact.value.as_ref().unwrap().to_json()["balance"].as_i64().unwrap()
    }

    pub fn act(&self, key: &str, amount: i64) -> Answer {
        let agent = name("refund-1");
        let observed = self.gate.observe(agent.clone(), vec!["Account::\"42\"".parse().unwrap()]);
        self.act_on(key, amount, vec![observed.unwrap().token])
    }

    pub fn act_on(&self, key: &str, amount: i64, observations: Vec<String>) -> Answer {
        let body = serde_json::json!({
            "pact": "billing", "action": "refund", "idempotency_key": format!("{key:0>32}"),
            "params": {"account": "42", "amount": amount}, "observations": observations,
        });
        let auth = self.sign("refund-1", ("POST", "/v1/actions"), &body.to_string());
        let action = self.gate.admit(name("refund-1"), auth, body.to_string().into()).unwrap();
        self.gate.call(Request::Act(Box::new(action))).unwrap()
    }

    pub fn park(&self, key: &str, amount: i64) -> ReviewId {
        let Answer::Entered(entered) = self.act(key, amount) else { panic!("repeated") };
        let decision = entered.entry.event.decision().unwrap();
        assert!(matches!(decision.verdict, Verdict::Review { .. }), "{decision:?}");
        ReviewId(entered.entry.index)
    }

    pub fn show(&self, review: ReviewId) -> String {
        self.gate.show_review(review, &name("vera")).unwrap().token
    }

    pub fn approve(&self, token: &str) -> Result<(u64, Decision), Refusal> {
        self.approve_within(token, 600_000)
    }

    pub fn approve_within(&self, token: &str, span_ms: u64) -> Result<(u64, Decision), Refusal> {
        let by = name("vera");
        let shown = self.gate.open_shown(token, &by).unwrap();
        let auth = self.sign(
            "vera",
            ("POST", &format!("/v1/reviews/{}/approve", shown.review)),
            &serde_json::json!({"shown": token, "expires_in_ms": span_ms}).to_string(),
        );
        let until_ms = shown.at_ms + span_ms;
        match self.gate.call(Request::Approve { by, auth, shown: Box::new(shown), until_ms })? {
            Answer::Entered(entered) => {
                let Event::Approval(approved) = &entered.entry.event else { panic!("not an approval") };
                Ok((entered.entry.index, approved.decision.clone()))
            }
            other => panic!("no new entry: {other:?}"),
        }
    }

    pub fn halt(&self, on: bool) {
        let path = if on { "/v1/halts" } else { "/v1/halts/resume" };
        let (by, scope) = (name("operator"), "agent:refund-1".parse().unwrap());
        let auth = self.sign("operator", ("POST", path), r#"{"scope":"agent:refund-1","reason":"a test"}"#);
        let reason = "a test".into();
        let halt = Request::Halt { by: by.clone(), auth: auth.clone(), scope, reason };
        let (scope, reason) = ("agent:refund-1".parse().unwrap(), "a test".into());
        self.gate.call(if on { halt } else { Request::Resume { by, auth, scope, reason } }).unwrap();
    }

    /// Closes the gate and gives its folder.
    pub fn close(self) -> tempfile::TempDir {
        self.gate.close().unwrap();
        self.dir
    }

    pub fn audit(self) {
        let key = self.gate.log_key().clone();
        let dir = self.close();
        let report = audit(&RealDisk::open(dir.path()).unwrap(), &key, &mut |_| ()).unwrap();
        assert_eq!(report.differing_count, 0, "{:?}", report.differing);
        assert_eq!(report.verified + report.unverifiable.len() as u64, report.entries);
    }
}

impl World {
    /// What an agent without any grant is told of why an action was stopped.
    pub fn told_to_a_blind_agent(&self, mut reason: Reason) -> String {
        let (view, agent) = (self.gate.view(), name("blind"));
        reason.withhold(&Disclosure::new(view.whole_state(), &agent, None, &[]));
        reason.message()
    }
}

pub fn void(refused: Result<(u64, Decision), Refusal>) -> String {
    match refused {
        Err(Refusal::Review(ReviewRefusal::Void(_, why))) => why.to_string(),
        other => panic!("not void: {other:?}"),
    }
}
