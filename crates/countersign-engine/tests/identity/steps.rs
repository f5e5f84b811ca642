//! A wall clock that steps: operators can still stop the gate and confirm the clock, and no signature counts twice for it.

use crate::identity::restarts::crash;
use crate::identity::world::*;
use countersign_core::halt::Scope;
use countersign_engine::audit::audit;
use countersign_engine::gate::Gate;
use countersign_engine::request::{Refusal, Request};
use countersign_engine::storage::disk::RealDisk;
use countersign_signature::Presented;
use ed25519_dalek::SigningKey;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

const QUARTER_MS: i64 = 900_000;
const HALT: &str = "/v1/halts";
const RESUME: &str = "/v1/halts/resume";
const CONFIRM: &str = "/v1/clock/confirm";

fn signed(path: &str, clock: &Hands) -> Presented {
    sign_to(path, &admin_key(), "x", clock.now_s(), &nonce())
}

/// Halts, resumes and confirms the clock, each signed by the wall clock.
fn halt_resume_confirm(gate: &Gate, clock: &Hands) {
    let auth = |path| gate.authenticate(signed(path, clock)).unwrap().auth;
    let (by, reason) = (id("admin"), "the clock stepped");
    let scope = Scope::All;
    gate.call(Request::Halt { by: by.clone(), auth: auth(HALT), scope: scope.clone(), reason: reason.into() }).unwrap();
    gate.call(Request::Resume { by: by.clone(), auth: auth(RESUME), scope, reason: reason.into() }).unwrap();
    gate.call(Request::ConfirmClock { by, auth: auth(CONFIRM) }).unwrap();
}

fn action(gate: &Gate, clock: &Hands) -> &'static str {
    code(gate.authenticate(sign(&key(1), &refund(), clock.now_s(), &nonce())))
}

#[test]
fn a_clock_set_ahead_can_be_confirmed_and_the_gate_halted() {
    let dir = tempfile::tempdir().unwrap();
    let World { gate, clock } = furnished(dir.path());
    clock.step(QUARTER_MS);
    assert_eq!(action(&gate, &clock), "not_ready");
    let reason = gate.not_ready().unwrap().reason;
    assert!(reason.contains("2026-11-15T00:01:40") && reason.contains("2026-11-14T23:46:40"), "{reason}");
    // No agent, and nothing else of an operator's.
    assert_eq!(code(gate.authenticate(sign_to(HALT, &key(1), "x", clock.now_s(), &nonce()))), "not_ready");
    assert_eq!(code(gate.authenticate(signed("/v1/pacts", &clock))), "not_ready");
    halt_resume_confirm(&gate, &clock);
    assert_eq!(gate.not_ready(), None);
    assert_eq!(action(&gate, &clock), "ok");
}

#[test]
fn a_clock_set_back_can_be_confirmed_and_the_gate_halted() {
    let dir = tempfile::tempdir().unwrap();
    let World { gate, clock } = furnished(dir.path());
    clock.pass(QUARTER_MS.unsigned_abs());
    assert_eq!(action(&gate, &clock), "ok");
    clock.step(-QUARTER_MS);
    assert_eq!(action(&gate, &clock), "not_ready");
    halt_resume_confirm(&gate, &clock);
    goes_on_when_the_clock_is_where_it_was(&gate, &clock);
}

#[test]
fn a_gate_that_once_ran_ahead_can_be_confirmed_and_halted_after_a_restart() {
    for is_clean in [true, false] {
        let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let world = furnished(dir.path());
        world.clock.step(QUARTER_MS);
        halt_resume_confirm(&world.gate, &world.clock);
        assert_eq!(world.act("refund-1", &key(1)), "committed");
        let World { gate, clock } = world;
        let folder = if is_clean {
            gate.close().unwrap();
            dir.path()
        } else {
            crash(dir.path(), copy.path());
            copy.path()
        };
        clock.step(-QUARTER_MS);
        let gate = open(folder, &clock);
        assert_eq!(action(&gate, &clock), "not_ready");
        halt_resume_confirm(&gate, &clock);
        goes_on_when_the_clock_is_where_it_was(&gate, &clock);
    }
}

/// Confirmed behind: until the clock shows times that it has not shown, only operators can do what stops.
fn goes_on_when_the_clock_is_where_it_was(gate: &Gate, clock: &Arc<Hands>) {
    let left_ms = gate.not_ready().unwrap().left_ms.unwrap();
    assert!(left_ms <= 901_000, "{left_ms}");
    assert_eq!(action(gate, clock), "not_ready");
    for path in [HALT, RESUME, CONFIRM] {
        assert_eq!(code(gate.authenticate(signed(path, clock))), "ok", "{path}");
    }
    clock.pass(left_ms);
    assert_eq!(gate.not_ready(), None);
    assert_eq!(action(gate, clock), "ok");
    let auth = gate.authenticate(signed(CONFIRM, clock)).unwrap().auth;
    let refused = gate.call(Request::ConfirmClock { by: id("admin"), auth }).unwrap_err();
    assert_eq!(refused, Refusal::ClockSteady);
}

