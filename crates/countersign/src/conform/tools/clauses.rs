//! AG-097's clauses over tools, each on its own: what is documented and recorded, who cannot get past, how old a reading may be, and what
//! does not wait for another.

use super::shelf::{AGENTS, Agent, MEETING, Shelf};
use super::{look, must_be_done, must_be_refused, said, take};
use crate::client::Call;
use crate::conform::gate::random;
use anyhow::{Context as _, Result, bail, ensure};
use countersign_api::PactResponse;
use countersign_core::pact::load::load;
use serde_json::{Value as Json, json};
use std::sync::Barrier;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often two agents write beside each other.
const ROUNDS: usize = 4;
/// How long a clock may take to move on.
const PATIENCE: Duration = Duration::from_secs(10);

/// Takings that say that they change nothing but the item, or say nothing of it.
const PACT: &str = r#"
pact = "shelf"
version = 1

[facts.Item]
attributes = { count = "Long" }
source = { mcp = "shelf", tool = "get_count", arguments = { item = "{id}" }, at = "/structuredContent" }

[observe.Item]
who = 'true'
attributes = "*"

[action.take]
guard = "as-read"
rests_on = ["get_count"]
MORE
resource = 'Item::"{item}"'
allow = 'principal.standing == "active"'
call = { mcp = "shelf", tool = "take" }

[action.take.params]
type = "object"
additionalProperties = false
required = ["item", "count"]
properties.item = { type = "string", maxLength = 64 }
properties.count = { type = "integer", minimum = 1, maximum = 100 }

[[action.take.require]]
id = "one-is-there"
that = 'resource.count >= 1'
"#;

fn text<'a>(value: &'a Json, at: &str) -> &'a str {
    value.pointer(at).and_then(Json::as_str).unwrap_or_default()
}

fn code_is(result: &Json, code: &str, what: &str) -> Result<()> {
    let found = said(result, "/code").or_else(|| said(result, "/error/code")).and_then(Json::as_str);
    ensure!(found == Some(code), "{what} was not refused as {code}: {result}");
    Ok(())
}

fn nothing_is_taken(shelf: &Shelf, what: &str) -> Result<()> {
    let taken = shelf.taken()?;
    ensure!(taken.is_empty(), "{what}: the server was asked for {taken:?}");
    Ok(())
}

/// AG-097-4.1 over tools: the gateway's own pact, and one that is drafted from a server's tools.
pub fn documented() -> Result<Json> {
    let shelf = Shelf::start()?;
    let own: PactResponse = shelf.gate()?.call(Call::get("/v1/pacts/mcp-calls"))?;
    let draft = shelf.draft()?;
    shelf.publish(&draft)?;
    let drafted: PactResponse = shelf.gate()?.call(Call::get("/v1/pacts/shelf"))?;
    let mut preconditions = 0;
    for (name, published) in [("mcp-calls", &own), ("shelf", &drafted)] {
        let pact = load(&published.source).map_err(|problems| anyhow::anyhow!("{name} does not load: {problems:?}"))?;
        for (action, kind) in &pact.pact.actions {
            ensure!(!kind.require.is_empty(), "`{action}` of {name} has no precondition");
            for require in &kind.require {
                ensure!(published.manifest.contains(require.id.as_str()), "{} is not in its manifest", require.id);
                preconditions += 1;
            }
            let is_call = ["write", "watch"].contains(&action.as_str()) || name == "shelf";
            ensure!(!is_call || kind.guard.is_some(), "`{action}` of {name} calls a tool without the guard");
        }
    }
    for tool in ["take", "take_all"] {
        let heading = format!("## Action `{tool}`");
        let action = drafted.manifest.split(&heading).nth(1).with_context(|| format!("{tool} is not drafted"))?;
        let action = action.split("\n## ").next().unwrap_or_default();
        ensure!(action.contains("guarded as read"), "the manifest does not say that {tool} is guarded: {action}");
    }
    let bare = draft.replace("version = 1", "version = 2");
    let (kept, _) = bare.split_once("[[action.take.require]]").context("take has no precondition in the draft")?;
    ensure!(shelf.publish(kept).is_err(), "an action without a precondition was published");
    Ok(json!({"tools": ["take", "take_all"], "preconditions": preconditions}))
}

