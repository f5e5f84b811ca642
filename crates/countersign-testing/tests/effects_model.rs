//! The protocol of fences and calls, looked at whole: every state of every scenario, and every planted bug found.

use countersign_testing::model::property::{FAILED, I6_ONCE, SETTLED};
use countersign_testing::model::{Config, Protocol, State, Step, bugs, check, scenarios, shortest, sweep, traces};
use stateright::Model as _;
use std::collections::HashMap;

fn scenario(name: &str) -> Config {
    scenarios().into_iter().find(|config| config.name == name).expect("there is such a scenario")
}

/// Checks scenarios to the end, and prints how many states each has.
fn all_hold(names: &[&str]) {
    for name in names {
        let report = check(scenario(name), true);
        println!("{report}");
        assert!(report.broken.is_empty(), "{report}");
        assert!(report.missed.is_empty(), "{report}");
    }
}

/// Those of some thousand states. The others have a test each, to run side by side.
const SMALL: [&str; 11] = [
    "payouts", "fenced", "outdated", "retries", "batches", "cooling", "claims", "waiting", "halts", "doubts", "fickle",
];
const LARGE: [&str; 4] = ["freeze", "freeze in batches", "crowd", "queue"];

#[test]
fn every_property_holds_in_every_state_of_the_small_scenarios() {
    all_hold(&SMALL);
}

#[test]
fn every_property_holds_when_a_freeze_is_announced_and_everything_disturbs() {
    all_hold(&LARGE[0..1]);
}

#[test]
fn every_property_holds_when_a_crash_also_takes_decisions_back() {
    all_hold(&LARGE[1..2]);
}

#[test]
fn every_property_holds_with_three_calls_in_flight_and_duplicates() {
    all_hold(&LARGE[2..3]);
}

#[test]
fn every_property_holds_when_calls_wait_for_each_other() {
    all_hold(&LARGE[3..4]);
}

#[test]
fn no_scenario_is_left_out() {
    let checked: Vec<_> = SMALL.into_iter().chain(LARGE).collect();
    assert_eq!(scenarios().iter().map(|config| config.name).collect::<Vec<_>>(), checked);
}

#[test]
fn every_property_holds_for_every_choice_of_three_kinds_of_actions() {
    let configs = sweep();
    let (even, odd): (Vec<_>, Vec<_>) = configs.iter().enumerate().partition(|(number, _)| number % 2 == 0);
    let states = |half: Vec<(usize, &Config)>| -> usize {
        half.into_iter()
            .map(|(_, config)| {
                let report = check(config.clone(), true);
                assert!(report.broken.is_empty(), "{:?}: {report}", config.actions);
                report.states
            })
            .sum()
    };
    // Two halves on two threads, because the machines that run this have two cores.
    let total = std::thread::scope(|scope| {
        let first = scope.spawn(|| states(even));
        states(odd) + first.join().expect("the other half holds")
    });
    println!("sweep: {} choices, {total} states", configs.len());
    assert!(total > 100_000, "{total} states are too few to say much");
}

#[test]
fn every_planted_bug_is_found() {
    for config in bugs() {
        let bug = config.bug.expect("a bug is planted");
        // Without the bug the scenario holds, as another test shows: what is found is the bug.
        assert!(SMALL.contains(&config.name), "{} is not checked without the bug", config.name);
        let report = check(config, false);
        let found: Vec<_> = report.broken.iter().map(|(name, _)| *name).collect();
        println!("{bug:?} in {}: {found:?}", report.name);
        assert!(bug.breaks().iter().any(|property| found.contains(property)), "{bug:?} is not found: {report}");
    }
}

