//! What a gate remembers of signatures when it is opened again, and what it refuses because it cannot.

use crate::identity::world::*;
use countersign_engine::gate::{Gate, NotReady};
use countersign_engine::identity::AuthError;
use std::path::Path;
use std::sync::Arc;

/// Copies the folder of a gate that still runs: what would be there if the machine stopped now.
pub fn crash(from: &Path, to: &Path) {
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        if file.file_type().is_ok_and(|ty| ty.is_file()) && file.file_name() != "lock" {
            // What is being written has a name of its own for a moment.
            let copied = std::fs::copy(file.path(), to.join(file.file_name()));
            assert!(copied.is_ok() || !file.path().exists(), "{copied:?}");
        }
    }
}

fn reopen(dir: &Path, clock: &Arc<Hands>) -> Gate {
    open(dir, clock)
}

#[test]
fn a_new_log_takes_what_was_signed_in_its_first_second() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path());
    assert_eq!(code(world.authenticate(&admin_key(), "x")), "ok");
}

#[test]
fn a_replay_after_a_clean_restart_is_known_and_nothing_else_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let World { gate, clock } = World::open(dir.path());
    let seen = sign(&admin_key(), "x", clock.now_s(), &nonce());
    let fresh = sign(&admin_key(), "y", clock.now_s(), &nonce());
    assert_eq!(code(gate.authenticate(seen.clone())), "ok");
    gate.close().unwrap();
    assert!(dir.path().join("nonces").exists());

    let gate = reopen(dir.path(), &clock);
    assert!(!dir.path().join("nonces").exists(), "it is true once only");
    assert_eq!(code(gate.authenticate(seen.clone())), "signature_replayed");
    assert_eq!(code(gate.authenticate(fresh)), "ok");
    gate.close().unwrap();
    let gate = reopen(dir.path(), &clock);
    assert_eq!(code(gate.authenticate(seen)), "signature_replayed", "also after two restarts");
}

#[test]
fn after_an_unclean_stop_whatever_was_signed_before_is_refused() {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let World { gate, clock } = World::open(dir.path());
    let seen = sign(&admin_key(), "x", clock.now_s(), &nonce());
    assert_eq!(code(gate.authenticate(seen.clone())), "ok");
    clock.pass(2_500);
    crash(dir.path(), copy.path());
    let opened_s = clock.now_s();
    let gate = reopen(copy.path(), &clock);
    let at = |created_s| gate.authenticate(sign(&admin_key(), "y", created_s, &nonce()));
    // Until the second is over nobody can sign anything that passes, and the gate says that it is not ready rather than that the
    // caller is wrong.
    for presented in [seen.clone(), sign(&admin_key(), "z", opened_s, &nonce())] {
        let refused = gate.authenticate(presented).unwrap_err();
        assert_eq!(refused, AuthError::NotYet { left_ms: 500 });
        assert_eq!(gate.not_ready(), Some(NotReady { reason: refused.to_string(), left_ms: Some(500) }));
    }
    assert_eq!(code(at(opened_s - 1)), "not_ready");
    assert_eq!(code(at(opened_s + 1)), "ok");
    clock.pass(499);
    assert_eq!(gate.blind_for_ms(), Some(1));
    clock.pass(1);
    assert_eq!(gate.not_ready(), None);
    assert_eq!(code(at(clock.now_s())), "ok");
    assert_eq!(code(at(opened_s)), "signature_expired");
    let refused = gate.authenticate(seen).unwrap_err();
    assert_eq!(refused.to_string(), "the signature was made before this gate was started");
}

#[test]
fn a_signature_from_a_clock_that_is_ahead_does_not_outlive_an_unclean_stop() {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let World { gate, clock } = World::open(dir.path());
    let ahead_s = clock.now_s() + 7;
    let seen = sign(&admin_key(), "x", ahead_s, &nonce());
    assert_eq!(code(gate.authenticate(seen.clone())), "ok");
    clock.pass(1_000);
    crash(dir.path(), copy.path());
    let gate = reopen(copy.path(), &clock);
    for _ in 0..70 {
        let again = code(gate.authenticate(seen.clone()));
        let is_ready = gate.not_ready().is_none();
        assert_eq!(is_ready, clock.now_s() > ahead_s + 1, "at second {}, signed for {ahead_s}", clock.now_s());
        assert_eq!(again, if is_ready { "signature_expired" } else { "not_ready" }, "at second {}", clock.now_s());
        clock.pass(1_000);
    }
    // What is signed once that time has passed is taken.
    assert_eq!(code(gate.authenticate(sign(&admin_key(), "y", clock.now_s(), &nonce()))), "ok");
}

#[test]
fn a_clean_close_after_an_unclean_stop_forgets_nothing_of_it() {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let World { gate, clock } = World::open(dir.path());
    let seen = sign(&admin_key(), "x", clock.now_s(), &nonce());
    assert_eq!(code(gate.authenticate(seen.clone())), "ok");
    crash(dir.path(), copy.path());
    reopen(copy.path(), &clock).close().unwrap();
    let gate = reopen(copy.path(), &clock);
    assert_eq!(code(gate.authenticate(seen.clone())), "not_ready");
    clock.pass(1_000);
    assert_eq!(code(gate.authenticate(seen)), "signature_expired");
}

#[test]
fn a_clock_set_back_between_two_runs_revives_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let World { gate, clock } = World::open(dir.path());
    let seen = sign(&admin_key(), "x", clock.now_s(), &nonce());
    assert_eq!(code(gate.authenticate(seen.clone())), "ok");
    // Long enough for its nonce to be forgotten.
    clock.pass(200_000);
    assert_eq!(code(gate.authenticate(sign(&admin_key(), "y", clock.now_s(), &nonce()))), "ok");
    gate.close().unwrap();
    clock.set_back(200_000);
    let gate = reopen(dir.path(), &clock);
    assert_eq!(code(gate.authenticate(seen.clone())), "not_ready");
    clock.pass(200_000);
    assert_eq!(code(gate.authenticate(seen)), "signature_expired");
}
