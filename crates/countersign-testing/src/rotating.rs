//! A gate whose key files lie on the same disk as its log, so that one crash meets both, and the ways in which someone with a
//! key could forge what follows.

use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_core::pact::Pact;
use countersign_core::pact::load::load;
use countersign_core::record::{Context, Encoder, Entry, Event};
use countersign_core::value::Attributes;
use countersign_engine::clock::SystemClock;
use countersign_engine::fold::EntryLeaves;
use countersign_engine::gate::{Environment, OpenError, Options, Parts};
use countersign_engine::log_key::{HeldKey, KeyFiles};
use countersign_engine::request::{Answer, Refusal, Request, Submission};
use countersign_engine::sequence::Batch;
use countersign_engine::storage::disk::{Disk, read_small, replace_small};
use countersign_engine::storage::{Folder, OpenOptions, StorageError, open};
use countersign_ledger::segment::{BatchEncoder, SALT_LEN};
use countersign_ledger::{Checkpoint, LogKey, commitment, leaf_hash};
use ed25519_dalek::SigningKey;
use std::sync::{Arc, Mutex, OnceLock};

use crate::disk::FaultyDisk;

/// Small, because every crash makes a copy of the disk.
const SEGMENT_BYTES: u64 = 24 << 10;

/// The origin of the log.
pub const ORIGIN: &str = "rotating.test/log";

const PACT: &str = r#"
pact = "notes"
version = 1

[facts.Note]
attributes = { text = "String" }

[action.write]
resource = 'Note::"{note}"'
allow = 'principal.roles.contains("writer")'
set = { text = "context.text" }

[action.write.params]
type = "object"
additionalProperties = false
required = ["note", "text"]
properties.note = { type = "string", maxLength = 64 }
properties.text = { type = "string", maxLength = 64 }

[[action.write.require]]
id = "it-is-there"
that = 'resource.text != ""'
"#;

/// The private key made of one byte repeated.
#[must_use]
pub fn private(number: u8) -> SigningKey {
    SigningKey::from_bytes(&[number; 32])
}

/// Its public half.
///
/// # Panics
/// Never: the origin is a constant that the key accepts.
#[must_use]
#[expect(clippy::expect_used, reason = "the origin is a constant")]
pub fn public(key: &SigningKey) -> LogKey {
    LogKey::new(ORIGIN, key.verifying_key()).expect("the origin is a good one")
}

/// Puts a first key into a folder.
///
/// # Errors
/// If the disk fails.
pub fn make(disk: &FaultyDisk) -> std::io::Result<()> {
    replace_small(disk, "log", private(1).as_bytes())
}

/// The key in a file of the folder.
///
/// # Errors
/// If the disk fails.
pub fn key_in(disk: &FaultyDisk, name: &str) -> std::io::Result<Option<SigningKey>> {
    let bytes = read_small(disk, name, 32)?;
    Ok(bytes.and_then(|bytes| bytes.try_into().ok()).map(|bytes: [u8; 32]| SigningKey::from_bytes(&bytes)))
}

/// Opens the gate's parts.
///
/// # Errors
/// Whatever the gate refuses.
pub fn open_parts(disk: &FaultyDisk) -> Result<Parts, OpenError> {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let files = KeyFiles::new(Arc::clone(&shared), Arc::clone(&shared));
    let environment = Environment {
        disk: shared,
        clock: Arc::new(SystemClock::default()),
        seed: [3; 32],
        log_key: HeldKey::load(files).map_err(OpenError::KeyFiles)?,
        token_key: [2; 32],
    };
    Parts::open(environment, Options { snapshot_every: 0, segment_bytes: SEGMENT_BYTES, ..Options::new(ORIGIN) })
}

/// Hands one request to the parts and gives the answer, as the pipeline would.
///
/// # Errors
/// Whatever the gate refuses.
pub fn call(parts: &mut Parts, request: Request) -> Result<u64, Refusal> {
    call_all(parts, vec![request]).pop().unwrap_or(Err(Refusal::Closed))
}

/// Hands several requests to the parts in one turn.
pub fn call_all(parts: &mut Parts, requests: Vec<Request>) -> Vec<Result<u64, Refusal>> {
    let answers = Arc::new(Mutex::new(vec![Err(Refusal::Closed); requests.len()]));
    let submissions = requests.into_iter().enumerate().map(|(at, request)| {
        let answers = Arc::clone(&answers);
        let reply = Box::new(move |answer: Result<Answer, Refusal>| {
            let entry = answer.map(|answer| match answer {
                Answer::Entered(entered) => entered.entry.index,
                Answer::Repeated(entry) => entry,
                Answer::Many(_) => u64::MAX,
            });
            if let Ok(mut answers) = answers.lock()
                && let Some(slot) = answers.get_mut(at)
            {
                *slot = entry;
            }
        });
        Submission::new(request, reply)
    });
    let mut batch = Batch::default();
    parts.sequence(&mut batch, submissions);
    // Everyone waiting was told.
    let _ = parts.committer.commit(batch);
    answers.lock().map(|answers| answers.clone()).unwrap_or_default()
}