/// AG-097-4.5 over tools: what was refused is an entry with the action, the reading, and what it was and is.
pub fn recorded() -> Result<Json> {
    let shelf = Shelf::start()?;
    let mut agent = shelf.agent()?;
    let read = agent.call("get_count", &json!({"item": "tea"}))?;
    let reading = said(&read, "/reading").and_then(Json::as_u64).context("the reading has no entry")?;
    shelf.set("tea", 4)?;
    let refused = take(&mut agent, "tea", 1)?;
    must_be_refused(&refused, "a write on what has changed")?;
    let index = said(&refused, "/entry").and_then(Json::as_u64).context("the refusal names no entry")?;
    let effect = said(&refused, "/effect").and_then(Json::as_str).and_then(|effect| effect.strip_prefix("eff_"));
    let action = shelf.entry(effect.and_then(|effect| effect.parse().ok()).context("the refusal names no effect")?)?;
    let asked: Json = serde_json::from_str(text(&action, "/payload/body"))?;
    ensure!(text(&action, "/leaf/kind") == "action" && text(&asked, "/params/name") == "take", "was asked: {action}");
    let entry = shelf.entry(index)?;
    let kind =
        (text(&entry, "/leaf/kind"), text(&entry, "/leaf/verdict"), text(&entry, "/payload/decision/blocked/code"));
    ensure!(kind == ("dispatch", "rejected", "reading_changed"), "entry {index} is {kind:?}");
    let changed = entry.pointer("/payload/decision/blocked/readings/0").context("the entry names no reading")?;
    ensure!((text(changed, "/upstream"), text(changed, "/tool")) == ("shelf", "get_count"), "it names {changed}");
    let before = shelf.entry(reading)?;
    let expected = text(&before, "/payload/writes/0/value/digest").to_owned();
    let actual = text(&entry, "/payload/rereads/0/digest").to_owned();
    ensure!(!expected.is_empty() && expected != actual, "what was read in entry {reading} has no digest of its own");
    ensure!(text(changed, "/before") == expected, "expected is not what was read in entry {reading}: {changed}");
    ensure!(text(changed, "/after") == actual && !actual.is_empty(), "actual is not what was read again: {changed}");
    let gap = entry.pointer("/payload/decision/gap_ms").and_then(Json::as_u64);
    ensure!(gap.is_some(), "entry {index} does not say how long ago it was read: {entry}");
    nothing_is_taken(&shelf, "after a refusal")?;
    Ok(
        json!({"entry": index, "gap_ms": gap, "action": "take", "reading": "get_count", "expected": expected, "actual": actual}),
    )
}

/// Writes as an agent that speaks to the gate itself: under this action of the gateway's own pact, in this session or in none.
fn written(shelf: &Shelf, agent: &str, action: &str, tool: &str, session: Option<&str>) -> Result<Json> {
    let definition = shelf.definition(tool)?;
    let arguments = r#"{"count":1,"item":"tea"}"#;
    let params = json!({"server": "shelf", "name": tool, "definition": definition, "arguments": arguments});
    let mut body = json!({"pact": "mcp-calls", "action": action, "idempotency_key": random(18)?, "params": params});
    if let (Some(session), Some(body)) = (session, body.as_object_mut()) {
        body.insert("session".to_owned(), json!(session));
    }
    shelf.gate()?.call(Call::post("/v1/actions?wait_ms=20000").agent(agent).json(&body)?)
}

/// AG-097-4.6 over tools, as far as it goes: whatever an agent says to its gateway or to the gate, the server is asked for nothing.
pub fn not_skipped() -> Result<Json> {
    let shelf = Shelf::start()?;
    let [own, other] = AGENTS;
    let mut refused = Vec::new();
    for flag in ["pass", "shadow"] {
        // A gateway is the agent's, and so is what it is told to let pass.
        let mut agent = shelf.agent_with(own, &["--unmapped", flag])?;
        shelf.set("tea", 10)?;
        look(&mut agent, "tea")?;
        shelf.set("tea", 4)?;
        must_be_refused(&take(&mut agent, "tea", 1)?, &format!("a write through a gateway that lets {flag}"))?;
        let unapproved = agent.call("take_all", &json!({"item": "tea", "count": 1}))?;
        ensure!(unapproved.get("isError") == Some(&json!(true)), "a tool that no one has approved ran: {unapproved}");
        let cancelled = agent.request("tasks/cancel", &json!({"taskId": "t-1"}))?;
        ensure!(cancelled.get("error").is_some(), "what may change something was passed on: {cancelled}");
        nothing_is_taken(&shelf, &format!("a gateway that lets {flag}"))?;
        refused.push(format!("--unmapped {flag}"));
    }
    let mut agent = shelf.agent()?;
    let read = agent.call("get_count", &json!({"item": "tea"}))?;
    let session = said(&read, "/session").and_then(Json::as_str).context("it has no session")?.to_owned();
    for (what, agent, action, tool, session) in [
        ("without a session", own, "write", "take", None),
        ("in the session of another", other, "write", "take", Some(session.as_str())),
        ("that is only watched", own, "watch", "take", Some(session.as_str())),
        ("of a tool that no one has approved", own, "write", "take_all", Some(session.as_str())),
    ] {
        let answer = written(&shelf, agent, action, tool, session);
        let passed = answer.as_ref().is_ok_and(|verdict| ["settled", "in_flight"].contains(&text(verdict, "/verdict")));
        ensure!(!passed, "a write {what} was made: {answer:?}");
        nothing_is_taken(&shelf, &format!("a write {what}"))?;
        refused.push(what.to_owned());
    }
    let read = json!({"upstream": "shelf", "tool": "take", "arguments": {"item": "tea", "count": 1}});
    let call = Call::post(format!("/v1/sessions/{session}/readings")).agent(own).json(&read)?;
    ensure!(shelf.gate()?.call::<Json>(call).is_err(), "a tool that changes something was called to read");
    nothing_is_taken(&shelf, "a reading by what writes")?;
    refused.push("called to read".to_owned());
    Ok(json!({"refused": refused, "calls": 0}))
}

