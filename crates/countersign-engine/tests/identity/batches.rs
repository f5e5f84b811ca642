//! Several actions under one signature, in a gate where everyone signs.

use crate::identity::world::*;
use countersign_core::body::RawBody;
use countersign_core::code::Code;
use countersign_core::decision::Verdict;
use countersign_core::identity::{Auth, BatchDigests};
use countersign_core::ids::Digest;
use countersign_core::record::{Entry, Event, Kind, Leaf};
use countersign_engine::audit::{AuditReport, audit};
use countersign_engine::gate::{BatchError, Gate};
use countersign_engine::identity::stored::{Checked, Signatures};
use countersign_engine::request::{Answer, Refusal, Request};
use countersign_engine::storage::disk::RealDisk;
use countersign_signature::{self as signature, BATCH_PATH, Presented, Signable, SignatureError, Wire};
use ed25519_dalek::SigningKey;
use serde_json::json;
use std::path::Path;

/// A refund of this amount under this key.
fn body(key: &str, amount: i64) -> RawBody {
    let body = json!({
        "pact": "billing", "action": "refund", "idempotency_key": format!("{key:0>22}"),
        "params": {"account": "42", "amount": amount},
    });
    RawBody::from(body.to_string())
}

fn sent(bodies: &[RawBody]) -> String {
    let bodies: Vec<&str> = bodies.iter().map(|body| &**body).collect();
    format!("[{}]", bodies.join(","))
}

/// A batch as it comes off the wire: `listed` is what the header says its actions are.
fn present(
    world: &World,
    key: &SigningKey,
    bodies: &[RawBody],
    listed: &[RawBody],
    atomic: bool,
) -> Result<Presented, SignatureError> {
    let text = sent(bodies);
    let ids: Vec<Digest> = listed.iter().map(RawBody::digest).collect();
    let (method, authority, path) = ("POST", "gate.test", BATCH_PATH);
    let (query, actions) = (atomic.then_some("atomic=true"), Some(BatchDigests::of_actions(&ids)));
    let request = Signable { method, authority, path, query, if_match: None, actions, body: &text };
    let headers = signature::sign(key, &request, ORIGIN, world.clock.now_s(), &nonce()).unwrap();
    let wire = Wire {
        method,
        authority,
        path,
        query,
        if_match: None,
        actions: headers.actions.as_deref(),
        body: &text,
        content_digest: headers.content_digest.as_deref(),
        input: Some(&headers.input),
        signature: Some(&headers.signature),
    };
    signature::parse(&wire, ORIGIN)
}

fn auth_of(world: &World, bodies: &[RawBody], atomic: bool) -> Auth {
    world.gate.authenticate(present(world, &key(1), bodies, bodies, atomic).unwrap()).unwrap().auth
}

/// Sends a batch, and answers with each verdict in one word.
fn send(world: &World, bodies: &[RawBody], atomic: bool) -> Vec<String> {
    let auth = auth_of(world, bodies, atomic);
    let admitted = world.gate.admit_many(id("refund-1"), auth, bodies, atomic).unwrap();
    assert!(admitted.refused.is_empty());
    match world.gate.call(Request::ActMany(admitted.many)).unwrap() {
        Answer::Many(answers) => answers.into_iter().map(word).collect(),
        Answer::Entered(entered) => {
            let Event::Group(group) = &entered.entry.event else { panic!("{:?}", entered.entry) };
            vec![format!("{} of {}", group.decision.blocked().unwrap().code(), group.failed + 1)]
        }
        other => panic!("{other:?}"),
    }
}

fn word(answer: Result<Answer, Refusal>) -> String {
    match answer {
        Ok(Answer::Entered(entered)) => {
            let Event::Action(decided) = &entered.entry.event else { panic!("{:?}", entered.entry) };
            match &decided.decision.verdict {
                Verdict::Rejected(blocked) => blocked.code().to_string(),
                other => format!("{} {}", other.as_str(), entered.entry.index),
            }
        }
        Ok(Answer::Repeated(entry)) => format!("repeated {entry}"),
        Err(Refusal::KeyReused(entry)) => format!("reused {entry}"),
        other => panic!("{other:?}"),
    }
}

fn entries(gate: &Gate) -> Vec<Entry> {
    (0..gate.view().position).map(|index| gate.read_log(index).unwrap().decode().unwrap()).collect()
}

fn kinds(gate: &Gate, from: u64) -> Vec<Kind> {
    entries(gate).iter().skip(usize::try_from(from).unwrap()).map(|entry| entry.event.kind()).collect()
}

