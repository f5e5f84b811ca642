//! Callers without any right: what they can make the gate do, write, keep or tell.

mod flooding;

use crate::attacks::service::{Reply, Service};
use crate::attacks::world::{Answer, Caller, World, wait_until};
use serde_json::{Value as Json, json};

const PACT: &str = r#"
pact = "bank"
version = 1

[facts.Account]
attributes = { status = "String", balance = "Long" }

[observe.Account]
who = 'principal.roles.contains("payer")'
attributes = ["status"]

[claim.Account]
who = 'principal.roles.contains("fraud")'
max = "60s"

[action.pay]
resource = 'Account::"{account}"'
allow = 'principal.roles.contains("payer")'
set = { balance = "resource.balance - 1" }
wait = "30s"

[action.pay.params]
type = "object"
additionalProperties = false
required = ["account"]
properties.account = { type = "string", minLength = 1, maxLength = 20000 }

[[action.pay.require]]
id = "is-active"
that = 'resource.status == "active"'

[action.close]
resource = 'Account::"{account}"'
allow = 'principal.roles.contains("payer") && resource.balance == 0'
min_trust = 1000000
set = { status = '"closed"' }

[action.close.params]
type = "object"
additionalProperties = false
required = ["account"]
properties.account = { type = "string", minLength = 1, maxLength = 64 }

[[action.close.require]]
id = "is-active"
that = 'resource.status == "active"'
"#;

