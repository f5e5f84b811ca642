//! Tools of a server that no pact models, guarded as read (TOOL-1, and AG-097's clauses over tools). What counts is the book of the
//! server: what it was asked to do, and what it had then.

pub mod clauses;
pub mod shelf;

use self::shelf::{Agent, Shelf};
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value as Json, json};
use std::sync::Barrier;

/// How many rounds two agents race for the last one.
const ROUNDS: usize = 12;

/// What a result says of the gate.
fn said<'a>(result: &'a Json, at: &str) -> Option<&'a Json> {
    result.pointer("/_meta/countersign")?.pointer(at)
}

fn must_be_done(result: &Json, what: &str) -> Result<()> {
    let is_error = result.get("isError").and_then(Json::as_bool).unwrap_or(false);
    ensure!(!is_error, "{what} was refused: {result}");
    Ok(())
}

fn must_be_refused(result: &Json, what: &str) -> Result<()> {
    let code = said(result, "/code").and_then(Json::as_str);
    ensure!(code == Some("reading_changed"), "{what} was not refused for what has changed: {result}");
    Ok(())
}

fn look(agent: &mut Agent, item: &str) -> Result<i64> {
    let read = agent.call("get_count", &json!({"item": item}))?;
    read.pointer("/structuredContent/count")
        .and_then(Json::as_i64)
        .with_context(|| format!("{item} was not read: {read}"))
}

fn take(agent: &mut Agent, item: &str, count: i64) -> Result<Json> {
    agent.call("take", &json!({"item": item, "count": count}))
}

/// TOOL-1
pub fn guarded() -> Result<Json> {
    let shelf = Shelf::start()?;
    let mut agent = shelf.agent()?;
    ensure!(look(&mut agent, "tea")? == 10, "the shelf does not begin with ten");
    must_be_done(&take(&mut agent, "tea", 3)?, "a write on what is so")?;
    // Its own change was told to it, and is no reason to refuse the next.
    must_be_done(&take(&mut agent, "tea", 1)?, "a write after its own")?;
    shelf.set("rice", 1)?;
    must_be_done(&take(&mut agent, "tea", 1)?, "a write beside a change of what was never read")?;
    shelf.set("tea", 2)?;
    must_be_refused(&take(&mut agent, "tea", 3)?, "a write on what has changed")?;
    let refused_at = shelf.taken()?.len();
    must_be_done(&take(&mut agent, "tea", 1)?, "the write after it was told what there is")?;
    let taken = shelf.taken()?;
    let left: Vec<i64> = taken.iter().map(|taken| taken.left).collect();
    ensure!(refused_at == 3 && left == [7, 6, 5, 1], "the server's book has {taken:?}");
    let mut blind = shelf.agent()?;
    let written = take(&mut blind, "rice", 1)?;
    must_be_done(&written, "a write that rests on nothing")?;
    let rested_on = said(&written, "/readings/rested_on").cloned();
    ensure!(rested_on == Some(json!(0)), "a write that rests on nothing does not say so: {written}");
    drop((agent, blind));
    let (report, code, before) = shelf.audit()?;
    ensure!(code == Some(0), "an audit decides differently: {report}");
    let audited = report.get("entries").and_then(Json::as_u64).unwrap_or_default();
    ensure!(audited >= before, "there were {before} entries, and after a kill an audit finds {audited}");
    Ok(json!({"taken": taken.len() + 1, "refused": 1, "left": left, "audited": audited}))
}

/// AG-097-4.2 over tools
pub fn current() -> Result<Json> {
    let shelf = Shelf::start()?;
    let mut agent = shelf.agent()?;
    look(&mut agent, "tea")?;
    shelf.set("tea", 0)?;
    must_be_refused(&take(&mut agent, "tea", 1)?, "a write on what has changed")?;
    let taken = shelf.taken()?;
    ensure!(taken.is_empty(), "the server was asked for {taken:?}");
    Ok(json!({"refused": "reading_changed", "calls": taken.len()}))
}

/// AG-097-4.3 over tools
pub fn told() -> Result<Json> {
    let shelf = Shelf::start()?;
    let mut agent = shelf.agent()?;
    look(&mut agent, "tea")?;
    shelf.set("tea", 4)?;
    let refused = take(&mut agent, "tea", 1)?;
    must_be_refused(&refused, "a write on what has changed")?;
    let changed = said(&refused, "/readings/changed/0").context("it is not told what has changed")?;
    let tool = changed.get("tool").and_then(Json::as_str);
    let change = changed.pointer("/changes/0").context("it is not told how it has changed")?;
    let told = json!({"path": "/count", "before": "10", "after": "4"});
    ensure!(tool == Some("get_count") && *change == told, "it is told as {changed}");
    Ok(json!({"tool": "get_count", "changed": told}))
}

/// AG-097-4.4 over tools: two agents both see the last one, and both want it.
pub fn atomic() -> Result<Json> {
    let shelf = Shelf::start()?;
    let mut agents = [shelf.agent()?, shelf.agent()?];
    for round in 0..ROUNDS {
        let item = format!("last-{round}");
        shelf.set(&item, 1)?;
        for agent in &mut agents {
            ensure!(look(agent, &item)? == 1, "{item} was not seen");
        }
        let start = Barrier::new(agents.len());
        std::thread::scope(|scope| {
            let taking = agents.iter_mut().map(|agent| {
                let (start, item) = (&start, item.as_str());
                scope.spawn(move || {
                    start.wait();
                    take(agent, item, 1)
                })
            });
            let taking: Vec<_> = taking.collect();
            let lost = || anyhow::bail!("a thread panicked");
            taking.into_iter().try_for_each(|taking| taking.join().unwrap_or_else(|_| lost()).map(drop))
        })?;
    }
    let taken = shelf.taken()?;
    let twice = taken.iter().find(|taken| taken.left < 0);
    ensure!(twice.is_none(), "the last one was taken twice: {twice:?}");
    ensure!(taken.len() == ROUNDS, "{} of {ROUNDS} were taken", taken.len());
    Ok(json!({"rounds": ROUNDS, "taken": taken.len()}))
}
