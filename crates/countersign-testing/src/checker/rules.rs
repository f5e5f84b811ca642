//! The rules of the bank workload, written a second time and in another way: one function for each action type, over plain
//! JSON. Whoever changes the pact in `bank.rs` changes this by hand, and the simulator says whether both mean the same.

use super::model::Model;
use serde_json::{Value as Json, json};

/// Largest integer that a fact may hold.
const INTEGER_MAX: i64 = 9_007_199_254_740_991;
/// How long the observation behind a refund may be old.
const STALE_AFTER_MS: u64 = 2_000;
/// What an agent may refund in one window.
const REFUNDS_MAX: i64 = 150_000;
/// The length of a window.
const WINDOW_MS: u64 = 60_000;
/// Above this a person looks at a refund.
const REVIEW_ABOVE: i64 = 60_000;
/// By how much a source account may have shrunk since it was seen.
const DRIFT_MAX: i64 = 20_000;

/// A verdict.
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
    /// Window and amount.
    pub spent: Option<(u64, i64)>,
}

impl Outcome {
    fn rejected(code: &'static str, gap_ms: Option<u64>) -> Self {
        Self {
            verdict: Verdict::Rejected,
            code: Some(code),
            failed: Vec::new(),
            is_shadowed: false,
            gap_ms,
            writes: Vec::new(),
            spent: None,
        }
    }
}

