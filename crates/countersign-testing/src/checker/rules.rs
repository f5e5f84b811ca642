//! The rules of the bank workload, written a second time and in another way: one function for each action type, over plain
//! JSON. Whoever changes the pact in `bank.rs` changes this by hand, and the simulator says whether both mean the same.

use super::deed::{Approved, Deed};
use super::delegation;
use super::model::{Charge, Model};
use serde_json::{Value as Json, json};

/// Largest integer that a fact may hold.
const INTEGER_MAX: i64 = 9_007_199_254_740_991;
/// How long the observation behind a refund may be old.
const STALE_AFTER_MS: u64 = 2_000;
/// What an agent may refund in one window.
const REFUNDS_MAX: i64 = 150_000;
/// The length of a window.
pub(super) const WINDOW_MS: u64 = 60_000;
/// Above this a person looks at a refund.
const REVIEW_ABOVE: i64 = 60_000;
/// By how much a source account may have shrunk since it was seen.
const DRIFT_MAX: i64 = 20_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Committed,
    Rejected,
    Review,
}

impl Verdict {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::Rejected => "rejected",
            Self::Review => "review",
        }
    }
}

/// What must come of an action.
#[derive(Debug)]
pub(super) struct Outcome {
    pub verdict: Verdict,
    pub code: Option<&'static str>,
    pub failed: Vec<String>,
    pub is_shadowed: bool,
    pub gap_ms: Option<u64>,
    pub writes: Vec<(String, Option<Json>)>,
    pub spent: Vec<Charge>,
    /// The preconditions that did not hold and that a reviewer waived.
    pub waived: Vec<String>,
}

impl Outcome {
    pub(super) fn rejected(code: &'static str, gap_ms: Option<u64>) -> Self {
        Self {
            verdict: Verdict::Rejected,
            code: Some(code),
            failed: Vec::new(),
            is_shadowed: false,
            gap_ms,
            writes: Vec::new(),
            spent: Vec::new(),
            waived: Vec::new(),
        }
    }
}

/// One condition: its name, whether it holds, whether a person may waive it.
type Condition = (&'static str, bool, bool);

/// What one action type makes of the facts.
struct Rule {
    reads: Vec<String>,
    /// Facts that must not be there yet.
    creates: Vec<String>,
    must_observe: bool,
    is_shadow: bool,
    conditions: Vec<Condition>,
    spends: Option<i64>,
    writes: Vec<(String, Option<Json>)>,
}

struct Acting<'a> {
    model: &'a Model,
    /// The facts before the entry at this position count.
    position: u64,
    deed: &'a Deed<'a>,
    approved: Option<&'a Approved<'a>>,
    params: &'a Json,
    now_ms: u64,
    limit: i64,
}

