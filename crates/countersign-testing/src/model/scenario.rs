//! The configurations that are checked. Several small ones, each with what its question needs, instead of a huge one.

use super::config::Fact::{A, B};
use super::config::{Bug, ClaimSpec, Config, Delays, Operator, Spec};

/// The configurations in which every property holds.
#[must_use]
pub fn scenarios() -> Vec<Config> {
    let mut all = vec![
        payouts(),
        fenced(),
        outdated(),
        retries(),
        batches(),
        cooling(),
        claims(),
        waiting(),
        halts(),
        doubts(),
        fickle(),
    ];
    all.extend([freeze(), freeze_in_batches(), crowd(), queue()]);
    all
}

/// Three payouts from one account, none of them idempotent.
fn payouts() -> Config {
    let payout = Spec::call(&[A]).sets(A);
    Config { crashes: 2, refuses: true, ..Config::new("payouts", [payout, payout.probe(), payout]) }
}

/// A payout and a message rely on what a third action and a feed would change.
fn fenced() -> Config {
    let actions = [Spec::call(&[A, B]).sets(A).probe(), Spec::call(&[B]), Spec::plain(&[A, B]).closes(B)];
    Config { crashes: 2, feed: Some((B, false)), refuses: true, ..Config::new("fenced", actions) }
}

/// A feed waits for a call, and others, one of which waits as well, rely on what it will change.
fn outdated() -> Config {
    let reader = Spec::plain(&[A, B]).closes(B);
    let actions = [Spec::call(&[A]).sets(A).probe(), reader.waits(), reader];
    Config { crashes: 2, feed: Some((A, false)), refuses: true, ..Config::new("outdated", actions) }
}

/// Idempotent calls, tried again, on a network that duplicates.
fn retries() -> Config {
    let payout = Spec::call(&[A]).sets(A).idempotent();
    let actions = [payout, Spec::call(&[A]).idempotent().probe(), Spec::plain(&[A]).closes(A)];
    Config { crashes: 2, duplicates: 1, refuses: true, ..Config::new("retries", actions) }
}

/// Entries become durable in batches, so that a crash also takes decisions back.
fn batches() -> Config {
    let actions = [Spec::call(&[A]).sets(A).probe(), Spec::plain(&[A, B]).closes(B), Spec::call(&[B]).sets(B)];
    Config { crashes: 2, batches: true, feed: Some((A, true)), ..Config::new("batches", actions) }
}

/// A cooling payout, cancelled by a freeze, a feed or another payout.
fn cooling() -> Config {
    let payout = Spec::call(&[A]).sets(A).cooling().probe();
    let actions = [payout, Spec::plain(&[A]).closes(A), Spec::call(&[A, B]).cooling()];
    Config { crashes: 2, feed: Some((B, false)), refuses: true, ..Config::new("cooling", actions) }
}

/// A freeze that is announced, another claim with a higher priority, and payouts that must keep away.
fn claims() -> Config {
    let freeze = Spec::plain(&[A]).closes(A).names(0);
    let actions = [Spec::call(&[A]).sets(A), freeze, Spec::call(&[A, B]).cooling().probe()];
    let claims = vec![ClaimSpec { fact: A, holder: 1, priority: 1 }, ClaimSpec { fact: A, holder: 2, priority: 2 }];
    Config { crashes: 2, claims, ..Config::new("claims", actions) }
}

/// Actions that wait for fences and for a claim.
fn waiting() -> Config {
    let (payout, other) = (Spec::call(&[A]).sets(A).waits(), Spec::call(&[A, B]).sets(B).waits());
    // The second takes the fact from the first, for which its holder may have waited.
    let claims = vec![ClaimSpec { fact: B, holder: 2, priority: 1 }, ClaimSpec { fact: B, holder: 1, priority: 2 }];
    let actions = [payout, other, Spec::plain(&[A]).closes(A).waits()];
    Config { crashes: 2, claims, feed: Some((A, true)), ..Config::new("waiting", actions) }
}

/// A halt, and a resume, between any two steps.
fn halts() -> Config {
    let actions =
        [Spec::call(&[A]).sets(A).idempotent(), Spec::call(&[B]).cooling().probe(), Spec::plain(&[A]).sets(A)];
    Config { crashes: 2, halt: true, ..Config::new("halts", actions) }
}

/// No one resolves by hand: what no probe can find out stays in doubt, and is seen to be.
fn doubts() -> Config {
    let actions = [Spec::call(&[A]).sets(A), Spec::call(&[B]).sets(B).probe(), Spec::call(&[A, B]).idempotent()];
    Config { crashes: 2, operator: Operator::Away, ..Config::new("doubts", actions) }
}

/// The outside refuses a call, and does the same call when another request for it arrives.
fn fickle() -> Config {
    let payout = Spec::call(&[A]).sets(A).idempotent();
    let actions = [payout, Spec::call(&[A]).idempotent().probe(), Spec::plain(&[A]).closes(A)];
    Config { crashes: 2, refuses: true, refusals_forgotten: true, ..Config::new("fickle", actions) }
}

