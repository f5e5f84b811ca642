//! Grants against revocations on access lists (CONC-5), judged from the ledger alone: what `examples/access.toml` promises,
//! in a few lines that know nothing of pacts.

use super::history::LogEntry;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// What a ledger of grants and revocations that is right amounts to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Grants {
    /// How many grants committed.
    pub granted: u64,
    /// How many revocations committed.
    pub revoked: u64,
    /// How many grants were refused because the member had been revoked.
    pub refused: u64,
}

/// Judges a ledger of an identified gate in which members are granted and revoked.
///
/// # Errors
/// Everything that is wrong with it, in words.
pub fn check_grants(entries: &[LogEntry]) -> Result<Grants, Vec<String>> {
    let mut judge = Judge::default();
    for (index, entry) in (0u64..).zip(entries).filter(|(_, entry)| entry.leaf["kind"] == "action") {
        if let Err(complaint) = judge.entry(index, entry) {
            judge.complaints.push(format!("entry {index}: {complaint}"));
        }
    }
    if judge.complaints.is_empty() { Ok(judge.grants) } else { Err(judge.complaints) }
}

#[derive(Default)]
struct Judge {
    grants: Grants,
    /// For each member of a list, the entry that revoked it.
    revoked: BTreeMap<(String, String), u64>,
    complaints: Vec<String>,
}

impl Judge {
    fn entry(&mut self, index: u64, entry: &LogEntry) -> Result<(), String> {
        if entry.leaf["auth"] != "signature" || !entry.payload["signed"].is_object() {
            return Err("nobody signed it".to_owned());
        }
        let body: Json = serde_json::from_str(entry.payload["body"].as_str().unwrap_or_default())
            .map_err(|error| error.to_string())?;
        let part = |name: &str| body["params"][name].as_str().unwrap_or_default().to_owned();
        let member = (part("list"), part("member"));
        let revoked = self.revoked.get(&member).copied();
        match (body["action"].as_str(), entry.leaf["verdict"].as_str(), revoked) {
            (Some("grant"), Some("committed"), None) => {
                self.grants.granted += 1;
                writes(entry, &member, "granted")
            }
            (Some("grant"), Some("committed"), Some(before)) => {
                Err(format!("it grants {member:?}, which entry {before} had revoked"))
            }
            (Some("grant"), Some("rejected"), Some(_)) => {
                self.grants.refused += 1;
                let failed = &entry.payload["decision"]["blocked"]["failed"][0]["precondition"];
                if failed == "member-was-not-revoked" { Ok(()) } else { Err(format!("it was refused for {failed}")) }
            }
            (Some("revoke"), Some("committed"), None) => {
                self.grants.revoked += 1;
                self.revoked.insert(member.clone(), index);
                writes(entry, &member, "revoked")
            }
            (action, verdict, revoked) => {
                Err(format!("{action:?} of {member:?} was {verdict:?}, and the member was revoked in {revoked:?}"))
            }
        }
    }
}

fn writes(entry: &LogEntry, (list, member): &(String, String), state: &str) -> Result<(), String> {
    let write = &entry.payload["writes"][0];
    if write["fact"] == format!("Membership::\"{list}/{member}\"") && write["value"]["state"] == state {
        return Ok(());
    }
    Err(format!("it writes {write}"))
}
