//! What a million messages in ten thousand inboxes cost in memory: in the sequencer's state, in what readers see, and after a restart
//! from a snapshot. Bodies are not in memory. Measured in a process of its own, since tests share theirs.

use countersign_core::action::{Action, ActionRequest};
use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_engine::gate::{Options, Parts};
use countersign_engine::request::{Request, Submission};
use countersign_engine::sequence::Batch;
use countersign_engine::storage::disk::RealDisk;
use countersign_testing::gate::{ORIGIN, environment, feed, publish};
use countersign_testing::hands::Hands;
use serde_json::json;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

const PACT: &str = r#"
pact = "office"
version = 1

[action.tell]
resource = 'Agent::"{to}"'
allow = 'true'
deliver = { to = "{to}", body = ["text"] }

[action.tell.params]
type = "object"
additionalProperties = false
required = ["to", "text"]
properties.to = { type = "string" }
properties.text = { type = "string" }
"#;

const SENDERS: u64 = 100;
/// The variable with how many inboxes the measuring process fills, with one message of each sender.
const INBOXES: &str = "COUNTERSIGN_TEST_INBOXES";
const MIB: u64 = 1 << 20;

/// What the process has resident now, or had at most.
fn resident_bytes(which: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(which)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

const NOW: &str = "VmRSS:";
const PEAK: &str = "VmHWM:";

fn enter(parts: &mut Parts, requests: Vec<Request>) {
    let mut batch = Batch::default();
    parts.sequence(&mut batch, requests.into_iter().map(|request| Submission::new(request, Box::new(|_| ()))));
    parts.committer.commit(batch).unwrap();
    parts.tend_keys().unwrap();
}

fn tell(sender: u64, to: u64) -> Request {
    let body = json!({
        "pact": "office", "action": "tell", "idempotency_key": format!("{sender:016}{to:016}"),
        "params": {"to": format!("recipient-{to:06}"), "text": "a body of some length ".repeat(6)},
    });
    let body: Arc<str> = body.to_string().into();
    let request = ActionRequest::parse(&body).unwrap();
    let agent = AgentId::new(format!("sender-{sender:03}")).unwrap();
    Request::Act(Box::new(Action::new(agent, Auth::None, Arc::clone(&body), request, Vec::new())))
}

fn measure(inboxes: u64) {
    let dir = tempfile::tempdir().unwrap();
    let clock = Hands::at(1_800_000_000_000);
    let open = || {
        let disk = Arc::new(RealDisk::open(dir.path()).unwrap());
        let options = Options { snapshot_every: 0, ..Options::new(ORIGIN) };
        Parts::open(environment(disk, Arc::clone(&clock) as _), options).unwrap()
    };
    let mut parts = open();
    enter(&mut parts, vec![publish(PACT)]);
    let agents =
        (0..SENDERS).map(|at| format!("sender-{at:03}")).chain((0..inboxes).map(|at| format!("recipient-{at:06}")));
    let agents: Vec<String> = agents.collect();
    for some in agents.chunks(1_000) {
        let value = r#"{"org": "acme", "roles": [], "standing": "active", "trust": 1}"#;
        enter(&mut parts, some.iter().map(|agent| feed(&format!("Agent::\"{agent}\""), value)).collect());
    }
    let (before, started) = (resident_bytes(NOW), Instant::now());
    for to in (0..inboxes).step_by(40) {
        let to = to..inboxes.min(to + 40);
        enter(&mut parts, to.flat_map(|to| (0..SENDERS).map(move |sender| tell(sender, to))).collect());
    }
    let (took, filled) = (started.elapsed(), resident_bytes(NOW).saturating_sub(before));
    let waiting = |parts: &Parts| parts.view().counts().messages as u64;
    assert_eq!(waiting(&parts), SENDERS * inboxes);
    parts.snapshot().unwrap();
    let (snapshotted, peak) = (resident_bytes(NOW).saturating_sub(before), resident_bytes(PEAK));
    drop(parts);
    let parts = open();
    assert_eq!(waiting(&parts), SENDERS * inboxes, "after a restart");
    println!(
        "resident {} {peak} {} more when full, {} after a restart, in {took:.1?}, {:.0} messages a second",
        filled.max(snapshotted),
        filled,
        resident_bytes(NOW),
        (SENDERS * inboxes) as f64 / took.as_secs_f64()
    );
}

#[test]
#[ignore = "fills inboxes in a process of its own, which other tests start"]
fn fills_inboxes() {
    if let Ok(inboxes) = std::env::var(INBOXES) {
        measure(inboxes.parse().unwrap());
    }
}

/// For so many inboxes: how many bytes more are resident, and how many the whole process had at most before its restart.
fn resident_for(inboxes: u64) -> (u64, u64) {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "inbox_cost::fills_inboxes", "--ignored", "--nocapture"])
        .env(INBOXES, inboxes.to_string())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout).into_owned();
    assert!(child.status.success(), "{said}{}", String::from_utf8_lossy(&child.stderr));
    let (_, measured) = said.split_once("resident ").expect("measures");
    println!("{inboxes} inboxes: {}", measured.lines().next().unwrap_or_default());
    let mut bytes = measured.split_whitespace().map_while(|bytes| bytes.parse::<u64>().ok());
    (bytes.next().unwrap(), bytes.next().unwrap())
}

#[test]
fn ten_thousand_messages_take_little_memory() {
    let (resident, _) = resident_for(100);
    // What the pipeline itself keeps, whatever passes through it, is most of this.
    assert!(resident <= 48 * MIB, "{resident} bytes are resident");
}

#[test]
#[ignore = "long: run with `cargo xtask test --long`"]
fn a_million_messages_in_ten_thousand_inboxes_take_less_than_256_mib() {
    let (_, whole) = resident_for(10_000);
    assert!(whole < 256 * MIB, "{whole} bytes were resident");
}