/// Everything that can disturb, at once.
fn disturbed(name: &'static str, actions: [Spec; 3]) -> Config {
    let claims = vec![ClaimSpec { fact: A, holder: 1, priority: 1 }];
    Config { crashes: 2, feed: Some((A, false)), halt: true, claims, ..Config::new(name, actions) }
}

/// The announced freeze of an account against a cooling payout, with everything that can disturb.
fn freeze() -> Config {
    let payout = Spec::call(&[A]).sets(A).cooling().probe();
    let actions = [payout, Spec::plain(&[A]).closes(A).names(0), Spec::call(&[B]).probe()];
    Config { refuses: true, ..disturbed("freeze", actions) }
}

/// The same, where a crash also takes decisions back.
fn freeze_in_batches() -> Config {
    let payout = Spec::call(&[B]).sets(B).cooling();
    let actions = [Spec::call(&[A, B]).probe(), Spec::plain(&[A]).closes(A).names(0), payout];
    Config { batches: true, ..disturbed("freeze in batches", actions) }
}

/// Three calls in flight at once, and a network that duplicates.
fn crowd() -> Config {
    let actions = [Spec::call(&[A]).idempotent(), Spec::call(&[B]).sets(B), Spec::call(&[A, B]).probe()];
    let quiet = Config { halt: false, claims: Vec::new(), ..disturbed("crowd", actions) };
    Config { duplicates: 1, refuses: true, ..quiet }
}

/// Calls that wait for each other and for a claim, with everything that can disturb.
fn queue() -> Config {
    let freeze = Spec::call(&[A]).closes(A).names(0).waits();
    let actions = [Spec::call(&[A]).sets(A).waits(), freeze, Spec::call(&[A, B]).sets(B).cooling().probe().waits()];
    Config { refuses: true, ..disturbed("queue", actions) }
}

/// Every choice of three out of eight kinds of actions, each with a crash and a feed.
#[must_use]
pub fn sweep() -> Vec<Config> {
    let mut kinds = vec![Spec::plain(&[A]).closes(A), Spec::plain(&[A, B]).sets(B)];
    for call in [Spec::call(&[A]), Spec::call(&[A]).sets(A), Spec::call(&[A, B]).sets(B)] {
        kinds.extend([call.probe(), call.cooling().idempotent()]);
    }
    let mut all = Vec::new();
    for (first, one) in kinds.iter().enumerate() {
        for (second, two) in kinds.iter().enumerate().skip(first) {
            let threes = kinds.iter().skip(second);
            all.extend(threes.map(|three| Config {
                crashes: 1,
                feed: Some((A, false)),
                ..Config::new("sweep", [*one, *two, *three])
            }));
        }
    }
    all
}

/// For each bug the scenario that it is planted in.
#[must_use]
pub fn bugs() -> Vec<Config> {
    let planted = [
        (Bug::ForgetFence, fenced()),
        (Bug::SettersShareFence, payouts()),
        (Bug::FreeFencesInDoubt, payouts()),
        (Bug::FeedNotHeld, fenced()),
        (Bug::HeldFeedReliedOn, outdated()),
        (Bug::HeldFeedForgotten, fenced()),
        (Bug::WriteAtDispatch, payouts()),
        (Bug::SendBeforeDurable, batches()),
        (Bug::NotDecidedAgain, cooling()),
        (Bug::ClaimNotCheckedAtDispatch, claims()),
        (Bug::HaltNotCheckedAtDispatch, halts()),
        (Bug::HaltNotSeenByWorker, halts()),
        (Bug::HaltedRetryFails, halts()),
        (Bug::RefusedRetryFails, fickle()),
        (Bug::RetryNonIdempotent, payouts()),
        (Bug::FreshKey, retries()),
        (Bug::UnknownIsFailed, payouts()),
        (Bug::UnknownIsSettled, payouts()),
        (Bug::AbsentAtOnce, payouts()),
        (Bug::RecoveryForgets, payouts()),
        (Bug::RecoveryResends, payouts()),
        (Bug::LostClaimStillGood, claims()),
        (Bug::PriorityIgnored, claims()),
        (Bug::WaiterForgotten, waiting()),
    ];
    planted.into_iter().map(|(bug, config)| Config { bug: Some(bug), ..config }).collect()
}

/// Worlds in which the gate cannot keep a promise, because what it rests on is not so.
impl Config {
    /// A request can be under way for longer than `absent_after`.
    #[must_use]
    pub fn with_unbounded_delays() -> Self {
        Self { delays: Delays::Unbounded, ..payouts() }
    }

    /// The operator who resolves doubts guesses.
    #[must_use]
    pub fn with_guesses() -> Self {
        Self { operator: Operator::Guessing, ..payouts() }
    }

    /// The network also duplicates requests that are not idempotent.
    #[must_use]
    pub fn with_duplicates_of_all() -> Self {
        Self { duplicates: 1, duplicates_all: true, ..payouts() }
    }
}
