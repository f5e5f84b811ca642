//! Receipts: one row for each call, written in the transaction that carries it out. Whether a call happened is whether its
//! receipt is there, and nothing else.
//!
//! A *void* receipt takes the place of one that never came: once it is committed, a transaction that is still under way under the
//! same key cannot commit any more, because the key is taken. So the answer "it did not happen" stays true.

use super::failure::{Failure, surely_not_committed};
use super::session::Session;
use super::values::Text;
use countersign_core::call::{Evidence, Found, FoundCode};
use countersign_core::value::Attributes;
use countersign_engine::outbox::FactAsRead;
use serde_json::Value as Json;
use std::time::Instant;
use tokio_postgres::Client;

/// The statements on the receipts of one schema.
#[derive(Debug)]
pub struct Receipts {
    /// Writes the receipt of a call.
    pub insert: String,
    void: String,
    look: String,
}

/// What is known of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// It happened.
    Happened(Happened),
    /// It did not, and a void receipt keeps it so.
    Void,
    /// Its key is that of another call's receipt. So it did not happen, and cannot: the key is taken.
    Foreign(Found),
    /// There is no trace of it, and no transaction under way that has got as far as its receipt.
    Nothing,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happened {
    /// With its receipt.
    pub evidence: Evidence,
    /// When it was decided, in ledger milliseconds.
    pub judged_at_ms: u64,
    /// What was read; `None` where the receipt does not say it in our words.
    pub read: Option<Vec<FactAsRead>>,
}

/// What is done about a call without a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Nothing: it may be tried again.
    Leave,
    /// A void receipt is written: it can never happen any more.
    Void,
}

impl Receipts {
    /// For the receipts in a schema, whose name has been checked to be plain.
    pub fn new(schema: &str) -> Self {
        let columns = "key, void, origin, effect, judged_at_ms, read";
        Self {
            insert: format!(
                "insert into {schema}.receipts ({columns}) values ($1, false, $2, $3, $4, $5) returning seq::text"
            ),
            void: format!(
                "insert into {schema}.receipts ({columns}) values ($1, true, $2, $3, null, null) on conflict (key) do nothing"
            ),
            look: format!(
                "select seq::text, void, judged_at_ms, read::text, origin, effect from {schema}.receipts where key = $1"
            ),
        }
    }

    /// Finds out what became of a call. Waits for a transaction that holds the key, so what it answers is settled.
    pub fn find(
        &self,
        session: &mut Session,
        (key, origin, effect): (&str, &str, &str),
        then: Then,
        deadline: Instant,
    ) -> Result<Known, Failure> {
        session.run(deadline, async |link| {
            let void = link.prepare(&self.void).await?;
            let look = link.prepare(&self.look).await?;
            let client = &link.client;
            client.batch_execute("begin isolation level read committed").await?;
            let voided = client.execute(&void, &[&Text(key), &Text(origin), &Text(effect)]).await?;
            if voided == 1 {
                end(client, then).await?;
                return Ok(Known::Nothing);
            }
            let row = client.query_one(&look, &[&Text(key)]).await?;
            client.batch_execute("rollback").await?;
            let (of_origin, of_effect): (&str, &str) = (row.try_get(4)?, row.try_get(5)?);
            if (of_origin, of_effect) != (origin, effect) {
                let log = FoundCode::OfLog.about(of_origin);
                return Ok(Known::Foreign(FoundCode::ForeignReceipt.about(of_effect).and_because(log)));
            }
            if row.try_get(1)? {
                return Ok(Known::Void);
            }
            let (seq, judged_at_ms, read): (String, Option<i64>, Option<String>) =
                (row.try_get(0)?, row.try_get(2)?, row.try_get(3)?);
            let found = FoundCode::FoundCommitted.about(&seq);
            Ok(Known::Happened(Happened {
                evidence: Evidence { receipt: Some(seq), ..Evidence::of(found) },
                judged_at_ms: judged_at_ms.and_then(|at| u64::try_from(at).ok()).unwrap_or(0),
                read: read.and_then(|text| parse_read(&text)),
            }))
        })
    }
}

async fn end(client: &Client, then: Then) -> Result<(), Failure> {
    match then {
        Then::Leave => Ok(client.batch_execute("rollback").await?),
        Then::Void => client.batch_execute("commit").await.map_err(|error| {
            // Whether the void receipt is there is found out by looking again.
            let sure = surely_not_committed(&error);
            let failure = Failure::from(error);
            if sure { failure } else { Failure::Lost(failure.found().clone()) }
        }),
    }
}

/// What was read, as a receipt keeps it.
pub fn write_read(read: &[FactAsRead]) -> String {
    let member = |outside: &FactAsRead| {
        let value = outside.value.as_ref().map_or(Json::Null, |value| value.to_json());
        serde_json::json!({ "fact": outside.fact.to_string(), "value": value })
    };
    read.iter().map(member).collect::<Json>().to_string()
}

fn parse_read(text: &str) -> Option<Vec<FactAsRead>> {
    let json: Json = serde_json::from_str(text).ok()?;
    let member = |member: &Json| {
        let fact = member.get("fact")?.as_str()?.parse().ok()?;
        let value = match member.get("value")? {
            Json::Object(object) => Some(Attributes::from_untyped_json(object).ok()?),
            _ => None,
        };
        Some(FactAsRead { fact, value })
    };
    json.as_array()?.iter().map(member).collect()
}
