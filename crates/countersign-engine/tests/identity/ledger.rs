//! Signed entries in the log: folded, audited and verified again from what they keep.

use crate::identity::world::*;
use countersign_core::record::{Kind, Leaf};
use countersign_engine::audit::audit;
use countersign_engine::identity::stored::{Checked, check};
use countersign_engine::storage::disk::RealDisk;
use serde_json::{Value as Json, json};

#[test]
fn a_log_begins_with_its_first_admin() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path());
    assert!(world.gate.view().whole_state().is_identified());
    let entry = world.gate.read_log(1).unwrap();
    let leaf: Json = serde_json::from_slice(&entry.leaf).unwrap();
    assert_eq!((&leaf["by"], &leaf["kind"], &leaf["auth"]), (&json!("countersign"), &json!("feed"), &json!("none")));
    let payload: Json = serde_json::from_slice(&entry.payload.unwrap()).unwrap();
    assert_eq!(payload["writes"][0]["fact"], "Operator::\"admin\"");
    assert_eq!(
        payload["writes"][0]["value"],
        json!({
            "key": name_of(&admin_key()).as_str(), "standing": "active",
            "roles": ["admin", "auditor", "feeder", "publisher", "reviewer"],
        })
    );
}

#[test]
fn signed_entries_fold_audit_and_verify_again() {
    let dir = tempfile::tempdir().unwrap();
    let World { gate, clock } = World::open(dir.path());
    let world = World { gate, clock };
    world.furnish();
    assert_eq!(world.act("refund-1", &key(1)), "committed");
    world.feed("Agent::\"refund-1\"", Some(agent(&key(2)))).unwrap();
    assert_eq!(world.act("refund-1", &key(2)), "committed");
    assert_eq!(world.act("refund-1", &admin_key()), "key_not_current");
    let World { gate, clock } = world;
    let position = gate.view().position;
    let mut signed = 0;
    for index in 0..position {
        let entry = gate.read_log(index).unwrap();
        let leaf = Leaf::decode(&entry.leaf).unwrap();
        let payload = entry.payload.unwrap();
        let canonical = {
            let mut out = countersign_core::canonical::Canonical::new();
            out.json(&serde_json::from_slice(&payload).unwrap());
            out.into_string()
        };
        assert_eq!(String::from_utf8(payload.clone()).unwrap(), canonical, "entry {index} is canonical");
        signed += u64::from(check(&leaf, &payload, ORIGIN).unwrap() == Checked::Verified);
        // A signature made for this gate is none for another.
        assert_eq!(check(&leaf, &payload, "other.test/log").is_err(), leaf.is_signed().unwrap());
    }
    assert_eq!(signed, position - 2, "all but genesis and the first admin");
    let log_key = gate.log_key();
    gate.close().unwrap();
    let report = audit(&RealDisk::open(dir.path()).unwrap(), &log_key, &mut |_| ()).unwrap();
    assert_eq!((report.verified, report.differing), (position, Vec::new()));
    let gate = open(dir.path(), &clock);
    let held = gate.view().whole_state().keys().holder(&name_of(&key(2))).cloned();
    assert_eq!(held.unwrap().name, id("refund-1"));
    assert!(gate.view().whole_state().keys().holder(&name_of(&key(1))).is_none());
    // The same from a snapshot.
    gate.snapshot().unwrap();
    gate.close().unwrap();
    let gate = open(dir.path(), &clock);
    assert!(gate.view().whole_state().is_identified());
    assert_eq!(gate.view().whole_state().keys().admins().len(), 1);
    assert_eq!(gate.view().whole_state().keys().holder(&name_of(&key(2))).unwrap().name, id("refund-1"));
}

#[test]
fn what_a_gateway_signs_for_an_agent_is_never_said_to_be_the_agents() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path());
    world.furnish();
    let held = |held_by: &str| {
        let mut value = agent(&key(1));
        value["held_by"] = json!(held_by);
        value
    };
    assert_eq!(world.act("refund-1", &key(1)), "committed");
    // Admitted while the key was the agent's own, ordered after it went to a gateway: the order counts.
    let admitted = world.admit("refund-1", &key(1));
    world.feed("Agent::\"refund-1\"", Some(held("gateway"))).unwrap();
    assert_eq!(verdict(world.gate.call(admitted).unwrap()), "committed");
    assert_eq!(world.act("refund-1", &key(1)), "committed");
    world.feed("Agent::\"refund-1\"", Some(agent(&key(1)))).unwrap();
    assert_eq!(world.act("refund-1", &key(1)), "committed");
    let refused = world.feed("Agent::\"refund-1\"", Some(held("a friend"))).unwrap_err();
    assert!(refused.to_string().contains("`held_by` is `gateway` or left out"), "{refused}");
    let World { gate, .. } = world;
    let mut said = Vec::new();
    for index in 0..gate.view().position {
        let entry = gate.read_log(index).unwrap();
        let leaf = Leaf::decode(&entry.leaf).unwrap();
        let payload = entry.payload.unwrap();
        let checked = check(&leaf, &payload, ORIGIN).unwrap();
        assert_eq!(checked == Checked::VerifiedOfGateway, leaf.auth == "gateway");
        if leaf.kind == Kind::Action {
            said.push(leaf.auth.clone());
        }
        // Verified like every other: altered, it does not stand.
        if leaf.auth == "gateway" {
            let mut altered: Json = serde_json::from_slice(&payload).unwrap();
            altered["signed"]["path"] = json!("/v1/other");
            check(&leaf, altered.to_string().as_bytes(), ORIGIN).unwrap_err();
        }
    }
    assert_eq!(said, ["signature", "gateway", "gateway", "signature"]);
    let (position, log_key) = (gate.view().position, gate.log_key());
    gate.close().unwrap();
    let report = audit(&RealDisk::open(dir.path()).unwrap(), &log_key, &mut |_| ()).unwrap();
    assert_eq!((report.verified, report.differing), (position, Vec::new()));
}
