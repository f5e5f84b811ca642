//! Where facts come from: who may say where a fact is read, and for how long the word of a source counts.

use super::{SHOP, Shelf, act, audit, observe, settings};
use crate::attacks::world::{World, wait_until};
use countersign_testing::pacts::whole;
use serde_json::{Value as Json, json};

/// A second pact that says of another's fact type where it is read.
const ELSEWHERE: &str = r#"
pact = "elsewhere"
version = 1

[facts.Price]
attributes = { price = "Long", revision = "Long" }
source = { http = "shop", path = "/bargains/{id}" }

[action.look]
resource = 'Price::"{item}"'
allow = 'true'
call = { http = "shop", path = "/bargains/{item}" }

[action.look.params]
type = "object"
additionalProperties = false
required = ["item"]
properties.item = { type = "string", maxLength = 64 }

[[action.look.require]]
id = "cheap"
that = 'resource.price < 5'
"#;

#[test]
fn a_second_publisher_redeclares_where_the_facts_of_another_pact_are_read() {
    let shelf = Shelf::default();
    shelf.set("/prices/tea", 200, &json!({"price": 10, "revision": 1}));
    shelf.set("/bargains/tea", 200, &json!({"price": 1, "revision": 1}));
    let service = shelf.serve();
    let mut world = World::serving(&settings(&service));
    world.publish(SHOP);
    let buyer = world.agent("buyer-1", "buyer");
    world.write("elsewhere.toml", ELSEWHERE);
    let refused = world.run(&["pact", "publish", "elsewhere.toml"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("in another way"), "{said}");
    let seen = observe(&buyer, &["Price::\"tea\""]);
    assert_eq!(seen["facts"][0]["value"]["price"], 10, "agents are shown what their own pact says: {seen}");
    assert!(service.received().iter().all(|request| request.line != "GET /bargains/tea"));
    // The same source in another pact is no contradiction, and its owner may change it as long as it is the only one.
    let same = ELSEWHERE.replace(
        "source = { http = \"shop\", path = \"/bargains/{id}\" }",
        "source = { http = \"shop\", path = \"/prices/{id}\" }",
    );
    world.publish(&same);
    audit(&mut world);
}

#[test]
fn a_mistyped_source_is_refused_when_it_is_published_and_binds_nothing() {
    let shelf = Shelf::default();
    shelf.set("/prices/tea", 200, &json!({"price": 10, "revision": 1}));
    let service = shelf.serve();
    let mut world = World::serving(&settings(&service));
    world.write("typo.toml", &whole(&SHOP.replace("http = \"shop\"", "http = \"shpo\"")));
    for command in
        [&["pact", "publish", "typo.toml"] as &[&str], &["pact", "check", "typo.toml", "--against", "SERVER"]]
    {
        let url = world.url().to_owned();
        let words: Vec<&str> = command.iter().map(|word| if *word == "SERVER" { url.as_str() } else { word }).collect();
        let refused = world.run(&words);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains("no adapter or MCP server `shpo`"), "{said}");
        assert!(said.contains("they name shop"), "{said}");
    }
    assert!(world.entries().iter().all(|entry| entry["leaf"]["kind"] != "pact"), "nothing was published");
    world.publish(SHOP);
    let buyer = world.agent("buyer-1", "buyer");
    assert_eq!(observe(&buyer, &["Price::\"tea\""])["facts"][0]["value"]["price"], 10);
    audit(&mut world);
}

/// A price that its source feeds, and must confirm every second.
const FED: &str = r#"
pact = "fed"
version = 1

[facts.Price]
attributes = { price = "Long" }
max_staleness = "1s"

[facts.Order]
attributes = { paid = "Long" }

[observe.Price]
who = 'principal.roles.contains("buyer")'
attributes = "*"

[action.buy]
resource = { fact = 'Order::"{order}"', create = true }
reads.price = { fact = 'Price::"{item}"', unchanged = true }
allow = 'principal.roles.contains("buyer")'
set = { paid = "context.price.price" }

[action.buy.params]
type = "object"
additionalProperties = false
required = ["order", "item"]
properties.order = { type = "string", maxLength = 64 }
properties.item = { type = "string", maxLength = 64 }

[[action.buy.require]]
id = "cheap"
that = 'context.price.price < 20'
"#;

#[test]
fn a_fed_price_is_acted_on_long_after_its_source_last_confirmed_it() {
    let mut world = World::serving("");
    world.publish(FED);
    world.run_ok(&["fact", "put", "Price", "tea", r#"{"price": 10}"#]);
    let buyer = world.agent("buyer-1", "buyer");
    let seen = observe(&buyer, &["Price::\"tea\""]);
    // The feed is silent. Whoever looked just before it fell silent must not buy on it.
    let fed_at = seen["facts"][0]["written_at"].as_u64().unwrap();
    wait_until("the price is older than its pact allows", || {
        observe(&buyer, &["Price::\"tea\""])["observed_at"].as_u64().unwrap() > fed_at + 1_500
    });
    let late = act(&buyer, "fed", "buy", &json!({"order": "o-1", "item": "tea"}), Some(&seen));
    assert_eq!((&late["verdict"], &late["code"]), (&json!("rejected"), &json!("precondition_failed")), "{late}");
    let failed = &late["failed"][0];
    assert_eq!((&failed["precondition"], &failed["why"]), (&json!("price-confirmed"), &json!("unconfirmed")), "{late}");
    assert_eq!((&failed["limit_ms"], &failed["reads"][0]["confirmed_at"]), (&json!(1000), &json!(fed_at)), "{late}");
    assert!(failed["hint"].as_str().unwrap().contains("Observing it again does not help"), "{late}");
    assert_eq!(world.run(&["fact", "get", "Order", "o-1"]).status.code(), Some(1), "nothing was ordered");
    // An agent cannot confirm, and a source confirms what it has looked at and nothing else.
    let body = json!({"version": 1}).to_string();
    assert_eq!(buyer.ask("POST", "/v1/facts/Price/tea/confirm", &body).status, 403);
    assert!(!world.run(&["fact", "confirm", "Price", "tea", "--version", "7"]).status.success());
    // Its source says that it is still so: no new version, and what was observed before is good again.
    let bought = (0..20).find_map(|number| {
        world.run_ok(&["fact", "confirm", "Price", "tea", "--version", "1"]);
        let order = json!({"order": format!("o-2-{number}"), "item": "tea"});
        let verdict = act(&buyer, "fed", "buy", &order, Some(&seen));
        // A busy machine may take longer than a second between the two.
        (verdict["verdict"] == "committed").then_some(verdict)
    });
    assert!(bought.is_some(), "confirmed, and still refused");
    let price = world.run_ok(&["fact", "get", "Price", "tea", "--json"]);
    let price: Json = serde_json::from_str(&price).unwrap();
    assert_eq!(price["version"], 1, "{price}");
    let confirmed_at = price["confirmed_at"].as_u64().unwrap();
    assert!(confirmed_at > fed_at + 1_500, "{price}");
    // The confirmation is in the ledger, and there again after a kill.
    assert!(world.entries().iter().any(|entry| entry["kind"] == "confirm" || entry["leaf"]["kind"] == "confirm"));
    world.kill();
    world.serve();
    let again: Json = serde_json::from_str(&world.run_ok(&["fact", "get", "Price", "tea", "--json"])).unwrap();
    assert_eq!(again["confirmed_at"].as_u64(), Some(confirmed_at));
    audit(&mut world);
}
