//! What the gateway asks the gate, in an agent's name: which tools are approved as they are, and whether a call may pass.
//!
//! Both are facts and verdicts like any other. An approved definition is a fact that an operator fed, and so is whether the tool
//! only reads. A call of a tool that no pact maps, and any other use of a server, is an action under the gateway's own small pact
//! (`calls.toml`). So every one is an entry before it is sent, and halts, standings and revocations hold for it without a line of
//! code here.

use super::delivery::Delivery;
use super::gated::Calls;
use super::message::Raw;
use super::names::Names;
use super::observed::Observations;
use super::operator::OperatorCommands;
use super::refusal::Refusal;
use super::resumed::Notes;
use super::settings::Unmapped;
use super::tool::{Tool, fact_id};
use crate::client::{Call, Client};
use crate::commands::{entry_of, is_refused_as};
use crate::terminal::note;
use anyhow::Result;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use countersign_api::{ActionRequest, ErrorCode, ObserveRequest, ObserveResponse, Outdated, Verdict, VerdictKind};
use countersign_core::ids::{Digest, FactId, FactType, IdempotencyKey};
use countersign_core::limits::READS_MAX;
use countersign_core::screen::visible::one_line;
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The pact that calls of unmapped tools are decided under.
pub const PACT: &str = include_str!("calls.toml");
/// Its name.
pub const PACT_NAME: &str = countersign_core::session::GATEWAY_PACT;
/// The type of the facts that say which tools are approved.
pub const FACT_TYPE: &str = "McpTool";
/// The type of the facts that say which servers may be used otherwise.
pub const SERVER_TYPE: &str = "McpServer";
/// The type of the facts that say which servers are only watched.
pub const SHADOW_TYPE: &str = "McpShadow";
/// What a tool's `guard` says where its calls are made by the gate's worker.
pub const AS_READ: &str = "as-read";
/// How much is recorded of what a use is about; as the pact has it.
const ABOUT_BYTES_MAX: usize = 256;

/// A gate, and the agent in whose name it is asked.
pub struct GateClient {
    pub(super) client: Client,
    pub(super) agent: String,
    pub(super) calls: Calls,
    /// What operators are told to run.
    pub(super) operator: OperatorCommands,
    unmapped: Unmapped,
    /// What the words of a client over standard input are sealed with, the same after a restart.
    secret: [u8; 32],
    /// Where sessions over standard input are noted.
    notes: Option<Notes>,
    /// By which names its agent knows tools.
    pub(super) names: Names,
}

/// A call of a tool, as a client makes it.
pub struct Calling {
    /// The server.
    pub upstream: String,
    /// The tool, as the server has it.
    pub tool: Tool,
    /// The arguments, as they stand; empty where there are none.
    pub arguments: String,
    /// All that is sent, the arguments among it; recorded by its hash.
    pub content: String,
    /// The client's own idempotency key.
    pub key: Option<String>,
    /// The session that it names.
    pub session: Option<String>,
    /// Goes with its answer.
    pub delivery: Arc<Delivery>,
}

/// A use of a server otherwise than by a call of a tool.
pub struct Using {
    /// The server.
    pub upstream: String,
    /// The method: what the client asks, or what it answers.
    pub method: String,
    /// What it is about: a URI, the name of a prompt.
    pub about: String,
    /// All of it, as it is sent; recorded by its hash.
    pub content: String,
    /// The session that it names.
    pub session: Option<String>,
    /// Goes with its answer, where the gate may read it.
    pub delivery: Option<Arc<Delivery>>,
}

/// What becomes of a call.
pub enum Decided {
    /// It may pass. What its session has read that reads differently by now is told with the answer.
    Pass(Vec<Outdated>),
    /// The gate itself saw to it; this is the result.
    Answer(Raw),
}

/// What lets a call pass under the gateway's own pact, if the tool does not say that it only reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unless {
    /// The gateway's settings, if they do.
    Unmapped(Unmapped),
    /// Nothing, whatever the settings say: what is passed on takes no turn, and calls rest on what is at its server.
    ReliedOn,
    /// A pact names it as the source of a fact, so it is a tool that reads.
    Observes,
}

