//! What is checked: the scenarios, the planted bugs, and the worlds in which a promise rests on something that is not so.

use super::config::{Bug, Config, Spec};

/// Every scenario, without a bug.
#[must_use]
pub fn scenarios() -> Vec<Config> {
    vec![alone(), two(), narrow(), skew(), ahead(), losses(), doubts(), late(), strangers(), crash(), kill()]
}

/// One client does one thing after the other.
fn alone() -> Config {
    let writes = [Spec::of(0, 0), Spec::of(0, 1), Spec::of(0, 0)];
    Config { reads: [[2, 2], [0; 2]], ..Config::new("alone", &writes) }
}

/// Two clients read both places, and each changes one.
fn two() -> Config {
    let writes = [Spec::of(0, 0), Spec::of(1, 1), Spec::of(0, 1)];
    Config::new("two", &writes)
}

/// A write that rests on one place only, beside one that changes the other.
fn narrow() -> Config {
    let writes = [Spec::of(0, 0).resting_on(0), Spec::of(1, 1), Spec::of(0, 1)];
    Config::new("narrow", &writes)
}

/// Two servers: each write relies on what the other changes.
fn skew() -> Config {
    let writes = [Spec::of(0, 0), Spec::of(1, 1)];
    Config { servers: [0, 1], ..Config::new("skew", &writes) }
}

/// A client that sends more before it has an answer.
fn ahead() -> Config {
    let writes = [Spec::of(0, 0), Spec::of(0, 0), Spec::of(1, 0)];
    Config { pipelines: true, reads: [[2, 0], [0; 2]], ..Config::new("ahead", &writes) }
}

/// The same, and answers are lost.
fn losses() -> Config {
    let writes = [Spec::of(0, 0), Spec::of(0, 0), Spec::of(1, 0)];
    Config { pipelines: true, losses: 1, reads: [[2, 0], [0, 0]], ..Config::new("losses", &writes) }
}

/// Calls without an answer, whose requests arrive before their turn is given back.
fn doubts() -> Config {
    let writes = [Spec::of(0, 0), Spec::of(1, 0)];
    Config { doubts: true, reads: [[1, 0], [2, 0]], ..Config::new("doubts", &writes) }
}

/// Calls without an answer, whose requests may arrive after it.
fn late() -> Config {
    let writes = [Spec::of(0, 0), Spec::of(1, 0), Spec::of(0, 0)];
    Config { doubts: true, late: true, reads: [[1, 0], [0; 2]], ..Config::new("late", &writes) }
}

/// Changes past the gate, and differences that are too long to tell.
fn strangers() -> Config {
    let writes = [Spec::of(0, 0), Spec::of(0, 1), Spec::of(1, 0)];
    Config { strangers: 1, cuts: true, reads: [[1, 1], [1, 0]], ..Config::new("strangers", &writes) }
}

/// A gate that dies, and requests that it leaves under way.
fn crash() -> Config {
    let writes = [Spec::of(0, 0), Spec::of(1, 0), Spec::of(0, 0)];
    Config { crashes: 1, reads: [[2, 0], [1, 0]], ..Config::new("crash", &writes) }
}

/// A gateway that is killed, and another that goes on in its session.
fn kill() -> Config {
    let writes = [Spec::of(0, 0), Spec::of(1, 0), Spec::of(0, 0)];
    Config { kills: 1, reads: [[2, 0], [0; 2]], ..Config::new("kill", &writes) }
}

/// For each bug the scenario that it is planted in.
#[must_use]
pub fn bugs() -> Vec<Config> {
    let planted = [
        (Bug::RefreshesUncompared, narrow()),
        (Bug::CountsLateDelivery, ahead()),
        (Bug::ReadOvertakesWrite, ahead()),
        (Bug::CountsUndeliveredTelling, ahead()),
        (Bug::CountsLostAnswers, losses()),
        (Bug::DeliveryClearsLaterLosses, losses()),
        (Bug::CountsErrors, crash()),
        (Bug::TellsFromUnknown, losses()),
        (Bug::SharedPool, two()),
        (Bug::NotMarkedBeside, late()),
        (Bug::MarkedAtDispatch, late()),
        (Bug::GivesTurnBackAtOnce, doubts()),
        (Bug::NotCompared, two()),
        (Bug::ReadsBeforeTurn, two()),
        (Bug::ReliesWithoutTurn, skew()),
        (Bug::RestartForgetsTurns, crash()),
        (Bug::RestsOnLatest, ahead()),
        (Bug::CutCountsAsTold, strangers()),
        (Bug::NotRefreshed, alone()),
        (Bug::MarksReadsLate, ahead()),
        (Bug::EntersReadsOfTheKilled, kill()),
        (Bug::IntendsWritesOfTheKilled, kill()),
        (Bug::FollowsAsDelivered, kill()),
        (Bug::FollowsWithoutCalls, kill()),
    ];
    planted.into_iter().map(|(bug, config)| Config { bug: Some(bug), ..config }).collect()
}

impl Config {
    /// A world in which the gate cannot keep its promise: a write is on its way to the gateway, and an answer passes it by.
    #[must_use]
    pub fn with_a_slow_pipe() -> Self {
        Self { slow_pipe: true, ..ahead() }
    }
}
