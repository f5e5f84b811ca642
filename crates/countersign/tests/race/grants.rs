//! Grants race a revocation on one access list (CONC-5), in an identified gate: every request is signed with the caller's own
//! key, over HTTP by threads that keep their connections and by processes of the command line.
//!
//! Each round has a member of its own. Granters look at the membership, wait for their own part of the window, and grant, over
//! and over; in between, one revocation. What is judged is the ledger: no grant commits behind the revocation, and none that
//! stood before it was refused for it.

use crate::race::server::{Server, command, run};
use countersign_signature::{Signable, sign};
use countersign_testing::checker::{LogEntry, check_grants};
use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::DecodePrivateKey as _;
use serde_json::{Value as Json, json};
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const ORIGIN: &str = "race.example/grants";
const PACT: &str = include_str!("../../../../examples/access.toml");
const GRANTERS: [&str; 3] = ["granter-1", "granter-2", "granter-3"];
const ROUNDS: u64 = 24;
/// How often a granter tries in one round, at most.
const TRIES_MAX: u64 = 40;
/// Every so many rounds the revoker is a process, as a person's command is.
const PROCESS_EVERY: u64 = 6;

/// Somebody with a key, and a connection that is kept.
struct Caller {
    key: SigningKey,
    host: String,
    http: ureq::Agent,
}

impl Caller {
    fn new(key_file: &Path, url: &str) -> Self {
        let config = ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(20)));
        let http = config.http_status_as_error(false).build().into();
        let key = SigningKey::from_pkcs8_pem(&std::fs::read_to_string(key_file).unwrap()).unwrap();
        Self { key, host: url.strip_prefix("http://").unwrap().to_owned(), http }
    }

    /// Signs, sends, and gives an answer that must be one of 2xx.
    fn ask(&self, method: &str, target: &str, body: &str) -> Json {
        static NONCES: AtomicU64 = AtomicU64::new(0);
        let nonce = format!("grants-{:020}", NONCES.fetch_add(1, Ordering::SeqCst));
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        let request = Signable { method, authority: &self.host, path, query, if_match: None, actions: None, body };
        let signed = sign(&self.key, &request, ORIGIN, now_s, &nonce).unwrap();
        let request = ureq::http::Request::builder().method(method).uri(format!("http://{}{target}", self.host));
        let request = request.header("signature-input", signed.input).header("signature", signed.signature);
        let mut response = match signed.content_digest {
            Some(digest) => {
                let request = request.header("content-digest", digest).header("content-type", "application/json");
                self.http.run(request.body(body.to_owned()).unwrap())
            }
            None => self.http.run(request.body(()).unwrap()),
        }
        .unwrap();
        let (status, json): (u16, Json) = (response.status().as_u16(), response.body_mut().read_json().unwrap());
        assert!(status < 300, "{status}: {json} for {method} {target} {body}");
        json
    }

    fn act(&self, action: &str, key: &str, params: &Json, observations: &[&str]) -> Json {
        let body = json!({
            "pact": "access", "action": action, "idempotency_key": format!("{key:0>32}"), "params": params,
            "observations": observations,
        });
        self.ask("POST", "/v1/actions", &body.to_string())
    }
}

/// One race for one member.
struct Round {
    number: u64,
    start: Barrier,
    /// Set when the revoker was answered: from then on no grant that is sent may commit.
    is_revoked: AtomicBool,
}

impl Round {
    fn member(&self) -> String {
        format!("member-{}", self.number)
    }

    /// Looks, waits, grants; ends with the first refusal. Gives how many of its grants committed.
    fn grant(&self, caller: &Caller, name: &str, seat: u64) -> u64 {
        let fact = format!("Membership::\"prod/{}\"", self.member());
        let params = json!({"list": "prod", "member": self.member(), "role": "writer"});
        self.start.wait();
        for turn in 0..TRIES_MAX {
            let facts = json!({"facts": ["AccessList::\"prod\"", fact]});
            let shown = caller.ask("POST", "/v1/observe", &facts.to_string());
            // The pause between check and use, swept: from none to where the revocation is.
            std::thread::sleep(Duration::from_micros((self.number * 211 + seat * 397 + turn * 101) % 2_500));
            let was_revoked = self.is_revoked.load(Ordering::SeqCst);
            let key = format!("{name}-{}-{turn}", self.number);
            let verdict = caller.act("grant", &key, &params, &[shown["observation"].as_str().unwrap()]);
            if verdict["verdict"] == "rejected" {
                assert_eq!(verdict["failed"][0]["precondition"], "member-was-not-revoked", "{verdict}");
                return turn;
            }
            assert!(!was_revoked, "a grant that was sent after the revocation had been answered committed: {verdict}");
        }
        panic!("{TRIES_MAX} grants committed and the revocation never came");
    }

