//! Ways round the gate that an agent could try (AG-097-8.3), and facts that changed and changed back (AG-097-8.1).

use super::approvals;
use super::clauses::{account, must_be_untouched, refund};
use super::forgery::{Request, rewritten};
use super::gate::{Agent, Subject, entry_of, failed, must_refuse, passed};
use super::own::Own;
use crate::examples::BILLING;
use crate::key_file;
use anyhow::{Context as _, Result, ensure};
use countersign_api::{ErrorCode, ObserveResponse, Verdict};
use countersign_signature::{Headers, content_digest};
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;

/// A pact that asks for the very version that was observed.
const UNCHANGED: &str = r#"
[facts.ConformSeat]
attributes = { free = "Bool", price = "Long" }

[observe.ConformSeat]
who = 'principal.roles.contains("clerk")'
attributes = "*"

[action.book]
resource = { fact = 'ConformSeat::"{seat}"', unchanged = true }
allow = 'principal.roles.contains("clerk")'
set = { free = "false" }
params = { type = "object", additionalProperties = false, required = ["seat"], properties.seat = { type = "string", maxLength = 64 } }

[[action.book.require]]
id = "seat-is-free"
that = 'resource.free'
"#;

/// A seat that was free, was sold and is free again, as an agent observed it at first.
struct Seat {
    agent: Arc<Agent>,
    id: String,
    fact: String,
    shown: ObserveResponse,
}

impl Seat {
    fn came_back(subject: &Subject, name: &str) -> Result<Self> {
        let pact = "conform-seats";
        if subject.pact(pact)?.is_none() {
            subject.publish_text(&format!("pact = \"{pact}\"\nversion = 1\n{UNCHANGED}"))?;
        }
        let agent = subject.agent("clerk", &["clerk"])?;
        let id = format!("{name}-{}", subject.run());
        let fact = format!("Seat::\"{id}\"");
        let (free, sold) = (json!({"free": true, "price": 10}), json!({"free": false, "price": 10}));
        // With as many digits as the version that it comes back with.
        let digits = |version: u64| version.to_string().len();
        while subject.feed(&fact, &free)?.version.is_some_and(|now| digits(now) != digits(now + 2)) {}
        let shown = agent.shown([fact.as_str()])?;
        subject.feed(&fact, &sold)?;
        subject.feed(&fact, &free)?;
        Ok(Self { agent, id, fact, shown })
    }

    fn book(&self, token: String) -> Result<Verdict> {
        self.agent.act("seats", "book", &json!({"seat": self.id}), &[token])
    }

    fn must_be_free(&self, subject: &Subject) -> Result<()> {
        let free = subject.attribute(&self.fact, "free")?;
        ensure!(free == json!(true), "{} was booked on an observation from before it was sold", self.fact);
        Ok(())
    }
}

/// A fact that changed and changed back is not unchanged. Gives the entry.
pub fn changed_back(subject: &Subject) -> Result<u64> {
    let seat = Seat::came_back(subject, "seat")?;
    let verdict = seat.book(seat.shown.observation.clone())?;
    seat.must_be_free(subject)?;
    ensure!(
        failed(&verdict) == ["resource-unchanged"],
        "a value that came back passed for unchanged: {:?}",
        verdict.verdict
    );
    let again = seat.book(seat.agent.observe([seat.fact.as_str()])?)?;
    ensure!(passed(&again), "what was observed again does not pass either: {:?}", again.code);
    entry_of(&verdict)
}

/// An observation that its agent has made to speak of the version that the fact has now.
fn rewritten_observation(subject: &Subject) -> Result<Json> {
    let seat = Seat::came_back(subject, "rewritten")?;
    let seen = seat.shown.facts.first().and_then(|fact| fact.version).context("no version was shown")?;
    let now = subject.fact(&seat.fact)?.context("the seat is gone")?.version;
    let end = |version: u64| format!("\"version\":{version}}}],\"position\":{}}}", seat.shown.position);
    let answer = seat.book(rewritten(&seat.shown.observation, &end(seen), &end(now))?);
    seat.must_be_free(subject)?;
    must_refuse(answer, ErrorCode::ObservationRefused, "a rewritten observation")?;
    Ok(json!(ErrorCode::ObservationRefused.as_str()))
}

