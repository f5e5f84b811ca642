//! The clients: agents that observe, think for a while and act, and an operator that feeds, publishes and erases.
//!
//! They only choose what to ask; what should come of it is the checker's business.

use crate::checker::Asked;
use crate::disk::SplitMix;
use crate::identities::key_name;
use crate::{bank, delegations};
use countersign_core::review::Shown;
use countersign_engine::token::Sealer;
use countersign_engine::view::Synced;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// The agents, with their roles.
pub(super) const AGENTS: [(&str, &[&str]); 6] = [
    ("refund-1", &["refunder"]),
    ("refund-2", &["refunder"]),
    ("fraud-1", &["fraud"]),
    ("pay-1", &["payments", "refunder"]),
    ("clerk-1", &["clerk"]),
    ("clerk-2", &["clerk"]),
];
pub(super) const OPERATOR: &str = "operator";
/// Who decides what waits for a person, besides the operator.
const REVIEWER: &str = "vera";
/// With whom an identified log begins.
pub(super) const ADMIN: &str = "admin";
/// The limit in the first version of the pact.
const FIRST_LIMIT: u64 = 90_000;
const ACCOUNTS: [&str; 3] = ["a", "b", "c"];

pub(super) struct Clients {
    rng: SplitMix,
    pub(super) sealer: Sealer,
    /// The tokens that each agent holds, oldest first.
    tokens: BTreeMap<&'static str, Vec<String>>,
    /// The account that each agent saw last.
    seen: BTreeMap<&'static str, &'static str>,
    /// Bodies that were sent, with who sent them.
    sent: Vec<(&'static str, String)>,
    /// Set when an erasure was acknowledged: the key in the erased body, if it was an action.
    pub(super) erased: Option<Option<String>>,
    /// The erasure under way: the key in the body that it erases.
    pub(super) erasing: Option<Option<String>>,
    /// What reviewers were shown, oldest first.
    showings: Vec<(&'static str, Shown)>,
    /// Whether the log begins with an admin, so that everybody signs.
    identified: bool,
    /// Whether the operator changes the pact: loading one costs as much as a hundred actions, so only some runs do.
    publishes: bool,
    actions: u64,
    feeds: u64,
}

impl Clients {
    pub(super) fn new(mut rng: SplitMix, token_key: &[u8; 32], identified: bool) -> Self {
        Self {
            publishes: rng.below(4) == 0,
            rng,
            sealer: Sealer::new(token_key),
            tokens: BTreeMap::new(),
            seen: BTreeMap::new(),
            sent: Vec::new(),
            erased: None,
            erasing: None,
            showings: Vec::new(),
            identified,
            actions: 0,
            feeds: 0,
        }
    }

    pub(super) fn forget_what_was_under_way(&mut self) {
        (self.erased, self.erasing) = (None, None);
    }

    fn pick<T: Copy>(&mut self, from: &[T], otherwise: T) -> T {
        let at = self.rng.below(from.len() as u64);
        usize::try_from(at).ok().and_then(|at| from.get(at)).copied().unwrap_or(otherwise)
    }

    fn account(&mut self) -> &'static str {
        self.pick(&ACCOUNTS, "a")
    }

    fn transfer(&mut self) -> String {
        format!("t{}", self.rng.below(5))
    }

    pub(super) fn agent(&mut self) -> &'static str {
        self.pick(&AGENTS, ("refund-1", &[])).0
    }

