//! Decimals and money: exact from the request to the ledger and back.

use countersign_core::decision::Verdict;
use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_core::json::parse_object_exact;
use countersign_core::reason::Reason;
use countersign_core::record::Event;
use countersign_core::value::Attributes;
use countersign_engine::audit::audit;
use countersign_engine::gate::Gate;
use countersign_engine::request::{Answer, Request};
use countersign_engine::storage::disk::RealDisk;
use countersign_testing::gate::{feed, log_key, open, operator, publish};

const PACT: &str = r#"
pact = "shop"
version = 1

[facts.Item]
attributes = { price = "decimal", stock = "Money<2>", seen = "decimal?" }

[observe.Item]
who = 'true'
attributes = "*"

[action.buy]
resource = 'Item::"{item}"'
allow = 'true'
set = { stock = "resource.stock - context.amount", seen = "context.price" }
budget = { sum = "amount", max = 100000, per = "1d", by = "agent" }

[action.buy.params]
type = "object"
additionalProperties = false
required = ["item", "amount", "price"]
properties.item = { type = "string" }
properties.amount = { type = "money", scale = 2, minimum = 0 }
properties.price = { type = "decimal" }

[[action.buy.require]]
id = "price-within-limit"
that = 'resource.price.lessThanOrEqual(context.price)'

[[action.buy.require]]
id = "in-stock"
that = 'resource.stock >= context.amount'

[[action.buy.require]]
id = "not-free"
that = 'context.price.greaterThan(decimal("0.0"))'
"#;

fn put(gate: &Gate, fact: &str, text: &str) {
    let view = gate.view();
    let fact = fact.parse::<countersign_core::ids::FactId>().unwrap();
    let types = view.catalogue().types().get(fact.ty()).unwrap().clone();
    drop(view);
    let value = Some(Attributes::from_json(&parse_object_exact(text).unwrap(), &types).unwrap());
    gate.call(Request::Feed { by: operator(), auth: Auth::None, fact, value, if_match: None }).unwrap();
}

fn buy(gate: &Gate, number: u32, amount: &str, price: &str) -> Result<(), Vec<String>> {
    let body = format!(
        r#"{{"pact":"shop","action":"buy","idempotency_key":"{number:032}","params":{{"item":"1","amount":{amount},"price":{price}}}}}"#
    );
    let action = gate.admit(AgentId::new("ann").unwrap(), Auth::None, body.into()).unwrap();
    let Answer::Entered(entered) = gate.call(Request::Act(Box::new(action))).unwrap() else { panic!() };
    let Event::Action(decided) = &entered.entry.event else { panic!() };
    match &decided.decision.verdict {
        Verdict::Committed => Ok(()),
        Verdict::Rejected(Reason::PreconditionFailed { failed }) => {
            Err(failed.iter().map(|it| it.id.to_string()).collect())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn decimals_and_money_are_exact_in_conditions_facts_and_the_ledger() {
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path());
    gate.call(publish(PACT)).unwrap();
    gate.call(feed("Agent::\"ann\"", r#"{"roles":[],"standing":"active","org":"a","trust":1}"#)).unwrap();
    put(&gate, "Item::\"1\"", r#"{"price": 0.3, "stock": 100.10}"#);

    // 0.1 + 0.2 is famous for not being 0.3 in floats; here every digit is what was written.
    assert_eq!(buy(&gate, 1, "0.10", "0.3"), Ok(()));
    assert_eq!(buy(&gate, 2, "0.10", "0.2999"), Err(vec!["price-within-limit".to_owned()]));
    assert_eq!(buy(&gate, 3, "\"100.01\"", "1"), Err(vec!["in-stock".to_owned()]));
    assert_eq!(buy(&gate, 4, "100.00", "\"0.3000\""), Ok(()));
    gate.snapshot().unwrap();
    gate.close().unwrap();

    let gate = open(dir.path());
    let value = gate.fact(&"Item::\"1\"".parse().unwrap()).unwrap().value.clone().unwrap();
    assert_eq!(
        value.to_json(),
        serde_json::json!({"price": {"$decimal": "0.3"}, "stock": 0, "seen": {"$decimal": "0.3"}})
    );
    let observed = gate.observe(AgentId::new("ann").unwrap(), vec!["Item::\"1\"".parse().unwrap()]).unwrap();
    assert_eq!(observed.facts[0].value.as_ref(), Some(&value));
    assert_eq!(buy(&gate, 5, "0", "0.3"), Ok(()));
    assert_eq!(buy(&gate, 6, "0.00", "-0.5").unwrap_err().len(), 2);
    gate.close().unwrap();
    let report = audit(&RealDisk::open(dir.path()).unwrap(), &log_key(), &mut |_| ()).unwrap();
    assert_eq!((report.verified, &report.differing), (report.entries, &vec![]), "{report:?}");
}
