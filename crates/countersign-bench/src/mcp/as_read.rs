//! Calls that rest on what was read, with and without a pact that says what they change: the gate reads all of it again before the
//! call, as many at a time as it does, and once more after it. Beside that, the very same readings and the call made directly, as many
//! at a time.

use super::bank::Over;
use super::client::Client;
use super::world::{Guarded, World};
use super::{LOADED, SESSIONS, median_us};
use crate::report::Report;
use anyhow::{Result, anyhow};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

/// How many readings a call rests on. What may be added is 2.5 ms, and 0.1 ms for each (`report.rs`).
const READINGS: [usize; 3] = [1, 5, 20];
/// How many readings the gate makes at a time.
const AT_ONCE: usize = 8;
/// Rounds, and calls of each kind in one.
const ROUNDS: usize = 5;
const CALLS: usize = 60;
/// Calls of each kind that are not counted.
const WARM: usize = 20;

/// Measures over one kind of line.
pub fn measure(folder: &Path, over: Over, prefix: &str, report: &mut Report) -> Result<()> {
    let world = World::start(folder, over, Guarded::AsRead)?;
    for count in READINGS {
        let [direct, refresh, through] = alone(&world, count)?;
        report.put(&format!("{prefix}_as_read_{count}_direct_p50_ms"), direct);
        report.put(&format!("{prefix}_as_read_{count}_p50_ms"), through);
        // Of both: the readings after the call.
        report.put(&format!("{prefix}_as_read_{count}_refresh_p50_ms"), refresh);
        report.put(&format!("{prefix}_as_read_{count}_added_ms"), through - direct);
    }
    let [unread, own] = own_change(&world)?;
    report.put(&format!("{prefix}_as_read_own_change_added_ms"), own - unread);
    // A call takes its whole server for its turn.
    report.put(&format!("{prefix}_as_read_undeclared_per_s"), loaded(&world, "look_up")?);
    drop(world);
    // A call takes its own account, which is what it rests on: the pact reads accounts by this tool.
    let world = World::start(&folder.join("declared"), over, Guarded::Declared)?;
    report.put(&format!("{prefix}_as_read_declared_per_s"), loaded(&world, "get_account")?);
    Ok(())
}

fn account(number: usize) -> Value {
    json!({"account": format!("read-{number}")})
}

fn transfer(client: &mut Client, account: &str) -> Result<()> {
    client.call("transfer", &json!({"account": account, "amount": 1}))
}

/// Reads so many accounts, as many at a time as the gate does.
fn read(client: &mut Client, count: usize) -> Result<()> {
    let accounts: Vec<Value> = (0..count).map(account).collect();
    accounts.chunks(AT_ONCE).try_for_each(|some| client.calls("look_up", some))
}

/// What is measured beside each other: medians in milliseconds, one call at a time.
fn medians<const N: usize>(mut make: impl FnMut(usize) -> Result<Duration>) -> Result<[f64; N]> {
    let mut waits: [Vec<Duration>; N] = std::array::from_fn(|_| Vec::new());
    for round in 0..=ROUNDS {
        for (kind, waits) in waits.iter_mut().enumerate() {
            for _ in 0..if round == 0 { WARM } else { CALLS } {
                let took = make(kind)?;
                if round > 0 {
                    waits.push(took);
                }
            }
        }
    }
    Ok(waits.map(|waits| median_us(waits) / 1000.0))
}

/// Directly, of which the readings after the call, and through the gateway. Nothing that was read changes.
fn alone(world: &World, count: usize) -> Result<[f64; 3]> {
    let (mut direct, mut through) = (world.direct()?, world.through()?);
    read(&mut through, count)?;
    medians(|kind| {
        let began = Instant::now();
        match kind {
            0 => {
                read(&mut direct, count)?;
                transfer(&mut direct, "another")?;
                read(&mut direct, count)?;
            }
            1 => read(&mut direct, count)?,
            _ => transfer(&mut through, "another")?,
        }
        Ok(began.elapsed())
    })
}

/// A call that changes what was not read, and one that changes what was, so that the change is kept and told. One reading each.
fn own_change(world: &World) -> Result<[f64; 2]> {
    let mut through = world.through()?;
    read(&mut through, 1)?;
    medians(|kind| {
        let began = Instant::now();
        transfer(&mut through, if kind == 0 { "another" } else { "read-0" })?;
        Ok(began.elapsed())
    })
}

/// Calls a second with many sessions that each have read an account of their own and have one call on its way.
fn loaded(world: &World, reads: &str) -> Result<f64> {
    let sessions = (0..SESSIONS).map(|number| {
        let mut client = world.through()?;
        client.call(reads, &account(number))?;
        Ok(client)
    });
    let mut sessions = sessions.collect::<Result<Vec<Client>>>()?;
    let began = Instant::now();
    let made = std::thread::scope(|scope| {
        let threads = sessions.iter_mut().enumerate().map(|(number, client)| {
            scope.spawn(move || -> Result<u32> {
                let own = format!("read-{number}");
                let mut made = 0;
                while began.elapsed() < LOADED {
                    transfer(client, &own)?;
                    made += 1;
                }
                Ok(made)
            })
        });
        let threads: Vec<_> = threads.collect();
        let lost = || Err(anyhow!("a client of the bench panicked"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| lost())).sum::<Result<u32>>()
    })?;
    Ok(f64::from(made) / began.elapsed().as_secs_f64())
}
