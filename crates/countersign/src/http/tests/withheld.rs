//! What an agent may not see reaches it in no answer.

use super::*;

/// A pact in which preconditions read more than the agent may see, in every way in which an answer could speak of it.
const PACT: &str = r#"
pact = "vault"
version = 1

[facts.Box]
attributes = { label = "String", secret = "String", note = "String?", next = "String", size = "Long" }

[facts.Hidden]
attributes = { text = "String" }

[[observe.Box]]
who = 'principal.roles.contains("refunder") && resource.label != "closed"'
attributes = ["label"]

[action.open]
resource = 'Box::"{box}"'
reads.next = 'Box::"{resource.next}"'
reads.hidden = { fact = 'Hidden::"{resource.secret}"', optional = true }
allow = 'true'
set = { label = '"opened"', next.label = '"seen"', size = "resource.size + context.more" }

[action.open.params]
type = "object"
additionalProperties = false
required = ["box", "secret", "more"]
properties = { box = { type = "string" }, secret = { type = "string" }, more = { type = "integer" } }

[[action.open.require]]
id = "knows-the-secret"
that = 'resource.secret == context.secret && context.next.label != "shut"'

[[action.open.require]]
id = "hidden-says-yes"
that = '!(context has hidden && context.hidden.text like "no*")'

[action.keep]
resource = { fact = 'Box::"{box}"', unchanged = true }
reads.next = { fact = 'Box::"{resource.next}"', unchanged = true }
allow = 'true'
require_observation = true
params = { type = "object", additionalProperties = false, required = ["box"], properties.box = { type = "string" } }

[[action.keep.require]]
id = "small"
that = 'resource.size < 100'
on_fail = "review"

[action.try]
mode = "shadow"
resource = 'Box::"{box}"'
reads.next = 'Box::"{resource.next}"'
allow = 'true'
params = { type = "object", additionalProperties = false, required = ["box"], properties.box = { type = "string" } }

[[action.try.require]]
id = "next-is-open"
that = 'context.next.secret == resource.secret'
"#;

fn put_box(server: &Server, id: &str, round: usize, next: &str, size: i64) {
    let value = json!({"value": {
        "label": format!("label-{round}-{size}"), "secret": format!("MARK-secret-{id}-{round}"), "note": format!("MARK-note-{id}-{round}"),
        "next": next, "size": size,
    }});
    let reply = server.put(&format!("/v1/facts/Box/{id}"), &value);
    assert_eq!(reply.status, 200, "{reply:?}");
}

fn vault() -> Server {
    let server = Server::start();
    furnish(&server);
    let published = server.send("POST", "/v1/pacts", &["Content-Type: application/toml"], PACT.as_bytes());
    assert_eq!(published.status, 200, "{published:?}");
    put_box(&server, "a", 0, "MARK-next-1", 1);
    put_box(&server, "MARK-next-1", 0, "a", 5);
    put_box(&server, "MARK-next-2", 0, "a", 5);
    server
}

fn vault_action(key: usize, kind: &str, params: &Value, token: Option<&str>) -> String {
    let action = json!({
        "pact": "vault", "action": kind, "idempotency_key": format!("{key:0>32}"),
        "params": params, "observations": token.into_iter().collect::<Vec<_>>(),
    });
    action.to_string()
}

/// Everything that an agent can be told of an action: checked, done, and asked again.
fn answers(server: &Server, body: &str) -> Vec<Reply> {
    ["/v1/actions/check", "/v1/actions", "/v1/actions"].map(|path| server.post(path, body)).into()
}

