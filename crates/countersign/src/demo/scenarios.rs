//! The scenarios: facts, agents, the schedule, and what counts as harm.
//!
//! Harm is judged on the end state alone, by the same function for both worlds; no scenario says what its outcome is.

mod payouts;

use super::rows::Rows;
use super::schedule::{
    Deed::{Act, Feed, Read, Think},
    Step,
};

/// A pact that a scenario runs under.
#[derive(Debug)]
pub struct PactFile {
    /// Its name.
    pub name: &'static str,
    /// Its text.
    pub source: &'static str,
}

/// One scenario. One action of its schedule comes too late: the one that the gate stops.
#[derive(Debug)]
pub struct Scenario {
    /// The requirement it shows.
    pub id: &'static str,
    /// What it is about, in one line.
    pub title: &'static str,
    /// The pact.
    pub pact: PactFile,
    /// The agents, with the role of each.
    pub agents: &'static [(&'static str, &'static str)],
    /// The facts at the start.
    pub facts: &'static [(&'static str, &'static str)],
    /// The schedule, in order of time.
    pub steps: &'static [Step],
    /// The harm in an end state, given the state before.
    pub harm: fn(before: &Rows, after: &Rows) -> Option<String>,
}

/// The ids of all scenarios, in the order of the show.
pub const IDS: [&str; 9] =
    ["CONC-2", "CONC-3", "CONC-4", "AG-097-A", "AG-097-B", "AG-097-C", "CONC-5", "CONC-6", "CONC-7"];

/// All scenarios, in the order of [`IDS`].
pub const ALL: [&Scenario; 9] = [
    &REFUND_AND_FREEZE,
    &payouts::ANNOUNCED,
    &payouts::COOLING,
    &TERMINATED,
    &PRICE_MOVED,
    &SOURCE_SWAPPED,
    &GRANT_AND_REVOKE,
    &TWO_SPENDS,
    &WRITE_SKEW,
];

const STOLEN: &str = r#"Account::"42""#;

