//! What the holder of the log's key can tell of batches and groups, and what gives it away.

use crate::tamper::folders::{ORIGIN, folder_of, log_key, public, signed_requests};
use crate::tamper::lies::{put, rewrite};
use countersign_core::action::{Action, ActionRequest};
use countersign_core::identity::{Auth, BatchDigests, KeyName, Signed};
use countersign_core::ids::AgentId;
use countersign_core::record::{Entry, Event, Kind, Leaf};
use countersign_engine::audit::audit;
use countersign_engine::fold::walk_options;
use countersign_engine::request::{ActMany, Request};
use countersign_engine::storage::walk;
use countersign_ledger::Frontier;
use countersign_testing::disk::FaultyDisk;
use countersign_testing::folder::verify;
use countersign_testing::identities::signed_batch;
use serde_json::json;
use std::sync::Arc;

fn body(number: u64, account: &str) -> String {
    let key = format!("batch-{number:030}");
    json!({"pact": "bank", "action": "freeze", "params": {"account": account}, "idempotency_key": key}).to_string()
}

fn many(bodies: &[String], atomic: bool, nonce: u64) -> Request {
    let auth = signed_batch(&log_key(51), ORIGIN, bodies, atomic, 1_800_000_000, nonce).unwrap();
    let by = AgentId::new("fraud-1").unwrap();
    let action = |body: &String| {
        let request = ActionRequest::parse(body).unwrap();
        Action::new(by.clone(), auth.of_batch(), body.as_str().into(), request, Vec::new())
    };
    let actions: Vec<Action> = bodies.iter().map(action).collect();
    let ids = actions.iter().map(|action| action.id).collect();
    Request::ActMany(Box::new(ActMany { by, auth: auth.by_digests(), ids, actions, is_atomic: atomic }))
}

/// A batch of two at entry 5, a group of two at 8, a rejected group at 11, then actions that came alone.
fn folder() -> FaultyDisk {
    let mut requests = signed_requests();
    let batches = vec![
        many(&[body(1, "a"), body(2, "a")], false, 900),
        many(&[body(3, "a"), body(4, "a")], true, 901),
        many(&[body(5, "a"), body(6, "nowhere")], true, 902),
    ];
    requests.insert(1, batches);
    folder_of(requests, Some(KeyName::of(log_key(50).verifying_key().to_bytes()))).0
}

const BATCH: u64 = 5;
const GROUP: u64 = 8;
const REJECTED: u64 = 11;
const ALONE: u64 = 14;

fn entry_of(leaf: &[u8], payload: &[u8]) -> Entry {
    Entry::decode(Leaf::decode(leaf).unwrap(), Some(payload)).unwrap()
}

/// What `verify` and an audit say once an entry is told in another way: each the first thing that it finds.
fn told(at: u64, tell: impl Fn(&mut Entry)) -> (Option<String>, Option<(u64, String)>) {
    let disk = folder();
    rewrite(&disk, &log_key(1), |index, leaf, salt, payload| {
        if index == at {
            let mut entry = entry_of(leaf, payload);
            tell(&mut entry);
            put(leaf, salt, payload, &entry);
        }
    });
    let report = audit(&disk, &public(), &mut |_| ());
    let found = report.map(|report| report.differing.into_iter().next().map(|first| (first.entry, first.what)));
    let found = found.unwrap_or_else(|error| Some((at, error.to_string())));
    (verify(&disk, &public(), &[]).err(), found)
}

#[test]
fn honest_batches_and_groups_verify() {
    let disk = folder();
    verify(&disk, &public(), &[]).unwrap();
    let report = audit(&disk, &public(), &mut |_| ()).unwrap();
    assert_eq!((report.differing_count, report.unverifiable.len()), (0, 0), "{:?}", report.differing);
    let mut kinds = Vec::new();
    walk(&disk, walk_options(&public()), Frontier::new(), &mut |placed| {
        kinds.extend(placed.entries().map(|entry| Leaf::kind_of(entry.leaf).unwrap()));
        Ok(())
    })
    .unwrap();
    let at = |index: u64| kinds[usize::try_from(index).unwrap()];
    assert_eq!([at(BATCH), at(GROUP), at(REJECTED), at(ALONE)], [Kind::Batch, Kind::Batch, Kind::Group, Kind::Action]);
    let (clean, found) = told(ALONE, |_| ());
    assert_eq!((clean, found), (None, None), "telling the same changes nothing");
}

/// Has an action refer to a batch.
fn refer(entry: &mut Entry, batch: u64) {
    let key = KeyName::of(log_key(51).verifying_key().to_bytes());
    let Event::Action(decided) = &mut entry.event else { panic!("{entry:?}") };
    decided.action.batch = Some(batch);
    entry.auth = Auth::Batch { key, by_gateway: false };
    decided.action.auth = entry.auth.clone();
}

#[test]
fn attack_an_action_refers_to_a_batch_that_does_not_list_it() {
    // An action that no one has to have signed: the batch is to vouch for it. Nor does an entry vouch that is no batch, or comes
    // later.
    for other in [BATCH, REJECTED, ALONE + 1] {
        let (verified, audited) = told(ALONE, |entry| refer(entry, other));
        let (verified, (at, what)) = (verified.unwrap(), audited.unwrap());
        let said =
            format!("it refers to the batch of entry {other}, which is no batch before it, or has brought in all");
        assert!(verified.contains(&said), "{verified}");
        assert!(at == ALONE && what.contains(&said), "{at}: {what}");
    }
}

