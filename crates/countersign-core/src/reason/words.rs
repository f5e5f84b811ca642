//! Sentences and hints for people and models, made from a reason when it is shown.
//!
//! Nothing here decides or is recorded. Reword freely.

mod delegation;
mod misfit;
mod operators;

use operators::is_withdrawn;
pub use operators::{NEW_SESSION, RESOLVED_BY, resolving};

use super::{
    About, ChangedReading, ClaimLoss, Condition, Drift, EffectProblem, FailedPrecondition, FailedRead, IdProblem,
    LastChange, NotGroupable, ReadingRef, Reason, RuleFailure, Since, SpellingProblem, Unusable, UnusableReading, Why,
};
use crate::expression::EvalError;
use crate::ids::FactId;
use crate::limits::{
    CALL_TEXT_BYTES_MAX, EFFECTS_MAX, EFFECTS_PER_AGENT_MAX, FACT_BYTES_MAX, ID_BYTES_MAX, READINGS_MAX, REVIEWS_MAX,
    REVIEWS_PER_AGENT_MAX,
};
use crate::session::HeldTurn;
use crate::utc::{Span, Utc};
use crate::value::Value;
use std::fmt;

const NOT_ACTIVE_HINT: &str = "ask the operator named in the message";
const SHOW_AGAIN: &str = "nothing was done; show the review again and decide on that";

