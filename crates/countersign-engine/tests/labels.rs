//! Where content comes from: an agent that is shown labelled content has the label, whichever way it is shown and whatever it does next.

mod facts;
mod tainted;
mod world;

use self::world::{ALL_WAYS, DAY_MS, World};
use countersign_core::record::{Event, Kind};
use countersign_core::session::SessionId;
use countersign_engine::gate::{Gate, Options};
use countersign_engine::request::Request;
use countersign_testing::gate::{ORIGIN, on_folder_by};
use std::sync::Arc;

#[test]
fn whoever_is_shown_labelled_content_has_the_label_and_an_entry_says_so_first() {
    for way in ALL_WAYS {
        let world = World::new();
        assert_eq!(world.pay("ann", None), "committed", "{way:?}: clean so far");
        world.gate.observe("ann".parse().unwrap(), vec!["Account::\"1\"".parse().unwrap()]).unwrap();
        assert_eq!(world.pay("ann", None), "committed", "{way:?}: what is not labelled labels no one");
        let before = world.position();
        world.shown("ann", None, *way);
        let labelled: Vec<_> = (before..world.position()).filter(|entry| !world.labels_in(*entry).is_empty()).collect();
        assert_eq!(labelled.len(), 1, "{way:?}: one entry says so");
        assert_eq!(world.leaf(labelled[0]).by.as_str(), "ann", "{way:?}");
        assert_eq!(world.labels_in(labelled[0]), ["untrusted"], "{way:?}");
        assert_eq!(world.pay("ann", None), "precondition_failed", "{way:?}");
        assert_eq!(world.pay("ben", None), "committed", "{way:?}: no one else was shown it");
        // Shown again, it says nothing new.
        let before = world.position();
        world.shown("ann", None, *way);
        let says = (before..world.position()).any(|entry| !world.labels_in(entry).is_empty());
        assert!(!says, "{way:?}: the label does not grow");
        world.audit();
    }
}

#[test]
fn an_agent_does_not_get_rid_of_a_label_by_another_session_or_none() {
    for way in ALL_WAYS {
        let world = World::new();
        let (opened_before, shown_in) = (world.session("ann"), world.session("ann"));
        assert_eq!(world.pay("ann", Some(opened_before)), "committed");
        world.shown("ann", Some(shown_in), *way);
        let opened_after = world.session("ann");
        let not_there = SessionId(9_999);
        let of_another = world.session("ben");
        for session in
            [None, Some(opened_before), Some(shown_in), Some(opened_after), Some(not_there), Some(of_another)]
        {
            assert_eq!(world.pay("ann", session), "precondition_failed", "{way:?} {session:?}");
        }
        assert_eq!(world.pay("ben", Some(of_another)), "committed", "{way:?}");
        world.close("ann", shown_in);
        assert_eq!(world.pay("ann", None), "precondition_failed", "{way:?}: closing a session takes nothing off");
        world.audit();
    }
}

#[test]
fn what_was_shown_counts_for_a_day_and_in_its_session_for_as_long_as_that_is_open() {
    let world = World::new();
    let session = world.session("ann");
    world.shown("ann", Some(session), ALL_WAYS[0]);
    let heir = world.session("ann");
    // Said again only after a while, so that it counts for a day from when it was last shown.
    world.pass(DAY_MS - 1);
    world.shown("ann", None, ALL_WAYS[0]);
    world.pass(DAY_MS - 1);
    assert_eq!(world.pay("ann", None), "precondition_failed");
    world.pass(2 * 60 * 60 * 1000);
    assert_eq!(world.pay("ann", None), "committed");
    let later = world.session("ann");
    assert_eq!(world.pay("ann", Some(later)), "committed");
    for session in [session, heir] {
        assert_eq!(world.pay("ann", Some(session)), "precondition_failed");
    }
    world.audit();
}

#[test]
fn labels_are_there_after_a_restart_a_snapshot_and_an_erasure() {
    for (is_snapshot, erases) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut world = World::new();
        let session = world.session("ann");
        world.shown("ann", Some(session), ALL_WAYS[0]);
        world.write("ann", "note", "what it said there");
        if erases {
            let said = (0..world.position()).find(|entry| world.leaf(*entry).kind == Kind::Labels).unwrap();
            world
                .gate
                .erase("operator".parse().unwrap(), countersign_core::identity::Auth::None, &[said], "asked".into())
                .unwrap();
            let stored = world.gate.read_log(said).unwrap();
            assert!(stored.payload.is_none() && matches!(stored.decode().unwrap().event, Event::Erased(_)));
        }
        if is_snapshot {
            world.gate.snapshot().unwrap();
        }
        let World { gate, dir, clock, .. } = world;
        gate.close().unwrap();
        let (gate, report) =
            Gate::open(on_folder_by(dir.path(), Arc::clone(&clock) as _), Options::new(ORIGIN)).unwrap();
        assert!(!is_snapshot || report.snapshot.is_some());
        world = World { gate, dir, clock, keys: 1_000.into() };
        for session in [None, Some(session)] {
            assert_eq!(world.pay("ann", session), "precondition_failed", "{is_snapshot} {erases} {session:?}");
        }
        world.gate.observe("ben".parse().unwrap(), vec!["Account::\"1\"".parse().unwrap()]).unwrap();
        assert_eq!(world.pay("ben", None), "precondition_failed", "{is_snapshot} {erases}: the fact has the label too");
        world.audit();
    }
}

#[test]
fn a_pact_cannot_bring_more_labels_than_a_gate_has_room_for() {
    let world = World::new();
    let declared: Vec<String> = (0..9).map(|at| format!("\"label-{at}\"")).collect();
    let source = |labels: &str| {
        format!(
            "pact = \"more\"\nversion = 1\n[facts.Thing]\nattributes = {{ name = \"String\" }}\nlabels = [{labels}]\n\
             [action.rename]\nresource = 'Thing::\"{{thing}}\"'\nallow = 'true'\nset = {{ name = '\"new\"' }}\n\
             [action.rename.params]\ntype = \"object\"\nadditionalProperties = false\nrequired = [\"thing\"]\n\
             properties.thing = {{ type = \"string\", maxLength = 64 }}\n"
        )
    };
    let refused =
        world.gate.call(countersign_testing::gate::publish(&source(&format!("{}, \"one-more\"", declared.join(", ")))));
    assert!(refused.unwrap_err().to_string().contains("17 names of labels"), "seven every gate has");
    world.gate.call(countersign_testing::gate::publish(&source(&declared.join(", ")))).unwrap();
    // Terms on which a tool is approved name only labels that there are.
    let terms = |label: &str| format!(r#"{{"definition":"d","read_only":true,"labels":["{label}"]}}"#);
    let feed = |label: &str| -> Request { countersign_testing::gate::feed("McpTool::\"web/fetch\"", &terms(label)) };
    let refused = world.gate.call(feed("one-more")).unwrap_err().to_string();
    assert!(refused.contains("no pact declares the label `one-more`"), "{refused}");
    world.gate.call(feed("label-3")).unwrap();
}
