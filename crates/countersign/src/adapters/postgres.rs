//! Facts in the user's own PostgreSQL, and effects on them.
//!
//! An attempt is one transaction there ([`transaction`]): what it reads is locked, the action is decided on it, the statements run,
//! and a receipt under the call's key is committed with them (I1). So check and write are one step against every other client of
//! that database, whether it knows of the gate or not. After a crash the receipt tells what happened, exactly ([`receipt`], I6).

mod failure;
mod pool;
mod receipt;
mod session;
pub mod settings;
pub mod setup;
mod tls;
mod transaction;
mod values;

use countersign_core::call::{Evidence, ExternalRead, Found, FoundCode};
use countersign_core::pact::FactSchema;
use countersign_core::value::Attributes;
use countersign_engine::outbox::{Adapter, Attempt, Job, Probed, Reading};
use failure::Failure;
use pool::Pool;
use receipt::{Happened, Known, Receipts, Then};
use settings::Settings;
use std::time::{Duration, Instant};
use transaction::Ended;

/// How often one attempt begins its transaction again, when the server gives it up because of others or a connection breaks
/// before the commit. Nothing has happened then, so it is safe; the bound is for a database where it never ends.
const ROUNDS_MAX: u32 = 8;

/// How long to wait before the second round; twice as long before each further one.
const BACK_OFF: Duration = Duration::from_millis(2);

/// An adapter for one database.
pub struct Postgres {
    pool: Pool,
    receipts: Receipts,
    origin: String,
}

impl Postgres {
    /// For the log with this origin. Connects when there is something to do.
    pub fn new(settings: Settings, origin: impl Into<String>) -> Self {
        let receipts = Receipts::new(&settings.schema);
        Self { pool: Pool::new(settings), receipts, origin: origin.into() }
    }

    /// Reads a fact as it is now, without a lock. Tells what went wrong where it cannot.
    fn look(&self, read: &ExternalRead) -> Result<Option<Attributes>, Found> {
        let deadline = Instant::now() + Duration::from_millis(self.pool.settings().statement_timeout_ms);
        let mut round = 0;
        loop {
            match self.look_once(read, deadline) {
                Ok(value) => return Ok(value),
                Err(failure) => {
                    round += 1;
                    if !self.again(&failure, round, deadline) {
                        return Err(failure.found().clone());
                    }
                }
            }
        }
    }

    fn look_once(&self, read: &ExternalRead, deadline: Instant) -> Result<Option<Attributes>, Failure> {
        let mut lease = self.pool.take(deadline)?;
        let found = lease.session()?.run(deadline, async |link| {
            let statement = link.prepare(transaction::sql(read)?).await?;
            transaction::query(&link.client, read, &statement).await
        })?;
        lease.give_back();
        Ok(found.value)
    }

    /// One transaction.
    fn once(&self, job: &Job<'_>, deadline: Instant) -> Ended {
        let mut lease = match self.pool.take(deadline) {
            Ok(lease) => lease,
            Err(failure) => return Ended::Undone(failure),
        };
        let session = match lease.session() {
            Ok(session) => session,
            Err(failure) => return Ended::Undone(failure),
        };
        let (ended, clean) = transaction::run(session, job, &self.receipts, &self.origin, deadline);
        match ended {
            // What was prepared just now cannot be outdated: the server means it.
            Ended::Undone(Failure::Outdated(said)) if !session.used => return Ended::Refused(said),
            Ended::Undone(Failure::Outdated(_)) => {}
            _ if clean => lease.give_back(),
            _ => {}
        }
        ended
    }

    /// Whether there is another round, after a failure that left nothing behind; waits before it.
    fn again(&self, failure: &Failure, round: u32, deadline: Instant) -> bool {
        match failure {
            Failure::Lost(_) | Failure::Outdated(_) => self.pool.forget_idle(),
            Failure::Conflict(_) => {}
            Failure::Busy(_) | Failure::Refused(_) => return false,
        }
        let wait = BACK_OFF * (1 << round.min(ROUNDS_MAX));
        if round >= ROUNDS_MAX || Instant::now() + wait >= deadline {
            return false;
        }
        std::thread::sleep(wait);
        true
    }

    /// What became of a call, asked on new connections until there is an answer or the time is up.
    fn find(&self, job: &Job<'_>, then: Then, deadline: Instant) -> Result<Known, Failure> {
        let effect = job.effect.to_string();
        let mut round = 0;
        loop {
            let known = self.pool.take(deadline).and_then(|mut lease| {
                let known = self.receipts.find(lease.session()?, (job.key, &self.origin, &effect), then, deadline)?;
                lease.give_back();
                Ok(known)
            });
            let Err(failure) = known else { return known };
            round += 1;
            self.pool.forget_idle();
            let wait = BACK_OFF * (1 << round.min(ROUNDS_MAX));
            if matches!(failure, Failure::Refused(_)) || Instant::now() + wait >= deadline {
                return Err(failure);
            }
            std::thread::sleep(wait);
        }
    }

