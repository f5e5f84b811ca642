//! Compares the ledger of a gate with the books of the services that it called. It reads entries as anybody can, and shares no
//! code with what wrote them.

use countersign_testing::payments::book::Payout;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// What a ledger says about calls.
#[derive(Default)]
pub struct Judge {
    entries: Vec<Json>,
    effects: BTreeMap<u64, Effect>,
    balances: BTreeMap<String, i64>,
}

/// One call, as its entries tell it.
#[derive(Debug, Default, Clone)]
struct Effect {
    /// What was dispatched: adapter, key, amount, destination; `None` while it cools, or where it was cancelled.
    sent: Option<(String, Payout)>,
    /// Its outcomes, in order; `cancelled` for one that was never dispatched.
    outcomes: Vec<String>,
    /// What spoke for each.
    findings: Vec<String>,
    /// Where it was from which entry on.
    states: Vec<(u64, String)>,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Judged {
    pub effects: u64,
    pub settled: u64,
    pub failed: u64,
    pub cancelled: u64,
    pub doubts: u64,
    pub doubts_settled: u64,
    pub doubts_failed: u64,
    pub doubts_by_kills: u64,
    pub paid: u64,
}

impl Judged {
    /// A run in which nothing went wrong shows nothing.
    pub fn was_a_race(&self, payouts: u64) {
        assert!(self.settled > payouts / 3, "{self:?}");
        assert!(self.doubts_settled > payouts / 50 && self.doubts_failed > payouts / 50, "{self:?}");
        assert!(self.doubts_by_kills > 0 && self.cancelled > 0, "{self:?}");
    }
}

impl Judge {
    /// Reads the ledger on from where it was, again and again, until no call is open.
    pub fn follow(&mut self, url: &str, patience: Duration) {
        let agent: ureq::Agent = ureq::Agent::config_builder().proxy(None).build().into();
        let until = Instant::now() + patience;
        loop {
            self.read(&agent, url);
            let open: Vec<_> = self.effects.iter().filter(|(_, effect)| !effect.is_over()).collect();
            if open.is_empty() {
                return;
            }
            assert!(Instant::now() < until, "{} calls are still open: {:?}", open.len(), open.first());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// How many entries were read.
    pub fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Where the calls from an entry on were when the ledger had so many entries and so much was paid.
    pub fn stages(&self, since: u64, size: u64, paid: &BTreeSet<String>) -> Vec<String> {
        let stage = |effect: &Effect| {
            let (_, state) = effect.states.iter().rfind(|(entry, _)| *entry < size)?;
            let is_paid = effect.sent.as_ref().is_some_and(|(_, sent)| paid.contains(&sent.key));
            Some(match state.as_str() {
                "cooling" | "cancelled" => state.clone(),
                _ if is_paid => format!("{state}, paid"),
                _ => format!("{state}, not paid"),
            })
        };
        self.effects.range(since..).filter_map(|(_, effect)| stage(effect)).collect()
    }

    /// The calls, by the entries of their intents.
    pub fn effects(&self) -> impl Iterator<Item = u64> {
        self.effects.keys().copied()
    }

    fn read(&mut self, agent: &ureq::Agent, url: &str) {
        loop {
            let page = format!("{url}/v1/ledger/entries?start={}&limit=200", self.entries.len());
            let mut answer = agent.get(page).header("countersign-agent", "operator").call().unwrap();
            let page: Json = answer.body_mut().read_json().unwrap();
            let page = page["entries"].as_array().unwrap();
            if page.is_empty() {
                return;
            }
            for entry in page {
                self.take(entry);
                self.entries.push(entry.clone());
            }
        }
    }

    fn take(&mut self, entry: &Json) {
        let (leaf, payload) = (&entry["leaf"], &entry["payload"]);
        let index = leaf["index"].as_u64().unwrap();
        let verdict = leaf["verdict"].as_str().unwrap_or_default().to_owned();
        match leaf["kind"].as_str().unwrap() {
            "action" if verdict == "in_flight" => {
                let sent = sent(payload);
                let state = if sent.is_some() { "dispatched" } else { "cooling" };
                let states = vec![(index, state.to_owned())];
                self.effects.insert(index, Effect { sent, states, ..Effect::default() });
            }
            "dispatch" => {
                let effect = self.effects.get_mut(&leaf["effect"].as_u64().unwrap()).expect("a dispatch has an intent");
                assert!(effect.sent.is_none() && effect.outcomes.is_empty(), "dispatched twice: {entry}");
                match sent(payload) {
                    Some(sent) => {
                        effect.sent = Some(sent);
                        effect.states.push((index, "dispatched".to_owned()));
                    }
                    None => {
                        effect.outcomes.push("cancelled".to_owned());
                        effect.states.push((index, "cancelled".to_owned()));
                    }
                }
            }
            "settle" => {
                let effect =
                    self.effects.get_mut(&leaf["effect"].as_u64().unwrap()).expect("a settlement has an intent");
                assert!(effect.sent.is_some() && !effect.is_over(), "settled out of turn: {entry}");
                effect.states.push((index, verdict.clone()));
                effect.outcomes.push(verdict);
                effect.findings.push(payload["evidence"]["found"].as_str().unwrap_or_default().to_owned());
            }
            _ => {}
        }
        // Nobody else's word counts for a balance: the last write in the ledger is what it is.
        for write in payload["writes"].as_array().into_iter().flatten() {
            if let (Some(fact), Some(balance)) = (write["fact"].as_str(), write["value"]["balance"].as_i64()) {
                self.balances.insert(fact.to_owned(), balance);
            }
        }
    }

    /// Compares with the books, by the names of their adapters.
    pub fn compare(&self, books: &[(&str, &[Payout])]) -> Judged {
        self.compare_since(0, books)
    }

    /// Compares everything, and counts the calls from an entry on.
    pub fn compare_since(&self, since: u64, books: &[(&str, &[Payout])]) -> Judged {
        let mut judged = Judged::default();
        let mut paid: BTreeMap<(&str, &str), &Payout> = BTreeMap::new();
        for (adapter, book) in books {
            for payout in *book {
                let before = paid.insert((adapter, &payout.key), payout);
                assert!(before.is_none(), "paid twice: {payout:?}");
                judged.paid += 1;
            }
        }
        let mut known = BTreeSet::new();
        let mut spent: BTreeMap<String, i64> = BTreeMap::new();
        for (id, effect) in &self.effects {
            if *id >= since {
                judged.count(effect);
            }
            let Some((adapter, sent)) = &effect.sent else { continue };
            assert!(known.insert((adapter.as_str(), sent.key.as_str())), "two calls have the key of eff_{id}");
            let found = paid.get(&(adapter.as_str(), sent.key.as_str()));
            match effect.outcomes.last().map(String::as_str) {
                Some("settled") => {
                    assert_eq!(
                        found.copied(),
                        Some(sent),
                        "eff_{id} is settled, and the book says otherwise: {effect:?}"
                    );
                    *spent.entry(format!("Account::\"{}\"", sent.destination)).or_default() += sent.amount;
                }
                Some("failed") => assert_eq!(found, None, "eff_{id} has failed, and was paid: {effect:?}"),
                other => panic!("eff_{id} ended as {other:?}"),
            }
        }
        for key in paid.keys() {
            assert!(known.contains(key), "{key:?} was paid, and nobody dispatched it");
        }
        for (account, spent) in spent {
            assert_eq!(self.balances.get(&account).copied(), Some(crate::effects::BALANCE - spent), "{account}");
        }
        judged
    }
}

impl Judged {
    fn count(&mut self, effect: &Effect) {
        self.effects += 1;
        let last = effect.outcomes.last().map(String::as_str);
        self.settled += u64::from(last == Some("settled"));
        self.failed += u64::from(last == Some("failed"));
        self.cancelled += u64::from(last == Some("cancelled"));
        if effect.outcomes.first().is_some_and(|first| first == "in_doubt") {
            self.doubts += 1;
            self.doubts_settled += u64::from(last == Some("settled"));
            self.doubts_failed += u64::from(last == Some("failed"));
            self.doubts_by_kills += u64::from(effect.findings[0] == "interrupted");
        }
    }
}

impl Effect {
    fn is_over(&self) -> bool {
        self.outcomes.last().is_some_and(|outcome| outcome != "in_doubt")
    }
}

/// What an entry puts under way; its key is in the path of its probe.
fn sent(payload: &Json) -> Option<(String, Payout)> {
    let call = payload["effect"].get("call")?;
    let key = call["probe"]["send"]["path"].as_str().unwrap().strip_prefix("/payouts/").unwrap();
    let body = &call["send"]["body"];
    let payout = Payout {
        key: key.to_owned(),
        amount: body["amount"].as_i64().unwrap(),
        destination: body["destination"].as_str().unwrap().to_owned(),
    };
    Some((call["adapter"].as_str().unwrap().to_owned(), payout))
}
