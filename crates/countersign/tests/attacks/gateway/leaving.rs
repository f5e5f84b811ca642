//! Calls that the gate itself makes to servers: whether they may still leave, and what counts as not done.

use super::verdicts::Slow;
use super::{PACT, server, world, write};
use crate::attacks::world::{World, wait_until};
use serde_json::{Value as Json, json};
use std::sync::atomic::Ordering;

const LOOK: &str = r#"
pact = "box"
version = 1

[facts.McpTool]
attributes = { definition = "String", read_only = "Bool", text = "String?" }

[action.look]
resource = 'McpTool::"box/look"'
allow = 'principal.standing == "active"'
call = { mcp = "box", tool = "look" }

[action.look.params]
type = "object"
additionalProperties = false
required = ["which"]
properties.which = { type = "string", maxLength = 64 }

[[action.look.require]]
id = "named"
that = 'context.which != ""'
"#;

#[test]
fn a_halted_call_leaves_when_a_busy_server_accepts_connections_again() {
    let slow = Slow::start();
    let mut world = World::new();
    world.write("countersign.toml", &format!("[mcp.upstream.box]\nurl = 'http://{}/mcp'\n", slow.address));
    world.serve();
    world.run_ok(&["mcp", "approve"]);
    world.publish(LOOK);
    let agent = world.agent("looker-1", "looker");
    let look = |which: &str, wait_ms: u32| {
        let key = format!("a-key-of-a-call-that-is-{which}");
        let params = json!({ "which": which });
        let body = json!({"pact": "box", "action": "look", "idempotency_key": key, "params": params});
        agent.ask("POST", &format!("/v1/actions?wait_ms={wait_ms}"), &body.to_string()).json
    };
    let first = look("first", 30_000);
    assert_eq!(first["verdict"], "settled", "{first}");
    let waiting = slow.pause();
    let late = look("late", 0);
    let effect = late["effect"].as_str().unwrap_or_else(|| panic!("{late}")).to_owned();
    // The worker has the call, and waits for a connection.
    std::thread::sleep(std::time::Duration::from_millis(300));
    world.run_ok(&["halt", "add", "--all", "--reason", "stop"]);
    drop(waiting);
    slow.paused.store(false, Ordering::SeqCst);
    let shown = || -> Json { serde_json::from_str(&world.run_ok(&["effect", "show", &effect, "--json"])).unwrap() };
    wait_until("the call has ended", || matches!(shown()["state"].as_str(), Some("failed" | "settled" | "in_doubt")));
    assert_eq!(*slow.called.lock().unwrap(), ["first"], "{}", shown());
    assert_eq!((&shown()["state"], &shown()["code"]), (&json!("failed"), &json!("halted")), "{}", shown());
    world.kill();
    world.run_ok(&["audit", "--data", "data"]);
}

#[test]
fn a_server_says_invalid_params_after_it_has_done_the_call_so_that_it_counts_as_not_done() {
    let world = world();
    world.publish(PACT);
    let told = write(&world, "a-first-key-of-twenty-two-chars", "misfit");
    assert_eq!(server::executed(world.path()), ["write"], "it ran");
    assert_eq!(told["verdict"], "in_doubt", "{told}");
    assert!(told["evidence"]["summary"].as_str().unwrap().contains("-32602"), "{told}");
    // Where the pact says that this tool does nothing when it fails, it is believed.
    world.publish(
        &PACT
            .replace("version = 1", "version = 2")
            .replace("tool = \"write\" }", "tool = \"write\", on_error = \"failed\" }"),
    );
    let told = write(&world, "a-second-key-of-twenty-two-chars", "misfit");
    assert_eq!(told["verdict"], "failed", "{told}");
}
