//! Named budgets: several action types, of several pacts, charge one limit.

use countersign_core::decision::Verdict;
use countersign_core::erase::InForce;
use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_core::pact::diagnostic::Disagreement;
use countersign_core::pact::load::load;
use countersign_core::reason::Reason;
use countersign_core::record::Event;
use countersign_core::state::PublishError;
use countersign_engine::audit::{Unknown, audit, replay};
use countersign_engine::gate::{EraseError, Gate, Options};
use countersign_engine::request::{Answer, Refusal, Request};
use countersign_engine::storage::disk::RealDisk;
use countersign_testing::gate::{ORIGIN, feed, log_key, on_folder_by, operator, publish};
use countersign_testing::hands::Hands;
use std::path::Path;
use std::sync::Arc;

/// Owns the budget, and has two action types that charge it.
const BILLING: &str = r#"
pact = "billing"
version = 1

[budget.outflow]
doc = "What leaves, whatever it is called."
max = 100
per = "1h"
by = "BY"

[facts.Account]
attributes = { open = "Bool" }

[action.refund]
resource = 'Account::"{account}"'
allow = 'true'
budget = { name = "outflow", sum = "amount" }

[[action.refund.require]]
id = "open"
that = 'resource.open'

[action.gift]
resource = 'Account::"{account}"'
allow = 'true'
budget = [{ name = "outflow", of = "billing", sum = "amount" }, { count = true, max = 100, per = "1d", by = "agent" }]

[[action.gift.require]]
id = "open"
that = 'resource.open'
"#;

/// Charges the budget of the other.
const PAYROLL: &str = r#"
pact = "payroll"
version = 1

[facts.Account]
attributes = { open = "Bool" }

[action.wage]
resource = 'Account::"{account}"'
allow = 'true'
budget = { name = "outflow", of = "billing", sum = "amount" }

[[action.wage.require]]
id = "open"
that = 'resource.open'
"#;

fn with_params(pact: &str) -> String {
    let actions = pact.lines().filter_map(|line| line.strip_prefix("[action.")?.strip_suffix(']'));
    let params = actions.map(|action| {
        format!(
            "\n[action.{action}.params]\ntype = \"object\"\nadditionalProperties = false\nrequired = [\"account\", \"amount\"]\n\
             properties.account = {{ type = \"string\" }}\nproperties.amount = {{ type = \"integer\", minimum = 0, maximum = 100 }}\n"
        )
    });
    let params: String = params.collect();
    pact.to_owned() + &params
}

fn open(dir: &Path, clock: &Arc<Hands>) -> Gate {
    Gate::open(on_folder_by(dir, Arc::clone(clock) as _), Options::new(ORIGIN)).unwrap().0
}