/// AG-097-4.7 over tools: what was read longer ago than the pact says is read again first.
pub fn stale() -> Result<Json> {
    let shelf = Shelf::start()?;
    shelf.publish(&PACT.replace("MORE", "stale_after = \"1ms\""))?;
    let mut agent = shelf.agent()?;
    look(&mut agent, "tea")?;
    until_later(2)?;
    let refused = take(&mut agent, "tea", 1)?;
    code_is(&refused, "reading_stale", "a write on what was read too long ago")?;
    let again = said(&refused, "/retry/calls/0/tool").and_then(Json::as_str);
    ensure!(again == Some("get_count"), "it is not told what to read again: {refused}");
    nothing_is_taken(&shelf, "a reading that is too old")?;
    drop(agent);
    shelf.publish(&PACT.replace("MORE", "stale_after = \"1h\"").replace("version = 1", "version = 2"))?;
    let mut agent = shelf.agent()?;
    look(&mut agent, "tea")?;
    must_be_done(&take(&mut agent, "tea", 1)?, "a write on what was read just now")?;
    Ok(json!({"refused": "reading_stale", "calls": shelf.taken()?.len()}))
}

/// Waits until so many milliseconds have passed.
fn until_later(ms: u128) -> Result<()> {
    let began = Instant::now();
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map(|time| time.as_millis());
    let from = now()?;
    while now()? <= from.saturating_add(ms) {
        ensure!(began.elapsed() < PATIENCE, "the clock stands still");
        std::thread::yield_now();
    }
    Ok(())
}

/// AG-097-4.8 over tools: what changes different things is done at the same time, what does not say so one after the other, and all of it
/// at the first try.
pub fn beside() -> Result<Json> {
    let mut at_once = Vec::new();
    for (changes, prefix) in [("changes = []", MEETING), ("", "item-")] {
        let shelf = Shelf::start()?;
        shelf.publish(&PACT.replace("MORE", changes))?;
        let mut agents = AGENTS.map(|name| shelf.agent_with(name, &[]));
        for round in 0..ROUNDS {
            let start = Barrier::new(agents.len());
            let taking = |number: usize, agent: &mut Result<Agent>| -> Result<()> {
                let item = format!("{prefix}{round}-{number}");
                let Ok(agent) = agent else { bail!("an agent could not be started") };
                let seen = look(agent, &item);
                start.wait();
                let seen = seen?;
                must_be_done(&take(agent, &item, 1)?, &format!("a write beside another, on {seen} of {item},"))
            };
            std::thread::scope(|scope| {
                let taking = &taking;
                let threads = agents.iter_mut().enumerate();
                let threads: Vec<_> = threads.map(|(at, agent)| scope.spawn(move || taking(at, agent))).collect();
                threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| bail!("a thread panicked")))
            })?;
        }
        let taken = shelf.taken()?;
        ensure!(taken.len() == ROUNDS * AGENTS.len(), "{} of {} were taken", taken.len(), ROUNDS * AGENTS.len());
        let most: Vec<usize> = taken.iter().map(|taken| taken.at_once).collect();
        let expected = if prefix == MEETING { 2 } else { 1 };
        ensure!(most.iter().all(|most| *most == expected), "with `{changes}`, at once were {most:?}");
        at_once.push(json!({"changes": changes, "taken": taken.len(), "at_once": expected}));
    }
    Ok(json!(at_once))
}

/// AG-097-4.11 over tools, as far as it goes: whoever holds what no longer reads the same is told with whatever it is told next, before it
/// writes.
pub fn warned() -> Result<Json> {
    let shelf = Shelf::start()?;
    let [mut agent, mut other] = [shelf.agent_with(AGENTS[0], &[])?, shelf.agent_with(AGENTS[1], &[])?];
    look(&mut agent, "tea")?;
    let warned = |result: &Json| {
        let texts = result.get("content").and_then(Json::as_array).into_iter().flatten();
        let mut texts = texts.filter_map(|item| item.get("text").and_then(Json::as_str));
        texts.any(|text| text.contains(r#"Note: get_count with {"item":"tea"} answers differently since"#))
    };
    let unaware = agent.call("get_count", &json!({"item": "rice"}))?;
    ensure!(!warned(&unaware), "it is warned of nothing: {unaware}");
    shelf.set("tea", 4)?;
    look(&mut other, "tea")?;
    let next = agent.call("get_count", &json!({"item": "salt"}))?;
    ensure!(warned(&next), "it is not warned: {next}");
    must_be_refused(&take(&mut agent, "tea", 1)?, "a write that the warning was about")?;
    nothing_is_taken(&shelf, "after a warning")?;
    Ok(json!({"warned_of": "get_count", "then": "reading_changed"}))
}
