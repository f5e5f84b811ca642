//! The race between an approval and its execution (CONC-8), and approvals that are forged (AG-097-8.3), judged from the ledger and from
//! the end state.

use super::forgery::rewritten;
use super::gate::{Agent, Subject, entry_of, must_refuse, passed};
use crate::client::Call;
use anyhow::{Context as _, Result, bail, ensure};
use countersign_api::{ApproveRequest, ErrorCode, ReviewShown, Verdict, VerdictKind};
use serde_json::{Value as Json, json};
use std::sync::{Arc, Barrier};
use std::time::Duration;

/// The first two rounds are in a fixed order, one each way; in the others both sides are moved against each other.
const ROUNDS: u64 = 24;

/// The longest that either side waits, in microseconds.
const WINDOW_US: u64 = 3_000;

const NAME: &str = "approvals";

const PACT: &str = r#"
[facts.ConformLoan]
attributes = { open = "Bool", paid = "Long" }

[observe.ConformLoan]
who = 'principal.roles.contains("clerk")'
attributes = "*"

[action.pay]
resource = 'ConformLoan::"{loan}"'
allow = 'principal.roles.contains("clerk")'
set = { paid = "resource.paid + context.amount" }

[action.pay.params]
type = "object"
additionalProperties = false
required = ["loan", "amount"]
properties.loan = { type = "string", maxLength = 64 }
properties.amount = { type = "integer", minimum = 1, maximum = 1000 }

[[action.pay.require]]
id = "loan-is-open"
that = 'resource.open'

[[action.pay.require]]
id = "small-enough"
that = 'context.amount <= 100'
on_fail = "review"

[action.close]
resource = 'ConformLoan::"{loan}"'
allow = 'principal.roles.contains("risk")'
set = { open = "false" }
params = { type = "object", additionalProperties = false, required = ["loan"], properties.loan = { type = "string", maxLength = 64 } }

[[action.close.require]]
id = "loan-is-open"
that = 'resource.open'
"#;

/// Who takes part.
struct Race<'a> {
    subject: &'a Subject,
    clerk: Arc<Agent>,
    risk: Arc<Agent>,
    reviewer: Arc<Agent>,
}

/// CONC-8
pub fn raced(subject: &Subject) -> Result<Json> {
    let race = Race::prepare(subject, "reviewer")?;
    let (mut executed, mut void) = (0, 0);
    let start = subject.position()?;
    for round in 0..ROUNDS {
        match race.round(round)? {
            true => executed += 1,
            false => void += 1,
        }
    }
    // Its key is gone with this process; its right goes with it.
    subject.revoke_operator("reviewer", &["reviewer"])?;
    Ok(json!({"rounds": ROUNDS, "executed": executed, "void": void, "entries": [start, subject.position()?]}))
}

/// AG-097-8.3: someone approves by what another was shown, by the same made out to themselves, and as an agent. Nothing is paid.
pub fn forged(subject: &Subject) -> Result<Json> {
    let race = Race::prepare(subject, "reviewer-1")?;
    let other = subject.operator("reviewer-2", &["reviewer"])?;
    let id = format!("forged-{}", subject.run());
    let fact = format!("Loan::\"{id}\"");
    let (_, review, shown) = race.parked(&id)?;
    let end = |to: &Agent| format!("\"to\":\"{}\",\"version\":1,\"waives\":[\"small-enough\"]}}", to.name);
    let own = rewritten(&shown, &end(&race.reviewer), &end(&other))?;
    // An agent is shown nothing; where it is, that is what it would approve by.
    let to_agent = race.risk.call::<ReviewShown>(Call::get(format!("/v1/reviews/{review}")));
    let to_agent = to_agent.map_or_else(|_| shown.clone(), |to_agent| to_agent.shown);
    let tries = [
        ("a reviewer by what another was shown", &other, &shown, ErrorCode::ShownRefused),
        ("a reviewer by what another was shown, made out to itself", &other, &own, ErrorCode::ShownRefused),
        ("an agent", &race.risk, &to_agent, ErrorCode::NotAuthorised),
    ];
    let mut refused = Vec::new();
    for (who, by, shown, code) in tries {
        let answer = by.call::<Verdict>(approval(&review, shown)?);
        let paid = subject.attribute(&fact, "paid")?;
        ensure!(paid == json!(0), "{fact} says that {paid} was paid; it was approved by {who}");
        must_refuse(answer, code, &format!("an approval by {who}"))?;
        refused.push(who);
    }
    Ok(json!(refused))
}

/// The approval of what was shown.
fn approval(review: &str, shown: &str) -> Result<Call> {
    let request = ApproveRequest { shown: shown.to_owned(), expires_in_ms: None };
    Call::post(format!("/v1/reviews/{review}/approve")).json(&request)
}