impl Reason {
    /// What is wrong, in one sentence.
    pub fn message(&self) -> String {
        match self {
            Self::UnknownPact { pact } => format!("no pact named `{pact}` has been published"),
            Self::Halted { scope, since, why } => format!("`{scope}` is halted {since}: {why}"),
            Self::UnknownAction { pact, version, action, .. } => {
                format!("pact `{pact}` version {version} has no action type `{action}`")
            }
            Self::NotInGroup { action, why } => {
                let why = match why {
                    NotGroupable::Call => "makes an external call, which can happen without the rest of the group",
                    NotGroupable::Wait => "may wait for a fence, and a group is decided at once",
                    NotGroupable::Claim => "acts under a claim",
                };
                format!("`{action}` cannot be part of an atomic group: it {why}")
            }
            Self::InvalidParams { problems } => {
                let list: Vec<String> = problems.iter().map(|problem| said_at(&problem.at, &problem.what)).collect();
                format!("the parameters do not fit the pact: {}", list.join("; "))
            }
            Self::NotAuthenticated { agent } => {
                format!("the action is not signed, and this gate accepts nothing unsigned from {agent}")
            }
            Self::UnknownAgent { agent } => format!("agent {agent} is not registered"),
            Self::AgentNotActive { agent, standing: Some(standing), since } => {
                format!("agent {agent} is {standing}, not \"active\"{}", after_comma(since.as_ref()))
            }
            Self::AgentNotActive { agent, standing: None, .. } => format!("agent {agent} has no standing"),
            Self::KeyNotCurrent { agent, key, at, since } => {
                let (entry, set_at, by) = (since.entry, Utc(since.at), &since.by);
                format!(
                    "key {key} is not a key of agent {agent} at {}; its keys were last set by entry {entry} at {set_at} by {by}",
                    Utc(*at)
                )
            }
            Self::DelegationWidened { hop, claims } => format!("{hop} claims {claims}"),
            Self::DelegationTooDeep { hop, depth, after } => {
                format!("{hop} may be passed on {depth} times, and was passed on {after} times")
            }
            Self::DelegationExpired { hop, expired_at, .. } => format!("{hop} expired at {}", Utc(*expired_at)),
            Self::DelegationMemberNotActive { agent, is_registered, standing, since } => {
                let since = after_comma(since.as_ref());
                match (is_registered, standing) {
                    (false, _) => format!("{agent}, a member of this delegation, is not registered{since}"),
                    (true, None) => {
                        format!("{agent}, a member of this delegation, is without standing, not \"active\"{since}")
                    }
                    (true, Some(standing)) => {
                        format!("{agent}, a member of this delegation, is {standing}, not \"active\"{since}")
                    }
                }
            }
            Self::DelegationKeyNotCurrent { agent, key, since } => format!(
                "{agent} is in this delegation under {key}, which is not its key; its key was last set in entry {} at {} by {}",
                since.entry,
                Utc(since.at),
                since.by
            ),
            Self::DelegationOutOfScope { why } => why.to_string(),
            Self::NotAllowed { agent, action, rule, why } => format!("{agent} may not do `{action}`: {rule} {why}"),
            Self::InvalidFactId { read, r#type, why } => format!("the id of `{read}` ({type}) cannot be built: {why}"),
            Self::FactMissing { fact, is_deleted: true, .. } => format!("{fact} has been deleted"),
            Self::FactMissing { fact, .. } => format!("{fact} does not exist"),
            Self::FactExists { fact, version } => format!("{fact} exists already, at version {version}"),
            Self::AliasedWrite { fact, names: [one, other] } => format!("`{one}` and `{other}` are both {fact}"),
            Self::TrustTooLow { agent, action, least, has, withheld } => {
                let has = match has {
                    _ if *withheld => "less".to_owned(),
                    Some(has) => has.to_string(),
                    None => "none".to_owned(),
                };
                format!("`{action}` requires trust of at least {least}; {agent} has {has}")
            }
            Self::ClaimLost { claim, why } => match why {
                ClaimLoss::Ended => {
                    format!("{claim} has ended: it expired, was withdrawn, or a higher priority took it")
                }
                ClaimLoss::OfAnother { agent } => format!("{claim} is not a claim of {agent}"),
                ClaimLoss::DoesNotCover { fact } => format!("{claim} does not cover {fact}, which this action changes"),
            },
            Self::FactClaimed { fact, claim, announced_at, .. } => {
                format!("{fact} is about to be changed: {claim} was announced at {}", Utc(*announced_at))
            }
            Self::FactFenced { fact, effect, why } => format!("{fact} is fenced: {effect} has not ended, and {why}"),
            Self::ObservationRequired { action, facts } => {
                format!("`{action}` must be decided on an observation; none was sent of {}", names(facts))
            }
            Self::SessionRequired { action } => {
                format!("`{action}` is guarded as read, and this call names no session")
            }
            Self::SessionNotOpen { session } => {
                format!("{session} is not an open session of this agent, or another of its clients went on in it")
            }
            Self::TooManyReadings { session } => {
                format!("more was read in {session} than is kept to be read again ({READINGS_MAX} readings)")
            }
            Self::ReadingRequired { tools } => {
                format!("{} must be read in this session first", tools.join(", "))
            }
            Self::ReadingStale { readings, stale_after } => {
                format!("what {} answered is older than {}", tools(readings), Span(*stale_after))
            }
            Self::ReadingUnusable { readings } => {
                let unusable = |it: &UnusableReading| {
                    let why = match it.why {
                        Unusable::NotRead => "was not read",
                        Unusable::DigestOnly => "was too long to keep",
                        Unusable::NoSuchPlace => "has no object where the pact says",
                        Unusable::OtherType => "lacks an attribute, or has it with another type",
                        Unusable::ReadMeanwhile => "was read again meanwhile",
                        Unusable::NotArrived => "may not have reached this agent",
                    };
                    format!("what {} answered {why}", it.tool)
                };
                let all: Vec<String> = readings.iter().map(unusable).collect();
                format!("the conditions cannot be decided on: {}", all.join("; "))
            }
            Self::TurnHeld { held } => {
                let HeldTurn { effect, in_doubt, server, since } = &**held;
                let is = if *in_doubt { ", and no one knows what became of it" } else { "" };
                format!("{effect} has held `{server}` since {}{is}", Utc(*since))
            }
            Self::ReadingUnread { readings } => {
                let first = readings.iter().find_map(|unread| unread.why.as_ref());
                let why = first.map_or_else(String::new, |why| format!(": {why}"));
                format!(
                    "{} could not be read again right before the call{why}",
                    tools(readings.iter().map(|it| &it.reading))
                )
            }
            Self::ReadingChanged { readings } => {
                // Where it is not known what the agent has, no one has seen a change.
                let (known, unsure): (Vec<_>, Vec<_>) = readings.iter().partition(|changed| changed.before.is_some());
                let of = |changed: &[&ChangedReading]| tools(changed.iter().map(|changed| &changed.reading));
                let known = (!known.is_empty()).then(|| match known.as_slice() {
                    [_] => format!("{} answers differently now than when this session read it", of(&known)),
                    known => format!("{} readings differ from what this session read: {}", known.len(), of(known)),
                });
                let unsure = (!unsure.is_empty())
                    .then(|| format!("it is not known which answer of {} reached this agent last", of(&unsure)));
                known.into_iter().chain(unsure).collect::<Vec<_>>().join("; ")
            }
            Self::PreconditionFailed { failed } => not_held(failed),
            Self::TooManyReviews => format!(
                "{REVIEWS_MAX} actions, or {REVIEWS_PER_AGENT_MAX} of one agent, already wait for a person, which is the limit"
            ),
            Self::BudgetExceeded { budget, agent, used, max, amount, .. } => {
                let of = agent.as_ref().map_or_else(String::new, |agent| format!(" of {agent}"));
                format!(
                    "budget `{budget}`{of} holds {used} of {max} in this window, and this action would add {amount}"
                )
            }
            Self::EffectInvalid { why } => why.to_string(),
            Self::TooManyEffects => format!(
                "{EFFECTS_MAX} calls, or {EFFECTS_PER_AGENT_MAX} of one agent, are already in flight, which is the limit"
            ),
            Self::SelfApproval { by, review } => format!("{by} acts in rev_{review}, and cannot approve it"),
            Self::ApprovalExpired { review, until, at } => {
                format!("the approval of rev_{review} was good until {}, and it is {}", Utc(*until), Utc(*at))
            }
            Self::ApprovalOutdated { drift } => format!("what was approved is no longer so: {drift}"),
            Self::GroupRejected { failed, .. } => {
                format!("action {failed} of its atomic group was rejected, and so nothing of the group was done")
            }
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> String {
        let fixed = match self {
            Self::UnknownPact { .. } => "publish it with `countersign pact publish FILE`, or correct the name",
            Self::Halted { .. } => {
                "nothing in this scope commits until an operator lifts the halt; ask the one named in the message"
            }
            Self::UnknownAction { known, .. } => {
                let known: Vec<&str> = known.iter().map(|name| name.as_str()).collect();
                return format!("it has: {}", known.join(", "));
            }
            Self::NotInGroup { .. } => "send it on its own, or in a batch that is not atomic",
            Self::GroupRejected { .. } => {
                "correct the action that was rejected, and send the group again with new idempotency keys"
            }
            Self::InvalidParams { .. } => {
                "correct the parameters; their schema is in the pact (`countersign pact check --manifest`)"
            }
            Self::NotAuthenticated { .. } => "sign the request with the agent's key: `countersign act --key FILE`",
            Self::UnknownAgent { agent } => {
                return format!("an operator registers it by feeding Agent::\"{agent}\" (roles, standing, org, trust)");
            }
            Self::AgentNotActive { standing: Some(_), .. } => NOT_ACTIVE_HINT,
            Self::AgentNotActive { .. } => "an operator sets Agent.standing to \"active\"",
            Self::KeyNotCurrent { .. } => "sign with the agent's current key",
            Self::DelegationWidened { .. } => "ask for a delegation within what was given",
            Self::DelegationTooDeep { hop, .. } => {
                return format!("ask {} for a delegation of greater depth, or act with fewer hops", hop.from);
            }
            Self::DelegationExpired { hop, at, .. } => {
                return format!("ask {} for a new delegation; ledger time is {}", hop.from, Utc(*at));
            }
            Self::DelegationMemberNotActive { .. } => {
                "every member of a delegation must be active; ask the operator named in the message"
            }
            Self::DelegationKeyNotCurrent { .. } => "ask for a delegation under the key that the agent has now",
            Self::DelegationOutOfScope { .. } => "act within the delegation, or ask its delegator for a wider one",
            Self::NotAllowed { .. } => {
                "ask an operator for the role that the pact names: `countersign agent set NAME --role ROLE`"
            }
            Self::InvalidFactId { .. } => "correct the parameter or the fact that the id is built from",
            Self::FactMissing { source: Some(adapter), .. } => {
                return format!("correct the parameter that names it; facts of this type are external, in `{adapter}`");
            }
            Self::FactMissing { .. } => "correct the parameter that names it, or have an operator feed it",
            Self::FactExists { .. } => "choose another id, or use an action that changes it",
            Self::AliasedWrite { .. } => "name two different facts",
            Self::TrustTooLow { .. } => "ask an operator: `countersign agent set NAME --trust N` raises it",
            Self::ClaimLost { .. } => {
                "another agent may have made the announced change meanwhile: observe again, and make a new claim"
            }
            Self::FactClaimed { claim, until, .. } => {
                return format!(
                    "observe it again once the change is there; {claim} ends at {} at the latest. Those who may know whose it is \
                     find it in GET /v1/claims",
                    Utc(*until)
                );
            }
            Self::FactFenced { effect, .. } => return operators::fenced(effect),
            Self::ObservationRequired { facts, .. } => return format!("observe {} and send the token", names(facts)),
            Self::SessionRequired { .. } => {
                "open a session (POST /v1/sessions), read in it, and name it in `session`; over MCP, `_meta.countersign.session`"
            }
            Self::SessionNotOpen { .. } => "open a session, read again in it what this rests on, and call again",
            Self::TooManyReadings { .. } => {
                "begin a new session, read in it what this rests on and no more, and call again; or an operator names in the pact what \
                 it rests on"
            }
            Self::ReadingRequired { .. } => "read it in this session, then call again",
            Self::ReadingStale { .. } => "read it again in this session, then call again",
            Self::ReadingUnusable { .. } => {
                "nothing was sent; read it again so that it answers what the pact declares under [readings], or ask its publisher"
            }
            Self::TurnHeld { held } if held.in_doubt => {
                let effect = held.effect;
                return format!(
                    "nothing was sent; call again in half a minute, or an operator finds out what became of {effect} and says so: {}",
                    resolving(effect)
                );
            }
            Self::TurnHeld { .. } => "nothing was sent; call again later",
            Self::ReadingUnread { readings } if readings.iter().any(is_withdrawn) => NEW_SESSION,
            Self::ReadingUnread { .. } => {
                "nothing was sent; call again once it can be read, or, if that server is gone for good, begin a new session: the next one \
                 rests on nothing that was read in this one"
            }
            Self::ReadingChanged { readings } => {
                let untold: Vec<&str> =
                    readings.iter().filter(|it| !it.told).map(|it| it.reading.tool.as_str()).collect();
                return if untold.is_empty() {
                    "nothing was sent; look at what has changed, and call again if it is still right".to_owned()
                } else {
                    format!("nothing was sent; read {} again, and call again if it is still right", untold.join(", "))
                };
            }
            Self::PreconditionFailed { failed } => {
                return failed.first().map_or_else(String::new, FailedPrecondition::hint);
            }
            Self::TooManyReviews => "have a reviewer decide some of them (`countersign review list`), then retry",
            Self::BudgetExceeded { ends_at, .. } => {
                return format!(
                    "the next window starts at {}, or an operator raises the budget in the pact",
                    Utc(*ends_at)
                );
            }
            Self::EffectInvalid { why } => why.hint(),
            Self::TooManyEffects => "resolve those that are in doubt (`countersign effect list`), then retry",
            Self::SelfApproval { .. } => "a reviewer who does not act in it must decide",
            Self::ApprovalExpired { .. } => SHOW_AGAIN,
            Self::ApprovalOutdated { .. } => "nothing was done; act again and have it approved as it is now",
        };
        fixed.to_owned()
    }
}

fn said_at(at: &str, what: &impl fmt::Display) -> String {
    if at.is_empty() { what.to_string() } else { format!("{at}: {what}") }
}

fn tools<'a>(readings: impl IntoIterator<Item = &'a ReadingRef>) -> String {
    let mut tools: Vec<&str> = readings.into_iter().map(|reading| reading.tool.as_str()).collect();
    tools.dedup();
    tools.join(", ")
}

fn names(facts: &[FactId]) -> String {
    let facts: Vec<String> = facts.iter().map(ToString::to_string).collect();
    facts.join(", ")
}

fn after_comma(since: Option<&Since>) -> String {
    since
        .map_or_else(String::new, |since| format!(", since entry {} at {} by {}", since.entry, Utc(since.at), since.by))
}

impl fmt::Display for Since {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "since entry {} at {}, by {}", self.entry, Utc(self.at), self.by)
    }
}

