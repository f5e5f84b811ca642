//! A gate that knows who calls: from `init` to a revoked agent, without a server and with one.

use crate::cli::sandbox::{BILLING, Sandbox};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

const REFUND: &str = "act --pact billing --action refund account=42 amount=100 currency=USD \
    destination=acct_treasury_1 --observe Account::42";

/// All parameters at once, so that it is one request. Two that are denied are one entry or two, as time will have it.
const WHOLE: &str = "act --pact billing --action refund \
    --params {\"account\":\"42\",\"amount\":100,\"currency\":\"USD\",\"destination\":\"acct_treasury_1\"} --data data --key refund-1.key";

/// A folder with an admin, a published pact, an agent and an account.
pub fn identified() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("billing.toml", BILLING);
    for line in [
        "init --data data",
        "pact publish billing.toml --data data --key admin.key",
        "agent new refund-1 --org acme --role refunder --trust 700 --data data --key admin.key",
        r#"fact put Account 42 {"status":"active","balance":900000,"owner":"ada"} --data data --key admin.key"#,
    ] {
        sandbox.run(line).must(0);
    }
    sandbox
}

#[test]
fn an_action_signed_with_an_operators_key_is_told_to_use_an_agents() {
    let sandbox = identified();
    let refused = sandbox.run(&format!("{REFUND} --data data --key admin.key")).must(1).stderr;
    assert!(refused.contains("sign with an agent's key"), "{refused}");
}

#[test]
fn from_init_to_a_revoked_agent() {
    let sandbox = identified();
    let act = format!("{REFUND} --data data --key refund-1.key");
    let committed = sandbox.run(&act).must(0);
    let shown = [
        sandbox.run("agent list --data data --key admin.key").must(0).shown(),
        sandbox.run("operator list --data data --key admin.key").must(0).shown(),
        committed.shown(),
        sandbox.run("agent revoke refund-1 --data data --key admin.key").must(0).shown(),
        sandbox.run(WHOLE).must(1).shown(),
        sandbox.run("agent activate refund-1 --data data --key admin.key").must(0).shown(),
        sandbox.run("agent rotate refund-1 --overlap 0 --key-file new.key --data data --key admin.key").must(0).shown(),
        sandbox.run(&act).must(1).shown(),
        sandbox.run(&act.replace("refund-1.key", "new.key")).must(0).shown(),
        sandbox.run("operator new ci --role publisher --data data --key admin.key").must(0).shown(),
        sandbox.run("fact get Account 42 --data data --key ci.key").must(1).shown(),
        sandbox.run("operator revoke admin --data data --key admin.key").must(1).shown(),
    ];
    insta::assert_snapshot!(shown.join("\n"));
    sandbox.run("verify --data data --log-key data/log.vkey").must(0);
    sandbox.run("audit --data data").must(0);
}