    /// Somebody who looks at something: who acts for all others looks most often.
    pub(super) fn observer(&mut self) -> &'static str {
        if self.rng.below(4) == 0 { "clerk-1" } else { self.agent() }
    }

    pub(super) fn nonce(&mut self) -> [u8; 24] {
        let mut nonce = [0; 24];
        nonce.fill_with(|| (self.rng.next() & 0xff) as u8);
        nonce
    }

    /// What an agent wants to see.
    pub(super) fn curiosity(&mut self, agent: &str, view: &Synced<'_>) -> Vec<String> {
        let account = |id: &str| format!("Account::\"{id}\"");
        if !["pay-1", "clerk-1"].contains(&agent) || self.rng.below(4) == 0 {
            let mut facts = vec![account(self.account())];
            if self.rng.below(4) == 0 {
                facts.push(format!("Transfer::\"{}\"", self.transfer()));
            }
            return facts;
        }
        let transfer = format!("Transfer::\"{}\"", self.transfer());
        let value =
            transfer.parse().ok().and_then(|id| view.whole_state().facts.get(&id)).and_then(|fact| fact.value.as_ref());
        let value = value.map(|value| value.to_json()).unwrap_or_default();
        let ends = ["from", "to"].map(|end| value[end].as_str().map(account));
        [Some(transfer)].into_iter().chain(ends).flatten().collect()
    }

    pub(super) fn keep_token(&mut self, agent: &'static str, token: String, facts: &[String]) {
        let account = |fact: &String| ACCOUNTS.into_iter().find(|id| *fact == format!("Account::\"{id}\""));
        if let Some(account) = facts.iter().find_map(account) {
            self.seen.insert(agent, account);
        }
        let held = self.tokens.entry(agent).or_default();
        held.push(token);
        if held.len() > 4 {
            held.remove(0);
        }
    }

    /// The next thing that some client asks.
    pub(super) fn next(&mut self, view: &Synced<'_>) -> (&'static str, Asked) {
        match self.rng.below(100) {
            0..54 => self.action(),
            54..64 => self.many(),
            64..70 => self.repeat(),
            70..80 => (OPERATOR, self.feed(view)),
            80..94 => self.review(view),
            94..97 if self.publishes || view.whole_state().pacts.is_empty() => (OPERATOR, self.publish(view)),
            97 => (OPERATOR, self.stop(view)),
            _ => (OPERATOR, Asked::ConfirmClock),
        }
    }

    /// Everything that the bank needs to begin.
    pub(super) fn opening(&mut self) -> Vec<(&'static str, Asked)> {
        let mut asked = Vec::new();
        if self.identified {
            let all = ["publisher", "feeder", "reviewer", "auditor", "admin"];
            asked.push((ADMIN, feed_operator(OPERATOR, &all)));
            asked.push((ADMIN, feed_operator(REVIEWER, &["reviewer"])));
        }
        asked.push((OPERATOR, Asked::Publish { version: 1, source: bank::pact(1, FIRST_LIMIT) }));
        for (agent, roles) in AGENTS {
            asked.push((OPERATOR, feed_agent(agent, roles, "active")));
        }
        for account in ACCOUNTS {
            let value = json!({"balance": 200_000, "owner": format!("owner-of-{account}"), "status": "active"});
            asked.push((
                OPERATOR,
                Asked::Feed { fact: format!("Account::\"{account}\""), value: Some(value), if_match: None },
            ));
        }
        asked
    }

    fn action(&mut self) -> (&'static str, Asked) {
        let mut agent = self.agent();
        let (account, transfer) = (self.account(), self.transfer());
        let amount = match self.rng.below(10) {
            0 => self.rng.below(600_000),
            1 | 2 => self.rng.below(120_000),
            // Enough for a person to look at it, and within the first limit.
            3..6 => 60_001 + self.rng.below(25_000),
            _ => 1 + self.rng.below(50_000),
        };
        // Mostly an agent does what it may.
        let mut kind = self.rng.below(24);
        let handed = self.delegation();
        if let Some((actor, first, count, _)) = handed {
            agent = actor;
            kind = first + self.rng.below(count);
        } else if self.rng.below(20) > 0 {
            agent = match kind {
                0..10 => self.pick(&["refund-1", "refund-2", "pay-1"], agent),
                10..16 => "fraud-1",
                _ => "pay-1",
            };
        }
        // Mostly on what it has just looked at.
        let account = self.seen.get(agent).copied().filter(|_| self.rng.below(5) > 0).unwrap_or(account);
        let (action, params) = match kind {
            0..8 => ("refund", json!({"account": account, "amount": amount})),
            8..10 => ("tip", json!({"account": account, "amount": amount})),
            10..12 => ("freeze", json!({"account": account})),
            12..15 => ("thaw", json!({"account": account})),
            15 => ("close", json!({"account": account})),
            16..18 => {
                let (from, to) = (self.account(), self.account());
                ("request", json!({"transfer": transfer, "from": from, "to": to, "amount": amount}))
            }
            18..23 => ("execute", json!({"transfer": transfer})),
            _ => self.mistake(account),
        };
        let tokens = self.tokens_of(agent);
        self.actions += 1;
        let pact = if self.rng.below(60) == 0 { "bonk" } else { "bank" };
        let mut body = json!({
            "pact": pact, "action": action, "params": params, "observations": tokens,
            "idempotency_key": format!("key-{:028}", self.actions),
        });
        if let Some((.., token)) = handed {
            body["delegation"] = json!(token);
        }
        let body = body.to_string();
        self.sent.push((agent, body.clone()));
        (agent, Asked::Act { body })
    }

    /// Several actions of one agent at once, half of the time as an atomic group; now and then one that was sent before.
    fn many(&mut self) -> (&'static str, Asked) {
        let mut of_agent: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
        for _ in 0..=self.rng.below(5) {
            if let (agent, Asked::Act { body }) = self.action() {
                of_agent.entry(agent).or_default().push(body);
            }
        }
        let Some((agent, mut bodies)) = of_agent.into_iter().max_by_key(|(_, bodies)| bodies.len()) else {
            return self.action();
        };
        let atomic = self.rng.below(2) == 0;
        if self.rng.below(8) == 0 {
            let before = self.sent.iter().find(|(by, body)| *by == agent && !bodies.contains(body));
            bodies.extend(before.map(|(_, body)| body.clone()));
        }
        (agent, Asked::Many { bodies, atomic })
    }

    /// Sometimes a delegation: who acts with it, which kinds of action it is mostly good for, and the token.
    fn delegation(&mut self) -> Option<(&'static str, u64, u64, &'static str)> {
        if self.rng.below(4) > 0 {
            return None;
        }
        let all = delegations::all().ok()?;
        // Those that no gate may take come last, and are tried less often.
        let count = if self.rng.below(4) > 0 { 8 } else { all.len() as u64 };
        let handed = all.get(usize::try_from(self.rng.below(count)).ok()?)?;
        // Now and then somebody else has got hold of it, or uses it for something else.
        let actor = if self.rng.below(16) == 0 { self.agent() } else { "clerk-1" };
        let (first, count) = match handed.chain["root"].as_str() {
            _ if self.rng.below(12) == 0 => (0, 24),
            Some("pay-1") => (16, 7),
            Some("fraud-1") => (10, 5),
            _ => (0, 8),
        };
        Some((actor, first, count, &handed.token))
    }

    /// Who looks at what waits: mostly a reviewer, now and then somebody who had better not.
    pub(super) fn reviewer(&mut self) -> &'static str {
        match self.rng.below(12) {
            0 => self.agent(),
            1..4 => OPERATOR,
            _ => REVIEWER,
        }
    }

    /// An action that waits for a person; now and then one that does not, or no longer.
    pub(super) fn waiting(&mut self, view: &Synced<'_>) -> Option<u64> {
        let open: Vec<u64> = view.whole_state().reviews.open().map(|(review, _)| review.0).collect();
        if open.is_empty() || self.rng.below(10) == 0 {
            return self.showings.first().map(|(_, shown)| shown.review.0);
        }
        Some(self.pick(&open, 0))
    }

    pub(super) fn keep_showing(&mut self, reviewer: &'static str, shown: Shown) {
        self.showings.push((reviewer, shown));
        if self.showings.len() > 5 {
            self.showings.remove(0);
        }
    }

    /// What a reviewer was shown of a review at a time.
    pub(super) fn showing(&self, by: &str, review: u64, at_ms: u64) -> Option<&Shown> {
        let mut showings = self.showings.iter().rev();
        let found = showings.find(|(to, shown)| *to == by && shown.review.0 == review && shown.at_ms == at_ms);
        found.map(|(_, shown)| shown)
    }

    /// A reviewer approves what it was shown, lately or not, or refuses.
    fn review(&mut self, view: &Synced<'_>) -> (&'static str, Asked) {
        let back = usize::try_from(self.rng.below(2) * self.rng.below(5)).unwrap_or(0);
        let until = match self.rng.below(8) {
            0 => 500,
            1 => 9_000_000,
            _ => 600_000,
        };
        if let Some((by, shown)) = self.showings.iter().rev().nth(back).filter(|_| self.rng.below(5) > 0) {
            let (review, shown_at_ms) = (shown.review.0, shown.at_ms);
            return (*by, Asked::Approve { review, shown_at_ms, until_ms: shown_at_ms + until });
        }
        match self.waiting(view) {
            Some(review) if self.rng.below(3) == 0 => (self.reviewer(), Asked::Refuse { review }),
            _ => self.action(),
        }
    }

    fn mistake(&mut self, account: &str) -> (&'static str, Json) {
        match self.rng.below(3) {
            0 => ("rob", json!({"account": account})),
            1 => ("freeze", json!({})),
            _ => ("refund", json!({"account": account, "amount": "all"})),
        }
    }

    fn tokens_of(&mut self, agent: &str) -> Vec<String> {
        let held = self.tokens.get(agent).cloned().unwrap_or_default();
        let newest = held.len().saturating_sub(usize::try_from(self.rng.below(3)).unwrap_or(0));
        match self.rng.below(8) {
            0 => Vec::new(),
            1 => held,
            _ => held.get(newest.saturating_sub(1)..newest).unwrap_or_default().to_vec(),
        }
    }

    /// A client that heard nothing asks again; now and then with another body under the same key.
    fn repeat(&mut self) -> (&'static str, Asked) {
        let at = self.rng.below(self.sent.len() as u64);
        let Some((agent, body)) = usize::try_from(at).ok().and_then(|at| self.sent.get(at)).cloned() else {
            return self.action();
        };
        let body = if self.rng.below(4) == 0 { body.replace("\"amount\":", "\"amount\": ") } else { body };
        (agent, Asked::Act { body })
    }

    fn feed(&mut self, view: &Synced<'_>) -> Asked {
        if self.rng.below(8) == 0 {
            let (agent, roles) = self.pick(&AGENTS, ("refund-1", &["refunder"]));
            let standing = if self.rng.below(3) == 0 { "quarantined" } else { "active" };
            let mut asked = feed_agent(agent, roles, standing);
            if let (Asked::Feed { value: Some(value), .. }, 0) = (&mut asked, self.rng.below(4)) {
                // Another key, with an overlap that may be over before it began.
                value["old_key"] = json!(key_name(agent, 0));
                value["old_key_until"] = json!(view.time_ms + self.rng.below(4_000));
                value["key"] = json!(key_name(agent, 1));
                // Now and then its keys go to a gateway.
                if self.feeds.is_multiple_of(2) {
                    value["held_by"] = json!("gateway");
                }
            }
            return asked;
        }
        if self.identified && self.rng.below(16) == 0 {
            return feed_operator(REVIEWER, if self.rng.below(2) == 0 { &["auditor"] } else { &["reviewer"] });
        }
        self.feeds += 1;
        let fact = format!("Account::\"{}\"", self.account());
        let balance = match self.rng.below(12) {
            0 => 0,
            1 => 9_007_199_254_740_991 - self.rng.below(100),
            _ => self.rng.below(300_000),
        };
        let status = self.pick(&["active", "active", "active", "frozen", "closed"], "active");
        let value = json!({"balance": balance, "owner": format!("owner-{}", self.feeds), "status": status});
        let value = (self.rng.below(12) > 0).then_some(value);
        let current =
            fact.parse().ok().and_then(|id| view.whole_state().facts.get(&id)).map_or(0, |fact| fact.version());
        let if_match = match self.rng.below(4) {
            0 => Some(current),
            1 => Some(current.saturating_sub(self.rng.below(2))),
            _ => None,
        };
        Asked::Feed { fact, value, if_match }
    }

    /// Halts something; more often lets go on what is halted, or little else would ever happen.
    fn stop(&mut self, view: &Synced<'_>) -> Asked {
        let halted = view.whole_state().halts.iter().next().map(|(scope, _)| scope.to_string());
        match halted {
            Some(scope) if self.rng.below(5) > 0 => Asked::Resume { scope },
            _ if self.rng.below(8) == 0 => Asked::Resume { scope: "agent:refund-2".to_owned() },
            _ => {
                let scopes =
                    ["agent:refund-1", "agent:pay-1", "org:bank", "org:elsewhere", "pact:bank", "pact:bonk", "all"];
                Asked::Halt { scope: self.pick(&scopes, "all").to_owned() }
            }
        }
    }

    fn publish(&mut self, view: &Synced<'_>) -> Asked {
        let current = view.whole_state().pacts.values().next().map_or(0, |pact| pact.version);
        let version = current + 1 - u64::from(current > 0 && self.rng.below(6) == 0);
        let limit = if version == 1 { FIRST_LIMIT } else { 40_000 + self.rng.below(60_000) };
        Asked::Publish { version, source: bank::pact(version, limit) }
    }
}

fn feed_agent(agent: &str, roles: &[&str], standing: &str) -> Asked {
    let value = json!({"key": key_name(agent, 0), "org": "bank", "roles": roles, "standing": standing, "trust": 500});
    Asked::Feed { fact: format!("Agent::\"{agent}\""), value: Some(value), if_match: None }
}

fn feed_operator(operator: &str, roles: &[&str]) -> Asked {
    let mut roles = roles.to_vec();
    roles.sort_unstable();
    let value = json!({"key": key_name(operator, 0), "roles": roles, "standing": "active"});
    Asked::Feed { fact: format!("Operator::\"{operator}\""), value: Some(value), if_match: None }
}
