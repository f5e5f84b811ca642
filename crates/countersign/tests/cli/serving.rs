//! A gate that runs, and what cannot be done beside it.

use crate::cli::sandbox::Sandbox;
use std::net::TcpListener;

#[test]
fn a_server_says_what_it_found_and_ends_cleanly() {
    let sandbox = Sandbox::with_gate();
    let (code, said) = sandbox.serve().end();
    assert_eq!(code, 0);
    insta::assert_snapshot!(said);
}

#[test]
fn a_folder_has_one_gate_but_any_number_of_readers() {
    let sandbox = Sandbox::with_gate();
    let server = sandbox.serve();
    let shown = [
        sandbox.run("fact get Account 42 --data data").must(3).shown(),
        sandbox.run("serve --data data --listen 127.0.0.1:0").must(3).shown(),
    ];
    insta::assert_snapshot!(shown.join("\n"));
    sandbox.run("verify --data data --log-key data/log.vkey").must(0);
    sandbox.run("audit --data data").must(0);
    assert_eq!(server.end().0, 0);
    sandbox.run("fact get Account 42 --data data").must(0);
}

#[test]
fn what_cannot_be_served_or_reached_is_said() {
    let sandbox = Sandbox::with_gate();
    // Held for a moment and let go, so that nothing listens there.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let shown = [
        sandbox.run(&format!("pact list --server http://{free}")).must(3).shown(),
        sandbox.run("pact list --server ftp://127.0.0.1").must(2).shown(),
        sandbox.run("pact list --server localhost:8420").must(2).shown(),
        sandbox.run(&format!("serve --data data --listen {}", held.local_addr().unwrap())).must(3).shown(),
        sandbox.run("serve --data data --listen 0.0.0.0:8420").must(2).shown(),
        sandbox.run("serve --data data --listen somewhere").must(2).shown(),
        sandbox.run("serve --data nowhere").must(3).shown(),
    ];
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn an_address_that_this_machine_does_not_have_is_said_to_be_that() {
    let sandbox = Sandbox::new();
    sandbox.run("init --data data").must(0);
    sandbox.write("countersign.toml", "[tls]\nterminated_by_proxy = true");
    // An address for documentation, which no machine has.
    let refused = sandbox.run("serve --data data --listen 192.0.2.1:9999").must(3).stderr;
    assert!(refused.contains("this machine has no such address"), "{refused}");
}

#[test]
fn a_log_in_json_holds_nothing_else() {
    let mut sandbox = Sandbox::with_gate();
    sandbox.env("COUNTERSIGN_LOG_FORMAT", "json");
    let gate = sandbox.run("serve --data data --listen 127.0.0.1:0 --detach").must(0);
    let pid = gate.stdout.trim().to_owned();
    let address = gate.stderr.split("listens on ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap().to_owned();
    // Something that is refused and logged, and a second gate that fails and says so in the same file.
    sandbox.run(&format!("effect show eff_99 --server {address}")).must(1);
    sandbox.run("serve --data data --listen 127.0.0.1:0 --detach").must(3);
    assert!(std::process::Command::new("kill").arg(&pid).status().unwrap().success());
    let log = sandbox.path().join("data/gate.log");
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let said = loop {
        let said = std::fs::read_to_string(&log).unwrap();
        if said.contains("Closed.") {
            break said;
        }
        assert!(std::time::Instant::now() < until, "{said}");
        std::thread::yield_now();
    };
    let lines: Vec<serde_json::Value> =
        said.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect();
    for line in &lines {
        assert!(line["timestamp"].is_string() && line["level"].is_string() && line["message"].is_string(), "{line}");
    }
    let levels = |level: &str| lines.iter().filter(|line| line["level"] == level).count();
    assert!(levels("INFO") > 3 && levels("ERROR") == 1, "{said}");
}

#[test]
fn a_gate_in_the_background_that_cannot_start_says_why_in_one_sentence_and_hints() {
    let sandbox = Sandbox::with_gate();
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let line = format!("serve --data data --listen {} --detach", held.local_addr().unwrap());
    insta::assert_snapshot!(sandbox.run(&line).must(3).shown());
}

/// A gate whose disk is full: it takes requests and does not answer them, and says at `/readyz` why.
fn full_gate() -> (String, std::thread::JoinHandle<()>) {
    use std::io::{BufRead as _, Write as _};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let gate = std::thread::spawn(move || {
        let mut held = Vec::new();
        loop {
            let (mut stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            std::io::BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
            if !line.starts_with("GET /readyz") {
                held.push(stream);
                continue;
            }
            let body = r#"{"error":{"code":"ledger_failed","message":"the disk is full","hint":"make room","request_id":"1"}}"#;
            write!(stream, "HTTP/1.1 503 -\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
                .unwrap();
            // The others lose their connection.
            return;
        }
    });
    (address, gate)
}

#[test]
fn a_command_that_waits_says_for_what() {
    let (server, gate) = full_gate();
    let sandbox = Sandbox::new();
    let said = sandbox.run(&format!("halt list --server {server}")).stderr;
    assert!(
        said.contains(&format!("Still waiting for {server}. It is not ready: the disk is full (hint: make room)")),
        "{said}"
    );
    gate.join().unwrap();
}

/// A port that nothing listens at.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn a_command_beside_a_gate_that_starts_finds_it_by_the_settings_of_both() {
    let sandbox = Sandbox::with_gate();
    let port = free_port();
    sandbox.write(
        "countersign.toml",
        &format!("data = \"data\"\nlisten = \"127.0.0.1:{port}\"\noperator_socket = \"off\"\n"),
    );
    // Where there is no socket, `listen` is where it is.
    let server = sandbox.serve_with("serve");
    assert!(server.url.ends_with(&format!(":{port}")), "{}", server.url);
    assert!(sandbox.run("pact list").must(0).stdout.contains("billing"));
    assert_eq!(server.end().0, 0);
    let refused = sandbox.run("pact list").must(3).stderr;
    assert!(refused.contains(&format!("http://127.0.0.1:{port}")), "{refused}");
}

#[test]
fn a_command_typed_in_one_breath_with_serve_waits_for_the_socket() {
    let sandbox = Sandbox::with_gate();
    // Nothing but the socket says which port it took.
    sandbox.write("countersign.toml", "data = \"data\"\nlisten = \"127.0.0.1:0\"\n");
    let waiting = sandbox.start("pact list");
    let server = sandbox.serve_with("serve");
    let output = waiting.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("billing"), "{said}");
    assert_eq!(server.end().0, 0);
}
