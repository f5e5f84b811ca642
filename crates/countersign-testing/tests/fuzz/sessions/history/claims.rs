//! Claims, and groups of actions that they keep out, beside the sessions.

use super::{Fuzz, agent};
use countersign_core::fence::ClaimId;
use countersign_core::identity::Auth;
use countersign_core::ids::FactId;
use countersign_core::record::LeafVerdict;
use countersign_engine::request::{ActMany, Answer, Request};
use countersign_testing::gate::feed;
use serde_json::json;

/// Claims of two priorities, and actions that groups are made of, over facts that may be erased.
pub(super) const PACT: &str = r#"
pact = "bank"
version = 1

[facts.Account]
attributes = { balance = "Long", open = "Bool" }

[[claim.Account]]
who = 'true'
max = "2s"
priority = 1

[[claim.Account]]
who = 'principal.roles.contains("chief")'
max = "1s"
priority = 5

[action.take]
resource = 'Account::"{from}"'
allow = 'principal.org == "a"'
set = { balance = "resource.balance - context.n" }
budget = { sum = "n", max = 40, per = "1s", by = "agent" }
params.type = "object"
params.additionalProperties = false
params.required = ["from", "to", "n"]
params.properties.from = { type = "string", maxLength = 9 }
params.properties.to = { type = "string", maxLength = 9 }
params.properties.n = { type = "integer", minimum = 0 }
require = [{ id = "covered", that = 'resource.balance >= context.n' }]

[action.move]
resource = 'Account::"{from}"'
reads.dest = 'Account::"{to}"'
allow = 'principal.org == "a"'
params.type = "object"
params.additionalProperties = false
params.required = ["from", "to", "n"]
params.properties.from = { type = "string", maxLength = 9 }
params.properties.to = { type = "string", maxLength = 9 }
params.properties.n = { type = "integer", minimum = 0 }
require = [{ id = "there", that = 'resource.balance >= context.n && context.dest.open' }]
set = { balance = "resource.balance - context.n", "dest.balance" = "context.dest.balance + context.n" }
"#;

/// The third has a higher priority.
const AGENTS: [&str; 3] = ["ann", "bob", "cid"];
const ACCOUNTS: [&str; 3] = ["x", "y", "z"];

impl Fuzz {
    pub(super) fn furnish_bank(&mut self) {
        let value = r#"{"roles":["chief"],"standing":"active","org":"a","trust":1}"#;
        self.call(feed("Agent::\"cid\"", value)).unwrap();
        ACCOUNTS.iter().for_each(|_| self.feed_account());
    }

    pub(super) fn feed_account(&mut self) {
        let (account, balance) = (self.one_of(&ACCOUNTS).unwrap(), self.random.below(60));
        let value = json!({"balance": balance, "open": !self.is_one_in(6)}).to_string();
        self.call(feed(&format!("Account::\"{account}\""), &value)).unwrap();
    }

    /// Announces, extends or withdraws.
    pub(super) fn claim(&mut self) {
        let (by, auth) = (agent(self.one_of(&AGENTS).unwrap()), Auth::None);
        let view = self.gate().view();
        let open: Vec<_> =
            view.whole_state().fences.claims().map(|(id, held)| (id, held.by.clone(), held.facts.clone())).collect();
        drop(view);
        let (what, held) = (self.random.below(6), self.one_of(&open));
        let request = match (what, held) {
            (0, Some((claim, by, _))) => Request::ExtendClaim { by, auth, claim, for_ms: 300 },
            (1 | 2, Some((claim, by, _))) => Request::WithdrawClaim { by, auth, claim },
            // Again, while one's own stands.
            (3, Some((_, by, facts))) => {
                Request::Claim { by, auth, facts, for_ms: 1 + self.random.below(900), reason: "again".into() }
            }
            _ => {
                let first = usize::try_from(self.random.below(3)).unwrap();
                let many = 1 + usize::try_from(self.random.below(2)).unwrap();
                let names = ACCOUNTS.iter().cycle().skip(first).take(many);
                let facts = names.map(|name| format!("Account::\"{name}\"").parse::<FactId>().unwrap()).collect();
                Request::Claim { by, auth, facts, for_ms: 1 + self.random.below(900), reason: "soon".into() }
            }
        };
        let what = match &request {
            Request::Claim { .. } => "claimed",
            Request::ExtendClaim { .. } => "extended",
            _ => "withdrawn",
        };
        let is_done = self.call(request).is_ok();
        self.note(if is_done { what } else { "no claim" });
    }

    /// Several actions at once: mostly as a group, sometimes each by itself, sometimes under a claim.
    pub(super) fn act_many(&mut self) {
        let by = agent(self.one_of(&AGENTS).unwrap());
        let is_atomic = !self.is_one_in(3);
        let claims: Vec<ClaimId> =
            self.gate().view().whole_state().fences.claims().map(|(claim, _)| claim).filter(|_| !is_atomic).collect();
        let mut actions = Vec::new();
        for _ in 0..=self.random.below(3) {
            self.keys += 1;
            let is_under_claim = !claims.is_empty() && self.is_one_in(2);
            let claim = is_under_claim.then(|| self.one_of(&claims).unwrap().to_string());
            let [from, to] = [0, 1].map(|_| self.one_of(&ACCOUNTS).unwrap());
            let params = json!({"from": from, "to": to, "n": self.random.below(25)});
            let mut body = json!({
                "pact": "bank", "action": self.one_of(&["take", "take", "move"]).unwrap(),
                "idempotency_key": format!("{:032}", self.keys), "params": params,
            });
            if let Some(claim) = claim {
                body["claim"] = json!(claim);
            }
            actions.push(self.gate().admit(by.clone(), Auth::None, body.to_string().into()).unwrap());
        }
        let ids = actions.iter().map(|action| action.id).collect();
        let many = ActMany { by, auth: Auth::None, ids, actions, is_atomic };
        let Ok(answer) = self.call(Request::ActMany(Box::new(many))) else { return self.note("not many") };
        let entered = match answer {
            Answer::Entered(entered) => vec![entered],
            Answer::Many(many) => many
                .into_iter()
                .filter_map(|answer| match answer {
                    Ok(Answer::Entered(entered)) => Some(entered),
                    _ => None,
                })
                .collect(),
            Answer::Repeated(entry) => panic!("{entry}"),
        };
        for entered in entered {
            let event = &entered.entry.event;
            let who = if is_atomic { "group" } else { "one" };
            let reason = event.decision().and_then(|decision| decision.reason());
            let said = reason.map(|reason| reason.code().to_string());
            assert!(said.is_some() || event.verdict() != Some(LeafVerdict::Rejected));
            self.note(&format!("{who}: {}", said.as_deref().unwrap_or("committed")));
        }
    }
}
