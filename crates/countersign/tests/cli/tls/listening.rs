//! What a listener over TLS answers, and to whom it says nothing.

use super::*;

#[test]
fn curl_openssl_and_the_command_line_speak_tls_with_a_gate() {
    let world = World::new();
    let server = world.sandbox.serve();
    assert!(server.url.starts_with("https://127.0.0.1:"), "{}", server.url);
    let health = world.curl(&["--cacert", "ca.pem", &format!("{}/healthz", server.url)]);
    assert!(health.status.success() && said(&health).contains("\"ok\""), "{}", said(&health));
    for version in ["-tls1_2", "-tls1_3"] {
        let shaken = openssl(&world, &server, &[version, "-verify_hostname", "localhost", "-alpn", "http/1.1"]);
        let said = said(&shaken);
        assert!(shaken.status.success() && said.contains("Verify return code: 0 (ok)"), "{version}: {said}");
        assert!(said.contains("ALPN protocol: http/1.1"), "{said}");
        assert!(!said.contains("Post-Handshake New Session Ticket"), "{said}");
    }
    for refused in [&["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"][..], &["-alpn", "h2"]] {
        assert!(!openssl(&world, &server, refused).status.success(), "{refused:?}");
    }
    let url = &server.url;
    let value = world.sandbox.run(&format!("fact get Account 42 --json --server {url} --ca ca.pem --key admin.key"));
    assert_eq!(value.must(0).json()["version"], 1);
    let act = "act --pact billing --action refund account=42 amount=100 currency=USD destination=acct_treasury_1";
    world.sandbox.run(&format!("{act} --observe Account::42 --server {url} --key refund-1.key")).must(0);
    // Nothing is different for operators.
    world.sandbox.run("fact get Account 42 --server unix:data/operator.sock --key admin.key").must(0);
    assert_eq!(server.end().0, 0);
}

#[test]
fn nothing_is_answered_in_clear_where_tls_is_spoken() {
    let world = World::new();
    let server = world.sandbox.serve();
    let plain = server.url.replace("https://", "http://");
    let refused = world.curl(&["--http0.9", &format!("{plain}/healthz")]);
    assert!(!said(&refused).contains("ok\"") && !said(&refused).contains("HTTP/1.1"), "{}", said(&refused));
    let run = world.sandbox.run(&format!("fact get Account 42 --server {plain} --key admin.key --config none.toml"));
    assert_eq!(run.code, 2, "there is no such file");
    world.sandbox.write("plain.toml", "origin = \"countersign.local/log\"");
    let run = world.sandbox.run(&format!("fact get Account 42 --server {plain} --key admin.key --config plain.toml"));
    assert!(run.stderr.contains("does it speak TLS? then its address begins with https://"), "{}", run.must(3).stderr);
    let mut stream = TcpStream::connect(host(&server)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    // A reset is a closing, too.
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer[0] == 21 && answer.len() < 16, "{answer:?}");
    let (code, log) = server.end_with_log();
    assert!(code == 0 && log.contains("the client does not speak TLS"), "{log}");
}

#[test]
fn beyond_this_machine_it_takes_tls_or_a_proxy_that_speaks_it() {
    let world = World::new();
    world.sandbox.write("countersign.toml", "");
    let refused = world.sandbox.run("serve --data data --listen 0.0.0.0:8420").must(2).stderr;
    for part in
        ["what travels there would not be encrypted", "hint: name a certificate", "`terminated_by_proxy = true`"]
    {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    for settings in ["[tls]\nterminated_by_proxy = true", LISTENS] {
        world.sandbox.write("countersign.toml", settings);
        assert_eq!(world.sandbox.serve_on("0.0.0.0:0").end().0, 0, "{settings}");
    }
    world.sandbox.run("serve --data data --dev-tls").must(2);
    // The gateway acts as its agent for everyone who reaches it, so TLS alone is not enough.
    let gateway = "mcp serve --agent refund-1 --upstream bank=false --data data --listen 0.0.0.0:0";
    let refused = world.sandbox.run(gateway).must(2).stderr;
    assert!(
        refused.contains("the gateway cannot tell who calls") && refused.contains("`require_client_certificate`"),
        "{refused}"
    );
}

#[test]
fn a_gate_makes_a_certificate_to_try_things_out() {
    let world = World::new();
    world.sandbox.write("countersign.toml", "");
    let server = world.sandbox.serve_with("serve --data data --listen 0.0.0.0:0 --dev-tls");
    let url = server.url.replace("0.0.0.0", "localhost");
    let health = world.curl(&["--cacert", "data/tls/ca.pem", &format!("{url}/healthz")]);
    assert!(health.status.success(), "{}", said(&health));
    world.sandbox.run(&format!("fact get Account 42 --server {url} --ca data/tls/ca.pem --key admin.key")).must(0);
    let untrusted = world.sandbox.run(&format!("fact get Account 42 --server {url} --key admin.key")).must(3).stderr;
    assert!(untrusted.contains("comes from no authority that is trusted here"), "{untrusted}");
    let (code, said) = server.end();
    assert!(code == 0 && said.contains("--cacert data/tls/ca.pem"), "{said}");
    let key = std::fs::metadata(world.sandbox.path().join("data/tls/ca.key")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&key.permissions()) & 0o777, 0o600);
    let secret = std::fs::read_to_string(world.sandbox.path().join("data/tls/server.key")).unwrap();
    let line = secret.lines().nth(1).unwrap();
    assert!(!said.contains(line) && !said.contains("PRIVATE"), "{said}");
}

#[test]
fn certificates_are_read_again_while_a_connection_is_open() {
    let world = World::new();
    let server = world.sandbox.serve();
    let mut open = world.open(&server, None);
    assert!(ask(&mut open).unwrap().starts_with("HTTP/1.1 200"));
    let issued = |world: &World| said(&openssl(world, &server, &["-showcerts"]));
    let certificate = |text: &str| {
        let (_, from) = text.split_once("-----BEGIN CERTIFICATE-----").unwrap();
        from.split_once("-----END").unwrap().0.to_owned()
    };
    let first = certificate(&issued(&world));
    world.issue("server", &world.authority.server(&HERE).unwrap());
    let until = Instant::now() + PATIENCE;
    while certificate(&issued(&world)) == first {
        assert!(Instant::now() < until, "the new certificate is never used");
    }
    assert!(ask(&mut open).unwrap().starts_with("HTTP/1.1 200"), "the connection from before");
    // A file that is no certificate is said, with its cause and what to do, and the one from before stays.
    world.sandbox.write("server.pem", "nothing of the kind");
    std::thread::sleep(Duration::from_secs(3));
    assert!(ask(&mut world.open(&server, None)).unwrap().starts_with("HTTP/1.1 200"));
    let (code, log) = server.end_with_log();
    assert_eq!(code, 0);
    // Between a new key and its certificate it may have looked once before.
    let said = log.lines().filter(|line| line.contains("those from before stay in use") && line.contains("hint="));
    assert_eq!(said.filter(|line| line.contains("there is no certificate in ")).count(), 1, "{log}");
}