#[test]
fn no_answer_holds_a_withheld_value() {
    let server = vault();
    let mut told = Vec::new();
    let look = || server.post("/v1/observe", &json!({"facts": ["Box::\"a\""]}).to_string());
    let token = look().json()["observation"].as_str().unwrap().to_owned();
    let tries = |round: usize| {
        let numbered = |at: usize| round * 10 + at;
        let open = |secret: &str, more: i64| json!({"box": "a", "secret": secret, "more": more});
        let one = json!({"box": "a"});
        [
            vault_action(numbered(1), "open", &open("guess", 0), Some(&token)),
            vault_action(numbered(2), "open", &open("guess", 0), None),
            vault_action(numbered(3), "keep", &one, Some(&token)),
            vault_action(numbered(4), "keep", &one, None),
            vault_action(numbered(5), "try", &one, Some(&token)),
            vault_action(numbered(6), "open", &json!({"box": "MARKED", "secret": "x", "more": 0}), None),
        ]
    };
    for round in 1..6 {
        match round {
            // Every value changes after it was observed, then the box leads elsewhere, to nothing, and to itself.
            1 => {}
            2 => put_box(&server, "a", round, "MARK-next-2", 200),
            3 => put_box(&server, "a", round, "MARK-next-gone", (1 << 53) - 1),
            4 => put_box(&server, "a", round, &format!("MARK-{}", "x".repeat(300)), 7),
            _ => put_box(&server, "a", round, "a", 7),
        }
        told.push(look());
        for body in tries(round) {
            told.extend(answers(&server, &body));
        }
    }
    let rejected = told.iter().filter(|reply| reply.json()["verdict"] == "rejected").count();
    assert!(rejected > 40, "{rejected} rejections");
    for reply in &told {
        assert_eq!(reply.status, 200, "{reply:?}");
        let text = reply.text().replace("MARKED", "");
        assert!(!text.contains("MARK"), "{text}");
    }
}

#[test]
fn what_is_shown_follows_the_grant() {
    let server = vault();
    let observe = |fact: &str| server.post("/v1/observe", &json!({ "facts": [fact] }).to_string());
    let seen = observe("Box::\"a\"").json()["facts"][0].clone();
    assert_eq!(seen["value"], json!({"label": "label-0-1"}));
    assert_eq!(seen["withheld"], json!(["next", "note", "secret", "size"]));
    // Not granted, not there, and of a type no one declared: one answer.
    let closed = json!({"value": {"label": "closed", "secret": "s", "next": "n", "size": 1}});
    server.put("/v1/facts/Box/closed", &closed);
    server.put("/v1/facts/Hidden/h", &json!({"value": {"text": "no"}}));
    let refusals = ["Box::\"closed\"", "Box::\"never\"", "Hidden::\"h\"", "Hidden::\"never\"", "Nothing::\"x\""];
    for fact in refusals {
        let refused = observe(fact);
        assert_error(&refused, 403, "not_observable");
        let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
        assert_eq!(message, format!("refund-1 may not observe {fact}"));
    }
    // Five refusals write no entry each: all they leave is one line of `denials`, about a second later.
    let denials = (0..server.gate.view().position)
        .map(|entry| server.get(&format!("/v1/ledger/entries/{entry}")).json())
        .filter(|entry| entry["leaf"]["kind"] == "denials");
    assert!(denials.count() <= 1, "observing writes nothing but what was denied, counted");

    // A rejection names what is withheld and keeps what is granted; the entry has all of it.
    let body = vault_action(1, "open", &json!({"box": "a", "secret": "guess", "more": 0}), None);
    let replies = answers(&server, &body);
    let verdicts: Vec<Value> = replies.iter().map(Reply::json).collect();
    for verdict in &verdicts {
        let reads = verdict["failed"][0]["reads"].as_array().unwrap();
        let of =
            |name: &str| reads.iter().find(|read| read["attribute"] == name).unwrap_or_else(|| panic!("{verdict}"));
        let (secret, label) = (of("Box::\"a\".secret"), of("Box::\"…\".label"));
        assert_eq!((&secret["withheld"], secret.get("actual"), secret.get("expected")), (&json!(true), None, None));
        assert_eq!((label.get("withheld"), &label["actual"]), (None, &json!("label-0-5")));
    }
    assert_eq!(verdicts[1]["failed"], verdicts[2]["failed"], "a repeated answer tells the same");
    let entry = verdicts[1]["entry"].as_u64().unwrap();
    let stored = server.get(&format!("/v1/ledger/entries/{entry}")).text().to_owned();
    assert!(stored.contains("MARK-secret-a-0") && stored.contains("MARK-next-1"), "{stored}");

    // A new version of the pact takes the grant back, also from what was answered before.
    let next = PACT.replace("version = 1", "version = 2").replace("\"refunder\"", "\"nobody\"");
    server.send("POST", "/v1/pacts", &["Content-Type: application/toml"], next.as_bytes());
    assert_error(&observe("Box::\"a\""), 403, "not_observable");
    let again = server.post("/v1/actions", &body).json();
    let reads = again["failed"][0]["reads"].as_array().unwrap();
    assert!(reads.iter().all(|read| read["withheld"] == true && read.get("actual").is_none()), "{again}");
}