#[test]
fn roles_and_trust_are_changed_and_the_rest_stays() {
    let sandbox = identified();
    let act = format!("{REFUND} --data data --key refund-1.key");
    sandbox.run("agent set refund-1 --trust 10 --data data --key admin.key").must(0);
    assert!(sandbox.run(&act).must(1).stderr.contains("countersign agent set NAME --trust N"));
    sandbox.run("agent set refund-1 --trust 700 --role analyst --data data --key admin.key").must(0);
    let blind = act.replace(" --observe Account::42", "");
    assert!(sandbox.run(&blind).must(1).stderr.contains("countersign agent set NAME --role ROLE"));
    let set = sandbox.run("agent set refund-1 --role refunder --role analyst --data data --key admin.key").must(0);
    assert!(set.stdout.contains(r#"agent refund-1 has roles ["refunder","analyst"] from entry"#), "{}", set.stdout);
    sandbox.run(&act).must(0);
    let listed = sandbox.run("agent list --data data --key admin.key").must(0).stdout;
    assert!(listed.contains("trust 700") && listed.contains("acme"), "{listed}");
    sandbox.run("agent set refund-1 --data data --key admin.key").must(2);
    sandbox.run("agent set refund-2 --trust 1 --data data --key admin.key").must(1);
}

#[test]
fn without_a_key_a_command_says_what_to_do() {
    let sandbox = identified();
    let shown = [
        sandbox.run("fact get Account 42 --data data").must(2).shown(),
        sandbox.run("fact get Account 42 --data data --key nowhere.key").must(3).shown(),
        sandbox.run("fact get Account 42 --data data --key billing.toml").must(3).shown(),
        sandbox.run("key new admin.key").must(3).shown(),
        sandbox.run("init --data other").must(3).shown(),
    ];
    insta::assert_snapshot!(shown.join("\n"));
    assert!(!sandbox.path().join("other").exists(), "nothing is made where the admin's key cannot be");
}

#[test]
fn a_key_that_was_not_registered_leaves_no_file() {
    let sandbox = identified();
    let file = |name: &str| sandbox.path().join(name);
    // The name is taken, the caller may not, the agent is not there.
    let taken = "agent new refund-1 --org acme --key-file again.key --data data --key admin.key";
    assert!(sandbox.run(taken).must(1).stderr.contains("agent `refund-1` is registered already"));
    assert!(
        sandbox.run("agent new other --org acme --data data --key refund-1.key").must(1).stderr.contains("not_auth")
    );
    sandbox.run("agent rotate nobody --data data --key admin.key").must(1);
    for name in ["again.key", "other.key", "nobody.key"] {
        assert!(!file(name).exists(), "{name}");
    }
    // A file that was there before is never touched.
    sandbox.run("agent new refund-1 --org acme --data data --key admin.key").must(3);
    assert!(file("refund-1.key").exists());
    // Nobody answers: what became of it is not known, but here nothing was made yet.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    sandbox.run(&format!("agent new late --org acme --server http://{free} --key admin.key")).must(3);
    assert!(!file("late.key").exists());
}

#[test]
fn a_server_is_talked_to_with_the_same_key() {
    let mut sandbox = identified();
    let server = sandbox.serve();
    sandbox.env("COUNTERSIGN_SERVER", &server.url);
    sandbox.run("fact get Account 42").must(2);
    sandbox.env("COUNTERSIGN_KEY", "admin.key");
    assert_eq!(sandbox.run("fact get Account 42 --json").must(0).json()["version"], 1);
    sandbox.run("fact get Account 42 --history").must(0);
    let committed = sandbox.run(&format!("{REFUND} --key refund-1.key --json")).must(0).json();
    let shown = sandbox.run(&format!("ledger show {}", committed["entry"])).must(0).stderr;
    assert!(shown.contains("Signed by refund-1 with the key did:key:"), "{shown}");
    assert_eq!(server.end().0, 0);
    // After a clean end, what was signed before it is still known, and a new start takes what is signed now.
    let server = sandbox.serve();
    sandbox.env("COUNTERSIGN_SERVER", &server.url);
    sandbox.run("fact get Account 42").must(0);
    assert_eq!(server.end().0, 0);
}

#[test]
fn a_gate_with_an_admin_listens_anywhere() {
    let sandbox = identified();
    let refused = Sandbox::with_gate();
    refused.write("countersign.toml", "[tls]\nterminated_by_proxy = true");
    refused.run("serve --data data --listen 0.0.0.0:0").must(2);
    // Without TLS only if something in front speaks it.
    assert!(sandbox.run("serve --data data --listen 0.0.0.0:0").must(2).stderr.contains("would not be encrypted"));
    sandbox.write("countersign.toml", "[tls]\nterminated_by_proxy = true");
    let server = sandbox.serve_on("0.0.0.0:0");
    let url = server.url.replace("0.0.0.0", "127.0.0.1");
    sandbox.run(&format!("fact get Account 42 --server {url} --key admin.key")).must(0);
    let address = url.strip_prefix("http://").unwrap();
    assert!(first_line(address, "/healthz").contains(" 200 "));
    assert!(first_line(address, "/metrics").contains(" 401 "), "counts are for auditors once others can ask for them");
    assert_eq!(server.end().0, 0);
    let server = sandbox.serve();
    assert!(first_line(server.url.strip_prefix("http://").unwrap(), "/metrics").contains(" 200 "));
    assert_eq!(server.end().0, 0);
}

fn first_line(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line
}