impl fmt::Display for RuleFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::False => f.write_str("is false"),
            Self::Impossible => f.write_str("can never be true"),
            Self::Error(error) => write!(f, "cannot be evaluated: {error}"),
        }
    }
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AttributeAbsent => "an attribute that it reads is absent",
            Self::Overflow => "the result is beyond 64 bits",
            Self::OutOfRange => "the result is beyond 2^53-1",
            Self::Type => "an operand has the wrong type",
            Self::TooDeep => "it is nested too deeply",
            Self::NotBoolean => "it is neither true nor false",
            Self::NotAValue => "it is not a value that an attribute can hold",
            Self::Other => "it cannot be evaluated",
        })
    }
}

impl fmt::Display for IdProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoParameter { name } => write!(f, "parameter `{name}` is missing"),
            Self::NoAttribute { name } => write!(f, "attribute `{name}` of an earlier read is missing"),
            Self::NotText => f.write_str("an id is built from strings and integers only"),
            Self::Empty => f.write_str("an id must not be empty"),
            Self::TooLong { bytes } => write!(f, "an id has at most {ID_BYTES_MAX} bytes, this one has {bytes}"),
            Self::Control { character } => {
                write!(f, "an id must not contain control characters (found U+{character:04X})")
            }
            Self::NotNormal => {
                f.write_str("an id must be in Unicode normal form C; two spellings of one name would be two facts")
            }
            Self::NotOfSource => f.write_str(
                "the source has no fact of this id: a piece is empty, of the wrong type, or holds what separates them",
            ),
            Self::Spelling { why } => f.write_str(match why {
                SpellingProblem::NoPath => "a path must not be empty",
                SpellingProblem::AboveRoot => "`..` leads above where the path begins",
                SpellingProblem::Backslash => "a path has `/` between its segments, and no `\\`",
            }),
        }
    }
}

