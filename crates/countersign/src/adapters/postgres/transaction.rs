//! The one transaction of an attempt: lock and read, judge, act, leave a receipt, commit.
//!
//! READ COMMITTED with row locks, on purpose. Each fact is read by `select … for update`, which waits for the transaction that is
//! changing the row, gives its newest committed value and keeps everyone else from changing it until we are done; so at the commit all
//! values read are true at once, whatever isolation the other clients use. SERIALIZABLE would add aborts and no protection: it sees
//! conflicts only between transactions that are all serialisable, and other clients are what they are.
//! A row that is not there cannot be locked. Then the table is locked against writers and read once more, so that an absence holds
//! until the commit as well.

use super::failure::{Failure, surely_not_committed};
use super::receipt::{Receipts, write_read};
use super::session::{Link, Session, too_late};
use super::values::{Param, Text, attributes};
use countersign_core::call::{Evidence, ExternalHow, ExternalRead, Found, FoundCode, Send, Statement as Sql};
use countersign_core::pact::sql::query_table;
use countersign_core::reason::Reason;
use countersign_engine::outbox::{FactAsRead, Job};
use std::time::Instant;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

const BEGIN: &str = "begin isolation level read committed";

/// How a transaction ended.
#[derive(Debug)]
pub enum Ended {
    Committed(Evidence),
    /// Rolled back: the action does not hold on what was read.
    Blocked(Reason),
    /// Rolled back, and would be again.
    Refused(Found),
    /// Rolled back by the server or by the end of the connection.
    Undone(Failure),
    /// COMMIT was sent, and no clear answer came.
    Unsure(Found),
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(said) => Self::Refused(said),
            other => Self::Undone(other),
        }
    }
}

/// Carries a call out. Says as well whether the session is certain to be in no transaction any more: one that is not must be closed,
/// or the next call would commit what is left of this one.
pub fn run(
    session: &mut Session,
    job: &Job<'_>,
    receipts: &Receipts,
    origin: &str,
    deadline: Instant,
) -> (Ended, bool) {
    // What holds if the time is up at whatever point the transaction has come to by then.
    let mut ended = Ended::Undone(Failure::Lost(too_late()));
    let clean = session.run(deadline, async |link| match act(link, job, receipts, origin).await {
        // Asked once more, with the rows locked and everything written: from here on it counts.
        Ok(_) if let Some(blocked) = job.judge.stopped() => {
            ended = Ended::Blocked(blocked);
            link.client.batch_execute("rollback").await?;
            Ok(true)
        }
        Ok(_) if let Some(why) = job.judge.barred() => {
            ended = Ended::Undone(Failure::Busy(why));
            link.client.batch_execute("rollback").await?;
            Ok(true)
        }
        Ok(evidence) => {
            ended = Ended::Unsure(too_late());
            ended = commit(link, evidence).await;
            Ok(!matches!(ended, Ended::Unsure(_)))
        }
        Err(not_done) => {
            ended = not_done;
            link.client.batch_execute("rollback").await?;
            Ok(true)
        }
    });
    (ended, clean.unwrap_or(false))
}

async fn commit(link: &Link, evidence: Evidence) -> Ended {
    match link.client.batch_execute("commit").await {
        Ok(()) => Ended::Committed(evidence),
        Err(error) if surely_not_committed(&error) => Failure::from(error).into(),
        Err(error) => Ended::Unsure(Failure::from(error).found().clone()),
    }
}

/// Everything up to the commit.
async fn act(link: &mut Link, job: &Job<'_>, receipts: &Receipts, origin: &str) -> Result<Evidence, Ended> {
    let read = read(link, &job.call.outside).await?;
    for outside in &read {
        // A column of another type than the pact says must not come as far as a condition.
        let fits = outside.value.as_ref().map_or(Ok(()), |value| value.check(&job.judge.schema(&outside.fact)));
        fits.map_err(|error| Ended::Refused(FoundCode::Misfit.about(&outside.fact).and_because(error.into())))?;
    }
    let judged = judge(job, &read).map_err(Ended::Blocked)?;
    let Send::Sql { statements } = &judged else {
        return Err(Ended::Refused(FoundCode::WrongKind.about("PostgreSQL")));
    };
    write(link, job, statements, &receipt(job, receipts, origin, &read)).await
}

fn judge(job: &Job<'_>, read: &[FactAsRead]) -> Result<Send, Reason> {
    match &job.call.send {
        Some(send) if job.call.outside.is_empty() => Ok(send.clone()),
        _ => job.judge.judge(read),
    }
}

