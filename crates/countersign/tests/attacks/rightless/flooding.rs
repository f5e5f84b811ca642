//! Active agents that lack the right to what they ask for, over and over.

use super::{action, bank, code, denied, entries_by};
use crate::attacks::world::{Caller, ORIGIN, World, wait_until};
use serde_json::{Value as Json, json};

/// What the log takes on disk: segments are preallocated, so their blocks say nothing, and what was written is what is not zero.
fn log_bytes(world: &World) -> usize {
    let mut folders = vec![world.path().join("data")];
    let mut bytes = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false if entry.path().extension().is_some_and(|extension| extension == "seg") => {
                    let file = std::fs::read(entry.path()).unwrap();
                    bytes += file.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                }
                false => {}
            }
        }
    }
    bytes
}

/// An action of the bank's with members changed.
fn altered(key: usize, changes: Json) -> String {
    let mut body: Json = serde_json::from_str(&action("bank", "42", key)).unwrap();
    for (name, value) in changes.as_object().unwrap() {
        body[name] = value.clone();
    }
    body.to_string()
}

#[test]
fn an_active_agent_without_a_role_fills_the_ledger_with_refused_actions() {
    let world = bank();
    let stray = world.agent("stray", "none");
    let payer = world.agent("payer-1", "payer");
    let spent = action("bank", "42", 1);
    let before_it_lost_the_role = payer.ask("POST", "/v1/actions", &spent).json;
    assert_eq!(before_it_lost_the_role["verdict"], "committed");
    let (entries, bytes) = (world.entries().len(), log_bytes(&world));
    assert!(bytes > 0, "the log was found");
    let began = std::time::Instant::now();
    let large = "x".repeat(15_000);
    for round in 0..100 {
        let key = 100 + 4 * round;
        // Whatever it asks for, with parameters that fit or do not, of action types that there are or not.
        let refused = stray.ask("POST", "/v1/actions", &action("bank", &large, key));
        assert_eq!(code(&refused), (403, "not_allowed"), "{refused:?}");
        let unfit = stray.ask("POST", "/v1/actions", &altered(key + 1, json!({"params": {"other": large}})));
        assert_eq!(code(&unfit), (403, "not_allowed"), "{unfit:?}");
        let unknown = stray.ask("POST", "/v1/actions", &altered(key + 2, json!({"action": "rob"})));
        assert_eq!(code(&unknown), (422, "unknown_action"), "{unknown:?}");
        let checked = stray.ask("POST", "/v1/actions/check", &action("bank", &large, key + 3));
        assert_eq!(code(&checked), (403, "not_allowed"), "{checked:?}");
    }
    let counted = || (denied(&world, "stray", "not_allowed"), denied(&world, "stray", "unknown_action"));
    wait_until("all are counted", || counted() == (300, 100));
    assert_eq!(entries_by(&world, "stray"), 0, "no entry of its own");
    let (after, seconds) = (world.entries().len() - entries, began.elapsed().as_secs() as usize + 2);
    assert!(after <= seconds, "{after} entries in {seconds} s");
    let grown = log_bytes(&world) - bytes;
    assert!(grown <= 1_500 * seconds, "the log grew by {grown} bytes in {seconds} s");
    let little = payer.ask("POST", "/v1/actions", &altered(5, json!({"action": "close"})));
    assert_eq!(code(&little), (403, "trust_too_low"), "{little:?}");
    // Who may do this gets a verdict and an entry for each, whatever is wrong with it.
    let own = entries_by(&world, "payer-1");
    let unfit = payer.ask("POST", "/v1/actions", &altered(2, json!({"params": {}}))).json;
    let missing = payer.ask("POST", "/v1/actions", &action("bank", "43", 3)).json;
    assert_eq!((&unfit["code"], &missing["code"]), (&json!("invalid_params"), &json!("fact_missing")));
    assert_eq!(entries_by(&world, "payer-1"), own + 2);
    // Who has lost the right is told what came of what it did with it, and may do nothing more.
    let key = world.run_ok(&["key", "show", "payer-1.key"]);
    let fact = json!({"key": key.trim(), "roles": ["none"], "standing": "active", "org": "acme", "trust": 500});
    world.run_ok(&["fact", "put", "Agent", "payer-1", &fact.to_string()]);
    let again = payer.ask("POST", "/v1/actions", &spent).json;
    assert_eq!((&again["repeated"], &again["entry"]), (&json!(true), &before_it_lost_the_role["entry"]), "{again}");
    assert_eq!(code(&payer.ask("POST", "/v1/actions", &action("bank", "42", 4))), (403, "not_allowed"));
    world.run_ok(&["audit", "--data", "data"]);
}

#[test]
fn an_agent_uses_a_delegation_that_is_not_its_own_to_fill_the_ledger() {
    let world = bank();
    world.agent("lead", "payer");
    let (helper, thief) = (world.agent("helper", "none"), world.agent("thief", "none"));
    let did = world.run_ok(&["key", "show", "helper.key"]);
    let words = [
        "delegation",
        "new",
        "--key",
        "lead.key",
        "--as",
        "lead",
        "--gate",
        ORIGIN,
        "--to",
        "helper",
        "--to-key",
        did.trim(),
    ];
    let token = world.run_ok(&[&words[..], &["--any-action", "--expires", "1h"]].concat()).trim().to_owned();
    let delegated =
        |caller: &Caller, key: usize| caller.ask("POST", "/v1/actions", &altered(key, json!({"delegation": token})));
    assert_eq!(delegated(&helper, 1).json["verdict"], "committed");
    for key in 2..22 {
        assert_eq!(code(&delegated(&thief, key)), (400, "delegation_refused"));
    }
    world.run_ok(&["agent", "revoke", "lead"]);
    for key in 22..42 {
        assert_eq!(code(&delegated(&helper, key)), (400, "delegation_refused"));
    }
    let refused = |agent| denied(&world, agent, "delegation_refused");
    wait_until("all are counted", || (refused("thief"), refused("helper")) == (20, 20));
    assert_eq!((entries_by(&world, "thief"), entries_by(&world, "helper")), (0, 1));
    world.run_ok(&["audit", "--data", "data"]);
}
