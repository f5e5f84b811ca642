//! The same refund as in CONC-2, paid by another service, in the two races that comparing versions alone does not win: the freeze is
//! only announced when the money would leave, or comes while the payout is cooling.

use super::{STOLEN, Scenario, money};
use crate::demo::rows::Rows;
use crate::demo::schedule::{
    Deed::{Act, Claim, Cooled, Read, Think},
    Step,
};
use crate::examples::PAYOUTS;

const AGENTS: &[(&str, &str)] = &[("refund-1", "refunder"), ("fraud-1", "fraud")];
const FACTS: &[(&str, &str)] = &[(STOLEN, r#"{"status":"active","balance":900000,"owner":"alice"}"#)];

const READS: Step = Step {
    at_ms: 0,
    agent: "refund-1",
    says: "reads the account: active, $9,000",
    deed: Read {
        facts: &[STOLEN],
        check: |rows| rows.text(STOLEN, "status") == "active" && rows.long(STOLEN, "balance") >= 480_000,
    },
};

const PAYS: Step = Step {
    at_ms: 150,
    agent: "refund-1",
    says: "pays the refund of $4,800",
    deed: Act {
        action: "payout",
        params: r#"{"account":"42","amount":480000,"destination":"acct_treasury_1"}"#,
        effect: |rows| rows.add(STOLEN, "balance", -480_000),
    },
};

const FREEZES: Step = Step {
    at_ms: 200,
    agent: "fraud-1",
    says: "freezes the account",
    deed: Act { action: "freeze", params: r#"{"account":"42"}"#, effect: |rows| rows.set(STOLEN, "status", "frozen") },
};

fn paid_although_frozen(before: &Rows, after: &Rows) -> Option<String> {
    let paid = before.long(STOLEN, "balance") - after.long(STOLEN, "balance");
    let frozen = after.text(STOLEN, "status") == "frozen";
    (frozen && paid > 0).then(|| format!("{} left an account that was being frozen", money("$", paid)))
}

pub(super) static ANNOUNCED: Scenario = Scenario {
    id: "CONC-3",
    title: "the same refund; the freeze is only announced when the money would leave",
    pact: PAYOUTS,
    agents: AGENTS,
    facts: FACTS,
    steps: &[
        READS,
        Step {
            at_ms: 80,
            agent: "fraud-1",
            says: "flags the account, announces a freeze",
            deed: Claim { facts: &[STOLEN], for_ms: 1_000, reason: "reported as stolen" },
        },
        PAYS,
        FREEZES,
    ],
    harm: paid_although_frozen,
};

pub(super) static COOLING: Scenario = Scenario {
    id: "CONC-4",
    title: "the same refund; nothing is announced, and the payout cools for two seconds",
    pact: PAYOUTS,
    agents: AGENTS,
    facts: FACTS,
    steps: &[
        READS,
        Step { at_ms: 80, agent: "fraud-1", says: "flags the account as stolen", deed: Think },
        PAYS,
        FREEZES,
        Step { at_ms: 2_150, agent: "gate", says: "the payout has cooled, and would leave", deed: Cooled },
    ],
    harm: paid_although_frozen,
};
