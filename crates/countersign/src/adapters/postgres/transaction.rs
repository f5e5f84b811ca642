//! The one transaction of an attempt: lock and read, judge, act, leave a receipt, commit.
//!
//! READ COMMITTED with row locks, on purpose. Each fact is read by `select … for update`, which waits for whoever is changing the
//! row, gives its newest committed value and keeps everybody else from changing it until we are done; so at the commit all values
//! read are true at once, whatever isolation the other clients use. SERIALIZABLE would add aborts and no protection: it sees
//! conflicts only between transactions that are all serialisable, and other clients are what they are.
//! A row that is not there cannot be locked. Then the table is locked against writers and read once more, so that an absence holds
//! until the commit as well.

use super::failure::{Failure, surely_not_committed};
use super::receipt::{Receipts, write_read};
use super::session::Session;
use super::values::{Param, Text, attributes};
use countersign_core::call::{Evidence, OutsideHow, OutsideRead, Send, Statement as Sql};
use countersign_core::decision::Blocked;
use countersign_core::pact::sql::query_table;
use countersign_engine::outbox::{Job, Outside};
use std::time::Instant;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

const BEGIN: &str = "begin isolation level read committed";

/// How a transaction ended.
#[derive(Debug)]
pub enum Ended {
    /// Committed.
    Committed(Evidence),
    /// Rolled back: the action does not hold on what was read.
    Blocked(Blocked),
    /// Rolled back, and would be again.
    Refused(String),
    /// Rolled back by the server or by the end of the connection.
    Undone(Failure),
    /// COMMIT was sent, and no clear answer came.
    Unsure(String),
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
    match act(session, job, receipts, origin, deadline) {
        Ok(evidence) => {
            let ended = commit(session, evidence, deadline);
            let clean = !matches!(ended, Ended::Unsure(_));
            (ended, clean)
        }
        Err(ended) => {
            let client = &session.client;
            let rolled_back = session.run(deadline, async { Ok(client.batch_execute("rollback").await?) });
            (ended, rolled_back.is_ok())
        }
    }
}

fn commit(session: &Session, evidence: Evidence, deadline: Instant) -> Ended {
    let client = &session.client;
    let answer = session.run(deadline, async { Ok(client.batch_execute("commit").await) });
    match answer {
        Ok(Ok(())) => Ended::Committed(evidence),
        Ok(Err(error)) if surely_not_committed(&error) => Failure::from(error).into(),
        Ok(Err(error)) => Ended::Unsure(Failure::from(error).said().to_owned()),
        Err(failure) => Ended::Unsure(failure.said().to_owned()),
    }
}

/// Everything up to the commit.
fn act(
    session: &mut Session,
    job: &Job<'_>,
    receipts: &Receipts,
    origin: &str,
    deadline: Instant,
) -> Result<Evidence, Ended> {
    let read = read(session, &job.call.outside, deadline)?;
    for outside in &read {
        // A column of another type than the pact says must not come as far as a condition.
        let fits = outside.value.as_ref().map_or(Ok(()), |value| value.check(&job.judge.schema(&outside.fact)));
        fits.map_err(|error| Ended::Refused(format!("the row of {} does not fit the pact: {error}", outside.fact)))?;
    }
    let judged = judge(job, &read).map_err(Ended::Blocked)?;
    let Send::Sql { statements } = &judged else {
        return Err(Ended::Refused("the call of the pact holds no SQL statements".to_owned()));
    };
    write(session, job, statements, &receipt(job, receipts, origin, &read), deadline)
}

fn judge(job: &Job<'_>, read: &[Outside]) -> Result<Send, Blocked> {
    match &job.call.send {
        Some(send) if job.call.outside.is_empty() => Ok(send.clone()),
        _ => job.judge.judge(read),
    }
}

