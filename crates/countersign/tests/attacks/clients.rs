//! A gate that is killed while clients act: what a client says about its call is compared with what the ledger has.

use crate::attacks::world::*;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PACT: &str = r#"
pact = "counting"
version = 1

[facts.Counter]
attributes = { count = "Long" }

[observe.Counter]
who = 'true'
attributes = "*"

[action.add]
resource = 'Counter::"{counter}"'
allow = 'true'
set = { count = "resource.count + 1" }

[[action.add.require]]
id = "not-negative"
that = 'resource.count >= 0'
"#;

fn counting() -> World {
    let world = World::serving("");
    world.publish(PACT);
    world.agent("counter-1", "counter");
    world.run_ok(&["fact", "put", "Counter", "a", r#"{"count": 0}"#]);
    world
}

/// The entry of each action, by its idempotency key; none may have two.
fn acted(world: &World) -> BTreeMap<String, u64> {
    let mut acted = BTreeMap::new();
    let text = world.run_ok(&["ledger", "list", "--json", "--from", "0", "--limit", "1000000"]);
    for entry in text.lines().map(|line| serde_json::from_str::<Json>(line).unwrap()) {
        if entry["leaf"]["kind"] == "action" {
            let body: Json = serde_json::from_str(entry["payload"]["body"].as_str().unwrap()).unwrap();
            let key = body["idempotency_key"].as_str().unwrap().to_owned();
            let before = acted.insert(key, entry["index"].as_u64().unwrap());
            assert_eq!(before, None, "acted twice: {body}");
        }
    }
    acted
}

fn count(world: &World) -> u64 {
    let fact: Json = serde_json::from_str(&world.run_ok(&["fact", "get", "Counter", "a", "--json"])).unwrap();
    fact["value"]["count"].as_u64().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The way out that a command printed, run as somebody would who pastes it into a shell.
fn pasted(world: &World, told: &str, url: &str) -> Output {
    // With --json the error is an object, and the command one of its hints.
    let error = told.lines().find_map(|line| serde_json::from_str::<Json>(line).ok());
    let hints = error.map(|told| told["error"]["hints"].clone());
    let hints = hints.iter().flat_map(|hints| hints.as_array().unwrap()).filter_map(Json::as_str);
    let told = hints.chain([told]).find(|told| told.contains("never does it twice: ")).unwrap();
    let (_, command) = told.split_once("never does it twice: ").expect("it says how to find out");
    let words = command.lines().next().unwrap().strip_prefix("countersign").unwrap();
    let words = words.replace(url, world.url());
    let script = format!("'{}'{words} --json", env!("CARGO_BIN_EXE_countersign"));
    Command::new("sh").args(["-c", &script]).current_dir(world.path()).output().unwrap()
}

#[test]
fn a_gate_that_was_killed_says_not_ready_until_it_accepts_what_is_signed_now() {
    let mut world = counting();
    let mut not_ready = 0;
    for round in 0..20 {
        if round > 5 && not_ready > 0 {
            break;
        }
        world.kill_and_serve();
        let caller = world.caller("admin");
        let until = Instant::now() + PATIENCE;
        loop {
            let is_ready = caller.ask("GET", "/readyz", "").status == 200;
            // Signed after that answer.
            let answer = caller.ask("GET", "/v1/pacts", "");
            if answer.status == 200 {
                break;
            }
            assert!(!is_ready, "round {round}: /readyz was green, and a fresh signature got {answer:?}");
            // What was signed in the second that the gate refuses may arrive when that is over.
            let code = &answer.json["error"]["code"];
            if code != "signature_expired" {
                assert_eq!((answer.status, code), (503, &Json::from("not_ready")), "round {round}");
                let after_s = answer.header("retry-after").map(|after| after.parse::<u64>().unwrap());
                assert!(after_s.is_some_and(|after_s| after_s >= 1), "{answer:?}");
                not_ready += 1;
            }
            assert!(Instant::now() < until, "it never became ready");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(caller.ask("GET", "/readyz", "").status, 200, "round {round}");
        // At another place within the second each time.
        std::thread::sleep(Duration::from_millis(130));
    }
    assert!(not_ready > 0, "no round was within the second");
}

/// Passes requests on to a gate, and from the first action on loses answers or gives its own.
struct Line {
    url: String,
    actions: Arc<AtomicUsize>,
}

impl Line {
    /// `own` is what every request gets that comes after an action's answer was lost: none where the connection is cut.
    fn to(gate: &str, own: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (gate, here) = (gate.strip_prefix("http://").unwrap().to_owned(), url["http://".len()..].to_owned());
        let actions = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&actions);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (gate, here, counted) = (gate.clone(), here.clone(), Arc::clone(&counted));
                std::thread::spawn(move || pass_on(stream.unwrap(), &gate, &here, own, &counted));
            }
        });
        Self { url, actions }
    }
}

