//! An atomic group on a disk that fails at every step: all of it is there afterwards, or none.

use countersign_core::action::{Action, ActionRequest};
use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_core::pact::load::load;
use countersign_core::value::Attributes;
use countersign_engine::gate::{Environment, Options, Parts};
use countersign_engine::request::{ActMany, Answer, Request, Submission};
use countersign_engine::sequence::Batch;
use countersign_testing::bank;
use countersign_testing::disk::{Faults, FaultyDisk};
use countersign_testing::gate::{ORIGIN, operator, signing_key};
use countersign_testing::hands::Hands;
use serde_json::json;
use std::sync::{Arc, Mutex};

const ACCOUNTS: [&str; 4] = ["a", "b", "c", "d"];

fn open(disk: &FaultyDisk) -> Result<Parts, String> {
    let environment = Environment {
        disk: Arc::new(disk.clone()),
        clock: Hands::at(1_800_000_000_000) as _,
        seed: [4; 32],
        log_key: signing_key().into(),
        token_key: [2; 32],
    };
    let options = Options { segment_bytes: 64 << 10, snapshot_every: 0, ..Options::new(ORIGIN) };
    Parts::open(environment, options).map_err(|error| error.to_string())
}

/// Has requests decided in one turn, and made durable.
fn enter(parts: &mut Parts, requests: Vec<Request>) -> Result<Vec<Answer>, String> {
    let answers = Arc::new(Mutex::new(Vec::new()));
    let submissions: Vec<Submission> = requests
        .into_iter()
        .map(|request| {
            let answers = Arc::clone(&answers);
            Submission::new(request, Box::new(move |answer| answers.lock().unwrap().push(answer)))
        })
        .collect();
    let mut batch = Batch::default();
    parts.sequence(&mut batch, submissions);
    parts.committer.commit(batch).map_err(|error| error.to_string())?;
    let answers = std::mem::take(&mut *answers.lock().unwrap());
    answers.into_iter().map(|answer| answer.map_err(|refusal| refusal.to_string())).collect()
}

fn feed(fact: &str, value: &serde_json::Value) -> Request {
    let value = Some(Attributes::from_untyped_json(value.as_object().unwrap()).unwrap());
    Request::Feed { by: operator(), auth: Auth::None, fact: fact.parse().unwrap(), value, if_match: None }
}

fn furnish(parts: &mut Parts) -> Result<(), String> {
    let pact = Arc::new(load(&bank::pact(1, 5_000)).unwrap().pact);
    let mut requests = vec![
        Request::Publish { by: operator(), auth: Auth::None, pact },
        feed("Agent::\"fraud-1\"", &json!({"org": "bank", "roles": ["fraud"], "standing": "active", "trust": 1})),
    ];
    for account in ACCOUNTS {
        let value = json!({"status": "active", "balance": 5, "owner": "o"});
        requests.push(feed(&format!("Account::\"{account}\""), &value));
    }
    enter(parts, requests).map(drop)
}

/// Freezes every account, or none.
fn group() -> Request {
    let by = AgentId::new("fraud-1").unwrap();
    let action = |account: &&str| {
        let key = format!("group-of-accounts-{account:0>20}");
        let body = json!({"pact": "bank", "action": "freeze", "params": {"account": account}, "idempotency_key": key})
            .to_string();
        let request = ActionRequest::parse(&body).unwrap();
        Action::new(by.clone(), Auth::None, body.as_str().into(), request, Vec::new())
    };
    let actions: Vec<Action> = ACCOUNTS.iter().map(action).collect();
    let ids = actions.iter().map(|action| action.id).collect();
    Request::ActMany(Box::new(ActMany { by, auth: Auth::None, ids, actions, is_atomic: true }))
}

fn frozen(parts: &Parts) -> usize {
    let view = parts.view();
    let is_frozen = |account: &&&str| {
        let fact = view.whole_state().facts.get(&format!("Account::\"{account}\"").parse().unwrap()).unwrap();
        fact.value.as_ref().unwrap().to_json()["status"] == "frozen"
    };
    ACCOUNTS.iter().filter(is_frozen).count()
}

#[test]
fn a_crash_at_every_step_leaves_all_of_a_group_or_none_of_it() {
    let (mut whole, mut none, mut runs) = (0, 0, 0);
    for seed in 0..12u64 {
        let faults = Faults { short_writes: 3, ..Faults::default() };
        let disk = FaultyDisk::new(seed, faults);
        let mut parts = open(&disk).unwrap();
        furnish(&mut parts).unwrap();
        let (before, position) = (disk.steps(), parts.view().position);
        assert_eq!(enter(&mut parts, vec![group()]).unwrap().len(), 1);
        let after = disk.steps();
        drop(parts);
        assert!(after > before + 1, "a group takes several steps of the disk: {before} to {after}");
        for crash_at in before + 1..=after + 1 {
            let disk = FaultyDisk::new(seed, Faults { crash_at: Some(crash_at), ..faults });
            let mut parts = open(&disk).unwrap();
            furnish(&mut parts).unwrap();
            let told = enter(&mut parts, vec![group()]);
            drop(parts);
            let survived = disk.crash(seed ^ crash_at << 8);
            let mut parts = open(&survived).unwrap_or_else(|error| panic!("seed {seed}, step {crash_at}: {error}"));
            let (found, reached) = (frozen(&parts), parts.view().position);
            assert!([0, ACCOUNTS.len()].contains(&found), "seed {seed}, step {crash_at}: {found} of the group");
            let entries = if found == 0 { 0 } else { 1 + ACCOUNTS.len() as u64 };
            assert_eq!(reached, position + entries, "seed {seed}, step {crash_at}");
            assert!(told.is_err() || found > 0, "seed {seed}, step {crash_at}: it was told, and is lost");
            // Sent again it is done once, whichever of the two it was.
            assert_eq!(enter(&mut parts, vec![group()]).unwrap().len(), 1);
            assert_eq!((frozen(&parts), parts.view().position), (ACCOUNTS.len(), position + 5));
            runs += 1;
            (whole, none) = (whole + usize::from(found > 0), none + usize::from(found == 0));
        }
    }
    assert!(runs > 24 && whole > 5 && none > 5, "{runs} runs, {whole} whole, {none} without");
}