fn balance(gate: &Gate) -> i64 {
    let view = gate.view();
    let fact = view.whole_state().facts.get(&"Account::\"42\"".parse().unwrap()).unwrap().value.clone();
    fact.unwrap().to_json()["balance"].as_i64().unwrap()
}

/// Closes the gate and audits the log; every signature is verified as well.
fn judged(world: World, dir: &Path) -> AuditReport {
    let log_key = world.gate.log_key();
    let mut signatures = Signatures::default();
    for index in 0..world.gate.view().position {
        let stored = world.gate.read_log(index).unwrap();
        let leaf = Leaf::decode(&stored.leaf).unwrap();
        let checked = signatures.check(&leaf, stored.payload.as_deref(), ORIGIN).unwrap();
        let is_erased = stored.payload.is_none() && leaf.batch.is_none();
        assert_eq!(checked == Checked::Verified, leaf.auth.is_signed() && !is_erased, "entry {index}");
    }
    world.gate.close().unwrap();
    audit(&RealDisk::open(dir).unwrap(), &log_key, &mut |_| ()).unwrap()
}

fn furnished(dir: &Path) -> World {
    let world = World::open(dir);
    world.furnish();
    world
}

#[test]
fn a_batch_keeps_one_signature_for_all_and_each_action_is_decided_on_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let world = furnished(dir.path());
    let start = world.gate.view().position;
    let bodies = [body("a", 1), body("b", 900_000), body("c", 2)];
    let first = start + 1;
    let told = send(&world, &bodies, false);
    assert_eq!(told, [format!("committed {first}"), "invalid_params".to_owned(), format!("committed {}", first + 2)]);
    assert_eq!(kinds(&world.gate, start), [Kind::Batch, Kind::Action, Kind::Action, Kind::Action]);
    assert_eq!(balance(&world.gate), 900_000 - 3);
    for entry in entries(&world.gate).iter().skip(usize::try_from(first).unwrap()) {
        assert_eq!((entry.event.batch(), entry.auth.key()), (Some(start), Some(&name_of(&key(1)))));
        assert!(entry.auth.signed().is_none(), "the signature is in the entry of the batch, and nowhere else");
    }
    let report = judged(world, dir.path());
    assert_eq!((report.differing, report.unverifiable.len()), (Vec::new(), 0));
}

#[test]
fn a_batch_sent_again_in_whole_or_in_part_does_nothing_twice() {
    let dir = tempfile::tempdir().unwrap();
    let world = furnished(dir.path());
    let start = world.gate.view().position;
    let bodies = [body("a", 1), body("b", 2)];
    assert_eq!(send(&world, &bodies, false), [format!("committed {}", start + 1), format!("committed {}", start + 2)]);
    let position = world.gate.view().position;
    let again = [format!("repeated {}", start + 1), format!("repeated {}", start + 2)];
    assert_eq!(send(&world, &bodies, false), again);
    assert_eq!(world.gate.view().position, position, "not even an entry for the batch");
    // In part, with another body under a key, and with one body twice.
    let mixed = [bodies[1].clone(), body("a", 7), body("c", 3), body("c", 3), body("c", 4)];
    let new = position + 1;
    assert_eq!(
        send(&world, &mixed, false),
        [
            format!("repeated {}", start + 2),
            format!("reused {}", start + 1),
            format!("committed {new}"),
            format!("repeated {new}"),
            format!("reused {new}"),
        ]
    );
    assert_eq!(balance(&world.gate), 900_000 - 6);
    // The same after a restart, when keys are rebuilt from the log.
    let World { gate, clock } = world;
    gate.close().unwrap();
    let world = World { gate: open(dir.path(), &clock), clock };
    assert_eq!(send(&world, &bodies, false), again);
    assert_eq!(balance(&world.gate), 900_000 - 6);
    assert_eq!(judged(world, dir.path()).differing, []);
}

