//! External facts in what a person approves.

use super::{Shelf, act, calls, settings};
use crate::attacks::world::{Answer, World};
use serde_json::{Value as Json, json};

/// A shop where a person agrees to each purchase.
const AGREED: &str = r#"
pact = "agreed"
version = 1

[facts.Price]
attributes = { price = "Long", revision = "Long" }
source = { http = "shop", path = "/prices/{id}" }

[action.buy]
resource = 'Price::"{item}"'
allow = 'principal.roles.contains("buyer")'
call = { http = "shop", path = "/prices/{item}", body = { item = "context.item", price = "resource.price" } }

[[action.buy.require]]
id = "a-person-agrees"
that = 'context.item == ""'
on_fail = "review"
"#;

#[test]
fn a_price_is_raised_between_a_persons_approval_and_the_purchase() {
    let shelf = Shelf::default();
    let service = shelf.serve();
    let mut world = World::serving(&settings(&service));
    world.publish(AGREED);
    world.run_ok(&["operator", "new", "vera", "--role", "reviewer"]);
    let (buyer, vera) = (world.agent("buyer-1", "buyer"), world.caller("vera"));
    let tea = |price: u64, revision: u64| shelf.set("/prices/tea", 200, &json!({"price": price, "revision": revision}));
    let park = || {
        let parked = act(&buyer, "agreed", "buy", &json!({"item": "tea"}), None);
        assert_eq!(parked["verdict"], "review", "{parked}");
        parked["review"].as_str().unwrap().to_owned()
    };
    let show = |review: &str| vera.ask("GET", &format!("/v1/reviews/{review}"), "");
    let price_shown = |shown: &Answer| {
        let facts = shown.json["facts"].as_array().unwrap().iter();
        facts.clone().find(|fact| fact["fact"] == "Price::\"tea\"").unwrap()["value"]["price"].clone()
    };
    let approve = |review: &str, shown: &Answer| {
        let body = json!({"shown": shown.json["shown"]}).to_string();
        let approved = vera.ask("POST", &format!("/v1/reviews/{review}/approve"), &body).json;
        assert_eq!(approved["verdict"], "in_flight", "{approved}");
        let effect = format!("/v1/effects/{}?wait_ms=30000", approved["effect"].as_str().unwrap());
        vera.ask("GET", &effect, "").json
    };

    // Shown at 10, and a million when the gate looks for the last time.
    tea(10, 1);
    let review = park();
    let shown = show(&review);
    assert_eq!(price_shown(&shown), 10, "the person sees what is there: {shown:?}");
    tea(1_000_000, 2);
    let ended = approve(&review, &shown);
    assert_eq!(calls(&service), Vec::<String>::new(), "{ended}");
    assert_eq!((&ended["state"], &ended["code"]), (&json!("failed"), &json!("approval_outdated")), "{ended}");
    // The person is told what it was. The agent may not see prices, and is told which attribute it was.
    let said = |effect: &Json| effect["message"].as_str().unwrap().to_owned();
    assert!(said(&ended).contains("was 10 when it was shown, and is now 1000000"), "{ended}");
    let told = buyer.ask("GET", &format!("/v1/effects/{}", ended["effect"].as_str().unwrap()), "").json;
    assert!(said(&told).ends_with("`resource.price` is not as it was shown"), "{told}");
    assert!(!told.to_string().contains("1000000"), "{told}");

    // Shown while it was not there, and there afterwards.
    shelf.set("/prices/tea", 404, &json!({}));
    let review = park();
    let shown = show(&review);
    assert_eq!(price_shown(&shown), Json::Null, "{shown:?}");
    tea(1_000_000, 3);
    let ended = approve(&review, &shown);
    assert_eq!((calls(&service).len(), &ended["code"]), (0, &json!("approval_outdated")), "{ended}");

    // Where it cannot be read there is nothing to approve.
    let review = park();
    shelf.set("/prices/tea", 500, &json!({}));
    let unread = show(&review);
    assert_eq!((unread.status, &unread.json["error"]["code"]), (502, &json!("external_unread")), "{unread:?}");

    // What neither a condition nor the call uses may change.
    tea(20, 4);
    let shown = show(&review);
    assert_eq!(price_shown(&shown), 20);
    tea(20, 5);
    let ended = approve(&review, &shown);
    assert_eq!(ended["state"], "settled", "{ended}");
    assert_eq!(calls(&service).len(), 1);
    world.kill();
    world.run_ok(&["audit", "--data", "data"]);
}