impl Unless {
    fn as_str(self) -> &'static str {
        match self {
            Self::Unmapped(rule) => rule.as_str(),
            Self::ReliedOn => Unmapped::Deny.as_str(),
            Self::Observes => "observes",
        }
    }
}

/// What an operator approved a tool as, whose definition is still the approved one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Approved {
    /// Whether its calls are made by the gate's worker, and what they read is compared.
    pub is_as_read: bool,
    /// Whether it only reads.
    pub read_only: bool,
}

/// What an admin has approved of the guards of a server, as far as an agent is shown it.
#[derive(Debug, Default)]
pub struct Guarded {
    /// Whether the server is guarded.
    pub server: bool,
    /// Whether its guarded tools are only watched.
    pub is_watched: bool,
    /// Those that are guarded of the tools that were asked about.
    pub tools: HashSet<String>,
    /// Those that count as tools that only read.
    pub reads: HashSet<String>,
    /// Those that are not approved at all.
    pub unknown: HashSet<String>,
}

/// Whether a tool is approved as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approval {
    AsItIs,
    /// Its definition is another than the one that was approved.
    Changed,
    /// No one has approved it.
    Missing,
}

/// The fact that says whether a tool is approved.
pub fn tool_fact(upstream: &str, tool: &str) -> Result<FactId> {
    let id = fact_id(upstream, tool).ok_or_else(|| anyhow::anyhow!("the name of the tool is empty or too long"))?;
    Ok(FactId::new(FactType::new(FACT_TYPE)?, id.as_str())?)
}

/// Whether what an admin said of shadow mode still holds.
fn is_watched_at(value: &Value, now: SystemTime) -> bool {
    let now_ms = now.duration_since(UNIX_EPOCH).map_or(u128::MAX, |since| since.as_millis());
    value.get("until").and_then(Value::as_u64).is_none_or(|until| now_ms < u128::from(until))
}

impl GateClient {
    /// Asks this gate in the name of this agent.
    pub fn new(client: Client, agent: String, unmapped: Unmapped, secret: [u8; 32]) -> Self {
        let (calls, names, operator) = (Calls::default(), Names::default(), OperatorCommands::default());
        Self { client, agent, calls, operator, unmapped, secret, notes: None, names }
    }

    /// Tells its agent of tools by these names.
    pub fn naming(self, names: Names) -> Self {
        Self { names, ..self }
    }

    /// Says what operators are told to run.
    pub fn advising(self, operator: OperatorCommands) -> Self {
        Self { operator, ..self }
    }

    /// Notes sessions over standard input under the gate's name, and goes on in those that were cut off.
    pub fn noting(self, gate: &str) -> Self {
        let notes = Notes::new(&self.secret, gate);
        if !notes.has_folder() {
            note(
                "note: there is no private folder to note sessions in, neither in XDG_RUNTIME_DIR nor in the temporary folder. If this \
                 gateway is killed, what was read is forgotten. Until something is read, guarded calls are refused",
            );
        }
        Self { notes: Some(notes), ..self }
    }

    /// Where sessions of clients over HTTP are noted.
    pub(super) fn notes_over_http(&self) -> Option<Notes> {
        self.notes.as_ref().map(Notes::over_http)
    }

    /// What the words of a client over HTTP are sealed with: they are good for its id alone.
    pub(super) fn secret_of(&self, id: &str) -> [u8; 32] {
        Digest::of(&[b"countersign words\0".as_slice(), &self.secret, id.as_bytes()].concat()).0
    }

    /// What a client over standard input was shown: nothing yet. It is the only client of its gateway, so what it was given to ask
    /// again by is good for the gateway that is started for it next.
    pub fn seen_over_stdio(&self) -> Arc<Observations> {
        Arc::new(Observations::sealed_with(self.secret).noted(self.notes.clone()))
    }

