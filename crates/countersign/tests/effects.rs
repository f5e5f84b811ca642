//! Payouts through a real gate to a real payment service, both processes of their own, with SIGKILL of the gate at random and
//! ([`sweep`]) at every step: at the end the service's book and the gate's ledger agree (I1, I6).
//!
//! Two services misbehave by seed: one knows idempotency keys, one does not and pays once for each request. Clients ask for payouts
//! and repeat what was not answered under the same key. The gate is killed and started again while they do. Then everything is
//! left alone until no call is open, and the books are compared with the ledger, entry by entry.
//!
//! `COUNTERSIGN_LONG=1`, which `cargo xtask test --long` sets, makes it ten times as much; `COUNTERSIGN_SEED=N` repeats a run's faults
//! and moments.

mod conditional;
mod judge;
mod processes;
mod sweep;

use judge::Judge;
use processes::{Gate, Service};
use serde_json::{Value as Json, json};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// `once` is not repeated, `keyed` is, under its key; `cooled` can still be cancelled for a moment.
///
/// How long a call may take, and when absence counts, is filled in: absence must be far beyond what the service takes, since until
/// then it may still pay.
const PACT: &str = r#"
pact = "payouts"
version = 1

[facts.Account]
attributes = { status = "String", balance = "Long" }

[action.once]
resource = 'Account::"{account}"'
allow = 'true'
set = { balance = "resource.balance - context.amount" }
call.http = "plain"
call.path = "/payouts"
call.body = { amount = "context.amount", destination = "context.account" }
call.timeout = "TIMEOUT"
call.probe = { path = "/payouts/{call.key}", absent_after = "ABSENT" }

[action.keyed]
resource = 'Account::"{account}"'
allow = 'true'
set = { balance = "resource.balance - context.amount" }
call.http = "keyed"
call.path = "/payouts"
call.body = { amount = "context.amount", destination = "context.account" }
call.timeout = "TIMEOUT"
call.idempotent = true
call.retries = 3
call.probe = { path = "/payouts/{call.key}", absent_after = "ABSENT" }

[action.cooled]
resource = 'Account::"{account}"'
allow = 'true'
set = { balance = "resource.balance - context.amount" }
call.http = "plain"
call.path = "/payouts"
call.body = { amount = "context.amount", destination = "context.account" }
call.timeout = "TIMEOUT"
call.after = "COOLING"
call.probe = { path = "/payouts/{call.key}", absent_after = "ABSENT" }

[action.freeze]
resource = 'Account::"{account}"'
allow = 'true'
set = { status = '"frozen"' }

[[action.once.require]]
id = "account-is-active"
that = 'resource.status == "active"'

[[action.keyed.require]]
id = "account-is-active"
that = 'resource.status == "active"'

[[action.cooled.require]]
id = "account-is-active"
that = 'resource.status == "active"'

[[action.freeze.require]]
id = "account-is-active"
that = 'resource.status == "active"'
"#;

const PARAMS: &str = r#"
[action.ACTION.params]
type = "object"
additionalProperties = false
required = ["account"AMOUNT]
properties.account = { type = "string", maxLength = 64 }
"#;

/// What every account has in the beginning.
pub const BALANCE: i64 = 1_000_000;
const CLIENTS: usize = 16;

/// How long things take, as durations of a pact.
struct Spans {
    timeout: &'static str,
    cooling: &'static str,
    absent: &'static str,
}

fn pact(spans: &Spans) -> String {
    let params = |action: &str| {
        let is_payout = action != "freeze";
        let amount = "properties.amount = { type = \"integer\", minimum = 1, maximum = 5000 }\n";
        let params = PARAMS.replace("ACTION", action).replace("AMOUNT", if is_payout { ", \"amount\"" } else { "" });
        params + if is_payout { amount } else { "" }
    };
    let rules =
        PACT.replace("TIMEOUT", spans.timeout).replace("COOLING", spans.cooling).replace("ABSENT", spans.absent);
    rules + &["once", "keyed", "cooled", "freeze"].map(params).concat()
}

/// What all clients share.
struct Load {
    url: RwLock<String>,
    seed: u64,
    payouts: usize,
    accounts: usize,
    next: AtomicUsize,
    answered: AtomicUsize,
    in_flight: AtomicU64,
}

impl Load {
    /// Asks for payouts until there are none left. What was not answered is asked again under the same key, as any client must.
    fn client(&self) {
        let config = ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(5)));
        let agent: ureq::Agent = config.http_status_as_error(false).proxy(None).build().into();
        loop {
            let number = self.next.fetch_add(1, Ordering::SeqCst);
            if number >= self.payouts {
                return;
            }
            let body = self.body(number);
            let until = Instant::now() + Duration::from_secs(60);
            let answer = loop {
                assert!(Instant::now() < until, "payout {number} was never answered");
                let url = self.url.read().unwrap().clone();
                match act(&agent, &url, &body) {
                    Some(answer) => break answer,
                    None => std::thread::sleep(Duration::from_millis(10)),
                }
            };
            // A repeated key is answered with what the action has come to meanwhile.
            let verdict = answer["verdict"].as_str().unwrap_or_else(|| panic!("no verdict: {answer}"));
            let is_call = body["action"] != "freeze" && verdict != "rejected";
            self.in_flight.fetch_add(u64::from(is_call), Ordering::SeqCst);
            self.answered.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn body(&self, number: usize) -> Json {
        // Two payouts an account on average, some of them at the same time; and now and then somebody freezes one.
        let account = drawn(self.seed, number as u64) as usize % self.accounts;
        let action = match number % 16 {
            15 => "freeze",
            0..=4 => "once",
            5..=9 => "keyed",
            _ => "cooled",
        };
        let mut params = json!({"account": format!("acct-{account}")});
        if action != "freeze" {
            params["amount"] = (1 + number % 5000).into();
        }
        let key = format!("{:016x}-{number:016}", self.seed);
        json!({"pact": "payouts", "action": action, "idempotency_key": key, "params": params})
    }
}