#[test]
fn a_group_commits_as_a_whole_or_leaves_one_entry_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let world = furnished(dir.path());
    let start = world.gate.view().position;
    let good = [body("a", 1), body("b", 2)];
    assert_eq!(send(&world, &good, true), [format!("committed {}", start + 1), format!("committed {}", start + 2)]);
    let before = world.gate.view().position;
    let bad = [body("c", 3), body("d", 900_000), body("e", 5)];
    assert_eq!(send(&world, &bad, true), ["invalid_params of 2"]);
    assert_eq!((kinds(&world.gate, before), balance(&world.gate)), (vec![Kind::Group], 900_000 - 3));
    // Sent again, both answer as they did; the keys of a rejected group are used.
    assert_eq!(send(&world, &good, true), [format!("repeated {}", start + 1), format!("repeated {}", start + 2)]);
    assert_eq!(send(&world, &bad, true), vec![format!("repeated {before}"); 3]);
    assert_eq!(send(&world, &bad[2..], false), [format!("repeated {before}")], "alone, too");
    let World { gate, clock } = world;
    gate.close().unwrap();
    let world = World { gate: open(dir.path(), &clock), clock };
    assert_eq!(send(&world, &bad, true), vec![format!("repeated {before}"); 3], "also after a restart");
    let report = judged(world, dir.path());
    assert_eq!((report.differing, report.unverifiable.len()), (Vec::new(), 0));
}

#[test]
fn a_group_of_which_a_part_is_known_is_not_decided() {
    let dir = tempfile::tempdir().unwrap();
    let world = furnished(dir.path());
    let alone = [body("a", 1)];
    send(&world, &alone, false);
    let position = world.gate.view().position;
    for group in [[alone[0].clone(), body("b", 2)], [body("b", 2), alone[0].clone()]] {
        let auth = auth_of(&world, &group, true);
        let admitted = world.gate.admit_many(id("refund-1"), auth, &group, true).unwrap();
        let refused = world.gate.call(Request::ActMany(admitted.many)).unwrap_err();
        assert!(matches!(refused, Refusal::GroupRepeats { .. }), "{refused}");
    }
    let other = [body("a", 9), body("b", 2)];
    let admitted = world.gate.admit_many(id("refund-1"), auth_of(&world, &other, true), &other, true).unwrap();
    let refused = world.gate.call(Request::ActMany(admitted.many)).unwrap_err();
    assert!(matches!(refused, Refusal::KeyReused(_)), "{refused}");
    assert_eq!((world.gate.view().position, balance(&world.gate)), (position, 900_000 - 1));
}

#[test]
fn attack_a_batch_is_not_the_one_that_was_signed() {
    let dir = tempfile::tempdir().unwrap();
    let world = furnished(dir.path());
    let position = world.gate.view().position;
    let (a, b, c) = (body("a", 1), body("b", 2), body("c", 3));
    let signed = [a.clone(), b.clone()];
    // Whoever has the agent's key signs a header that is not about the body; the gate wants both to be the same.
    for (what, bodies) in [
        ("reordered", vec![b.clone(), a.clone()]),
        ("cut", vec![a.clone()]),
        ("one replaced", vec![a.clone(), c.clone()]),
        ("one added", vec![a.clone(), b.clone(), c.clone()]),
    ] {
        let auth = world.gate.authenticate(present(&world, &key(1), &bodies, &signed, false).unwrap()).unwrap().auth;
        let refused = world.gate.admit_many(id("refund-1"), auth, &bodies, false).unwrap_err();
        assert_eq!(refused, BatchError::OtherActions, "{what}");
    }
    // A good signature over something else is none over this.
    let single = world.auth(&key(1), &a);
    assert_eq!(
        world.gate.admit_many(id("refund-1"), single, std::slice::from_ref(&a), false).unwrap_err(),
        BatchError::Unlisted
    );
    let replayed = present(&world, &key(1), &signed, &signed, false).unwrap();
    world.gate.authenticate(replayed.clone()).unwrap();
    assert_eq!(code(world.gate.authenticate(replayed)), "signature_replayed");
    assert_eq!((world.gate.view().position, balance(&world.gate)), (position, 900_000));
}

#[test]
fn sizes_are_bounded_and_none_is_no_batch() {
    let dir = tempfile::tempdir().unwrap();
    let world = furnished(dir.path());
    let many: Vec<RawBody> = (0..257).map(|number| body(&format!("k{number}"), 1)).collect();
    let refused = |bodies: &[RawBody], atomic| {
        let auth = auth_of(&world, bodies, atomic);
        world.gate.admit_many(id("refund-1"), auth, bodies, atomic).unwrap_err()
    };
    assert_eq!(refused(&many, false), BatchError::TooMany { count: 257, most: 256 });
    assert_eq!(refused(&many[..33], true), BatchError::TooMany { count: 33, most: 32 });
    assert_eq!(refused(&[], false), BatchError::Empty);
    let twice = [many[0].clone(), many[1].clone(), many[0].clone()];
    assert_eq!(refused(&twice, true), BatchError::Twice { first: 1, second: 3 });
    assert_eq!(send(&world, &many[..256], false).len(), 256);
    assert_eq!(send(&world, &[body("x", 1), body("y", 1)], true).len(), 2);
    assert_eq!(balance(&world.gate), 900_000 - 258);
    let report = judged(world, dir.path());
    assert_eq!((report.differing, report.unverifiable.len()), (Vec::new(), 0));
}