    /// What a tool is approved as, right now; `None` where it is not, or has changed.
    pub(super) fn look_up(&self, upstream: &str, tool: &Tool) -> Result<Option<Approved>> {
        let facts = vec![tool_fact(upstream, &tool.name)?.to_string()];
        let call = Call::post("/v1/observe")
            .agent(&self.agent)
            .json(&ObserveRequest { facts, answers: false, attest: false, session: None })?
            .reading();
        let shown: ObserveResponse = self.client.call(call)?;
        let value = shown.facts.into_iter().next().and_then(|fact| fact.value);
        let value = value.filter(|value| value.get("definition").and_then(Value::as_str) == Some(&tool.definition));
        Ok(value.map(|value| Approved {
            is_as_read: value.get("guard").and_then(Value::as_str) == Some(AS_READ),
            read_only: value.get("read_only") == Some(&Value::Bool(true)),
        }))
    }

    /// Whether resources of a server are read by the gate's worker.
    pub(super) fn is_server_guarded(&self, upstream: &str) -> Result<bool> {
        let fact = FactId::new(FactType::new(SERVER_TYPE)?, upstream)?.to_string();
        Ok(is_guarded(self.values(vec![fact])?.next().flatten().as_ref()))
    }

    /// The values of facts, as far as the agent is shown them.
    fn values(&self, facts: Vec<String>) -> Result<impl Iterator<Item = Option<Value>>> {
        let call = Call::post("/v1/observe")
            .agent(&self.agent)
            .json(&ObserveRequest { facts, answers: false, attest: false, session: None })?
            .reading();
        Ok(self.client.call::<ObserveResponse>(call)?.facts.into_iter().map(|fact| fact.value))
    }

    /// What an admin has approved of the guards of a server and of some of its tools.
    pub fn guarded(&self, upstream: &str, tools: &[&str]) -> Result<Guarded> {
        let fact = |ty: &str| Ok::<_, anyhow::Error>(FactId::new(FactType::new(ty)?, upstream)?.to_string());
        let mut facts = vec![fact(SERVER_TYPE)?, fact(SHADOW_TYPE)?];
        for tool in tools.iter().take(READS_MAX.saturating_sub(facts.len())) {
            facts.push(tool_fact(upstream, tool)?.to_string());
        }
        let mut values = self.values(facts)?;
        let server = is_guarded(values.next().flatten().as_ref());
        let is_watched = values.next().flatten().is_some_and(|value| is_watched_at(&value, SystemTime::now()));
        let (mut guarded, mut reads, mut unknown) = (HashSet::new(), HashSet::new(), HashSet::new());
        for (tool, value) in tools.iter().zip(values) {
            let tool = (*tool).to_owned();
            match value {
                None => drop(unknown.insert(tool)),
                Some(value) => {
                    if value.get("read_only") == Some(&Value::Bool(true)) {
                        reads.insert(tool.clone());
                    }
                    if is_guarded(Some(&value)) {
                        guarded.insert(tool);
                    }
                }
            }
        }
        Ok(Guarded { server, is_watched, tools: guarded, reads, unknown })
    }

    /// Whether the gate itself makes calls of an upstream, so that a call may not be over when it is answered.
    pub fn makes_calls_of(&self, upstream: &str) -> bool {
        self.mapping().is_ok_and(|mapping| mapping.calls_any_of(upstream))
            || self.is_server_guarded(upstream).unwrap_or(false)
    }

    /// Whether the guarded tools of a server are only watched: where the settings and an admin both say so.
    pub(super) fn is_watched(&self, upstream: &str) -> Result<bool> {
        if self.unmapped != Unmapped::Shadow {
            return Ok(false);
        }
        Ok(self.guarded(upstream, &[])?.is_watched)
    }

