//! Checkpoints against the `signed_note` and `tlog_tiles` crates, and against every way a note can be wrong.

use countersign_ledger::{Checkpoint, CheckpointError, EMPTY_ROOT, KeyError, LogKey, leaf_hash};
use ed25519_dalek::{SigningKey, VerifyingKey};
use signed_note::{Note, StandardSigner, StandardVerifier, VerifierList};

use crate::{ORIGIN, log_key, signing_key};

fn checkpoint() -> Checkpoint {
    Checkpoint { origin: ORIGIN.to_owned(), size: 20_852_163, root: leaf_hash(b"x") }
}

fn witness() -> StandardSigner {
    // A key of the signed_note documentation.
    StandardSigner::new("PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz").unwrap()
}

#[test]
fn others_read_what_we_sign() {
    let note = checkpoint().sign(&signing_key());
    let theirs = Note::from_bytes(note.as_bytes()).unwrap();
    let verifier = StandardVerifier::new(&log_key().to_string()).unwrap();
    let (verified, unverified) = theirs.verify(&VerifierList::new(vec![Box::new(verifier)])).unwrap();
    assert_eq!((verified.len(), unverified.len()), (1, 0));
    let read = tlog_tiles::Checkpoint::from_bytes(theirs.text()).unwrap();
    assert_eq!((read.origin(), read.size(), read.hash().0), (ORIGIN, 20_852_163, checkpoint().root.0));
}

#[test]
fn we_read_what_others_sign() {
    let vkey: LogKey = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW".parse().unwrap();
    let theirs = Checkpoint { origin: "PeterNeumann".to_owned(), ..checkpoint() };
    let mut note = Note::new(theirs.text().as_bytes(), &[]).unwrap();
    note.add_sigs(&[&witness()]).unwrap();
    let note = String::from_utf8(note.to_bytes()).unwrap();
    assert_eq!(Checkpoint::open(&note, &vkey), Ok(theirs));
}

#[test]
fn signatures_of_witnesses_are_ignored() {
    let mut note = Note::from_bytes(checkpoint().sign(&signing_key()).as_bytes()).unwrap();
    note.add_sigs(&[&witness()]).unwrap();
    let note = String::from_utf8(note.to_bytes()).unwrap();
    assert_eq!(note.matches('—').count(), 2);
    assert_eq!(Checkpoint::open(&note, &log_key()), Ok(checkpoint()));
}

#[test]
fn the_empty_tree_can_be_signed() {
    let empty = Checkpoint { size: 0, root: EMPTY_ROOT, ..checkpoint() };
    assert_eq!(Checkpoint::open(&empty.sign(&signing_key()), &log_key()), Ok(empty));
}

#[test]
fn every_flipped_bit_is_noticed() {
    let note = checkpoint().sign(&signing_key());
    for at in 0..note.len() {
        for bit in 0..8 {
            let mut bytes = note.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            let Ok(text) = String::from_utf8(bytes) else {
                continue;
            };
            assert!(Checkpoint::open(&text, &log_key()).is_err(), "bit {bit} of byte {at}");
        }
        if let Some(cut) = note.get(..at) {
            assert!(Checkpoint::open(cut, &log_key()).is_err(), "cut at {at}");
        }
    }
}

#[test]
fn other_keys_and_origins_are_told_apart() {
    let note = checkpoint().sign(&signing_key());
    let other_key = LogKey::new(ORIGIN, SigningKey::from_bytes(&[8; 32]).verifying_key()).unwrap();
    assert!(matches!(Checkpoint::open(&note, &other_key), Err(CheckpointError::Unsigned { .. })));
    let other_name = LogKey::new("example.com/other", signing_key().verifying_key()).unwrap();
    assert!(matches!(Checkpoint::open(&note, &other_name), Err(CheckpointError::WrongOrigin { .. })));
    let renamed = note.replace(ORIGIN, "example.com/other");
    assert!(Checkpoint::open(&renamed, &other_name).is_err());
    // A signature line that names our key and does not verify spoils the note even beside a good one.
    let (text, good) = note.split_once("\n\n").unwrap();
    let moved = Checkpoint { size: 5, ..checkpoint() }.sign(&signing_key());
    let (_, bad) = moved.split_once("\n\n").unwrap();
    let both = format!("{text}\n\n{good}{bad}");
    assert!(matches!(Checkpoint::open(&both, &log_key()), Err(CheckpointError::BadSignature { .. })));
}

