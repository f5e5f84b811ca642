//! Messages between agents: sent, read by their recipients and acknowledged, all durable.

use anyhow::{Context as _, Result, bail, ensure};
use countersign::measured::DataFolder;
use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_core::message::MessageId;
use countersign_core::pact::load::load;
use countersign_core::value::Attributes;
use countersign_engine::gate::Gate;
use countersign_engine::request::{Answer, Request};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Pairs of a sender and a recipient, each with one request on its way.
const PAIRS: u64 = 64;

/// Messages that are sent before they are read and acknowledged at once.
const AT_ONCE: u64 = 50;

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
properties.to = { type = "string", maxLength = 64 }
properties.text = { type = "string", maxLength = 200 }
"#;

/// Messages a second, each sent, read once and acknowledged.
pub fn per_second(dir: &Path, messages: u64) -> Result<f64> {
    let data = DataFolder::create(dir, "bench.example/messages")?;
    let gate = data.open(data.options())?.0;
    set_up(&gate)?;
    // A first round settles caches and the file; it is not counted.
    exchange(&gate, 0, PAIRS * AT_ONCE)?;
    let started = Instant::now();
    let sent = exchange(&gate, 1, messages)?;
    Ok(sent as f64 / started.elapsed().as_secs_f64())
}

fn set_up(gate: &Gate) -> Result<()> {
    let by = || AgentId::new("operator");
    let pact = load(PACT).map_err(|problems| anyhow::anyhow!("the bench's pact does not load: {problems:?}"))?.pact;
    gate.call(Request::Publish { by: by()?, auth: Auth::None, pact: Arc::new(pact) })?;
    for pair in 0..PAIRS {
        for name in [sender(pair), recipient(pair)] {
            let value = serde_json::from_str(r#"{"roles":[],"standing":"active","org":"bench","trust":1}"#)?;
            let (fact, value) = (format!("Agent::\"{name}\"").parse()?, Some(Attributes::from_untyped_json(&value)?));
            gate.call(Request::Feed { by: by()?, auth: Auth::None, fact, value, if_match: None })?;
        }
    }
    Ok(())
}

fn sender(pair: u64) -> String {
    format!("sender-{pair}")
}

fn recipient(pair: u64) -> String {
    format!("recipient-{pair}")
}

/// Has every pair exchange its share; how many messages that were.
fn exchange(gate: &Gate, round: u64, messages: u64) -> Result<u64> {
    let turns = messages.div_ceil(PAIRS * AT_ONCE);
    let done: Vec<Result<()>> = std::thread::scope(|scope| {
        let spawn =
            |pair| scope.spawn(move || (0..turns).try_for_each(|turn| one_turn(gate, pair, (round << 32) | turn)));
        let pairs: Vec<_> = (0..PAIRS).map(spawn).collect();
        pairs.into_iter().map(|pair| pair.join().unwrap_or_else(|_| bail!("a pair panicked"))).collect()
    });
    done.into_iter().collect::<Result<Vec<()>>>()?;
    Ok(turns * PAIRS * AT_ONCE)
}

fn one_turn(gate: &Gate, pair: u64, turn: u64) -> Result<()> {
    let (from, to) = (AgentId::new(sender(pair))?, AgentId::new(recipient(pair))?);
    for number in 0..AT_ONCE {
        let params = format!(r#"{{"to":"{to}","text":"what was found in case {number}"}}"#);
        let key = format!("{turn:016x}{number:016x}");
        let body = format!(r#"{{"pact":"office","action":"tell","idempotency_key":"{key}","params":{params}}}"#);
        let action = gate.admit(from.clone(), Auth::None, body.into())?;
        let Answer::Entered(entered) = gate.call(Request::Act(Box::new(action)))? else {
            bail!("it was decided before")
        };
        ensure!(entered.entry.delivery().is_some(), "a message was not delivered: {:?}", entered.entry.event);
    }
    let page = gate.inbox(&to, &Auth::None, None, usize::try_from(AT_ONCE)?).context("the inbox cannot be read")?;
    let messages: Vec<MessageId> = page.messages.iter().map(|message| message.id).collect();
    ensure!(messages.len() as u64 == AT_ONCE, "{} messages wait, and {AT_ONCE} were sent", messages.len());
    gate.call(Request::Acknowledge { by: to, auth: Auth::None, messages })?;
    Ok(())
}
