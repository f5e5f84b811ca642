//! Fuzz targets for every decoder that reads what others wrote: none may panic, and what is accepted is written back the same.
//!
//! Each target is fed plain noise, and good samples with a few bytes changed, which is what gets past the first check. They run
//! for `FUZZ_SECONDS` each (`cargo xtask fuzz`), and for a moment in a plain test run.

mod sessions;

use crate::tamper::folders::{public, signed_folder};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bolero::check;
use countersign_core::action::{ActionRequest, Observed};
use countersign_core::delegation::{Limit, Scope};
use countersign_core::fact::Version;
use countersign_core::identity::KeyName;
use countersign_core::ids::AgentId;
use countersign_core::pact::load::load;
use countersign_core::record::{Entry, Leaf};
use countersign_core::value::Attributes;
use countersign_engine::delegation::{extend, mint, reduce};
use countersign_engine::fold::walk_options;
use countersign_engine::storage::walk;
use countersign_engine::token::{Length, Observation, Sealer};
use countersign_ledger::Frontier;
use countersign_ledger::checkpoint::{Checkpoint, LogKey};
use countersign_ledger::receipt::Receipt;
use countersign_ledger::segment::{SegmentHeader, parse_batch, parse_batch_header};
use countersign_ledger::tile::{decode_bundle, decode_tile, parse_path};
use countersign_testing::bank;
use countersign_testing::disk::{Faults, FaultyDisk, SplitMix};
use countersign_testing::log_workload::{Memory, Session, log_key, signing_key, written};
use ed25519_dalek::SigningKey;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// What the engine gives a target: which sample to take, noise, and changes to the sample.
type Input = (u8, Vec<u8>, Vec<(u16, u8, u8)>);

/// How long one target runs.
fn seconds() -> Duration {
    let asked = std::env::var("FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs_f64(asked.unwrap_or(0.8))
}

/// Noise, or a sample with some bytes replaced, put in or taken out.
fn bytes_of((choice, noise, changes): &Input, samples: &[Vec<u8>]) -> Vec<u8> {
    let at = usize::from(*choice).checked_rem(samples.len() + 1).unwrap_or(0);
    let Some(sample) = samples.get(at) else { return noise.clone() };
    let mut bytes = sample.clone();
    for (at, what, byte) in changes.iter().take(6) {
        let at = usize::from(*at).checked_rem(bytes.len().max(1)).unwrap_or(0);
        match (what % 4, bytes.get_mut(at)) {
            (0, Some(place)) => *place = *byte,
            (1, Some(place)) => *place ^= 1 << (byte % 8),
            (2, _) => bytes.insert(at, *byte),
            (_, Some(_)) => drop(bytes.remove(at)),
            (_, None) => {}
        }
    }
    bytes
}

fn fuzz(samples: Vec<Vec<u8>>, target: impl Fn(&[u8]) + std::panic::RefUnwindSafe) {
    // Every sample is good as it is, so a target that accepts nothing would be found out by its own assertions.
    samples.iter().for_each(|sample| target(sample));
    check!()
        .with_test_time(seconds())
        .with_iterations(usize::MAX)
        .with_max_len(4096)
        .with_type::<Input>()
        .for_each(|input| target(&bytes_of(input, &samples)));
}

fn texts(samples: &[&str]) -> Vec<Vec<u8>> {
    samples.iter().map(|sample| sample.as_bytes().to_vec()).collect()
}

/// Leaves and payloads of a real log.
static ENTRIES: LazyLock<Vec<(Vec<u8>, Vec<u8>)>> = LazyLock::new(|| {
    let (disk, _) = signed_folder();
    let mut entries = Vec::new();
    walk(&disk, walk_options(&public()), Frontier::new(), &mut |placed| {
        entries.extend(placed.entries().map(|entry| (entry.leaf.to_vec(), entry.payload.unwrap().to_vec())));
        Ok(())
    })
    .unwrap();
    entries
});

/// A segment file with several batches.
fn segment() -> Vec<u8> {
    let disk = FaultyDisk::new(1, Faults::default());
    let mut session = Session::open(Arc::new(disk.clone()), 16 << 10).unwrap();
    let mut rng = SplitMix::new(5);
    for _ in 0..3 {
        let entries = (0..2).map(|_| written(&mut rng, 60)).collect();
        session.append(&mut Memory::default(), entries).unwrap();
    }
    drop(session);
    disk.contents(&countersign_engine::storage::segment_name(0)).unwrap()
}

fn checkpoint() -> String {
    let root = countersign_ledger::leaf_hash(b"leaf");
    Checkpoint { origin: log_key().origin().to_owned(), size: 1, root }.sign(&signing_key())
}

#[test]
fn pact_text() {
    let samples = vec![
        include_bytes!("../../../examples/billing.toml").to_vec(),
        include_bytes!("../../../examples/trading.toml").to_vec(),
        bank::pact(1, 5).into_bytes(),
    ];
    fuzz(samples, |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        match load(text) {
            Ok(loaded) => assert_eq!(&*loaded.pact.source, text),
            Err(problems) => assert!(!problems.is_empty(), "refused without a reason"),
        }
    });
}