    /// After something that may have committed: done, or not there and free to be tried again, or no one knows.
    fn look_back(&self, job: &Job<'_>, deadline: Instant) -> Option<Attempt> {
        match self.find(job, Then::Leave, deadline) {
            Ok(Known::Happened(happened)) => Some(Attempt::Done(recalled(job, happened))),
            Ok(Known::Void) => Some(Attempt::Refused(found(job, FoundCode::Void.alone()))),
            Ok(Known::Foreign(whose)) => Some(Attempt::Refused(found(job, whose))),
            Ok(Known::Nothing) => None,
            Err(failure) => {
                Some(Attempt::Unknown(found(job, FoundCode::CommitUnknown.because(failure.found().clone()))))
            }
        }
    }

    /// What became of a call; from then on it is settled for good.
    fn settle(&self, job: &Job<'_>) -> Result<Settled, Evidence> {
        let deadline = Instant::now() + Duration::from_millis(job.call.timeout_ms);
        match self.find(job, Then::Void, deadline) {
            Ok(Known::Happened(happened)) => Ok(Settled::Happened(recalled(job, happened))),
            Ok(Known::Void | Known::Nothing) => Ok(Settled::Not(found(job, FoundCode::Void.alone()))),
            Ok(Known::Foreign(whose)) => Ok(Settled::Not(found(job, whose))),
            Err(failure) => Err(found(job, FoundCode::ReceiptsUnread.because(failure.found().clone()))),
        }
    }
}

/// What became of a call, for good.
enum Settled {
    Happened(Evidence),
    Not(Evidence),
}

fn found(job: &Job<'_>, found: Found) -> Evidence {
    Evidence { attempts: job.attempt, ..Evidence::of(found) }
}

/// The evidence of a call that happened; what it was decided on goes back to the writer of the ledger (I3).
fn recalled(job: &Job<'_>, happened: Happened) -> Evidence {
    if let Some(read) = &happened.read {
        job.judge.recall(read, happened.judged_at_ms);
    }
    Evidence { attempts: job.attempt, ..happened.evidence }
}

impl Adapter for Postgres {
    fn attempt(&self, job: &Job<'_>) -> Attempt {
        let deadline = Instant::now() + Duration::from_millis(job.call.timeout_ms);
        // An earlier attempt may have committed without our hearing of it.
        if job.attempt > 1
            && let Some(ended) = self.look_back(job, deadline)
        {
            return ended;
        }
        let mut round = 0;
        loop {
            if let Some(blocked) = job.judge.stopped() {
                return Attempt::Blocked(Box::new(blocked));
            }
            let failure = match self.once(job, deadline) {
                Ended::Committed(evidence) => return Attempt::Done(evidence),
                Ended::Blocked(blocked) => return Attempt::Blocked(Box::new(blocked)),
                // What is refused may be so because the call has happened before: then its receipt is there.
                Ended::Refused(why) => {
                    return self.look_back(job, deadline).unwrap_or_else(|| Attempt::Refused(found(job, why)));
                }
                Ended::Unsure(why) => match self.look_back(job, deadline) {
                    Some(ended) => return ended,
                    None => Failure::Lost(why),
                },
                Ended::Undone(failure) => failure,
            };
            round += 1;
            if !self.again(&failure, round, deadline) {
                return Attempt::NotSent(found(job, failure.found().clone()));
            }
        }
    }

    /// The receipt tells, whatever the pact says about probing.
    fn probe(&self, job: &Job<'_>) -> Probed {
        match self.settle(job) {
            Ok(Settled::Happened(evidence)) => Probed::There(evidence),
            Ok(Settled::Not(evidence)) => Probed::Absent(evidence),
            Err(evidence) => Probed::Unknown(evidence),
        }
    }

    fn recover(&self, job: &Job<'_>) -> Attempt {
        match self.settle(job) {
            Ok(Settled::Happened(evidence)) => Attempt::Done(evidence),
            Ok(Settled::Not(evidence)) => Attempt::Refused(evidence),
            Err(evidence) => Attempt::Unknown(evidence),
        }
    }

    fn keeps_receipts(&self) -> bool {
        true
    }

    fn observe(&self, read: &ExternalRead, _: &FactSchema) -> Result<Reading, Found> {
        self.look(read).map(Reading::of)
    }

    fn concurrency(&self) -> usize {
        self.pool.settings().pool
    }
}

#[cfg(test)]
mod tests;
