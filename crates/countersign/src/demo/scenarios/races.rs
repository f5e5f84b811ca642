//! The races that every store of shared state has (CONC-2, CONC-5 to CONC-7).

use super::{STOLEN, Scenario, grouped, money};
use crate::demo::schedule::Deed::{Act, Read, Think};
use crate::demo::schedule::Step;
use crate::examples;

pub static REFUND_AND_FREEZE: Scenario = Scenario {
    id: "CONC-2",
    title: "a refund of $4,800 races the freeze of a stolen account",
    pact: examples::BILLING,
    agents: &[("refund-1", "refunder"), ("fraud-1", "fraud")],
    facts: &[(STOLEN, r#"{"status":"active","balance":900000,"owner":"alice"}"#)],
    steps: &[
        Step {
            at_ms: 0,
            agent: "refund-1",
            says: "reads the account: active, $9,000",
            deed: Read {
                facts: &[STOLEN],
                check: |rows| rows.text(STOLEN, "status") == "active" && rows.long(STOLEN, "balance") >= 480_000,
            },
        },
        Step { at_ms: 80, agent: "fraud-1", says: "flags the account as stolen", deed: Think },
        Step {
            at_ms: 140,
            agent: "fraud-1",
            says: "freezes the account",
            deed: Act {
                action: "freeze",
                params: r#"{"account":"42"}"#,
                effect: |rows| rows.set(STOLEN, "status", "frozen"),
            },
        },
        Step {
            at_ms: 150,
            agent: "refund-1",
            says: "pays the refund of $4,800",
            deed: Act {
                action: "refund",
                params: r#"{"account":"42","amount":480000,"currency":"USD","destination":"acct_treasury_1"}"#,
                effect: |rows| rows.add(STOLEN, "balance", -480_000),
            },
        },
    ],
    harm: |before, after| {
        let paid = before.long(STOLEN, "balance") - after.long(STOLEN, "balance");
        let frozen = after.text(STOLEN, "status") == "frozen";
        (frozen && paid > 0).then(|| format!("{} left an account that was frozen", money("$", paid)))
    },
};

const LIST: &str = r#"AccessList::"payroll""#;
const MEMBER: &str = r#"Membership::"payroll/sam""#;

pub static GRANT_AND_REVOKE: Scenario = Scenario {
    id: "CONC-5",
    title: "a grant races a revocation on one access list",
    pact: examples::ACCESS,
    agents: &[("access-1", "access-admin"), ("compliance-1", "security")],
    facts: &[(LIST, r#"{"owner":"finance","locked":false}"#)],
    steps: &[
        Step {
            at_ms: 0,
            agent: "access-1",
            says: "reads: list open, sam not revoked",
            deed: Read {
                facts: &[LIST, MEMBER],
                check: |rows| !rows.flag(LIST, "locked") && rows.text(MEMBER, "state") != "revoked",
            },
        },
        Step {
            at_ms: 110,
            agent: "compliance-1",
            says: "revokes every role of sam",
            deed: Act {
                action: "revoke",
                params: r#"{"list":"payroll","member":"sam"}"#,
                effect: |rows| {
                    rows.set(MEMBER, "role", "none");
                    rows.set(MEMBER, "state", "revoked");
                },
            },
        },
        Step {
            at_ms: 150,
            agent: "access-1",
            says: "grants sam the role of writer",
            deed: Act {
                action: "grant",
                params: r#"{"list":"payroll","member":"sam","role":"writer"}"#,
                effect: |rows| {
                    rows.set(MEMBER, "role", "writer");
                    rows.set(MEMBER, "state", "granted");
                },
            },
        },
    ],
    // The schedule revokes and nothing in it lifts the revocation, so anyone who has a role at the end has it wrongly.
    harm: |_, after| {
        let role = after.text(MEMBER, "role");
        (after.text(MEMBER, "state") == "granted").then(|| format!("sam was revoked and is still {role}"))
    },
};

const BUDGET: &str = r#"Account::"marketing""#;

pub static TWO_SPENDS: Scenario = Scenario {
    id: "CONC-6",
    title: "350,000 and 280,000 are spent from one balance of 500,000",
    pact: examples::TRANSFER,
    agents: &[("spend-1", "payments"), ("spend-2", "payments")],
    facts: &[(BUDGET, r#"{"balance":500000,"owner":"marketing","status":"active"}"#)],
    steps: &[
        Step {
            at_ms: 0,
            agent: "spend-1",
            says: "reads 500,000: enough for 350,000",
            deed: Read { facts: &[BUDGET], check: |rows| rows.long(BUDGET, "balance") >= 350_000 },
        },
        Step {
            at_ms: 30,
            agent: "spend-2",
            says: "reads 500,000: enough for 280,000",
            deed: Read { facts: &[BUDGET], check: |rows| rows.long(BUDGET, "balance") >= 280_000 },
        },
        Step {
            at_ms: 120,
            agent: "spend-1",
            says: "spends 350,000",
            deed: Act {
                action: "spend",
                params: r#"{"account":"marketing","amount":350000}"#,
                effect: |rows| rows.add(BUDGET, "balance", -350_000),
            },
        },
        Step {
            at_ms: 180,
            agent: "spend-2",
            says: "spends 280,000",
            deed: Act {
                action: "spend",
                params: r#"{"account":"marketing","amount":280000}"#,
                effect: |rows| rows.add(BUDGET, "balance", -280_000),
            },
        },
    ],
    harm: |_, after| {
        let balance = after.long(BUDGET, "balance");
        (balance < 0).then(|| format!("the balance is {}", grouped(balance)))
    },
};

const ADA: &str = r#"Doctor::"ada""#;
const BEN: &str = r#"Doctor::"ben""#;

pub static WRITE_SKEW: Scenario = Scenario {
    id: "CONC-7",
    title: "two doctors go off call, each because the other stays (write skew)",
    pact: examples::ONCALL,
    agents: &[("roster-1", "scheduler"), ("roster-2", "scheduler")],
    facts: &[(ADA, r#"{"on_call":true,"shift":"night"}"#), (BEN, r#"{"on_call":true,"shift":"night"}"#)],
    steps: &[
        Step {
            at_ms: 0,
            agent: "roster-1",
            says: "reads both: ben stays on call",
            deed: Read { facts: &[ADA, BEN], check: |rows| rows.flag(BEN, "on_call") },
        },
        Step {
            at_ms: 40,
            agent: "roster-2",
            says: "reads both: ada stays on call",
            deed: Read { facts: &[BEN, ADA], check: |rows| rows.flag(ADA, "on_call") },
        },
        Step {
            at_ms: 150,
            agent: "roster-1",
            says: "takes ada off call",
            deed: Act {
                action: "leave",
                params: r#"{"doctor":"ada","colleague_id":"ben"}"#,
                effect: |rows| rows.set(ADA, "on_call", false),
            },
        },
        Step {
            at_ms: 190,
            agent: "roster-2",
            says: "takes ben off call",
            deed: Act {
                action: "leave",
                params: r#"{"doctor":"ben","colleague_id":"ada"}"#,
                effect: |rows| rows.set(BEN, "on_call", false),
            },
        },
    ],
    harm: |_, after| {
        let covered = after.flag(ADA, "on_call") || after.flag(BEN, "on_call");
        (!covered).then(|| "no one is on call tonight".to_owned())
    },
};