#[test]
fn delegation_token() {
    let name = |seed: u8| KeyName::of(SigningKey::from_bytes(&[seed; 32]).verifying_key().to_bytes());
    let scope = |to: &str, seed: u8, depth: u32| Scope {
        to: AgentId::new(to).unwrap(),
        key: name(seed),
        actions: None,
        limits: [("amount".into(), Limit { max: Some(5), one_of: None })].into(),
        facts: None,
        expires_at_ms: Some(1),
        depth,
    };
    let first =
        mint(&SigningKey::from_bytes(&[1; 32]), &AgentId::new("a").unwrap(), "gate.test", &scope("b", 2, 1)).unwrap();
    let second = extend(&first, &SigningKey::from_bytes(&[2; 32]), &scope("c", 3, 0)).unwrap();
    let bytes = |token: &str| URL_SAFE_NO_PAD.decode(token.strip_prefix("dlg1.").unwrap()).unwrap();
    let samples = [bytes(&first), bytes(&second)];
    // As bytes, since changes to the text rarely get past base64; what is accepted can only be what was signed.
    fuzz(samples.to_vec(), |bytes| {
        if let Ok(chain) = reduce(&format!("dlg1.{}", URL_SAFE_NO_PAD.encode(bytes))) {
            assert!(samples.iter().any(|sample| sample == bytes), "accepted what nobody signed: {chain:?}");
        }
    });
}

#[test]
fn action_body() {
    let body = concat!(
        r#"{"pact":"bank","action":"refund","idempotency_key":"0123456789abcdef0123456789abcdef","#,
        r#""params":{"account":"a","amount":5,"deep":[[{"x":null}]]},"observations":["obs1.AAAA"]}"#
    );
    fuzz(texts(&[body]), |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        if let Ok(request) = ActionRequest::parse(text) {
            assert_eq!(ActionRequest::parse(text), Ok(request));
        }
    });
}

#[test]
fn observation_token() {
    let sealer = Sealer::new(&[3; 32]);
    let agent = AgentId::new("agent-1").unwrap();
    let object = serde_json::from_str(r#"{"status":"active","balance":5}"#).unwrap();
    let value = Some(Attributes::from_untyped_json(&object).unwrap());
    let observed =
        vec![Observed { fact: "Account::\"a\"".parse().unwrap(), version: Version::Number(3), at_ms: 99, value }];
    let observation = Observation { agent: agent.clone(), position: 7, observed };
    let token = sealer.seal(&observation, Length::Exact, [1; 24]);
    let good = token.clone();
    fuzz(texts(&[&token]), |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        match sealer.open(text, &agent, 0) {
            // Nothing but the token itself opens: base64 has one spelling, and the seal covers the rest.
            Ok(opened) => assert!(text == good && opened == observation, "a forged token was opened"),
            Err(_) => assert_ne!(text, good),
        }
    });
}

#[test]
fn segment_header() {
    let bytes = segment();
    fuzz(vec![bytes.get(..4096.min(bytes.len())).unwrap_or_default().to_vec()], |bytes| {
        if let Ok(header) = SegmentHeader::parse(bytes) {
            let encoded = header.encode().unwrap();
            assert_eq!(SegmentHeader::parse(&encoded).unwrap(), header);
        }
    });
}

