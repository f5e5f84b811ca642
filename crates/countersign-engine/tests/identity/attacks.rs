//! Attacks that the engine must turn away, each by name.

use crate::identity::world::*;
use countersign_core::identity::Auth;
use countersign_core::ids::Digest;
use countersign_engine::identity::{AGE_MAX_S, AHEAD_MAX_S};
use countersign_engine::request::Request;
use serde_json::json;

#[test]
fn a_stolen_id_without_its_key_is_worth_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path());
    world.furnish();
    assert_eq!(world.act("refund-1", &key(1)), "committed");
    // Nobody is registered with the thief's key.
    assert_eq!(code(world.authenticate(&key(66), &refund())), "key_unknown");
    // The thief is an agent itself, and names another as the one who acts.
    world.feed("Agent::\"thief\"", Some(agent(&key(66)))).unwrap();
    assert_eq!(world.act("refund-1", &key(66)), "key_not_current");
    // The thief names the key of the other and signs with its own.
    let mut presented = sign(&key(66), &refund(), world.clock.now_s(), &nonce());
    presented.signed.key = name_of(&key(1));
    assert_eq!(code(world.gate.authenticate(presented)), "signature_invalid");
    // The thief does not sign at all.
    let action = world.gate.admit(id("refund-1"), Auth::None, refund().into()).unwrap();
    assert_eq!(verdict(world.gate.call(Request::Act(Box::new(action))).unwrap()), "not_authenticated");
    // An operator's key does not make an agent.
    assert_eq!(world.act("refund-1", &admin_key()), "key_not_current");
    assert_eq!(world.act("admin", &admin_key()), "unknown_agent");
}

#[test]
fn an_altered_body_with_the_old_signature_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path());
    world.furnish();
    let mut presented = sign(&key(1), &refund(), world.clock.now_s(), &nonce());
    presented.signed.body = Some(refund().into());
    assert_eq!(code(world.gate.authenticate(presented)), "signature_invalid");
}

#[test]
fn an_action_does_not_get_the_id_of_another_body_that_was_signed() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path());
    world.furnish();
    let (signed, sent) = (refund(), refund());
    let own = world.gate.admit(id("refund-1"), world.auth(&key(1), &signed), signed.as_str().into()).unwrap();
    assert_eq!((own.id, own.auth.signed().unwrap().body.is_none()), (Digest::of(signed.as_bytes()), true));
    let other = world.gate.admit(id("refund-1"), world.auth(&key(1), &signed), sent.as_str().into()).unwrap();
    // The body that was signed is kept beside it, where an audit finds it.
    assert_eq!((other.id, &*other.body), (Digest::of(sent.as_bytes()), sent.as_str()));
    assert_eq!(other.auth.signed().unwrap().body.as_deref(), Some(signed.as_str()));
}

#[test]
fn a_signature_counts_once_and_only_while_it_is_fresh() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path());
    world.furnish();
    let presented = sign(&key(1), &refund(), world.clock.now_s(), &nonce());
    assert_eq!(code(world.gate.authenticate(presented.clone())), "ok");
    for _ in 0..=AGE_MAX_S {
        assert_eq!(code(world.gate.authenticate(presented.clone())), "signature_replayed");
        world.clock.pass(1000);
    }
    assert_eq!(code(world.gate.authenticate(presented)), "signature_expired");
    let at = |created_s| code(world.gate.authenticate(sign(&key(1), &refund(), created_s, &nonce())));
    let now_s = world.clock.now_s();
    assert_eq!(at(now_s - AGE_MAX_S), "ok");
    assert_eq!(at(now_s - AGE_MAX_S - 1), "signature_expired");
    assert_eq!(at(now_s + AHEAD_MAX_S), "ok");
    assert_eq!(at(now_s + AHEAD_MAX_S + 1), "signature_expired");
}

/// What can befall an agent's keys or standing, and the verdict for whoever signed with the old key.
type Blow = (&'static str, serde_json::Value, &'static str);

fn blows() -> Vec<Blow> {
    let revoked = |standing: &str| {
        let mut value = agent(&key(1));
        value["standing"] = json!(standing);
        value
    };
    vec![
        ("revoked", revoked("revoked"), "agent_not_active"),
        ("quarantined", revoked("quarantined"), "agent_not_active"),
        ("rotated", agent(&key(2)), "key_not_current"),
    ]
}

/// The steps of a workflow between which the blow falls.
const STEPS: usize = 7;

#[test]
fn the_key_of_a_revoked_agent_is_worth_nothing_from_the_next_commit_on() {
    for (what, value, code) in blows() {
        for at in 0..=STEPS {
            let dir = tempfile::tempdir().unwrap();
            let world = World::open(dir.path());
            world.furnish();
            let noise = || {
                let value = json!({"status": "active", "balance": 900_000});
                world.feed("Account::\"42\"", Some(value)).unwrap();
            };
            let blow = |step: usize| {
                if step == at {
                    world.feed("Agent::\"refund-1\"", Some(value.clone())).unwrap();
                }
            };
            // Signed before the blow, wherever it falls: the signature is good, and was made by the one it names.
            let (signer, body) = (key(1), refund());
            let presented = sign(&signer, &body, world.clock.now_s(), &nonce());
            blow(0);
            let authenticated = world.gate.authenticate(presented);
            let Ok(authenticated) = authenticated else {
                // A key that was replaced is not even known any more.
                assert_eq!((what, at), ("rotated", 0));
                continue;
            };
            blow(1);
            let admitted = world.gate.admit(id("refund-1"), authenticated.auth, body.into());
            let Ok(action) = admitted else {
                // Refused at the door: the ledger gets a count of it, and no entry.
                assert!(at <= 1 && code == "agent_not_active", "{what} at step {at}");
                continue;
            };
            blow(2);
            noise();
            blow(3);
            noise();
            blow(4);
            noise();
            blow(5);
            let submitted = world.gate.call(Request::Act(Box::new(action))).unwrap();
            let expected = if at <= 5 { code } else { "committed" };
            assert_eq!(verdict(submitted), expected, "{what} at step {at}");
            blow(6);
            blow(STEPS);
            if what != "rotated" {
                assert_eq!(world.act("refund-1", &key(1)), code, "{what} at step {at}, and again");
            }
        }
    }
}

#[test]
fn a_rotated_key_is_good_until_its_overlap_ends_and_not_a_moment_longer() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path());
    world.furnish();
    let overlap_ms = 30_000;
    let until = START_MS + overlap_ms;
    let mut value = agent(&key(2));
    value["old_key"] = json!(name_of(&key(1)).as_str());
    value["old_key_until"] = json!(until);
    world.feed("Agent::\"refund-1\"", Some(value)).unwrap();
    assert_eq!(world.act("refund-1", &key(1)), "committed");
    assert_eq!(world.act("refund-1", &key(2)), "committed");
    world.clock.pass(overlap_ms - 1);
    assert_eq!(world.act("refund-1", &key(1)), "committed");
    let admitted_in_time = world.admit("refund-1", &key(1));
    world.clock.pass(1);
    assert_eq!(verdict(world.gate.call(admitted_in_time).unwrap()), "key_not_current");
    assert_eq!(code(world.authenticate(&key(1), &refund())), "key_unknown");
    assert_eq!(world.act("refund-1", &key(2)), "committed");
}