impl EffectProblem {
    fn hint(&self) -> &'static str {
        match self {
            Self::Set { .. } => "nothing was written; correct the parameters, or the pact's `set`",
            Self::FactTooLarge { .. } => "a fact is a record, not a document; keep large content elsewhere",
            Self::NotDispatched | Self::ContextLost | Self::OtherFactsRead | Self::NoCall => {
                "resolve it by hand: `countersign effect resolve EFFECT settled --reason TEXT`, or with `failed`"
            }
            _ => "nothing was sent; correct the parameters, or the pact's `call`",
        }
    }
}

impl fmt::Display for EffectProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let call = "the call cannot be made";
        let check = "the final check cannot be made";
        match self {
            Self::Set { read, attribute, error } => write!(f, "`{read}.{attribute}` cannot be set: {error}"),
            Self::FactTooLarge { read, bytes } => {
                write!(f, "`{read}` would have {bytes} bytes; at most {FACT_BYTES_MAX} are kept")
            }
            Self::Member { name: Some(name), error } => write!(f, "{call}: `{name}`: {error}"),
            Self::Member { name: None, error } => write!(f, "{call}: {error}"),
            Self::NoVersion { argument, attribute } => write!(f, "{call}: `{argument}` has no `{attribute}`"),
            Self::LooksLikeOption { argument } => {
                write!(f, "{call}: argument {argument} would be taken for an option; the pact can put `--` before it")
            }
            Self::PathPart { value } => write!(f, "{call}: `{value}` cannot be a part of a path"),
            Self::TextMissing => write!(f, "{call}: a part of it is missing or no text"),
            Self::TextNotAllowed => {
                write!(f, "{call}: a text has at most {CALL_TEXT_BYTES_MAX} bytes and no control characters")
            }
            Self::NotDispatched => write!(f, "{check}: it was not dispatched"),
            Self::ContextLost => write!(f, "{check}: what it was decided on is no longer known"),
            Self::OtherFactsRead => write!(f, "{check}: other facts were read than it needs"),
            Self::NoCall => write!(f, "{check}: it has no call"),
        }
    }
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |value: &Option<Value>| value.as_ref().map_or_else(|| "absent".to_owned(), ToString::to_string);
        let who = |changed: &Option<Since>| match changed {
            None => String::new(),
            // Entry 0 stands for a reading of an external fact.
            Some(Since { entry: 0, at, by }) => format!(", as read in {by} at {}", Utc(*at)),
            Some(Since { entry, at, by }) => format!(", by {by} at {} in entry {entry}", Utc(*at)),
        };
        match self {
            Self::Pact { pact, shown, now } => {
                let now = now.map_or_else(|| "not published".to_owned(), |now| format!("at version {now}"));
                write!(f, "pact `{pact}` was shown at version {shown}, and is now {now}")
            }
            Self::Reviewer { by } => write!(f, "{by} approved it, and is no longer an active reviewer"),
            Self::NotShown { fact, .. } => write!(f, "{fact} was not shown"),
            Self::Presence { fact, is_there, changed, .. } => {
                let (was, is) = if *is_there { ("absent", "there") } else { ("there", "gone") };
                write!(f, "{fact} was {was} when it was shown, and is now {is}{}", who(changed))
            }
            Self::Attribute { fact, attribute, was, is, changed, .. } => {
                let (was, is) = (text(was), text(is));
                write!(f, "{fact}.{attribute} was {was} when it was shown, and is now {is}{}", who(changed))
            }
            Self::ReadAgain { upstream, tool, changed, .. } => write!(
                f,
                "{upstream}/{tool} was read again after this was asked for, and reads differently{}; what its agent had not seen \
                 when it asked does not count, so it has to ask again",
                who(changed)
            ),
            Self::Withheld { read } => write!(f, "`{read}` is not as it was shown"),
        }
    }
}

