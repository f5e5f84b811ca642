//! The bytes of calls: how a dispatch stands in a payload, and how it is read back after a restart.

use super::decode::DecodeError;
use super::encode::{Form, write_list};
use super::payload::DueWrite;
use crate::call::{
    Call, Evidence, ExternalHow, ExternalRead, Found, FoundCode, Measured, OnError, Probe, Send, Statement,
};
use crate::canonical::Canonical;
use crate::decision::{Dispatched, InFlight, RestsOn};
use crate::fence::Fenced;
use crate::ids::{ActionName, FactId};
use crate::value::Value;
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;

/// Writes what an entry puts under way.
pub(super) fn write_in_flight(out: &mut Canonical, in_flight: &InFlight) {
    out.open('{');
    match in_flight {
        InFlight::Cooling { dispatch_at_ms } => {
            out.key("dispatch_at");
            out.u64(*dispatch_at_ms);
        }
        InFlight::Dispatched(dispatched) => {
            out.key("call");
            write_call(out, &dispatched.call);
            out.key("fences");
            out.open('[');
            for Fenced { fact, version, sets } in &dispatched.fenced {
                out.element();
                out.open('{');
                out.key("fact");
                out.fact(fact);
                out.key("sets");
                out.bool(*sets);
                out.key("version");
                out.u64(*version);
                out.close('}');
            }
            out.close(']');
            out.key("writes");
            // What is yet to be written is in no leaf.
            write_list(out, &dispatched.writes, Form::Shown);
        }
    }
    out.close('}');
}

/// A call as entries show it.
pub fn shown_call(call: &Call) -> Json {
    let mut out = Canonical::new();
    write_call(&mut out, call);
    // What was written is JSON.
    serde_json::from_str(out.as_str()).unwrap_or_default()
}

fn write_call(out: &mut Canonical, call: &Call) {
    out.open('{');
    out.key("adapter");
    out.string(&call.adapter);
    out.key("deadline");
    out.u64(call.deadline_ms);
    if !call.outside.is_empty() {
        out.key("external");
        out.open('[');
        for ExternalRead { fact, adapter, how } in &call.outside {
            out.element();
            out.open('{');
            out.key("adapter");
            out.string(adapter);
            out.key("fact");
            out.fact(fact);
            match how {
                ExternalHow::Query(query) => {
                    out.key("query");
                    out.string(query);
                }
                ExternalHow::Path(path) => {
                    out.key("path");
                    out.string(path);
                }
                ExternalHow::Tool { tool, arguments, at, key } => {
                    out.key("tool");
                    out.open('{');
                    out.key("arguments");
                    out.json(arguments);
                    out.key("at");
                    out.string(at);
                    if let Some((member, is)) = key {
                        out.key("key");
                        out.open('{');
                        out.key("is");
                        out.string(is);
                        out.key("member");
                        out.string(member);
                        out.close('}');
                    }
                    out.key("name");
                    out.string(tool);
                    out.close('}');
                }
            }
            out.close('}');
        }
        out.close(']');
    }
    if let Some(probe) = &call.probe {
        out.key("probe");
        out.open('{');
        out.key("absent_after");
        out.u64(probe.absent_after_ms);
        if let Some(at) = &probe.at {
            out.key("at");
            out.string(at);
        }
        out.key("send");
        write_send(out, &probe.send);
        out.close('}');
    }
    out.key("retries");
    out.u64(call.retries.into());
    if let Some(send) = &call.send {
        out.key("send");
        write_send(out, send);
    }
    out.key("timeout");
    out.u64(call.timeout_ms);
    if let Some(undo) = &call.undo {
        out.key("undo");
        out.string(undo.as_str());
    }
    out.close('}');
}

/// Writes what is sent.
pub(super) fn write_send(out: &mut Canonical, send: &Send) {
    out.open('{');
    match send {
        Send::Http { method, path, body } => {
            if let Some(body) = body {
                out.key("body");
                out.json(body);
            }
            out.key("method");
            out.string(method);
            out.key("path");
            out.string(path);
        }
        Send::Command { args } => {
            out.key("args");
            out.open('[');
            for arg in args {
                out.element();
                out.string(arg);
            }
            out.close(']');
        }
        Send::Sql { statements } => {
            out.key("statements");
            out.open('[');
            for Statement { sql, params } in statements {
                out.element();
                out.open('{');
                out.key("params");
                out.open('[');
                for param in params {
                    out.element();
                    param.write(out);
                }
                out.close(']');
                out.key("sql");
                out.string(sql);
                out.close('}');
            }
            out.close(']');
        }
        Send::Tool { tool, arguments, on_error } => {
            out.key("arguments");
            out.json(arguments);
            let said = match on_error {
                OnError::InDoubt => None,
                OnError::Failed => Some("fails_on_error"),
                OnError::Over => Some("over_on_error"),
            };
            if let Some(said) = said {
                out.key(said);
                out.bool(true);
            }
            out.key("tool");
            out.string(tool);
        }
    }
    out.close('}');
}