#[test]
fn a_resume_sent_again_when_the_clock_shows_its_time_again_is_refused() {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let World { gate, clock } = furnished(dir.path());
    let seen = signed(RESUME, &clock);
    assert_eq!(code(gate.authenticate(seen.clone())), "ok");
    clock.pass(QUARTER_MS.unsigned_abs());
    // Its nonce is forgotten with this one.
    assert_eq!(action(&gate, &clock), "ok");
    clock.step(-QUARTER_MS);
    assert_eq!(code(gate.authenticate(seen.clone())), "signature_replayed");
    crash(dir.path(), copy.path());
    let gate = open(copy.path(), &clock);
    assert_eq!(code(gate.authenticate(seen)), "signature_replayed", "nor after a kill");
}

#[test]
fn a_resume_by_a_clock_ahead_sent_again_when_ledger_time_gets_there_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let World { gate, clock } = furnished(dir.path());
    clock.step(QUARTER_MS);
    let seen = signed(RESUME, &clock);
    assert_eq!(code(gate.authenticate(seen.clone())), "ok");
    clock.step(-QUARTER_MS);
    assert_eq!(code(gate.authenticate(seen.clone())), "signature_expired");
    clock.pass(QUARTER_MS.unsigned_abs());
    assert_eq!(action(&gate, &clock), "ok");
    assert_eq!(code(gate.authenticate(seen)), "signature_replayed");
}

/// More than the gate keeps.
const FLOOD: usize = 2_100;

fn flood(gate: &Gate, path: &str, key: &SigningKey, created_s: u64) -> BTreeSet<&'static str> {
    (0..FLOOD).map(|_| code(gate.authenticate(sign_to(path, key, "x", created_s, &nonce())))).collect()
}

#[test]
fn a_resume_by_a_clock_ahead_is_refused_however_many_halts_an_auditor_or_an_admin_signs() {
    for (by, roles) in [("auditor", ["auditor"]), ("second", ["admin"])] {
        let dir = tempfile::tempdir().unwrap();
        let World { gate, clock } = furnished_with(dir.path(), by, &roles);
        clock.step(200_000);
        let seen = signed(RESUME, &clock);
        assert_eq!(code(gate.authenticate(seen.clone())), "ok");
        clock.step(-200_000);
        for path in [HALT, RESUME] {
            flood(&gate, path, &key(50), clock.now_s());
        }
        clock.pass(198_000);
        assert_eq!(action(&gate, &clock), "ok", "what the window knew is forgotten");
        assert_eq!(code(gate.authenticate(seen.clone())), "signature_replayed", "{by}");
        flood(&gate, RESUME, &key(50), clock.now_s());
        assert_eq!(code(gate.authenticate(seen)), "signature_replayed", "{by}");
        assert_eq!(code(gate.authenticate(signed(HALT, &clock))), "ok", "{by}");
    }
}

#[test]
fn a_resume_that_was_dropped_is_refused_by_a_clock_that_was_set_back_and_confirmed_on_a_quiet_gate() {
    let dir = tempfile::tempdir().unwrap();
    let World { gate, clock } = furnished_with(dir.path(), "second", &["admin"]);
    let proof = gate.authenticate(signed("/v1/pacts", &clock)).unwrap().auth;
    let early = signed(RESUME, &clock);
    assert_eq!(code(gate.authenticate(early.clone())), "ok");
    // By a clock that is ahead, so that the window has not heard of its time.
    clock.step(QUARTER_MS);
    let seen = signed(RESUME, &clock);
    assert_eq!(code(gate.authenticate(seen.clone())), "ok");
    clock.step(-QUARTER_MS);
    clock.pass(2 * QUARTER_MS.unsigned_abs());
    // One a second, so that each is newer than what is dropped for it, and none has to go by the window.
    for _ in 0..FLOOD {
        clock.pass(1_000);
        let later = sign_to(RESUME, &key(50), "x", clock.now_s(), &nonce());
        assert_eq!(code(gate.authenticate(later)), "ok");
    }
    clock.step(-i64::try_from((clock.now_s() - seen.created_s) * 1000).unwrap());
    assert_eq!(action(&gate, &clock), "not_ready");
    gate.call(Request::ConfirmClock { by: id("admin"), auth: proof }).unwrap();
    for again in [early, seen] {
        let told = code(gate.authenticate(again));
        assert!(["not_ready", "signature_expired", "signature_replayed"].contains(&told), "{told}");
    }
}

