//! The payment service as a process: each fault does what it says, and the book tells the truth.

use countersign_testing::payments::book::{self, Payout};
use countersign_testing::payments::plan::{FAULTS, Fault, Plan};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const SEED: u64 = 7;

struct Service {
    child: Child,
    address: String,
    book: PathBuf,
}

impl Service {
    fn start(folder: &Path, more: &[&str]) -> Self {
        let book = folder.join("book");
        let mut child = Command::new(env!("CARGO_BIN_EXE_payments"))
            .arg("--book")
            .arg(&book)
            .args(["--seed", &SEED.to_string(), "--late-ms", "50"])
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("Listening on http://").unwrap().to_owned();
        Self { child, address, book }
    }

    /// Sends a request, and gives everything that comes back within a second.
    fn send(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        // Fails where the answer never ends, which is what one of the faults is.
        drop(stream.read_to_end(&mut answer));
        String::from_utf8(answer).unwrap()
    }

    fn post(&self, key: &str) -> String {
        let body = r#"{"amount":4800,"destination":"acct_1"}"#;
        self.send(&format!(
            "POST /payouts HTTP/1.1\r\nidempotency-key: {key}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ))
    }

    fn get(&self, key: &str) -> String {
        self.send(&format!("GET /payouts/{key} HTTP/1.1\r\n\r\n"))
    }

    fn paid(&self) -> Vec<Payout> {
        book::read(&self.book).unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A key for each fault, with that fault once and no other oddity.
fn keys() -> BTreeMap<Fault, String> {
    let keys = (0..100_000).map(|number| format!("key-{number}"));
    let plain = keys.filter(|key| Plan::of(SEED, key).times == 1 && Plan::of(SEED, key).silent_gets == 0);
    let mut found = BTreeMap::new();
    for key in plain {
        found.entry(Plan::of(SEED, &key).fault).or_insert(key);
        if found.len() == FAULTS.len() + 1 {
            return found;
        }
    }
    panic!("some fault is never drawn: {found:?}");
}

#[test]
fn every_fault_does_what_it_says_and_the_book_tells_the_truth() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(folder.path(), &[]);
    for (fault, key) in keys() {
        let before = service.paid().len();
        let answer = service.post(&key);
        let statuses: Vec<&str> = answer.match_indices("HTTP/1.1 ").map(|(at, _)| &answer[at + 9..at + 12]).collect();
        let expected: &[&str] = match fault {
            Fault::None | Fault::Late => &["201"],
            Fault::Twice => &["201", "201"],
            Fault::Never | Fault::ClosesAfterPaying | Fault::ClosesBeforePaying => &[],
            Fault::FailsAfterPaying | Fault::FailsBeforePaying => &["500"],
            Fault::ConflictAfterPaying | Fault::ConflictBeforePaying => &["409"],
        };
        assert_eq!(statuses, expected, "{fault:?}");
        let is_paid = service.paid().len() - before == 1;
        assert_eq!(is_paid, Plan::of(SEED, &key).pays_first(), "{fault:?}");
        assert_eq!(service.get(&key).starts_with("HTTP/1.1 200"), is_paid, "{fault:?}");
    }
}

#[test]
fn the_same_key_is_paid_again_unless_the_service_is_idempotent() {
    let key = &keys()[&Fault::FailsAfterPaying];
    for (more, expected) in [(&[] as &[&str], 2), (&["--idempotent"], 1)] {
        let folder = tempfile::tempdir().unwrap();
        let service = Service::start(folder.path(), more);
        assert!(service.post(key).starts_with("HTTP/1.1 500"));
        assert!(service.post(key).starts_with("HTTP/1.1 201"));
        assert_eq!(service.paid().len(), expected);
    }
}

#[test]
fn the_book_outlives_the_service() {
    let folder = tempfile::tempdir().unwrap();
    let key = &keys()[&Fault::None];
    assert!(Service::start(folder.path(), &[]).post(key).starts_with("HTTP/1.1 201"));
    let service = Service::start(folder.path(), &["--idempotent"]);
    assert!(service.get(key).starts_with("HTTP/1.1 200"));
    assert!(service.post(key).starts_with("HTTP/1.1 201"));
    assert_eq!(service.paid().len(), 1);
}