    /// Which of these tools are approved. Where the gate cannot be asked, the error says so and nothing is approved.
    pub fn approvals(&self, upstream: &str, tools: &[Tool]) -> Result<Vec<Approval>> {
        let facts: Vec<Option<String>> =
            tools.iter().map(|tool| tool_fact(upstream, &tool.name).ok().map(|fact| fact.to_string())).collect();
        let mut wanted: Vec<String> = facts.iter().flatten().cloned().collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut approved: HashMap<String, String> = HashMap::new();
        for some in wanted.chunks(READS_MAX) {
            let call = Call::post("/v1/observe")
                .agent(&self.agent)
                .json(&ObserveRequest { facts: some.to_vec(), answers: false, attest: false, session: None })?
                .reading();
            let shown: ObserveResponse = self.client.call(call)?;
            for fact in shown.facts {
                let definition = fact.value.as_ref().and_then(|value| value.get("definition")).and_then(Value::as_str);
                approved.extend(definition.map(|definition| (fact.fact, definition.to_owned())));
            }
        }
        let approval = |(tool, fact): (&Tool, Option<String>)| match fact.and_then(|fact| approved.get(&fact)) {
            Some(definition) if *definition == tool.definition => Approval::AsItIs,
            Some(_) => Approval::Changed,
            None => Approval::Missing,
        };
        Ok(tools.iter().zip(facts).map(approval).collect())
    }

    /// Decides a call; its entry stands when this returns.
    pub fn decide(&self, calling: &Calling, seen: &Observations) -> Result<Decided, Refusal> {
        let decided = match &calling.key {
            None => self.decide_under(calling, None, seen),
            // Before anything is kept under it.
            Some(key) => match IdempotencyKey::new(key) {
                Ok(_) => self.decide_under(calling, Some(key.clone()), seen).map_err(|refusal| refusal.under(key)),
                Err(error) => Err(Refusal::arguments(&error.to_string())),
            },
        };
        match &decided {
            Ok(Decided::Pass(_)) => calling.delivery.tells_nothing(),
            _ => calling.delivery.is_decided(),
        }
        decided
    }

    fn decide_under(&self, calling: &Calling, key: Option<String>, seen: &Observations) -> Result<Decided, Refusal> {
        let Calling { upstream, tool, arguments, .. } = calling;
        let mapping = self.mapping()?;
        if let Some(pact) = mapping.unread_about(&tool.name) {
            return Err(Refusal::unread(&self.names.of(upstream, &tool.name), pact));
        }
        match mapping.find(upstream, &tool.name) {
            [] if mapping.knows_nothing_of(upstream, &tool.name) => {
                calling.delivery.is_named();
                match self.approved_as(upstream, tool)? {
                    // Read or written by the gate's worker, and compared.
                    Some(Approved { is_as_read: true, read_only: true }) => {
                        self.read(calling, seen).map(Decided::Answer)
                    }
                    Some(Approved { is_as_read: true, .. }) => self.write(calling, key, seen).map(Decided::Answer),
                    _ => {
                        let is_relied_on = self.unmapped != Unmapped::Deny && mapping.is_relied_on(upstream);
                        let unless = if is_relied_on { Unless::ReliedOn } else { Unless::Unmapped(self.unmapped) };
                        self.may_pass(calling, unless, key).map(|()| self.passes(calling, seen))
                    }
                }
            }
            [] => {
                // What a pact shows of a fact holds for every call of the tool that reads it, not for one way to call it.
                let named = serde_json::from_str::<Map<String, Value>>(arguments);
                let facts = named.map(|named| mapping.observed(upstream, &tool.name, &named)).unwrap_or_default();
                // An operator approved it as a tool whose answers are kept and compared; then what it shows of facts is a reading too.
                let approved = self.approved_as(upstream, tool)?;
                let is_reading = approved.is_some_and(|approved| approved.is_as_read && approved.read_only);
                if facts.is_empty() || !is_reading {
                    calling.delivery.is_named();
                } else {
                    // Read once for each fact, and perhaps more than once: then it is not known how often.
                    calling.delivery.keeps_as(mapping.kept_as(&facts), facts.len().min(2));
                }
                if facts.is_empty() && mapping.lists_openly(upstream, &tool.name) {
                    return match is_reading {
                        true => self.read(calling, seen).map(Decided::Answer),
                        false => self.may_pass(calling, Unless::Observes, key).map(|()| self.passes(calling, seen)),
                    };
                }
                if facts.is_empty() {
                    return Err(Refusal::arguments(&mapping.accepted(upstream, &tool.name)));
                }
                self.observed(calling, &facts, is_reading, seen).map(Decided::Answer)
            }
            [mapped] => {
                calling.delivery.is_named();
                self.gated(calling, &mapping, mapped, key, seen).map(Decided::Answer)
            }
            [one, other, ..] => {
                let why = format!("{}/{} and {}/{} both map it", one.pact, one.action, other.pact, other.action);
                Err(Refusal::unfit(&self.names.of(upstream, &tool.name), &why))
            }
        }
    }