fn act(agent: &ureq::Agent, url: &str, body: &Json) -> Option<Json> {
    let sent = agent.post(format!("{url}/v1/actions")).header("countersign-agent", "payer-1").send_json(body);
    let mut answer = sent.ok()?;
    let status = answer.status().as_u16();
    let json: Json = answer.body_mut().read_json().ok()?;
    // Busy and ending are no verdicts.
    if status == 503 {
        return None;
    }
    assert!(status < 300, "{status}: {json} to {body}");
    Some(json)
}

/// A number drawn from a seed (SplitMix64).
fn drawn(seed: u64, number: u64) -> u64 {
    let mut z = seed.wrapping_add((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn set_up(url: &str, spans: &Spans, accounts: &[String]) {
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().into();
    let published = agent.post(format!("{url}/v1/pacts")).header("countersign-agent", "operator");
    let mut published = published.header("content-type", "application/toml").send(pact(spans)).unwrap();
    let said = published.body_mut().read_to_string().unwrap();
    assert!(published.status().is_success(), "{said}");
    let feed = |ty: &str, id: &str, value: Json| {
        let put = agent.put(format!("{url}/v1/facts/{ty}/{id}")).header("countersign-agent", "operator");
        let answer = put.send_json(json!({ "value": value })).unwrap();
        assert!(answer.status().is_success(), "{ty} {id}");
    };
    feed("Agent", "payer-1", json!({"roles": ["payer"], "standing": "active", "org": "acme", "trust": 500}));
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let feed = &feed;
            scope.spawn(move || {
                for account in accounts.iter().skip(client).step_by(CLIENTS) {
                    feed("Account", account, json!({"status": "active", "balance": BALANCE}));
                }
            });
        }
    });
}

/// Waits until so many payouts are answered.
fn wait_for(load: &Load, answered: usize) {
    let until = Instant::now() + Duration::from_secs(120);
    while load.answered.load(Ordering::SeqCst) < answered {
        assert!(Instant::now() < until, "the load stands still at {}", load.answered.load(Ordering::SeqCst));
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn run(payouts: usize, kills: u64, seed: u64) {
    println!("seed {seed}");
    let folder = tempfile::tempdir().unwrap();
    let late = Duration::from_millis(350);
    let plain = Service::start(&folder.path().join("plain.book"), seed, late, false);
    let keyed = Service::start(&folder.path().join("keyed.book"), seed, late, true);
    let settings = processes::settings(folder.path(), &[("plain", &plain), ("keyed", &keyed)], 32, None);
    let data = folder.path().join("data");
    processes::countersign(&["init", "--open", "--origin", "effects.example/log"], &data);
    let mut gate = Gate::start(&data, &settings);
    let accounts = payouts / 2;
    let names: Vec<String> = (0..accounts).map(|account| format!("acct-{account}")).collect();
    set_up(&gate.url, &Spans { timeout: "200ms", cooling: "300ms", absent: "5s" }, &names);
    let load = Arc::new(Load {
        url: RwLock::new(gate.url.clone()),
        seed,
        payouts,
        accounts,
        next: AtomicUsize::new(0),
        answered: AtomicUsize::new(0),
        in_flight: AtomicU64::new(0),
    });
    let started = Instant::now();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let load = Arc::clone(&load);
            std::thread::spawn(move || load.client())
        })
        .collect();
    for kill in 1..=kills {
        // Somewhere in the load, and then a moment that nobody chose: between intent and settlement there are many.
        wait_for(&load, payouts * kill as usize / (kills as usize + 1));
        std::thread::sleep(Duration::from_micros(drawn(seed ^ 0xdead, kill) % 250_000));
        gate.kill();
        gate = Gate::start(&data, &settings);
        *load.url.write().unwrap() = gate.url.clone();
    }
    for client in clients {
        client.join().unwrap();
    }
    let loaded = started.elapsed();
    let mut judge = Judge::default();
    judge.follow(&gate.url, Duration::from_secs(90));
    gate.kill();
    let (plain_book, keyed_book) = (plain.book(), keyed.book());
    let judged = judge.compare(&[("plain", plain_book.as_slice()), ("keyed", keyed_book.as_slice())]);
    println!(
        "{payouts} asked for in {:.1} s, {kills} kills, settled after {:.1} s: {judged:?}",
        loaded.as_secs_f64(),
        started.elapsed().as_secs_f64()
    );
    assert_eq!(judged.effects, load.in_flight.load(Ordering::SeqCst), "what was answered is what is in the ledger");
    judged.was_a_race(payouts as u64);
    processes::countersign(&["audit"], &data);
}

fn seed() -> u64 {
    let named = std::env::var("COUNTERSIGN_SEED").ok().and_then(|seed| seed.parse().ok());
    named.unwrap_or(20_261_115)
}

/// One test at a time: what a service or a gate takes must not depend on what other tests do.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_long() -> bool {
    std::env::var_os("COUNTERSIGN_LONG").is_some()
}

#[test]
fn the_book_of_the_service_and_the_ledger_of_the_gate_agree_whenever_the_gate_is_killed() {
    let _alone = alone();
    let (payouts, kills) = if is_long() { (30_000, 80) } else { (3_000, 8) };
    run(payouts, kills, seed());
}

/// Not a test by itself: the payment service, as a process of its own. It is this binary, started with its options in a variable.
#[test]
fn the_payment_service() {
    processes::serve_if_asked();
}