/// A gate with the bank's pact and one account.
fn bank() -> World {
    let world = World::serving("");
    world.publish(PACT);
    world.run_ok(&["fact", "put", "Account", "42", r#"{"status":"active","balance":1000}"#]);
    world
}

fn action(pact: &str, account: &str, key: usize) -> String {
    json!({
        "pact": pact, "action": "pay", "idempotency_key": format!("{key:0>32}"), "params": {"account": account},
    })
    .to_string()
}

fn code(answer: &Answer) -> (u16, &str) {
    (answer.status, answer.json["error"]["code"].as_str().unwrap_or_default())
}

fn observe(caller: &Caller, fact: &str) -> Answer {
    caller.ask("POST", "/v1/observe", &json!({"facts": [fact]}).to_string())
}

/// How often an agent was denied something for this reason, by all entries of the ledger.
fn denied(world: &World, agent: &str, code: &str) -> u64 {
    let lines = |entry: &Json| entry["payload"]["denied"].as_array().cloned().unwrap_or_default();
    let of = |line: &Json| line["agent"] == agent && line["code"] == code;
    world.entries().iter().flat_map(lines).filter(of).map(|line| line["count"].as_u64().unwrap()).sum()
}

fn entries_by(world: &World, agent: &str) -> usize {
    world.entries().iter().filter(|entry| entry["leaf"]["by"] == agent).count()
}

#[test]
fn a_revoked_agent_floods_the_ledger_with_large_actions() {
    let world = bank();
    let thief = world.agent("thief", "payer");
    world.run_ok(&["agent", "revoke", "thief"]);
    let before = world.entries().len();
    let large = "x".repeat(19_000);
    for key in 0..20 {
        assert_eq!(code(&thief.ask("POST", "/v1/actions", &action("bank", &large, key))), (403, "agent_not_active"));
        assert_eq!(
            code(&thief.ask("POST", "/v1/actions/check", &action("bank", &large, key))),
            (403, "agent_not_active")
        );
    }
    wait_until("all are counted", || denied(&world, "thief", "agent_not_active") == 40);
    let after = world.entries();
    assert_eq!(entries_by(&world, "thief"), 0, "no entry of its own");
    // One entry a second at most, and none that holds what was sent.
    assert!(after.len() - before <= 40, "{} entries", after.len() - before);
    assert!(after.iter().skip(before).all(|entry| entry.to_string().len() < 1_000), "{after:?}");
    let lines = after.iter().filter_map(|entry| entry["payload"]["denied"].as_array()).flatten();
    assert!(lines.clone().all(|line| line["first"].as_u64() <= line["last"].as_u64()));
    world.run_ok(&["audit", "--data", "data"]);
}

#[test]
fn an_agent_names_pacts_that_nobody_published_to_fill_the_ledger() {
    let world = bank();
    let stray = world.agent("stray", "none");
    for key in 0..20 {
        assert_eq!(code(&stray.ask("POST", "/v1/actions", &action("bonk", "42", key))), (422, "unknown_pact"));
    }
    wait_until("all are counted", || denied(&world, "stray", "unknown_pact") == 20);
    assert_eq!(entries_by(&world, "stray"), 0);
    let metrics = world.text("/metrics");
    assert!(metrics.contains("countersign_denials_total{code=\"unknown_pact\"} 20\n"), "{metrics}");
}

#[test]
fn a_revoked_agent_reads_on_by_every_route_that_only_reads() {
    let world = bank();
    let spy = world.agent("spy", "payer");
    let entry = spy.ask("POST", "/v1/actions", &action("bank", "42", 1)).json["entry"].as_u64().unwrap();
    let fraud = world.agent("fraud-1", "fraud");
    let claim = json!({"facts": ["Account::\"42\""], "for_ms": 60_000, "reason": "reported as stolen"});
    assert_eq!(fraud.ask("POST", "/v1/claims", &claim.to_string()).status, 200);
    let routes = [
        "/v1/claims".to_owned(),
        "/v1/pacts".to_owned(),
        "/v1/pacts/bank".to_owned(),
        format!("/v1/actions/{entry}"),
        format!("/v1/ledger/receipts/{entry}"),
    ];
    for route in &routes {
        assert_eq!(spy.ask("GET", route, "").status, 200, "{route}");
    }
    world.run_ok(&["agent", "quarantine", "spy"]);
    for route in &routes {
        assert_eq!(code(&spy.ask("GET", route, "")), (403, "agent_not_active"), "{route}");
    }
    assert_eq!(code(&observe(&spy, "Account::\"42\"")), (403, "agent_not_active"));
}

#[test]
fn an_agent_without_a_grant_asks_who_is_investigating_whom() {
    let world = bank();
    let (stranger, payer) = (world.agent("stranger", "none"), world.agent("payer-1", "payer"));
    let (fraud, colleague) = (world.agent("fraud-1", "fraud"), world.agent("fraud-2", "fraud"));
    let claim = json!({"facts": ["Account::\"42\""], "for_ms": 60_000, "reason": "reported as stolen"});
    let claimed = fraud.ask("POST", "/v1/claims", &claim.to_string());
    let id = claimed.json["claim"].as_str().unwrap();
    let claims = |caller: &Caller| caller.ask("GET", "/v1/claims", "").json["claims"].clone();
    assert_eq!(claims(&stranger), json!([]));
    // Neither does it learn of the claim by acting, nor whose it is by trying to take it away.
    let acting = stranger.ask("POST", "/v1/actions", &action("bank", "42", 1));
    assert_eq!(code(&acting), (403, "not_allowed"), "{acting:?}");
    let missing = stranger.ask("POST", "/v1/actions", &action("bank", "43", 2));
    assert_eq!(code(&missing), (403, "not_allowed"), "whether there is such an account is not said: {missing:?}");
    let taken = stranger.ask("POST", &format!("/v1/claims/{id}/withdraw"), "{}");
    assert!(taken.status == 404 && !taken.json.to_string().contains("fraud-1"), "{taken:?}");
    // Who may observe the account sees that it is claimed; why, only its holder and those who may claim it.
    assert_eq!((&claims(&payer)[0]["by"], &claims(&payer)[0]["reason"]), (&json!("fraud-1"), &Json::Null));
    assert_eq!(claims(&fraud)[0]["reason"], "reported as stolen");
    assert_eq!(claims(&colleague), json!([]), "it may claim, and not observe");
    let told = payer.ask("POST", "/v1/actions/check", &action("bank", "42", 3)).json;
    assert!(told["code"] == "fact_claimed" && !told.to_string().contains("stolen"), "{told}");
}

#[test]
fn agents_without_a_right_take_all_the_places_in_front_of_a_fence() {
    let world = bank();
    let fraud = world.agent("fraud-1", "fraud");
    let (rude, polite) = (world.agent("rude", "payer"), world.agent("polite", "payer"));
    let claim = json!({"facts": ["Account::\"42\""], "for_ms": 60_000, "reason": "why"});
    let claimed = fraud.ask("POST", "/v1/claims", &claim.to_string()).json["claim"].as_str().unwrap().to_owned();
    let waiting = || -> u64 {
        let metrics = world.text("/metrics");
        let line = metrics.lines().find(|line| line.starts_with("countersign_waiting ")).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    // Who may not act at all does not even wait.
    let stranger = world.agent("stranger", "none");
    let told = stranger.ask("POST", "/v1/actions", &action("bank", "42", 9_999));
    assert_eq!((code(&told), waiting()), ((403, "not_allowed"), 0));
    std::thread::scope(|scope| {
        let many: Vec<_> = (0..96)
            .map(|key| {
                let rude = rude.again();
                scope.spawn(move || rude.ask("POST", "/v1/actions", &action("bank", "42", key)).json)
            })
            .collect();
        // 64 of its actions wait, and the others are told at once.
        wait_until("the rude one has all its places", || waiting() == 64);
        wait_until("the others were told", || many.iter().filter(|one| one.is_finished()).count() == 32);
        let one = scope.spawn(|| polite.ask("POST", "/v1/actions", &action("bank", "42", 1_000)).json);
        wait_until("another agent still finds a place", || waiting() == 65);
        fraud.ask("POST", &format!("/v1/claims/{claimed}/withdraw"), "{}");
        assert_eq!(one.join().unwrap()["verdict"], "committed");
        let verdicts: Vec<Json> = many.into_iter().map(|one| one.join().unwrap()).collect();
        assert_eq!(verdicts.iter().filter(|told| told["verdict"] == "committed").count(), 64);
        assert!(verdicts.iter().all(|told| told["verdict"] == "committed" || told["code"] == "fact_claimed"));
    });
}

fn elsewhere(service: &Service) -> World {
    let world = World::serving(&format!(
        "[adapters.crm]\nkind = \"http\"\nbase = \"{}\"\nallow_private = [\"127.0.0.0/8\"]\n\
         breaker = {{ failures = 2, open_for = \"60s\" }}\n",
        service.url
    ));
    world.publish(
        r#"
pact = "crm"
version = 1

[facts.Customer]
attributes = { owner = "String", tier = "String" }
source = { http = "crm", path = "/customers/{id}" }

[[observe.Customer]]
who = 'principal.roles.contains("sales") && resource.tier == "gold"'
attributes = "*"

[action.greet]
resource = 'Customer::"{customer}"'
allow = 'principal.roles.contains("sales") && resource.tier == "gold"'
call = { http = "crm", path = "/customers/{customer}", method = "PUT", body = { owner = "resource.owner" } }

[action.greet.params]
type = "object"
additionalProperties = false
required = ["customer"]
properties.customer = { type = "string", minLength = 1, maxLength = 64 }

[[action.greet.require]]
id = "has-an-owner"
that = 'resource.owner != ""'
"#,
    );
    world
}

fn greet(customer: &str) -> String {
    json!({
        "pact": "crm", "action": "greet", "idempotency_key": format!("{customer:0>32}"),
        "params": {"customer": customer},
    })
    .to_string()
}

#[test]
fn an_agent_without_a_grant_makes_the_gate_call_a_service_with_its_credential() {
    let service = Service::start(|request| match request.line.contains("/down") {
        true => Reply::json(500, "{}"),
        false => {
            let mut reply = Reply::json(200, r#"{"owner": "ann", "tier": "gold"}"#);
            reply.headers.push(("etag".to_owned(), "\"1\"".to_owned()));
            reply
        }
    });
    let world = elsewhere(&service);
    let (stranger, seller) = (world.agent("stranger", "none"), world.agent("seller", "sales"));
    for _ in 0..10 {
        for id in ["1", "down"] {
            assert_eq!(code(&observe(&stranger, &format!("Customer::\"{id}\""))), (403, "not_observable"));
        }
    }
    for path in ["/v1/actions/check", "/v1/actions"] {
        let told = stranger.ask("POST", path, &greet("down"));
        assert_eq!(code(&told), (403, "not_allowed"), "{path}: {told:?}");
    }
    assert_eq!(service.received(), [], "nothing was asked of the service");
    wait_until("the denials are counted", || denied(&world, "stranger", "not_observable") == 20);
    // Who may look can trip the breaker for those who look, and for no call.
    for _ in 0..3 {
        assert_eq!(code(&observe(&seller, "Customer::\"down\"")).0, 403, "it may not be told of what it may not see");
    }
    assert_eq!(service.received().len(), 2, "looking is stopped: {:?}", service.received());
    let greeted = seller.ask("POST", "/v1/actions?wait_ms=30000", &greet("1")).json;
    assert_eq!(greeted["verdict"], "settled", "{greeted}");
    assert!(service.received().iter().any(|request| request.line == "PUT /customers/1"));
}

#[test]
fn a_fast_agent_takes_the_turn_of_all_others_and_of_the_operator() {
    let world = World::serving("[rate_limit]\nper_key = 20\nper_peer = 1000\n");
    world.publish(PACT);
    world.run_ok(&["fact", "put", "Account", "42", r#"{"status":"active","balance":1000}"#]);
    let (fast, slow) = (world.agent("fast", "payer"), world.agent("slow", "payer"));
    let first = observe(&fast, "Account::\"42\"");
    assert_eq!(first.header("ratelimit-policy"), Some("\"agent\";q=20;w=1"));
    assert!(first.header("ratelimit").unwrap().starts_with("\"agent\";r="), "{first:?}");
    let mut refused = 0;
    for _ in 0..200 {
        let answer = observe(&fast, "Account::\"42\"");
        if answer.status == 429 {
            assert_eq!((code(&answer).1, answer.header("retry-after")), ("rate_limited", Some("1")));
            refused += 1;
        }
    }
    assert!(refused > 0, "200 requests passed a limit of 20 a second");
    let counted = format!("countersign_denials_total{{code=\"rate_limited\"}} {refused}\n");
    assert!(world.text("/metrics").contains(&counted), "each of {refused} is counted");
    // Halts are for operators, and so is their way past the limit.
    let halt = json!({"scope": "all", "reason": "a test"}).to_string();
    let halts = (0..200).map(|_| fast.ask("POST", "/v1/halts", &halt).status).collect::<Vec<_>>();
    assert!(halts.contains(&429) && halts.iter().all(|status| [403, 429].contains(status)), "{halts:?}");
    assert_eq!(observe(&slow, "Account::\"42\"").status, 200, "others are not held up");
    // Somebody who only names the key, and cannot sign with it, uses up nothing of its holder's.
    let mut forged = slow.again();
    forged.key = ed25519_dalek::SigningKey::from_bytes(&[9; 32]);
    for _ in 0..100 {
        assert_eq!(observe(&forged, "Account::\"42\"").status, 401);
    }
    assert_eq!(observe(&slow, "Account::\"42\"").status, 200);
    // However much an operator has asked, its halt gets through.
    let admin = world.caller("admin");
    let mut limited = 0;
    for _ in 0..100 {
        limited += usize::from(admin.ask("GET", "/v1/agents", "").status == 429);
    }
    assert_eq!((limited > 0, admin.ask("POST", "/v1/halts", &halt).status), (true, 200));
}

#[test]
fn an_agent_uses_new_keys_until_the_memory_is_full() {
    let mut world = World::serving("keys_per_agent = 5\n");
    world.publish(PACT);
    world.run_ok(&["fact", "put", "Account", "42", r#"{"status":"active","balance":1000}"#]);
    let (busy, other) = (world.agent("busy", "payer"), world.agent("other", "payer"));
    let act = |caller: &Caller, key: usize| caller.ask("POST", "/v1/actions", &action("bank", "42", key));
    for key in 0..5 {
        assert_eq!(act(&busy, key).json["verdict"], "committed");
    }
    assert_eq!(code(&act(&busy, 5)), (429, "too_many_keys"));
    assert_eq!(act(&busy, 4).json["repeated"], true, "what it did is answered on");
    assert_eq!(act(&other, 5).json["verdict"], "committed");
    wait_until("it is counted", || denied(&world, "busy", "too_many_keys") == 1);
    // The gate still knows after it was killed.
    world.kill();
    world.serve();
    let busy = world.caller("busy");
    wait_until("signatures are taken again", || !matches!(act(&busy, 6).status, 401 | 503));
    assert_eq!(code(&act(&busy, 6)), (429, "too_many_keys"));
}
