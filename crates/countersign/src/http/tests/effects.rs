//! Claims and calls over HTTP: their shapes, who is told what, and waiting for an outcome.

use super::signed::*;
use super::*;
use countersign_core::call::{EffectId, Evidence, FoundCode, Outcome};
use countersign_engine::request::{Request, Settlement};

const PACT: &str = r#"
pact = "payouts"
version = 1

[facts.Account]
attributes = { status = "String", balance = "Long" }

[facts.Row]
attributes = { status = "String" }
source = { postgres = "bank", query = "select status from rows where id = $1" }

[observe.Account]
who = 'true'
attributes = ["status"]

[observe.Row]
who = 'true'
attributes = "*"

[claim.Account]
who = 'principal.roles.contains("fraud")'
max = "30s"

[action.payout]
resource = 'Account::"{account}"'
allow = 'true'
set = { balance = "resource.balance - context.amount" }
call = { http = "payments", path = "/payouts" }

[action.payout.params]
type = "object"
additionalProperties = false
required = ["account", "amount"]
properties.account = { type = "string", maxLength = 64 }
properties.amount = { type = "integer", minimum = 1, maximum = 5000000 }

[[action.payout.require]]
id = "covered"
that = 'resource.balance >= context.amount'
"#;

fn started() -> Server {
    let server = Server::start();
    let headers = ["Content-Type: application/toml"];
    assert_eq!(server.send("POST", "/v1/pacts", &headers, PACT.as_bytes()).status, 200);
    for (agent, role) in [("refund-1", "refunder"), ("fraud-1", "fraud"), ("fraud-2", "fraud")] {
        let value = json!({"value": {"roles": [role], "standing": "active", "org": "acme", "trust": 1}});
        assert_eq!(server.put(&format!("/v1/facts/Agent/{agent}"), &value).status, 200);
    }
    let account = json!({"value": {"status": "active", "balance": 900}});
    assert_eq!(server.put("/v1/facts/Account/42", &account).status, 200);
    server
}

fn ask(server: &Server, path: &str, by: &str, body: &Value) -> Reply {
    let by = format!("Countersign-Agent: {by}");
    server.send("POST", path, &["Content-Type: application/json", by.as_str()], body.to_string().as_bytes())
}

