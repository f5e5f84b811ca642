//! The engine along the ways of the model: a gate with its outbox, an adapter that does as the trace says, a simulated disk that
//! loses its power, and after every step the same picture on both sides.

mod board;
mod clock;
mod pact;
mod seen;
mod world;

use board::PATIENCE;
use countersign_testing::model::{
    Answer, Bug, Claim, Config, Protocol, Request, State, Status, Step, scenarios, traces,
};
use stateright::Model as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use world::World;

/// How many ways of each scenario.
const WAYS: usize = 24;
/// They mostly wait for the engine's own waits, so many run side by side.
const SIDE_BY_SIDE: usize = 12;

/// Whether a step can be taken without another: one clock serves all, so a long time passes only where nothing else is due.
fn may(state: &State, step: &Step) -> bool {
    let cools = |number: &usize| state.tip.actions[*number].status == Status::Cooling;
    let cooling = (0..3).filter(|number| cools(number) && !state.waiting.contains(number)).count();
    let claims = state.tip.claims.iter().filter(|claim| **claim == Claim::Standing).count();
    match step {
        Step::Dispatch(_) => cooling == 1,
        Step::Expire(_) => cooling == 0 && claims == 1,
        // What has cooled and waits is due as soon as the gate is open again.
        Step::Crash => !state.waiting.iter().any(cools),
        Step::TimeUp(_) => cooling == 0 && claims == 0 && state.waiting.len() == 1,
        _ => true,
    }
}

fn drive(model: &Protocol, way: &[Step], seed: u64, patience: Duration) -> Result<(), String> {
    let mut world = World::new(model.clone(), seed, patience);
    let mut state = model.init_states().remove(0);
    for (number, step) in way.iter().enumerate() {
        let taken = world.take(&state, *step);
        state = taken.map_err(|why| format!("step {number}, {step:?}, of {way:?}: {why}"))?;
    }
    world.close().map_err(|why| format!("{way:?}: {why}"))
}

#[test]
fn the_engine_goes_every_way_of_the_model() {
    let driven = scenarios().into_iter().filter(|config| !config.batches);
    let ways: Vec<(Protocol, Vec<Step>)> = driven
        .flat_map(|config| {
            let ways = traces(&config, 11, WAYS, may);
            ways.into_iter().map(move |way| (Protocol::new(config.clone()), way))
        })
        .collect();
    let (next, steps) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let broken: Vec<String> = std::thread::scope(|scope| {
        let drivers: Vec<_> = (0..SIDE_BY_SIDE)
            .map(|_| {
                scope.spawn(|| {
                    let mut broken = Vec::new();
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some((model, way)) = ways.get(number) else { return broken };
                        steps.fetch_add(way.len(), Ordering::Relaxed);
                        if let Err(why) = drive(model, way, number as u64, PATIENCE) {
                            broken.push(format!("{}: {why}", model.config.name));
                        }
                    }
                })
            })
            .collect();
        drivers.into_iter().flat_map(|driver| driver.join().unwrap()).collect()
    });
    println!("{} ways, {} steps", ways.len(), steps.load(Ordering::Relaxed));
    assert!(broken.is_empty(), "{} ways differ:\n{}", broken.len(), broken.join("\n"));
}

#[test]
fn a_gate_that_differs_from_the_model_is_noticed() {
    // The gate is as it should be, so the model is given bugs, and must be found to differ.
    let wrong = [
        (Bug::ForgetFence, "payouts", vec![Step::Submit(0)]),
        (Bug::WriteAtDispatch, "payouts", vec![Step::Submit(0)]),
        (Bug::FeedNotHeld, "freeze", vec![Step::Submit(0), Step::Dispatch(0), Step::Feed]),
        (Bug::HeldFeedReliedOn, "outdated", vec![Step::Submit(0), Step::Feed, Step::Submit(2)]),
        (Bug::LostClaimStillGood, "claims", vec![Step::Announce(0), Step::Withdraw(0), Step::Submit(1)]),
        (Bug::RefusedRetryFails, "retries", retried()),
    ];
    for (bug, name, way) in wrong {
        let config = scenarios().into_iter().find(|config| config.name == name).unwrap();
        let patience = Duration::from_millis(1_500);
        let good = drive(&Protocol::new(config.clone()), &way, 1, PATIENCE);
        assert_eq!(good, Ok(()), "{bug:?}");
        let bad = drive(&Protocol::new(Config { bug: Some(bug), ..config }), &way, 1, patience);
        assert!(bad.is_err(), "{bug:?} in the model is not noticed");
    }
}

/// A second attempt is refused, and nobody knows what became of the first.
fn retried() -> Vec<Step> {
    let refused = Step::Deliver(0, Request::Current, Answer::Refused);
    vec![Step::Submit(0), Step::Send(0), Step::GiveUp(0), Step::Send(0), refused, Step::Reply(0)]
}

fn agrees_on(name: &str, way: &[Step]) {
    let config = scenarios().into_iter().find(|config| config.name == name).unwrap();
    assert_eq!(drive(&Protocol::new(config), way, 1, PATIENCE), Ok(()));
}

#[test]
fn a_call_dispatched_right_after_opening_is_not_taken_for_an_interrupted_one() {
    let done = Step::Deliver(0, Request::Current, Answer::Done);
    for _ in 0..10 {
        agrees_on("payouts", &[Step::Crash, Step::Submit(0), Step::Send(0), done, Step::Reply(0)]);
    }
}

#[test]
fn whoever_waits_is_tried_again_when_its_own_claim_takes_the_fact() {
    agrees_on("waiting", &[Step::Announce(0), Step::Submit(1), Step::Announce(1)]);
}