/// The operator.
///
/// # Panics
/// Never: the name is a constant.
#[must_use]
#[expect(clippy::expect_used, reason = "the name is a constant")]
pub fn operator() -> AgentId {
    AgentId::new("operator").expect("the name is a good one")
}

/// Publishes the pact that [`feed`] needs.
///
/// # Panics
/// Never: the pact is a constant.
#[must_use]
#[expect(clippy::expect_used, reason = "the pact is a constant")]
pub fn publish() -> Request {
    // Loading is slow, and thousands of folders begin with it.
    static LOADED: OnceLock<Arc<Pact>> = OnceLock::new();
    let pact = LOADED.get_or_init(|| Arc::new(load(PACT).expect("the pact is a good one").pact));
    Request::Publish { by: operator(), auth: Auth::None, pact: Arc::clone(pact) }
}

/// Feeds one note.
///
/// # Panics
/// Never: fact and value are constants.
#[must_use]
#[expect(clippy::expect_used, reason = "fact and value are constants")]
pub fn feed() -> Request {
    let value = serde_json::from_str(r#"{"text": "something happened"}"#).expect("it is JSON");
    let value = Attributes::from_untyped_json(&value).expect("it is a value");
    let fact = "Note::\"1\"".parse().expect("it is a fact");
    Request::Feed { by: operator(), auth: Auth::None, fact, value: Some(value), if_match: None }
}

/// Rotates to the key made of this byte, step by step as the gate does, but leaves the key files as the entry found them.
///
/// # Errors
/// Whatever the gate refuses.
pub fn rotate_unsettled(parts: &mut Parts, number: u8) -> Result<u64, String> {
    let next = parts.log_keys().prepare([number; 32]).map_err(|error| error.to_string())?;
    let reason = format!("to {number}");
    let request = Request::RotateLogKey { by: operator(), auth: Auth::None, next, reason };
    call(parts, request).map_err(|error| error.to_string())
}

/// Rotates to the key made of this byte.
///
/// # Errors
/// Whatever the gate or the disk refuses.
pub fn rotate(parts: &mut Parts, number: u8) -> Result<u64, String> {
    let entry = rotate_unsettled(parts, number)?;
    parts.log_keys().settle().map_err(|error| error.to_string())?;
    Ok(entry)
}

/// An entry that rotates to a key.
#[must_use]
pub fn rotation(to: &LogKey) -> Event {
    Event::Rotation { log_key: to.to_string(), reason: "forged".to_owned() }
}

/// An entry of no consequence.
#[must_use]
pub fn clock() -> Event {
    Event::Clock { wall_ms: 1, confirmed: true }
}

/// Appends a batch as someone would who has the disk and these keys, and leaves everything else as it is. `held` is the log's
/// current key.
///
/// # Errors
/// If the folder does not open, or the disk fails.
pub fn forge(
    disk: &FaultyDisk,
    held: &LogKey,
    events: Vec<Event>,
    signers: &[&SigningKey],
) -> Result<u64, StorageError> {
    let options = OpenOptions { segment_bytes: SEGMENT_BYTES, ..OpenOptions::new(held, &EntryLeaves) };
    let mut opened = open(Folder::lock(Arc::new(disk.clone()))?, options, &mut |_| Ok(()))?;
    let not_next =
        |error: countersign_ledger::segment::EncodeError| StorageError::NotNext { reason: error.to_string() };
    let (mut batch, mut encoder) = (BatchEncoder::new(), Encoder::default());
    batch.begin(opened.frontier.size());
    for event in events {
        let index = opened.frontier.size();
        let entry = Entry {
            index,
            time_ms: u64::MAX >> 12,
            by: operator(),
            auth: Auth::None,
            context: Context::default(),
            event,
        };
        let payload = encoder.payload(&entry).as_bytes().to_vec();
        let leaf = encoder.leaf(&entry, &commitment(&[9; SALT_LEN], &payload).0).to_vec();
        batch.push_frame(&leaf, &[9; SALT_LEN], &payload).map_err(not_next)?;
        opened.frontier.push(leaf_hash(&leaf));
    }
    let checkpoint =
        Checkpoint { origin: ORIGIN.to_owned(), size: opened.frontier.size(), root: opened.frontier.root() };
    let bytes = batch.finish(checkpoint.sign_by(signers).as_bytes()).map_err(not_next)?;
    opened.writer.append(&bytes)
}
