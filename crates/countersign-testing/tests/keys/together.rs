//! A whole gate, with its threads, while tables are frozen, written and merged under it.

use super::world::{Told, agent, body, furniture, options, uses};
use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_engine::clock::SystemClock;
use countersign_engine::gate::{Gate, Options};
use countersign_engine::request::{Answer, Request};
use countersign_testing::disk::{Faults, FaultyDisk};
use countersign_testing::gate::environment;
use crossbeam_channel::unbounded;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn open(disk: &FaultyDisk, options: Options) -> Gate {
    Gate::open(environment(Arc::new(disk.clone()), Arc::new(SystemClock::default())), options).unwrap().0
}

fn act(gate: &Gate, note: &str, key: u64) -> Request {
    Request::Act(Box::new(gate.admit(agent(), Auth::None, body(note, key).into()).unwrap()))
}

#[test]
fn many_threads_send_the_same_keys_and_each_is_done_once() {
    const KEYS: u64 = 1_500;
    let disk = FaultyDisk::new(3, Faults::default());
    let options = || Options { table_keys: 32, snapshot_every: 200, segment_bytes: 4 << 20, ..options() };
    let mut told = vec![Vec::new(); KEYS as usize];
    // The second life begins with what the first left in files.
    for life in 0..2u64 {
        let gate = open(&disk, options());
        if life == 0 {
            furniture().into_iter().for_each(|request| drop(gate.call(request).unwrap()));
        }
        let (send, answers) = unbounded();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (gate, send) = (&gate, send.clone());
                scope.spawn(move || {
                    for key in life * KEYS / 2..(life + 1) * KEYS / 2 {
                        // Half of them come once more much later.
                        for key in [key, key / 2] {
                            let send = send.clone();
                            let reply = Box::new(move |answer| send.send((key, Told::from(answer))).unwrap());
                            let request = act(gate, "1", key);
                            match thread {
                                0 => reply(gate.call(request)),
                                _ => gate.submit(request, reply).unwrap(),
                            }
                        }
                    }
                });
            }
        });
        drop(send);
        let mut count = 0;
        for (key, answer) in answers.iter().take(4 * KEYS as usize) {
            told[key as usize].push(answer);
            count += 1;
        }
        assert_eq!(count, 4 * KEYS, "everyone is answered");
        gate.close().unwrap();
    }
    for (key, told) in told.iter().enumerate() {
        let entered: Vec<u64> =
            told.iter().filter_map(|told| if let Told::Entered(at) = told { Some(*at) } else { None }).collect();
        let [entry] = entered[..] else { panic!("key {key}: {told:?}") };
        assert!(
            told.iter().all(|told| [Told::Entered(entry), Told::Repeated(entry)].contains(told)),
            "{key}: {told:?}"
        );
    }
    let uses = uses(&disk).unwrap();
    assert_eq!((uses.len() as u64, uses.values().copied().max()), (KEYS, Some(1)));
}

#[test]
fn a_gate_looks_up_again_what_waited_too_long_and_answers_it() {
    let disk = FaultyDisk::new(4, Faults::default());
    let gate = open(&disk, Options { segment_bytes: 4 << 20, ..options() });
    furniture().into_iter().for_each(|request| drop(gate.call(request).unwrap()));
    let ben = || AgentId::new("ben").unwrap();
    let facts = vec!["Note::\"2\"".parse().unwrap()];
    let claim = Request::Claim { by: ben(), auth: Auth::None, facts, for_ms: 500_000, reason: "soon".into() };
    let Answer::Entered(claim) = gate.call(claim).unwrap() else { panic!() };
    let claim = countersign_core::fence::ClaimId(claim.entry.index);
    let (send, answers) = unbounded();
    for _ in 0..3 {
        let send = send.clone();
        let reply = Box::new(move |answer| send.send(Told::from(answer)).unwrap());
        gate.submit(act(&gate, "2", 1), reply).unwrap();
    }
    let started = Instant::now();
    while gate.waiting() < 3 {
        assert!(started.elapsed() < Duration::from_secs(60), "{} wait", gate.waiting());
        std::thread::yield_now();
    }
    // The window goes on when its thread has written it; until then more is entered.
    let mut key = 100;
    while gate.keys_since() < 40 {
        gate.call(act(&gate, "1", key)).unwrap();
        key += 1;
        assert!(started.elapsed() < Duration::from_secs(60), "the window still begins at {}", gate.keys_since());
    }
    gate.call(Request::WithdrawClaim { by: ben(), auth: Auth::None, claim }).unwrap();
    let told: Vec<Told> = answers.iter().take(3).collect();
    let entered = told.iter().filter(|told| matches!(told, Told::Entered(_))).count();
    assert_eq!((entered, told.len()), (1, 3), "{told:?}");
    assert!(told.iter().all(|told| matches!(told, Told::Entered(_) | Told::Repeated(_))), "{told:?}");
    gate.close().unwrap();
    assert!(uses(&disk).unwrap().values().all(|uses| *uses == 1));
}
