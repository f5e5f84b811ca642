//! The guard that compares what was read, looked at whole: every state of every scenario, and every planted bug found.

use countersign_testing::model::check_guard;
use countersign_testing::model::readings::property::FRESH;
use countersign_testing::model::readings::{Config, Step, bugs, scenarios};

#[test]
fn every_property_holds_in_every_state() {
    for config in scenarios() {
        let report = check_guard(config);
        println!("{report}");
        assert!(report.broken.is_empty(), "{report}");
        assert!(report.missed.is_empty(), "{report}");
    }
}

#[test]
fn every_planted_bug_is_found() {
    for config in bugs() {
        let bug = config.bug.expect("a bug is planted");
        // Without the bug the scenario holds, as the test above shows: what is found is the bug.
        assert!(scenarios().iter().any(|it| it.name == config.name), "{} is not checked without the bug", config.name);
        let report = check_guard(config);
        let found: Vec<_> = report.broken.iter().map(|(name, _)| *name).collect();
        println!("{bug:?} in {}: {found:?}", report.name);
        assert!(bug.breaks().iter().any(|property| found.contains(property)), "{bug:?} is not found: {report}");
    }
}

#[test]
fn a_write_that_an_answer_passes_by_on_its_way_to_the_gateway_rests_on_what_its_client_had_not_seen() {
    let report = check_guard(Config::with_a_slow_pipe());
    println!("{report}");
    let way = report.counterexample(FRESH).expect("the gateway cannot know when its client wrote");
    let at = |wanted: fn(&Step) -> bool| way.iter().rposition(wanted).expect("it is on the way");
    let (sent, arrived) = (at(|step| matches!(step, Step::Write(_))), at(|step| matches!(step, Step::Arrive(_))));
    let between = way.iter().take(arrived).skip(sent);
    assert!(between.into_iter().any(|step| matches!(step, Step::Deliver(..) | Step::Result(_))), "{way:?}");
}
