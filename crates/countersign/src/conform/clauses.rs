//! AG-097's clauses, each on its own: what is documented, what is read, what is told, and who cannot get past.

use super::forgery::Request;
use super::gate::{Subject, entry_of, failed, must_refuse, passed};
use super::names;
use crate::client::{Call, Client};
use crate::examples::{self, BILLING};
use anyhow::{Context as _, Result, ensure};
use countersign_api::{ErrorCode, FactPut, FailedRead, ObserveRequest, VerdictKind};
use countersign_core::pact::load::load;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// An action type that checks nothing.
const UNDOCUMENTED: &str = r#"
pact = "conform-undocumented"
version = 1

[facts.ConformThing]
attributes = { used = "Bool" }

[action.use]
resource = 'ConformThing::"{thing}"'
allow = 'true'
set = { used = "true" }
params = { type = "object", additionalProperties = false, required = ["thing"], properties.thing = { type = "string", maxLength = 64 } }
"#;

/// A pact whose second version asks for more than its first.
const RULES: &str = r#"
[facts.ConformDoor]
attributes = { open = "Bool", alarm = "Bool" }

[observe.ConformDoor]
who = 'principal.roles.contains("porter")'
attributes = "*"

[action.enter]
resource = 'ConformDoor::"{door}"'
allow = 'principal.roles.contains("porter")'
set = { open = "false" }
params = { type = "object", additionalProperties = false, required = ["door"], properties.door = { type = "string", maxLength = 64 } }

[[action.enter.require]]
id = "door-is-open"
that = 'resource.open'
"#;

const MORE_RULES: &str = "\n[[action.enter.require]]\nid = \"no-alarm\"\nthat = '!resource.alarm'\n";

/// How many threads act, how often each, and on how many facts where they do not all act on one.
const THREADS: usize = 4;
const ACTIONS: usize = 25;
const FACTS: usize = 5 * THREADS;
/// How often each is measured; the best counts, because other work on the machine only ever slows one down.
const TRIES: usize = 3;
/// By how much one fact may be slower than many. Locks that are held while others wait cost tens of times as much.
const SLOWER_MAX: u32 = 4;

/// Whatever a caller was told: nothing may be gone from an account.
pub fn must_be_untouched(subject: &Subject, fact: &str, balance: u64) -> Result<()> {
    let now = subject.attribute(fact, "balance")?;
    ensure!(now == json!(balance), "{fact} had {balance} and has {now}, although the refund was stopped");
    Ok(())
}

/// The parameters of a refund.
pub fn refund(account: &str, amount: u64) -> Json {
    json!({"account": account, "amount": amount, "currency": "USD", "destination": "acct_treasury_1"})
}

/// An account as facts have it.
pub fn account(status: &str, balance: u64) -> Json {
    json!({"status": status, "balance": balance, "owner": "conform"})
}

/// AG-097-4.1
pub fn documented(subject: &Subject) -> Result<Json> {
    let published = subject.publish_text(UNDOCUMENTED);
    must_refuse(published, ErrorCode::PactInvalid, "an action type without preconditions")?;
    ensure!(subject.pact("conform-undocumented")?.is_none(), "a pact that was refused can be read");
    let (mut types, mut preconditions) = (0, 0);
    for file in examples::ALL {
        subject.publish(file)?;
        let pact =
            load(file.source).map_err(|problems| anyhow::anyhow!("{} does not load: {problems:?}", file.name))?.pact;
        let manifest = subject.pact(&names::pact(file.name))?.context("a published pact is not there")?.manifest;
        types += pact.actions.len();
        for require in pact.actions.values().flat_map(|kind| &kind.require) {
            ensure!(manifest.contains(require.id.as_str()), "the manifest of {} leaves out {}", file.name, require.id);
            preconditions += 1;
        }
    }
    Ok(
        json!({"refused": "pact_invalid", "pacts": examples::ALL.len(), "action_types": types, "preconditions": preconditions}),
    )
}

/// AG-097-4.2
pub fn current(subject: &Subject) -> Result<Json> {
    subject.publish(&BILLING)?;
    let agent = subject.agent("refunder", &["refunder"])?;
    let id = format!("current-{}", subject.run());
    let fact = format!("Account::\"{id}\"");
    subject.feed(&fact, &account("active", 1_000))?;
    let token = agent.observe([fact.as_str()])?;
    let asked = agent.check(BILLING.name, "refund", &refund(&id, 10), std::slice::from_ref(&token))?;
    ensure!(asked.verdict == VerdictKind::Committed, "a check on facts that hold says {:?}", asked.verdict);
    let fed = subject.feed(&fact, &account("frozen", 1_000))?;
    let verdict = agent.act(BILLING.name, "refund", &refund(&id, 10), &[token])?;
    ensure!(
        !passed(&verdict),
        "the refund passed on what was observed, {} entries after the freeze",
        entry_of(&verdict)? - fed.entry
    );
    must_be_untouched(subject, &fact, 1_000)?;
    let read = subject.entry(entry_of(&verdict)?)?;
    let reads = read.payload.get("reads").and_then(Json::as_array).cloned().unwrap_or_default();
    let ours = json!([names::fact(&fact)?.to_string(), fed.version]);
    ensure!(reads.contains(&ours), "entry {} was not decided on version {:?}: {reads:?}", read.index, fed.version);
    let (rules, rejected) = newest_rules(subject)?;
    Ok(
        json!({"frozen_in": fed.entry, "rejected_in": read.index, "version": fed.version, "pact_version": rules, "by_it_in": rejected}),
    )
}

