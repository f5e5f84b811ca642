//! What identity adds to the sequencer, in one process and one run: the same actions unsigned, signed, and under a delegation.
//!
//! Signatures and delegations are verified at admission, in parallel; what is timed here is what is left for the one thread that
//! decides: whose key it is now, who is active, whether every hop covers the action. Absolute times are noise on a shared
//! machine, so bursts of each kind take turns and medians are compared.

use countersign_core::action::{Action, ActionRequest, Observed};
use countersign_core::fact::Version;
use countersign_core::identity::{Auth, KeyName};
use countersign_core::ids::AgentId;
use countersign_core::pact::Pact;
use countersign_core::pact::load::load;
use countersign_core::value::Attributes;
use countersign_engine::delegation::reduce;
use countersign_engine::gate::{Environment, Options, Parts};
use countersign_engine::request::{Request, Submission};
use countersign_engine::sequence::Batch;
use countersign_testing::disk::{Faults, FaultyDisk};
use countersign_testing::gate::environment;
use countersign_testing::hands::Hands;
use countersign_testing::identities::{key_name, signed, signing_key};
use countersign_testing::{bank, delegations};
use serde_json::json;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const ORIGIN: &str = "cost.test/log";
const NOW_MS: u64 = 1_800_000_000_000;
const BURST: usize = 256;
const BURSTS: usize = 60;
/// Most that identity may add to an action in the sequencer.
const ADDED_US_MAX: f64 = 3.0;
/// Who publishes and feeds.
const ADMIN: &str = "admin";

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Unsigned,
    Signed,
    /// Two hops, signed by the one who acts.
    Delegated,
}

struct World {
    parts: Parts,
    pact: Arc<Pact>,
    kind: Kind,
    sent: u64,
}

impl World {
    fn new(kind: Kind) -> Self {
        let disk = Arc::new(FaultyDisk::new(1, Faults::default()));
        let environment = Environment { seed: [5; 32], ..environment(disk, Hands::at(NOW_MS)) };
        let admin = KeyName::of(signing_key(ADMIN, 0).verifying_key().to_bytes());
        let first_admin = (kind != Kind::Unsigned).then_some(admin);
        let parts = Parts::open(environment, Options { first_admin, ..Options::new(ORIGIN) }).unwrap();
        let pact = Arc::new(load(&bank::pact(1, 5_000)).unwrap().pact);
        let mut world = Self { parts, pact, kind, sent: 0 };
        let (by, auth) = (AgentId::new(ADMIN).unwrap(), world.auth(ADMIN, "publish"));
        world.run([Request::Publish { by, auth, pact: Arc::clone(&world.pact) }]);
        for (agent, role) in [("refund-1", "refunder"), ("clerk-1", "clerk"), ("clerk-2", "clerk")] {
            let value = json!({
                "key": key_name(agent, 0), "org": "bank", "roles": [role], "standing": "active", "trust": 500,
            });
            world.feed(&format!("Agent::\"{agent}\""), &value);
        }
        world.feed("Account::\"a\"", &json!({"balance": 900_000_000, "owner": "ada", "status": "active"}));
        world
    }

    fn auth(&mut self, by: &str, body: &str) -> Auth {
        if self.kind == Kind::Unsigned {
            return Auth::None;
        }
        self.sent += 1;
        signed(&signing_key(by, 0), ORIGIN, ("POST", "/v1/actions"), body, NOW_MS / 1000, self.sent).unwrap()
    }

    fn feed(&mut self, fact: &str, value: &serde_json::Value) {
        let value = Some(Attributes::from_untyped_json(value.as_object().unwrap()).unwrap());
        let (by, auth) = (AgentId::new(ADMIN).unwrap(), self.auth(ADMIN, fact));
        self.run([Request::Feed { by, auth, fact: fact.parse().unwrap(), value, if_match: None }]);
    }

    fn run(&mut self, requests: impl IntoIterator<Item = Request>) -> Batch {
        let mut batch = Batch::default();
        let submissions = requests.into_iter().map(|request| Submission::new(request, Box::new(|_| ())));
        self.parts.sequence(&mut batch, submissions);
        batch
    }

    /// An action as admission hands it to the sequencer: parsed, verified, reduced and bound.
    fn action(&mut self, burst: usize, number: usize) -> Request {
        let agent = if self.kind == Kind::Delegated { "clerk-1" } else { "refund-1" };
        let mut body = json!({
            "pact": "bank", "action": "refund", "idempotency_key": format!("{burst:016}-{number:016}"),
            "params": {"account": "a", "amount": 1}, "observations": [],
        });
        // From refund-1 over clerk-2, with limits on the action type, the fact and two parameters.
        let handed = &delegations::all().unwrap()[3];
        if self.kind == Kind::Delegated {
            body["delegation"] = json!(handed.token);
        }
        let body = body.to_string();
        let auth = self.auth(agent, &body).without_body(&body);
        let request = ActionRequest::parse(&body).unwrap();
        let value = Attributes::from_untyped_json(
            json!({"balance": 900_000_000, "owner": "ada", "status": "active"}).as_object().unwrap(),
        );
        let (fact, value) = ("Account::\"a\"".parse().unwrap(), Some(value.unwrap()));
        let observed = Observed { fact, version: Version::Number(1), at_ms: NOW_MS, value };
        let mut action = Action::new(AgentId::new(agent).unwrap(), auth, body.as_str().into(), request, vec![observed]);
        if self.kind == Kind::Delegated {
            action.chain = Some(Arc::new(reduce(&handed.token).unwrap()));
        }
        let kind = &self.pact.actions[&action.action];
        action.bind(self.pact.hash, kind);
        Request::Act(Box::new(action))
    }

    /// Microseconds an action of one burst in the sequencer.
    fn burst(&mut self, burst: usize) -> f64 {
        let actions: Vec<Request> = (0..BURST).map(|number| self.action(burst, number)).collect();
        let started = Instant::now();
        let batch = black_box(self.run(actions));
        let took = started.elapsed();
        assert_eq!(batch.entries.len(), BURST);
        let verdict = batch.entries[0].entry.event.decision().unwrap().verdict.as_str();
        assert_eq!(verdict, "committed", "{:?}: {:?}", self.kind, batch.entries[0].entry.event.decision());
        took.as_secs_f64() * 1e6 / BURST as f64
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

#[test]
#[ignore = "a measurement: run with `cargo test --release -p countersign-testing --test all identity_cost -- --ignored --nocapture`"]
fn identity_adds_little_to_the_sequencer() {
    let mut worlds = [Kind::Unsigned, Kind::Signed, Kind::Delegated].map(World::new);
    let mut times = [const { Vec::new() }; 3];
    for burst in 0..BURSTS {
        for (world, times) in worlds.iter_mut().zip(&mut times) {
            times.push(world.burst(burst));
        }
    }
    let [unsigned, signed, delegated] = times.map(median);
    println!(
        "sequencer, us an action (median of {BURSTS} bursts of {BURST}): unsigned {unsigned:.2}, signed {signed:.2}, \
         under two hops {delegated:.2}"
    );
    println!("added: by a signature {:.2}, by a delegation as well {:.2}", signed - unsigned, delegated - unsigned);
    assert!(signed - unsigned <= ADDED_US_MAX, "identity adds {:.2} us", signed - unsigned);
}