fn set_up(dir: &Path, clock: &Arc<Hands>, by: &str) -> Gate {
    let gate = open(dir, clock);
    gate.call(publish(&with_params(&BILLING.replace("BY", by)))).unwrap();
    gate.call(publish(&with_params(PAYROLL))).unwrap();
    for agent in ["ann", "ben"] {
        let agent = format!("Agent::\"{agent}\"");
        gate.call(feed(&agent, r#"{"roles":[],"standing":"active","org":"a","trust":1}"#)).unwrap();
    }
    gate.call(feed("Account::\"1\"", r#"{"open":true}"#)).unwrap();
    gate
}

/// Acts; gives the entry, and what the budget held where it was too much.
fn act(gate: &Gate, number: u32, agent: &str, action: &str, amount: u32) -> (u64, Result<(), (i64, i64)>) {
    let (pact, action) = action.split_once('.').unwrap();
    let body = serde_json::json!({
        "pact": pact, "action": action, "idempotency_key": format!("{number:032}"),
        "params": {"account": "1", "amount": amount},
    });
    let admitted = gate.admit(AgentId::new(agent).unwrap(), Auth::None, body.to_string().into()).unwrap();
    let Answer::Entered(entered) = gate.call(Request::Act(Box::new(admitted))).unwrap() else { panic!() };
    let Event::Action(decided) = &entered.entry.event else { panic!() };
    let outcome = match &decided.decision.verdict {
        Verdict::Committed => Ok(()),
        Verdict::Rejected(Reason::BudgetExceeded { budget, used, max, .. }) if budget == "outflow" => {
            Err((*used, *max))
        }
        other => panic!("{other:?}"),
    };
    (entered.entry.index, outcome)
}

fn is_verified_whole(dir: &Path) {
    let report = audit(&RealDisk::open(dir).unwrap(), &log_key(), &mut |_| ()).unwrap();
    assert_eq!((report.verified, &report.differing), (report.entries, &vec![]), "{report:?}");
}

#[test]
fn action_types_and_pacts_that_charge_one_budget_share_its_limit() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Hands::at(1_800_000_000_000);
    let gate = set_up(dir.path(), &clock, "agent");
    assert_eq!(act(&gate, 1, "ann", "billing.refund", 60).1, Ok(()));
    assert_eq!(act(&gate, 2, "ann", "billing.gift", 60).1, Err((60, 100)));
    assert_eq!(act(&gate, 3, "ann", "payroll.wage", 41).1, Err((60, 100)));
    assert_eq!(act(&gate, 4, "ann", "payroll.wage", 30).1, Ok(()));
    // What was charged is known from a snapshot, and from the log alone.
    gate.snapshot().unwrap();
    assert_eq!(act(&gate, 5, "ann", "billing.gift", 9).1, Ok(()));
    gate.close().unwrap();
    for _ in 0..2 {
        let gate = open(dir.path(), &clock);
        assert_eq!(gate.view().whole_state().budgets.iter().find(|(key, _)| key.id == "outflow").unwrap().1.used, 99);
        for file in std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().path()) {
            if file.extension().is_some_and(|extension| extension == "snap") {
                std::fs::remove_file(file).unwrap();
            }
        }
        gate.close().unwrap();
    }
    let gate = open(dir.path(), &clock);
    assert_eq!(act(&gate, 6, "ann", "billing.refund", 2).1, Err((99, 100)));
    assert_eq!(act(&gate, 7, "ann", "payroll.wage", 1).1, Ok(()));
    // Another agent has its own, and the next window begins at nothing.
    assert_eq!(act(&gate, 8, "ben", "payroll.wage", 100).1, Ok(()));
    clock.pass(3_600_000);
    assert_eq!(act(&gate, 9, "ann", "billing.gift", 100).1, Ok(()));
    // The owner changes the limit for all that charge it.
    let raised = with_params(&BILLING.replace("BY", "agent").replace("max = 100\nper", "max = 150\nper"));
    gate.call(publish(&raised.replace("version = 1", "version = 2"))).unwrap();
    assert_eq!(act(&gate, 10, "ann", "payroll.wage", 51).1, Err((100, 150)));
    assert_eq!(act(&gate, 11, "ann", "payroll.wage", 50).1, Ok(()));
    gate.close().unwrap();
    is_verified_whole(dir.path());
}

#[test]
fn a_budget_by_all_is_shared_by_all_agents() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Hands::at(1_800_000_000_000);
    let gate = set_up(dir.path(), &clock, "all");
    assert_eq!(act(&gate, 1, "ann", "billing.refund", 60).1, Ok(()));
    let (stopped, outcome) = act(&gate, 2, "ben", "payroll.wage", 60);
    assert_eq!(outcome, Err((60, 100)));
    assert_eq!(act(&gate, 3, "ben", "billing.gift", 40).1, Ok(()));
    gate.close().unwrap();
    is_verified_whole(dir.path());
    // Under a payroll that charges nothing, only its own verdict would differ.
    let free = with_params(PAYROLL).replace("budget = { name", "# { name").replace("version = 1", "version = 2");
    let pact = Arc::new(load(&free).unwrap().pact);
    let pacts = [(pact.name.clone(), pact)].into();
    let report = replay(&RealDisk::open(dir.path()).unwrap(), &log_key(), &pacts, &mut |_| ()).unwrap();
    assert_eq!(report.differing.iter().map(|it| it.entry).collect::<Vec<_>>(), [stopped]);
    // Under the very same one, none: its budget is found with its owner, which was not given.
    let pact = Arc::new(load(&with_params(PAYROLL)).unwrap().pact);
    let pacts = [(pact.name.clone(), pact)].into();
    let report = replay(&RealDisk::open(dir.path()).unwrap(), &log_key(), &pacts, &mut |_| ()).unwrap();
    assert_eq!((report.actions, report.differing.len()), (1, 0));
}

#[test]
fn pacts_that_disagree_on_a_budget_are_not_published() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Hands::at(1_800_000_000_000);
    let gate = open(dir.path(), &clock);
    let refusal = |source: &str| match gate.call(publish(source)).unwrap_err() {
        Refusal::Publish(PublishError::Budgets(refusals)) => Disagreement::join(&refusals),
        other => panic!("{other:?}"),
    };
    let (billing, payroll) = (with_params(&BILLING.replace("BY", "agent")), with_params(PAYROLL));
    let charges = "action `wage` of pact `payroll` charges budget `outflow`";
    assert_eq!(
        refusal(&payroll),
        format!("{charges} of pact `billing`, which is not published; publish `billing` first")
    );
    gate.call(publish(&billing)).unwrap();
    assert_eq!(
        refusal(&payroll.replace("\"outflow\"", "\"inflow\"")),
        "action `wage` of pact `payroll` charges budget `inflow`, which version 1 of pact `billing` does not define; define it \
         there, or stop charging it first"
    );
    assert!(refusal(&payroll.replace("sum = \"amount\"", "count = true")).contains("it adds up a parameter"));
    // What is cents to one must not be dollars to the other.
    let cents = payroll
        .replace("{ type = \"integer\", minimum = 0, maximum = 100 }", "{ type = \"money\", scale = 2, minimum = 0 }");
    assert!(refusal(&cents).contains("it adds up money of another scale"));
    gate.call(publish(&payroll)).unwrap();
    // The owner cannot take away what another charges, nor make it something else.
    let second = billing.replace("version = 1", "version = 2");
    let renamed = second.replace("[budget.outflow]", "[budget.out]").replace("\"outflow\"", "\"out\"");
    assert!(refusal(&renamed).starts_with(&format!("{charges}, which version 2 of pact `billing` does not define")));
    let counting =
        second.replace("max = 100\nper", "count = true\nmax = 100\nper").replace("sum = \"amount\"", "count = true");
    assert!(refusal(&counting).contains("it counts actions"));
    gate.call(publish(&second)).unwrap();
}

