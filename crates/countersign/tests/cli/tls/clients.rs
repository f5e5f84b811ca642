//! Certificates of clients: who is turned away, and what one does not let its client do.

use super::*;

const REQUIRED: &str = "require_client_certificate = true\ncrl = \"crl.pem\"\n";
const SPIFFE: &str = "spiffe = \"spiffe://acme.example/agent/\"\n";

/// An action of `refund-1`, whose key is in a file of that name.
const ACT: &str = "act --pact billing --action refund account=42 amount=100 currency=USD destination=acct_treasury_1 \
    --observe Account::42";

#[test]
fn clients_without_a_good_certificate_are_turned_away_with_the_reason() {
    let world = World::asking(REQUIRED);
    let good = world.authority.client(&[]).unwrap();
    let revoked = world.authority.client(&[]).unwrap();
    world.revoke(&[&revoked]);
    let expired = Wanted { is_expired: true, is_client: true, ..Wanted::default() };
    let stranger = Authority::new("strangers").unwrap();
    let self_signed = Issued::self_signed(Wanted { is_client: true, ..Wanted::default() }).unwrap();
    for (name, issued) in [
        ("good", &good),
        ("revoked", &revoked),
        ("expired", &world.authority.issue(expired).unwrap()),
        ("stranger", &stranger.client(&[]).unwrap()),
        ("self", &self_signed),
        ("server-like", &world.authority.server(&HERE).unwrap()),
    ] {
        world.client(name, issued);
    }
    let server = world.sandbox.serve();
    let get = format!("fact get Account 42 --server {} --key admin.key", server.url);
    let health = format!("{}/healthz", server.url);
    world.sandbox.run(&format!("{get} --config good.toml")).must(0);
    assert!(world.curl(&["--cacert", "ca.pem", "--cert", "good.pem", "--key", "good.key", &health]).status.success());
    let shown = openssl(&world, &server, &["-cert", "good.pem", "-key", "good.key", "-tls1_2"]);
    assert!(shown.status.success(), "{}", said(&shown));
    assert!(!openssl(&world, &server, &["-tls1_2"]).status.success(), "none");
    let none = world.sandbox.run(&get).must(3).stderr;
    assert!(none.contains("takes no one without a client certificate"), "{none}");
    for (name, told) in [
        ("revoked", "has been revoked"),
        ("expired", "has expired"),
        ("stranger", "does not trust the authority"),
        ("self", "does not trust the authority"),
        ("server-like", "the client certificate that was shown"),
    ] {
        let refused = world.sandbox.run(&format!("{get} --config {name}.toml")).must(3).stderr;
        assert!(refused.contains(told) && refused.contains("hint: "), "{name}: {refused}");
        // It was not looked at, so it is not in doubt whether it was done.
        let put = r#"fact put Account 42 {"status":"frozen","balance":1,"owner":"ada"}"#;
        world.sandbox.run(&format!("{put} --server {} --key admin.key --config {name}.toml", server.url)).must(3);
        let (certificate, key) = (format!("{name}.pem"), format!("{name}.key"));
        let curl = world.curl(&["--cacert", "ca.pem", "--cert", &certificate, "--key", &key, &health]);
        assert!(!curl.status.success() && curl.stdout.is_empty(), "{name}: {}", said(&curl));
    }
    assert!(world.sandbox.run(&format!("{get} --config good.toml")).must(0).stdout.contains("active"));
    let (_, log) = server.end_with_log();
    for cause in [
        "the client has shown no certificate",
        "the certificate of the client has been revoked",
        "the certificate of the client expired at ",
        "the certificate of the client comes from no authority that is trusted here",
        "the certificate of the client is for another use",
    ] {
        assert!(log.contains(cause), "{cause}: {log}");
    }
    assert!(!log.contains("PRIVATE KEY"), "{log}");
}

