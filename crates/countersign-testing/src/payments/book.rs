//! The book of a payment service: an append-only file, one line for each payout.

use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// A book that is written.
pub struct Book {
    inner: Mutex<Inner>,
}

struct Inner {
    file: File,
    /// The last payout under each key.
    payouts: BTreeMap<String, Json>,
    count: u64,
}

/// One payout, as it stands in a book.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payout {
    /// The idempotency key it was asked for under.
    pub key: String,
    /// How much.
    pub amount: i64,
    /// Where to.
    pub destination: String,
}

/// The payouts in a book, in order; an unfinished line at the end is none, since no one was told of it.
pub fn read(path: &Path) -> io::Result<Vec<Payout>> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        other => other?,
    };
    let whole = text.rfind('\n').map_or("", |end| text.get(..end).unwrap_or_default());
    let payout = |line: &str| -> Option<Payout> {
        let json: Json = serde_json::from_str(line).ok()?;
        Some(Payout {
            key: json["key"].as_str()?.to_owned(),
            amount: json["amount"].as_i64()?,
            destination: json["destination"].as_str()?.to_owned(),
        })
    };
    let damaged = |line: &str| io::Error::other(format!("this is no line of a book: {line}"));
    whole.lines().map(|line| payout(line).ok_or_else(|| damaged(line))).collect()
}

impl Book {
    /// Opens a book, or begins one.
    pub fn open(path: &Path) -> io::Result<Self> {
        let payouts = read(path)?;
        let count = u64::try_from(payouts.len()).unwrap_or_default();
        let payouts = payouts.into_iter().map(|Payout { key, amount, destination }| {
            let json = json!({"key": key, "amount": amount, "destination": destination});
            (key, json)
        });
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        Ok(Self { inner: Mutex::new(Inner { file, payouts: payouts.collect(), count }) })
    }

    /// The payout under a key, if there is one.
    pub fn find(&self, key: &str) -> Option<Json> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).payouts.get(key).cloned()
    }

    /// Pays: one line more, on the disk before this comes back.
    pub fn pay(&self, key: &str, amount: i64, destination: &str) -> io::Result<Json> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let payout = json!({"key": key, "amount": amount, "destination": destination, "number": inner.count});
        inner.file.write_all(format!("{payout}\n").as_bytes())?;
        inner.file.sync_data()?;
        inner.count += 1;
        inner.payouts.insert(key.to_owned(), payout.clone());
        Ok(payout)
    }
}