/// `effect` in a payload.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredInFlight {
    dispatch_at: Option<u64>,
    call: Option<StoredCall>,
    #[serde(default)]
    fences: Vec<StoredFence>,
    #[serde(default)]
    writes: Vec<DueWrite>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredFence {
    fact: FactId,
    sets: bool,
    version: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredCall {
    adapter: SmolStr,
    deadline: u64,
    #[serde(default)]
    external: Vec<StoredExternalRead>,
    probe: Option<StoredProbe>,
    retries: u32,
    send: Option<StoredSend>,
    timeout: u64,
    undo: Option<ActionName>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredExternalRead {
    adapter: SmolStr,
    fact: FactId,
    query: Option<String>,
    path: Option<String>,
    tool: Option<StoredTool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredTool {
    arguments: Json,
    at: SmolStr,
    key: Option<StoredKey>,
    name: SmolStr,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredKey {
    is: SmolStr,
    member: SmolStr,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredProbe {
    absent_after: u64,
    at: Option<SmolStr>,
    send: StoredSend,
}

/// `send` in a call, a probe or a settlement.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredSend {
    args: Option<Vec<SmolStr>>,
    arguments: Option<Json>,
    body: Option<Json>,
    #[serde(default)]
    fails_on_error: bool,
    method: Option<SmolStr>,
    #[serde(default)]
    over_on_error: bool,
    path: Option<String>,
    statements: Option<Vec<StoredStatement>>,
    tool: Option<SmolStr>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredStatement {
    params: Vec<Json>,
    sql: String,
}

impl StoredInFlight {
    pub(super) fn decode(self) -> Result<InFlight, DecodeError> {
        match (self.dispatch_at, self.call) {
            (Some(dispatch_at_ms), None) => Ok(InFlight::Cooling { dispatch_at_ms }),
            (None, Some(call)) => {
                let fenced = |fence: StoredFence| Fenced { fact: fence.fact, version: fence.version, sets: fence.sets };
                Ok(InFlight::Dispatched(Dispatched {
                    call: call.decode()?,
                    fenced: self.fences.into_iter().map(fenced).collect(),
                    writes: self.writes.into_iter().map(DueWrite::decode).collect(),
                    rests_on: RestsOn::default(),
                }))
            }
            _ => Err(DecodeError::Missing("call")),
        }
    }
}

impl StoredCall {
    fn decode(self) -> Result<Call, DecodeError> {
        let probe = |probe: StoredProbe| {
            let (send, absent_after_ms) = (probe.send.decode()?, probe.absent_after);
            Ok::<_, DecodeError>(Probe { send, absent_after_ms, at: probe.at })
        };
        Ok(Call {
            adapter: self.adapter,
            send: self.send.map(StoredSend::decode).transpose()?,
            timeout_ms: self.timeout,
            retries: self.retries,
            deadline_ms: self.deadline,
            probe: self.probe.map(probe).transpose()?,
            undo: self.undo,
            outside: self.external.into_iter().map(StoredExternalRead::decode).collect::<Result<_, _>>()?,
        })
    }
}

impl StoredExternalRead {
    fn decode(self) -> Result<ExternalRead, DecodeError> {
        let how = match (self.query, self.path, self.tool) {
            (Some(query), None, None) => ExternalHow::Query(query.into()),
            (None, Some(path), None) => ExternalHow::Path(path),
            (None, None, Some(StoredTool { arguments, at, key, name })) => {
                let key = key.map(|StoredKey { is, member }| (member, is));
                ExternalHow::Tool { tool: name, arguments, at, key }
            }
            _ => return Err(DecodeError::Missing("query")),
        };
        Ok(ExternalRead { fact: self.fact, adapter: self.adapter, how })
    }
}

impl StoredSend {
    pub(super) fn decode(self) -> Result<Send, DecodeError> {
        match (self.method, self.args, self.statements, self.tool) {
            (Some(method), None, None, None) => {
                let path = self.path.ok_or(DecodeError::Missing("path"))?;
                Ok(Send::Http { method, path, body: self.body })
            }
            (None, Some(args), None, None) => Ok(Send::Command { args }),
            (None, None, Some(statements), None) => {
                let statements = statements.into_iter().map(StoredStatement::decode).collect::<Result<_, _>>()?;
                Ok(Send::Sql { statements })
            }
            (None, None, None, Some(tool)) => {
                let arguments = self.arguments.ok_or(DecodeError::Missing("arguments"))?;
                let on_error = match (self.fails_on_error, self.over_on_error) {
                    (true, _) => OnError::Failed,
                    (false, true) => OnError::Over,
                    (false, false) => OnError::InDoubt,
                };
                Ok(Send::Tool { tool, arguments, on_error })
            }
            _ => Err(DecodeError::Missing("send")),
        }
    }
}

impl StoredStatement {
    fn decode(self) -> Result<Statement, DecodeError> {
        let params = self.params.iter().map(|param| Value::from_untyped_json(param, "params"));
        Ok(Statement { sql: self.sql.into(), params: params.collect::<Result<_, _>>()? })
    }
}

/// `evidence` in a settlement.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredEvidence {
    about: Option<String>,
    attempts: u32,
    because: Option<Box<Found>>,
    #[serde(default)]
    cut: bool,
    found: FoundCode,
    #[serde(default)]
    late: bool,
    number: Option<i64>,
    receipt: Option<String>,
    reread_ms: Option<u64>,
    result: Option<String>,
    said: Option<String>,
    status: Option<i64>,
    unkept: Option<u64>,
    window_ms: Option<u64>,
}

impl StoredEvidence {
    pub(super) fn decode(self) -> Result<Evidence, DecodeError> {
        let Self { about, because, found: code, number, said, .. } = self;
        let found = Box::new(Found { code, about, number, because, said }.checked()?);
        let Self { attempts, cut: is_cut, late: is_late, receipt, result, status, unkept, .. } = self;
        let measured = Measured { reread_ms: self.reread_ms, window_ms: self.window_ms };
        let measured = Some(measured).filter(|it| *it != Measured::default()).map(Box::new);
        Ok(Evidence { attempts, found, is_late, status, result, is_cut, unkept, receipt, measured })
    }
}
