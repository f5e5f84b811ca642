//! What whoever holds the log's key can rewrite, and what gives it away.

use crate::tamper::folders::{ORIGIN, batches, folder, log_key, public, segments, signed, signed_folder};
use countersign_core::identity::KeyName;
use countersign_core::ids::AgentId;
use countersign_core::record::{Encoder, Entry, Event, Leaf};
use countersign_engine::audit::{Differing, audit};
use countersign_engine::storage::disk::Disk;
use countersign_ledger::commitment::commitment;
use countersign_ledger::segment::{BatchEncoder, SALT_LEN, SEGMENT_HEADER_LEN, parse_batch};
use countersign_ledger::{Checkpoint, Frontier, leaf_hash};
use countersign_testing::disk::FaultyDisk;
use countersign_testing::folder::verify;
use ed25519_dalek::SigningKey;

/// Writes the whole log anew: `change` may alter each entry, `key` signs.
pub fn rewrite(disk: &FaultyDisk, key: &SigningKey, change: impl Fn(u64, &mut Vec<u8>, &[u8; SALT_LEN], &mut Vec<u8>)) {
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
fn commit_again(leaf: &mut [u8], salt: &[u8; SALT_LEN], payload: &[u8]) {
    // Format, kind and commitment begin every leaf.
    let at = 8..40;
    assert_eq!(leaf[at.clone()], Leaf::decode(leaf).unwrap().commitment.0);
    leaf[at].copy_from_slice(&commitment(salt, payload).0);
}

#[test]
fn a_log_signed_with_another_key_is_refused_at_its_first_entry() {
    let (disk, _) = folder();
    rewrite(&disk, &log_key(9), |_, _, _, _| ());
    let error = verify(&disk, &public(), &[]).unwrap_err();
    assert!(error.contains(&segments(&disk)[0]) && error.contains("no signature by key"), "{error}");
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
        ("the body", |text| text.replacen("\"account\":\"a\"", "\"account\":\"b\"", 1)),
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
            let mut entry = Entry::decode(Leaf::decode(leaf).unwrap(), Some(payload)).unwrap();
            let Event::Pact(pact) = &entry.event else { panic!() };
            (entry.auth, entry.by) =
                (signed(&log_key(51), ("POST", "/v1/pacts"), &pact.source, 999), AgentId::new("fraud-1").unwrap());
            *payload = Encoder::default().payload(&entry).as_bytes().to_vec();
            *leaf = Encoder::default().leaf(&entry, &commitment(salt, payload).0).to_vec();
        }
    });
    verify(&disk, &public(), &[]).unwrap();
    let report = audit(&disk, &public(), &mut |_| ()).unwrap();
    assert_eq!(report.differing_count, 1, "{:?}", report.differing);
    assert!(report.differing[0].what.contains("publisher"), "{:?}", report.differing);
}

/// Puts another entry in the place of one, as whoever holds the log's key can.
pub fn put(leaf: &mut Vec<u8>, salt: &[u8; SALT_LEN], payload: &mut Vec<u8>, entry: &Entry) {
    *payload = Encoder::default().payload(entry).as_bytes().to_vec();
    *leaf = Encoder::default().leaf(entry, &commitment(salt, payload).0).to_vec();
}

/// What an audit finds once entry `to` of a signed log is told as `tell` has it, given entry `from`.
fn audited(from: u64, to: u64, tell: impl Fn(&mut Entry, &Entry)) -> Vec<Differing> {
    let (disk, _) = signed_folder();
    let mut other = None;
    for name in segments(&disk) {
        let bytes = disk.contents(&name).unwrap();
        for range in batches(&bytes) {
            let batch = parse_batch(&bytes[range]).unwrap().unwrap();
            let found = batch.frames().find(|frame| frame.index == from);
            other = found.map(|it| Entry::decode(Leaf::decode(it.leaf).unwrap(), Some(it.payload)).unwrap()).or(other);
        }
    }
    let other = other.unwrap();
    rewrite(&disk, &log_key(1), |index, leaf, salt, payload| {
        if index == to {
            let mut entry = Entry::decode(Leaf::decode(leaf).unwrap(), Some(payload)).unwrap();
            tell(&mut entry, &other);
            put(leaf, salt, payload, &entry);
        }
    });
    // Every signature in it is good.
    verify(&disk, &public(), &[]).unwrap();
    audit(&disk, &public(), &mut |_| ()).unwrap().differing
}

#[test]
fn a_request_that_was_recorded_twice_is_found() {
    // The action of entry 20, with its good signature, once more in the place of entry 30.
    let found = audited(20, 30, |entry, other| (entry.auth, entry.event) = (other.auth.clone(), other.event.clone()));
    let Some(Differing { entry: 30, what }) = found.first() else { panic!("{found:?}") };
    assert!(what.contains("idempotency key was used in entry 20"), "{what}");
    // A feed has no key: its signature alone gives it away.
    let found = audited(4, 30, |entry, other| {
        let by = other.by.clone();
        (entry.by, entry.auth, entry.event) = (by, other.auth.clone(), other.event.clone());
    });
    let first = found.iter().find(|it| it.entry == 30).unwrap();
    assert!(first.what.contains("signed with is that of entry 4"), "{first:?}");
}

#[test]
fn a_request_that_was_recorded_as_another_is_found() {
    // The admin's good signature under a feed, told as a halt by the admin.
    let found = audited(4, 4, |entry, _| {
        entry.event = Event::Halt { scope: "all".parse().unwrap(), reason: "why".into() };
    });
    let first = found.iter().find(|it| it.entry == 4).unwrap();
    assert!(first.what.contains("`PUT /v1/facts/") && first.what.contains("kind `halt`"), "{first:?}");
    // The same feed, told of another fact.
    let found = audited(4, 4, |entry, _| {
        let Event::Feed { write, .. } = &mut entry.event else { panic!("{entry:?}") };
        write.fact = "Account::\"z\"".parse().unwrap();
    });
    let first = found.iter().find(|it| it.entry == 4).unwrap();
    assert!(first.what.contains("`PUT /v1/facts/Account/a`"), "{first:?}");
}

#[test]
fn a_leaf_in_any_other_spelling_is_found() {
    type Spelling = fn(&mut Vec<u8>);
    let spellings: [(&str, Spelling); 4] = [
        ("the format in two bytes", |leaf| drop(leaf.splice(2..3, [0x18, 3]))),
        ("one more byte", |leaf| leaf.push(0)),
        ("a member that no version has", |leaf| {
            leaf[0] += 1;
            leaf.extend([0x18, 90, 0]);
        }),
        ("a member of another kind", |leaf| {
            leaf[0] += 1;
            leaf.extend([0x13, 0x61, b'k']);
        }),
    ];
    for (what, spell) in spellings {
        let (disk, _) = signed_folder();
        rewrite(&disk, &log_key(1), |index, leaf, _, _| {
            if index == 20 {
                spell(leaf);
            }
        });
        let error = audit(&disk, &public(), &mut |_| ()).unwrap_err();
        let said = format!("{error}: {:?}", std::error::Error::source(&error).map(ToString::to_string));
        assert!(said.contains("20"), "{what}: {said}");
        assert!(verify(&disk, &public(), &[]).is_err(), "{what}");
    }
}
