//! `countersign verify --attested`: what an agent was shown, checked by someone who has no log and trusts neither the agent nor the gate.
//!
//! The receipt proves the leaf under a checkpoint that the log's key signed; the leaf commits to salt and payload; and the payload holds
//! the agent's own signature on its request.

use super::{Exit, Failure, Outcome};
use crate::hinted::{OrHinted as _, hinted};
use crate::terminal::{say, say_json, time};
use anyhow::Result;
use countersign_api::Attested;
use countersign_core::canonical::Canonical;
use countersign_core::hex;
use countersign_core::observation::Seen;
use countersign_core::record::{Entry, Event, Leaf};
use countersign_engine::fold::payload_matches;
use countersign_engine::identity::stored::{self, Checked};
use countersign_ledger::checkpoint::LogKey;
use countersign_ledger::receipt::Receipt;
use serde_json::{Value, json};
use std::path::Path;

/// Checks what proves an entry, and says what it holds.
pub(super) fn run(path: &Path, key: &LogKey, is_json: bool) -> Result<Outcome> {
    let name = path.display();
    let text = std::fs::read_to_string(path).or_hinted(
        || hinted!("cannot read {name}"; "name a file that `countersign observe --attest --proof FILE` wrote"),
    )?;
    let attested: Attested = serde_json::from_str(&text).or_hinted(|| {
        hinted!("{name} is not what proves an entry"; "name a file that `countersign observe --attest --proof FILE` wrote")
    })?;
    let (entry, checked) = open(&attested, key).map_err(|why| {
        Failure::of(Exit::No, std::io::Error::other(why))
            .hint("it proves nothing: it was altered, or is of another log or key")
    })?;
    let Event::Observation(observation) = &entry.event else {
        return Err(Failure::no(format!(
            "entry {} is of kind `{}`, and no observation",
            entry.index,
            entry.event.kind()
        ))
        .hint("`countersign verify --against` checks receipts of other kinds against a log")
        .into());
    };
    let at_ms = observation.began_ms.unwrap_or(entry.time_ms);
    let signed = match checked {
        Checked::Verified => "signature",
        Checked::VerifiedOfGateway => "gateway",
        Checked::Unsigned | Checked::OfBatch => "none",
    };
    if is_json {
        let facts: Vec<Value> = observation.facts.iter().map(shown).collect();
        say_json(&json!({"ok": true, "entry": entry.index, "origin": key.origin(), "agent": entry.by.as_str(),
            "auth": signed, "at": at_ms, "position": entry.index, "facts": facts}));
        return Ok(Outcome::Yes);
    }
    let by = match checked {
        Checked::Verified => "which signed the request",
        Checked::VerifiedOfGateway => "for which a gateway signed the request",
        Checked::Unsigned | Checked::OfBatch => "as the gate was told: nothing was signed",
    };
    say(format_args!("entry {} of {}: {} was shown, {by}, at {}", entry.index, key.origin(), entry.by, time(at_ms)));
    for seen in &observation.facts {
        let version = match seen.version.and_then(|version| version.number()) {
            Some(0) => "which did not exist".to_owned(),
            Some(number) => format!("version {number}"),
            None => "as it was read elsewhere".to_owned(),
        };
        let value = seen.value.as_ref().map(|value| {
            let mut out = Canonical::new();
            value.write(&mut out);
            format!("  {}", out.as_str())
        });
        say(format_args!("  {} {version}{}", seen.fact, value.unwrap_or_default()));
        if !seen.withheld.is_empty() {
            say(format_args!("    not shown: {}", seen.withheld.join(", ")));
        }
    }
    Ok(Outcome::Yes)
}

/// The entry that is proved, and what became of the signature that it keeps.
fn open(attested: &Attested, key: &LogKey) -> Result<(Entry, Checked), String> {
    let receipt = Receipt::decode(&attested.receipt).map_err(|error| error.to_string())?;
    receipt.verify(key).map_err(|error| error.to_string())?;
    let salt = hex::array(&attested.salt).ok_or("the salt is not 16 bytes in hexadecimal")?;
    if !payload_matches(&receipt.leaf, &salt, attested.payload.as_bytes()) {
        return Err("the payload is not the one that the entry commits to".to_owned());
    }
    let leaf = Leaf::decode(&receipt.leaf).map_err(|error| error.to_string())?;
    if (leaf.index, receipt.index) != (attested.entry, attested.entry) {
        return Err(format!("it says that it is entry {}, and proves entry {}", attested.entry, receipt.index));
    }
    let payload = attested.payload.as_bytes();
    let checked = stored::check(&leaf, payload, key.origin()).map_err(|error| error.to_string())?;
    let entry = Entry::decode(leaf, Some(payload)).map_err(|error| error.to_string())?;
    Ok((entry, checked))
}

fn shown(seen: &Seen) -> Value {
    let value = seen.value.as_ref().map(|value| value.to_json());
    json!({"fact": seen.fact.to_string(), "version": seen.version.and_then(|version| version.number()), "value": value,
        "withheld": seen.withheld.iter().map(ToString::to_string).collect::<Vec<_>>()})
}