/// The rules count as they are at the time of use, too.
fn newest_rules(subject: &Subject) -> Result<(u64, u64)> {
    let name = "conform-door";
    let version = subject.pact(name)?.map_or(1, |there| there.pact.version + 1);
    subject.publish_text(&format!("pact = \"{name}\"\nversion = {version}\n{RULES}"))?;
    let agent = subject.agent("porter", &["porter"])?;
    let id = format!("door-{}", subject.run());
    let fact = format!("Door::\"{id}\"");
    subject.feed(&fact, &json!({"open": true, "alarm": true}))?;
    let token = agent.observe([fact.as_str()])?;
    let params = json!({"door": id});
    let asked = agent.check("door", "enter", &params, std::slice::from_ref(&token))?;
    ensure!(asked.verdict == VerdictKind::Committed, "a check under the first version says {:?}", asked.verdict);
    subject.publish_text(&format!("pact = \"{name}\"\nversion = {}\n{RULES}{MORE_RULES}", version + 1))?;
    let verdict = agent.act("door", "enter", &params, &[token])?;
    ensure!(failed(&verdict) == ["no-alarm"], "the new version's rule was not asked: {:?}", verdict.verdict);
    ensure!(subject.attribute(&fact, "open")? == json!(true), "{fact} was entered although the alarm is on");
    Ok((version + 1, entry_of(&verdict)?))
}

/// AG-097-4.3
pub fn told(subject: &Subject) -> Result<Json> {
    subject.publish(&BILLING)?;
    let agent = subject.agent("refunder", &["refunder"])?;
    let id = format!("told-{}", subject.run());
    let fact = format!("Account::\"{id}\"");
    subject.feed(&fact, &account("active", 1_000))?;
    let token = agent.observe([fact.as_str()])?;
    subject.feed(&fact, &account("frozen", 3))?;
    let verdict = agent.act(BILLING.name, "refund", &refund(&id, 10), &[token])?;
    ensure!(verdict.verdict == VerdictKind::Rejected, "was not rejected: {:?}", verdict.verdict);
    ensure!(verdict.code.as_deref() == Some("precondition_failed"), "the code is {:?}", verdict.code);
    must_be_untouched(subject, &fact, 3)?;
    let mut told = Vec::new();
    for (precondition, expected, actual) in
        [("account-is-active", json!("active"), json!("frozen")), ("balance-covers-amount", json!(1_000), json!(3))]
    {
        let named = verdict.failed.iter().find(|failed| failed.precondition == precondition);
        let named = named.with_context(|| format!("{precondition} failed and is not named"))?;
        let is_told =
            |read: &FailedRead| read.expected.as_ref() == Some(&expected) && read.actual.as_ref() == Some(&actual);
        ensure!(named.reads.iter().any(is_told), "{precondition} is not told with {expected} and {actual}");
        told.push(json!({"precondition": precondition, "expected": expected, "actual": actual}));
    }
    Ok(json!({"entry": entry_of(&verdict)?, "failed": told}))
}

