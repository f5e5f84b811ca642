//! Races over HTTP, judged from the ledger alone by a model of its own: what each entry must say, given those before it.

use super::clauses::{account, refund};
use super::gate::{Entry, Subject, entry_of, passed};
use crate::examples::BILLING;
use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::sync::Barrier;
use std::time::Duration;

/// Racers in one round.
const RACERS: usize = 4;
/// What each refund is worth, and what the account holds where racers overspend: enough for half of them.
const AMOUNT: u64 = 100;
/// How often a racer tries in one round, at most.
const TRIES_MAX: usize = 40;
/// The longest that the mutator waits, in microseconds; racers and mutator are moved against each other within it.
const WINDOW_US: u64 = 4_000;

/// How a round is run.
#[derive(Clone, Copy)]
struct Race {
    name: &'static str,
    rounds: u64,
    /// What the account holds at the start.
    balance: u64,
    /// Whether an account is frozen in the middle of it.
    freezes: bool,
    /// Whether racers go on until they are stopped, with pauses that are swept across the window.
    swept: bool,
}

/// AG-097-4.4: check and effect are one step, so a balance is never spent twice.
pub fn atomic(subject: &Subject) -> Result<Json> {
    let balance = AMOUNT * u64::try_from(RACERS / 2)?;
    run(subject, Race { name: "atomic", rounds: 12, balance, freezes: false, swept: false })
}

/// CONC-1: an account is frozen by one agent while others, at the same moment, act on its being active.
pub fn unsplit(subject: &Subject) -> Result<Json> {
    run(subject, Race { name: "unsplit", rounds: 24, balance: 1_000_000, freezes: true, swept: false })
}

/// AG-097-8.2: racers against one mutator, with offsets swept across the window.
pub fn swept(subject: &Subject) -> Result<Json> {
    run(subject, Race { name: "swept", rounds: 32, balance: 1_000_000, freezes: true, swept: true })
}

fn run(subject: &Subject, race: Race) -> Result<Json> {
    subject.publish(&BILLING)?;
    let start = subject.position()?;
    let mut told = 0;
    for round in 0..race.rounds {
        told += one_round(subject, race, round)?;
    }
    let judged = Judged::of(&subject.entries_from(start)?, &format!("{}-{}-", race.name, subject.run()))?;
    ensure!(judged.committed == told, "callers were told of {told} refunds, the ledger has {}", judged.committed);
    ensure!(judged.committed > 0 && judged.rejected > 0, "nothing raced: {judged:?}");
    for (account, (status, balance)) in &judged.accounts {
        let now = subject.fact(&format!("Account::\"{account}\""))?.context("an account is gone")?.value;
        let is_same = now.get("status") == Some(&json!(status)) && now.get("balance") == Some(&json!(balance));
        ensure!(is_same, "{account} is {now}, and by the ledger {status} with {balance}");
    }
    let Judged { committed, rejected, first, last, .. } = judged;
    Ok(json!({"rounds": race.rounds, "committed": committed, "rejected": rejected, "entries": [first, last]}))
}

/// Runs one round on an account of its own; gives how many refunds were told to have committed.
fn one_round(subject: &Subject, race: Race, round: u64) -> Result<u64> {
    let id = format!("{}-{}-{round}", race.name, subject.run());
    let fact = format!("Account::\"{id}\"");
    subject.feed(&fact, &account("active", race.balance))?;
    let start = Barrier::new(RACERS + usize::from(race.freezes));
    let racing = |seat: usize| -> Result<u64> {
        let agent = subject.agent(&format!("racer-{seat}"), &["refunder"])?;
        let amount = if race.freezes { 1 } else { AMOUNT };
        let token = agent.observe([fact.as_str()]);
        start.wait();
        let token = token?;
        let mut committed = 0;
        for turn in 0..if race.swept { TRIES_MAX } else { 1 } {
            if race.swept {
                let pause_us = (round * 211 + u64::try_from(seat * 397 + turn * 101)?) % 1_500;
                std::thread::sleep(Duration::from_micros(pause_us));
            }
            let verdict = agent.act(BILLING.name, "refund", &refund(&id, amount), std::slice::from_ref(&token))?;
            if !passed(&verdict) {
                break;
            }
            entry_of(&verdict)?;
            committed += 1;
        }
        Ok(committed)
    };
    let freezing = || -> Result<()> {
        let agent = subject.agent("freezer", &["fraud"])?;
        start.wait();
        if race.swept {
            std::thread::sleep(Duration::from_micros(round * 977 % WINDOW_US));
        }
        let verdict = agent.act(BILLING.name, "freeze", &json!({"account": id}), &[])?;
        ensure!(passed(&verdict), "the freeze was stopped: {:?}", verdict.code);
        Ok(())
    };
    std::thread::scope(|scope| {
        let racing = &racing;
        let threads: Vec<_> = (0..RACERS).map(|seat| scope.spawn(move || racing(seat))).collect();
        let frozen = if race.freezes { freezing() } else { Ok(()) };
        let mut committed = 0;
        for thread in threads {
            committed += thread.join().unwrap_or_else(|_| bail!("a racer panicked"))?;
        }
        frozen.map(|()| committed)
    })
}

