//! Racers and mutators as real clients of a real server process, with SIGKILL at random: what the checker, which shares no
//! code with the gate, makes of the history (AG-097-8.2, CONC-1, CONC-5, CONC-6).
//!
//! Refunds race freezes and thaws on a few accounts, each refund with an observation of its own and a pause between check
//! and use that is swept across the window. The server is killed and started again while they do. At the end the whole
//! ledger is read back and judged together with every answer that any client was given.

use crate::race::server::{Server, run};
use countersign_testing::bank;
use countersign_testing::checker::{Answered, Asked, LogEntry, Operation, Shown, check};
use serde_json::{Value as Json, json};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

const ACCOUNTS: [&str; 3] = ["a", "b", "c"];

/// What all clients share: where the server is now, the moments, and the history.
struct World {
    url: RwLock<String>,
    moment: AtomicU64,
    history: Mutex<Vec<Operation>>,
    done: AtomicBool,
}

impl World {
    fn now(&self) -> u64 {
        self.moment.fetch_add(1, Ordering::SeqCst)
    }

    /// Asks the server and records what was asked and answered. `None` where no answer came: nobody knows what became of it.
    fn ask(&self, agent: &ureq::Agent, by: &str, asked: Asked) -> Option<(Json, Answered)> {
        let url = self.url.read().unwrap().clone();
        let started = self.now();
        let answer = send(agent, &url, by, &asked);
        let ended = self.now();
        let (json, answered) = match answer {
            Some((status, json)) => (json.clone(), answered(&asked, status, &json)),
            None => (Json::Null, None),
        };
        let ended = answered.is_some().then_some(ended);
        let (by, signed_with) = (by.to_owned(), None);
        let operation = Operation { by, signed_with, asked, started, ended, answer: answered.clone() };
        self.history.lock().unwrap().push(operation);
        answered.map(|answered| (json, answered))
    }
}

fn send(agent: &ureq::Agent, url: &str, by: &str, asked: &Asked) -> Option<(u16, Json)> {
    let request = |path: &str| agent.post(format!("{url}{path}")).header("countersign-agent", by);
    let response = match asked {
        Asked::Act { body } => request("/v1/actions").header("content-type", "application/json").send(body),
        Asked::Observe { facts } => request("/v1/observe").send_json(json!({ "facts": facts })),
        Asked::Publish { source, .. } => request("/v1/pacts").header("content-type", "application/toml").send(source),
        Asked::Feed { fact, value, .. } => {
            let (ty, id) = fact.split_once("::").unwrap();
            let put = agent.put(format!("{url}/v1/facts/{ty}/{}", id.trim_matches('"')));
            put.header("countersign-agent", by).send_json(json!({ "value": value }))
        }
        other => panic!("this test does not ask {other:?}"),
    };
    let mut response = response.ok()?;
    let status = response.status().as_u16();
    let json = response.body_mut().read_json().ok()?;
    Some((status, json))
}

fn text(json: &Json) -> Option<String> {
    json.as_str().map(str::to_owned)
}

fn answered(asked: &Asked, status: u16, json: &Json) -> Option<Answered> {
    // Busy and shutting down are not verdicts, and leave nothing behind; that cannot be told from a lost answer here.
    if status == 503 {
        return None;
    }
    assert!(status < 300, "{status}: {json} for {asked:?}");
    if let Asked::Observe { .. } = asked {
        let shown = json["facts"].as_array().unwrap().iter().map(|fact| Shown {
            fact: text(&fact["fact"]).unwrap(),
            version: fact["version"].as_u64().unwrap(),
            value: fact.get("value").filter(|value| !value.is_null()).cloned(),
            withheld: fact["withheld"].as_array().into_iter().flatten().filter_map(text).collect(),
        });
        return Some(Answered::Observed {
            position: json["position"].as_u64().unwrap(),
            at_ms: json["observed_at"].as_u64().unwrap(),
            facts: shown.collect(),
        });
    }
    let index = json["entry"].as_u64().unwrap_or_else(|| panic!("an answer without an entry: {json}"));
    if json.get("repeated") == Some(&Json::Bool(true)) {
        return Some(Answered::Repeated { index });
    }
    let list = |name: &str| json.get(name).and_then(Json::as_array).cloned().unwrap_or_default();
    let mut wrote: Vec<(String, u64)> =
        list("wrote").iter().map(|write| (text(&write["fact"]).unwrap(), write["version"].as_u64().unwrap())).collect();
    if let (Asked::Feed { fact, .. }, Some(version)) = (asked, json.get("version").and_then(Json::as_u64)) {
        wrote = vec![(fact.clone(), version)];
    }
    Some(Answered::Entered {
        index,
        verdict: json.get("verdict").and_then(text),
        code: json.get("code").and_then(text),
        failed: list("failed").iter().map(|failed| text(&failed["precondition"]).unwrap()).collect(),
        wrote,
    })
}

fn body(action: &str, key: &str, params: &Json, observation: Option<&str>) -> String {
    let observations: Vec<&str> = observation.into_iter().collect();
    json!({"pact": "bank", "action": action, "idempotency_key": key, "params": params, "observations": observations})
        .to_string()
}