#[test]
fn segment_batch() {
    let bytes = segment();
    let batches = bytes.get(countersign_ledger::segment::SEGMENT_HEADER_LEN..).unwrap_or_default();
    let first = parse_batch_header(batches).unwrap().unwrap();
    let sample = batches.get(..first.total_len as usize).unwrap().to_vec();
    fuzz(vec![sample], |bytes| {
        let _ = parse_batch_header(bytes);
        if let Ok(Some(batch)) = parse_batch(bytes) {
            let header = batch.header();
            assert!(header.total_len as usize <= bytes.len());
            assert_eq!(batch.frames().count(), header.count as usize);
            assert!(batch.frames().all(|frame| frame.index < header.end_index()));
        }
    });
}

#[test]
fn leaf() {
    let samples = ENTRIES.iter().map(|(leaf, _)| leaf.clone()).collect();
    fuzz(samples, |bytes| {
        if let Ok(leaf) = Leaf::decode(bytes) {
            // One leaf has one spelling, and another reader sees the same in it.
            let shown: serde_json::Value = serde_json::from_str(&leaf.show()).unwrap();
            assert_eq!(countersign_testing::checker::stored::leaf(bytes).unwrap(), shown);
        }
    });
}

#[test]
fn payload() {
    let leaves: Vec<Leaf> = ENTRIES.iter().map(|(leaf, _)| Leaf::decode(leaf).unwrap()).collect();
    for (leaf, (_, payload)) in leaves.iter().zip(&*ENTRIES) {
        Entry::decode(leaf.clone(), Some(payload)).unwrap();
    }
    let samples = ENTRIES.iter().map(|(_, payload)| payload.clone()).collect();
    // A payload is read as every kind of entry, not only as its own.
    fuzz(samples, |bytes| {
        leaves.iter().take(12).for_each(|leaf| {
            let is_read = Entry::decode(leaf.clone(), Some(bytes)).is_ok();
            // What the fold reads is what is read whole, or less of it.
            assert!(!is_read || Entry::decode_to_fold(leaf.clone(), Some(bytes)).is_ok());
        })
    });
}

#[test]
fn receipt() {
    let receipt = Receipt { index: 0, leaf: b"leaf".to_vec(), proof: Vec::new(), checkpoint: checkpoint() };
    receipt.verify(&log_key()).unwrap();
    let samples = texts(&[&receipt.encode(), &receipt.to_tlog_proof()]);
    fuzz(samples, |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        if let Ok(decoded) = Receipt::decode(text) {
            assert_eq!(decoded.encode(), text, "a receipt has one spelling");
            // What verifies is what the log signed.
            assert!(decoded.verify(&log_key()).is_err() || decoded.leaf == receipt.leaf);
        }
        if let Ok(decoded) = Receipt::from_tlog_proof(text) {
            assert!(decoded.verify(&log_key()).is_err() || decoded.leaf == receipt.leaf);
        }
    });
}

#[test]
fn checkpoint_note() {
    let good = checkpoint();
    let key: LogKey = log_key();
    let signed = Checkpoint::open(&good, &key).unwrap();
    fuzz(texts(&[&good, &key.to_string()]), |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        let _ = Checkpoint::parse_unverified(text);
        if let Ok(opened) = Checkpoint::open(text, &key) {
            assert_eq!(opened, signed, "a checkpoint that was never signed was opened");
        }
        if let Ok(parsed) = text.parse::<LogKey>() {
            assert_eq!(parsed.to_string(), text);
        }
    });
}

#[test]
fn tile_path() {
    let samples = texts(&["tile/0/x001/234.p/7", "tile/entries/x001/x234/567", "tile/2/000", "tile/entries/000.p/255"]);
    fuzz(samples, |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        if let Ok(tile) = parse_path(text) {
            assert_eq!(tile.to_string(), text, "a path has one spelling");
        }
    });
}

#[test]
fn bundles_and_tiles() {
    let bundle = countersign_ledger::tile::encode_bundle(&[b"one", b"", b"three"]).unwrap();
    fuzz(vec![bundle, vec![0; 64]], |bytes| {
        if let Ok(entries) = decode_bundle(bytes) {
            assert_eq!(countersign_ledger::tile::encode_bundle(&entries).unwrap(), bytes);
        }
        if let Ok(hashes) = decode_tile(bytes) {
            assert_eq!(countersign_ledger::tile::encode_tile(&hashes), bytes);
        }
    });
}