/// Begins, locks and reads the facts in the order of their ids, and answers in the order of the call. The same order for
/// everybody means that no two attempts wait for each other.
fn read(session: &mut Session, reads: &[OutsideRead], deadline: Instant) -> Result<Vec<Outside>, Failure> {
    let mut order: Vec<&OutsideRead> = reads.iter().collect();
    order.sort_by(|a, b| a.fact.cmp(&b.fact));
    let mut prepared = Vec::with_capacity(order.len());
    for read in order {
        prepared.push((read, session.prepare(&format!("{} for update", sql(read)?), deadline)?));
    }
    let client = &session.client;
    let found = session.run(deadline, async {
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
        Ok(found)
    })?;
    let of = |read: &OutsideRead| found.iter().find(|outside| outside.fact == read.fact).cloned();
    Ok(reads.iter().filter_map(of).collect())
}

/// Makes sure that what was found stays so until the end of the transaction.
async fn lock(client: &Client, read: &OutsideRead, statement: &Statement, found: Outside) -> Result<Outside, Failure> {
    if found.value.is_some() {
        return Ok(found);
    }
    let table = query_table(sql(read)?)
        .ok_or_else(|| Failure::Refused(format!("the query of {} is not one that a pact may have", read.fact)))?;
    client.batch_execute(&format!("lock table {table} in share row exclusive mode")).await?;
    query(client, read, statement).await
}

/// The query that a fact is read by.
pub fn sql(read: &OutsideRead) -> Result<&str, Failure> {
    match &read.how {
        OutsideHow::Query(sql) => Ok(sql),
        _ => Err(Failure::Refused(format!("the source of {} is not a query", read.fact))),
    }
}

/// Reads one fact.
pub async fn query(client: &Client, read: &OutsideRead, statement: &Statement) -> Result<Outside, Failure> {
    let rows = client.query(statement, &[&Text(read.fact.id())]).await?;
    let value = match rows.as_slice() {
        [] => None,
        [row] => Some(attributes(row).map_err(|said| Failure::Refused(format!("{}: {said}", read.fact)))?),
        many => {
            let said = format!("{} rows were found for {}; its key must find one", many.len(), read.fact);
            return Err(Failure::Refused(said));
        }
    };
    Ok(Outside { fact: read.fact.clone(), value })
}

/// A receipt to be written.
struct Receipt<'a> {
    insert: &'a str,
    origin: &'a str,
    effect: String,
    judged_at_ms: String,
    read: String,
}

fn receipt<'a>(job: &Job<'_>, receipts: &'a Receipts, origin: &'a str, read: &[Outside]) -> Receipt<'a> {
    let judged_at_ms = job.judge.judged_at_ms().unwrap_or(0).to_string();
    Receipt { insert: &receipts.insert, origin, effect: job.effect.to_string(), judged_at_ms, read: write_read(read) }
}

/// Runs the statements, each of which must change exactly one row, and writes the receipt.
fn write(
    session: &mut Session,
    job: &Job<'_>,
    statements: &[Sql],
    receipt: &Receipt<'_>,
    deadline: Instant,
) -> Result<Evidence, Ended> {
    let Some((last, before)) = statements.split_last() else {
        return Err(Ended::Refused("the call of the pact has no statements".to_owned()));
    };
    for statement in before {
        let prepared = session.prepare(&statement.sql, deadline)?;
        let client = &session.client;
        let changed = session.run(deadline, async { Ok(execute(client, &prepared, statement).await?) })?;
        one_row(statement, changed)?;
    }
    let prepared = session.prepare(&last.sql, deadline)?;
    let insert = session.prepare(receipt.insert, deadline)?;
    let client = &session.client;
    // The receipt is sent with the last statement: one round trip for both. If that changed too much, both are rolled back.
    let (changed, seq) = session.run(deadline, async {
        let params: [&(dyn ToSql + Sync); 5] = [
            &Text(job.key),
            &Text(receipt.origin),
            &Text(&receipt.effect),
            &Text(&receipt.judged_at_ms),
            &Text(&receipt.read),
        ];
        let (changed, row) = tokio::join!(execute(client, &prepared, last), client.query_one(&insert, &params));
        Ok((changed?, row?.try_get::<_, String>(0)?))
    })?;
    one_row(last, changed)?;
    let summary = format!("committed in PostgreSQL with receipt {seq}");
    Ok(Evidence { attempts: job.attempt, receipt: Some(seq), ..Evidence::said(summary) })
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
    Err(Ended::Refused(format!("a statement must change one row and would have changed {changed}: {front}")))
}