#[test]
fn signed_texts_that_are_not_checkpoints_are_refused() {
    let root = "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=";
    let empty = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
    let good = format!("{ORIGIN}\n7\n{root}\n");
    assert!(Checkpoint::parse_unverified(&format!("{good}\n— a AAAAAAA=\n")).is_ok());
    for text in [
        format!("{ORIGIN}\n07\n{root}\n"),
        format!("{ORIGIN}\n+7\n{root}\n"),
        format!("{ORIGIN}\n\n{root}\n"),
        format!("{ORIGIN}\n9223372036854775808\n{root}\n"),
        format!("{ORIGIN}\n18446744073709551616\n{root}\n"),
        format!("{ORIGIN}\n7\n{}\n", &root[4..]),
        format!("{ORIGIN}\n7\n{}\n", root.trim_end_matches('=')),
        format!("{ORIGIN}\n7\n{}\n", root.replace("2I=", "2J=")),
        format!("{ORIGIN}\n0\n{root}\n"),
        format!("{ORIGIN}\n7\n{empty}\n"),
        format!("{ORIGIN}\n7\n{root}\nextension\n"),
        format!("{ORIGIN}\n7\n"),
        format!("two words\n7\n{root}\n"),
        format!("a+b\n7\n{root}\n"),
        format!("\n7\n{root}\n"),
        String::new(),
    ] {
        let note = format!("{text}\n— a AAAAAAA=\n");
        assert!(Checkpoint::parse_unverified(&note).is_err(), "{note}");
    }
    for signatures in [
        "",
        "\n",
        "— a AAAAAAA=",
        "— a AAAAAA==\n",
        "- a AAAAAAA=\n",
        "— aAAAAAAA=\n",
        "— a  AAAAAAA=\n",
        "— a+b AAAAAAA=\n",
    ] {
        let note = format!("{good}\n{signatures}");
        assert!(Checkpoint::parse_unverified(&note).is_err(), "{note}");
    }
    let many = |count| format!("{good}\n{}", "— a AAAAAAA=\n".repeat(count));
    assert!(Checkpoint::parse_unverified(&many(64)).is_ok());
    assert!(Checkpoint::parse_unverified(&many(65)).is_err());
    assert!(Checkpoint::parse_unverified(&good.replace("7", "\t7")).is_err());
}

#[test]
fn keys_have_one_spelling() {
    let key = log_key();
    let text = key.to_string();
    assert_eq!(text.parse(), Ok(key.clone()));
    let dalek2 = signed_note::key_id(ORIGIN, &[&[1], key.verifying_key().as_bytes().as_slice()].concat());
    assert_eq!(key.id(), dalek2);
    let (name, rest) = text.split_once('+').unwrap();
    let (id, base64) = rest.split_once('+').unwrap();
    for wrong in [
        format!("other+{id}+{base64}"),
        format!("{name}+{}+{base64}", id.to_uppercase()),
        format!("{name}+0{id}+{base64}"),
        format!("{name}+{id}+{base64}="),
        format!("{name}+{id}+{}", &base64[4..]),
        format!("{name}+{id}"),
        format!("+{id}+{base64}"),
        format!(" {text}"),
        String::new(),
    ] {
        assert!(wrong.parse::<LogKey>().is_err(), "{wrong}");
    }
}

#[test]
fn names_and_weak_keys_are_refused() {
    let key = signing_key().verifying_key();
    for origin in ["", "a b", "a+b", "a\nb", "a\u{a0}b", "a\u{7f}", "a\tb", &"x".repeat(257)] {
        assert!(matches!(LogKey::new(origin, key), Err(KeyError::Origin { .. })), "{origin:?}");
    }
    assert!(LogKey::new(&"x".repeat(256), key).is_ok());
    let identity = VerifyingKey::from_bytes(&{
        let mut bytes = [0; 32];
        bytes[0] = 1;
        bytes
    });
    assert!(matches!(LogKey::new(ORIGIN, identity.unwrap()), Err(KeyError::Weak { .. })));
}