fn payout(server: &Server, key: &str, query: &str) -> Value {
    let body = json!({
        "pact": "payouts", "action": "payout", "idempotency_key": format!("{key:x<22}"),
        "params": {"account": "42", "amount": 100},
    });
    let reply = ask(server, &format!("/v1/actions{query}"), "refund-1", &body);
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

/// What a worker would find out.
fn settle(server: &Server, effect: &str, outcome: Outcome) {
    let effect: EffectId = effect.parse().unwrap();
    let evidence = Evidence {
        attempts: 1,
        result: Some("{\"id\":7}".into()),
        ..Evidence::of(FoundCode::Resolved.said("created"))
    };
    let settlement = Settlement {
        effect,
        outcome,
        evidence,
        judged: None,
        is_stopped: false,
        found: Default::default(),
        beside: Vec::new(),
    };
    server.gate.call(Request::Settle(Box::new(settlement))).unwrap();
}

fn code(reply: &Reply) -> (u16, String) {
    (reply.status, reply.json()["error"]["code"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_change_is_announced_extended_listed_and_withdrawn() {
    let server = started();
    let request = json!({"facts": ["Account::\"42\""], "for_ms": 20_000, "reason": "stolen"});
    let claimed = ask(&server, "/v1/claims", "fraud-1", &request).json();
    let claim = claimed["claim"].as_str().unwrap();
    assert_eq!(claim, format!("clm_{}", claimed["entry"]));
    assert_eq!(claimed["facts"], json!(["Account::\"42\""]));
    assert_eq!(code(&ask(&server, "/v1/claims", "fraud-2", &request)), (409, "claim_held".to_owned()));
    let rejected = payout(&server, "a", "");
    assert_eq!((&rejected["verdict"], &rejected["code"]), (&json!("rejected"), &json!("fact_claimed")));
    let message = rejected["message"].as_str().unwrap();
    assert!(message.contains(claim) && !message.contains("stolen"), "why is not for everybody: {message}");
    let extend = format!("/v1/claims/{claim}/extend");
    let extended = ask(&server, &extend, "fraud-1", &json!({"for_ms": 90_000})).json();
    assert_eq!(extended["expires_at"], claimed["until"], "no longer than the pact allows");
    assert_eq!(code(&ask(&server, &extend, "fraud-2", &json!({"for_ms": 1}))), (404, "claim_not_found".to_owned()));
    assert_eq!(code(&ask(&server, &extend, "fraud-1", &json!({"for_ms": 0}))), (400, "invalid_field".to_owned()));
    let list = server.get("/v1/claims").json();
    assert_eq!((&list["claims"][0]["claim"], &list["claims"][0]["by"]), (&json!(claim), &json!("fraud-1")));
    let withdrawn = ask(&server, &format!("/v1/claims/{claim}/withdraw"), "fraud-1", &json!({})).json();
    assert_eq!((&withdrawn["facts"], withdrawn.get("expires_at")), (&json!([]), None));
    assert_eq!(server.get("/v1/claims").json()["claims"], json!([]));
    assert_eq!(payout(&server, "b", "")["verdict"], "in_flight");
}

#[test]
fn a_call_is_followed_from_its_verdict_to_its_outcome() {
    let server = started();
    let first = payout(&server, "a", "");
    assert_eq!((&first["verdict"], &first["atomicity"]), (&json!("in_flight"), &json!("atomic")));
    let effect = first["effect"].as_str().unwrap().to_owned();
    let path = format!("/v1/effects/{effect}");
    let shown = server.get(&path).json();
    assert_eq!((&shown["state"], &shown["adapter"]), (&json!("dispatched"), &json!("payments")));
    assert_eq!(shown["fences"], json!(["Account::\"42\""]));
    assert_eq!(shown["call"]["send"]["path"], "/payouts");
    assert_eq!(server.get("/v1/effects").json()["effects"][0]["effect"], json!(effect));
    assert_eq!(server.get("/v1/halts").json()["in_flight"][0]["effect"], json!(effect));
    let resolve = format!("{path}/resolve");
    let settled = json!({"outcome": "settled", "reason": "the bank says so"});
    assert_eq!(code(&ask(&server, &resolve, "vera", &settled)), (409, "effect_not_in_doubt".to_owned()));
    let feed = json!({"value": {"status": "active", "balance": 5}});
    let conditional = ["Content-Type: application/json", "If-Match: \"1\""];
    let fenced = server.send("PUT", "/v1/facts/Account/42", &conditional, feed.to_string().as_bytes());
    assert_eq!(code(&fenced), (409, "feed_fenced".to_owned()));

    settle(&server, &effect, Outcome::InDoubt);
    assert_eq!(server.get(&path).json()["state"], "in_doubt");
    assert_eq!(server.get(&path).json()["probed"], json!(false));
    let doubt = payout(&server, "a", "");
    assert_eq!((&doubt["verdict"], &doubt["repeated"]), (&json!("in_doubt"), &json!(true)));
    let wrong = json!({"outcome": "in_doubt", "reason": "?"});
    assert_eq!(code(&ask(&server, &resolve, "vera", &wrong)), (400, "invalid_field".to_owned()));
    assert_eq!(ask(&server, &resolve, "vera", &settled).json()["state"], "settled");
    assert_eq!(code(&ask(&server, &resolve, "vera", &settled)), (409, "effect_ended".to_owned()));
    let last = payout(&server, "a", "");
    assert_eq!((&last["verdict"], &last["effect"]), (&json!("settled"), &json!(effect)));
    assert_eq!(last["wrote"], json!([{"fact": "Account::\"42\"", "version": 2}]));
    assert_eq!(last["evidence"]["summary"], "the bank says so");
    assert!(last["receipt"].as_str().unwrap().starts_with("rct1."));
}

#[test]
fn a_feed_that_waits_is_said_to_and_shown_with_what_it_waits_for() {
    let server = started();
    let effect = payout(&server, "a", "")["effect"].clone();
    let frozen = json!({"status": "frozen", "balance": 900});
    let held = server.put("/v1/facts/Account/42", &json!({"value": frozen}));
    assert_eq!((held.status, held.header("etag")), (202, None), "nothing is written yet");
    let held = held.json();
    assert_eq!((&held["held"], &held["waits_for"]), (&json!(true), &json!([effect])));
    assert_eq!(held.get("version"), None);
    assert!(held["receipt"].as_str().unwrap().starts_with("rct1."), "it is in the ledger all the same");
    let shown = server.get("/v1/facts/Account/42").json();
    assert_eq!((&shown["version"], &shown["value"]["status"]), (&json!(1), &json!("active")));
    assert_eq!(shown["fenced_by"], json!([effect]));
    assert_eq!(shown["held"][0]["value"], frozen);
    assert_eq!((&shown["held"][0]["entry"], &shown["held"][0]["by"]), (&held["entry"], &json!("operator")));
    let holds_up = server.get(&format!("/v1/effects/{}", effect.as_str().unwrap())).json()["held_feeds"].clone();
    assert_eq!(holds_up, json!([held["entry"]]));
    let rejected = payout(&server, "b", "");
    assert_eq!(rejected["code"], "fact_fenced");
    settle(&server, effect.as_str().unwrap(), Outcome::Failed);
    let shown = server.get("/v1/facts/Account/42").json();
    assert_eq!((&shown["version"], &shown["value"]), (&json!(2), &frozen));
    assert_eq!((shown.get("fenced_by"), shown.get("held"), shown.get("claim")), (None, None, None));
    let request = json!({"facts": ["Account::\"42\""], "for_ms": 20_000, "reason": "stolen"});
    let claim = ask(&server, "/v1/claims", "fraud-1", &request).json()["claim"].clone();
    assert_eq!(server.get("/v1/facts/Account/42").json()["claim"], claim);
}

#[test]
fn whoever_waits_is_told_the_outcome() {
    let server = started();
    let waiting = std::thread::scope(|scope| {
        let asked = scope.spawn(|| payout(&server, "a", "?wait_ms=20000"));
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        let effect = loop {
            let list = server.get("/v1/effects").json();
            match list["effects"][0]["effect"].as_str() {
                Some(effect) => break effect.to_owned(),
                None => assert!(std::time::Instant::now() < until, "it was never dispatched"),
            }
        };
        settle(&server, &effect, Outcome::Settled);
        asked.join().unwrap()
    });
    assert_eq!((&waiting["verdict"], waiting.get("repeated")), (&json!("settled"), None));
    assert_eq!(waiting["evidence"]["result"], "{\"id\":7}");
    // Time is up before there is an outcome: the first verdict is the answer.
    assert_eq!(payout(&server, "b", "?wait_ms=1")["verdict"], "in_flight");
    let too_long = ask(&server, "/v1/actions?wait_ms=60001", "refund-1", &json!({}));
    assert_eq!(code(&too_long), (400, "invalid_path".to_owned()));
}

#[test]
fn an_external_fact_that_cannot_be_read_is_not_shown() {
    let server = started();
    let reply = ask(&server, "/v1/observe", "refund-1", &json!({"facts": ["Row::\"1\""]}));
    assert_eq!(code(&reply), (502, "no_adapter".to_owned()));
    let fed = server.put("/v1/facts/Row/1", &json!({"value": {"status": "open"}}));
    assert_eq!(code(&fed), (422, "invalid_value".to_owned()), "external facts are not fed");
    let got = server.get("/v1/facts/Row/1");
    assert_eq!(code(&got), (404, "fact_not_found".to_owned()));
    let message = got.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("are external, in `bank`"), "{message}");
}

#[test]
fn an_agent_cannot_hold_connections_by_waiting_for_the_effect_of_another() {
    const ROLELESS: u8 = 33;
    let server = identified();
    let published = send(&server, ADMIN, "POST", "/v1/pacts", &["Content-Type: application/toml"], &calls());
    assert_eq!(published.status, 200, "{published:?}");
    let value = json!({"key": name(ROLELESS).as_str(), "roles": [], "standing": "active", "org": "acme", "trust": 1});
    assert_eq!(put(&server, ADMIN, "/v1/facts/Agent/roleless", &json!({"value": value})).status, 200);
    let body = json!({
        "pact": "payouts", "action": "payout", "idempotency_key": format!("{:x<22}", "a"),
        "params": {"account": "42", "amount": 100},
    });
    let acted = post(&server, AGENT, "/v1/actions", &body.to_string()).json();
    let effect = acted["effect"].as_str().unwrap();
    let wait = |effect: &str| send(&server, ROLELESS, "GET", &format!("/v1/effects/{effect}?wait_ms=60000"), &[], "");
    let begun = std::time::Instant::now();
    let (there, not_there) = (wait(effect), wait("eff_999"));
    assert!(begun.elapsed() < std::time::Duration::from_secs(50), "it waited");
    assert_eq!(code(&there), (404, "effect_not_found".to_owned()));
    let message = |reply: &Reply| reply.json()["error"]["message"].as_str().unwrap().to_owned();
    assert_eq!(message(&there).replace(effect, "eff_999"), message(&not_there), "which there are is not told");
    let own = send(&server, AGENT, "GET", &format!("/v1/effects/{effect}?wait_ms=1"), &[], "").json();
    assert_eq!(own["state"], "dispatched");
    // The same of the list.
    let list = |who: u8| send(&server, who, "GET", "/v1/effects", &[], "").json()["effects"].clone();
    assert_eq!(list(AGENT)[0]["effect"], json!(effect));
    assert_eq!(list(ROLELESS), json!([]));
    assert_eq!(list(ADMIN)[0]["agent"], own["agent"]);
}

#[test]
fn an_effect_whose_payloads_were_erased_says_what_its_leaf_does() {
    let server = started();
    let effect = payout(&server, "a", "")["effect"].as_str().unwrap().to_owned();
    settle(&server, &effect, Outcome::Failed);
    let path = format!("/v1/effects/{effect}");
    let before = server.get(&path).json();
    assert_eq!((&before["pact"], &before["action"]), (&json!("payouts"), &json!("payout")));
    let intent: u64 = effect.trim_start_matches("eff_").parse().unwrap();
    let erase = json!({"entries": [intent], "reason": "asked for"});
    let erased = ask(&server, "/v1/ledger/erasures", "vera", &erase);
    assert_eq!((erased.status, &erased.json()["erased"]), (200, &json!([intent])), "{erased:?}");
    let shown = server.get(&path).json();
    assert_eq!((&shown["state"], &shown["agent"]), (&json!("failed"), &json!("refund-1")));
    assert_eq!(shown["pact"], "payouts", "{shown}");
    assert_eq!(shown["idempotency_key"], before["idempotency_key"]);
}

/// Accounts whose owner the agent may not see, and drafts with ids like theirs.
const OWNED: &str = r#"
pact = "owned"
version = 1

[facts.Owner]
attributes = { name = "String" }

[facts.SubOwner]
attributes = { of = "String", state = "String" }

[observe.SubOwner]
who = 'true'
attributes = ["state"]

[action.pay]
resource = 'SubOwner::"{account}"'
reads.owner = 'Owner::"{resource.of}"'
allow = 'true'
call = { http = "payments", path = "/payouts" }

[action.pay.params]
type = "object"
additionalProperties = false
required = ["account"]
properties.account = { type = "string", maxLength = 64 }

[[action.pay.require]]
id = "open"
that = 'resource.state == "open"'
"#;

#[test]
fn a_fact_that_an_agent_named_is_not_masked_with_one_that_it_may_not_see() {
    let server = identified();
    let published = send(&server, ADMIN, "POST", "/v1/pacts", &["Content-Type: application/toml"], OWNED);
    assert_eq!(published.status, 200, "{published:?}");
    assert_eq!(put(&server, ADMIN, "/v1/facts/Owner/7", &json!({"value": {"name": "Ann"}})).status, 200);
    assert_eq!(
        put(&server, ADMIN, "/v1/facts/SubOwner/7", &json!({"value": {"of": "7", "state": "open"}})).status,
        200
    );
    let body = json!({
        "pact": "owned", "action": "pay", "idempotency_key": format!("{:x<22}", "a"), "params": {"account": "7"},
    });
    let acted = post(&server, AGENT, "/v1/actions", &body.to_string()).json();
    let path = format!("/v1/effects/{}", acted["effect"].as_str().unwrap_or_else(|| panic!("{acted}")));
    let fences = |by: u8| send(&server, by, "GET", &path, &[], "").json()["fences"].clone();
    assert_eq!(fences(ADMIN), json!(["SubOwner::\"7\"", "Owner::\"7\""]));
    assert_eq!(fences(AGENT), json!(["SubOwner::\"7\"", "Owner::\"…\""]));
}

/// The pact without what the other pact of the tests declares otherwise.
fn calls() -> String {
    let account = "attributes = { status = \"String\", balance = \"Long\" }";
    PACT.replacen(account, "attributes = { status = \"String\", balance = \"Long\", note = \"String?\" }", 1)
}