/// Passes one request on. The signature covers the host, so the gate is told that of the line.
fn pass_on(mut client: TcpStream, gate: &str, here: &str, own: Option<&str>, actions: &AtomicUsize) {
    let mut request = Vec::new();
    let mut buffer = [0; 65536];
    loop {
        let read = client.read(&mut buffer).unwrap_or(0);
        request.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&request).to_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            if read == 0 {
                return;
            }
            continue;
        };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
        if body.len() >= length.parse().unwrap() || read == 0 {
            break;
        }
    }
    assert!(String::from_utf8_lossy(&request).contains(here), "signed for the line");
    let is_action = request.starts_with(b"POST /v1/actions");
    let was_lost = actions.load(Ordering::SeqCst) > 0;
    if is_action && was_lost {
        actions.fetch_add(1, Ordering::SeqCst);
        if let Some(body) = own {
            let head = "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\nconnection: close";
            let _ = write!(client, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        }
        return;
    }
    // One request a connection: the gate closes it after the answer, and the client is told so.
    let at = request.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    request.splice(at..at, *b"connection: close\r\n");
    let mut upstream = TcpStream::connect(gate).unwrap();
    upstream.write_all(&request).unwrap();
    if is_action {
        // The gate has decided, and the answer is lost.
        let _ = upstream.read(&mut buffer);
        actions.fetch_add(1, Ordering::SeqCst);
        return;
    }
    let _ = std::io::copy(&mut upstream, &mut client);
}

const EXPIRED: &str =
    r#"{"error":{"code":"signature_expired","message":"too late","hint":"sign again","request_id":"r"}}"#;

#[test]
fn an_action_whose_answer_was_lost_is_not_said_to_have_failed_by_what_comes_after() {
    let world = counting();
    for (own, attempts) in [(Some(EXPIRED), 4), (None, 3)] {
        let before = count(&world);
        let line = Line::to(world.url(), own);
        let mut act = world.command(&["act", "--key", "counter-1.key", "--pact", "counting", "--action", "add"]);
        act.args(["counter=a", "--observe", "Counter::a", "--server", &line.url]);
        let output = act.output().unwrap();
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(5), "{told}");
        assert!(told.contains("may have committed"), "{told}");
        assert!(line.actions.load(Ordering::SeqCst) >= attempts, "it was asked again: {told}");
        // It had, once.
        assert_eq!(count(&world), before + 1);
        // The command that was printed says so, and does it no second time.
        for _ in 0..2 {
            let found = pasted(&world, &told, &line.url);
            assert_eq!(found.status.code(), Some(0), "{}", stderr(&found));
            let verdict: Json = serde_json::from_slice(&found.stdout).unwrap();
            assert_eq!((&verdict["verdict"], &verdict["repeated"]), (&Json::from("committed"), &Json::from(true)));
        }
        assert_eq!(count(&world), before + 1);
    }
    acted(&world);
}

