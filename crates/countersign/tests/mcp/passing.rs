//! What passes, passes as it was sent.

use crate::mcp::sandbox::Sandbox;
use serde_json::{Value, json};

#[test]
fn a_client_and_its_server_understand_each_other_through_the_gateway() {
    let sandbox = Sandbox::approved();
    let mut client = sandbox.client(&[("bank", "usual")], &["--allow-method", "x/echo"]);
    let introduced = client.initialize();
    assert_eq!((&introduced["serverInfo"]["name"], &introduced["x-extra"]), (&json!("usual"), &json!(7)));
    // Raw: an unknown method with numbers that many parsers would change, under an id that is a string.
    client.send(r#"{"jsonrpc":"2.0","id":"an id","method":"x/echo","params":{"n": 1.50,"big":12345678901234567890123,"x":[1e2]}}"#);
    let echoed = client.message();
    assert_eq!(echoed["id"], "an id");
    let line = echoed["result"]["line"].as_str().unwrap();
    assert!(line.contains(r#""params":{"n": 1.50,"big":12345678901234567890123,"x":[1e2]}"#), "{line}");
    // Tools are as they were defined, to the digit.
    let id = client.ask("tools/list", &json!({}));
    let line = client.line();
    assert!(
        line.contains(&format!("\"id\":{id}"))
            && line.contains("\"x-unknown\":[1.5]")
            && line.contains("\"x-vendor\":{\"a\":100.0}"),
        "{line}"
    );
    assert!(line.contains("\"x-page\":1"), "{line}");
    // A call that only reads passes as it is, with the progress that it reports.
    let id = client
        .ask("tools/call", &json!({"name": "get_account", "arguments": {"id": "42"}, "_meta": {"progressToken": "p"}}));
    let progress = client.message();
    assert_eq!(
        (&progress["method"], &progress["params"]["progressToken"]),
        (&json!("notifications/progress"), &json!("p"))
    );
    let line = client.line();
    assert_eq!(
        line,
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"structuredContent":{{"status":"active"}},"_meta":{{"rate":1.50}}}}}}"#
        )
    );
    assert_eq!(client.end().0, 0);
    assert_eq!(sandbox.calls().len(), 2, "both are in the ledger");
}

#[test]
fn a_server_can_ask_the_client_back_and_a_client_can_cancel() {
    let sandbox = Sandbox::approved();
    let mut client = sandbox.client(&[("bank", "usual")], &[]);
    client.initialize();
    let call = client.ask("tools/call", &json!({"name": "ask", "arguments": {}}));
    let question = client.message();
    assert_eq!(
        (&question["method"], &question["params"]),
        (&json!("sampling/createMessage"), &json!({"maxTokens": 1, "x": 1.5}))
    );
    client.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {"said": "hi"}}).to_string());
    let answer = client.answer(call);
    assert_eq!(answer["result"]["content"][0]["text"], "{\"said\":\"hi\"}");
    // The server is told of a cancelled request under the id that it knows.
    let slow = client.ask("tools/call", &json!({"name": "slow", "arguments": {"ms": 1}}));
    let bored = json!({"requestId": slow, "reason": "bored"});
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": bored}).to_string());
    // Whether it was sent before it was cancelled or not, it is never answered.
    assert_eq!(client.call("get_account", &json!({"id": "1"}))["structuredContent"]["status"], "active");
    client.end();
}

#[test]
fn several_servers_are_one_with_their_names_in_front() {
    let sandbox = Sandbox::new();
    let banks = [("a", "usual"), ("b", "b")];
    sandbox.approve(&banks);
    let mut client = sandbox.client(&banks, &[]);
    let introduced = client.initialize();
    assert_eq!(introduced["serverInfo"]["name"], "countersign");
    assert_eq!(introduced["capabilities"]["tools"]["listChanged"], true);
    assert_eq!(introduced["instructions"], "a: Be nice.\nb: Be nice.\n");
    let tools = client.tools();
    assert!(tools.contains(&"a__get_account".to_owned()) && tools.contains(&"b__get_account".to_owned()), "{tools:?}");
    assert_eq!(client.call("b__get_account", &json!({"id": "1"}))["structuredContent"]["status"], "active");
    let prompts = client.request("prompts/list", &json!({}));
    assert_eq!(prompts["result"]["prompts"], json!([{"name": "a__greet"}, {"name": "b__greet"}]));
    assert_eq!(client.request("prompts/get", &json!({"name": "b__greet"}))["result"]["got"], "greet");
    let read = client.request("resources/read", &json!({"uri": "b://1"}));
    assert_eq!(read["result"]["contents"][0]["text"], "from b", "the server that has it answers");
    let unknown: Value = client.call("get_account", &json!({"id": "1"}));
    assert_eq!(unknown["_meta"]["countersign"]["error"]["code"], "tool_unknown");
    client.end();
}

#[test]
fn a_client_over_http_has_a_session_of_its_own() {
    let sandbox = Sandbox::approved();
    let server = sandbox.listen(&[("bank", "usual")]);
    let begun = server.post(None, &crate::mcp::http::hello());
    let session = begun.session.expect("has a session");
    assert_eq!(
        server.post(Some(&session), &json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).status,
        202
    );
    let call = json!({"name": "get_account", "arguments": {"id": "1"}});
    let call = json!({"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": call});
    let called = server.post(Some(&session), &call);
    assert_eq!(
        (called.status, &called.body["result"]["structuredContent"]["status"]),
        (200, &json!("active")),
        "{}",
        called.body
    );
    // With progress asked for, the answer is a stream.
    let call = json!({"name": "get_account", "arguments": {"id": "1"}, "_meta": {"progressToken": 9}});
    let call = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": call});
    let streamed = server.post(Some(&session), &call);
    let events = streamed.body.as_array().expect("is a stream").clone();
    assert_eq!((events.len(), &events[0]["params"]["progressToken"], &events[1]["id"]), (2, &json!(9), &json!(3)));
    assert_eq!(server.post(Some("made-up"), &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).status, 404);
    assert_eq!(server.post(None, &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).status, 400);
    assert_eq!(server.refused_host(), 403, "a page that points its own name here is not answered");
    assert_eq!(server.delete(&session), 204);
    assert_eq!(server.post(Some(&session), &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).status, 404);
    server.end();
}
