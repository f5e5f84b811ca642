//! A gate without an admin believes every caller, so an `init` that did not end well must never leave one behind.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
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
    countersign_with(folder, injected, &["init", "--data", "data"])
}

fn countersign_with(folder: &Path, injected: &str, arguments: &[&str]) -> (ExitStatus, String) {
    let call = injected.split(':').next().unwrap();
    let mut command = Command::new("strace");
    // The tracer is a grandchild, so that the command is the child that is waited for.
    command.args(["-D", "-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
    command.args(["-e", &format!("inject={injected}"), BINARY]);
    run(folder, command, arguments)
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

/// What a folder is: its keys, and the names and bytes of its ledger's files.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for part in ["", "keys", "log"] {
        let files = std::fs::read_dir(folder.join("data").join(part)).unwrap().map(|entry| entry.unwrap().path());
        found.extend(files.filter(|path| path.is_file()).map(|path| (path.clone(), std::fs::read(&path).unwrap())));
    }
    found.retain(|(path, _)| path.file_name() != Some("init.unfinished".as_ref()));
    found.sort();
    found
}

/// The finished folder must be as it was, and its admin's key must still open it.
fn assert_untouched(folder: &Path, before: &[(PathBuf, Vec<u8>)], when: &str) {
    let (status, said) = countersign(folder, &["init", "--data", "data", "--admin-key", "other.key"]);
    assert!(!status.success() && said.contains("is a data folder already"), "{when}: {status} {said}");
    assert!(contents(folder) == before, "{when}: the finished folder has changed");
    assert!(!folder.join("other.key").exists(), "{when}: a key without a folder");
    let (status, said) = countersign(folder, &["operator", "list", "--data", "data", "--key", "admin.key"]);
    assert!(status.success(), "{when}: {said}");
}

#[test]
fn an_init_killed_while_another_finished_does_not_let_the_next_one_wipe_the_folder() {
    let folder = TempDir::new().unwrap();
    // The loser has found no folder, and stops there; when it goes on it is killed right after it has made its marker.
    let mut loser = Command::new("strace");
    loser.args(["-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=mkdir,flock"]);
    loser.args(["-e", "inject=mkdir:signal=STOP:when=1", "-e", "inject=flock:signal=KILL:when=1", BINARY]);
    loser.args(["init", "--data", "data", "--admin-key", "loser.key"]).current_dir(folder.path());
    let mut loser = loser.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let state = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", loser.id())).unwrap();
        stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    };
    while !matches!(state(), 'T' | 't') || !folder.path().join("data").exists() {
        assert!(Instant::now() < until, "the loser never stopped: {}", state());
        std::thread::yield_now();
    }
    let (status, said) = countersign(folder.path(), &["init", "--data", "data"]);
    assert!(status.success(), "{said}");
    let before = contents(folder.path());
    let resumed = Command::new("kill").args(["-CONT", &loser.id().to_string()]).status().unwrap();
    assert!(resumed.success());
    assert_eq!(loser.wait().unwrap().signal(), Some(SIGKILL));
    assert!(folder.path().join("data/init.unfinished").exists(), "the loser was killed at another moment");
    assert_untouched(folder.path(), &before, "after a race");
}

