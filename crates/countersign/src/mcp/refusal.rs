//! What a model is told when a call was not carried out (docs/formats/mcp.md): a tool result that is an error, one plain
//! sentence, and the same as an object to branch on.

use super::advice::Advice;
use super::direct::not_listed;
use super::message::{Message, Raw, raw, sent};
use super::operator::OperatorCommands;
use super::shell::word;
use super::tool::Tool;
use crate::commands::{is_refused, is_refused_as, is_unanswered, is_unknown};
use countersign_api::{ErrorCode, ObserveResponse, Verdict, VerdictKind};
use countersign_core::call::FoundCode;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// What to do where the gate's settings have no server for a call.
const ASK_OPERATOR: &str =
    "Tell an operator to add it under [mcp.upstream] in the gate's countersign.toml and restart the gate.";

/// Where the object stands in `_meta`.
pub const MEMBER: &str = "countersign";

/// The most that a refusal says to a model, unless it is asked for more.
pub const TEXT_BYTES_MAX: usize = 2048;

/// What a client branches on in the object.
const BRANCHED_ON: [&str; 6] = ["code", "continuation", "error", "more", "retry", "verdict"];

/// What the gate answers to a reading whatever its arguments are.
const ASKED_AGAIN: [ErrorCode; 9] = [
    ErrorCode::AgentNotActive,
    ErrorCode::NotAllowed,
    ErrorCode::NotAuthorised,
    ErrorCode::UnknownAgent,
    ErrorCode::Busy,
    ErrorCode::RateLimited,
    ErrorCode::NotReady,
    ErrorCode::ShuttingDown,
    ErrorCode::LedgerFailed,
];

/// Words of the gate as a sentence.
fn sentence(words: &str) -> String {
    let mut chars = words.trim().chars();
    let Some(first) = chars.next() else { return String::new() };
    let rest = chars.as_str();
    let end = if rest.ends_with(['.', '!', '?', ':', '`']) || rest.contains("countersign ") { "" } else { "." };
    first.to_uppercase().chain(rest.chars()).collect::<String>() + end
}

/// Why a call was not carried out.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// What to branch on here. Where a verdict says why, that has the code.
    code: &'static str,
    text: String,
    object: Value,
    /// Whether the gate did not answer at all.
    is_unanswered: bool,
}

/// The code of a refusal that is a verdict of the gate.
const BY_VERDICT: &str = "verdict";
/// The codes of refusals that others here branch on.
const NOT_READ: &str = "not_read";
const GATE_UNREACHABLE: &str = "gate_unreachable";

impl Refusal {
    /// There is no verdict: something stood in the way before the gate was asked, or the gate itself.
    fn error(code: &'static str, message: String, hint: &str, how: &str) -> Self {
        let text = format!("Not done: {message}. {hint}");
        Self {
            code,
            text,
            object: json!({"error": {"code": code, "message": message, "hint": hint}, "retry": {"how": how}}),
            is_unanswered: false,
        }
    }

    /// No one has a tool of this name.
    pub fn unknown(tool: &str) -> Self {
        Self::error("tool_unknown", format!("there is no tool `{tool}`"), "List the tools again.", "change")
    }

    /// The tool must not be used as it is.
    pub fn unfit(tool: &str, why: &str) -> Self {
        let message = format!("the tool `{tool}` is not to be used: {why}");
        Self::error("tool_unfit", message, "Tell a person; its server has to be fixed.", "never")
    }

    /// The tool is mapped, and not approved as it is.
    pub fn not_approved((upstream, tool): (&str, &str), name: &str) -> Self {
        let message = format!("the tool `{name}` is not approved, or its definition has changed since");
        let hint = format!("An operator reads it and runs: countersign mcp approve {upstream}/{tool}");
        Self::error("tool_not_approved", message, &hint, "never")
    }

    /// More answers than a write can name may not have reached the client.
    pub fn unsure(tool: &str, count: usize) -> Self {
        let message = format!("{count} answers may not have reached you, so it is not known what {tool} would rest on");
        Self::error("reading_unread", message, "Begin a new session, and read there what you rely on.", "change")
    }

    /// The arguments cannot be decided on.
    pub fn arguments(why: &str) -> Self {
        let message = format!("invalid arguments: {why}");
        Self::error("invalid_arguments", message, "Call the tool again with corrected arguments.", "change")
    }