#[test]
fn what_was_charged_to_another_pacts_budget_stays_until_its_window_closes_and_is_missed_after() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Hands::at(1_800_000_000_000);
    let gate = set_up(dir.path(), &clock, "agent");
    let (charged, outcome) = act(&gate, 1, "ann", "payroll.wage", 60);
    assert_eq!(outcome, Ok(()));
    let (stopped, outcome) = act(&gate, 2, "ann", "billing.refund", 60);
    assert_eq!(outcome, Err((60, 100)));
    let refused = gate.erase(operator(), Auth::None, &[charged], "asked for".into()).unwrap_err();
    assert!(
        matches!(
            &refused,
            EraseError::Refused(Refusal::InForce { what: InForce::Budget { until_ms: Some(_), .. }, .. })
        ),
        "{refused:?}"
    );
    assert!(refused.to_string().contains("budget `outflow` of pact billing"), "{refused}");
    clock.pass(3_600_000);
    gate.erase(operator(), Auth::None, &[charged], "asked for".into()).unwrap();
    gate.close().unwrap();
    let report = audit(&RealDisk::open(dir.path()).unwrap(), &log_key(), &mut |_| ()).unwrap();
    assert_eq!(report.differing, []);
    let unverifiable: Vec<_> = report.unverifiable.iter().map(|it| (it.entry, it.unknown)).collect();
    assert_eq!(unverifiable, [(charged, Unknown::Payload), (stopped, Unknown::Charges)]);
}
