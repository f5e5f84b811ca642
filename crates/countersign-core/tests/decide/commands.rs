//! What parameters can and cannot become in the arguments of a command.

use crate::decide::world::{World, in_words};
use countersign_core::call::Send;
use serde_json::json;

const PACT: &str = r#"
pact = "mail"
version = 1

[facts.Box]
attributes = { open = "Bool" }

[action.send]
resource = 'Box::"out"'
allow = 'true'
call.command = "mail"
call.args = ARGS

[action.send.params]
type = "object"
additionalProperties = false
required = ["to"]
properties.to = { type = "string", maxLength = 64 }

[[action.send.require]]
id = "open"
that = 'resource.open'
"#;

fn world(args: &str, to: &str) -> World {
    let mut world = World::new(&PACT.replace("ARGS", args), "send", json!({"to": to})).with_agent(&["clerk"]);
    world.feed("Box::\"out\"", Some(json!({"open": true})));
    world
}

#[test]
fn attack_a_parameter_becomes_an_option() {
    for to in ["-C/etc/evil.cf", "--config=/tmp/evil", "-", "--"] {
        let decision = world(r#"["--subject", "hello", "{to}"]"#, to).decide();
        let blocked = decision.blocked().expect(to);
        assert_eq!(blocked.code().as_str(), "effect_invalid", "{to}");
        assert!(blocked.message().contains("would be taken for an option"), "{}", blocked.message());
    }
    // What the pact itself writes is an option, and what stands behind its `--` is none.
    for (args, sent) in [
        (r#"["--subject", "hello", "--to={to}"]"#, ["--subject", "hello", "--to=-C"]),
        (r#"["--now", "--", "{to}"]"#, ["--now", "--", "-C"]),
    ] {
        let decision = world(args, "-C").decide();
        assert_eq!(in_words(&decision), "in_flight", "{args}");
        let Some(Send::Command { args }) = decision.dispatched().and_then(|it| it.call.send.clone()) else {
            panic!("no command")
        };
        assert_eq!(args, sent);
    }
    assert_eq!(in_words(&world(r#"["{to}"]"#, "ada@example.com").decide()), "in_flight");
    // A `--` that was filled in ends nothing.
    let decision = world(r#"["{to}", "{to}"]"#, "--").decide();
    assert_eq!(in_words(&decision).split(' ').next(), Some("effect_invalid"), "{decision:?}");
}
