//! A gate without an admin believes every caller, so an `init` that did not end well must never leave one behind.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_countersign");
const SIGKILL: i32 = 9;
/// The calls by which `init` changes the disk.
const CALLS: [&str; 8] = ["mkdir", "write", "pwrite64", "fsync", "fdatasync", "fallocate", "rename", "unlink"];
/// Above what any of these calls is made by one thread.
const CALLS_MAX: u32 = 200;

/// Runs a command without a key; how it ended, and what it said to people.
fn run(folder: &Path, mut command: Command, arguments: &[&str]) -> (ExitStatus, String) {
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).env_remove("COUNTERSIGN_KEY");
    let output = command.output().unwrap();
    (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
}

fn countersign(folder: &Path, arguments: &[&str]) -> (ExitStatus, String) {
    run(folder, Command::new(BINARY), arguments)
}

/// `init`, with something done to it at a system call.
fn init_with(folder: &Path, injected: &str) -> (ExitStatus, String) {
    let call = injected.split(':').next().unwrap();
    let mut command = Command::new("strace");
    // The tracer is a grandchild, so that the command is the child that is waited for.
    command.args(["-D", "-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
    command.args(["-e", &format!("inject={injected}"), BINARY]);
    run(folder, command, &["init", "--data", "data"])
}

/// Nobody without a key may name an admin.
fn assert_not_open(folder: &Path, when: &str) {
    let mallory = ["operator", "new", "mallory", "--role", "admin", "--data", "data"];
    let (status, said) = countersign(folder, &mallory);
    assert!(!status.success(), "{when}: mallory became an admin: {said}");
    // With the key file out of the way: what is asserted is that the gate refuses, not that a file is there.
    let _ = std::fs::remove_file(folder.join("mallory.key"));
}

#[test]
fn an_init_that_is_killed_at_any_moment_leaves_no_open_gate() {
    let mut killed = 0;
    for call in CALLS {
        for nth in 1..=CALLS_MAX {
            let folder = TempDir::new().unwrap();
            let (status, said) = init_with(folder.path(), &format!("{call}:signal=KILL:when={nth}"));
            if status.signal() != Some(SIGKILL) {
                assert!(status.success(), "{call} {nth}: {status} {said}");
                break;
            }
            killed += 1;
            let when = format!("killed before {call} {nth}");
            assert_not_open(folder.path(), &when);
            let (status, said) = countersign(folder.path(), &["init", "--data", "data"]);
            // The key file may be half-written, which only a person can judge.
            let refused = said.contains("is a data folder already") || said.contains("admin.key is there already");
            assert!(status.success() || refused, "{when}: {said}");
            assert_not_open(folder.path(), &when);
        }
    }
    assert!(killed > 20, "only {killed} moments were found\nhint: is there an strace that may trace its children?");
}

#[test]
fn an_init_on_a_full_disk_leaves_nothing_and_can_be_run_again() {
    let mut failed = 0;
    for call in ["mkdir", "write", "pwrite64", "fsync", "fallocate"] {
        let mut unharmed = 0;
        for nth in 1..=CALLS_MAX {
            let folder = TempDir::new().unwrap();
            let (status, said) = init_with(folder.path(), &format!("{call}:error=ENOSPC:when={nth}"));
            let when = format!("no space at {call} {nth}");
            let (key, data) = (folder.path().join("admin.key"), folder.path().join("data"));
            assert!(key.exists() == data.exists(), "{when}: one without the other: {said}");
            assert_not_open(folder.path(), &when);
            if key.exists() {
                // What cannot be said does no harm to the folder, and behind the last call there is nothing to fail.
                unharmed += 1;
                if unharmed == 3 {
                    break;
                }
                continue;
            }
            failed += 1;
            assert_eq!(status.code(), Some(3), "{when}: {said}");
            let (status, said) = countersign(folder.path(), &["init", "--data", "data"]);
            assert!(status.success(), "{when}: {said}");
        }
    }
    assert!(failed > 5, "only {failed} moments were found\nhint: is there an strace that may trace its children?");
}

#[test]
fn a_gate_that_has_lost_its_ledger_does_not_begin_an_open_one() {
    let folder = TempDir::new().unwrap();
    let (status, said) = countersign(folder.path(), &["init", "--data", "data"]);
    assert!(status.success(), "{said}");
    std::fs::remove_dir_all(folder.path().join("data/log")).unwrap();
    std::fs::create_dir(folder.path().join("data/log")).unwrap();
    assert_not_open(folder.path(), "without a ledger");
    let (status, said) = countersign(folder.path(), &["serve", "--data", "data", "--listen", "127.0.0.1:0"]);
    assert!(status.code() == Some(3) && said.contains("there is no ledger here"), "{status} {said}");
}

#[test]
fn an_init_that_cannot_be_made_leaves_no_key_in_the_way() {
    let folder = TempDir::new().unwrap();
    for arguments in [&["init", "--data", "/proc/x"][..], &["init", "--origin", "https://gate.example.com/log"]] {
        let (status, said) = countersign(folder.path(), arguments);
        assert!(!status.success() && !folder.path().join("admin.key").exists(), "{said}");
    }
    let (status, said) = countersign(folder.path(), &["init", "--origin", "gate.example.com/log"]);
    assert!(status.success(), "{said}");
}

#[test]
fn output_that_cannot_be_written_is_not_called_a_success() {
    let folder = TempDir::new().unwrap();
    let (status, said) = countersign(folder.path(), &["init", "--data", "data"]);
    assert!(status.success(), "{said}");
    for arguments in
        [&["verify", "--data", "data", "--key", "data/log.vkey", "--json"][..], &["key", "show", "admin.key"]]
    {
        let mut command = Command::new(BINARY);
        command.args(arguments).current_dir(folder.path()).stdin(Stdio::null());
        command.stdout(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {said}");
        assert!(said.contains("cannot be written"), "{said}");
    }
}
