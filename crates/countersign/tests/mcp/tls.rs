//! The gateway over TLS: to the gate, to a server behind it, and from its own clients.
//!
//! The server behind it is a second gateway that listens over TLS, so both ends are in every test.

use crate::mcp::http::Http;
use crate::mcp::sandbox::Sandbox;
use crate::mcp::server;
use countersign_testing::certificates::{Authority, Issued};
use serde_json::json;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

const LISTENS: &str = "[tls]\ncertificate = \"server.pem\"\nkey = \"server.key\"\n";
const CLIENTS: &str =
    "client_ca = \"ca.pem\"\nrequire_client_certificate = true\nspiffe = \"spiffe://acme.example/agent/\"\n";

/// What listens, until it is dropped.
struct Listening(Child);

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn furnish(sandbox: &Sandbox, authority: &Authority, settings: &str) {
    std::fs::write(sandbox.path().join("ca.pem"), &authority.pem).unwrap();
    authority.server(&["127.0.0.1"]).unwrap().write(sandbox.path(), "server").unwrap();
    std::fs::write(sandbox.path().join("countersign.toml"), settings).unwrap();
}

/// A gateway that listens over TLS, in front of a bank.
fn far(authority: &Authority, settings: &str) -> (Sandbox, Http) {
    let sandbox = Sandbox::approved();
    furnish(&sandbox, authority, settings);
    let gateway = sandbox.listen(&[("bank", "usual")]);
    (sandbox, gateway)
}

/// A gate with an agent, whose gateway has that one behind it, with these settings beside.
fn near(far: &Http, authority: &Authority, client: Option<&Issued>, more: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let mut settings = format!("[mcp.upstream.far]\nurl = \"{}\"\n{more}", far.url());
    if let Some(client) = client {
        client.write(sandbox.path(), "client").unwrap();
        settings += "certificate = \"client.pem\"\ncertificate_key = \"client.key\"\n";
    }
    furnish(&sandbox, authority, &settings);
    sandbox
}

const APPROVE: [&str; 5] = ["mcp", "approve", "--yes", "--data", "data"];

#[test]
fn a_server_over_tls_is_called_with_a_private_authority_and_a_client_certificate() {
    let authority = Authority::new("tests").unwrap();
    let (_folder, far) = far(&authority, &format!("{LISTENS}{CLIENTS}"));
    assert!(far.url().starts_with("https://127.0.0.1:"), "{}", far.url());
    let client = authority.client(&["spiffe://acme.example/agent/coder-1"]).unwrap();
    let near = near(&far, &authority, Some(&client), "ca = \"ca.pem\"\n");
    near.run_ok(&APPROVE);
    let mut agent = near.client(&[], &[]);
    agent.initialize();
    assert!(agent.tools().contains(&"get_account".to_owned()));
    let called = agent.call("get_account", &json!({"id": "1"}));
    assert_eq!(called["structuredContent"]["status"], "active", "{called}");
    assert_eq!(agent.end().0, 0);
}

#[test]
fn a_server_over_tls_that_cannot_be_trusted_or_does_not_trust_is_sent_nothing() {
    let authority = Authority::new("tests").unwrap();
    let (_folder, far) = far(&authority, &format!("{LISTENS}{CLIENTS}"));
    let other = authority.client(&["spiffe://acme.example/agent/coder-2"]).unwrap();
    let stranger = Authority::new("strangers").unwrap().client(&["spiffe://acme.example/agent/coder-1"]).unwrap();
    for (client, more, part) in [
        (None, "", "comes from no authority that is trusted here"),
        (None, "ca = \"ca.pem\"\n", "takes no one without a client certificate"),
        (Some(&stranger), "ca = \"ca.pem\"\n", "does not trust the authority"),
        (Some(&other), "ca = \"ca.pem\"\n", "does not name the agent that this gateway acts as"),
    ] {
        let near = near(&far, &authority, client, more);
        let refused = near.run(&APPROVE);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains(part), "{part}: {said}");
    }
}

#[test]
fn a_gateway_asks_its_gate_over_tls() {
    let authority = Authority::new("tests").unwrap();
    let sandbox = Sandbox::approved();
    furnish(&sandbox, &authority, &format!("ca = \"ca.pem\"\n{LISTENS}"));
    let mut gate = sandbox.command(&["serve", "--data", "data", "--listen", "127.0.0.1:0"]);
    let mut gate = gate.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(gate.stderr.take().unwrap());
    let _gate = Listening(gate);
    let url = loop {
        let mut line = String::new();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended");
        if let Some(url) = line.trim().strip_prefix("Listening on ") {
            break url.to_owned();
        }
    };
    std::thread::spawn(move || stderr.lines().map_while(Result::ok).count());
    let bank = format!("bank={}", server::command("usual"));
    let words = ["mcp", "serve", "--server", &url, "--agent", "coder-1", "--upstream", &bank];
    let mut agent = crate::mcp::client::Stdio::start(sandbox.command(&words));
    agent.initialize();
    let called = agent.call("get_account", &json!({"id": "1"}));
    assert_eq!(called["structuredContent"]["status"], "active", "{called}");
    assert_eq!(agent.end().0, 0);
    // Whoever else answers at that address is told nothing.
    std::fs::write(sandbox.path().join("ca.pem"), Authority::new("strangers").unwrap().pem).unwrap();
    let refused = sandbox.run(&["pact", "list", "--server", &url]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("comes from no authority that is trusted here"), "{said}");
}
