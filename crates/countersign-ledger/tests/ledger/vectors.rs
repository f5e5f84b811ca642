//! The golden vectors in `vectors/ledger.json`. Write them again with `UPDATE_GOLDEN=1`.

use std::path::Path;

use countersign_ledger::{
    Checkpoint, EMPTY_ROOT, Hash, KeyChain, LogKey, commitment, consistency_proof, encode_bundle, encode_tile,
    entries_path, leaf_hash, node_hash, root_at, tile_path,
};
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};

use crate::{AllHashes, ORIGIN, SmallLog, leaf, log_key, signing_key};

const SIZE: u64 = 300;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn texts(hashes: &[Hash]) -> Vec<String> {
    hashes.iter().map(ToString::to_string).collect()
}

fn vectors() -> Value {
    let log = SmallLog::new(SIZE);
    let leaves: Vec<Hash> = (0..SIZE).map(|index| leaf_hash(&leaf(index))).collect();
    let hashes = AllHashes::of(&leaves);
    let sizes = [0, 1, 2, 3, 4, 5, 6, 7, 8, 255, 256, 257, SIZE];
    let roots: Vec<Value> =
        sizes.iter().map(|size| json!({"size": size, "root": root_at(*size, &hashes).unwrap().to_string()})).collect();
    let consistency: Vec<Value> = [(1, 2), (3, 7), (4, 8), (6, 8), (255, 257), (256, SIZE), (7, SIZE)]
        .iter()
        .map(|(old, new)| json!({"old": old, "new": new, "proof": texts(&consistency_proof(*old, *new, &hashes).unwrap())}))
        .collect();
    let receipts: Vec<Value> = [0, 7, 255, 256, SIZE - 1].map(|index| log.receipt(index)).iter().map(|receipt| {
        json!({
            "index": receipt.index, "leaf": hex(&receipt.leaf), "proof": texts(&receipt.proof), "checkpoint": receipt.checkpoint,
            "receipt": receipt.encode(), "tlog_proof": receipt.to_tlog_proof(),
        })
    }).collect();
    let paths: Vec<Value> =
        [(0, 0, 256), (0, 1, 44), (1, 0, 1), (0, 999, 256), (2, 1000, 255), (0, 1_234_067, 256), (63, u64::MAX, 1)]
            .iter()
            .map(|(level, index, width)| {
                json!({"level": level, "index": index.to_string(), "width": width,
                   "tile": tile_path(*level, *index, *width), "entries": entries_path(*index, *width)})
            })
            .collect();
    let entries = [b"".as_slice(), b"entry 0", &[0xff; 300]];
    let leaf_vectors =
        [b"".as_slice(), b"entry 0"].map(|leaf| json!({"leaf": hex(leaf), "hash": leaf_hash(leaf).to_string()}));
    let checkpoints = [0, 1, SIZE].map(|size| json!({"size": size, "note": SmallLog::new(size).checkpoint()}));
    json!({
        "about": "Vectors of docs/formats/log.md: a log of `entry 0` to `entry 299`, signed with the seed given under `key`.",
        "hash": {
            "empty_root": EMPTY_ROOT.to_string(),
            "leaves": leaf_vectors,
            "node": {"left": leaves[0].to_string(), "right": leaves[1].to_string(), "hash": node_hash(&leaves[0], &leaves[1]).to_string()},
        },
        "tree": {"roots": roots, "consistency": consistency},
        "tiles": {
            "paths": paths,
            "partial_tile": {"path": tile_path(0, 1, 44), "bytes": hex(&encode_tile(log.tree.partial()))},
            "upper_tile": {"path": tile_path(1, 0, 1), "bytes": hex(&encode_tile(log.tree.level8()))},
            "bundle": {"entries": entries.map(hex), "bytes": hex(&encode_bundle(&entries).unwrap())},
        },
        "key": {"seed": hex(signing_key().as_bytes()), "origin": ORIGIN, "verifier_key": log_key().to_string()},
        "checkpoints": checkpoints,
        "rotation": rotation(),
        "receipts": receipts,
        "commitment": {"salt": hex(&[0x5a; 16]), "payload": hex(b"payload"), "hash": commitment(&[0x5a; 16], b"payload").to_string()},
    })
}

/// The checkpoint of a rotation, which the key before and the next one sign; and what is not enough.
fn rotation() -> Value {
    let next = SigningKey::from_bytes(&[0x22; 32]);
    let next_key = LogKey::new(ORIGIN, next.verifying_key()).unwrap();
    let checkpoint = Checkpoint { origin: ORIGIN.to_owned(), size: SIZE, root: SmallLog::new(SIZE).tree.root() };
    let keys = KeyChain::new(log_key());
    let case = |name: &str, signers: &[&SigningKey]| {
        let note = checkpoint.sign_by(signers);
        json!({"name": name, "note": note, "is_taken": keys.open_next(&note, Some(&next_key)).is_ok()})
    };
    let (old, stranger) = (signing_key(), SigningKey::from_bytes(&[0x33; 32]));
    json!({
        "next": {"seed": hex(next.as_bytes()), "verifier_key": next_key.to_string()},
        "checkpoints": [
            case("both", &[&old, &next]),
            case("both, the other way round", &[&next, &old]),
            case("only the key before", &[&old]),
            case("only the next key", &[&next]),
            case("the key before and a stranger", &[&old, &stranger]),
        ],
    })
}

#[test]
fn a_rotation_takes_both_signatures_and_no_fewer() {
    let rotation = rotation();
    let is_taken = |at: usize| rotation["checkpoints"][at]["is_taken"].as_bool();
    assert_eq!([0, 1, 2, 3, 4].map(is_taken), [Some(true), Some(true), Some(false), Some(false), Some(false)]);
}

#[test]
fn the_vectors_are_what_the_code_does() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/ledger.json");
    let now = format!("{}\n", serde_json::to_string_pretty(&vectors()).unwrap());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &now).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    let difference = golden.lines().zip(now.lines()).position(|(old, new)| old != new);
    assert!(
        golden == now,
        "vectors/ledger.json differs from what the code does, first in line {:?}: a format changed. \
         If that is meant, write it again with UPDATE_GOLDEN=1 and say so in the changelog.",
        difference.map(|line| line + 1)
    );
}