fn not_held(failed: &[FailedPrecondition]) -> String {
    let [first] = failed else {
        let ids: Vec<&str> = failed.iter().map(|failed| failed.id.as_str()).collect();
        return format!("{} preconditions do not hold: {}", failed.len(), ids.join(", "));
    };
    let id = &first.id;
    match &first.why {
        Why::Stale => format!("{id} was checked too long ago"),
        Why::Unconfirmed => format!("{id} does not hold: its source has not confirmed it in time"),
        Why::Unobserved => format!("{id} needs an observation, and none was sent"),
        _ if first.as_observed => format!("{id} does not hold: it was already so when you observed"),
        _ if first.reads.iter().any(|read| read.differs() || read.is_withheld_change()) => {
            format!("{id} no longer holds")
        }
        _ => format!("{id} does not hold"),
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Unchanged { fact, version: Some(version) } => write!(f, "{fact} is still at version {version}"),
            Self::Unchanged { fact, version: None } => write!(f, "{fact} is unchanged since it was observed"),
            Self::Confirmed { fact, limit_ms } => {
                write!(f, "{fact} was confirmed by its source in the last {}", Span(*limit_ms))
            }
        }
    }
}

impl FailedPrecondition {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match (&self.why, self.limit_ms) {
            (Why::Unconfirmed, limit_ms) => {
                let late: Vec<String> = self.reads.iter().map(last_confirmed).collect();
                let (late, limit) = (late.join("; "), Span(limit_ms.unwrap_or_default()));
                format!(
                    "{late}; the pact allows {limit}. Observing it again does not help: its source must feed or confirm it \
                     (`countersign fact confirm`)"
                )
            }
            (Why::Stale | Why::Unobserved, Some(limit_ms)) => {
                format!("{}; the observation may be at most {} old", self.observe_again(), Span(limit_ms))
            }
            (Why::False, _) if self.about == About::Params => {
                "only the parameters failed; change them and retry".to_owned()
            }
            (Why::False | Why::Error(_), _) if self.about == About::Labels => {
                "it depends on where the content came from that this agent was shown; have it done by an agent that was not shown it, \
                 or ask a person"
                    .to_owned()
            }
            (Why::False | Why::Error(_), _) if self.as_observed => {
                format!(
                    "{} is still as you observed it, so observing again will not help; change the plan",
                    names(&self.facts)
                )
            }
            (Why::False | Why::Error(_), _) if self.about == About::Agent => {
                "it depends on the agent itself, not on a fact that can be observed; ask an operator".to_owned()
            }
            (Why::False | Why::Error(_), _) if self.facts.is_empty() => {
                "it reads no fact that can be observed; change the parameters, or ask an operator".to_owned()
            }
            (Why::False | Why::Error(_), _) if self.is_withheld() => format!(
                "this agent may not observe what it reads of {}; ask an operator, or change the plan",
                names(&self.facts)
            ),
            _ => self.observe_again(),
        }
    }

    /// Whether observing could show nothing of what it reads.
    fn is_withheld(&self) -> bool {
        !self.reads.is_empty() && self.reads.iter().all(|read| read.withheld)
    }

    /// What to observe again, with the latest change since it was observed.
    fn observe_again(&self) -> String {
        let facts = names(&self.facts);
        match &self.last_change {
            Some(LastChange { fact, by, entry: 0, .. }) => {
                format!("observe {facts} again; {fact} has changed in {by} since it was observed")
            }
            Some(LastChange { fact, by, entry, ago_ms, is_deleted, versions }) => {
                let verb = if *is_deleted { "deleted" } else { "changed" };
                let versions = versions.map_or_else(String::new, |(observed, current)| {
                    format!(" (version {observed} was observed, version {current} is current)")
                });
                let ago = Span(*ago_ms);
                format!(
                    "observe {facts} again; {fact} was {verb} {ago} before this action, by {by} in entry {entry}{versions}"
                )
            }
            None if self.was_observed => format!("observe {facts} again and decide on that"),
            None => format!("observe {facts} before acting, so that the gate can say what changed"),
        }
    }
}

fn last_confirmed(read: &FailedRead) -> String {
    match (&read.confirmed, read.confirmed_ago_ms) {
        (Some(last), Some(ago_ms)) => {
            format!("{} was last confirmed {} ago, by {} in entry {}", read.fact, Span(ago_ms), last.by, last.entry)
        }
        _ => format!("{} was never confirmed by a source", read.fact),
    }
}
