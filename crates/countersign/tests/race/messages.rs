//! Messages between real clients of a real server process, with SIGKILL at random: each is redelivered until it is acknowledged, none is
//! lost, none comes under two names, and those of one sender come in the order in which it sent them.
//!
//! Senders number what they send to each recipient, and ask again under the same key until they have an answer. Readers forget to
//! acknowledge now and then, as one does that dies in between. What is judged is what senders were answered, and what readers saw.

use crate::race::server::{Server, run};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PACT: &str = r#"
pact = "office"
version = 1

[action.tell]
resource = 'Agent::"{to}"'
allow = 'true'
deliver = { to = "{to}", body = ["number"] }

[action.tell.params]
type = "object"
additionalProperties = false
required = ["to", "number"]
properties.to = { type = "string" }
properties.number = { type = "integer", minimum = 1 }
"#;

const SENDERS: [&str; 3] = ["ann", "ben", "carl"];
const READERS: [&str; 2] = ["rose", "stan"];

struct World {
    url: RwLock<String>,
    /// Senders have stopped.
    is_over: AtomicBool,
    quotas: AtomicU64,
}

impl World {
    /// Asks once; `None` where no answer came, and nobody knows what became of it.
    fn ask(&self, http: &ureq::Agent, by: &str, path: &str, body: Option<&Json>) -> Option<Json> {
        let url = format!("{}{path}", self.url.read().unwrap());
        let answer = match body {
            Some(body) => http.post(url).header("countersign-agent", by).send_json(body),
            None => http.get(url).header("countersign-agent", by).call(),
        };
        let mut answer = answer.ok()?;
        let (status, json) = (answer.status().as_u16(), answer.body_mut().read_json::<Json>().ok()?);
        assert!(status < 300 || status == 503, "{path}: {json}");
        (status < 300).then_some(json)
    }
}

fn http() -> ureq::Agent {
    let config = ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(5)));
    config.http_status_as_error(false).build().into()
}

/// What one sender was told was delivered: recipient, number and entry.
fn sender(world: &World, by: &str, mut turn: u64) -> Vec<(String, u64, u64)> {
    let (http, mut sent, mut numbers) = (http(), Vec::new(), [0u64; READERS.len()]);
    while !world.is_over.load(Ordering::SeqCst) {
        turn += 1;
        let at = usize::try_from(turn).unwrap() % READERS.len();
        let number = numbers[at] + 1;
        let body = json!({
            "pact": "office", "action": "tell", "params": {"to": READERS[at], "number": number},
            "idempotency_key": format!("{by}-{turn:028}"),
        });
        // To the end: what is asked for is never left undecided.
        let verdict = loop {
            match world.ask(&http, by, "/v1/actions", Some(&body)) {
                Some(verdict) => break verdict,
                None => std::thread::yield_now(),
            }
        };
        match verdict["verdict"].as_str().unwrap() {
            "committed" => {
                numbers[at] = number;
                sent.push((READERS[at].to_owned(), number, verdict["entry"].as_u64().unwrap()));
            }
            _ => {
                assert_eq!(verdict["code"], "message_quota_exceeded", "{verdict}");
                world.quotas.fetch_add(1, Ordering::SeqCst);
                std::thread::yield_now();
            }
        }
    }
    sent
}

/// What one reader saw: by name, who sent it and its number; and how often it saw something again.
#[derive(Default)]
struct Seen {
    messages: BTreeMap<u64, (String, u64)>,
    latest: BTreeMap<String, u64>,
    acknowledged: BTreeSet<u64>,
    again: u64,
}

impl Seen {
    fn take(&mut self, message: &Json) -> u64 {
        let entry = message["entry"].as_u64().unwrap();
        assert_eq!(message["message"], format!("msg_{entry}"));
        let (from, number) =
            (message["from"].as_str().unwrap().to_owned(), message["body"]["number"].as_u64().unwrap());
        assert!(!self.acknowledged.contains(&entry), "{message} came again although it was acknowledged");
        if let Some(before) = self.messages.get(&entry) {
            assert_eq!(*before, (from, number), "another message under the name of an earlier one");
            self.again += 1;
            return entry;
        }
        // In the order of its sender, without a gap: nothing was passed over.
        let latest = self.latest.entry(from.clone()).or_default();
        assert_eq!(number, *latest + 1, "{message} is out of order, or another is missing, or it has two names");
        *latest = number;
        self.messages.insert(entry, (from, number));
        entry
    }
}

