//! What whoever holds the log's key can rewrite, and what gives it away.

use crate::tamper::folders::{ORIGIN, batches, folder, log_key, public, segments, signed, signed_folder};
use countersign_core::identity::{Auth, KeyName};
use countersign_engine::audit::audit;
use countersign_engine::storage::disk::Disk;
use countersign_ledger::commitment::commitment;
use countersign_ledger::segment::{BatchEncoder, SEGMENT_HEADER_LEN, parse_batch};
use countersign_ledger::{Checkpoint, Frontier, leaf_hash};
use countersign_testing::disk::FaultyDisk;
use countersign_testing::folder::verify;
use ed25519_dalek::SigningKey;
use serde_json::{Value as Json, json};

/// Writes the whole log anew: `change` may alter each entry, `key` signs.
fn rewrite(disk: &FaultyDisk, key: &SigningKey, change: impl Fn(u64, &mut Vec<u8>, &[u8; 32], &mut Vec<u8>)) {
    let mut frontier = Frontier::new();
    let mut encoder = BatchEncoder::new();
    for name in disk.list().unwrap().into_iter().filter(|name| name.contains("anchor") || name.contains("clean")) {
        disk.remove(&name).unwrap();
    }
    for name in segments(disk) {
        let bytes = disk.contents(&name).unwrap();
        let mut new = bytes[..SEGMENT_HEADER_LEN].to_vec();
        for range in batches(&bytes) {
            let batch = parse_batch(&bytes[range]).unwrap().unwrap();
            encoder.begin(frontier.size());
            for frame in batch.frames() {
                let (mut leaf, mut payload) = (frame.leaf.to_vec(), frame.payload.to_vec());
                change(frame.index, &mut leaf, frame.salt, &mut payload);
                encoder.push_frame(&leaf, frame.salt, &payload).unwrap();
                frontier.push(leaf_hash(&leaf));
            }
            let checkpoint = Checkpoint { origin: ORIGIN.to_owned(), size: frontier.size(), root: frontier.root() };
            new.extend_from_slice(&encoder.finish(checkpoint.sign(key).as_bytes()).unwrap());
        }
        new.resize(bytes.len().max(new.len()), 0);
        disk.tamper(&name, new);
    }
}

/// Has a leaf commit to its altered payload, as whoever holds the log's key can.
fn commit_again(leaf: &mut Vec<u8>, salt: &[u8; 32], payload: &[u8]) {
    let mut json: Json = serde_json::from_slice(leaf).unwrap();
    json["commitment"] =
        json!(commitment(salt, payload).0.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    *leaf = json.to_string().into_bytes();
}

#[test]
fn a_log_signed_with_another_key_is_refused_at_its_first_entry() {
    let (disk, _) = folder();
    rewrite(&disk, &log_key(9), |_, _, _, _| ());
    let error = verify(&disk, &public(), &[]).unwrap_err();
    assert!(error.contains(&segments(&disk)[0]) && error.contains("signed"), "{error}");
}

#[test]
fn a_history_rewritten_with_the_right_key_conflicts_with_receipts() {
    let (disk, receipts) = folder();
    // Signing the very same history again changes nothing that anybody could complain about.
    rewrite(&disk, &log_key(1), |_, _, _, _| ());
    verify(&disk, &public(), &receipts).unwrap();
    // The operator itself lies: entry 20 was somebody else's, and everything after it is signed anew.
    rewrite(&disk, &log_key(1), |index, leaf, salt, payload| {
        if index == 20 {
            *payload = String::from_utf8(payload.clone()).unwrap().replace("key-0", "key-9").into_bytes();
            commit_again(leaf, salt, payload);
        }
    });
    verify(&disk, &public(), &[]).unwrap();
    verify(&disk, &public(), &receipts[..10]).unwrap();
    let error = verify(&disk, &public(), &receipts).unwrap_err();
    assert!(error.contains("20") && error.contains("a receipt"), "{error}");
    // A receipt of a later entry alone shows it too: its checkpoint has another root.
    let error = verify(&disk, &public(), &receipts[30..]).unwrap_err();
    assert!(error.contains("a receipt"), "{error}");
}

/// What is changed in a payload, and how.
type Lie = (&'static str, fn(&str) -> String);

#[test]
fn what_the_holder_of_the_log_key_puts_into_others_mouths_is_found_by_their_signatures() {
    let lies: [Lie; 6] = [
        ("one digit of the signature", |text| {
            let at = text.find("\"signature\":\"").unwrap() + 13;
            let flipped = if &text[at..=at] == "0" { "1" } else { "0" };
            format!("{}{flipped}{}", &text[..at], &text[at + 1..])
        }),
        ("the body", |text| text.replacen("\\\"account\\\":\\\"a\\\"", "\\\"account\\\":\\\"b\\\"", 1)),
        ("the path", |text| text.replacen("/v1/actions", "/v1/actionz", 1)),
        ("the time of signing", |text| text.replacen("created=1800000000", "created=1800000001", 1)),
        ("the gate it was made for", |text| text.replacen("countersign:tamper.test", "countersign:tamper.tesu", 1)),
        ("the key", |text| {
            let name = |secret: u8| KeyName::of(log_key(secret).verifying_key().to_bytes()).to_string();
            text.replace(&name(51), &name(52))
        }),
    ];
    for (what, lie) in lies {
        let (disk, _) = signed_folder();
        let summary = verify(&disk, &public(), &[]).unwrap();
        assert_eq!(summary.size, 45);
        rewrite(&disk, &log_key(1), |index, leaf, salt, payload| {
            if index == 20 {
                let before = String::from_utf8(payload.clone()).unwrap();
                let after = lie(&before);
                assert_ne!(after, before, "{what}: nothing was changed");
                *payload = after.into_bytes();
                commit_again(leaf, salt, payload);
            }
        });
        let error = verify(&disk, &public(), &[]).unwrap_err();
        assert!(error.contains("entry 20"), "{what}: {error}");
    }
}

#[test]
fn an_entry_that_its_operator_had_no_right_to_is_found_by_an_audit() {
    let (disk, _) = signed_folder();
    let report = audit(&disk, &public(), &mut |_| ()).unwrap();
    assert_eq!((report.verified, report.differing_count), (45, 0));
    // The pact is published by the agent, with the agent's own good signature: it has no role.
    rewrite(&disk, &log_key(1), |index, leaf, salt, payload| {
        if index == 2 {
            let mut json: Json = serde_json::from_slice(payload).unwrap();
            let Auth::Signature(by_agent) = signed(&log_key(51), json["source"].as_str().unwrap(), 999) else {
                panic!()
            };
            let mut out = countersign_core::canonical::Canonical::new();
            by_agent.write(&mut out);
            json["signed"] = serde_json::from_str(out.as_str()).unwrap();
            *payload = json.to_string().into_bytes();
            *leaf = String::from_utf8(leaf.clone()).unwrap().replace("\"by\":\"admin\"", "\"by\":\"fraud-1\"").into();
            commit_again(leaf, salt, payload);
        }
    });
    verify(&disk, &public(), &[]).unwrap();
    let report = audit(&disk, &public(), &mut |_| ()).unwrap();
    assert_eq!(report.differing_count, 1, "{:?}", report.differing);
    assert!(report.differing[0].what.contains("publisher"), "{:?}", report.differing);
}
