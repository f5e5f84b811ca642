//! Servers that take more from the machine than they were given: the environment of whoever starts them.

use super::{PACT, server, write};
use crate::attacks::world::World;
use crate::mcp::client::Stdio;
use serde_json::json;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

/// A server that writes its environment down before it serves.
fn shell(world: &World) -> String {
    let serve = server::shell("plain", world.path());
    format!("env >> {}; {serve}", world.path().join("environment").display())
}

/// What the servers that were started since the last look found in their environments.
fn found(folder: &Path) -> Vec<String> {
    let path = folder.join("environment");
    let found = std::fs::read_to_string(&path).expect("a server was started");
    std::fs::remove_file(path).unwrap();
    found.lines().map(str::to_owned).collect()
}

fn assert_knows_only(found: &[String], listed: &[&str]) {
    for line in found {
        let is_secret = line.contains("hunter2") || line.starts_with("COUNTERSIGN_");
        assert!(!is_secret || listed.contains(&line.as_str()), "{line}");
    }
    for line in listed {
        assert!(found.iter().any(|found| found == line), "{line} is not in {found:?}");
    }
    assert!(found.iter().any(|line| line.starts_with("PATH=")), "it can find programs: {found:?}");
}

#[test]
fn a_server_reads_the_keys_and_tokens_of_whoever_starts_it() {
    let mut world = World::new();
    let settings = format!("[mcp.upstream.box]\ncommand = ['sh', '-c', '''{}''']\n", shell(&world));
    world.write("countersign.toml", &settings);
    let mut gate = Command::new(env!("CARGO_BIN_EXE_countersign"));
    gate.env("PAYMENTS_TOKEN", "hunter2-of-the-gate").env("LC_TIME", "C");
    world.serve_by(gate);
    let operator = |words: &[&str]| {
        let mut command = world.command(words);
        command.env("OPERATORS_TOKEN", "hunter2-of-the-operator").env("BOX_TOKEN", "hunter2-for-the-box");
        command
    };
    // By `approve`, by the gateway, and by the gate's worker: with the same settings in each of them.
    let output = operator(&["mcp", "approve"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_knows_only(&found(world.path()), &[]);
    world.run_ok(&["agent", "new", "coder-1", "--org", "acme", "--held-by-gateway"]);
    let mut client = Stdio::start(operator(&["mcp", "serve", "--agent", "coder-1"]));
    client.initialize();
    assert_eq!(client.call("look", &json!({}))["content"][0]["text"], "done");
    client.end();
    assert_knows_only(&found(world.path()), &[]);
    world.publish(PACT);
    let done = write(&world, "a-first-key-of-twenty-two-chars", "jo");
    assert_eq!(done["verdict"], "settled", "{done}");
    let of_the_gate = found(world.path());
    assert_knows_only(&of_the_gate, &["LC_TIME=C"]);
    // What is listed for a server is there, and nothing beside it.
    let upstream = format!("box=sh -c '{}'", shell(&world));
    let one = ["mcp", "approve", "--show", "--upstream", &upstream, "--env", "BOX_TOKEN", "--env", "MODE=ro"];
    assert!(operator(&one).output().unwrap().status.success());
    assert_knows_only(&found(world.path()), &["BOX_TOKEN=hunter2-for-the-box", "MODE=ro"]);
    let listed = "env = { TOKEN = { env = 'BOX_TOKEN' }, MODE = 'ro' }\n";
    world.write("countersign.toml", &format!("{settings}{listed}"));
    assert!(operator(&["mcp", "approve", "--show"]).output().unwrap().status.success());
    assert_knows_only(&found(world.path()), &["TOKEN=hunter2-for-the-box", "MODE=ro"]);
    // One that is missing is an error before anything is started.
    let output = world.run(&["mcp", "approve", "--show"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("BOX_TOKEN is not set") && said.contains("hint: "), "{said}");
    assert!(!world.path().join("environment").exists());
}

#[test]
fn a_variable_for_one_of_two_servers_is_given_to_both() {
    let world = World::new();
    let upstream = |name: &str| format!("{name}=sh -c '{}'", shell(&world));
    let (one, other) = (upstream("one"), upstream("other"));
    let both = ["mcp", "approve", "--show", "--upstream", &one, "--upstream", &other, "--env", "TOKEN=hunter2"];
    let output = world.run(&both);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!world.path().join("environment").exists(), "and neither was started");
}

#[test]
fn a_server_tells_its_token_to_the_agent_and_to_the_log() {
    let mut world = World::new();
    let token = world.write("box.token", "hunter2-for-the-box");
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    let shell = format!("echo \"I have $BOX_TOKEN\" >&2; {}", server::shell("plain", world.path()));
    let env = format!("env = {{ BOX_TOKEN = {{ file = '{}' }} }}", token.display());
    world.write("countersign.toml", &format!("[mcp.upstream.box]\ncommand = ['sh', '-c', '''{shell}''']\n{env}\n"));
    world.serve();
    world.run_ok(&["mcp", "approve"]);
    world.run_ok(&["agent", "new", "coder-1", "--org", "acme", "--held-by-gateway"]);
    let mut client = Stdio::start(world.command(&["mcp", "serve", "--agent", "coder-1"]));
    client.initialize();
    let result = r#"{"content": [{"type": "text", "text": "I have hunter2-for-the-box"}]}"#;
    let told = client.call("types", &json!({ "result": result }));
    assert_eq!(told["content"][0]["text"], "I have [secret]", "{told}");
    let (_, said) = client.end();
    assert!(said.contains("box: I have [secret]") && !said.contains("hunter2"), "{said}");
}