    /// The arguments do not fit an entry, and what is in no entry is not called by the gate.
    pub fn arguments_too_long(tool: &str, chars: usize) -> Self {
        let message = format!(
            "the arguments of `{tool}` have {chars} characters, and the gate carries out calls with at most 200,000 characters of \
             arguments, fewer where many of them are quotes or line breaks"
        );
        let hint = "Do it in parts: several calls that each add or change a part. Where the tool has no such calls, tell an operator.";
        Self::error("arguments_too_long", message, hint, "change")
    }

    /// The same call was made before, and it is not known whether it was done.
    pub fn in_doubt(tool: &str, effect: &str, operator: &OperatorCommands) -> Self {
        let message =
            format!("you have made this call of {tool} before, and no one knows yet whether it was done ({effect})");
        let hint = format!(
            "Do not make it again: look at what it changes, and tell a person. An operator finds out and says so: {}",
            operator.resolve(effect)
        );
        Self::error("in_doubt", message, &hint, "never")
    }

    /// A write that is guarded as read belongs to no session, so no one knows what it rests on.
    pub fn no_session(tool: &str) -> Self {
        let message = format!("`{tool}` is guarded as read, and this request names no session");
        let hint = "Read first; the answer has the session in _meta.countersign.session. Send it along with this call.";
        Self::error("session_required", message, hint, "change")
    }

    /// A single request names a session that this gateway did not open, or not lately.
    pub fn unknown_session() -> Self {
        let message = "this gateway has no session of this name".to_owned();
        let hint = "Read again without naming one; the answer has a new one in _meta.countersign.session.";
        Self::error("session_not_open", message, hint, "change")
    }

    /// The gate does not have the session any more in which the client read.
    pub fn session_gone(tool: &str) -> Self {
        let message = format!("the gate no longer has the session in which you read, so {tool} would rest on nothing");
        Self::error("session_not_open", message, "Read again what it rests on, then make the call again.", "change")
    }

    /// The client may have read in one of the sessions that were cut off, and it is not known in which.
    pub fn session_unclear(tool: &str) -> Self {
        let message = format!(
            "a session of this agent was cut off, and it is not known whether it was yours, so {tool} would rest on nothing"
        );
        Self::error("session_not_open", message, "Read again what it rests on, then make the call again.", "change")
    }

    /// What a write rests on has changed.
    pub fn changed(text: &str, object: Value) -> Self {
        Self { code: BY_VERDICT, text: text.to_owned(), object, is_unanswered: false }
    }

    /// The gate's verdict on a call that a pact maps, with everything that goes on the wire.
    pub fn of_verdict(verdict: &Verdict, advice: Advice, object: Value) -> Self {
        let said = verdict.evidence.as_ref().map(|evidence| evidence.summary.clone());
        let message = advice.message.or_else(|| verdict.message.clone()).or(said).unwrap_or_default();
        let found = verdict.evidence.as_ref().map(|evidence| evidence.code.as_str());
        let hint = match found == Some(FoundCode::NoAdapter.as_str()) {
            true => ASK_OPERATOR.to_owned(),
            false => sentence(&advice.hint.or_else(|| verdict.hint.clone()).unwrap_or_default()),
        };
        // What follows on lines of its own ends with the line.
        let message = message.trim_end_matches('.');
        let end = if message.contains('\n') { "\n" } else { ". " };
        let ask = "Ask for it later with the tool countersign_continue; do not make the call again.";
        let text = match verdict.verdict {
            VerdictKind::Review => format!("Not done yet: a person has to decide. {message}. {ask}"),
            VerdictKind::InFlight => format!("Not known yet: the call is under way. {ask}"),
            VerdictKind::Failed if found == Some(FoundCode::ToolOver.as_str()) => {
                format!("It may have been carried out: {message}. Look at what it changes before you call it again.")
            }
            // Asking again finds nothing out: a probe does, or a person.
            VerdictKind::InDoubt => {
                let person = verdict.effect.as_ref().map_or_else(String::new, |effect| {
                    format!(" An operator finds out and says so: {}", countersign_core::reason::resolving(effect))
                });
                format!(
                    "No one knows whether it was done: {message}. Do not make the call again; once a probe or a person has found out, \
                     the tool countersign_continue tells what became of it.{person}"
                )
            }
            _ => format!("Not done: {message}{end}{hint}").trim_end().to_owned(),
        };
        Self { code: BY_VERDICT, text, object, is_unanswered: false }
    }