fn reader(world: &World, by: &str, seed: u64) -> Seen {
    let (http, mut seen, mut turn) = (http(), Seen::default(), seed);
    loop {
        turn = turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let was_over = world.is_over.load(Ordering::SeqCst);
        let Some(page) = world.ask(&http, by, "/v1/inbox?limit=64&wait_ms=100", None) else {
            std::thread::yield_now();
            continue;
        };
        let messages = page["messages"].as_array().unwrap();
        if messages.is_empty() && was_over {
            return seen;
        }
        let entries: Vec<u64> = messages.iter().map(|message| seen.take(message)).collect();
        assert!(entries.is_sorted_by(|a, b| a < b));
        // Some of them, or none: as if it had died before.
        let most = usize::try_from(turn >> 33).unwrap() % (entries.len() + 1);
        let names: Vec<String> = entries.iter().take(most).map(|entry| format!("msg_{entry}")).collect();
        if names.is_empty() {
            continue;
        }
        if let Some(done) = world.ask(&http, by, "/v1/inbox/ack", Some(&json!({"messages": names}))) {
            // What did not wait any more was acknowledged by a request whose answer was lost.
            assert_eq!(
                done["acknowledged"].as_array().unwrap().len() + done["not_waiting"].as_array().unwrap().len(),
                most
            );
            seen.acknowledged.extend(entries.iter().take(most));
        }
    }
}

fn set_up(world: &World) {
    let http = http();
    let url = world.url.read().unwrap().clone();
    let published = http.post(format!("{url}/v1/pacts")).header("content-type", "application/toml").send(PACT);
    assert_eq!(published.unwrap().status(), 200);
    for agent in SENDERS.iter().chain(&READERS) {
        let value = json!({"roles": [], "standing": "active", "org": "acme", "trust": 1});
        let fed = http.put(format!("{url}/v1/facts/Agent/{agent}")).send_json(json!({"value": value}));
        assert_eq!(fed.unwrap().status(), 200);
    }
}

/// Sends and reads for so long, with so many kills, and judges.
fn exchange(seconds: u64, kills: u32) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    run(&["init", "--open", "--origin", "race.example/messages", "--data", "data"], folder.path());
    let server = Server::start(&data);
    let world =
        World { url: RwLock::new(server.url.clone()), is_over: AtomicBool::new(false), quotas: AtomicU64::new(0) };
    set_up(&world);
    let (sent, seen) = std::thread::scope(|scope| {
        let (world, started, mut server) = (&world, Instant::now(), server);
        let senders: Vec<_> = SENDERS.iter().map(|by| (*by, scope.spawn(move || sender(world, by, 0)))).collect();
        let readers: Vec<_> =
            (1..).zip(READERS).map(|(seed, by)| (by, scope.spawn(move || reader(world, by, seed)))).collect();
        for kill in 1..=kills {
            let share = seconds * 1000 * u64::from(kill) / u64::from(kills + 1);
            let at = Duration::from_millis(share + u64::from(kill * 137 % 90));
            std::thread::sleep(at.saturating_sub(started.elapsed()));
            server.kill();
            server = Server::start(&data);
            *world.url.write().unwrap() = server.url.clone();
        }
        std::thread::sleep(Duration::from_secs(seconds).saturating_sub(started.elapsed()));
        world.is_over.store(true, Ordering::SeqCst);
        let sent: Vec<_> = senders.into_iter().map(|(by, thread)| (by, thread.join().unwrap())).collect();
        let seen: Vec<_> = readers.into_iter().map(|(by, thread)| (by, thread.join().unwrap())).collect();
        drop(server);
        (sent, seen)
    });
    let delivered: BTreeSet<(String, u64, String, u64)> = sent
        .iter()
        .flat_map(|(by, sent)| sent.iter().map(|(to, number, entry)| (to.clone(), *entry, (*by).to_owned(), *number)))
        .collect();
    let read: BTreeSet<(String, u64, String, u64)> = seen
        .iter()
        .flat_map(|(to, seen)| {
            seen.messages.iter().map(|(entry, (from, number))| ((*to).to_owned(), *entry, from.clone(), *number))
        })
        .collect();
    assert_eq!(read, delivered, "what was read is what was delivered, under the same names");
    let again: u64 = seen.iter().map(|(_, seen)| seen.again).sum();
    let quotas = world.quotas.load(Ordering::SeqCst);
    println!("{} messages, {again} of them came again, {quotas} met a quota, {kills} kills", read.len());
    assert!(read.len() > 100 && again > 0, "nothing was put to the test");
    run(&["audit", "--data", "data"], folder.path());
}

#[test]
fn messages_are_redelivered_until_acknowledged_and_never_lost() {
    exchange(6, 4);
}

#[test]
#[ignore = "long: run with `cargo xtask test --long`"]
fn the_same_of_messages_for_a_minute_with_many_kills() {
    exchange(60, 60);
}