#[test]
fn a_certificate_of_one_agent_carries_no_signature_of_another() {
    let world = World::asking(SPIFFE);
    let new = "agent new fraud-1 --org acme --role refunder --trust 700 --data data --key admin.key";
    world.sandbox.run(new).must(0);
    let agents_key = std::fs::read_to_string(world.sandbox.path().join("fraud-1.key")).unwrap();
    let by_key = Wanted { key: Some(&agents_key), is_client: true, ..Wanted::default() };
    world.client("fraud-by-name", &world.authority.client(&["spiffe://acme.example/agent/fraud-1"]).unwrap());
    world.client("fraud-by-key", &world.authority.issue(by_key).unwrap());
    world.client("refund", &world.authority.client(&["spiffe://acme.example/agent/refund-1"]).unwrap());
    world.client("unknown", &world.authority.client(&["spiffe://acme.example/agent/no-one"]).unwrap());
    let both = Wanted { uris: &["spiffe://acme.example/agent/refund-1"], ..by_key };
    world.client("both", &world.authority.issue(both).unwrap());
    world.client("proxy", &world.authority.client(&["spiffe://acme.example/proxy"]).unwrap());
    let server = world.sandbox.serve();
    let act = format!("{ACT} --server {}", server.url);
    let before = world.entries(&server);
    for name in ["fraud-by-name", "fraud-by-key", "unknown", "both"] {
        let refused = world.sandbox.run(&format!("{act} --key refund-1.key --config {name}.toml"));
        assert!(refused.stderr.contains("(certificate_mismatch)"), "{name}: {}", refused.must(1).shown());
        // Nor an operator's.
        let get = format!("fact get Account 42 --server {} --key admin.key --config {name}.toml", server.url);
        assert!(world.sandbox.run(&get).must(1).stderr.contains("(certificate_mismatch)"));
    }
    assert_eq!(world.entries(&server), before, "nothing of it is in the ledger");
    // A certificate is no signature: without one nothing passes that would not pass without the certificate.
    let get = format!("fact get Account 42 --server {} --config refund.toml", server.url);
    assert!(world.sandbox.run(&get).must(2).stderr.contains("signature_missing"));
    // Who signs is who is named; and a certificate that names no one says nothing.
    world.sandbox.run(&format!("{act} --key refund-1.key --config refund.toml")).must(0);
    world.sandbox.run(&format!("{act} --key fraud-1.key --config fraud-by-key.toml")).must(0);
    world.sandbox.run(&format!("{act} --key fraud-1.key --config fraud-by-name.toml")).must(0);
    world.sandbox.run(&format!("{act} --key refund-1.key --config proxy.toml")).must(0);
    assert_eq!(server.end().0, 0);
}

#[test]
fn a_revoked_agents_certificate_gets_nothing() {
    let world = World::asking(SPIFFE);
    let agents_key = std::fs::read_to_string(world.sandbox.path().join("refund-1.key")).unwrap();
    let by_key = Wanted { key: Some(&agents_key), is_client: true, ..Wanted::default() };
    world.client("by-key", &world.authority.issue(by_key).unwrap());
    world.client("by-name", &world.authority.client(&["spiffe://acme.example/agent/refund-1"]).unwrap());
    let server = world.sandbox.serve();
    let mut open = world.open(&server, Some("by-name"));
    assert!(ask(&mut open).unwrap().starts_with("HTTP/1.1 200"));
    world.sandbox.run(&format!("agent revoke refund-1 --server {} --key admin.key", server.url)).must(0);
    let answer = ask(&mut open).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("certificate_refused"), "{answer}");
    for name in ["by-key", "by-name"] {
        for path in ["/healthz", "/log/checkpoint", "/nowhere", "/v1/caller"] {
            let answer = ask_for(&mut world.open(&server, Some(name)), path);
            assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("certificate_refused"), "{path}: {answer}");
        }
    }
    world.sandbox.run(&format!("agent activate refund-1 --server {} --key admin.key", server.url)).must(0);
    world.sandbox.run(&format!("{ACT} --key refund-1.key --server {} --config by-key.toml", server.url)).must(0);
    // The key of yesterday opens nothing either.
    let rotate =
        format!("agent rotate refund-1 --overlap 1s --key-file new.key --server {} --key admin.key", server.url);
    world.sandbox.run(&rotate).must(0);
    let until = Instant::now() + PATIENCE;
    loop {
        let answer = ask_for(&mut world.open(&server, Some("by-key")), "/healthz");
        if answer.contains("is not one of agent refund-1 any more") {
            break;
        }
        assert!(Instant::now() < until, "{answer}");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(server.end().0, 0);
}

fn ask_for(stream: &mut StreamOwned<ClientConnection, TcpStream>, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn what_is_revoked_while_its_connection_is_open_gets_nothing_more() {
    let world = World::asking("crl = \"crl.pem\"\n");
    let issued = world.authority.client(&[]).unwrap();
    world.client("proxy", &issued);
    world.revoke(&[]);
    let server = world.sandbox.serve();
    let (mut open, mut other) = (world.open(&server, Some("proxy")), world.open(&server, None));
    assert!(
        ask(&mut open).unwrap().starts_with("HTTP/1.1 200") && ask(&mut other).unwrap().starts_with("HTTP/1.1 200")
    );
    world.revoke(&[&issued]);
    let until = Instant::now() + PATIENCE;
    let refused = loop {
        let answer = ask(&mut open).unwrap();
        if !answer.starts_with("HTTP/1.1 200") {
            break answer;
        }
        assert!(Instant::now() < until, "it goes on to be answered");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(refused.starts_with("HTTP/1.1 403") && refused.contains("certificate_refused"), "{refused}");
    assert!(
        refused.contains("has been revoked") && refused.to_ascii_lowercase().contains("connection: close"),
        "{refused}"
    );
    assert!(ask(&mut world.open(&server, Some("proxy"))).is_err(), "nor does a new connection open");
    assert!(ask(&mut other).unwrap().starts_with("HTTP/1.1 200"), "the others go on");
    assert_eq!(server.end().0, 0);
}