    /// With commands that an operator can run as they are.
    pub fn advised(mut self, operator: &OperatorCommands) -> Self {
        // The gate of this trial was that of another window, and does not come back by itself.
        if operator.is_beside() && self.is_unanswered {
            let message = "the window that had this trial open has ended, and the gate with it".to_owned();
            let hint = "Tell your user to start this agent again: it then opens the gate itself.";
            return Self::error("gate_ended", message, hint, "never");
        }
        self.text = operator.completed(&self.text);
        self
    }

    /// It was done, and what the tool answered was too long to keep; clients expect a structure that no one has any more.
    pub fn of_unkept(verdict: &Verdict) -> Self {
        let said = verdict.evidence.as_ref().map(|evidence| evidence.summary.clone()).unwrap_or_default();
        let mut object = serde_json::to_value(verdict).unwrap_or_default();
        if let Some(object) = object.as_object_mut() {
            object.insert("retry".to_owned(), json!({"how": "never"}));
        }
        let text = format!("It was done, and must not be called again: {said}.");
        Self { code: BY_VERDICT, text, object, is_unanswered: false }
    }

    /// The list of tools could not be had, so no one knows what is called.
    pub fn no_list(upstream: &str, why: &str) -> Self {
        let message = not_listed(&format!("the server `{upstream}`"), why, false);
        Self::error("upstream_failed", message, "Try again later.", "later")
    }

    /// The same with more lines: what has changed is told whatever came of the call.
    pub fn saying(mut self, lines: &[String]) -> Self {
        for line in lines {
            self.text.push('\n');
            self.text.push_str(line);
        }
        self
    }

    /// How much more it can say.
    pub fn room(&self) -> usize {
        TEXT_BYTES_MAX.saturating_sub(self.text.len())
    }

    /// Whether it says that something could not be read.
    pub fn is_unread(&self) -> bool {
        self.code == NOT_READ
    }

    /// A fact could not be read, or may not be shown.
    pub fn not_read(tool: &str, error: &anyhow::Error) -> Self {
        let text = error.to_string();
        if is_refused_as(error, ErrorCode::NoAdapter) {
            let message = format!("{tool} shows nothing: the gate has no server for it");
            return Self::error(NOT_READ, message, ASK_OPERATOR, "later");
        }
        // The gate says nothing, or not to this agent: with other arguments it would not, either.
        if !is_refused(error) || ASKED_AGAIN.iter().any(|code| is_refused_as(error, *code)) {
            return Self::no_gate(error);
        }
        let first = text.lines().next().unwrap_or_default();
        if is_refused_as(error, ErrorCode::ExternalUnread) {
            // Its server failed, or may not be asked as things are: other arguments help with neither.
            let message = format!("{tool} gave no answer: {first}");
            let hint = "Try once more in a moment. If it fails again, tell your user: an operator has to look at its server or at its \
                        approval.";
            return Self::error(NOT_READ, message, hint, "later");
        }
        let message = format!("{tool} shows nothing: {first}");
        let hint = "Call it with other arguments. Or an operator grants it, under [observe] in a pact.";
        Self::error(NOT_READ, message, hint, "change")
    }

    /// The agent may see a part of the fact, and the tool's answer holds all of it.
    pub fn withheld(tool: &str, shown: &ObserveResponse) -> Self {
        let names: Vec<&str> = shown.facts.iter().flat_map(|fact| &fact.withheld).map(String::as_str).collect();
        let what = if names.is_empty() { "a part".to_owned() } else { names.join(", ") };
        let message = format!("what {tool} answers is withheld: no pact shows this agent {what}");
        Self::error("withheld", message, "An operator can grant it, under [observe] in a pact.", "never")
    }