#[test]
fn failed_rests_on_absent_after_being_longer_than_every_delay() {
    let report = check(Config::with_unbounded_delays(), true);
    println!("{report}");
    let way = report.counterexample(FAILED).expect("a late request is done after `failed`");
    // The way shows what happens: the probe finds nothing, and only then the request arrives.
    let probed = way.iter().position(|step| matches!(step, Step::Probe(_))).expect("a probe said absent");
    assert!(matches!(way.last(), Some(Step::Deliver(..))) && probed < way.len() - 1, "{way:?}");
    assert!(report.counterexample(I6_ONCE).is_none(), "even then it is done at most once");
}

#[test]
fn a_guess_of_an_operator_can_make_settled_and_failed_untrue() {
    let report = check(Config::with_guesses(), true);
    println!("{report}");
    assert!(report.counterexample(SETTLED).is_some() && report.counterexample(FAILED).is_some());
    assert!(report.counterexample(I6_ONCE).is_none(), "even then it is done at most once");
}

#[test]
fn a_network_that_duplicates_does_twice_what_is_not_idempotent() {
    let report = check(Config::with_duplicates_of_all(), true);
    println!("{report}");
    let way = report.counterexample(I6_ONCE).expect("it is done twice");
    let Some(Step::Deliver(action, ..)) = way.last() else { panic!("the outside did it last: {way:?}") };
    let sends = way.iter().filter(|step| **step == Step::Send(*action)).count();
    assert_eq!(sends, 1, "the gate sent it once: {way:?}");
}

/// Whether a way from a state leads back to it: depth first, with the states on the way marked.
fn comes_back(model: &Protocol) -> Option<State> {
    let steps = |state: &State| {
        let mut steps = Vec::new();
        model.steps(state, &mut steps);
        steps.into_iter().map(|step| model.after(state, step)).collect::<Vec<_>>()
    };
    let first = model.init_states().remove(0);
    let mut on_the_way = HashMap::from([(first.clone(), true)]);
    let mut stack = vec![(first.clone(), steps(&first))];
    while let Some((state, rest)) = stack.last_mut() {
        let Some(next) = rest.pop() else {
            on_the_way.insert(state.clone(), false);
            stack.pop();
            continue;
        };
        match on_the_way.get(&next) {
            Some(true) => return Some(next),
            Some(false) => {}
            None => {
                on_the_way.insert(next.clone(), true);
                let after = steps(&next);
                stack.push((next, after));
            }
        }
    }
    None
}

#[test]
fn no_state_comes_back_so_every_run_ends_where_everything_has_ended() {
    // What holds at the end of every way (`property::ENDS`) is reached, because no way goes in a circle.
    for name in ["payouts", "retries", "batches", "waiting", "halts"] {
        assert_eq!(comes_back(&Protocol::new(scenario(name))), None, "{name}");
    }
}

#[test]
fn traces_are_ways_through_the_model_to_its_end() {
    for config in scenarios() {
        let model = Protocol::new(config.clone());
        let ways = traces(&config, 7, 50, |_, _| true);
        assert_eq!(ways, traces(&config, 7, 50, |_, _| true), "a seed names its traces");
        assert_eq!(ways.len(), 50);
        for way in ways {
            let end = follow(&model, &way);
            let mut steps = Vec::new();
            model.steps(&end, &mut steps);
            assert!(steps.is_empty(), "{}: {way:?} stops early", config.name);
        }
    }
}

#[test]
fn shortest_traces_reach_every_state_of_a_scenario() {
    let config = scenario("payouts");
    let model = Protocol::new(config.clone());
    let report = check(config.clone(), true);
    let mut seen = std::collections::HashSet::from([model.init_states().remove(0)]);
    for way in shortest(&config, usize::MAX) {
        for end in 1..=way.len() {
            seen.insert(follow(&model, &way[..end]));
        }
    }
    assert_eq!(seen.len(), report.states);
}

fn follow(model: &Protocol, way: &[Step]) -> State {
    way.iter().fold(model.init_states().remove(0), |state, step| {
        let mut steps = Vec::new();
        model.steps(&state, &mut steps);
        assert!(steps.contains(step), "{step:?} cannot be taken in {state:?}");
        model.after(&state, *step)
    })
}
