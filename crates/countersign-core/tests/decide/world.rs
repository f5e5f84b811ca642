//! A state that tests fill by hand, and one action to decide on it.

use countersign_core::action::{Action, ActionRequest, Observed};
use countersign_core::decide::decide;
use countersign_core::decision::{Decision, Verdict};
use countersign_core::delegation::Chain;
use countersign_core::fact::Version;
use countersign_core::fence::ClaimId;
use countersign_core::identity::{Auth, KeyName, Signed};
use countersign_core::ids::{AgentId, FactId, Tag};
use countersign_core::pact::load::load;
use countersign_core::record::{Context, Decided, Entry, Event};
use countersign_core::state::State;
use countersign_core::value::Attributes;
use serde_json::{Value as Json, json};
use std::sync::Arc;

/// Facts, pacts, and the action under test.
#[derive(Clone)]
pub struct World {
    pub state: State,
    pub now_ms: u64,
    pub agent: &'static str,
    pub pact: String,
    pub action: String,
    pub params: Json,
    pub observed: Vec<Observed>,
    /// How the action is authenticated.
    pub auth: Auth,
    /// The key that the agent is registered with.
    pub key: Option<KeyName>,
    /// The delegation it is under.
    pub chain: Option<Arc<Chain>>,
    /// The claim it is under.
    pub claim: Option<ClaimId>,
    pub next_entry: u64,
}

impl World {
    /// A world in which a pact is published, and nothing else.
    pub fn new(source: &str, action: &str, params: Json) -> Self {
        let pact = load(source).unwrap_or_else(|problems| panic!("{problems:#?}\n{source}")).pact;
        let mut state = State::default();
        state.check_publish(&pact).unwrap();
        let name = pact.name.to_string();
        state.restore_pact(&Arc::new(pact)).unwrap();
        Self {
            state,
            now_ms: 1_000_000,
            agent: "agent-1",
            pact: name,
            action: action.to_owned(),
            params,
            observed: Vec::new(),
            auth: Auth::None,
            key: None,
            chain: None,
            claim: None,
            next_entry: 1,
        }
    }

    /// Registers the agent with these roles, in good standing.
    pub fn with_agent(mut self, roles: &[&str]) -> Self {
        self.register(roles, "active", 700);
        self
    }

    pub fn register(&mut self, roles: &[&str], standing: &str, trust: i64) {
        let mut value = json!({"org": "acme", "roles": roles, "standing": standing, "trust": trust});
        if let Some(key) = &self.key {
            value["key"] = key.as_str().into();
        }
        self.feed(&format!("Agent::\"{}\"", self.agent), Some(value));
    }

    /// Names an operator, so that nothing unsigned is taken any more.
    pub fn identify(&mut self) {
        let key = KeyName::of([1; 32]);
        let value = json!({"key": key.as_str(), "roles": ["admin"], "standing": "active"});
        self.feed("Operator::\"root\"", Some(value));
    }

    /// Has the action signed with a key; `decide` is told so and verifies nothing.
    pub fn sign_with(&mut self, key: KeyName) {
        self.auth = Auth::Signature(Arc::new(Signed {
            key,
            input: "(\"@method\");created=1".into(),
            method: "POST".into(),
            authority: "localhost".into(),
            path: "/v1/actions".into(),
            query: None,
            if_match: None,
            batch: None,
            body: None,
            signature: [3; 64],
        }));
    }

    /// Feeds a fact; `None` deletes it.
    pub fn feed(&mut self, fact: &str, value: Option<Json>) {
        let value = value.map(|value| Attributes::from_untyped_json(value.as_object().unwrap()).unwrap());
        let mut write = self.state.feed(&fact.parse().unwrap(), value);
        let [.., low] = self.next_entry.to_be_bytes();
        write.tag.get_or_insert(Tag([low; 12]));
        self.enter("operator", Event::Feed { write, held: None });
    }

    /// Applies an entry of its own.
    pub fn enter(&mut self, by: &str, event: Event) {
        let (index, by) = (self.next_entry, AgentId::new(by).unwrap());
        self.state.apply(&Entry {
            index,
            time_ms: self.now_ms,
            by,
            auth: Auth::None,
            context: Context::default(),
            event,
        });
        self.next_entry += 1;
    }

    /// Lets the agent observe facts now; of two observations of one fact the later counts.
    pub fn observe(&mut self, facts: &[&str]) {
        self.observe_at(facts, self.now_ms);
    }

    pub fn observe_at(&mut self, facts: &[&str], at_ms: u64) {
        for fact in facts {
            let id: FactId = fact.parse().unwrap();
            let held = self.state.facts.get(&id);
            let (version, value) = held.map_or((0, None), |held| (held.version(), held.value.clone()));
            self.observed.push(Observed { fact: id, version: Version::Number(version), at_ms, value });
        }
    }

    pub fn request(&self) -> Action {
        let mut body = json!({
            "pact": self.pact, "action": self.action, "params": self.params,
            "idempotency_key": "0123456789abcdef0123456789abcdef",
        });
        if self.chain.is_some() {
            body["delegation"] = json!("dlg1.AAAA");
        }
        if let Some(claim) = self.claim {
            body["claim"] = claim.to_string().into();
        }
        let body: Arc<str> = body.to_string().into();
        let request = ActionRequest::parse(&body).unwrap();
        let agent = AgentId::new(self.agent).unwrap();
        let mut action = Action::new(agent, self.auth.clone(), Arc::clone(&body), request, self.observed.clone());
        action.chain = self.chain.clone();
        action
    }

    pub fn decide(&self) -> Decision {
        decide(&self.request(), &self.state, self.now_ms)
    }

    /// Decides, and applies what was decided.
    pub fn act(&mut self) -> Decision {
        let mut decision = self.decide();
        for write in &mut decision.writes {
            write.tag.get_or_insert(Tag([0; 12]));
        }
        self.enter(
            self.agent,
            Event::Action(Box::new(Decided { action: Box::new(self.request()), decision: decision.clone() })),
        );
        decision
    }

    /// The verdict in one word: `committed`, or the code, or `review`; with the failed preconditions.
    pub fn verdict(&self) -> String {
        in_words(&self.decide())
    }

    pub fn value(&self, fact: &str) -> Json {
        let held = self.state.facts.get(&fact.parse().unwrap());
        held.and_then(|fact| fact.value.as_ref()).map(Attributes::to_json).unwrap_or_default()
    }
}

/// A decision in one word, with the failed preconditions.
pub fn in_words(decision: &Decision) -> String {
    let Some(blocked) = decision.blocked() else { return decision.verdict.as_str().to_owned() };
    let failed: Vec<_> =
        blocked.failed().iter().map(|failed| format!("{} {}", failed.id, failed.why.as_str())).collect();
    let word = match decision.verdict {
        Verdict::Review { .. } => "review".to_owned(),
        _ => blocked.code().to_string(),
    };
    if failed.is_empty() { word } else { format!("{word}: {}", failed.join(", ")) }
}