    /// The gate gave no verdict.
    pub fn no_gate(error: &anyhow::Error) -> Self {
        let first = error.to_string();
        let first = first.lines().next().unwrap_or_default();
        // Refused at the door: no later call fares better until an operator has done something about it.
        use ErrorCode as Code;
        for code in [
            Code::AgentNotActive,
            Code::NotAllowed,
            Code::NotAuthorised,
            Code::TrustTooLow,
            Code::UnknownAction,
            Code::UnknownAgent,
            Code::UnknownPact,
        ] {
            if is_refused_as(error, code) {
                return Self::error(code.as_str(), first.to_owned(), "Stop, and ask an operator.", "never");
            }
        }
        let message = format!("the gate gives no verdict: {first}");
        let is_unanswered = is_unanswered(error);
        Self { is_unanswered, ..Self::error(GATE_UNREACHABLE, message, "Try again later.", "later") }
    }

    /// The gate gave no verdict on a call that it makes itself: it may be under way anyway.
    pub fn no_verdict(error: &anyhow::Error, key: &str) -> Self {
        if !is_unknown(error) {
            return Self::no_gate(error);
        }
        let first = error.to_string();
        let message = format!("the gate gave no verdict: {}", first.lines().next().unwrap_or_default());
        let hint = "Do not make the call again. A client that gave it an idempotency key repeats it with the same key, which \
                    never does it twice; otherwise, have a person check the ledger.";
        let mut refusal = Self::unknown_outcome(&message, hint, "never");
        refusal.put("error", "idempotency_key", json!(key));
        refusal
    }

    /// An action was asked for before under the client's key. Whether it was this one only the client can say.
    pub fn made_before(key: &str, entry: Option<u64>, verdict: Option<&Verdict>, word: Option<String>) -> Self {
        let place = entry.map(|entry| format!(", in entry {entry}")).unwrap_or_default();
        let verdict = verdict.map(|verdict| serde_json::to_value(verdict).unwrap_or_default());
        let became = match verdict.as_ref().and_then(|verdict| verdict.get("verdict")?.as_str()) {
            Some(kind) => format!(" and is now {kind}"),
            None => ", and what came of it is not kept".to_owned(),
        };
        let message =
            format!("this idempotency key was already used for a call{place}{became}; this call was not sent");
        let hint = match &word {
            Some(_) => {
                "Do not make the call again. Ask for the earlier one with the tool countersign_continue; a call with other \
                 arguments needs a key of its own."
            }
            None => {
                "Do not make the call again before you have looked at what it changes; a call with other arguments needs a key \
                 of its own."
            }
        };
        let mut refusal = Self::unknown_outcome(&message, hint, if word.is_some() { "continue" } else { "never" });
        refusal.put("error", "idempotency_key", json!(key));
        refusal.put("error", "entry", json!(entry));
        if let (Some(object), Some(word)) = (refusal.object.as_object_mut(), word) {
            object.insert("continuation".to_owned(), json!(word));
        }
        if let (Some(object), Some(verdict)) = (refusal.object.as_object_mut(), verdict) {
            object.insert("earlier".to_owned(), verdict);
        }
        refusal
    }

    /// The gate could not be asked what became of a call.
    pub fn not_known(error: &anyhow::Error, word: &str) -> Self {
        let first = error.to_string();
        let message = format!("the gate does not say what became of it: {}", first.lines().next().unwrap_or_default());
        let hint = "Do not make the call again; ask again later with the same continuation.";
        let mut refusal = Self::unknown_outcome(&message, hint, "continue");
        if let Some(object) = refusal.object.as_object_mut() {
            object.insert("continuation".to_owned(), json!(word));
        }
        refusal
    }

    /// It was not said which call is asked for.
    pub fn no_continuation() -> Self {
        let hint = "Call it with the continuation that the result of that call has.";
        Self::error("invalid_arguments", "the argument `continuation` is missing".to_owned(), hint, "change")
    }

    /// A call was asked for by a word that names none here. One may have been made anyway.
    pub fn no_word(why: &str) -> Self {
        let hint = "Do not make the call again: it may have been made. A client that gave it an idempotency key repeats it with \
                    the same key, which never does it twice; otherwise, have a person check the ledger.";
        Self::unknown_outcome(why, hint, "never")
    }

