//! A gate with an admin, an agent and an account, on a real disk, with a clock that is told the time.

use countersign_core::decision::Verdict;
use countersign_core::identity::{Auth, KeyName};
use countersign_core::ids::{AgentId, FactId};
use countersign_core::pact::load::load;
use countersign_core::record::Event;
use countersign_core::value::Attributes;
use countersign_engine::gate::{AdmitError, Gate, Options};
use countersign_engine::identity::{AuthError, Authenticated};
use countersign_engine::request::{Answer, Refusal, Request};
use countersign_signature::{self as signature, Presented, Signable, Wire};
use countersign_testing::gate::on_folder_by;
pub use countersign_testing::hands::Hands;
use ed25519_dalek::SigningKey;
use serde_json::{Value as Json, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub const ORIGIN: &str = "identity.test/log";

/// A second that is whole, so that tests can speak of seconds.
pub const START_MS: u64 = 1_794_700_000_000;

pub const PACT: &str = r#"
pact = "billing"
version = 1

[facts.Account]
attributes = { status = "String", balance = "Long" }

[action.refund]
resource = 'Account::"{account}"'
allow = 'principal.roles.contains("refunder")'
set = { balance = "resource.balance - context.amount" }

[action.refund.params]
type = "object"
additionalProperties = false
required = ["account", "amount"]
properties.account = { type = "string", maxLength = 64 }
properties.amount = { type = "integer", minimum = 1, maximum = 500000 }

[[action.refund.require]]
id = "account-is-active"
that = 'resource.status == "active"'
"#;

pub fn key(byte: u8) -> SigningKey {
    SigningKey::from_bytes(&[byte; 32])
}

pub fn name_of(key: &SigningKey) -> KeyName {
    KeyName::of(key.verifying_key().to_bytes())
}

pub fn admin_key() -> SigningKey {
    key(100)
}

pub fn id(name: &str) -> AgentId {
    AgentId::new(name).unwrap()
}

pub fn open(dir: &Path, clock: &Arc<Hands>) -> Gate {
    let options = Options { first_admin: Some(name_of(&admin_key())), ..Options::new(ORIGIN) };
    Gate::open(on_folder_by(dir, Arc::<Hands>::clone(clock)), options).unwrap().0
}

/// A request, signed and presented as it would come off the wire.
pub fn sign(key: &SigningKey, body: &str, created_s: u64, nonce: &str) -> Presented {
    sign_to("/v1/actions", key, body, created_s, nonce)
}

/// The same to any path.
pub fn sign_to(path: &str, key: &SigningKey, body: &str, created_s: u64, nonce: &str) -> Presented {
    sign_as("POST", path, key, body, created_s, nonce)
}

/// The same with any method.
pub fn sign_as(method: &str, path: &str, key: &SigningKey, body: &str, created_s: u64, nonce: &str) -> Presented {
    let request = Signable { method, authority: "gate.test", path, query: None, if_match: None, actions: None, body };
    let headers = signature::sign(key, &request, ORIGIN, created_s, nonce).unwrap();
    let wire = Wire {
        method: request.method,
        authority: request.authority,
        path: request.path,
        query: None,
        if_match: None,
        actions: None,
        body,
        content_digest: headers.content_digest.as_deref(),
        input: Some(&headers.input),
        signature: Some(&headers.signature),
    };
    signature::parse(&wire, ORIGIN).unwrap()
}

static NONCES: AtomicU64 = AtomicU64::new(0);

pub fn nonce() -> String {
    format!("nonce-{:020}", NONCES.fetch_add(1, Ordering::SeqCst))
}

/// One gate and its clock.
pub struct World {
    pub gate: Gate,
    pub clock: Arc<Hands>,
}

impl World {
    pub fn open(dir: &Path) -> Self {
        let clock = Hands::at(START_MS);
        Self { gate: open(dir, &clock), clock }
    }

    /// Publishes the pact and registers `refund-1` with key 1.
    pub fn furnish(&self) {
        let pact = Arc::new(load(PACT).unwrap().pact);
        let auth = self.auth_to("POST", "/v1/pacts", &admin_key(), PACT);
        self.gate.call(Request::Publish { by: id("admin"), auth, pact }).unwrap();
        self.feed("Agent::\"refund-1\"", Some(agent(&key(1)))).unwrap();
        self.feed("Account::\"42\"", Some(json!({"status": "active", "balance": 900_000}))).unwrap();
    }

    pub fn authenticate(&self, key: &SigningKey, body: &str) -> Result<Authenticated, AuthError> {
        self.gate.authenticate(sign(key, body, self.clock.now_s(), &nonce()))
    }

    pub fn auth_to(&self, method: &str, path: &str, key: &SigningKey, body: &str) -> Auth {
        let presented = sign_as(method, path, key, body, self.clock.now_s(), &nonce());
        self.gate.authenticate(presented).unwrap().auth
    }

    pub fn auth(&self, key: &SigningKey, body: &str) -> Auth {
        self.authenticate(key, body).unwrap().auth
    }

    /// The admin feeds a fact.
    pub fn feed(&self, fact: &str, value: Option<Json>) -> Result<Answer, Refusal> {
        self.feed_as("admin", &admin_key(), fact, value)
    }

    pub fn feed_as(&self, by: &str, key: &SigningKey, fact: &str, value: Option<Json>) -> Result<Answer, Refusal> {
        let (id, method): (FactId, _) = (fact.parse().unwrap(), if value.is_some() { "PUT" } else { "DELETE" });
        let body = value.as_ref().map_or_else(String::new, |value| json!({"value": value}).to_string());
        let auth = self.auth_to(method, &format!("/v1/facts/{}/{}", id.ty(), id.id()), key, &body);
        let request = feed(by, auth, fact, value);
        self.gate.call(request)
    }

    /// A refund by `agent`, signed with a key, up to the moment before it is handed in.
    pub fn admit(&self, agent: &str, key: &SigningKey) -> Request {
        let body = refund();
        let auth = self.auth(key, &body);
        Request::Act(Box::new(self.gate.admit(id(agent), auth, body.into()).unwrap()))
    }

    /// A refund by `agent` in one word: the verdict, or why it was refused at the door.
    pub fn act(&self, agent: &str, key: &SigningKey) -> String {
        let body = refund();
        match self.gate.admit(id(agent), self.auth(key, &body), body.into()) {
            Ok(action) => verdict(self.gate.call(Request::Act(Box::new(action))).unwrap()),
            Err(AdmitError::Denied { code, .. }) => code.to_string(),
            Err(error) => panic!("{error}"),
        }
    }
}

pub fn feed(by: &str, auth: Auth, fact: &str, value: Option<Json>) -> Request {
    let value = value.map(|value| Attributes::from_untyped_json(value.as_object().unwrap()).unwrap());
    Request::Feed { by: id(by), auth, fact: fact.parse().unwrap(), value, if_match: None }
}

pub fn refund() -> String {
    json!({
        "pact": "billing", "action": "refund", "idempotency_key": nonce(), "params": {"account": "42", "amount": 1},
    })
    .to_string()
}

pub fn agent(key: &SigningKey) -> Json {
    json!({
        "key": name_of(key).as_str(), "roles": ["refunder"], "standing": "active", "org": "acme", "trust": 700,
    })
}

pub fn operator(key: &SigningKey, roles: &[&str]) -> Json {
    json!({"key": name_of(key).as_str(), "roles": roles, "standing": "active"})
}

/// `committed`, or the code.
pub fn verdict(answer: Answer) -> String {
    let Answer::Entered(entered) = answer else { panic!("{answer:?}") };
    let Event::Action(decided) = Arc::unwrap_or_clone(entered.entry).event else { panic!("not an action") };
    match decided.decision.verdict {
        Verdict::Committed | Verdict::InFlight(_) => "committed".to_owned(),
        Verdict::Rejected(blocked) => blocked.code().as_str().to_owned(),
        Verdict::Review { .. } => "review".to_owned(),
    }
}

pub fn code(result: Result<Authenticated, AuthError>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(AuthError::Signature(error)) => error.code(),
        Err(AuthError::NotYet { .. } | AuthError::Stepped { .. } | AuthError::Behind { .. }) => "not_ready",
        Err(AuthError::Full | AuthError::KeptFull | AuthError::NotNoted(_)) => "busy",
    }
}