/// AG-097-8.3, as far as it goes. Each attack is on an account of its own, and all of them are tried whatever came of one.
pub fn refused(subject: &Subject) -> Result<Json> {
    type Tried<'a> = (&'static str, &'a dyn Fn() -> Result<Json>);
    subject.publish(&BILLING)?;
    let attacks: [Tried<'_>; 8] = [
        ("rewritten observation", &|| rewritten_observation(subject)),
        ("forged observation", &|| Attack::prepare(subject, "forged")?.forged_observation()),
        ("borrowed observation", &|| Attack::prepare(subject, "borrowed")?.borrowed_observation()),
        ("another's name", &|| Attack::prepare(subject, "impostor")?.impostor()),
        ("altered body", &|| Attack::prepare(subject, "altered")?.altered_body()),
        ("replayed request", &|| Attack::prepare(subject, "replayed")?.replayed()),
        ("forged approval", &|| approvals::forged(subject)),
        ("killed gate", &outage),
    ];
    let (mut evidence, mut problems) = (Map::new(), Vec::new());
    for (name, attack) in attacks {
        match attack() {
            Ok(found) => drop(evidence.insert(name.to_owned(), found)),
            Err(error) => problems.push(format!("{name}: {error:#}")),
        }
    }
    ensure!(problems.is_empty(), "{}", problems.join("; "));
    Ok(Json::Object(evidence))
}

/// Two agents, and an account that is active.
struct Attack<'a> {
    subject: &'a Subject,
    agent: Arc<Agent>,
    other: Arc<Agent>,
    id: String,
    fact: String,
}

impl<'a> Attack<'a> {
    fn prepare(subject: &'a Subject, name: &str) -> Result<Self> {
        let id = format!("{name}-{}", subject.run());
        let fact = format!("Account::\"{id}\"");
        subject.feed(&fact, &account("active", 1_000))?;
        let (agent, other) = (subject.agent("refunder", &["refunder"])?, subject.agent("thief", &["refunder"])?);
        Ok(Self { subject, agent, other, id, fact })
    }

    /// An observation with one character altered, at each of some places.
    fn forged_observation(&self) -> Result<Json> {
        let token = self.agent.observe([self.fact.as_str()])?;
        let mut tried = 0;
        for at in (5..token.len()).step_by(token.len() / 12 + 1) {
            let forged: String = token
                .chars()
                .enumerate()
                .map(|(place, c)| match place == at {
                    true if c == 'A' => 'B',
                    true => 'A',
                    false => c,
                })
                .collect();
            let answer = self.agent.act(BILLING.name, "refund", &refund(&self.id, 10), &[forged]);
            self.must_have(1_000)?;
            must_refuse(answer, ErrorCode::ObservationRefused, "a forged observation")?;
            tried += 1;
        }
        Ok(json!(tried))
    }

    /// An observation of another agent's.
    fn borrowed_observation(&self) -> Result<Json> {
        let token = self.agent.observe([self.fact.as_str()])?;
        let answer = self.other.act(BILLING.name, "refund", &refund(&self.id, 10), &[token]);
        self.must_have(1_000)?;
        must_refuse(answer, ErrorCode::ObservationRefused, "another agent's observation")?;
        Ok(json!(ErrorCode::ObservationRefused.as_str()))
    }

    /// An action in the name of the agent, whose key's name everyone can know, signed with the key of the thief.
    fn impostor(&self) -> Result<Json> {
        let body = self.body()?;
        let request = self.request(&body);
        let signed = request.signed_in_the_name_of(&key_file::name(&self.agent.key), &self.other.key)?;
        let answer = request.send::<Verdict>(&signed);
        self.must_have(1_000)?;
        must_refuse(answer, ErrorCode::SignatureInvalid, "an action in another's name")?;
        Ok(json!(ErrorCode::SignatureInvalid.as_str()))
    }

