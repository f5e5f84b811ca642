//! A delegated action over HTTP, signed by the actor, from passing it on to the entry that shows the chain.

use super::signed::*;
use super::*;
use countersign_core::delegation::Scope;
use countersign_core::ids::AgentId;
use countersign_engine::delegation::{extend, mint};
use std::collections::BTreeMap;

const DESK: u8 = 21;
const HELPER: u8 = 22;

fn id(text: &str) -> AgentId {
    AgentId::new(text).unwrap()
}

fn scope(to: &str, key: u8, depth: u32) -> Scope {
    let limits = BTreeMap::new();
    Scope { to: id(to), key: name(key), actions: None, limits, facts: None, expires_at_ms: None, depth }
}

/// `refund-1`, who may refund, hands its right to `desk`, which hands it to `helper`; neither of the two may refund.
fn handed_on(server: &Server) -> String {
    for (agent, by) in [("desk", DESK), ("helper", HELPER)] {
        let value = json!({"value": {
            "key": name(by).as_str(), "roles": ["clerk"], "standing": "active", "org": "acme", "trust": 700,
        }});
        assert_eq!(put(server, ADMIN, &format!("/v1/facts/Agent/{agent}"), &value).status, 200);
    }
    let first = mint(&key(AGENT), &id("refund-1"), ORIGIN, &scope("desk", DESK, 1)).unwrap();
    extend(&first, &key(DESK), &scope("helper", HELPER, 0)).unwrap()
}

fn delegated(number: &str, amount: i64, token: &str) -> String {
    let mut body: Value = serde_json::from_str(&refund(number, amount, &[])).unwrap();
    body["delegation"] = json!(token);
    body.to_string()
}

#[test]
fn a_right_is_handed_on_used_with_a_signature_and_shown_in_the_entry() {
    let server = identified();
    let token = handed_on(&server);
    // Without the delegation the actor may do nothing.
    assert_error(&post(&server, HELPER, "/v1/actions", &refund("own", 10, &[])), 403, "not_allowed");
    let done = post(&server, HELPER, "/v1/actions", &delegated("first", 10, &token)).json();
    assert_eq!(done["verdict"], "committed", "{done}");
    let entry = send(&server, ADMIN, "GET", &format!("/v1/ledger/entries/{}", done["entry"]), &[], "").json();
    assert_eq!((&entry["leaf"]["by"], &entry["leaf"]["auth"]), (&json!("helper"), &json!("signature")));
    assert_eq!(entry["payload"]["signed"]["key"], name(HELPER).as_str());
    let chain = entry["payload"]["chain"].to_string();
    for member in ["refund-1", "desk", "helper", name(AGENT).as_str(), name(DESK).as_str(), name(HELPER).as_str()] {
        assert!(chain.contains(member), "{member} is not in {chain}");
    }
    // The token in someone else's hands, a signature by another member, and a middle hop that was revoked.
    let stolen = post(&server, DESK, "/v1/actions", &delegated("stolen", 10, &token));
    assert_error(&stolen, 400, "delegation_refused");
    let null = post(&server, HELPER, "/v1/actions", &delegated("null", 10, "").replace("\"\"", "null"));
    assert_error(&null, 400, "invalid_field");
    let revoked = json!({"value": {
        "key": name(DESK).as_str(), "roles": ["clerk"], "standing": "revoked", "org": "acme", "trust": 700,
    }});
    assert_eq!(put(&server, ADMIN, "/v1/facts/Agent/desk", &revoked).status, 200);
    let late = post(&server, HELPER, "/v1/actions", &delegated("late", 10, &token));
    assert_error(&late, 400, "delegation_refused");
    assert!(late.json().to_string().contains("desk, a member of this delegation, is"), "{late:?}");
    // What was done before is still told by its key.
    let again = post(&server, HELPER, "/v1/actions", &delegated("first", 10, &token)).json();
    assert_eq!((&again["entry"], &again["repeated"]), (&done["entry"], &json!(true)), "{again}");
    let account = send(&server, ADMIN, "GET", "/v1/facts/Account/42", &[], "").json();
    assert_eq!(account["value"]["balance"], 900_000 - 10);
}