#[test]
fn an_operator_without_the_role_or_revoked_keeps_no_admin_out_while_the_clock_has_stepped() {
    for (standing, roles) in [("revoked", ["admin"]), ("active", ["auditor"])] {
        for step_ms in [QUARTER_MS, -QUARTER_MS] {
            let dir = tempfile::tempdir().unwrap();
            let world = furnished_with(dir.path(), "other", &roles);
            let mut other = operator(&key(50), &roles);
            other["standing"] = standing.into();
            world.feed("Operator::\"other\"", Some(other)).unwrap();
            let World { gate, clock } = world;
            clock.pass(1_000);
            clock.step(step_ms);
            for path in [HALT, RESUME, CONFIRM] {
                let told = flood(&gate, path, &key(50), clock.now_s() + 9);
                assert_eq!(told, BTreeSet::from(["not_ready"]), "{standing}, {path}");
            }
            halt_resume_confirm(&gate, &clock);
        }
    }
}

#[test]
fn halts_without_number_keep_no_resume_and_no_confirmation_out() {
    let dir = tempfile::tempdir().unwrap();
    let World { gate, clock } = furnished_with(dir.path(), "automat", &["admin"]);
    assert_eq!(
        flood(&gate, HALT, &key(50), clock.now_s()),
        BTreeSet::from(["ok"]),
        "no halt is refused for their number"
    );
    clock.step(QUARTER_MS);
    flood(&gate, HALT, &key(50), clock.now_s());
    for path in [RESUME, CONFIRM] {
        assert_eq!(code(gate.authenticate(signed(path, &clock))), "ok", "{path}");
    }
}

#[test]
fn an_action_sent_again_after_a_clock_set_back_was_confirmed_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let World { gate, clock } = furnished(dir.path());
    let seen = sign(&key(1), &refund(), clock.now_s(), &nonce());
    assert_eq!(code(gate.authenticate(seen.clone())), "ok");
    clock.pass(QUARTER_MS.unsigned_abs());
    for _ in 0..2 {
        assert_eq!(action(&gate, &clock), "ok");
        clock.pass(80_000);
    }
    clock.step(-QUARTER_MS - 160_000);
    halt_resume_confirm(&gate, &clock);
    for _ in 0..60 {
        let again = code(gate.authenticate(seen.clone()));
        assert!(again == "not_ready" || again == "signature_expired", "{again}");
        clock.pass(20_000);
    }
    assert_eq!(action(&gate, &clock), "ok");
}

#[test]
fn a_clock_that_is_put_right_makes_the_gate_ready_and_the_ledger_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let world = furnished(dir.path());
    world.clock.step(QUARTER_MS);
    // An agent elsewhere, whose clock is right.
    let body = refund();
    let presented = sign(&key(1), &body, world.gate.now_ms() / 1000, &nonce());
    let auth = world.gate.authenticate(presented).unwrap().auth;
    let action = world.gate.admit(id("refund-1"), auth, body.into()).unwrap();
    world.gate.call(Request::Act(Box::new(action))).unwrap();
    assert!(world.gate.not_ready().is_some());
    world.clock.step(-QUARTER_MS);
    assert_eq!(world.gate.not_ready(), None);
    assert_eq!(world.act("refund-1", &key(1)), "committed");
    assert_eq!(world.act("refund-1", &key(1)), "committed");
    let told = clock_entries(&world.gate);
    assert_eq!(
        told,
        [(QUARTER_MS, false), (0, false)],
        "how far the wall clock was away, and whether it was confirmed"
    );
    let log_key = world.gate.log_key();
    world.gate.close().unwrap();
    let report = audit(&RealDisk::open(dir.path()).unwrap(), &log_key, &mut |_| ()).unwrap();
    assert_eq!(report.differing, Vec::new());
}

/// The ledger's entries of the clock: how far the wall clock was from ledger time, and whether that was confirmed.
fn clock_entries(gate: &Gate) -> Vec<(i64, bool)> {
    let mut found = Vec::new();
    for entry in gate.read_log_range(0, 100).unwrap() {
        let shown = entry.show().unwrap();
        let leaf: Json = serde_json::from_str(&shown.leaf).unwrap();
        if leaf["kind"] == "clock" {
            let payload: Json = serde_json::from_str(&shown.payload.unwrap()).unwrap();
            let away_ms = payload["wall"].as_i64().unwrap() - leaf["time"].as_i64().unwrap();
            found.push((away_ms, payload["confirmed"] == true));
        }
    }
    found
}

/// With another operator, whose key is 50.
fn furnished_with(dir: &Path, name: &str, roles: &[&str]) -> World {
    let world = furnished(dir);
    world.feed(&format!("Operator::\"{name}\""), Some(operator(&key(50), roles))).unwrap();
    world
}

fn furnished(dir: &Path) -> World {
    let world = World::open(dir);
    world.furnish();
    world
}
