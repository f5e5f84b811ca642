//! Clients over HTTP that come back after their gateway was cut off, by their `Mcp-Session-Id`.

use super::shop::{Client, Shop};
use super::{is_error, is_gone_on_in, meta};
use crate::mcp::processes::wait_until;
use serde_json::{Value, json};

/// How many clients come back at the same time.
const CLIENTS: usize = 8;

#[test]
fn a_client_goes_on_in_its_session_when_its_gateway_was_killed_and_no_other_client_does() {
    let shop = Shop::new();
    let gate = shop.serve();
    let gateway = shop.listen_of(&gate);
    let (mut one, mut done) = (shop.http(&gateway), shop.http(&gateway));
    let read = one.call("get_stock", &json!({"item": "tea"}));
    done.call("get_stock", &json!({"item": "rice"}));
    let (id, ended) = (one.session.clone(), done.session.clone());
    assert_eq!(gateway.delete(ended.as_deref().unwrap()), 204);
    // Killed, so it says nothing to the gate.
    drop(gateway);
    shop.set("tea", 2);
    let gateway = shop.listen_of(&gate);
    let mut stranger = shop.http(&gateway);
    let blind = stranger.call("sell", &json!({"item": "rice", "count": 1}));
    assert_eq!(meta(&blind)["readings"]["rested_on"], 0, "{blind}");
    let gone = Client::of(&gateway, ended).call("get_stock", &json!({"item": "rice"}));
    assert!(gone["error"]["message"].as_str().is_some_and(|it| it.contains("there is no such session")), "{gone}");
    let mut one = Client::of(&gateway, id.clone());
    let refused = one.call("sell", &json!({"item": "tea", "count": 3}));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (1, 2), "the server saw the other one's alone");
    let again = one.call("get_stock", &json!({"item": "tea"}));
    assert!(is_gone_on_in(&meta(&again)["session"], &meta(&read)["session"]), "{again}");
    assert!(!is_error(&one.call("sell", &json!({"item": "tea", "count": 1}))));
    // What the client ends leaves nothing.
    assert_eq!(gateway.delete(id.as_deref().unwrap()), 204);
    gateway.end();
    let gateway = shop.listen_of(&gate);
    let gone = Client::of(&gateway, id).call("get_stock", &json!({"item": "tea"}));
    assert!(gone["error"]["message"].is_string(), "{gone}");
}

#[test]
fn clients_that_come_back_together_each_go_on_in_their_own_session() {
    let shop = Shop::new();
    let gate = shop.serve();
    let gateway = shop.listen_of(&gate);
    let mut before = Vec::new();
    for at in 0..CLIENTS {
        let mut client = shop.http(&gateway);
        let read = client.call("get_stock", &json!({"item": "tea", "for": at}));
        before.push((client.session.clone(), meta(&read)["session"].clone()));
    }
    // Told to end, which no client asked for.
    gateway.end();
    let gateway = shop.listen_of(&gate);
    let back = std::thread::scope(|scope| {
        let come_back = |(id, session): &(Option<String>, Value)| {
            let (id, session, gateway) = (id.clone(), session.clone(), &gateway);
            scope.spawn(move || {
                let mut client = Client::of(gateway, id);
                let read = client.call("get_stock", &json!({"item": "rice"}));
                let sold = client.call("sell", &json!({"item": "salt", "count": 1}));
                assert_eq!(
                    meta(&sold)["readings"]["rested_on"],
                    2,
                    "what it read itself, and nothing of others: {sold}"
                );
                (meta(&read)["session"].clone(), session)
            })
        };
        before.iter().map(come_back).collect::<Vec<_>>().into_iter().map(|it| it.join().unwrap()).collect::<Vec<_>>()
    });
    for (session, was) in back {
        assert!(is_gone_on_in(&session, &was), "{session}");
    }
    assert_eq!(shop.count("sell"), CLIENTS);
}

#[test]
fn after_two_gateways_were_killed_no_one_writes_on_what_another_client_read() {
    let shop = Shop::new();
    let gate = shop.serve();
    let (mut one, mut other) = (shop.client_of(&gate), shop.client_of(&gate));
    one.call("get_stock", &json!({"item": "tea"}));
    other.call("get_stock", &json!({"item": "rice"}));
    one.kill();
    other.kill();
    shop.set("tea", 2);
    // It is one of the two, and no one can say which.
    let mut next = shop.client_of(&gate);
    for _ in 0..2 {
        let refused = next.call("sell", &json!({"item": "tea", "count": 1}));
        assert_eq!(meta(&refused)["error"]["code"], "session_not_open", "{refused}");
    }
    assert_eq!((shop.count("sell"), shop.stock("tea")), (0, 2), "the server never saw it");
    next.call("get_stock", &json!({"item": "tea"}));
    let sold = next.call("sell", &json!({"item": "tea", "count": 1}));
    assert!(!is_error(&sold), "{sold}");
}