    fn passes(&self, calling: &Calling, seen: &Observations) -> Decided {
        Decided::Pass(self.outdated(calling, seen))
    }

    /// Whether a call of a tool that no pact maps as an action may pass. Under a client's own key it passes once: what came of
    /// it is the server's answer, which is kept nowhere, so who repeats the key is told that and nothing is sent.
    pub(super) fn may_pass(
        &self,
        calling: &Calling,
        unless_it_reads: Unless,
        key: Option<String>,
    ) -> Result<(), Refusal> {
        let Calling { upstream, tool, content, .. } = calling;
        let name = self.names.of(upstream, &tool.name);
        let id = fact_id(upstream, &tool.name).ok_or_else(|| Refusal::unfit(&name, "its name is too long"))?;
        let params = json!({
            "tool": id, "server": upstream, "definition": tool.definition, "content": super::tool::hash(content.as_bytes()),
            "unmapped": unless_it_reads.as_str(),
        });
        let verdict = self.act("call", params, key.clone()).map_err(|error| match &key {
            Some(key) if is_refused_as(&error, ErrorCode::IdempotencyKeyReused) => {
                Refusal::made_before(key, entry_of(&error), None, None)
            }
            _ => self.no_gate(&error),
        })?;
        match (verdict.verdict, key) {
            (VerdictKind::Committed, Some(key)) if verdict.repeated => {
                Err(Refusal::made_before(&key, verdict.entry, None, None))
            }
            (VerdictKind::Committed, _) => Ok(()),
            _ => Err(Refusal::of_unmapped((upstream, tool), &name, &verdict, unless_it_reads == Unless::ReliedOn)),
        }
    }

    /// Whether a server may be used otherwise than by a call of a tool; the entry stands when this returns.
    pub fn may_use(&self, using: &Using) -> Result<(), Refusal> {
        let Using { upstream, method, about, content, .. } = using;
        let about = one_line(about, ABOUT_BYTES_MAX);
        let content = super::tool::hash(content.as_bytes());
        let relied_on = self.mapping()?.is_relied_on(upstream) || self.mapping_now()?.is_relied_on(upstream);
        let params = json!({
            "server": upstream, "method": method, "about": about, "content": content, "relied_on": relied_on,
        });
        let verdict = self.act("use", params, None).map_err(|error| self.no_gate(&error))?;
        match verdict.verdict {
            VerdictKind::Committed => Ok(()),
            _ => Err(Refusal::of_use(upstream, method, &verdict)),
        }
    }

    fn act(&self, action: &str, params: Value, key: Option<String>) -> Result<Verdict> {
        let Value::Object(params) = params else { return Err(anyhow::anyhow!("the params are no object")) };
        let request = ActionRequest {
            pact: PACT_NAME.to_owned(),
            action: action.to_owned(),
            idempotency_key: key.map_or_else(random_key, Ok)?,
            params,
            observations: Vec::new(),
            delegation: None,
            claim: None,
            session: None,
            unsure: Vec::new(),
        };
        self.client.call(Call::post("/v1/actions").keyed(&request.idempotency_key).agent(&self.agent).json(&request)?)
    }

    /// Closes an embedded gate cleanly.
    pub fn close(self) -> Result<()> {
        self.client.close()
    }
}

/// Whether the value of a fact says that what it is about is guarded as read.
fn is_guarded(value: Option<&Value>) -> bool {
    value.and_then(|value| value.get("guard")?.as_str()) == Some(AS_READ)
}

/// An idempotency key that no one guesses.
pub(super) fn random_key() -> Result<String> {
    let mut key = [0; 18];
    getrandom::fill(&mut key).map_err(|error| anyhow::anyhow!("the system gives no randomness: {error}"))?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(key))
}