    /// The signature of one body over another, with and without the digest of the other.
    fn altered_body(&self) -> Result<Json> {
        let body = self.body()?;
        let larger = with_amount(&body, 99)?;
        let (request, altered) = (self.request(&body), self.request(&larger));
        let answer = altered.send::<Verdict>(&request.signed(&self.agent.key)?);
        self.must_have(1_000)?;
        must_refuse(answer, ErrorCode::DigestMismatch, "a body that was altered after it was signed")?;
        let digest = Some(content_digest(larger.as_bytes()));
        let headers = Headers { content_digest: digest, ..request.signed(&self.agent.key)? };
        let answer = altered.send::<Verdict>(&headers);
        self.must_have(1_000)?;
        must_refuse(answer, ErrorCode::SignatureInvalid, "a body that was altered with its digest")?;
        Ok(json!([ErrorCode::DigestMismatch.as_str(), ErrorCode::SignatureInvalid.as_str()]))
    }

    /// A signed request, sent again as it was; the same action again under a new signature; and another under its key.
    fn replayed(&self) -> Result<Json> {
        let body = self.body()?;
        let request = self.request(&body);
        let signed = request.signed(&self.agent.key)?;
        let first: Verdict = request.send(&signed)?;
        ensure!(passed(&first), "the request that is to be played back was stopped: {:?}", first.code);
        let answer = request.send::<Verdict>(&signed);
        must_refuse(answer, ErrorCode::SignatureReplayed, "a request that was played back")?;
        let again: Verdict = request.send(&request.signed(&self.agent.key)?)?;
        self.must_have(990)?;
        ensure!(again.repeated && again.entry == first.entry, "the same action was decided twice: {:?}", again.entry);
        let larger = with_amount(&body, 99)?;
        let other = self.request(&larger);
        let answer = other.send::<Verdict>(&other.signed(&self.agent.key)?);
        self.must_have(990)?;
        must_refuse(answer, ErrorCode::IdempotencyKeyReused, "another action under the same key")?;
        Ok(json!({"code": ErrorCode::SignatureReplayed.as_str(), "entry": first.entry}))
    }

    /// The body of a refund of 10 that would pass, with a key that no other has.
    fn body(&self) -> Result<String> {
        let token = self.agent.observe([self.fact.as_str()])?;
        Ok(serde_json::to_string(&self.agent.request(BILLING.name, "refund", &refund(&self.id, 10), &[token])?)?)
    }

    fn request<'b>(&'b self, body: &'b str) -> Request<'b> {
        Request { subject: self.subject, method: "POST", path: "/v1/actions", body }
    }

    /// Whatever a caller was told: nothing may be paid but what was asked for, once.
    fn must_have(&self, balance: u64) -> Result<()> {
        let now = self.subject.attribute(&self.fact, "balance")?;
        ensure!(now == json!(balance), "the account must have {balance} left of 1000, and it has {now}");
        Ok(())
    }
}

/// The body of a refund of 10, with another amount.
fn with_amount(body: &str, amount: u64) -> Result<String> {
    let altered = body.replacen("\"amount\":10", &format!("\"amount\":{amount}"), 1);
    ensure!(altered != body, "the body was not altered");
    Ok(altered)
}

/// A gate that is gone lets nothing through, and knows when it is back what it knew before.
fn outage() -> Result<Json> {
    let (mut own, url, key) = Own::start()?;
    let subject = Subject::at(&url, key.clone(), None)?;
    subject.publish(&BILLING)?;
    subject.feed("Account::\"outage\"", &account("frozen", 1_000))?;
    let host = url.strip_prefix("http://").context("the gate has no address")?.to_owned();
    own.kill()?;
    ensure!(std::net::TcpStream::connect(&host).is_err(), "something answers where the gate was killed");
    let url = own.restart()?;
    let subject = Subject::at(&url, key, None)?;
    let status = subject.attribute("Account::\"outage\"", "status")?;
    ensure!(
        status == json!("frozen"),
        "the gate was told of the freeze, was killed, and says {status} when it is back"
    );
    let agent = subject.agent("refunder", &["refunder"])?;
    let token = agent.observe(["Account::\"outage\""])?;
    let verdict = agent.act(BILLING.name, "refund", &refund("outage", 10), &[token])?;
    ensure!(failed(&verdict).contains(&"account-is-active"), "the freeze was forgotten: {:?}", verdict.verdict);
    must_be_untouched(&subject, "Account::\"outage\"", 1_000)?;
    Ok(json!({"refused_in": entry_of(&verdict)?}))
}
