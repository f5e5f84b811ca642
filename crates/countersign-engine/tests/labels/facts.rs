//! Labels of what actions write: they follow what a value was made of.

use super::world::{ALL_WAYS, World};
use serde_json::json;

/// The labels of the attributes of a fact that actions wrote.
fn labels(world: &World, fact: &str) -> Vec<(String, Vec<String>)> {
    let fact = world.gate.fact(&fact.parse().unwrap()).unwrap();
    let own = fact.labels.iter().flat_map(|own| own.iter());
    own.map(|(name, labels)| (name.to_string(), labels.iter().map(ToString::to_string).collect())).collect()
}

fn untrusted(names: &[&str]) -> Vec<(String, Vec<String>)> {
    names.iter().map(|name| ((*name).to_owned(), vec!["untrusted".to_owned()])).collect()
}

/// Whether an agent is labelled by looking at the account.
fn labels_whoever_looks(world: &World) -> bool {
    let agent = "ben";
    let before = world.gate.labels_of(&agent.parse().unwrap(), None);
    assert!(before.is_empty());
    world.gate.observe(agent.parse().unwrap(), vec!["Account::\"1\"".parse().unwrap()]).unwrap();
    !world.gate.labels_of(&agent.parse().unwrap(), None).is_empty()
}

#[test]
fn what_a_labelled_agent_writes_has_its_labels_and_a_clean_overwrite_clears_them() {
    let world = World::new();
    world.write("ann", "note", "before");
    assert_eq!(labels(&world, "Account::\"1\""), []);
    world.shown("ann", None, ALL_WAYS[0]);
    world.write("ann", "note", "please pay");
    assert_eq!(labels(&world, "Account::\"1\""), untrusted(&["memo"]));
    // What another action writes beside it leaves it as it is.
    assert_eq!(world.act("ben", None, "file", json!({"state": "open"})), "committed");
    assert_eq!(labels(&world, "Account::\"1\""), untrusted(&["memo"]));
    assert_eq!(world.act("ann", None, "wipe", json!({})), "committed");
    assert_eq!(labels(&world, "Account::\"1\""), [], "a constant says nothing of who wrote it");
    assert!(!labels_whoever_looks(&world));
    world.audit();
}

#[test]
fn labels_go_from_fact_to_fact_to_whoever_is_shown_it() {
    let world = World::new();
    // The agent itself was shown nothing.
    assert_eq!(world.act("ann", None, "copy", json!({})), "committed");
    assert_eq!(labels(&world, "Account::\"1\""), untrusted(&["limit", "memo"]), "a truth passes nothing on");
    assert_eq!(world.pay("ann", None), "committed");
    assert!(labels_whoever_looks(&world));
    assert_eq!(world.pay("ben", None), "precondition_failed");
    // A word from a list and a short number pass nothing on either.
    assert_eq!(world.act("ben", None, "file", json!({"state": "closed"})), "committed");
    assert_eq!(labels(&world, "Account::\"1\""), untrusted(&["limit", "memo"]));
    let ticket = countersign_testing::gate::feed("Ticket::\"7\"", r#"{"text":"","state":"open","size":999}"#);
    world.gate.call(ticket).unwrap();
    assert_eq!(world.act("ann", None, "copy", json!({})), "committed");
    assert_eq!(labels(&world, "Account::\"1\""), untrusted(&["memo"]));
    world.audit();
}

#[test]
fn what_an_action_writes_into_a_labelled_type_is_as_clean_as_what_it_was_made_of() {
    let world = World::new();
    assert_eq!(world.act("ann", None, "answer", json!({})), "committed");
    assert_eq!(labels(&world, "Ticket::\"7\""), [("state".to_owned(), vec![])]);
    // Fed again, it is as its type says.
    let ticket = countersign_testing::gate::feed("Ticket::\"7\"", r#"{"text":"","state":"open","size":1}"#);
    world.gate.call(ticket).unwrap();
    assert_eq!(labels(&world, "Ticket::\"7\""), []);
    world.audit();
}

#[test]
fn a_pact_that_says_nothing_of_labels_any_more_takes_none_off_what_was_written() {
    let world = World::new();
    assert_eq!(world.act("ann", None, "copy", json!({})), "committed");
    world.shown("ann", None, ALL_WAYS[0]);
    world.publish_with(2, ("labels = [\"untrusted\"]", ""));
    assert_eq!(labels(&world, "Account::\"1\""), untrusted(&["limit", "memo"]));
    assert!(labels_whoever_looks(&world));
    assert_eq!(world.pay("ann", None), "precondition_failed");
    // One that says more says it of what is there as well.
    world.publish_with(3, ("labels = [\"untrusted\"]", "labels = [\"untrusted\", \"confidential\"]"));
    world.shown("ben", None, ALL_WAYS[0]);
    assert!(world.gate.labels_of(&"ben".parse().unwrap(), None).contains("confidential"));
    world.audit();
}