#[test]
fn an_init_killed_at_its_last_steps_leaves_a_folder_that_is_never_wiped() {
    let mut finished = 0;
    for call in ["rename", "unlink", "fsync"] {
        for nth in 1..=CALLS_MAX {
            let folder = TempDir::new().unwrap();
            let (status, _) = init_with(folder.path(), &format!("{call}:signal=KILL:when={nth}"));
            if folder.path().join("data/origin").exists() {
                finished += 1;
                assert_untouched(folder.path(), &contents(folder.path()), &format!("killed before {call} {nth}"));
            }
            if status.signal() != Some(SIGKILL) {
                break;
            }
        }
    }
    // Each call's last run is not killed; one more is, between the rename and the removal of the marker.
    assert!(finished > 3, "no run was killed after it had finished");
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
fn a_backup_on_a_full_disk_leaves_nothing_that_looks_like_one_and_can_be_made_again() {
    let folder = TempDir::new().unwrap();
    let (status, said) = countersign(folder.path(), &["init", "--data", "data"]);
    assert!(status.success(), "{said}");
    let backup = ["backup", "--data", "data", "copy"];
    let assert_nothing = |status: ExitStatus, said: &str, when: &str| {
        assert_eq!(status.code(), Some(3), "{when}: {said}");
        for name in ["copy", "copy.partial"] {
            assert!(!folder.path().join(name).exists(), "{when}: {name} was left: {said}");
        }
    };
    // A real limit first: no file above 512 bytes, which the keys fit in and the log does not.
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 1; exec \"$@\"", "sh", BINARY]);
    let (status, said) = run(folder.path(), limited, &backup);
    assert_nothing(status, &said, "files are limited");
    assert!(said.contains("MiB where copy is; nothing was kept"), "{said}");
    let mut failed = 0;
    for call in ["mkdir", "copy_file_range", "fsync", "rename"] {
        for nth in 1..=CALLS_MAX {
            let (status, said) = countersign_with(folder.path(), &format!("{call}:error=ENOSPC:when={nth}"), &backup);
            if status.success() {
                break;
            }
            failed += 1;
            assert_nothing(status, &said, &format!("no space at {call} {nth}"));
        }
        let (status, said) = countersign(folder.path(), &["verify", "--data", "copy", "--log-key", "data/log.vkey"]);
        assert!(status.success(), "{said}");
        for name in ["origin", "log.vkey", "keys/log", "keys/token"] {
            assert!(folder.path().join("copy").join(name).exists(), "the copy has no {name}");
        }
        std::fs::remove_dir_all(folder.path().join("copy")).unwrap();
    }
    assert!(failed > 10, "only {failed} moments were found\nhint: is there an strace that may trace its children?");
}

#[test]
fn a_backup_to_a_place_that_cannot_be_meant_is_refused() {
    let folder = TempDir::new().unwrap();
    let (status, said) = countersign(folder.path(), &["init", "--data", "data"]);
    assert!(status.success(), "{said}");
    for (to, why) in [
        ("not-mounted/copy", "there is no folder not-mounted"),
        ("data/copy", "is inside the data folder"),
        ("data/log/copy", "is inside the data folder"),
        ("data", "exists already"),
    ] {
        let before = contents(folder.path());
        let (status, said) = countersign(folder.path(), &["backup", "--data", "data", to]);
        assert!(status.code() == Some(2) && said.contains(why), "{to}: {status} {said}");
        assert!(contents(folder.path()) == before && !folder.path().join("not-mounted").exists(), "{to}");
    }
    // What a killed run left may also be what another one is making.
    std::fs::create_dir(folder.path().join("copy.partial")).unwrap();
    let (status, said) = countersign(folder.path(), &["backup", "--data", "data", "copy"]);
    assert!(status.code() == Some(3) && said.contains("copy.partial exists already"), "{status} {said}");
    assert!(folder.path().join("copy.partial").exists());
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
        [&["verify", "--data", "data", "--log-key", "data/log.vkey", "--json"][..], &["key", "show", "admin.key"]]
    {
        let mut command = Command::new(BINARY);
        command.args(arguments).current_dir(folder.path()).stdin(Stdio::null());
        command.stdout(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{arguments:?}: {said}");
        assert!(said.contains("cannot be written"), "{said}");
        // Nothing of it is lost while there is another place to write to.
        assert!(said.contains("did:key:") || said.contains("{\""), "{said}");
    }
}

#[test]
fn a_reader_that_leaves_does_not_turn_a_no_into_a_yes() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("broken.toml"), "pact = 1").unwrap();
    for json in [true, false] {
        let mut command = Command::new(BINARY);
        command.args(["pact", "check", "broken.toml"]).args(json.then_some("--json")).current_dir(folder.path());
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(1), "--json: {json}");
    }
}
