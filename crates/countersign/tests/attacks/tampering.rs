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
    world.run_ok(&["verify", "--data", "data", "--key", "data/log.vkey"]);
    world.run_ok(&["audit", "--data", "data"]);
}