#[test]
fn a_session_that_is_gone_at_the_gate_is_not_replaced_by_an_empty_one_in_silence() {
    let shop = Shop::new();
    let gate = shop.serve();
    let gateway = shop.listen_of(&gate);
    let mut client = shop.http(&gateway);
    for reads_first in [true, false] {
        let sold = shop.count("sell");
        shop.set("tea", 10);
        let read = client.call("get_stock", &json!({"item": "tea"}));
        let session = meta(&read)["session"].as_str().unwrap().to_owned();
        shop.post(&gate, &format!("/v1/sessions/{session}/close"), &json!({}));
        shop.set("tea", 2);
        if reads_first {
            client.call("get_stock", &json!({"item": "rice"}));
        }
        let refused = client.call("sell", &json!({"item": "tea", "count": 1}));
        assert_eq!(meta(&refused)["error"]["code"], "session_not_open", "{refused}");
        assert_eq!((shop.count("sell"), shop.stock("tea")), (sold, 2), "the server never saw it");
        client.call("get_stock", &json!({"item": "tea"}));
        let done = client.call("sell", &json!({"item": "tea", "count": 1}));
        assert!(!is_error(&done), "{done}");
    }
}

#[test]
fn what_was_under_way_when_a_session_was_taken_over_adds_nothing_to_it() {
    let shop = Shop::new();
    let gate = shop.serve();
    let post = |path: &str, body: &Value| shop.post(&gate, path, body);
    let session = post("/v1/sessions", &json!({}))["session"].as_str().unwrap().to_owned();
    let reads = format!("/v1/sessions/{session}/readings");
    let reading = json!({"upstream": "shop", "tool": "get_stock", "arguments": {"item": "tea"}});
    post(&reads, &reading);
    shop.set("tea", 2);
    shop.mood("hold get_stock");
    let late = std::thread::scope(|scope| {
        let late = scope.spawn(|| post(&reads, &reading));
        wait_until("it is being read", || shop.count("get_stock") == 2);
        let gone_on = post("/v1/sessions", &json!({"follows": session}));
        assert_eq!(gone_on["session"], format!("{session}.1"), "{gone_on}");
        shop.mood("");
        late.join().unwrap()
    });
    assert_eq!(late["error"]["code"], "session_not_found", "{late}");
    let kept = shop.run_ok(&["ledger", "list", "--kind", "reading", "--json", "--server", gate.url()]);
    assert_eq!(kept.lines().count(), 1, "whoever went on in it was not shown what was read last: {kept}");
    // Nor does a call run that was on its way.
    let tool = shop.run_ok(&["fact", "get", "McpTool", "shop/sell", "--server", gate.url(), "--json"]);
    let tool: Value = serde_json::from_str(&tool).unwrap();
    let sell = |session: &str, key: &str| {
        let params = json!({
            "server": "shop", "name": "sell", "definition": tool["value"]["definition"],
            "arguments": r#"{"item":"rice","count":1}"#,
        });
        let key = format!("{key:0<32}");
        post(
            "/v1/actions",
            &json!({"pact": "mcp-calls", "action": "write", "idempotency_key": key, "params": params, "session": session}),
        )
    };
    let refused = sell(&session, "old");
    assert_eq!((&refused["verdict"], &refused["code"]), (&json!("rejected"), &json!("session_not_open")), "{refused}");
    assert_eq!(shop.count("sell"), 0, "the server never saw it");
    assert_eq!(post(&format!("/v1/sessions/{session}/close"), &json!({}))["error"]["code"], "session_not_found");
    assert_eq!(sell(&format!("{session}.1"), "new")["verdict"], "in_flight");
    // Another client may go on in it by any name that it had; then this one's ends as well.
    let again = post("/v1/sessions", &json!({"follows": session}));
    assert_eq!(again["session"], format!("{session}.2"), "{again}");
    assert_eq!(sell(&format!("{session}.1"), "late")["code"], "session_not_open");
}