impl<'a> Race<'a> {
    fn prepare(subject: &'a Subject, reviewer: &str) -> Result<Self> {
        let name = format!("{}{NAME}", super::names::PREFIX);
        if subject.pact(&name)?.is_none() {
            subject.publish_text(&format!("pact = \"{name}\"\nversion = 1\n{PACT}"))?;
        }
        let (clerk, risk) = (subject.agent("clerk-of-loans", &["clerk"])?, subject.agent("risk", &["risk"])?);
        let reviewer = subject.operator(reviewer, &["reviewer"])?;
        Ok(Self { subject, clerk, risk, reviewer })
    }

    /// Parks a payment and has it shown. Gives its entry, its review, and what was shown.
    fn parked(&self, id: &str) -> Result<(u64, String, String)> {
        let fact = format!("Loan::\"{id}\"");
        self.subject.feed(&fact, &json!({"open": true, "paid": 0}))?;
        let token = self.clerk.observe([fact.as_str()])?;
        let parked = self.clerk.act(NAME, "pay", &json!({"loan": id, "amount": 500}), &[token])?;
        ensure!(parked.verdict == VerdictKind::Review, "500 do not wait for a person: {:?}", parked.verdict);
        let review = parked.review.clone().context("the verdict names no review")?;
        let shown: ReviewShown = self.reviewer.call(Call::get(format!("/v1/reviews/{review}")))?;
        Ok((entry_of(&parked)?, review, shown.shown))
    }

    /// Parks a payment, has it shown, and lets its approval meet the closing of the loan. Gives whether it was executed.
    fn round(&self, round: u64) -> Result<bool> {
        let id = format!("loan-{}-{round}", self.subject.run());
        let fact = format!("Loan::\"{id}\"");
        let (parked, review, shown) = self.parked(&id)?;
        let approve = || self.approve(&review, &shown);
        let close = || self.close(&id);
        let (approved, closed) = match round {
            0 => {
                let approved = approve();
                (approved, close())
            }
            1 => {
                let closed = close();
                (approve(), closed)
            }
            _ => at_once(round, approve, close)?,
        };
        let is_executed = self.judge(parked, approved?, closed?)?;
        ensure!(round > 1 || is_executed == (round == 0), "round {round}, in a fixed order, ended the other way");
        let paid = self.subject.attribute(&fact, "paid")?;
        ensure!(paid == json!(if is_executed { 500 } else { 0 }), "{fact} says that {paid} was paid");
        Ok(is_executed)
    }

    /// Approves what was shown. Nothing where the gate says that the approval is void.
    fn approve(&self, review: &str, shown: &str) -> Result<Option<Verdict>> {
        match self.reviewer.call::<Verdict>(approval(review, shown)?) {
            Ok(verdict) => Ok(Some(verdict)),
            Err(error) => must_refuse::<()>(Err(error), ErrorCode::ApprovalVoid, "an approval").map(|()| None),
        }
    }

    fn close(&self, loan: &str) -> Result<u64> {
        let verdict = self.risk.act(NAME, "close", &json!({"loan": loan}), &[])?;
        ensure!(passed(&verdict), "the loan could not be closed: {:?}", verdict.code);
        entry_of(&verdict)
    }

    /// An approval before the closing executes, and one after it is void; each is an entry that says so.
    fn judge(&self, parked: u64, approved: Option<Verdict>, closed: u64) -> Result<bool> {
        let is_its = |entry: &&super::gate::Entry| {
            entry.leaf("kind") == "approval" && entry.leaf.get("review").and_then(Json::as_u64) == Some(parked)
        };
        let entries = self.subject.entries_from(parked)?;
        let mut approvals = entries.iter().filter(is_its);
        let approval = approvals.next().context("the approval has left no entry")?;
        ensure!(approvals.next().is_none(), "one approval has left two entries");
        let (index, is_executed) = (approval.index, approval.leaf("verdict") == "committed");
        ensure!(is_executed == approved.is_some(), "the reviewer was told otherwise than entry {index} says");
        ensure!(!is_executed || index < closed, "entry {index} executed what entry {closed} had made void");
        ensure!(is_executed || index > closed, "entry {index} is void, and the loan was closed only in entry {closed}");
        Ok(is_executed)
    }
}

/// Runs both sides at once, each after its own part of the window.
fn at_once<A, C: Send>(round: u64, approve: impl FnOnce() -> A, close: impl FnOnce() -> C + Send) -> Result<(A, C)> {
    let start = Barrier::new(2);
    let pause = |us: u64| {
        start.wait();
        std::thread::sleep(Duration::from_micros(us % WINDOW_US));
    };
    std::thread::scope(|scope| {
        let closing = scope.spawn(|| {
            pause(round * 811);
            close()
        });
        pause(round * 433);
        let approved = approve();
        let closed = closing.join().or_else(|_| bail!("a thread panicked"))?;
        Ok((approved, closed))
    })
}
