//! What a server is told, compared with what the ledger says that it was told. The server keeps every line that reaches it.

use super::{gateway, server, world};
use crate::attacks::world::World;
use serde_json::value::RawValue;
use serde_json::{Value as Json, json};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;

/// The lines that reached the server.
fn heard(world: &World) -> Vec<String> {
    let lines = std::fs::read_to_string(world.path().join("lines")).unwrap_or_default();
    lines.lines().map(str::to_owned).collect()
}

/// The digests of all params that the server got with these methods, in order.
fn got(world: &World, methods: &[&str]) -> Vec<String> {
    let mut digests = Vec::new();
    for line in heard(world) {
        let members: HashMap<String, Box<RawValue>> = serde_json::from_str(&line).unwrap();
        let method = members.get("method").map(|method| method.get().trim_matches('"').to_owned()).unwrap_or_default();
        if methods.contains(&method.as_str()) {
            let digest = Sha256::digest(members["params"].get().as_bytes());
            digests.push(digest.iter().map(|byte| format!("{byte:02x}")).collect());
        }
    }
    digests
}

/// The digests that the entries of the gateway's own pact have, in order.
fn recorded(world: &World) -> Vec<String> {
    let entries = world.entries();
    let own = entries.iter().filter(|entry| {
        entry["leaf"]["kind"] == "action"
            && entry["leaf"]["pact"]["name"] == "mcp-calls"
            && entry["leaf"]["verdict"] == "committed"
    });
    own.map(|entry| {
        let body: Json = serde_json::from_str(entry["payload"]["body"].as_str().unwrap()).unwrap();
        body["params"]["content"].as_str().unwrap_or_else(|| panic!("{body}")).to_owned()
    })
    .collect()
}

#[test]
fn a_call_carries_things_to_a_server_that_its_entry_does_not_cover() {
    let world = world();
    let settings = std::fs::read_to_string(world.path().join("countersign.toml")).unwrap();
    world.write("listening", "");
    for prefix in ["", "box__"] {
        if !prefix.is_empty() {
            // A second server, so that names are rewritten on the way.
            let second = settings.replace("[mcp.upstream.box]", "[mcp.upstream.other]");
            world.write("countersign.toml", &format!("{settings}{second}"));
        }
        let mut client = gateway(&world);
        for more in [
            "",
            r#","requestState":"the secret""#,
            r#","requestState":"the other secret""#,
            r#","task":{"ttl":1.0},"inputResponses":{"a":{"text":"the secret"}}"#,
            r#","_meta":{"io.vendor/x": "the secret"}"#,
            r#","unheard_of":["the secret"]"#,
        ] {
            let params = format!(r#"{{"name":"{prefix}look","arguments":{{"a": 1.0}}{more}}}"#);
            client.send(&format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}"#));
            assert_eq!(client.answer(7)["result"]["content"][0]["text"], "done", "{params}");
        }
        for more in ["", r#","_meta":{"io.vendor/x":"the secret"}"#] {
            let params = format!(r#"{{"uri":"x://1"{more}}}"#);
            client.send(&format!(r#"{{"jsonrpc":"2.0","id":8,"method":"resources/read","params":{params}}}"#));
            assert!(client.answer(8).get("result").is_some(), "{params}");
        }
        client.end();
    }
    let got = got(&world, &["tools/call", "resources/read"]);
    assert_eq!(got.len(), 16);
    assert_eq!(got, recorded(&world), "what the server got is what the entries cover");
    let different: std::collections::HashSet<&String> = got.iter().collect();
    assert_eq!(different.len(), 8, "whatever differs for the server differs in the ledger");
}

#[test]
fn a_halted_agent_tells_a_server_things_in_cursors_pings_and_levels() {
    let world = world();
    world.write("listening", "");
    let mut client = gateway(&world);
    world.run_ok(&["halt", "add", "--all", "--reason", "stop"]);
    for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
        let refused = client.request(method, &json!({"cursor": "the secret"}));
        assert_eq!(refused["error"]["code"], -32602, "{method}: {refused}");
        for params in [
            json!({"filter": "the secret"}),
            json!({"_meta": {"io.vendor/x": "the secret"}, "cursor": null}),
            json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "x": "the secret"}}),
        ] {
            let listed = client.request(method, &params);
            assert!(listed.get("result").is_some(), "{method}: {listed}");
        }
    }
    client.request("ping", &json!({"the": "secret"}));
    let refused = client.request("logging/setLevel", &json!({"level": "the secret"}));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let passed = client.request("logging/setLevel", &json!({"level": "debug", "the": "secret"}));
    assert!(passed.get("result").is_some(), "{passed}");
    let refused = client.request("resources/unsubscribe", &json!({"uri": "x://the-secret"}));
    assert_eq!(refused["error"]["data"]["countersign"]["code"], "halted", "{refused}");
    client.end();
    let heard = heard(&world);
    assert!(heard.iter().any(|line| line.contains(r#""level":"debug""#)), "{heard:?}");
    let told: Vec<&String> = heard.iter().filter(|line| line.contains("secret")).collect();
    assert_eq!(told, Vec::<&String>::new());
}

#[test]
fn a_list_of_many_pages_is_given_at_once_and_its_cursors_to_nobody() {
    let world = world();
    world.write("paged", "");
    let mut client = gateway(&world);
    let listed = client.request("tools/list", &json!({}));
    let names: Vec<&Json> = listed["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert!(names.contains(&&json!("look")) && names.contains(&&json!("forge")), "{listed}");
    assert_eq!(listed["result"].get("nextCursor"), None, "{listed}");
    let listed = client.request("resources/list", &json!({}));
    assert_eq!(listed["result"], json!({"resources": [{"uri": "x://1"}, {"uri": "x://2"}]}));
    client.end();
    assert_eq!(server::executed(world.path()), ["resources/list", "resources/list"]);
}
