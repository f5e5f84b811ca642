//! Halts and reviews over HTTP: their shapes, and what a reviewer's token is good for.

use super::*;
use countersign_core::identity::Auth;
use countersign_core::limits::HALTS_MAX;
use countersign_engine::request::Request;
use countersign_testing::gate::operator;

const REVIEWED: &str = r#"
pact = "billing"
version = 1

[facts.Account]
attributes = { status = "String", balance = "Long" }

[observe.Account]
who = 'true'
attributes = "*"

[action.refund]
resource = 'Account::"{account}"'
allow = 'true'
set = { balance = "resource.balance - context.amount" }

[action.refund.params]
type = "object"
additionalProperties = false
required = ["account", "amount"]
properties.account = { type = "string", maxLength = 64 }
properties.amount = { type = "integer", minimum = 1, maximum = 5000000 }

[[action.refund.require]]
id = "small-enough"
that = 'context.amount < 100'
on_fail = "review"
"#;

fn reviewed() -> Server {
    let server = Server::start();
    let headers = ["Content-Type: application/toml"];
    assert_eq!(server.send("POST", "/v1/pacts", &headers, REVIEWED.as_bytes()).status, 200);
    let agent = json!({"value": {"roles": [], "standing": "active", "org": "acme", "trust": 1}});
    assert_eq!(server.put("/v1/facts/Agent/refund-1", &agent).status, 200);
    let account = json!({"value": {"status": "active", "balance": 900_000}});
    assert_eq!(server.put("/v1/facts/Account/42", &account).status, 200);
    server
}

fn ask(server: &Server, method: &str, path: &str, by: &str, body: &Value) -> Reply {
    let by = format!("Countersign-Agent: {by}");
    let headers = ["Content-Type: application/json", by.as_str()];
    server.send(method, path, &headers, body.to_string().as_bytes())
}

fn show(server: &Server, review: &str, by: &str) -> Value {
    let by = format!("Countersign-Agent: {by}");
    let shown = server.send("GET", &format!("/v1/reviews/{review}"), &[by.as_str()], b"");
    assert_eq!(shown.status, 200, "{shown:?}");
    shown.json()
}

#[test]
fn a_scope_is_halted_listed_and_resumed() {
    let server = reviewed();
    let halted = ask(&server, "POST", "/v1/halts", "ops-1", &json!({"scope": "all", "reason": "a fire"}));
    assert_eq!(halted.status, 200, "{halted:?}");
    let epoch = halted.json()["entry"].as_u64().unwrap();
    let list = server.get("/v1/halts").json();
    assert_eq!((&list["halts"][0]["scope"], &list["halts"][0]["reason"]), (&json!("all"), &json!("a fire")));
    assert_eq!(list["in_flight"], json!([]));
    let ready = server.get("/readyz");
    assert_eq!((ready.status, ready.json()["halted"].as_u64()), (200, Some(epoch)));
    let rejected = server.post("/v1/actions", &refund("a", 1, &[])).json();
    assert_eq!(rejected["code"], "halted");
    let message = rejected["message"].as_str().unwrap();
    assert!(message.starts_with(&format!("`all` is halted since entry {epoch} at ")), "{message}");
    assert!(message.ends_with("by ops-1: a fire"), "{message}");
    let resumed = ask(&server, "POST", "/v1/halts/resume", "ops-1", &json!({"scope": "all", "reason": "out"}));
    assert_eq!(resumed.status, 200, "{resumed:?}");
    assert_eq!(server.get("/readyz").json().get("halted"), None);
    assert_eq!(server.post("/v1/actions", &refund("b", 1, &[])).json()["verdict"], "committed");
    let again = ask(&server, "POST", "/v1/halts/resume", "ops-1", &json!({"scope": "all", "reason": "out"}));
    assert_eq!((again.status, &again.json()["error"]["code"]), (409, &json!("not_halted")));
    let wrong = ask(&server, "POST", "/v1/halts", "ops-1", &json!({"scope": "team:x", "reason": "?"}));
    assert_eq!((wrong.status, &wrong.json()["error"]["code"]), (400, &json!("invalid_field")));
}

