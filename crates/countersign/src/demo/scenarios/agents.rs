//! Agents that each did right, and an outcome that is wrong (AG-097).

use super::{Scenario, money};
use crate::demo::rows::Rows;
use crate::demo::schedule::Deed::{Act, Feed, Read};
use crate::demo::schedule::Step;
use crate::examples;

const EMPLOYEE: &str = r#"Employee::"e-7""#;
const REQUEST: &str = r#"TransferRequest::"r-31""#;

pub static TERMINATED: Scenario = Scenario {
    id: "AG-097-A",
    title: "a dismissed employee is moved to a new department",
    pact: examples::HR,
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
            .then(|| format!("someone who was dismissed has access to {department}"))
    },
};

const QUOTE: &str = r#"Quote::"ACME""#;
const MANDATE: &str = r#"Mandate::"growth""#;
const SHARES: i64 = 10_000;

pub static PRICE_MOVED: Scenario = Scenario {
    id: "AG-097-B",
    title: "10,000 shares under a ceiling of £500,000, and the price moves",
    pact: examples::TRADING,
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

pub static SOURCE_SWAPPED: Scenario = Scenario {
    id: "AG-097-C",
    title: "the source of a pending transfer is swapped for someone else's account",
    pact: examples::TRANSFER,
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

const PLAN: &str = r#"Plan::"p-12""#;
const PATIENT: &str = r#"Patient::"ruth""#;
const DOSE: i64 = 600;

pub static TREATMENT: Scenario = Scenario {
    id: "AG-097-D",
    title: "a dose is prepared, and a laboratory result says that the kidneys fail",
    pact: examples::TREATMENT,
    agents: &[("ward-1", "care")],
    facts: &[
        (PATIENT, r#"{"status":"admitted","kidney_function":85,"allergies":["penicillin"],"given":0}"#),
        (PLAN, r#"{"patient":"ruth","drug":"gentamicin","dose":600,"state":"signed"}"#),
    ],
    steps: &[
        Step {
            at_ms: 0,
            agent: "ward-1",
            says: "reads: 85 ml/min clear 600 mg",
            deed: Read {
                facts: &[PLAN, PATIENT],
                check: |rows| rows.long(PLAN, "dose") <= rows.long(PATIENT, "kidney_function") * 10,
            },
        },
        Step {
            at_ms: 90_000,
            agent: "laboratory",
            says: "kidney function has fallen to 25",
            deed: Feed {
                fact: PATIENT,
                value: r#"{"status":"admitted","kidney_function":25,"allergies":["penicillin"],"given":0}"#,
            },
        },
        Step {
            at_ms: 120_000,
            agent: "ward-1",
            says: "gives 600 mg of gentamicin",
            deed: Act {
                action: "administer",
                params: r#"{"plan":"p-12"}"#,
                effect: |rows| {
                    rows.add(PATIENT, "given", DOSE);
                    rows.set(PLAN, "state", "given");
                },
            },
        },
    ],
    harm: |_, after| {
        let (given, cleared) = (after.long(PATIENT, "given"), after.long(PATIENT, "kidney_function") * 10);
        (given > cleared).then(|| format!("{given} mg given to kidneys that clear {cleared} mg"))
    },
};
