//! Which gates clients refuse, each with its reason.

use super::*;

/// Whether curl, openssl and the command line all refuse a gate with this certificate; what each must say.
fn refused(world: &World, issued: &Issued, openssl_says: &str, we_say: [&str; 2]) {
    world.issue("server", issued);
    let server = world.sandbox.serve();
    let curl = world.curl(&["--cacert", "ca.pem", &format!("{}/healthz", server.url)]);
    assert_eq!(curl.status.code(), Some(60), "{}", said(&curl));
    let shaken = openssl(world, &server, &["-verify_ip", "127.0.0.1"]);
    assert!(!shaken.status.success() && said(&shaken).contains(openssl_says), "{}", said(&shaken));
    let run = world.sandbox.run(&format!("fact get Account 42 --server {} --key admin.key", server.url)).must(3);
    let [cause, hint] = we_say;
    assert!(run.stderr.contains(cause) && run.stderr.contains(hint), "{}", run.stderr);
    // It was never sent, so it is not in doubt.
    let put = r#"fact put Account 42 {"status":"frozen","balance":900000,"owner":"ada"}"#;
    world.sandbox.run(&format!("{put} --server {} --key admin.key", server.url)).must(3);
    assert_eq!(server.end().0, 0);
}

#[test]
fn gates_with_certificates_that_are_not_good_are_refused_with_the_reason() {
    let world = World::new();
    let expired = Wanted { names: &HERE, is_expired: true, ..Wanted::default() };
    let expired = world.authority.issue(expired).unwrap();
    refused(&world, &expired, "certificate has expired", ["expired at ", "is this machine's clock wrong?"]);
    let other_name = world.authority.server(&["gate.example"]).unwrap();
    refused(&world, &other_name, "IP address mismatch", ["is for other names: gate.example", "subjectAltName"]);
    let self_signed = Issued::self_signed(Wanted { names: &HERE, ..Wanted::default() }).unwrap();
    refused(
        &world,
        &self_signed,
        "self-signed certificate",
        ["no authority that is trusted here", "--ca, COUNTERSIGN_CA"],
    );
    let stranger = Authority::new("strangers").unwrap().server(&HERE).unwrap();
    refused(
        &world,
        &stranger,
        "unable to get local issuer",
        ["no authority that is trusted here", "--ca, COUNTERSIGN_CA"],
    );
}

#[test]
fn gates_with_a_revoked_certificate_are_refused() {
    let world = World::new();
    let issued = world.authority.server(&HERE).unwrap();
    world.issue("server", &issued);
    let server = world.sandbox.serve();
    let get = format!("fact get Account 42 --server {} --key admin.key --config client.toml", server.url);
    world.sandbox.write("client.toml", "ca = \"ca.pem\"\ncrl = \"crl.pem\"");
    world.revoke(&[]);
    world.sandbox.run(&get).must(0);
    world.revoke(&[&issued]);
    assert!(world.sandbox.run(&get).must(3).stderr.contains("has been revoked"));
    let curl = ["--cacert", "ca.pem", "--crlfile", "crl.pem", &format!("{}/healthz", server.url)];
    assert_eq!(world.curl(&curl).status.code(), Some(60));
    // A list of yesterday, or of another authority, says nothing about today: no one passes by it.
    world.sandbox.write("crl.pem", &world.authority.revoking_until_yesterday(&[]).unwrap());
    assert!(world.sandbox.run(&get).must(3).stderr.contains("is out of date since"));
    world.sandbox.write("crl.pem", &Authority::new("strangers").unwrap().revoking(&[]).unwrap());
    assert!(world.sandbox.run(&get).must(3).stderr.contains("no list says whether"));
}

#[test]
fn what_does_not_speak_tls_is_said_so() {
    let world = World::new();
    world.sandbox.write("countersign.toml", "");
    let server = world.sandbox.serve();
    let url = server.url.replace("http://", "https://");
    let run = world.sandbox.run(&format!("fact get Account 42 --server {url} --ca ca.pem --key admin.key")).must(3);
    assert!(run.stderr.contains("does not speak TLS"), "{}", run.stderr);
    let run =
        world.sandbox.run(&format!("fact get Account 42 --server {url} --ca nowhere.pem --key admin.key")).must(3);
    assert!(run.stderr.contains("cannot read nowhere.pem"), "{}", run.stderr);
}
