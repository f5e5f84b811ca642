//! Requests and texts altered on their way: what was signed is what counts, and what is shown is what is there.

use super::world::World;

const ACCOUNTS: &str = r#"
pact = "accounts"
version = 1

[facts.Account]
attributes = { status = "String" }

[observe.Account]
who = 'principal.roles.contains("clerk")'
attributes = "*"

[action.close]
resource = 'Account::"{account}"'
allow = 'principal.roles.contains("clerk")'
set = { status = '"closed"' }

[action.close.params]
type = "object"
additionalProperties = false
required = ["account"]
properties.account = { type = "string", minLength = 1, maxLength = 64 }

[[action.close.require]]
id = "active"
that = 'resource.status == "active"'
"#;

/// What the account is, by the word of the ledger's facts.
fn status(world: &World) -> String {
    world.run_ok(&["fact", "get", "Account", "42", "--json"])
}

#[test]
fn an_if_match_stripped_on_the_way_unfreezes_an_account() {
    let world = World::serving("");
    world.publish(ACCOUNTS);
    world.run_ok(&["fact", "put", "Account", "42", r#"{"status":"active"}"#]);
    let feeder = world.caller("admin");
    // A feeder writes on version 1, and means: only if nobody has frozen it meanwhile.
    let (target, body) = ("/v1/facts/Account/42", r#"{"value":{"status":"active"}}"#);
    let signed = feeder.sign_if("PUT", target, Some("\"1\""), body);
    world.run_ok(&["fact", "put", "Account", "42", r#"{"status":"frozen"}"#]);

    let stripped = feeder.send("PUT", target, body, &signed, &[]);
    assert_eq!((stripped.status, &stripped.json["error"]["code"]), (401, &"signature_incomplete".into()));
    let exchanged = feeder.send("PUT", target, body, &signed, &[("if-match", "\"2\"")]);
    assert_eq!((exchanged.status, &exchanged.json["error"]["code"]), (401, &"signature_invalid".into()));
    assert!(status(&world).contains("frozen"), "{}", status(&world));

    // As it was signed it is refused for what it says, and a condition that was never signed is none.
    let whole = feeder.send("PUT", target, body, &signed, &[("if-match", "\"1\"")]);
    assert_eq!((whole.status, &whole.json["error"]["code"]), (412, &"version_mismatch".into()));
    let added = feeder.send("PUT", target, body, &feeder.sign("PUT", target, body), &[("if-match", "\"2\"")]);
    assert_eq!((added.status, &added.json["error"]["code"]), (401, &"signature_incomplete".into()));
    assert!(status(&world).contains("frozen"), "{}", status(&world));

    // One that holds is kept with its condition, and the log proves it without the gate.
    let signed = feeder.sign_if("PUT", target, Some("\"2\""), body);
    assert_eq!(feeder.send("PUT", target, body, &signed, &[("if-match", "\"2\"")]).status, 200);
    let last = world.entries().pop().unwrap();
    assert_eq!(last["payload"]["signed"]["if_match"], "\"2\"", "{last}");
    world.run_ok(&["verify", "--data", "data", "--log-key", "data/log.vkey"]);
    world.run_ok(&["audit", "--data", "data"]);
}

/// Needs a person for everything, and takes any text.
const NOTES: &str = r#"
pact = "notes"
version = 1

[facts.Note]
attributes = { text = "String" }

[action.write]
resource = 'Note::"{note}"'
allow = 'true'
set = { text = "context.text" }

[action.write.params]
type = "object"
additionalProperties = false
required = ["note", "text"]
properties.note = { type = "string", maxLength = 64 }
properties.text = { type = "string", maxLength = 512 }

[[action.write.require]]
id = "seen-by-a-person"
that = 'resource.text == "never"'
on_fail = "review"
"#;

/// Whatever of this reaches a terminal moves its cursor or turns its text.
fn is_clean(shown: &[u8]) -> bool {
    let moves = |char: char| {
        let turns = matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        turns || (char.is_control() && !matches!(char, '\n' | '\t'))
    };
    !std::str::from_utf8(shown).unwrap().chars().any(moves)
}

#[test]
fn a_parameter_rewrites_what_its_reviewer_sees() {
    let world = World::serving("");
    world.publish(NOTES);
    // An id may hold what turns the direction of text; a parameter may hold anything.
    let id = "invoice\u{202e}001";
    world.run_ok(&["fact", "put", "Note", id, r#"{"text":"draft"}"#]);
    let agent = world.agent("agent", "writer");
    let text = "harmless\u{9b}2J\u{1b}[1A\u{202e}000,1 yap\u{2066}\r\u{85}";
    let body = serde_json::json!({
        "pact": "notes", "action": "write", "params": {"note": id, "text": text},
        "idempotency_key": "terminal-0123456789abcdef01234567",
    });
    let parked = agent.ask("POST", "/v1/actions", &body.to_string()).json;
    let review = parked["review"].as_str().unwrap_or_else(|| panic!("{parked}"));
    world.run_ok(&["operator", "new", "vera", "--role", "reviewer"]);
    world.run_ok(&["halt", "add", "--agent", "agent", "--reason", "odd\u{202e}\u{9b}K"]);
    let entry = parked["entry"].as_u64().unwrap().to_string();
    let commands: [&[&str]; 9] = [
        &["review", "show", review, "--key", "vera.key"],
        &["review", "show", review, "--key", "vera.key", "--json"],
        &["review", "list", "--key", "vera.key"],
        &["ledger", "list"],
        &["ledger", "list", "--json"],
        &["ledger", "show", &entry],
        &["fact", "get", "Note", id],
        &["halt", "list"],
        // An error, which repeats what was asked for.
        &["fact", "get", "Note", "no\u{202e}\u{2067}such"],
    ];
    for words in commands {
        let output = world.run(words);
        assert!(is_clean(&output.stdout), "{words:?}: {}", String::from_utf8_lossy(&output.stdout).escape_debug());
        assert!(is_clean(&output.stderr), "{words:?}: {}", String::from_utf8_lossy(&output.stderr).escape_debug());
    }
    let shown = world.run_ok(commands[0]);
    assert!(shown.contains("\\u{9b}2J") && shown.contains("\\u{202e}"), "{shown}");
    // As JSON it still means what it says.
    let shown: serde_json::Value = serde_json::from_str(&world.run_ok(commands[1])).unwrap();
    assert_eq!(shown["params"]["text"], text);
}