#[test]
fn a_review_is_shown_whole_and_approved_once() {
    let server = reviewed();
    let body = refund("a", 80_000, &[]);
    let parked = server.post("/v1/actions", &body).json();
    let review = parked["review"].as_str().unwrap().to_owned();
    assert_eq!(server.get("/v1/reviews").json()["reviews"][0]["review"], review);
    let shown = show(&server, &review, "vera");
    assert_eq!(shown["params"], json!({"account": "42", "amount": 80_000}));
    assert_eq!(shown["waives"][0]["precondition"], "small-enough");
    assert_eq!(shown["facts"][1]["value"], json!({"balance": 900_000, "status": "active"}));
    let approve = format!("/v1/reviews/{review}/approve");
    let code = |reply: Reply| (reply.status, reply.json()["error"]["code"].as_str().unwrap_or_default().to_owned());
    let refused = |status: u16, code: &str| (status, code.to_owned());

    let approval = json!({"shown": shown["shown"]});
    assert_eq!(code(ask(&server, "POST", &approve, "mallory", &approval)), refused(400, "shown_refused"));
    let own = json!({"shown": show(&server, &review, "refund-1")["shown"]});
    assert_eq!(code(ask(&server, "POST", &approve, "refund-1", &own)), refused(403, "self_approval"));
    let account = json!({"value": {"status": "active", "balance": 800_000}});
    assert_eq!(server.put("/v1/facts/Account/42", &account).status, 200);
    assert_eq!(code(ask(&server, "POST", &approve, "vera", &approval)), refused(409, "approval_void"));

    let approval = json!({"shown": show(&server, &review, "vera")["shown"]});
    let done = ask(&server, "POST", &approve, "vera", &approval);
    assert_eq!((done.status, &done.json()["verdict"]), (200, &json!("committed")), "{done:?}");
    assert_eq!(done.json()["waived_by"]["preconditions"], json!(["small-enough"]));
    assert_eq!(code(ask(&server, "POST", &approve, "vera", &approval)), refused(409, "review_closed"));
    // The agent that asks again is told what became of it.
    let repeated = server.post("/v1/actions", &body).json();
    assert_eq!((&repeated["verdict"], &repeated["entry"]), (&json!("committed"), &done.json()["entry"]));
    assert_eq!(repeated["waived_by"]["reviewer"], "vera");

    let body = refund("b", 70_000, &[]);
    let parked = server.post("/v1/actions", &body).json();
    let other = parked["review"].as_str().unwrap();
    let refuse = format!("/v1/reviews/{other}/refuse");
    let entry = ask(&server, "POST", &refuse, "vera", &json!({"reason": "no"})).json()["entry"].clone();
    let repeated = server.post("/v1/actions", &body).json();
    assert_eq!((&repeated["verdict"], &repeated["entry"]), (&json!("rejected"), &entry), "{repeated}");
    assert_eq!(
        (&repeated["review"], &repeated["message"]),
        (&json!(other), &json!(format!("vera refused {other}: no")))
    );
    assert_eq!((&repeated["code"], &repeated["failed"]), (&parked["code"], &parked["failed"]));
    assert_eq!((&repeated["action"], repeated.get("expires_at")), (&parked["action"], None));
    assert_eq!(code(ask(&server, "POST", &refuse, "vera", &json!({"reason": "no"}))), refused(409, "review_closed"));
    assert_eq!(code(server.get("/v1/reviews/rev_1")), refused(404, "review_not_found"));
}

/// Halts so many agents, by many callers at once, so that they share syncs.
fn halt_agents(server: &Server, count: usize) {
    const CALLERS: usize = 32;
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            scope.spawn(move || {
                for at in (caller..count).step_by(CALLERS) {
                    let (scope, reason) = (format!("agent:a-{at}").parse().unwrap(), "one by one".into());
                    server.gate.call(Request::Halt { by: operator(), auth: Auth::None, scope, reason }).unwrap();
                }
            });
        }
    });
}

#[test]
fn one_halt_too_many_is_refused_and_everything_can_still_be_halted() {
    let server = reviewed();
    halt_agents(&server, HALTS_MAX);
    let halt = |scope: &str| ask(&server, "POST", "/v1/halts", "ops-1", &json!({"scope": scope, "reason": "again"}));
    assert_error(&halt("agent:one-more"), 409, "too_many_halts");
    assert_eq!(server.get("/v1/halts").json()["halts"].as_array().unwrap().len(), HALTS_MAX);
    // What is halted already can be halted again, and the widest scope always can.
    assert_eq!(halt("agent:a-7").status, 200);
    assert_eq!(halt("all").status, 200);
    assert_error(&halt("org:acme"), 409, "too_many_halts");
    // Where two are resumed, there is room for one: `all` takes one too.
    for at in [1, 2] {
        let resume = json!({"scope": format!("agent:a-{at}"), "reason": "room"});
        assert_eq!(ask(&server, "POST", "/v1/halts/resume", "ops-1", &resume).status, 200);
    }
    assert_eq!(halt("agent:one-more").status, 200);
    assert_error(&halt("agent:two-more"), 409, "too_many_halts");
}