#[test]
fn a_write_without_a_key_is_not_said_to_have_failed_when_its_answer_is_lost_nor_is_it_sent_twice() {
    let world = counting();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut buffer = [0; 65536];
            let _ = stream.unwrap().read(&mut buffer);
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    // With the origin in the settings nothing but the write itself is asked for.
    world.write("origin.toml", &format!("origin = \"{ORIGIN}\"\n"));
    let mut put = world.command(&["fact", "put", "Counter", "a", r#"{"count": 5}"#, "--server", &url]);
    let output = put.args(["--config", "origin.toml"]).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    assert!(stderr(&output).contains("may have been done"), "{}", stderr(&output));
    assert_eq!(tries.load(Ordering::SeqCst), 1);
}

#[test]
fn a_command_typed_right_after_the_gate_was_started_waits_for_it() {
    let mut world = counting();
    for _ in 0..3 {
        let listen = world.url().to_owned();
        world.kill();
        let mut act = world.command(&["act", "--key", "counter-1.key", "--pact", "counting", "--action", "add"]);
        let act = act.args(["counter=a", "--server", &listen]).stdout(std::process::Stdio::piped());
        let act = act.stderr(std::process::Stdio::piped()).spawn().unwrap();
        // Nothing listens yet when it begins; the gate comes up while it tries, and is not ready at first.
        std::thread::sleep(Duration::from_millis(200));
        world.serve_again(&listen);
        let output = act.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
    assert_eq!((count(&world), acted(&world).len()), (3, 3));
}

/// What the command line said about its calls.
#[derive(Default)]
struct Told {
    committed: BTreeMap<String, u64>,
    not_done: BTreeMap<String, String>,
    unknown: BTreeMap<String, String>,
}

#[test]
fn no_command_says_that_nothing_was_done_when_something_was_whenever_the_gate_is_killed() {
    let lasts = Duration::from_secs(if std::env::var_os("COUNTERSIGN_LONG").is_some() { 150 } else { 12 });
    let mut world = counting();
    let (told, stop, next) = (Mutex::new(Told::default()), AtomicBool::new(false), AtomicU64::new(0));
    let (url, folder) = (world.url().to_owned(), world.path().to_path_buf());
    let work = || {
        while !stop.load(Ordering::SeqCst) {
            let key = format!("kill-test-key-{:08}", next.fetch_add(1, Ordering::SeqCst));
            let mut act = Command::new(env!("CARGO_BIN_EXE_countersign"));
            act.args(["act", "--key", "counter-1.key", "--pact", "counting", "--action", "add", "--json"]);
            act.args(["--params", r#"{"counter":"a"}"#, "--idempotency-key", &key, "--server", &url]);
            let output = act.current_dir(&folder).env_clear().output().unwrap();
            let mut told = told.lock().unwrap();
            match output.status.code() {
                Some(0) => {
                    let verdict: Json = serde_json::from_slice(&output.stdout).unwrap();
                    assert_eq!(verdict["verdict"], "committed");
                    told.committed.insert(key, verdict["entry"].as_u64().unwrap());
                }
                Some(5) => drop(told.unknown.insert(key, stderr(&output))),
                Some(1..=3) => drop(told.not_done.insert(key, stderr(&output))),
                other => panic!("{other:?}: {}", stderr(&output)),
            }
        }
    };
    let mut kills = 0;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..6).map(|_| scope.spawn(work)).collect();
        let until = Instant::now() + lasts;
        let mut random = u64::from(std::process::id());
        // On a busy machine a start takes seconds; what is asserted takes some kills.
        while Instant::now() < until || kills <= 3 {
            // xorshift: the moments need only differ from run to run.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            std::thread::sleep(Duration::from_millis(300 + random % 1800));
            world.kill_and_serve();
            kills += 1;
        }
        stop.store(true, Ordering::SeqCst);
        for worker in workers {
            worker.join().unwrap();
        }
    });
    let told = told.into_inner().unwrap();
    let (committed, not_done, unknown) = (told.committed.len(), told.not_done.len(), told.unknown.len());
    println!("{kills} kills: {committed} committed, {unknown} unknown, {not_done} not done");
    assert!(kills > 3 && committed > 0);
    let before = acted(&world);
    for (key, entry) in &told.committed {
        assert_eq!(before.get(key), Some(entry), "said to be committed");
    }
    for (key, why) in &told.not_done {
        assert_eq!(before.get(key), None, "said not to be done: {why}");
    }
    // What is not known is found out with the command that was printed.
    for (key, said) in &told.unknown {
        let found = pasted(&world, said, &url);
        assert_eq!(found.status.code(), Some(0), "{}, of: {said}", stderr(&found));
        let verdict: Json = serde_json::from_slice(&found.stdout).unwrap();
        if let Some(entry) = before.get(key) {
            assert_eq!(verdict["entry"].as_u64(), Some(*entry), "{key}");
        }
    }
    let after = acted(&world);
    let known: BTreeSet<&String> = told.committed.keys().chain(told.unknown.keys()).collect();
    assert_eq!(after.keys().collect::<BTreeSet<_>>(), known, "nothing else acted");
    assert_eq!(count(&world), after.len() as u64);
}