    /// The same for a call under a client's own key: that this one was not made says nothing about an earlier one.
    pub fn under(self, key: &str) -> Self {
        if self.code != GATE_UNREACHABLE {
            return self;
        }
        let message = self.object.pointer("/error/message").and_then(Value::as_str).unwrap_or_default();
        let message = format!("{message}; this call was not made, and an earlier one under its key may have been");
        let mut refusal = Self::unknown_outcome(&message, "Repeat it later with the same key, and no other.", "later");
        refusal.put("error", "idempotency_key", json!(key));
        refusal
    }

    fn unknown_outcome(message: &str, hint: &str, how: &str) -> Self {
        let mut retry = json!({"how": how});
        if let ("continue", Some(retry)) = (how, retry.as_object_mut()) {
            retry.insert("after_ms".to_owned(), json!(1000));
        }
        let code = "outcome_unknown";
        let error = json!({"code": code, "message": message, "hint": hint});
        let text = format!("It is not known whether this was done: {message}. {hint}");
        Self { code, text, object: json!({"error": error, "retry": retry}), is_unanswered: false }
    }

    fn put(&mut self, inside: &str, name: &str, value: Value) {
        if let Some(object) = self.object.get_mut(inside).and_then(Value::as_object_mut) {
            object.insert(name.to_owned(), value);
        }
    }

    /// A pact that this gateway cannot read may map the tool.
    pub fn unread(tool: &str, pact: &str) -> Self {
        let message = format!("the pact `{pact}`, which may guard `{tool}`, cannot be read by this gateway");
        Self::error(
            "pact_unread",
            message,
            "Ask the operator of the gateway to run the same version of countersign as the gate.",
            "never",
        )
    }

    /// The gate decided for a link, or for a definition, that is no longer there.
    pub fn outrun(tool: &str) -> Self {
        let message =
            format!("nothing was sent: the server of `{tool}` or its list of tools changed while the gate decided");
        Self::error("call_outrun", message, "Call it again.", "later")
    }

    /// The gate's verdict on a use of a server otherwise than by a call of a tool.
    pub fn of_use(upstream: &str, method: &str, verdict: &Verdict) -> Self {
        let failed = |id: &str| verdict.failed.iter().any(|failed| failed.precondition == id);
        let (message, hint) = if verdict.code.as_deref() == Some("fact_missing") {
            let hint = format!("An operator approves it: countersign mcp approve --upstream '{upstream}=…'");
            (format!("the server `{upstream}` is not approved"), hint)
        } else if failed("server-may-be-used") {
            let hint = format!(
                "An operator can allow it: countersign fact put {} {upstream} '{{\"uses\": true, \"guard\": \"as-read\"}}', without \
                 `guard` where it has none",
                super::gate::SERVER_TYPE
            );
            (format!("agents may use the tools of `{upstream}` and nothing else"), hint)
        } else if failed("reads-only-or-server-unguarded") {
            let hint = "What becomes of a call is told by the tool countersign_continue. An operator can end the guard: \
                        countersign mcp approve --guard none";
            (format!("`{upstream}` is guarded as read, and {method} may change something there"), hint.to_owned())
        } else if failed("reads-only-or-not-relied-on") {
            let hint = "What becomes of a call is told by the tool countersign_continue. What a method changes, a tool that a pact maps \
                        can change in its turn.";
            let message =
                format!("calls under a pact rest on what is at `{upstream}`, and {method} may change something there");
            (message, hint.to_owned())
        } else {
            let message = verdict.message.clone().unwrap_or_else(|| "the gate says no".to_owned());
            (message, verdict.hint.clone().unwrap_or_default())
        };
        Self::in_words(verdict, &format!("{method} was not passed on"), &message, &hint)
    }

    /// A verdict under the gateway's own pact, in words for a model.
    fn in_words(verdict: &Verdict, what: &str, message: &str, hint: &str) -> Self {
        let mut object = serde_json::to_value(verdict).unwrap_or_default();
        if let Some(object) = object.as_object_mut() {
            object.insert("message".to_owned(), json!(message));
            object.insert("hint".to_owned(), json!(hint));
            object.insert("retry".to_owned(), json!({"how": "never"}));
        }
        let text = format!("{what}: {message}. {}", sentence(hint));
        Self { code: BY_VERDICT, text, object, is_unanswered: false }
    }