#[test]
fn who_is_halted_revoked_or_lost_its_key_gets_nothing_through_in_a_batch_either() {
    let dir = tempfile::tempdir().unwrap();
    let world = furnished(dir.path());
    let admit = |name: &str, atomic| {
        let bodies = [body(&format!("{name}-1"), 1), body(&format!("{name}-2"), 1)];
        let auth = auth_of(&world, &bodies, atomic);
        Request::ActMany(world.gate.admit_many(id("refund-1"), auth, &bodies, atomic).unwrap().many)
    };
    let ordered = |before: &dyn Fn()| -> Vec<String> {
        // Admitted while all is well, ordered after it no longer is.
        let requests = [admit(&nonce(), false), admit(&nonce(), true)];
        before();
        let mut told = Vec::new();
        for request in requests {
            match world.gate.call(request).unwrap() {
                Answer::Many(answers) => told.extend(answers.into_iter().map(word)),
                Answer::Entered(entered) => {
                    told.push(entered.entry.event.decision().unwrap().blocked().unwrap().code().to_string());
                }
                other => panic!("{other:?}"),
            }
        }
        told
    };
    let halt = |on: bool| {
        let (path, scope) = (if on { "/v1/halts" } else { "/v1/halts/resume" }, "agent:refund-1".parse().unwrap());
        let body = json!({"scope": "agent:refund-1", "reason": "a test"}).to_string();
        let (by, auth) = (id("admin"), world.auth_to("POST", path, &admin_key(), &body));
        let reason = "a test".into();
        let request = match on {
            true => Request::Halt { by, auth, scope, reason },
            false => Request::Resume { by, auth, scope, reason },
        };
        world.gate.call(request).unwrap();
    };
    assert_eq!(ordered(&|| halt(true)), [Code::Halted.as_str(); 3]);
    halt(false);
    let rotate = || drop(world.feed("Agent::\"refund-1\"", Some(agent(&key(2)))).unwrap());
    assert_eq!(ordered(&rotate), [Code::KeyNotCurrent.as_str(); 3]);
    world.feed("Agent::\"refund-1\"", Some(agent(&key(1)))).unwrap();
    let revoke = || {
        let mut revoked = agent(&key(1));
        revoked["standing"] = json!("revoked");
        drop(world.feed("Agent::\"refund-1\"", Some(revoked)).unwrap());
    };
    assert_eq!(ordered(&revoke), [Code::AgentNotActive.as_str(); 3]);
    assert_eq!(balance(&world.gate), 900_000, "nothing of it was done");
    assert_eq!(judged(world, dir.path()).differing, []);
}

#[test]
fn one_action_of_a_batch_is_erased_alone_and_its_signature_still_verifies() {
    let dir = tempfile::tempdir().unwrap();
    let world = furnished(dir.path());
    let start = world.gate.view().position;
    send(&world, &[body("a", 1), body("b", 2), body("c", 3)], false);
    send(&world, &[body("d", 900_000), body("e", 1)], true);
    let (batch, second, group) = (start, start + 2, start + 4);
    let erase = |entries: &[u64]| {
        let body = json!({"entries": entries, "reason": "asked for"}).to_string();
        let auth = world.auth_to("POST", "/v1/ledger/erasures", &admin_key(), &body);
        world.gate.erase(id("admin"), auth, entries, "asked for".into())
    };
    // Found by a fact that only a parameter of a rejected group names.
    let named = world.gate.erase_plan(&"Account::\"42\"".parse().unwrap()).unwrap();
    assert!(named.entries.contains(&group), "{named:?}");
    let kept = erase(&[batch]).unwrap_err().to_string();
    assert!(kept.contains("signature of a batch"), "{kept}");
    erase(&[second, group]).unwrap();
    for gone in [second, group] {
        assert!(world.gate.read_log(gone).unwrap().payload.is_none());
    }
    // `judged` verifies the signature of the erased action through its batch. Keys of both are still known.
    assert_eq!(send(&world, &[body("b", 2)], false), [format!("repeated {second}")]);
    assert_eq!(send(&world, &[body("d", 900_000), body("e", 1)], true), vec![format!("repeated {group}"); 2]);
    let report = judged(world, dir.path());
    assert_eq!(report.differing, []);
}
