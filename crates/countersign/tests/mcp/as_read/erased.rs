//! What was read, erased with the commands that are there for it: what goes, what stays, and what an audit then says.

use super::shop::Shop;
use super::{is_error, meta};
use serde_json::{Value, json};

/// What the ledger holds.
fn entries(shop: &Shop) -> Vec<Value> {
    let listed = shop.run_ok(&["ledger", "list", "--json", "--from", "0", "--limit", "200", "--data", "data"]);
    listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The fact of the reading that holds this.
fn reading(shop: &Shop, held: &str) -> String {
    let writes =
        entries(shop).into_iter().flat_map(|entry| entry["payload"]["writes"].as_array().cloned().unwrap_or_default());
    let fact = writes.map(|write| (write["fact"].clone(), write["value"].to_string()));
    let (fact, _) = fact.into_iter().find(|(_, value)| value.contains(held)).expect("it was read");
    fact.as_str().unwrap().replace('"', "")
}

#[test]
fn a_reading_that_is_erased_is_gone_and_an_audit_says_what_cannot_be_decided_again() {
    for ended in [true, false] {
        let shop = Shop::new();
        let gate = shop.serve();
        let mut client = shop.client_of(&gate);
        let (before, after) = (987_654_321, 123_456_789);
        shop.set("tea", before);
        client.call("get_stock", &json!({"item": "tea"}));
        client.call("get_stock", &json!({"item": "rice"}));
        shop.set("tea", after);
        let refused = client.call("sell", &json!({"item": "salt", "count": 1}));
        assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
        assert!(!is_error(&client.call("sell", &json!({"item": "salt", "count": 1}))));
        if ended {
            client.end();
        } else {
            client.kill();
        }
        gate.end();
        let fact = reading(&shop, &before.to_string());
        let erase = ["ledger", "erase", "--fact", &fact, "--reason", "request-7", "--yes", "--data", "data"];
        let plan = shop.run(&[&erase[..], &["--dry-run"]].concat());
        assert_eq!(plan.0, Some(0), "{plan:?}");
        let (code, said) = shop.run(&erase);
        assert_eq!(code, Some(0), "{ended}: {said}");
        assert!(said.starts_with(plan.1.trim_end()), "what was planned is what was done: {plan:?} {said}");
        let listed = entries(&shop);
        let holds = |value: i64| listed.iter().filter(|entry| entry.to_string().contains(&value.to_string())).count();
        assert_eq!(holds(before), 0, "{ended}: what was read first is gone");
        // As long as the session may go on, what it holds stays.
        assert_eq!(holds(after) > 0, !ended, "{listed:?}");
        let rice = listed.iter().filter(|entry| entry["payload"]["writes"].to_string().contains("rice")).count();
        assert!(rice > 0, "what else was read stays");
        shop.run_ok(&["verify", "--data", "data", "--log-key", "data/log.vkey"]);
        let (code, said) = shop.run(&["audit", "--data", "data"]);
        assert_eq!(code, Some(0), "{said}");
        let report: Value = serde_json::from_str(&shop.run_ok(&["audit", "--data", "data", "--json"])).unwrap();
        let erased = listed.iter().filter(|entry| entry["payload"].is_null()).map(|entry| entry["index"].clone());
        let unverifiable = report["unverifiable"].as_array().unwrap();
        assert_eq!(report["differing_count"], 0, "{report}");
        let is_told = |index: &Value| unverifiable.iter().any(|told| told == index || told["entry"] == *index);
        assert!(!unverifiable.is_empty() && erased.into_iter().all(|index| is_told(&index)), "{report}");
    }
}
