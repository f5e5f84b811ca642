//! Ways round the gate that an agent could try (AG-097-8.3), and facts that changed and changed back (AG-097-8.1).

use super::clauses::{account, refund};
use super::gate::{Agent, Subject, entry_of, failed, must_refuse, passed, random};
use super::own::Own;
use crate::client::{Call, Client};
use crate::examples::BILLING;
use anyhow::{Context as _, Result, ensure};
use countersign_api::{ErrorCode, Verdict};
use countersign_signature::{Signable, authority, sign};
use serde_json::{Value as Json, json};
use std::time::{SystemTime, UNIX_EPOCH};

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

/// A fact that changed and changed back is not unchanged. Gives the entry.
pub fn changed_back(subject: &Subject) -> Result<u64> {
    let name = "conform-seats";
    if subject.pact(name)?.is_none() {
        subject.publish_text(&format!("pact = \"{name}\"\nversion = 1\n{UNCHANGED}"))?;
    }
    let agent = subject.agent("clerk", &["clerk"])?;
    let id = format!("seat-{}", subject.run());
    let fact = format!("Seat::\"{id}\"");
    let (free, sold) = (json!({"free": true, "price": 10}), json!({"free": false, "price": 10}));
    subject.feed(&fact, &free)?;
    let token = agent.observe([fact.as_str()])?;
    subject.feed(&fact, &sold)?;
    subject.feed(&fact, &free)?;
    let verdict = agent.act("seats", "book", &json!({"seat": id}), &[token])?;
    ensure!(
        failed(&verdict) == ["resource-unchanged"],
        "a value that came back passed for unchanged: {:?}",
        verdict.verdict
    );
    ensure!(subject.attribute(&fact, "free")? == json!(true), "the seat was booked although the action was rejected");
    let token = agent.observe([fact.as_str()])?;
    let again = agent.act("seats", "book", &json!({"seat": id}), &[token])?;
    ensure!(passed(&again), "what was observed again does not pass either: {:?}", again.code);
    entry_of(&verdict)
}

/// AG-097-8.3, as far as it goes
pub fn refused(subject: &Subject) -> Result<Json> {
    subject.publish(&BILLING)?;
    let attack = Attack::prepare(subject)?;
    let forged = attack.forged_observation()?;
    let borrowed = attack.borrowed_observation()?;
    let altered = attack.altered_body()?;
    let replayed = attack.replayed()?;
    let balance = subject.attribute(&attack.fact, "balance")?;
    ensure!(
        balance == json!(990),
        "one refund of 10 was really asked for, and the balance went from 1000 to {balance}"
    );
    let outage = outage()?;
    Ok(json!({"forged": forged, "borrowed": borrowed, "altered": altered, "replayed": replayed, "outage": outage}))
}

/// Two agents, and an account that is active.
struct Attack<'a> {
    subject: &'a Subject,
    agent: std::sync::Arc<Agent>,
    other: std::sync::Arc<Agent>,
    id: String,
    fact: String,
}

impl<'a> Attack<'a> {
    fn prepare(subject: &'a Subject) -> Result<Self> {
        let id = format!("attack-{}", subject.run());
        let fact = format!("Account::\"{id}\"");
        subject.feed(&fact, &account("active", 1_000))?;
        let (agent, other) = (subject.agent("refunder", &["refunder"])?, subject.agent("thief", &["refunder"])?);
        Ok(Self { subject, agent, other, id, fact })
    }

    /// An observation with one character altered, at each of some places.
    fn forged_observation(&self) -> Result<u64> {
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
            must_refuse(answer, ErrorCode::ObservationRefused, "a forged observation")?;
            tried += 1;
        }
        Ok(tried)
    }

    /// An observation of another agent's.
    fn borrowed_observation(&self) -> Result<&'static str> {
        let token = self.agent.observe([self.fact.as_str()])?;
        let answer = self.other.act(BILLING.name, "refund", &refund(&self.id, 10), &[token]);
        must_refuse(answer, ErrorCode::ObservationRefused, "another agent's observation")?;
        Ok(ErrorCode::ObservationRefused.as_str())
    }

    /// The signature of one body over another.
    fn altered_body(&self) -> Result<&'static str> {
        let request = self.agent.request(BILLING.name, "refund", &refund(&self.id, 10), &[])?;
        let body = serde_json::to_string(&request)?;
        let signed = self.signed(&body)?;
        let larger = body.replacen("\"amount\":10", "\"amount\":99", 1);
        ensure!(larger != body, "the body was not altered");
        let answer = self.send(signed, larger);
        must_refuse(answer, ErrorCode::DigestMismatch, "a body that was altered after it was signed")?;
        Ok(ErrorCode::DigestMismatch.as_str())
    }

    /// A signed request, sent again as it was; and the same action again under a new signature.
    fn replayed(&self) -> Result<Json> {
        let token = self.agent.observe([self.fact.as_str()])?;
        let request = self.agent.request(BILLING.name, "refund", &refund(&self.id, 10), &[token])?;
        let body = serde_json::to_string(&request)?;
        let signed = self.signed(&body)?;
        let first = self.send(signed.clone(), body.clone())?;
        ensure!(passed(&first), "the request that is to be played back was stopped: {:?}", first.code);
        let answer = self.send(signed, body.clone());
        must_refuse(answer, ErrorCode::SignatureReplayed, "a request that was played back")?;
        let again = self.send(self.signed(&body)?, body)?;
        ensure!(again.repeated && again.entry == first.entry, "the same action took effect twice: {:?}", again.entry);
        Ok(json!({"code": ErrorCode::SignatureReplayed.as_str(), "entry": first.entry}))
    }

    /// The headers of a signed action.
    fn signed(&self, body: &str) -> Result<Vec<(&'static str, String)>> {
        let host = self.subject.url().strip_prefix("http://").context("the gate has no address")?;
        let (host, prefix) =
            host.split_once('/').map_or((host, String::new()), |(host, path)| (host, format!("/{path}")));
        let authority = authority(host);
        let path = format!("{prefix}/v1/actions");
        let request = Signable {
            method: "POST",
            authority: &authority,
            path: &path,
            query: None,
            if_match: None,
            actions: None,
            body,
        };
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let origin = self.subject.origin()?;
        let signed = sign(&self.agent.key, &request, &origin, now_s, &random(18)?)?;
        let digest = signed.content_digest.context("a body has a digest")?;
        Ok(vec![("content-digest", digest), ("signature-input", signed.input), ("signature", signed.signature)])
    }

    /// Sends what was signed, as it is.
    fn send(&self, headers: Vec<(&'static str, String)>, body: String) -> Result<Verdict> {
        let call = Call::post("/v1/actions").body("application/json", body.into_bytes());
        let call = headers.into_iter().fold(call, |call, (name, value)| call.header(name, value));
        Client::remote(self.subject.url())?.call_once(call)
    }
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
    let agent = subject.agent("refunder", &["refunder"])?;
    let token = agent.observe(["Account::\"outage\""])?;
    let verdict = agent.act(BILLING.name, "refund", &refund("outage", 10), &[token])?;
    ensure!(failed(&verdict).contains(&"account-is-active"), "the freeze was forgotten: {:?}", verdict.verdict);
    Ok(json!({"refused_in": entry_of(&verdict)?}))
}