#[test]
fn attack_a_batch_is_made_to_list_what_its_agent_never_sent() {
    let disk = folder();
    let mut lied = None;
    walk(&disk, walk_options(&public()), Frontier::new(), &mut |placed| {
        for entry in placed.entries().filter(|entry| entry.index == ALONE) {
            lied = entry_of(entry.leaf, entry.payload.unwrap()).event.keys().next().map(|(_, id)| id);
        }
        Ok(())
    })
    .unwrap();
    rewrite(&disk, &log_key(1), |index, leaf, salt, payload| {
        if [BATCH, ALONE].contains(&index) {
            let mut entry = entry_of(leaf, payload);
            match &mut entry.event {
                Event::Batch { actions, .. } => actions.push(lied.unwrap()),
                _ => refer(&mut entry, BATCH),
            }
            put(leaf, salt, payload, &entry);
        }
    });
    // The ids are what was signed.
    let error = verify(&disk, &public(), &[]).unwrap_err();
    assert!(error.contains("entry 5") && error.contains("does not verify"), "{error}");
}

#[test]
fn attack_an_action_of_a_batch_is_recorded_twice() {
    // The second action of the batch, told as the first once more.
    let (verified, audited) = told(BATCH + 2, |entry| {
        let first = body(1, "a");
        let request = ActionRequest::parse(&first).unwrap();
        let Event::Action(decided) = &mut entry.event else { panic!("{entry:?}") };
        let mut again = Action::new(entry.by.clone(), entry.auth.clone(), first.as_str().into(), request, Vec::new());
        again.batch = Some(BATCH);
        *decided.action = again;
    });
    assert!(verified.unwrap().contains("has brought it in before"));
    assert_eq!(audited.unwrap().0, BATCH + 2);
}

#[test]
fn attack_what_was_to_be_one_step_is_told_as_several_and_the_other_way_round() {
    let set = |atomic: bool| {
        move |entry: &mut Entry| {
            let Event::Batch { is_atomic, .. } = &mut entry.event else { panic!("{entry:?}") };
            *is_atomic = atomic;
        }
    };
    // What was asked for is in the query, which is signed.
    for (at, atomic) in [(GROUP, false), (BATCH, true)] {
        let (_, audited) = told(at, set(atomic));
        let (found, what) = audited.unwrap();
        assert!(found == at && what.contains("/v1/actions/batch"), "{found}: {what}");
    }
    // One action of a group is told as rejected, although the others committed.
    let (verified, audited) = told(GROUP + 2, |entry| {
        let Event::Action(decided) = &mut entry.event else { panic!("{entry:?}") };
        decided.decision.writes.clear();
        decided.decision.verdict =
            countersign_core::decision::Verdict::Rejected(countersign_core::reason::Reason::TooManyReviews);
    });
    assert!(verified.unwrap().contains("is not whole"));
    assert!(audited.unwrap().1.contains("is not whole"));
}

#[test]
fn attack_a_rejected_group_is_told_for_another_reason_or_another_action() {
    let (verified, audited) = told(REJECTED, |entry| {
        let Event::Group(group) = &mut entry.event else { panic!("{entry:?}") };
        group.failed = 0;
    });
    assert_eq!(verified, None, "its signature is good");
    assert_eq!(audited.unwrap().0, REJECTED);
    // A group that would have committed, told as rejected: the one of entry 8 in its own place is not whole then.
    let (_, audited) = told(REJECTED, |entry| {
        let Event::Group(group) = &mut entry.event else { panic!("{entry:?}") };
        let bodies = [body(7, "a"), body(8, "a")];
        let (by, auth) = (entry.by.clone(), entry.auth.of_batch());
        let action = |body: &String| {
            let request = ActionRequest::parse(body).unwrap();
            Action::new(by.clone(), auth.clone(), body.as_str().into(), request, Vec::new())
        };
        group.actions = bodies.iter().map(action).collect();
        let signed = signed_batch(&log_key(51), ORIGIN, &bodies, true, 1_800_000_000, 903).unwrap();
        entry.auth = signed;
    });
    let (at, what) = audited.unwrap();
    assert!(at == REJECTED && what.contains("would have committed"), "{at}: {what}");
}

#[test]
fn attack_the_signature_of_one_batch_is_put_under_another() {
    let other = folder();
    let mut signature = None;
    walk(&other, walk_options(&public()), Frontier::new(), &mut |placed| {
        for entry in placed.entries().filter(|entry| entry.index == GROUP) {
            signature = entry_of(entry.leaf, entry.payload.unwrap()).auth.signed().cloned();
        }
        Ok(())
    })
    .unwrap();
    let signature: Signed = signature.unwrap();
    let (verified, _) = told(BATCH, |entry| {
        let Event::Batch { actions, .. } = &entry.event else { panic!("{entry:?}") };
        let batch = signature.batch.map(|held| BatchDigests { actions: BatchDigests::of_actions(actions), ..held });
        entry.auth = Auth::Signature(Arc::new(Signed { batch, ..signature.clone() }));
    });
    assert!(verified.unwrap().contains("does not verify"));
}
