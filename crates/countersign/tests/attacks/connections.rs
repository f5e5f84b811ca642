//! Half-open, slow and endless clients, and a storage that runs out of descriptors or space.

mod attackers;

use crate::attacks::service::{Reply, Service};
use crate::attacks::world::{Caller, PATIENCE, World, wait_until};
use attackers::{Attack, HALF_OPEN, SLOW};
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How many descriptors the gate has.
const DESCRIPTORS: u64 = 1024;
const SOCKET: &str = "unix:data/operator.sock";

const PACT: &str = r#"
pact = "stock"
version = 1

[facts.Item]
attributes = { on_hand = "Long", note = "String" }

[observe.Item]
who = 'principal.roles.contains("shipper")'
attributes = "*"

[action.ship]
resource = 'Item::"{item}"'
allow = 'principal.roles.contains("shipper")'
set = { on_hand = "resource.on_hand - 1" }

[[action.ship.require]]
id = "enough-on-hand"
that = 'resource.on_hand >= 1'
"#;

/// A gate with so few descriptors that the attackers alone could use them up four times.
fn gate_with_few_descriptors(settings: &str) -> World {
    let mut world = World::new();
    world.write("countersign.toml", settings);
    let mut limited = Command::new("sh");
    let script = format!("ulimit -n {DESCRIPTORS}; exec \"$0\" \"$@\"");
    limited.args(["-c", &script, env!("CARGO_BIN_EXE_countersign")]);
    world.serve_by(limited);
    world
}

/// Sends a signed request over a connection of its own, again if it does not come through. Gives the body of the answer.
fn persist(caller: &Caller, addr: SocketAddr, method: &str, path: &str, body: &str, retries: &AtomicU64) -> String {
    let until = Instant::now() + PATIENCE;
    loop {
        let signed = caller.sign(method, path, body);
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nContent-Digest: {}\r\nSignature-Input: {}\r\nSignature: {}\r\n\r\n",
            body.len(),
            signed.content_digest.as_deref().unwrap_or_default(),
            signed.input,
            signed.signature
        );
        let answered = TcpStream::connect_timeout(&addr, PATIENCE).and_then(|mut stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all((head + body).as_bytes())?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        });
        match answered {
            Ok(answer) if answer.starts_with("HTTP/1.1 200") => return answer,
            other => assert!(Instant::now() < until, "it never came through: {other:?}"),
        }
        retries.fetch_add(1, Ordering::SeqCst);
    }
}

fn ship(key: &str) -> String {
    let action = json!({"pact": "stock", "action": "ship", "idempotency_key": format!("{key:0>32}"),
        "params": {"item": "kettle"}, "observations": []});
    action.to_string()
}