/// AG-097-4.6, as far as it goes: nothing an agent's key can do, in whoever's name, changes a fact, a rule, a verdict or an observation.
pub fn not_skipped(subject: &Subject) -> Result<Json> {
    subject.publish(&BILLING)?;
    let agent = subject.agent("refunder", &["refunder"])?;
    let id = format!("past-{}", subject.run());
    let fact = format!("Account::\"{id}\"");
    let fed = subject.feed(&fact, &account("frozen", 1_000))?;
    let path = crate::commands::fact_path(&names::fact(&fact)?);
    let put = FactPut { value: account("active", 1_000).as_object().cloned().unwrap_or_default() };
    let text = names::source(&BILLING, 99)?.into_bytes();
    let tries = [
        ("write the fact", Call::put(&path).json(&put)?),
        ("delete the fact", Call::delete(&path)),
        ("publish a pact", Call::post("/v1/pacts").body("application/toml", text)),
        ("halt everything", Call::post("/v1/halts").json(&json!({"scope": "all", "reason": "conform"}))?),
    ];
    let mut refused = Vec::new();
    for (what, call) in tries {
        must_refuse(agent.call::<Json>(call), ErrorCode::NotAuthorised, &format!("an agent that would {what}"))?;
        refused.push(what);
    }
    let body = serde_json::to_string(&put)?;
    let request = Request { subject, method: "PUT", path: &path, body: &body };
    let forged = request.signed_in_the_name_of(subject.operator_key(), &agent.key)?;
    let written = request.send::<Json>(&forged);
    must_refuse(written, ErrorCode::SignatureInvalid, "an agent that would write the fact in an operator's name")?;
    let observe =
        ObserveRequest { facts: vec![names::fact(&fact)?.to_string()], answers: false, attest: false, session: None };
    let call = Call::post("/v1/observe").json(&observe)?.reading();
    let unsigned: Result<Json> = Client::remote(subject.url())?.call(call);
    must_refuse(unsigned, ErrorCode::SignatureMissing, "a request without a signature")?;
    let now = subject.fact(&fact)?.context("the fact is gone")?;
    ensure!(
        Some(now.version) == fed.version,
        "the fact is at version {} and was fed as {:?}",
        now.version,
        fed.version
    );
    Ok(
        json!({"refused": refused, "in_anothers_name": "signature_invalid", "unsigned": "signature_missing", "version": now.version}),
    )
}

/// AG-097-4.8
pub fn optimistic(subject: &Subject) -> Result<Json> {
    subject.publish(&BILLING)?;
    let (mut hot, mut cold) = (Duration::MAX, Duration::MAX);
    for attempt in 0..TRIES {
        cold = cold.min(contended(subject, &format!("cold-{attempt}"), FACTS)?);
        hot = hot.min(contended(subject, &format!("hot-{attempt}"), 1)?);
    }
    let evidence = json!({"actions": THREADS * ACTIONS, "one_fact_ms": ms(hot), "many_facts_ms": ms(cold)});
    ensure!(hot < cold * SLOWER_MAX, "actions on one fact wait for each other: {evidence}");
    Ok(evidence)
}

/// Has all threads act at once, on so many facts in turn; each action must commit at its first attempt.
fn contended(subject: &Subject, name: &str, facts: usize) -> Result<Duration> {
    let id = |at: usize| format!("{name}-{}-{}", at % facts, subject.run());
    for at in 0..facts {
        subject.feed(&format!("Account::\"{}\"", id(at)), &account("active", 1_000_000))?;
    }
    let acting = |thread: usize| -> Result<()> {
        let agent = subject.agent(&format!("contender-{thread}"), &["refunder"])?;
        let accounts: Vec<String> = (0..ACTIONS).map(|turn| id(thread + turn * THREADS)).collect();
        let seen: BTreeSet<String> = accounts.iter().map(|account| format!("Account::\"{account}\"")).collect();
        let token = agent.observe(seen.iter().map(String::as_str))?;
        for account in &accounts {
            let verdict = agent.act(BILLING.name, "refund", &refund(account, 1), std::slice::from_ref(&token))?;
            ensure!(passed(&verdict), "an action that nothing speaks against was stopped: {:?}", verdict.code);
        }
        Ok(())
    };
    // The agents are registered before the clock runs.
    (0..THREADS).try_for_each(|thread| subject.agent(&format!("contender-{thread}"), &["refunder"]).map(drop))?;
    let started = Instant::now();
    std::thread::scope(|scope| {
        let acting = &acting;
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || acting(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| anyhow::bail!("a thread panicked")))
    })?;
    Ok(started.elapsed())
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// AG-097-4.11, as far as it goes
pub fn asked_ahead(subject: &Subject) -> Result<Json> {
    subject.publish(&BILLING)?;
    let agent = subject.agent("refunder", &["refunder"])?;
    let id = format!("ahead-{}", subject.run());
    let fact = format!("Account::\"{id}\"");
    subject.feed(&fact, &account("active", 1_000))?;
    let token = agent.observe([fact.as_str()])?;
    let fed = subject.feed(&fact, &account("frozen", 1_000))?;
    let asked = agent.check(BILLING.name, "refund", &refund(&id, 10), std::slice::from_ref(&token))?;
    let written = subject.entries_from(fed.entry + 1)?;
    ensure!(!written.iter().any(|entry| entry.leaf("by") == agent.name), "a check has left an entry");
    let verdict = agent.act(BILLING.name, "refund", &refund(&id, 10), &[token])?;
    ensure!(
        !passed(&asked) && failed(&asked) == failed(&verdict),
        "the check said {:?}, the action {:?}",
        failed(&asked),
        failed(&verdict)
    );
    must_be_untouched(subject, &fact, 1_000)?;
    Ok(json!({"check": failed(&asked), "entry": entry_of(&verdict)?}))
}
