//! Calls of MCP tools: directly, passed on by the gateway, and decided by the gate; with the same server, over the same kind of line,
//! in turn. The server, the gate and the gateway are processes of their own, and every call through the gateway is an entry that is
//! synced before it is answered.

mod as_read;
pub mod bank;
mod client;
mod world;

use super::gate::median_us;
use super::report::Report;
use anyhow::{Result, anyhow};
use bank::Over;
use client::Client;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use world::{Guarded, World};

/// What this program is called where it is to be the product.
pub const COUNTERSIGN: &str = "countersign";

/// Rounds, and calls of each kind in one: what disturbs a round disturbs every kind.
const ROUNDS: usize = 5;
const CALLS: usize = 200;
/// Calls of each kind that are not counted.
const WARM: usize = 50;
/// Sessions at once, and for how long.
const SESSIONS: usize = 16;
const LOADED: Duration = Duration::from_secs(2);

/// A kind of call.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    tool: &'static str,
    through: bool,
}

const READ: Kind = Kind { name: "direct", tool: "look_up", through: false };
const WRITE: Kind = Kind { name: "direct_write", tool: "transfer", through: false };
/// In no pact: passed on.
const PASS: Kind = Kind { name: "pass", tool: "look_up", through: true };
/// The source of a fact: read by the gate, and sealed.
const OBSERVED: Kind = Kind { name: "observed", tool: "get_account", through: true };
/// An action with a call: decided, read again, decided again, called.
const GATED: Kind = Kind { name: "gated", tool: "transfer", through: true };
const KINDS: [Kind; 5] = [READ, WRITE, PASS, OBSERVED, GATED];

/// Measures over one kind of line.
pub fn measure(folder: &Path, over: Over, report: &mut Report) -> Result<()> {
    let world = World::start(folder, over, Guarded::ByPact)?;
    let prefix = match over {
        Over::Stdio => "mcp",
        Over::Http => "mcp_http",
    };
    let medians = medians(&world)?;
    for (kind, ms) in KINDS.iter().zip(medians) {
        report.put(&format!("{prefix}_{}_p50_ms", kind.name), ms);
    }
    let [read, write, pass, _, gated] = medians;
    report.put(&format!("{prefix}_pass_added_ms"), pass - read);
    // The call itself, and the one reading that the decision rests on, are not the gateway's.
    report.put(&format!("{prefix}_gated_added_ms"), gated - write - read);
    for kind in [READ, PASS, GATED] {
        report.put(&format!("{prefix}_{}_per_s", kind.name), loaded(&world, kind)?);
    }
    drop(world);
    as_read::measure(&folder.join("as-read"), over, prefix, report)
}

/// The median of each kind of call in milliseconds, one call at a time.
fn medians(world: &World) -> Result<[f64; KINDS.len()]> {
    let (mut direct, mut through) = (world.direct()?, world.through()?);
    let mut waits: [Vec<Duration>; KINDS.len()] = std::array::from_fn(|_| Vec::new());
    for round in 0..=ROUNDS {
        for (kind, waits) in KINDS.iter().zip(&mut waits) {
            let client = if kind.through { &mut through } else { &mut direct };
            for _ in 0..if round == 0 { WARM } else { CALLS } {
                let began = Instant::now();
                call(client, *kind, "alone")?;
                if round > 0 {
                    waits.push(began.elapsed());
                }
            }
        }
    }
    Ok(waits.map(|waits| median_us(waits) / 1000.0))
}

/// Calls a second of one kind, with many sessions that each have one call on its way.
fn loaded(world: &World, kind: Kind) -> Result<f64> {
    let sessions = (0..SESSIONS).map(|_| if kind.through { world.through() } else { world.direct() });
    let mut sessions = sessions.collect::<Result<Vec<Client>>>()?;
    let began = Instant::now();
    let made = std::thread::scope(|scope| {
        let threads: Vec<_> = sessions
            .iter_mut()
            .enumerate()
            .map(|(number, client)| {
                scope.spawn(move || -> Result<u32> {
                    let account = format!("account-{number}");
                    let mut made = 0;
                    while began.elapsed() < LOADED {
                        call(client, kind, &account)?;
                        made += 1;
                    }
                    Ok(made)
                })
            })
            .collect();
        let lost = || Err(anyhow!("a client of the bench panicked"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| lost())).sum::<Result<u32>>()
    })?;
    Ok(f64::from(made) / began.elapsed().as_secs_f64())
}

fn call(client: &mut Client, kind: Kind, account: &str) -> Result<()> {
    let arguments: Value = match kind.tool {
        "transfer" => json!({"account": account, "amount": 1}),
        _ => json!({"account": account}),
    };
    client.call(kind.tool, &arguments)
}