/// Begins, locks and reads the facts in the order of their ids, and answers in the order of the call. The same order for
/// everyone means that no two attempts wait for each other.
async fn read(link: &mut Link, reads: &[ExternalRead]) -> Result<Vec<FactAsRead>, Failure> {
    let mut order: Vec<&ExternalRead> = reads.iter().collect();
    order.sort_by(|a, b| a.fact.cmp(&b.fact));
    let mut prepared = Vec::with_capacity(order.len());
    for read in order {
        prepared.push((read, link.prepare(&format!("{} for update", sql(read)?)).await?));
    }
    let client = &link.client;
    let mut found = Vec::with_capacity(prepared.len());
    let mut rest = prepared.iter();
    match rest.next() {
        None => client.batch_execute(BEGIN).await?,
        Some((read, statement)) => {
            // The first read is sent with the BEGIN: one round trip for both.
            let (begun, first) = tokio::join!(client.batch_execute(BEGIN), query(client, read, statement));
            begun?;
            found.push(lock(client, read, statement, first?).await?);
        }
    }
    for (read, statement) in rest {
        let value = query(client, read, statement).await?;
        found.push(lock(client, read, statement, value).await?);
    }
    let of = |read: &ExternalRead| found.iter().find(|outside| outside.fact == read.fact).cloned();
    Ok(reads.iter().filter_map(of).collect())
}

/// Makes sure that what was found stays so until the end of the transaction.
async fn lock(
    client: &Client,
    read: &ExternalRead,
    statement: &Statement,
    found: FactAsRead,
) -> Result<FactAsRead, Failure> {
    if found.value.is_some() {
        return Ok(found);
    }
    let table = query_table(sql(read)?).ok_or_else(|| misfit(read, FoundCode::QueryNotAllowed.alone()))?;
    client.batch_execute(&format!("lock table {table} in share row exclusive mode")).await?;
    query(client, read, statement).await
}

/// The query that a fact is read by.
pub fn sql(read: &ExternalRead) -> Result<&str, Failure> {
    match &read.how {
        ExternalHow::Query(sql) => Ok(sql),
        _ => Err(misfit(read, FoundCode::WrongSource.about("PostgreSQL"))),
    }
}

/// What was read is not as the pact says, or cannot be read as it says.
fn misfit(read: &ExternalRead, why: Found) -> Failure {
    Failure::Refused(FoundCode::Misfit.about(&read.fact).and_because(why))
}

/// Reads one fact.
pub async fn query(client: &Client, read: &ExternalRead, statement: &Statement) -> Result<FactAsRead, Failure> {
    let rows = client.query(statement, &[&Text(read.fact.id())]).await?;
    let value = match rows.as_slice() {
        [] => None,
        [row] => Some(attributes(row).map_err(|why| misfit(read, why))?),
        many => {
            return Err(misfit(read, FoundCode::TooManyRows.number(many.len())));
        }
    };
    Ok(FactAsRead { fact: read.fact.clone(), value })
}

/// A receipt to be written.
struct Receipt<'a> {
    insert: &'a str,
    origin: &'a str,
    effect: String,
    judged_at_ms: String,
    read: String,
}

fn receipt<'a>(job: &Job<'_>, receipts: &'a Receipts, origin: &'a str, read: &[FactAsRead]) -> Receipt<'a> {
    let judged_at_ms = job.judge.judged_at_ms().unwrap_or(0).to_string();
    Receipt { insert: &receipts.insert, origin, effect: job.effect.to_string(), judged_at_ms, read: write_read(read) }
}

/// Runs the statements, each of which must change exactly one row, and writes the receipt.
async fn write(link: &mut Link, job: &Job<'_>, statements: &[Sql], receipt: &Receipt<'_>) -> Result<Evidence, Ended> {
    let Some((last, before)) = statements.split_last() else {
        return Err(Ended::Refused(FoundCode::WrongKind.about("PostgreSQL")));
    };
    for statement in before {
        let prepared = link.prepare(&statement.sql).await?;
        let changed = execute(&link.client, &prepared, statement).await.map_err(Failure::from)?;
        one_row(statement, changed)?;
    }
    let prepared = link.prepare(&last.sql).await?;
    let insert = link.prepare(receipt.insert).await?;
    let params: [&(dyn ToSql + Sync); 5] = [
        &Text(job.key),
        &Text(receipt.origin),
        &Text(&receipt.effect),
        &Text(&receipt.judged_at_ms),
        &Text(&receipt.read),
    ];
    // The receipt is sent with the last statement: one round trip for both. If that changed too much, both are rolled back.
    let client = &link.client;
    let (changed, row) = tokio::join!(execute(client, &prepared, last), client.query_one(&insert, &params));
    let changed = changed.map_err(Failure::from)?;
    let seq: String = row.and_then(|row| row.try_get(0)).map_err(Failure::from)?;
    one_row(last, changed)?;
    let found = FoundCode::Committed.about(&seq);
    Ok(Evidence { attempts: job.attempt, receipt: Some(seq), ..Evidence::of(found) })
}

async fn execute(client: &Client, prepared: &Statement, statement: &Sql) -> Result<u64, tokio_postgres::Error> {
    let params: Vec<Param<'_>> = statement.params.iter().map(Param).collect();
    let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|param| param as &(dyn ToSql + Sync)).collect();
    client.execute(prepared, &params).await
}

fn one_row(statement: &Sql, changed: u64) -> Result<(), Ended> {
    if changed == 1 {
        return Ok(());
    }
    let front: String = statement.sql.chars().take(60).collect();
    Err(Ended::Refused(FoundCode::NotOneRow.number(changed).and_said(front)))
}
