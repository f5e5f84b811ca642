//! A gate that runs, and what cannot be done beside it.

use crate::sandbox::Sandbox;
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
    sandbox.run("verify --data data --key data/log.vkey").must(0);
    sandbox.run("audit --data data").must(0);
    assert_eq!(server.end().0, 0);
    sandbox.run("fact get Account 42 --data data").must(0);
}

#[test]
fn what_cannot_be_served_or_reached_is_said() {
    let sandbox = Sandbox::with_gate();
    // Held for a moment and let go, so that nobody listens there.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let shown = [
        sandbox.run(&format!("pact list --server http://{free}")).must(3).shown(),
        sandbox.run("pact list --server ftp://127.0.0.1").must(2).shown(),
        sandbox.run(&format!("serve --data data --listen {}", held.local_addr().unwrap())).must(3).shown(),
        sandbox.run("serve --data data --listen 0.0.0.0:8420").must(2).shown(),
        sandbox.run("serve --data data --listen somewhere").must(2).shown(),
        sandbox.run("serve --data nowhere").must(3).shown(),
    ];
    insta::assert_snapshot!(shown.join("\n"));
}