/// What the ledger says of a race.
#[derive(Debug, Default)]
struct Judged {
    committed: u64,
    rejected: u64,
    first: u64,
    last: u64,
    /// Status and balance by the entries alone.
    accounts: HashMap<String, (String, u64)>,
}

impl Judged {
    /// Replays the entries on a model of two rules: a refund commits if and only if the account is active and covers it, and a freeze
    /// freezes. Whatever differs is a check that came apart from its effect, or a refund that was lost.
    fn of(entries: &[Entry], prefix: &str) -> Result<Self> {
        let mut judged = Self { first: u64::MAX, ..Self::default() };
        for entry in entries {
            match entry.leaf("kind") {
                "feed" => judged.feed(entry, prefix),
                "action" => judged.action(entry, prefix)?,
                _ => {}
            }
        }
        Ok(judged)
    }

    fn feed(&mut self, entry: &Entry, prefix: &str) {
        let Some(write) = entry.payload.pointer("/writes/0") else { return };
        let fact = write.get("fact").and_then(Json::as_str).unwrap_or_default();
        let Some(id) = fact.split('"').nth(1).filter(|id| id.starts_with(prefix)) else { return };
        let status = write.pointer("/value/status").and_then(Json::as_str).unwrap_or_default();
        let balance = write.pointer("/value/balance").and_then(Json::as_u64).unwrap_or_default();
        self.accounts.insert(id.to_owned(), (status.to_owned(), balance));
    }

    fn action(&mut self, entry: &Entry, prefix: &str) -> Result<()> {
        let body = entry.payload.get("body").and_then(Json::as_str).context("an action has no body")?;
        let body: Json = serde_json::from_str(body)?;
        let id = body.pointer("/params/account").and_then(Json::as_str).unwrap_or_default();
        let Some((status, balance)) = self.accounts.get_mut(id).filter(|_| id.starts_with(prefix)) else {
            return Ok(());
        };
        (self.first, self.last) = (self.first.min(entry.index), entry.index);
        let amount = body.pointer("/params/amount").and_then(Json::as_u64).unwrap_or_default();
        let (index, is_committed) = (entry.index, entry.leaf("verdict") == "committed");
        if body.get("action") == Some(&json!("freeze")) {
            if is_committed {
                "frozen".clone_into(status);
            }
            return Ok(());
        }
        let should = status == "active" && *balance >= amount;
        ensure!(is_committed || !should, "entry {index} refused {amount} from {id}, which was {status} with {balance}");
        ensure!(should || !is_committed, "entry {index} took {amount} from {id}, which was {status} with {balance}");
        if is_committed {
            *balance -= amount;
            self.committed += 1;
        } else {
            self.rejected += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Vec<Entry> {
        let entry = |index, kind: &str, verdict: &str, payload| Entry {
            index,
            leaf: json!({"kind": kind, "verdict": verdict}),
            payload,
        };
        let act = |action: &str, amount: u64| {
            let params = json!({"account": "r-1", "amount": amount});
            json!({"body": json!({"action": action, "params": params}).to_string()})
        };
        let fed = json!({"writes": [{"fact": "ConformAccount::\"r-1\"", "value": account("active", 150)}]});
        vec![
            entry(1, "feed", "", fed),
            entry(2, "action", "committed", act("refund", 100)),
            entry(3, "action", "rejected", act("refund", 100)),
            entry(4, "action", "committed", act("freeze", 0)),
            entry(5, "action", "rejected", act("refund", 10)),
        ]
    }

    #[test]
    fn the_judge_takes_an_honest_ledger_and_no_other() {
        let judged = Judged::of(&entries(), "r-").unwrap();
        assert_eq!((judged.committed, judged.rejected), (1, 2));
        assert_eq!(judged.accounts["r-1"], ("frozen".to_owned(), 50));
        for (at, verdict) in [(1, "rejected"), (2, "committed"), (4, "committed")] {
            let mut doctored = entries();
            doctored[at].leaf["verdict"] = json!(verdict);
            assert!(Judged::of(&doctored, "r-").is_err(), "entry {at} as {verdict} was taken");
        }
    }
}
