//! Parameters that carry labelled values: found when an action is admitted, recorded with it, and decided on.

use super::world::{DAY_MS, Way, World};
use countersign_core::record::Event;
use countersign_core::session::SessionId;
use countersign_engine::gate::{Gate, Options};
use countersign_testing::gate::{ORIGIN, feed, on_folder_by};
use serde_json::json;
use std::sync::Arc;

const IBAN: &str = "DE12500105170648489890";

fn send(world: &World, agent: &str, text: &str) -> String {
    world.act(agent, None, "send", json!({"text": text}))
}

#[test]
fn a_value_that_was_shown_with_a_label_is_found_in_what_its_agent_asks_for() {
    for way in [Way::Observes, Way::Checks] {
        let world = World::new();
        assert_eq!(send(&world, "ann", IBAN), "committed", "{way:?}: no one told it");
        world.shown("ann", None, way);
        for text in [IBAN, "to de12 5001 0517 0648 4898 90, please", "REUxMjUwMDEwNTE3MDY0ODQ4OTg5MA==", "12345"] {
            assert_eq!(send(&world, "ann", text), "precondition_failed", "{way:?}: {text}");
        }
        assert_eq!(send(&world, "ann", "to someone else"), "committed", "{way:?}");
        assert_eq!(send(&world, "ben", IBAN), "committed", "{way:?}: it was shown to ann");
        let split = json!({"text": "DE125001051706", "more": "48489890"});
        assert_eq!(world.act("ann", None, "send", split), "precondition_failed", "{way:?}");
        world.audit();
    }
}

#[test]
fn the_entry_says_what_was_found_and_another_session_changes_nothing() {
    let world = World::new();
    let opened_before = world.session("ann");
    world.shown("ann", Some(opened_before), Way::Observes);
    let opened_after = world.session("ann");
    for session in [None, Some(opened_before), Some(opened_after), Some(SessionId(9_999))] {
        let params = json!({"text": IBAN, "more": "nothing"});
        assert_eq!(world.act("ann", session, "send", params), "precondition_failed", "{session:?}");
        let entry = world.gate.read_log(world.position() - 1).unwrap().decode().unwrap();
        let Event::Action(decided) = entry.event else { panic!() };
        let found: Vec<_> = decided.action.tainted.iter().map(|(param, labels)| (param.as_str(), labels.len())).collect();
        assert_eq!(found, [("text", 1)]);
    }
    world.audit();
}

#[test]
fn what_a_trusted_source_says_too_is_clean_unless_it_was_asked_with_it() {
    let world = World::new();
    world.gate.call(feed("Contact::\"bob\"", &json!({"iban": IBAN}).to_string())).unwrap();
    world.gate.call(feed(&format!("Contact::\"{IBAN}\""), &json!({"iban": IBAN}).to_string())).unwrap();
    world.shown("ann", None, Way::Observes);
    world.gate.observe("ann".parse().unwrap(), vec![format!("Contact::\"{IBAN}\"").parse().unwrap()]).unwrap();
    assert_eq!(send(&world, "ann", IBAN), "precondition_failed");
    world.gate.observe("ann".parse().unwrap(), vec!["Contact::\"bob\"".parse().unwrap()]).unwrap();
    assert_eq!(send(&world, "ann", IBAN), "committed");
    assert_eq!(send(&world, "ann", "12345"), "precondition_failed");
    world.audit();
}

#[test]
fn what_is_not_known_any_more_after_a_restart_counts_as_carried_for_a_day() {
    let mut world = World::new();
    world.shown("ann", None, Way::Observes);
    let World { gate, dir, clock, .. } = world;
    gate.close().unwrap();
    let (gate, _) = Gate::open(on_folder_by(dir.path(), Arc::clone(&clock) as _), Options::new(ORIGIN)).unwrap();
    world = World { gate, dir, clock, keys: 1_000.into() };
    assert_eq!(send(&world, "ann", "to someone else"), "precondition_failed");
    assert_eq!(send(&world, "ben", "to someone else"), "committed");
    world.pass(DAY_MS + 2 * 60 * 60 * 1000);
    assert_eq!(send(&world, "ann", "to someone else"), "committed");
    world.audit();
}

#[test]
fn an_endorsement_takes_a_label_off_an_attribute_and_is_an_entry() {
    let world = World::new();
    world.shown("ann", None, Way::Observes);
    world.write("ann", "note", "please pay");
    let labels = |world: &World| {
        let fact = world.gate.fact(&"Account::\"1\"".parse().unwrap()).unwrap();
        fact.labels.iter().flat_map(|own| own.values().map(std::collections::BTreeSet::len)).collect::<Vec<_>>()
    };
    assert_eq!(labels(&world), [1]);
    let before = world.position();
    assert_eq!(world.act("ben", None, "endorse", json!({})), "committed");
    assert_eq!((labels(&world), world.position()), (vec![0], before + 1));
    world.gate.observe("ben".parse().unwrap(), vec!["Account::\"1\"".parse().unwrap()]).unwrap();
    assert_eq!(world.pay("ben", None), "committed");
    world.audit();
}

#[test]
fn what_a_refusal_quotes_is_found_and_what_a_gateway_passes_on_counts_as_carried() {
    let world = World::new();
    world.shown("ann", None, Way::IsRefused);
    assert_eq!(send(&world, "ann", IBAN), "precondition_failed");
    assert_eq!(send(&world, "ann", "to someone else"), "committed");
    // The gate does not see what the tool answers.
    world.shown("ann", None, Way::UsesATool);
    assert_eq!(send(&world, "ann", "to someone else"), "precondition_failed");
    assert_eq!(send(&world, "ben", "to someone else"), "committed");
    world.audit();
}