/// One client: observes, waits for its own part of the window, acts; retries under the same key when no answer came.
fn client(world: &World, by: &str, actions: &[&str], number: u64) {
    let config = ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(5))).http_status_as_error(false);
    let agent: ureq::Agent = config.build().into();
    let mut turn = number;
    while !world.done.load(Ordering::SeqCst) {
        turn += 1;
        let account = ACCOUNTS[(turn % 3) as usize];
        let fact = format!("Account::\"{account}\"");
        let observed = world.ask(&agent, by, Asked::Observe { facts: vec![fact] });
        let Some((observed, _)) = observed else {
            std::thread::yield_now();
            continue;
        };
        // The pause between check and use: from none to a few milliseconds, where the others act.
        std::thread::sleep(Duration::from_micros((turn * 397 + number * 101) % 4_000));
        let action = actions[(turn as usize) % actions.len()];
        let params = match action {
            "refund" => json!({"account": account, "amount": 10 + turn % 7}),
            _ => json!({"account": account}),
        };
        let key = format!("{by}-{turn:024}");
        let body = body(action, &key, &params, observed["observation"].as_str());
        for _ in 0..3 {
            if world.ask(&agent, by, Asked::Act { body: body.clone() }).is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn set_up(world: &World) {
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    let agent: ureq::Agent = config.build().into();
    let ask = |asked| assert!(world.ask(&agent, "operator", asked).is_some());
    ask(Asked::Publish { version: 1, source: bank::pact(1, 100_000) });
    let roles = [("refund-1", "refunder"), ("refund-2", "refunder"), ("fraud-1", "fraud"), ("fraud-2", "fraud")];
    for (name, role) in roles {
        let value = json!({"roles": [role], "standing": "active", "org": "bank", "trust": 500});
        ask(Asked::Feed { fact: format!("Agent::\"{name}\""), value: Some(value), if_match: None });
    }
    for account in ACCOUNTS {
        let value = json!({"status": "active", "balance": 4_000, "owner": "somebody"});
        ask(Asked::Feed { fact: format!("Account::\"{account}\""), value: Some(value), if_match: None });
    }
}

fn read_ledger(url: &str) -> Vec<LogEntry> {
    let mut entries = Vec::new();
    loop {
        let page: Json = ureq::get(format!("{url}/v1/ledger/entries?start={}&limit=200", entries.len()))
            .call()
            .unwrap()
            .body_mut()
            .read_json()
            .unwrap();
        let page = page["entries"].as_array().unwrap();
        if page.is_empty() {
            return entries;
        }
        entries.extend(page.iter().map(|entry| LogEntry {
            leaf: entry["leaf"].clone(),
            payload: entry["payload"].clone(),
            is_erased: false,
        }));
    }
}

/// Races for so long, with so many kills, and judges.
fn race(seconds: u64, kills: u32) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    run(&["init", "--open", "--origin", "race.example/log", "--data", "data"], folder.path());
    let mut server = Server::start(&data);
    let world = Arc::new(World {
        url: RwLock::new(server.url.clone()),
        moment: AtomicU64::new(0),
        history: Mutex::default(),
        done: AtomicBool::new(false),
    });
    set_up(&world);
    let clients = [
        ("refund-1", &["refund"][..]),
        ("refund-2", &["refund"]),
        ("fraud-1", &["freeze", "thaw", "thaw"]),
        ("fraud-2", &["thaw", "freeze", "thaw"]),
    ];
    let threads: Vec<_> = (0..)
        .zip(clients)
        .map(|(number, (by, actions))| {
            let world = Arc::clone(&world);
            std::thread::spawn(move || client(&world, by, actions, number))
        })
        .collect();
    let started = Instant::now();
    for kill in 1..=kills {
        let at =
            Duration::from_millis(seconds * 1000 * u64::from(kill) / u64::from(kills + 1) + u64::from(kill * 137 % 90));
        std::thread::sleep(at.saturating_sub(started.elapsed()));
        server.kill();
        server = Server::start(&data);
        *world.url.write().unwrap() = server.url.clone();
    }
    std::thread::sleep(Duration::from_secs(seconds).saturating_sub(started.elapsed()));
    world.done.store(true, Ordering::SeqCst);
    for thread in threads {
        thread.join().unwrap();
    }

    let entries = read_ledger(&server.url);
    drop(server);
    let history = std::mem::take(&mut *world.history.lock().unwrap());
    let judged = check(&history, &entries).unwrap_or_else(|complaints| panic!("{}", complaints.join("\n")));
    println!(
        "{} operations, {} entries, {} committed, {} blocked, {kills} kills",
        history.len(),
        entries.len(),
        judged.committed,
        judged.blocked
    );
    assert!(judged.committed > 20 && judged.blocked > 20, "the race was not a race: {judged:?}");
    run(&["audit", "--data", "data"], folder.path());
}

#[test]
fn no_effect_on_a_false_precondition_and_nothing_acknowledged_is_lost() {
    race(6, 4);
}

#[test]
#[ignore = "long: run with `cargo xtask test --long`"]
fn the_same_for_a_minute_with_many_kills() {
    race(60, 60);
}
