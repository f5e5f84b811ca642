//! Files of actions, sent with `act --batch`: what the command says is compared with what the gate has done.

use crate::attacks::world::*;
use serde_json::Value as Json;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

const PACT: &str = r#"
pact = "counting"
version = 1

[facts.Counter]
attributes = { count = "Long" }

[action.add]
resource = 'Counter::"{counter}"'
allow = 'true'
set = { count = "resource.count + 1" }

[[action.add.require]]
id = "not-full"
that = 'resource.count < 1000000'

[action.add.params]
type = "object"
additionalProperties = false
required = ["counter"]
properties.counter = { type = "string", maxLength = 64 }
"#;

fn counting() -> World {
    let world = World::serving("");
    world.publish(PACT);
    world.agent("counter-1", "counter");
    world.run_ok(&["fact", "put", "Counter", "a", r#"{"count": 0}"#]);
    world
}

/// The line of an action, so many spaces long at least.
fn line(number: usize, counter: &str, padding: usize) -> String {
    let spaces = " ".repeat(padding);
    format!(
        r#"{{"pact":"counting","action":"add","idempotency_key":"{number:0>32}",{spaces}"params":{{"counter":"{counter}"}}}}"#
    )
}

fn count(world: &World) -> usize {
    let fact: Json = serde_json::from_str(&world.run_ok(&["fact", "get", "Counter", "a", "--json"])).unwrap();
    usize::try_from(fact["value"]["count"].as_u64().unwrap()).unwrap()
}

fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

#[test]
fn attack_a_group_that_is_too_long_for_one_request_is_sent_in_parts() {
    let world = counting();
    // The last of them cannot commit, so none may.
    let mut lines: Vec<String> = (0..31).map(|number| line(number, "a", 40_000)).collect();
    lines.push(line(31, "missing", 0));
    let file = world.write("group.jsonl", &lines.join("\n"));
    let told = world.run(&["act", "--key", "counter-1.key", "--atomic", "--batch", file.to_str().unwrap()]);
    let said = String::from_utf8(told.stderr).unwrap();
    assert_eq!((told.status.code(), count(&world)), (Some(2), 0), "{said}");
    assert!(said.contains("an atomic group has at most 1048576"), "{said}");
    let alone =
        world.run(&["act", "--key", "counter-1.key", "--atomic", "--pact", "counting", "--action", "add", "counter=a"]);
    assert_eq!((alone.status.code(), count(&world)), (Some(2), 0), "--atomic without a file");
}

#[test]
fn a_file_that_is_interrupted_half_way_says_which_lines_are_not_known() {
    let world = counting();
    let lines: Vec<String> = (0..4096).map(|number| line(number, "a", 0)).collect();
    let file = world.write("many.jsonl", &lines.join("\n"));
    let mut command = world.command(&["act", "--key", "counter-1.key", "--batch", file.to_str().unwrap()]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(child.stdout.take().unwrap()).lines();
    // Two pieces are answered, and the gate does not get on with the rest.
    let mut answered =
        told.by_ref().take(512).map(Result::unwrap).filter(|line| line.contains(": committed in")).count();
    signal("-STOP", world.pid());
    signal("-INT", child.id());
    answered += told.map(Result::unwrap).filter(|line| line.contains(": committed in")).count();
    let ended = child.wait_with_output().unwrap();
    signal("-CONT", world.pid());
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(5), "{said}");
    assert!(said.contains("unknown") && said.contains("not sent") && said.contains("within 24 hours"), "{said}");
    // What was told is there, and of the rest one piece at most.
    let there = count(&world);
    assert!((answered..=answered + 256).contains(&there), "{answered} told, {there} there");
    // Sent again, every line is done once.
    let again = world.run_ok(&["act", "--key", "counter-1.key", "--batch", file.to_str().unwrap()]);
    assert_eq!((again.lines().count(), count(&world)), (4096, 4096));
    assert!(again.lines().next().unwrap().contains("(decided before)"), "{again}");
}