    /// Revokes somewhere in the window, once.
    fn revoke(&self, caller: &Caller, folder: &Path, url: &str) {
        let member = self.member();
        self.start.wait();
        std::thread::sleep(Duration::from_micros(self.number * 977 % 9_000));
        if self.number.is_multiple_of(PROCESS_EVERY) {
            let member = format!("member={member}");
            let args = ["act", "--pact", "access", "--action", "revoke", "list=prod", &member, "--server", url];
            let output = command(&args, folder).args(["--key", "security.key"]).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        } else {
            let params = json!({"list": "prod", "member": member});
            let verdict = caller.act("revoke", &format!("revoke-{}", self.number), &params, &[]);
            assert_eq!(verdict["verdict"], "committed", "{verdict}");
        }
        self.is_revoked.store(true, Ordering::SeqCst);
    }
}

/// An identified gate with the pact, one list, three who grant and one who revokes.
fn set_up(folder: &Path) -> Server {
    std::fs::write(folder.join("access.toml"), PACT).unwrap();
    run(&["init", "--data", "data", "--origin", ORIGIN], folder);
    let server = Server::start(&folder.join("data"));
    let admin = |line: &[&str]| run(&[line, &["--key", "admin.key", "--server", &server.url]].concat(), folder);
    admin(&["pact", "publish", "access.toml"]);
    admin(&["fact", "put", "AccessList", "prod", r#"{"owner":"ada","locked":false}"#]);
    for granter in GRANTERS {
        admin(&["agent", "new", granter, "--org", "acme", "--role", "access-admin"]);
    }
    admin(&["agent", "new", "security", "--org", "acme", "--role", "security"]);
    server
}

fn read_ledger(auditor: &Caller) -> Vec<LogEntry> {
    let mut entries = Vec::new();
    loop {
        let page = auditor.ask("GET", &format!("/v1/ledger/entries?start={}&limit=200", entries.len()), "");
        let page = page["entries"].as_array().unwrap();
        if page.is_empty() {
            return entries;
        }
        entries.extend(page.iter().map(|entry| LogEntry {
            leaf: entry["leaf"].clone(),
            payload: entry["payload"].clone(),
            is_erased: false,
        }));
    }
}

#[test]
fn no_grant_survives_a_revocation_that_was_ordered_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = set_up(folder.path());
    let caller = |name: &str| Caller::new(&folder.path().join(format!("{name}.key")), &server.url);
    let (granters, security) = (GRANTERS.map(caller), caller("security"));
    let mut granted = 0;
    for number in 0..ROUNDS {
        let round = Round { number, start: Barrier::new(GRANTERS.len() + 1), is_revoked: AtomicBool::new(false) };
        granted += std::thread::scope(|scope| {
            let round = &round;
            let threads: Vec<_> = (0..)
                .zip(GRANTERS)
                .zip(&granters)
                .map(|((seat, name), caller)| scope.spawn(move || round.grant(caller, name, seat)))
                .collect();
            round.revoke(&security, folder.path(), &server.url);
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
        });
    }

    let admin = caller("admin");
    let entries = read_ledger(&admin);
    let judged = check_grants(&entries).unwrap_or_else(|complaints| panic!("{}", complaints.join("\n")));
    println!("{} entries in {ROUNDS} rounds: {judged:?}", entries.len());
    assert_eq!((judged.granted, judged.revoked), (granted, ROUNDS), "what callers were told is what the ledger has");
    assert_eq!(judged.refused, ROUNDS * GRANTERS.len() as u64, "every granter met the revocation, in every round");
    assert!(judged.granted > ROUNDS, "the race was not a race: {judged:?}");
    for number in 0..ROUNDS {
        let fact = admin.ask("GET", &format!("/v1/facts/Membership/prod%2Fmember-{number}"), "");
        assert_eq!(fact["value"]["state"], "revoked", "{fact}");
    }
    can_say_no(&entries);
    drop(server);
    run(&["verify", "--data", "data", "--log-key", "data/log.vkey"], folder.path());
    run(&["audit", "--data", "data"], folder.path());
}

/// The judge must find a grant that committed behind the revocation, one that nobody signed, and one refused for nothing.
fn can_say_no(entries: &[LogEntry]) {
    let is_refused = |entry: &LogEntry| entry.leaf["verdict"] == "rejected";
    let doctored = |at: usize, doctor: fn(&mut LogEntry)| {
        let mut entries = entries.to_vec();
        doctor(&mut entries[at]);
        check_grants(&entries).expect_err("the doctored ledger was taken")
    };
    let refused = entries.iter().position(is_refused).unwrap();
    doctored(refused, |entry| entry.leaf["verdict"] = json!("committed"));
    doctored(refused, |entry| entry.leaf["auth"] = json!("none"));
    let revoked = entries.iter().position(|entry| entry.payload["writes"][0]["value"]["state"] == "revoked").unwrap();
    doctored(revoked, |entry| entry.leaf["verdict"] = json!("rejected"));
}