static REFUND_AND_FREEZE: Scenario = Scenario {
    id: "CONC-2",
    title: "a refund of $4,800 races the freeze of a stolen account",
    pact: PactFile { name: "billing", source: include_str!("../../../../examples/billing.toml") },
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

const EMPLOYEE: &str = r#"Employee::"e-7""#;
const REQUEST: &str = r#"TransferRequest::"r-31""#;

static TERMINATED: Scenario = Scenario {
    id: "AG-097-A",
    title: "a dismissed employee is moved to a new department",
    pact: PactFile { name: "hr", source: include_str!("../../../../examples/hr.toml") },
    agents: &[("workflow-1", "hr"), ("hr-1", "hr")],
    facts: &[
        (EMPLOYEE, r#"{"status":"active","department":"sales","manager":"m-2"}"#),
        (REQUEST, r#"{"employee":"e-7","department":"treasury","state":"authorised"}"#),
    ],
    steps: &[
        Step {
            at_ms: 0,
            agent: "workflow-1",
            says: "reads: active, and move authorised",
            deed: Read {
                facts: &[EMPLOYEE, REQUEST],
                check: |rows| rows.text(EMPLOYEE, "status") == "active" && rows.text(REQUEST, "state") == "authorised",
            },
        },
        Step {
            at_ms: 20_000,
            agent: "hr-1",
            says: "ends the employment",
            deed: Act {
                action: "terminate",
                params: r#"{"employee":"e-7"}"#,
                effect: |rows| rows.set(EMPLOYEE, "status", "terminated"),
            },
        },
        Step {
            at_ms: 45_000,
            agent: "workflow-1",
            says: "gives access to treasury's systems",
            deed: Act {
                action: "transfer-employee",
                params: r#"{"employee":"e-7","request_id":"r-31"}"#,
                effect: |rows| {
                    let department = rows.text(REQUEST, "department").to_owned();
                    rows.set(EMPLOYEE, "department", department);
                    rows.set(REQUEST, "state", "done");
                },
            },
        },
    ],
    harm: |before, after| {
        let department = after.text(EMPLOYEE, "department");
        let moved = department != before.text(EMPLOYEE, "department");
        (moved && after.text(EMPLOYEE, "status") == "terminated")
            .then(|| format!("somebody who was dismissed has access to {department}"))
    },
};

const QUOTE: &str = r#"Quote::"ACME""#;
const MANDATE: &str = r#"Mandate::"growth""#;
const SHARES: i64 = 10_000;

static PRICE_MOVED: Scenario = Scenario {
    id: "AG-097-B",
    title: "10,000 shares under a ceiling of £500,000, and the price moves",
    pact: PactFile { name: "trading", source: include_str!("../../../../examples/trading.toml") },
    agents: &[("trader-1", "trader")],
    facts: &[(QUOTE, r#"{"price":4520,"halted":false}"#), (MANDATE, r#"{"ceiling":50000000,"spent":0,"active":true}"#)],
    steps: &[
        Step {
            at_ms: 0,
            agent: "trader-1",
            says: "reads the price: £45.20, so £452,000",
            deed: Read {
                facts: &[QUOTE, MANDATE, r#"Order::"o-1""#],
                check: |rows| rows.long(QUOTE, "price") * SHARES <= rows.long(MANDATE, "ceiling"),
            },
        },
        Step {
            at_ms: 2_000,
            agent: "market",
            says: "the price goes to £51.85",
            deed: Feed { fact: QUOTE, value: r#"{"price":5185,"halted":false}"# },
        },
        Step {
            at_ms: 3_000,
            agent: "trader-1",
            says: "buys 10,000 at the market's price",
            deed: Act {
                action: "buy",
                params: r#"{"symbol":"ACME","quantity":10000,"mandate_id":"growth","order_id":"o-1"}"#,
                effect: |rows| rows.add(MANDATE, "spent", rows.long(QUOTE, "price") * SHARES),
            },
        },
    ],
    harm: |_, after| {
        let over = after.long(MANDATE, "spent") - after.long(MANDATE, "ceiling");
        (over > 0).then(|| {
            format!("{} spent, {} over the ceiling", money("£", after.long(MANDATE, "spent")), money("£", over))
        })
    },
};

const PENDING: &str = r#"Transfer::"t-9""#;
const OWN: &str = r#"Account::"mallory-1""#;
const VICTIM: &str = r#"Account::"vera-1""#;
const TARGET: &str = r#"Account::"mallory-2""#;

static SOURCE_SWAPPED: Scenario = Scenario {
    id: "AG-097-C",
    title: "the source of a pending transfer is swapped for somebody else's account",
    pact: PactFile { name: "transfer", source: include_str!("../../../../examples/transfer.toml") },
    agents: &[("payments-1", "payments")],
    facts: &[
        (OWN, r#"{"balance":1000000,"owner":"mallory","status":"active"}"#),
        (VICTIM, r#"{"balance":2500000,"owner":"vera","status":"active"}"#),
        (TARGET, r#"{"balance":0,"owner":"mallory","status":"active"}"#),
        (
            PENDING,
            r#"{"source":"mallory-1","target":"mallory-2","amount":900000,"requester":"mallory","state":"pending"}"#,
        ),
    ],
    steps: &[
        Step {
            at_ms: 0,
            agent: "payments-1",
            says: "reads: mallory owns the source",
            deed: Read {
                facts: &[PENDING, OWN, TARGET],
                check: |rows| rows.text(&source(rows), "owner") == rows.text(PENDING, "requester"),
            },
        },
        Step {
            at_ms: 7_000,
            agent: "session-2",
            says: "sets the source to vera's account",
            deed: Feed {
                fact: PENDING,
                value: r#"{"source":"vera-1","target":"mallory-2","amount":900000,"requester":"mallory","state":"pending"}"#,
            },
        },
        Step {
            at_ms: 12_000,
            agent: "payments-1",
            says: "screening done, executes £9,000",
            deed: Act {
                action: "execute",
                params: r#"{"transfer":"t-9"}"#,
                effect: |rows| {
                    let (source, amount) = (source(rows), rows.long(PENDING, "amount"));
                    rows.add(&source, "balance", -amount);
                    rows.add(TARGET, "balance", amount);
                    rows.set(PENDING, "state", "executed");
                },
            },
        },
    ],
    harm: |before, after| {
        let taken = before.long(VICTIM, "balance") - after.long(VICTIM, "balance");
        (taken > 0).then(|| format!("{} taken from a customer who asked for nothing", money("£", taken)))
    },
};

fn source(rows: &Rows) -> String {
    format!(r#"Account::"{}""#, rows.text(PENDING, "source"))
}

const LIST: &str = r#"AccessList::"payroll""#;
const MEMBER: &str = r#"Membership::"payroll/sam""#;

static GRANT_AND_REVOKE: Scenario = Scenario {
    id: "CONC-5",
    title: "a grant races a revocation on one access list",
    pact: PactFile { name: "access", source: include_str!("../../../../examples/access.toml") },
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
    // The schedule revokes and nothing in it lifts the revocation, so whoever has a role at the end has it wrongly.
    harm: |_, after| {
        let role = after.text(MEMBER, "role");
        (after.text(MEMBER, "state") == "granted").then(|| format!("sam was revoked and is {role} all the same"))
    },
};

const BUDGET: &str = r#"Account::"marketing""#;

static TWO_SPENDS: Scenario = Scenario {
    id: "CONC-6",
    title: "350,000 and 280,000 are spent from one balance of 500,000",
    pact: PactFile { name: "transfer", source: include_str!("../../../../examples/transfer.toml") },
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

static WRITE_SKEW: Scenario = Scenario {
    id: "CONC-7",
    title: "two doctors go off call, each because the other stays (write skew)",
    pact: PactFile { name: "oncall", source: include_str!("../../../../examples/oncall.toml") },
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
        let anybody = after.flag(ADA, "on_call") || after.flag(BEN, "on_call");
        (!anybody).then(|| "nobody is on call tonight".to_owned())
    },
};

/// Minor units as money: `$4,800`, with cents only where there are any.
fn money(sign: &str, minor: i64) -> String {
    match minor % 100 {
        0 => format!("{sign}{}", grouped(minor / 100)),
        cents => format!("{sign}{}.{:02}", grouped(minor / 100), cents.abs()),
    }
}

/// An integer with its thousands set apart.
fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::from(if number < 0 { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::schedule::Deed::Cooled;
    use super::*;

    #[test]
    fn ids_are_in_order_and_schedules_run_forward() {
        assert_eq!(ALL.map(|scenario| scenario.id), IDS);
        for scenario in ALL {
            assert!(scenario.steps.is_sorted_by_key(|step| step.at_ms), "{}", scenario.id);
            let last = scenario.steps.last().map(|step| &step.deed);
            assert!(matches!(last, Some(Act { .. } | Cooled)), "{}", scenario.id);
        }
    }

    #[test]
    fn no_start_state_counts_as_harm() {
        for scenario in ALL {
            let rows = Rows::parse(scenario.facts).unwrap_or_default();
            assert_ne!(rows, Rows::default());
            assert_eq!((scenario.harm)(&rows, &rows), None, "{}", scenario.id);
        }
    }

    #[test]
    fn money_is_grouped() {
        assert_eq!(money("$", 480_000), "$4,800");
        assert_eq!(money("£", 123_456_705), "£1,234,567.05");
        assert_eq!(grouped(-130_000), "-130,000");
        assert_eq!(grouped(7), "7");
    }
}