/// What must come of an action on the facts before the entry at `position`.
pub(super) fn outcome(
    model: &Model,
    position: u64,
    deed: &Deed<'_>,
    approved: Option<&Approved<'_>>,
    now_ms: u64,
) -> Outcome {
    let Deed { agent, body, chain, .. } = *deed;
    let Some((_, limit)) = model.pact_at(position).filter(|_| body["pact"] == "bank") else {
        return Outcome::rejected("unknown_pact", None);
    };
    let agent_fact = |agent: &str| model.value_at(&format!("Agent::\"{agent}\""), position);
    let mut scopes = vec!["all".to_owned(), "pact:bank".to_owned()];
    for member in deed.members() {
        scopes.push(format!("agent:{member}"));
        scopes.extend(agent_fact(member).and_then(|fact| fact["org"].as_str()).map(|org| format!("org:{org}")));
    }
    if scopes.iter().any(|scope| model.is_halted(scope, position)) {
        return Outcome::rejected("halted", None);
    }
    let action = body["action"].as_str().unwrap_or_default();
    let params = &body["params"];
    let Some(wanted) = parameters(action) else { return Outcome::rejected("unknown_action", None) };
    if !params_fit(params, wanted) {
        return Outcome::rejected("invalid_params", None);
    }
    if deed.key.is_none() && model.is_identified(position) {
        return Outcome::rejected("not_authenticated", None);
    }
    let Some(actor) = agent_fact(agent) else {
        return Outcome::rejected("unknown_agent", None);
    };
    if actor["standing"] != "active" {
        return Outcome::rejected("agent_not_active", None);
    }
    if deed.key.is_some_and(|key| !holds_key(actor, key, now_ms)) {
        return Outcome::rejected("key_not_current", None);
    }
    let principal = match chain {
        None => actor,
        Some(chain) => match delegation::judge(chain, deed, now_ms, &agent_fact) {
            Ok(principal) => principal,
            Err(code) => return Outcome::rejected(code, None),
        },
    };
    let has_role = principal["roles"].as_array().is_some_and(|roles| roles.contains(&json!(role(action))));
    // In shadow mode it is recorded with everything else that does not hold.
    if !has_role && action != "tip" {
        return Outcome::rejected("not_allowed", None);
    }
    let acting = Acting { model, position, deed, approved, params, now_ms, limit };
    let reads = match acting.reads(action) {
        Ok(reads) => reads,
        Err((code, known)) => return Outcome::rejected(code, acting.gap_ms(&known)),
    };
    let gap_ms = acting.gap_ms(&reads);
    let creates = if action == "request" { reads.clone() } else { Vec::new() };
    if reads.iter().any(|fact| !creates.contains(fact) && model.value_at(fact, position).is_none()) {
        return Outcome::rejected("fact_missing", gap_ms);
    }
    if creates.iter().any(|fact| model.value_at(fact, position).is_some()) {
        return Outcome::rejected("fact_exists", gap_ms);
    }
    if action == "execute" && reads.get(1) == reads.get(2) {
        return Outcome::rejected("aliased_write", gap_ms);
    }
    let rule = acting.rule(action, reads, creates);
    acting.judge(rule, has_role, gap_ms)
}

/// The role that an action type takes.
fn role(action: &str) -> &'static str {
    match action {
        "refund" | "tip" => "refunder",
        "request" | "execute" => "payments",
        _ => "fraud",
    }
}

/// The parameters of an action type.
fn parameters(action: &str) -> Option<&'static [&'static str]> {
    Some(match action {
        "refund" | "tip" => &["account", "amount"],
        "freeze" | "thaw" | "close" => &["account"],
        "request" => &["transfer", "from", "to", "amount"],
        "execute" => &["transfer"],
        _ => return None,
    })
}

fn params_fit(params: &Json, wanted: &[&str]) -> bool {
    let fits = |name: &&str| match *name {
        "amount" => params["amount"].as_i64().is_some_and(|amount| (1..=500_000).contains(&amount)),
        name => params[name].as_str().is_some_and(|text| !text.is_empty() && text.len() <= 64),
    };
    params.as_object().is_some_and(|object| object.len() == wanted.len()) && wanted.iter().all(fits)
}