fn descriptors_of(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

#[test]
fn thousands_of_half_open_and_slow_clients_lock_nobody_out_and_cost_the_ledger_nothing() {
    let world = gate_with_few_descriptors("segment_bytes = 1048576\n");
    world.publish(PACT);
    let agent = world.agent("packer-1", "shipper");
    let admin = world.caller("admin");
    world.run_ok(&["fact", "put", "Item", "kettle", r#"{"on_hand": 1000, "note": ""}"#]);
    let addr: SocketAddr = world.url().strip_prefix("http://").unwrap().parse().unwrap();
    let retries = AtomicU64::new(0);
    let attack = Attack::begin(addr);
    wait_until("the attackers have used up most descriptors", || descriptors_of(world.pid()) > 500);
    let held = descriptors_of(world.pid());
    assert!(held < 1000, "the gate holds {held} descriptors");

    // The operator gets through, and what is halted is.
    let started = Instant::now();
    world.run_ok(&["halt", "add", "--server", SOCKET, "--agent", "packer-1", "--reason", "an attack"]);
    let took = started.elapsed();
    println!("a halt by the operators' socket while {HALF_OPEN} half-open and {SLOW} slow clients attack: {took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    let refused = persist(&agent, addr, "POST", "/v1/actions", &ship("halted"), &retries);
    assert!(refused.contains("\"halted\""), "{refused}");
    world.run_ok(&["halt", "lift", "--server", SOCKET, "--agent", "packer-1", "--reason", "seen"]);

    // Others get through on the port, and the ledger rolls over to new segments.
    let note = "n".repeat(15_000);
    for count in 0..160 {
        let value = json!({"value": {"on_hand": 1000, "note": format!("{count} {note}")}}).to_string();
        persist(&admin, addr, "PUT", "/v1/facts/Item/kettle", &value, &retries);
    }
    let done = persist(&agent, addr, "POST", "/v1/actions", &ship("attacked"), &retries);
    assert!(done.contains("\"committed\""), "{done}");
    let held = descriptors_of(world.pid());
    assert!(held < 1000, "the gate holds {held} descriptors");
    drop(attack);
    println!("{} requests had to be sent again", retries.load(Ordering::SeqCst));
    let done = agent.ask("POST", "/v1/actions", &ship("afterwards"));
    assert_eq!((done.status, done.json["verdict"].as_str()), (200, Some("committed")), "{done:?}");
    let segments = std::fs::read_dir(world.path().join("data/log")).unwrap().flatten();
    let segments = segments.filter(|file| file.file_name().to_string_lossy().ends_with(".seg")).count();
    assert!(segments >= 3, "the ledger has {segments} segments");
    world.run_ok(&["verify", "--data", "data", "--log-key", "data/log.vkey"]);
}

#[test]
fn a_signed_request_is_needed_on_the_operators_socket_as_well() {
    let world = World::serving("");
    let socket = world.path().join("data/operator.sock");
    let file = std::fs::symlink_metadata(&socket).unwrap();
    assert!(file.file_type().is_socket());
    assert_eq!(file.permissions().mode() & 0o777, 0o600, "only the gate's own user can connect");
    let mut command = world.command(&["halt", "add", "--server", SOCKET, "--all", "--reason", "no key"]);
    let output = command.env_remove("COUNTERSIGN_KEY").output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("signature_missing"), "{output:?}");
    world.write("countersign.toml", "data = \"data\"\n");
    assert_eq!(world.run_ok(&["halt", "list"]).trim(), "");
    // Without any address, the gate on the usual folder is found by its socket.
    let mut nearby = world.command(&["halt", "add", "--all", "--reason", "nearby"]);
    let output = nearby.env_remove("COUNTERSIGN_SERVER").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(world.run_ok(&["halt", "list"]).contains("nearby"));
}

#[test]
fn the_socket_of_a_killed_gate_is_replaced_and_that_of_a_running_one_is_not() {
    let mut world = World::serving("");
    let socket = world.path().join("data/operator.sock");
    let second = world.run(&["serve", "--listen", "127.0.0.1:0", "--data", "data"]);
    assert!(!second.status.success(), "one gate a folder");
    world.run_ok(&["halt", "list", "--server", SOCKET]);
    world.kill();
    assert!(socket.exists(), "a killed gate cannot remove it");
    world.serve();
    world.run_ok(&["halt", "list", "--server", SOCKET]);
    // Something else of that name is not the gate's to replace.
    world.kill();
    std::fs::remove_file(&socket).unwrap();
    world.write("data/operator.sock", "precious");
    let refused = world.run(&["serve", "--listen", "127.0.0.1:0", "--data", "data"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is not a socket"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&socket).unwrap(), "precious");
}

#[test]
fn a_terminal_that_hangs_up_ends_the_gate_cleanly() {
    let mut world = World::serving("");
    let pid = world.pid();
    assert!(Command::new("kill").args(["-HUP", &pid.to_string()]).status().unwrap().success());
    wait_until("the log was closed cleanly", || world.path().join("data/log/clean").exists());
    wait_until("the socket is gone", || !world.path().join("data/operator.sock").exists());
    world.kill();
}

#[test]
fn a_gate_in_the_background_listens_when_the_command_returns() {
    let world = World::new();
    world.write("countersign.toml", "data = \"data\"\n");
    let detached = world.run_ok(&["serve", "--detach", "--listen", "localhost:0"]);
    let pid = detached.trim();
    // No retries: whatever comes next finds the gate there.
    let listed = world.command(&["halt", "list"]).env("COUNTERSIGN_KEY", "admin.key").output().unwrap();
    let again = world.run(&["serve", "--detach", "--listen", "127.0.0.1:0"]);
    assert!(Command::new("kill").arg(pid).status().unwrap().success());
    wait_until("the log was closed cleanly", || world.path().join("data/log/clean").exists());
    assert!(listed.status.success(), "{listed:?}");
    assert!(!again.status.success(), "one gate a folder");
    assert!(String::from_utf8_lossy(&again.stderr).contains("is held by process"), "{again:?}");
}

const PAYOUTS: &str = r#"
pact = "payouts"
version = 1

[facts.Account]
attributes = { open = "Bool" }

[action.pay]
resource = 'Account::"{account}"'
allow = 'principal.roles.contains("payer")'
set = { open = "resource.open" }
call = { http = "bank", path = "/payouts/{account}", body = { amount = "1" }, after = "3s" }

[action.pay.params]
type = "object"
additionalProperties = false
required = ["account"]
properties.account = { type = "string", pattern = "^[a-z0-9]+$" }

[[action.pay.require]]
id = "account-is-open"
that = 'resource.open'
"#;

#[test]
fn hundreds_of_calls_that_are_due_at_once_do_not_run_past_a_halt() {
    const EFFECTS: usize = 400;
    const WORKERS: usize = 4;
    let bank = Service::start(|_| Reply { after: Duration::from_millis(100), ..Reply::json(200, "{}") });
    let settings = format!(
        "[adapters.bank]\nkind = \"http\"\nbase = \"{}\"\nallow_private = [\"127.0.0.0/8\"]\nconcurrency = {WORKERS}\n",
        bank.url
    );
    let mut world = World::serving(&settings);
    world.publish(PAYOUTS);
    let payer = world.agent("payer-1", "payer");
    let admin = world.caller("admin");
    for at in 0..EFFECTS {
        let path = format!("/v1/facts/Account/a{at}");
        wait_until("an account is fed", || admin.ask("PUT", &path, r#"{"value":{"open":true}}"#).status == 200);
    }
    for at in 0..EFFECTS {
        let action = json!({"pact": "payouts", "action": "pay", "idempotency_key": format!("{at:0>32}"),
            "params": {"account": format!("a{at}")}, "observations": []});
        // The gate may say that this is too much at a time.
        wait_until("a payout is under way", || {
            payer.ask("POST", "/v1/actions", &action.to_string()).json["verdict"] == "in_flight"
        });
    }
    // Everything comes due while no gate runs, so that the next one has all of it to do at once.
    world.kill();
    std::thread::sleep(Duration::from_millis(3500));
    world.serve();
    let before = bank.received().len();
    wait_until("calls leave", || bank.received().len() > before);
    let started = Instant::now();
    world.run_ok(&["halt", "add", "--server", SOCKET, "--all", "--reason", "stop them"]);
    let (took, at_halt) = (started.elapsed(), bank.received().len());
    wait_until("every effect has ended", || {
        let open = world.run_ok(&["effect", "list", "--json"]);
        !open.contains("\"cooling\"") && !open.contains("\"dispatched\"")
    });
    let in_the_end = bank.received().len();
    println!(
        "halted {took:?} after the first call left: {at_halt} calls by then, {in_the_end} in the end, of {EFFECTS}"
    );
    // A call whose last check was before the halt may be on its way: at most one for each worker.
    assert!(in_the_end <= at_halt + WORKERS, "{} calls left after the halt", in_the_end - at_halt);
    assert!(in_the_end < EFFECTS, "the halt came too late to stop anything");
}

#[test]
fn a_body_that_never_ends_is_given_up_when_the_settings_say() {
    let world = World::serving("[connections]\nbody_timeout = \"500ms\"");
    let addr: SocketAddr = world.url().strip_prefix("http://").unwrap().parse().unwrap();
    let head =
        format!("POST /v1/halts HTTP/1.1\r\nHost: {addr}\r\nContent-Type: application/json\r\nContent-Length: 9\r\n");
    let by_admin = world.caller("admin").sign("POST", "/v1/halts", "{       }");
    let by_admin = format!(
        "Content-Digest: {}\r\nSignature-Input: {}\r\nSignature: {}\r\n",
        by_admin.content_digest.unwrap(),
        by_admin.input,
        by_admin.signature
    );
    let forged = "Signature-Input: countersign=()\r\nSignature: countersign=:AAAA:\r\n";
    // What is not signed has its answer as soon as it is given up.
    for (signed, told) in [(by_admin.as_str(), "HTTP/1.1 408 "), (forged, "HTTP/1.1 401 "), ("", "HTTP/1.1 401 ")] {
        let mut stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let sent = Instant::now();
        stream.write_all(format!("{head}{signed}\r\n{{").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with(told), "{answer}");
        assert_eq!(answer.contains("within 0.5 s"), told.contains("408"), "{answer}");
        assert!(sent.elapsed() < Duration::from_secs(8), "as long as without the setting: {:?}", sent.elapsed());
    }
}