/// One condition: its name, whether it holds, whether a person may waive it.
type Condition = (&'static str, bool, bool);

/// What one action type makes of the facts.
struct Rule {
    role: &'static str,
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
    params: &'a Json,
    observed: &'a Json,
    now_ms: u64,
    limit: i64,
}

/// What must come of an action at the end of what was replayed.
pub(super) fn outcome(model: &Model, agent: &str, body: &Json, observed: &Json, now_ms: u64) -> Outcome {
    let Some((_, limit)) = model.pact_at(u64::MAX).filter(|_| body["pact"] == "bank") else {
        return Outcome::rejected("unknown_pact", None);
    };
    let principal = model.value(&format!("Agent::\"{agent}\""));
    let org = principal.and_then(|principal| principal["org"].as_str()).unwrap_or_default();
    let scopes = ["all", "pact:bank", &format!("agent:{agent}"), &format!("org:{org}")];
    if scopes.iter().any(|scope| model.is_halted(scope, u64::MAX)) {
        return Outcome::rejected("halted", None);
    }
    let action = body["action"].as_str().unwrap_or_default();
    let params = &body["params"];
    let Some(wanted) = parameters(action) else { return Outcome::rejected("unknown_action", None) };
    if !params_fit(params, wanted) {
        return Outcome::rejected("invalid_params", None);
    }
    let Some(principal) = principal else {
        return Outcome::rejected("unknown_agent", None);
    };
    if principal["standing"] != "active" {
        return Outcome::rejected("agent_not_active", None);
    }
    let acting = Acting { model, params, observed, now_ms, limit };
    let reads = match acting.reads(action) {
        Ok(reads) => reads,
        Err(known) => return Outcome::rejected("fact_missing", acting.gap_ms(&known)),
    };
    let gap_ms = acting.gap_ms(&reads);
    let creates = if action == "request" { reads.clone() } else { Vec::new() };
    if reads.iter().any(|fact| !creates.contains(fact) && model.value(fact).is_none()) {
        return Outcome::rejected("fact_missing", gap_ms);
    }
    if creates.iter().any(|fact| model.value(fact).is_some()) {
        return Outcome::rejected("fact_exists", gap_ms);
    }
    if action == "execute" && reads.get(1) == reads.get(2) {
        return Outcome::rejected("aliased_write", gap_ms);
    }
    let rule = acting.rule(action, reads, creates);
    let is_allowed = principal["roles"].as_array().is_some_and(|roles| roles.contains(&json!(rule.role)));
    acting.judge(agent, rule, is_allowed, gap_ms)
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

    /// The facts that the action reads; where one cannot be named, those before it.
    fn reads(&self, action: &str) -> Result<Vec<String>, Vec<String>> {
        let transfer = || format!("Transfer::\"{}\"", self.text("transfer"));
        match action {
            "request" => Ok(vec![transfer()]),
            "execute" => {
                let value = self.model.value(&transfer()).ok_or_else(|| vec![transfer()])?;
                let account = |end: &str| format!("Account::\"{}\"", value[end].as_str().unwrap_or_default());
                Ok(vec![transfer(), account("from"), account("to")])
            }
            _ => Ok(vec![format!("Account::\"{}\"", self.text("account"))]),
        }
    }

    fn observation(&self, fact: &str) -> Option<&Json> {
        self.observed.as_array()?.iter().find(|observed| observed["fact"] == fact)
    }

    fn gap_ms(&self, reads: &[String]) -> Option<u64> {
        let times = reads.iter().filter_map(|fact| self.observation(fact)?["at"].as_u64());
        times.map(|at_ms| self.now_ms.saturating_sub(at_ms)).max()
    }

    fn is_fresh(&self, fact: &str) -> bool {
        let at_ms = self.observation(fact).and_then(|observed| observed["at"].as_u64());
        at_ms.is_some_and(|at_ms| at_ms <= self.now_ms && self.now_ms - at_ms <= STALE_AFTER_MS)
    }

    /// The balance that was seen: the record leaves the value out while the version still stands.
    fn balance_seen(&self, fact: &str) -> Option<i64> {
        let observed = self.observation(fact)?;
        let version = self.model.at(fact, u64::MAX).map_or(0, |version| version.version);
        if observed["version"] == version {
            return self.model.value(fact)?["balance"].as_i64();
        }
        observed["value"]["balance"].as_i64()
    }

    fn rule(&self, action: &str, reads: Vec<String>, creates: Vec<String>) -> Rule {
        let mut rule = Rule {
            role: "fraud",
            creates,
            must_observe: false,
            is_shadow: false,
            conditions: Vec::new(),
            spends: None,
            writes: Vec::new(),
            reads,
        };
        let resource = rule.reads.first().cloned().unwrap_or_default();
        let value = self.model.value(&resource).cloned().unwrap_or_default();
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
                rule.role = "refunder";
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
                rule.role = "refunder";
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
                let is_unchanged = seen == self.model.at(&resource, u64::MAX).map(|version| version.version);
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
                rule.role = "payments";
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
        let account = |fact: &str| self.model.value(fact).cloned().unwrap_or_default();
        let (mut from, mut to, mut done) = (account(source), account(target), transfer.clone());
        let balance = |account: &Json| account["balance"].as_i64().unwrap_or_default();
        let seen = self.balance_seen(source);
        rule.role = "payments";
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

    fn judge(&self, agent: &str, rule: Rule, is_allowed: bool, gap_ms: Option<u64>) -> Outcome {
        let window = self.now_ms / WINDOW_MS;
        let mut out = Outcome::rejected("", gap_ms);
        out.code = None;
        out.verdict = Verdict::Committed;
        let unseen = |fact: &String| !rule.creates.contains(fact) && self.observation(fact).is_none();
        let failed: Vec<&Condition> = rule.conditions.iter().filter(|(_, holds, _)| !holds).collect();
        let used = self.model.spent.get(&(agent.to_owned(), window)).copied().unwrap_or(0);
        if !is_allowed {
            out.code = Some("not_allowed");
        } else if rule.must_observe && rule.reads.iter().any(unseen) {
            out.code = Some("observation_required");
        } else if !failed.is_empty() {
            out.code = Some("precondition_failed");
            out.failed = failed.iter().map(|(id, ..)| (*id).to_owned()).collect();
        } else if rule.spends.is_some_and(|amount| used + amount > REFUNDS_MAX) {
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
        out.spent = rule.spends.map(|amount| (window, amount));
        out.writes = rule.writes;
        out
    }
}