    /// No one has said what becomes of this method.
    pub fn method(method: &str) -> Self {
        let method: String = method.chars().take(128).collect();
        let message = format!("the gateway does not pass on the method `{method}`: it is not known what it does");
        let hint = "The operator of the gateway can allow it: --allow-method, or allow_methods in countersign.toml.";
        Self::error("method_not_passed", message, hint, "never")
    }

    /// As the answer to a request that is no call of a tool.
    pub fn answer(&self, id: &RawValue, code: i64) -> Message {
        let mut answer = Message::error(id, code, &self.text);
        answer.set_error(raw(&json!({"code": code, "message": self.text, "data": {MEMBER: self.object}})));
        answer
    }

    /// The gate's verdict on a call that no pact maps.
    pub fn of_unmapped((upstream, tool): (&str, &Tool), name: &str, verdict: &Verdict, is_relied_on: bool) -> Self {
        let failed = |id: &str| verdict.failed.iter().any(|failed| failed.precondition == id);
        let place = word(&format!("{upstream}/{}", tool.name));
        let approve = format!("An operator reads it and runs: countersign mcp approve {place}");
        let (message, hint) = if verdict.code.as_deref() == Some("fact_missing") {
            (format!("the tool `{name}` is not approved"), approve)
        } else if failed("definition-as-approved") {
            (format!("the definition of the tool `{name}` has changed since it was approved"), approve)
        } else if failed("reads-only-or-server-unguarded") {
            let message = format!("the server `{upstream}` is guarded as read, and its tool `{name}` is not");
            (message, format!("{approve} --guard as-read"))
        } else if failed("reads-only-or-let-pass") {
            let message = format!("no pact maps the tool `{name}`, and it may change something");
            let message = match is_relied_on {
                // Beside the settings, which let it pass at other servers.
                true => format!(
                    "{message}; calls under a pact rest on what is at `{upstream}`, so nothing else may change it"
                ),
                false => message,
            };
            let hint = format!(
                "An operator can guard it by what you have read, with countersign mcp approve {place} --guard as-read, or write a pact \
                 for it, with countersign pact init --mcp."
            );
            (message, hint)
        } else {
            let message = verdict.message.clone().unwrap_or_else(|| "the gate says no".to_owned());
            (message, verdict.hint.clone().unwrap_or_default())
        };
        Self::in_words(verdict, "Not done", &message, &hint)
    }

    /// What is branched on of the object, in what room there is. All of it stands in `_meta`: a model has no use for the rest.
    fn object_text(&self) -> Option<String> {
        let has_calls = self.object.pointer("/retry/calls").is_some();
        let write = |value: &Value| if has_calls { sent(value).get().to_owned() } else { value.to_string() };
        let mut some = self.object.clone();
        if let Some(members) = some.as_object_mut() {
            members.retain(|name, _| BRANCHED_ON.contains(&name.as_str()));
        }
        // The text before it has said it in words.
        if let Some(error) = some.get_mut("error").and_then(Value::as_object_mut) {
            error.retain(|name, _| !["hint", "message"].contains(&name.as_str()));
        }
        let mut least = some.clone();
        if let Some(retry) = least.get_mut("retry").and_then(Value::as_object_mut) {
            retry.remove("calls");
        }
        let texts = [write(&json!({MEMBER: some})), write(&json!({MEMBER: least}))];
        texts.into_iter().find(|text| text.len() <= self.room())
    }

    /// As the result of a tool. The object stands in `_meta`, and what is branched on of it in a text, as far as a refusal has room for it.
    /// There is no structured content: clients in wide use compare it with the tool's `outputSchema` also where the result is an error,
    /// and others show a model nothing else, whatever its length is.
    pub fn result(&self) -> Raw {
        let texts = std::iter::once(self.text.clone()).chain(self.object_text());
        let result = json!({
            "content": texts.map(|text| json!({"type": "text", "text": text})).collect::<Vec<_>>(),
            "isError": true,
            // Required since the stateless revision, and of no meaning before it.
            "resultType": "complete",
            "_meta": {MEMBER: self.object},
        });
        // Arguments to call a tool with again are written as they were: each number with its digits.
        if self.object.pointer("/retry/calls").is_some() { sent(&result) } else { raw(&result) }
    }
}

#[cfg(test)]
mod tests;