impl Acting<'_> {
    fn text(&self, name: &str) -> &str {
        self.params[name].as_str().unwrap_or_default()
    }

    fn amount(&self) -> i64 {
        self.params["amount"].as_i64().unwrap_or_default()
    }

    fn value(&self, fact: &str) -> Option<&Json> {
        self.model.value_at(fact, self.position)
    }

    /// The facts that the action reads; where one cannot be, why not, and those before it.
    fn reads(&self, action: &str) -> Result<Vec<String>, (&'static str, Vec<String>)> {
        let transfer = || format!("Transfer::\"{}\"", self.text("transfer"));
        let mut reads = vec![match action {
            "request" | "execute" => transfer(),
            _ => format!("Account::\"{}\"", self.text("account")),
        }];
        // Of every action here, whatever it reads it also writes, so all of it must lie within a delegation.
        let is_within = |fact: &String| self.deed.chain.is_none_or(|chain| delegation::covers(chain, fact));
        if !reads.iter().all(is_within) {
            return Err(("delegation_out_of_scope", Vec::new()));
        }
        if action == "execute" {
            let Some(value) = self.value(&transfer()) else { return Err(("fact_missing", reads)) };
            for end in ["from", "to"] {
                let account = format!("Account::\"{}\"", value[end].as_str().unwrap_or_default());
                if !is_within(&account) {
                    return Err(("delegation_out_of_scope", reads));
                }
                reads.push(account);
            }
        }
        Ok(reads)
    }

    fn observation(&self, fact: &str) -> Option<&Json> {
        self.deed.observed.as_array()?.iter().find(|observed| observed["fact"] == fact)
    }

    fn gap_ms(&self, reads: &[String]) -> Option<u64> {
        let times = reads.iter().filter_map(|fact| self.observation(fact)?["at"].as_u64());
        times.map(|at_ms| self.now_ms.saturating_sub(at_ms)).max()
    }

    fn is_fresh(&self, fact: &str) -> bool {
        let observed = self.observation(fact).and_then(|observed| observed["at"].as_u64());
        let was_shown = |approved: &&Approved<'_>| approved.facts.iter().any(|(shown, _)| shown == fact);
        // What a reviewer looked at after the agent did counts from there.
        let at_ms = observed.max(self.approved.filter(was_shown).map(|approved| approved.shown_at_ms));
        at_ms.is_some_and(|at_ms| at_ms <= self.now_ms && self.now_ms - at_ms <= STALE_AFTER_MS)
    }

    /// The balance that was seen: the record leaves the value out while the version still stands.
    fn balance_seen(&self, fact: &str) -> Option<i64> {
        let observed = self.observation(fact)?;
        let version = self.model.at(fact, self.position).map_or(0, |version| version.version);
        if observed["version"] == version {
            return self.value(fact)?["balance"].as_i64();
        }
        observed["value"]["balance"].as_i64()
    }

    fn rule(&self, action: &str, reads: Vec<String>, creates: Vec<String>) -> Rule {
        let mut rule = Rule {
            creates,
            must_observe: false,
            is_shadow: false,
            conditions: Vec::new(),
            spends: None,
            writes: Vec::new(),
            reads,
        };
        let resource = rule.reads.first().cloned().unwrap_or_default();
        let value = self.value(&resource).cloned().unwrap_or_default();
        let balance = value["balance"].as_i64().unwrap_or_default();
        let with = |changes: &[(&str, Json)]| {
            let mut after = value.clone();
            for (name, change) in changes {
                after[*name] = change.clone();
            }
            Some(after)
        };
        match action {
            "refund" => {
                let amount = self.amount();
                rule.conditions = vec![
                    ("account-is-active", value["status"] == "active" && self.is_fresh(&resource), false),
                    ("balance-covers-amount", balance >= amount, false),
                    ("within-limit", amount <= self.limit, false),
                    ("small-enough", amount <= REVIEW_ABOVE, true),
                ];
                rule.spends = Some(amount);
                rule.writes = vec![(resource, with(&[("balance", json!(balance - amount))]))];
            }
            "tip" => {
                rule.is_shadow = true;
                rule.conditions = vec![("account-is-active", value["status"] == "active", false)];
                rule.writes = vec![(resource, with(&[("balance", json!(balance - self.amount()))]))];
            }
            "freeze" => {
                rule.conditions = vec![("account-is-not-closed", value["status"] != "closed", false)];
                rule.writes = vec![(resource, with(&[("status", json!("frozen"))]))];
            }
            "thaw" => {
                let seen = self.observation(&resource).and_then(|observed| observed["version"].as_u64());
                let is_unchanged = seen == self.model.at(&resource, self.position).map(|version| version.version);
                rule.conditions = vec![
                    ("resource-unchanged", is_unchanged, false),
                    ("account-is-frozen", value["status"] == "frozen", false),
                ];
                rule.writes = vec![(resource, with(&[("status", json!("active"))]))];
            }
            "close" => {
                rule.conditions = vec![("account-is-empty", balance == 0, false)];
                rule.writes = vec![(resource, None)];
            }
            "request" => {
                let (from, to) = (self.text("from"), self.text("to"));
                rule.conditions = vec![("within-limit", self.amount() <= self.limit, false)];
                let transfer = json!({"amount": self.amount(), "from": from, "state": "pending", "to": to});
                rule.writes = vec![(resource, Some(transfer))];
            }
            _ => self.execute(&mut rule, &value),
        }
        rule
    }

    fn execute(&self, rule: &mut Rule, transfer: &Json) {
        let [resource, source, target] = rule.reads.as_slice() else { return };
        let amount = transfer["amount"].as_i64().unwrap_or_default();
        let account = |fact: &str| self.value(fact).cloned().unwrap_or_default();
        let (mut from, mut to, mut done) = (account(source), account(target), transfer.clone());
        let balance = |account: &Json| account["balance"].as_i64().unwrap_or_default();
        let seen = self.balance_seen(source);
        rule.must_observe = true;
        rule.conditions = vec![
            ("transfer-is-pending", transfer["state"] == "pending", false),
            ("source-is-active", from["status"] == "active", false),
            ("balance-covers-amount", balance(&from) >= amount, false),
            ("source-not-drained", seen.is_some_and(|seen| balance(&from) >= seen - DRIFT_MAX), false),
        ];
        done["state"] = json!("executed");
        from["balance"] = json!(balance(&from) - amount);
        to["balance"] = json!(balance(&to) + amount);
        rule.writes = vec![(resource.clone(), Some(done)), (source.clone(), Some(from)), (target.clone(), Some(to))];
    }

    fn judge(&self, rule: Rule, is_allowed: bool, gap_ms: Option<u64>) -> Outcome {
        let window = self.now_ms / WINDOW_MS;
        let mut out = Outcome::rejected("", gap_ms);
        out.code = None;
        out.verdict = Verdict::Committed;
        let unseen = |fact: &String| !rule.creates.contains(fact) && self.observation(fact).is_none();
        let failed: Vec<&Condition> = rule.conditions.iter().filter(|(_, holds, _)| !holds).collect();
        let is_waived = |(id, _, waivable): &&Condition| {
            *waivable && self.approved.is_some_and(|approved| approved.waives.iter().any(|waived| waived == id))
        };
        let (waived, failed): (Vec<&Condition>, Vec<&Condition>) = failed.into_iter().partition(is_waived);
        let payers = if self.deed.chain.is_some() { self.deed.members() } else { vec![self.deed.agent] };
        let has_room =
            |agent: &&str, amount: i64| self.model.spent_at(agent, window, self.position) + amount <= REFUNDS_MAX;
        if !is_allowed {
            out.code = Some("not_allowed");
        } else if rule.must_observe && rule.reads.iter().any(unseen) {
            out.code = Some("observation_required");
        } else if !failed.is_empty() {
            out.code = Some("precondition_failed");
            out.failed = failed.iter().map(|(id, ..)| (*id).to_owned()).collect();
        } else if rule.spends.is_some_and(|amount| !payers.iter().all(|payer| has_room(payer, amount))) {
            out.code = Some("budget_exceeded");
        }
        if out.code.is_some() {
            let may_waive = !failed.is_empty() && failed.iter().all(|(.., waivable)| *waivable);
            let is_review = out.code == Some("precondition_failed") && may_waive;
            out.verdict = if is_review { Verdict::Review } else { Verdict::Rejected };
            out.is_shadowed = rule.is_shadow;
        }
        if out.code.is_some() && !rule.is_shadow {
            return out;
        }
        let too_large = |value: &Json| value["balance"].as_i64().is_some_and(|balance| balance.abs() > INTEGER_MAX);
        if rule.writes.iter().any(|(_, value)| value.as_ref().is_some_and(too_large)) {
            return Outcome { is_shadowed: false, ..Outcome::rejected("effect_invalid", gap_ms) };
        }
        out.verdict = Verdict::Committed;
        let charge = |amount: i64| payers.iter().map(move |payer| ((*payer).to_owned(), window, amount));
        out.spent = rule.spends.into_iter().flat_map(charge).collect();
        out.waived = waived.iter().map(|(id, ..)| (*id).to_owned()).collect();
        out.writes = rule.writes;
        out
    }
}

/// Whether a key is somebody's at a time: the current one, or the one before it while both count.
pub(super) fn holds_key(holder: &Json, key: &str, now_ms: u64) -> bool {
    holder["key"] == key
        || holder["old_key"] == key && holder["old_key_until"].as_u64().is_some_and(|until_ms| now_ms < until_ms)
}
