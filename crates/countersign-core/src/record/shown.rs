//! Entries as people and programs are shown them: JSON, with every id, version and body in its place (docs/formats/entry.md).
//!
//! The interface over HTTP, the command line and the gateway show this and nothing else. What is hashed, signed and proved are the
//! bytes of the leaf.

use super::context::Given;
use super::decode::DecodeError;
use super::encode::{Form, write_payload};
use super::{Entry, FORMAT, Leaf};
use crate::canonical::Canonical;
use crate::ids::Tag;

/// An entry as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Its leaf, as canonical JSON.
    pub leaf: String,
    /// Its payload, as canonical JSON; `None` where it was erased.
    pub payload: Option<String>,
}

/// Shows a stored entry.
///
/// # Errors
/// If it is not one of this format.
pub fn show(leaf: &[u8], payload: Option<&[u8]>) -> Result<Shown, DecodeError> {
    let leaf = Leaf::decode(leaf)?;
    let shown = leaf.show();
    let payload =
        payload.map(|payload| Entry::decode(leaf, Some(payload)).map(|entry| entry.show_payload())).transpose()?;
    Ok(Shown { leaf: shown, payload })
}

impl Entry {
    /// Its payload as it is shown.
    pub fn show_payload(&self) -> String {
        let mut out = Canonical::new();
        write_payload(&mut out, self, Form::Shown);
        out.into_string()
    }
}

impl Leaf {
    /// As it is shown.
    pub fn show(&self) -> String {
        let mut out = Canonical::new();
        out.open('{');
        if let Some(acknowledged) = &self.acknowledged {
            out.key("acknowledged");
            numbers(&mut out, acknowledged);
        }
        if let Some(action) = &self.action {
            out.key("action");
            out.hex_string(&action.0);
        }
        hex_list(&mut out, "actions", self.actions.iter().flatten().map(|id| id.0.as_slice()));
        text(&mut out, "auth", self.auth.as_str());
        number(&mut out, "batch", self.batch);
        let given = self.context.given();
        if let Some(given) = given.filter(|given| !given.because_of.is_empty()) {
            out.key("because_of");
            numbers(&mut out, &given.because_of);
        }
        text(&mut out, "by", self.by.as_str());
        number(&mut out, "claim", self.claim);
        out.key("commitment");
        out.hex_string(&self.commitment.0);
        number(&mut out, "confidence", given.and_then(|given| given.confidence));
        if !self.deletes.is_empty() {
            out.key("deletes");
            numbers(&mut out, &self.deletes);
        }
        number(&mut out, "effect", self.effect);
        if let Some(erased) = &self.erased {
            out.key("erased");
            numbers(&mut out, erased);
        }
        self.from.iter().for_each(|from| text(&mut out, "from", from.as_str()));
        number(&mut out, "held", self.held);
        self.identity.iter().for_each(|identity| text(&mut out, "identity", identity.as_str()));
        number(&mut out, "index", Some(self.index));
        if let Some(key) = &self.key {
            out.key("key");
            out.hex_string(key);
        }
        hex_list(&mut out, "keys", self.keys.iter().flatten().map(<[u8; 16]>::as_slice));
        text(&mut out, "kind", self.kind.as_str());
        labels(&mut out, given);
        self.log_key.iter().for_each(|log_key| text(&mut out, "log_key", log_key));
        if let Some(pact) = &self.pact {
            out.key("pact");
            out.open('{');
            out.key("hash");
            out.hex_string(&pact.hash.0);
            text(&mut out, "name", pact.name.as_str());
            number(&mut out, "version", Some(pact.version));
            out.close('}');
        }
        versions(&mut out, "reads", self.reads.as_deref());
        if let Some(request) = &self.request {
            out.key("request");
            out.hex_string(request);
        }
        number(&mut out, "review", self.review);
        self.scope.iter().for_each(|scope| text(&mut out, "scope", scope));
        score(&mut out, given);
        given.and_then(|given| given.session.as_ref()).into_iter().for_each(|it| text(&mut out, "session", it));
        number(&mut out, "severity", given.and_then(|given| given.severity));
        number(&mut out, "time", Some(self.time));
        self.to.iter().for_each(|to| text(&mut out, "to", to.as_str()));
        number(&mut out, "v", Some(FORMAT));
        self.verdict.iter().for_each(|verdict| text(&mut out, "verdict", verdict.as_str()));
        versions(&mut out, "writes", self.writes.as_deref());
        out.close('}');
        out.into_string()
    }
}

fn text(out: &mut Canonical, key: &str, text: &str) {
    out.key(key);
    out.string(text);
}

fn number(out: &mut Canonical, key: &str, number: Option<u64>) {
    if let Some(number) = number {
        out.key(key);
        out.u64(number);
    }
}

/// Nothing where there is none.
fn hex_list<'a>(out: &mut Canonical, key: &str, items: impl Iterator<Item = &'a [u8]>) {
    let mut items = items.peekable();
    if items.peek().is_none() {
        return;
    }
    out.key(key);
    out.open('[');
    for item in items {
        out.element();
        out.hex_string(item);
    }
    out.close(']');
}

fn numbers(out: &mut Canonical, numbers: &[u64]) {
    out.open('[');
    for number in numbers {
        out.element();
        out.u64(*number);
    }
    out.close(']');
}

fn labels(out: &mut Canonical, given: Option<&Given>) {
    let Some(given) = given.filter(|given| !given.labels.is_empty()) else { return };
    out.key("labels");
    out.open('[');
    for label in &given.labels {
        out.element();
        out.string(label);
    }
    out.close(']');
}

fn score(out: &mut Canonical, given: Option<&Given>) {
    let Some(given) = given.filter(|given| !given.score.is_empty()) else { return };
    out.key("score");
    out.open('[');
    for (name, counts) in &given.score {
        out.element();
        out.open('[');
        out.element();
        out.string(name);
        out.element();
        out.i64(*counts);
        out.close(']');
    }
    out.close(']');
}

fn versions(out: &mut Canonical, key: &str, versions: Option<&[(Tag, u64)]>) {
    let Some(versions) = versions else { return };
    out.key(key);
    out.open('[');
    for (tag, version) in versions {
        out.element();
        out.open('[');
        out.element();
        out.hex_string(&tag.0);
        out.element();
        out.u64(*version);
        out.close(']');
    }
    out.close(']');
}
