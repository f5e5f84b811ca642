//! Observations that are attested, over HTTP: who asked for them, and what others can check.

use super::signed::{ADMIN, AGENT, identified, post, put, send};
use super::*;
use countersign_core::record::{Event, Kind, Leaf};
use countersign_engine::identity::stored::{self, Checked};
use countersign_ledger::receipt::Receipt;

const ASKED: &str = r#"{"facts":["Account::\"42\""],"attest":true}"#;

#[test]
fn an_attested_observation_is_an_entry_with_the_agents_own_signature() {
    let server = identified();
    let reply = post(&server, AGENT, "/v1/observe", ASKED);
    assert_eq!(reply.status, 200, "{reply:?}");
    let shown = reply.json();
    let attested = &shown["attested"];
    assert_eq!((&attested["entry"], &shown["facts"][0]["value"]["status"]), (&shown["position"], &"active".into()));
    let receipt = Receipt::decode(attested["receipt"].as_str().unwrap()).unwrap();
    receipt.verify(&server.gate.log_key()).unwrap();
    let (leaf, payload) = (Leaf::decode(&receipt.leaf).unwrap(), attested["payload"].as_str().unwrap());
    assert_eq!((leaf.kind, leaf.by.as_str()), (Kind::Observation, "refund-1"));
    assert_eq!(stored::check(&leaf, payload.as_bytes(), server.gate.origin()).unwrap(), Checked::Verified);
    let stored = server.gate.read_log(leaf.index).unwrap();
    assert_eq!(stored.payload.as_deref(), Some(payload.as_bytes()));
    assert!(matches!(stored.decode().unwrap().event, Event::Observation(_)));
    // The token that comes with it is taken like any other.
    let token = shown["observation"].as_str().unwrap();
    assert_eq!(post(&server, AGENT, "/v1/actions", &refund("1", 100, &[token])).json()["verdict"], "committed");
    // An auditor reads the entry as it is shown.
    let auditor = json!({"value": {"key": signed::name(34).as_str(), "roles": ["auditor"], "standing": "active"}});
    assert_eq!(put(&server, ADMIN, "/v1/facts/Operator/olga", &auditor).status, 200);
    let entry = send(&server, 34, "GET", &format!("/v1/ledger/entries/{}", leaf.index), &[], "").json();
    assert_eq!(entry["payload"]["attested"][0]["fact"], "Account::\"42\"", "{entry}");
}

#[test]
fn an_observation_that_is_not_attested_writes_nothing_and_says_nothing_of_it() {
    let server = identified();
    let before = server.gate.view().position;
    let shown = post(&server, AGENT, "/v1/observe", r#"{"facts":["Account::\"42\""],"attest":false}"#).json();
    assert_eq!((shown.get("attested"), server.gate.view().position), (None, before));
    assert_error(
        &post(&server, AGENT, "/v1/observe", r#"{"facts":["Account::\"42\""],"attest":1}"#),
        400,
        "invalid_field",
    );
}

#[test]
fn attack_an_agent_without_a_grant_fills_the_log() {
    let server = identified();
    let guest = json!({"value": {
        "key": signed::name(77).as_str(), "roles": [], "standing": "active", "org": "evil", "trust": 0,
    }});
    assert_eq!(put(&server, ADMIN, "/v1/facts/Agent/guest", &guest).status, 200);
    let before = server.gate.view().position;
    for _ in 0..20 {
        assert_error(&post(&server, 77, "/v1/observe", ASKED), 403, "not_observable");
    }
    // At most one entry a second, however often it asks.
    let kinds: Vec<Kind> = (before..server.gate.view().position)
        .map(|index| Leaf::decode(&server.gate.read_log(index).unwrap().leaf).unwrap().kind)
        .collect();
    assert!(kinds.iter().all(|kind| *kind == Kind::Denials), "{kinds:?}");
}

#[test]
fn attack_attested_observations_cost_more_than_others() {
    let server = signed::identified_at(crate::http::rate::RateSettings { per_key: 40, per_peer: 1000 });
    let answered = (0..40).map(|_| post(&server, AGENT, "/v1/observe", ASKED).status);
    let taken = answered.filter(|status| *status == 200).count();
    // Each counts as what it may write: 17 requests, and one for the request itself.
    assert!((1..=8).contains(&taken), "{taken}");
}

#[test]
fn attack_an_agent_looks_at_more_than_a_budget_on_observing_lets_it() {
    let server = identified();
    let pact = r#"
pact = "watch"
version = 1

[facts.Watched]
attributes = { note = "String" }

[observe.Watched]
who = 'true'
attributes = "*"
budget = { distinct = 2, per = "1d", by = "agent" }

[action.forget]
resource = 'Watched::"{watched}"'
allow = 'false'
delete = ["resource"]

[action.forget.params]
type = "object"
additionalProperties = false
required = ["watched"]
properties.watched = { type = "string", maxLength = 64 }
"#;
    let published = send(&server, ADMIN, "POST", "/v1/pacts", &["Content-Type: application/toml"], pact);
    assert_eq!(published.status, 200, "{published:?}");
    let ask = |facts: &[&str]| {
        let facts: Vec<String> = facts.iter().map(|id| format!("Watched::\"{id}\"")).collect();
        post(&server, AGENT, "/v1/observe", &json!({"facts": facts}).to_string())
    };
    let before = server.gate.view().position;
    assert_eq!(ask(&["1"]).status, 200);
    assert_eq!((ask(&["2"]).status, ask(&["1", "2"]).status), (200, 200));
    let refused = ask(&["3"]);
    assert_error(&refused, 403, "observing_exceeded");
    let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(
        message.contains("2 distinct facts of type Watched per 1 d, 2 are counted") && message.contains("ends at"),
        "{message}"
    );
    // Each that counted is an entry that the agent signed for, and holds no value.
    let entries: Vec<_> =
        (before..server.gate.view().position).map(|index| server.gate.read_log(index).unwrap()).collect();
    let counted: Vec<_> = entries.iter().filter(|entry| entry.leaf().unwrap().kind == Kind::Observation).collect();
    assert_eq!(counted.len(), 2);
    for entry in counted {
        let payload = entry.payload.as_deref().unwrap();
        assert_eq!(stored::check(&entry.leaf().unwrap(), payload, server.gate.origin()).unwrap(), Checked::Verified);
        assert!(matches!(entry.decode().unwrap().event, Event::Observation(it) if it.facts.is_empty()));
    }
}
