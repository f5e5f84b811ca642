//! External facts: what was observed, what is claimed about the step to the call, and what runs when a source fails.

mod approved;
mod keys;
mod sources;

use crate::attacks::service::{Received, Reply, Service};
use crate::attacks::world::{Caller, PATIENCE, World};
use countersign_core::value::{Attributes, Value};
use serde_json::{Value as Json, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Prices in a shop, which is called at the very resource that is read.
const SHOP: &str = r#"
pact = "shop"
version = 1

[facts.Price]
attributes = { price = "Long", revision = "Long" }
source = { http = "shop", path = "/prices/{id}" }

[observe.Price]
who = 'principal.roles.contains("buyer")'
attributes = "*"

[action.buy]
resource = { fact = 'Price::"{item}"', unchanged = true }
allow = 'principal.roles.contains("buyer")'
call = { http = "shop", path = "/prices/{item}", body = { item = "context.item", price = "resource.price" } }

[[action.buy.require]]
id = "priced"
that = 'resource.price > 0'
"#;

/// A service whose resources can be changed while the gate runs: path, status and body.
#[derive(Clone, Default)]
struct Shelf(Arc<Mutex<Vec<(String, u16, String)>>>);

impl Shelf {
    fn set(&self, path: &str, status: u16, body: &Json) {
        let mut shelf = self.0.lock().unwrap();
        shelf.retain(|(held, ..)| held != path);
        shelf.push((path.to_owned(), status, body.to_string()));
    }

    /// Answers reads with what is on the shelf, under an ETag of its content, and takes every call.
    fn answer(&self, request: &Received) -> Reply {
        let (method, path) = request.line.split_once(' ').unwrap();
        if method != "GET" {
            return Reply::json(200, "{}");
        }
        match self.0.lock().unwrap().iter().find(|(held, ..)| held == path) {
            None => Reply::json(404, "{}"),
            Some((_, status, body)) => {
                let etag =
                    format!("\"{:x}\"", body.bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte)));
                Reply { headers: vec![("etag".to_owned(), etag)], ..Reply::json(*status, body) }
            }
        }
    }

    fn serve(&self) -> Service {
        let shelf = self.clone();
        Service::start(move |request| shelf.answer(request))
    }
}

fn settings(service: &Service) -> String {
    // What is asked here is not when the breaker opens.
    let breaker = "breaker = { failures = 1000, open_for = \"1s\" }";
    let base = &service.url;
    format!("[adapters.shop]\nkind = \"http\"\nbase = \"{base}\"\nallow_private = [\"127.0.0.0/8\"]\n{breaker}\n")
}

fn observe(agent: &Caller, facts: &[&str]) -> Json {
    let answer = agent.ask("POST", "/v1/observe", &json!({ "facts": facts }).to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json
}

/// Acts, and waits for what becomes of it.
fn act(agent: &Caller, pact: &str, action: &str, params: &Json, observed: Option<&Json>) -> Json {
    static KEYS: AtomicU64 = AtomicU64::new(0);
    let key = format!("external-{:032}", KEYS.fetch_add(1, Ordering::SeqCst));
    let tokens: Vec<&Json> = observed.into_iter().map(|observed| &observed["observation"]).collect();
    let body = json!({
        "pact": pact, "action": action, "idempotency_key": key, "params": params, "observations": tokens,
    });
    agent.ask("POST", "/v1/actions?wait_ms=30000", &body.to_string()).json
}

/// The calls that the service received, reads left out.
fn calls(service: &Service) -> Vec<String> {
    service.received().into_iter().map(|request| request.line).filter(|line| !line.starts_with("GET ")).collect()
}

/// Two values whose digests have the same last 53 bits of their first 56, found in two minutes on one core.
fn colliding() -> [Json; 2] {
    [
        json!({"price": 10, "revision": 3_447_329_462_336_258_i64}),
        json!({"price": 1_000_000, "revision": 4_496_382_320_294_837_i64}),
    ]
}

#[test]
fn a_price_of_ten_is_swapped_for_a_million_that_collides_with_it_in_53_bits() {
    let [cheap, dear] = colliding();
    let digest = |value: &Json| Attributes::from_untyped_json(value.as_object().unwrap()).unwrap().content_digest().0;
    let front = |digest: [u8; 32]| {
        digest.iter().take(7).fold(0_u64, |front, byte| (front << 8) | u64::from(*byte)) & ((1 << 53) - 1)
    };
    assert_eq!(front(digest(&cheap)), front(digest(&dear)), "the pair would tell nothing");
    let shelf = Shelf::default();
    shelf.set("/prices/tea", 200, &cheap);
    let service = shelf.serve();
    let mut world = World::serving(&settings(&service));
    world.publish(SHOP);
    let buyer = world.agent("buyer-1", "buyer");
    let seen = observe(&buyer, &["Price::\"tea\""]);
    assert_eq!(seen["facts"][0]["value"]["price"], 10, "{seen}");
    shelf.set("/prices/tea", 200, &dear);
    let verdict = act(&buyer, "shop", "buy", &json!({"item": "tea"}), Some(&seen));
    assert_eq!(calls(&service), Vec::<String>::new(), "{verdict}");
    assert_eq!((&verdict["verdict"], &verdict["code"]), (&json!("failed"), &json!("precondition_failed")), "{verdict}");
    let failed = &verdict["failed"][0];
    assert_eq!(
        (&failed["precondition"], &failed["why"]),
        (&json!("resource-unchanged"), &json!("changed")),
        "{verdict}"
    );
    let price = failed["reads"].as_array().unwrap().iter().find(|read| read["attribute"] == "Price::\"tea\".price");
    let price = price.unwrap_or_else(|| panic!("{verdict}"));
    assert_eq!(
        (&price["expected"], &price["actual"]),
        (&json!(10), &json!(1_000_000)),
        "observed is what was observed"
    );
    let named = |value: &Json| json!(countersign_core::ids::Digest(digest(value)).to_string());
    assert_eq!((&price["observed_digest"], &price["digest"]), (&named(&cheap), &named(&dear)), "{price}");
    // What has not changed is bought.
    let seen = observe(&buyer, &["Price::\"tea\""]);
    let verdict = act(&buyer, "shop", "buy", &json!({"item": "tea"}), Some(&seen));
    assert_eq!(verdict["verdict"], "settled", "{verdict}");
    assert_eq!(calls(&service), ["POST /prices/tea"]);
    assert_eq!(Value::Long(1_000_000).to_json(), service.received().iter().rev().find_map(body_price).unwrap());
    audit(&mut world);
}

/// Everything that was decided comes out the same again.
fn audit(world: &mut World) {
    world.kill();
    world.run_ok(&["audit", "--data", "data"]);
}

fn body_price(request: &Received) -> Option<Json> {
    serde_json::from_str::<Json>(&request.body).ok()?.get("price").cloned()
}

/// Buying asks for the price and for the stock, and is sent to the price.
const TWO: &str = r#"
pact = "two"
version = 1

[facts.Price]
attributes = { price = "Long" }
source = { http = "shop", path = "/prices/{id}" }

[facts.Stock]
attributes = { left = "Long" }
source = { http = "shop", path = "/stock/{id}" }

[[observe.Price]]
who = 'true'
attributes = "*"

[[observe.Stock]]
who = 'true'
attributes = "*"

[action.buy]
resource = 'Price::"{item}"'
reads.stock = 'Stock::"{item}"'
allow = 'principal.roles.contains("buyer")'
call = { http = "shop", path = "/prices/{item}", body = { item = "context.item" } }

[[action.buy.require]]
id = "in-stock"
that = 'context.stock.left > 0'
"#;

#[test]
fn a_fact_that_no_etag_binds_is_changed_between_reading_and_calling_under_a_claim_of_conditional() {
    // Somebody else takes the last one right after the gate has looked.
    let looked = Arc::new(Mutex::new(0));
    let service = Service::start(move |request| match request.line.as_str() {
        "GET /stock/tea" => {
            let mut looked = looked.lock().unwrap();
            *looked += 1;
            Reply { headers: vec![("etag".into(), format!("\"{looked}\""))], ..Reply::json(200, r#"{"left": 1}"#) }
        }
        "GET /prices/tea" => {
            Reply { headers: vec![("etag".into(), "\"p\"".into())], ..Reply::json(200, r#"{"price": 10}"#) }
        }
        _ => Reply::json(200, "{}"),
    });
    let mut world = World::serving(&settings(&service));
    world.publish(TWO);
    let buyer = world.agent("buyer-1", "buyer");
    let verdict = act(&buyer, "two", "buy", &json!({"item": "tea"}), None);
    assert_eq!(verdict["verdict"], "settled", "{verdict}");
    let call = service.received().into_iter().find(|request| request.line == "POST /prices/tea").unwrap();
    let bound: Vec<_> = call.headers.iter().filter(|(name, _)| name == "if-match").map(|(_, etag)| etag).collect();
    assert_eq!(bound, ["\"p\""], "the service was told of one fact only, and could not refuse a change of the other");
    assert_ne!(verdict["atomicity"], "conditional", "{verdict}");
    let seen = observe(&buyer, &["Stock::\"tea\"", "Price::\"tea\""]);
    for fact in seen["facts"].as_array().unwrap() {
        assert_ne!(fact["atomicity"], "conditional", "{seen}");
    }
    let manifest = world.run_ok(&["pact", "check", "--manifest", "pact.toml"]);
    assert!(!manifest.contains("conditional"), "{manifest}");
    audit(&mut world);
}

/// What a source says when a resource is of no use, and the code or the words of the failure.
fn useless() -> [(u16, Json, &'static str); 4] {
    [
        (404, json!({}), "does not exist"),
        (410, json!({}), "does not exist"),
        (403, json!({}), "403"),
        (200, json!({"price": "ten", "revision": 1}), "it must be Long"),
    ]
}

#[test]
fn a_write_is_parked_on_a_deleted_or_broken_resource_to_run_by_itself_when_it_comes_back() {
    let (shelf, good) = (Shelf::default(), json!({"price": 10, "revision": 1}));
    let service = shelf.serve();
    let mut world = World::serving(&settings(&service));
    world.publish(&SHOP.replace(", unchanged = true", ""));
    let (buyer, other) = (world.agent("buyer-1", "buyer"), world.agent("buyer-2", "buyer"));
    for (number, (status, body, why)) in useless().into_iter().enumerate() {
        let item = format!("item-{number}");
        let path = format!("/prices/{item}");
        shelf.set(&path, status, &body);
        let began = Instant::now();
        let verdict = act(&buyer, "shop", "buy", &json!({ "item": item }), None);
        assert_eq!(verdict["verdict"], "failed", "{verdict}");
        let told = [&verdict["evidence"]["summary"], &verdict["message"]];
        assert!(told.iter().any(|told| told.as_str().is_some_and(|told| told.contains(why))), "{verdict}");
        assert_eq!(verdict["evidence"]["attempts"], 1, "{verdict}");
        assert!(began.elapsed() < PATIENCE / 2, "it is answered when the source has answered");
        shelf.set(&path, 200, &good);
        // Others are free to act at once, and their call is the only one: long after, the first has not run.
        let verdict = act(&other, "shop", "buy", &json!({ "item": item }), None);
        assert_eq!(verdict["verdict"], "settled", "{verdict}");
    }
    let expected: Vec<String> = (0..useless().len()).map(|number| format!("POST /prices/item-{number}")).collect();
    assert_eq!(calls(&service), expected);
    let open: Json = serde_json::from_str(&world.run_ok(&["effect", "list", "--json"])).unwrap();
    assert_eq!(open["effects"], json!([]), "nothing waits any more");
    audit(&mut world);
}

#[test]
fn a_write_is_parked_while_its_service_is_down_to_run_by_itself_when_it_is_up_again() {
    let (shelf, good) = (Shelf::default(), json!({"price": 10, "revision": 1}));
    shelf.set("/prices/tea", 503, &json!({}));
    let service = shelf.serve();
    let mut world = World::serving(&settings(&service));
    let pact = SHOP.replace(", unchanged = true", "").replace("call = { http", "call = { deadline = \"2s\", http");
    world.publish(&pact);
    let (buyer, other) = (world.agent("buyer-1", "buyer"), world.agent("buyer-2", "buyer"));
    let verdict = act(&buyer, "shop", "buy", &json!({"item": "tea"}), None);
    assert_eq!(verdict["verdict"], "failed", "{verdict}");
    let said = verdict["evidence"]["summary"].as_str().unwrap();
    assert!(said.contains("deadline passed") && said.contains("503"), "{verdict}");
    assert!(verdict["evidence"]["attempts"].as_u64().unwrap() > 1, "it was tried again meanwhile: {verdict}");
    assert_eq!(calls(&service), Vec::<String>::new());
    shelf.set("/prices/tea", 200, &good);
    let verdict = act(&other, "shop", "buy", &json!({"item": "tea"}), None);
    assert_eq!(verdict["verdict"], "settled", "{verdict}");
    assert_eq!(calls(&service), ["POST /prices/tea"]);
    audit(&mut world);
}

#[test]
fn an_observation_that_may_be_two_seconds_old_is_acted_on_when_the_service_is_up_again() {
    let shelf = Shelf::default();
    shelf.set("/prices/tea", 200, &json!({"price": 10, "revision": 1}));
    let service = shelf.serve();
    let mut world = World::serving(&settings(&service));
    let fresh = "\n[[action.buy.require]]\nid = \"cheap\"\nthat = 'resource.price < 20'\nstale_after = \"2s\"\n";
    world.publish(&(SHOP.replace(", unchanged = true", "") + fresh));
    let buyer = world.agent("buyer-1", "buyer");
    let seen = observe(&buyer, &["Price::\"tea\""]);
    shelf.set("/prices/tea", 503, &json!({}));
    // The pact's deadline is a minute; the observation allows two seconds, and so does the call.
    let began = Instant::now();
    let verdict = act(&buyer, "shop", "buy", &json!({"item": "tea"}), Some(&seen));
    assert_eq!(verdict["verdict"], "failed", "{verdict}");
    assert!(began.elapsed() < PATIENCE / 2);
    shelf.set("/prices/tea", 200, &json!({"price": 10, "revision": 1}));
    let entries = world.entries().len();
    // Reading goes through, and everything that waits has had its turn: nothing else was sent.
    observe(&buyer, &["Price::\"tea\""]);
    assert_eq!((calls(&service), world.entries().len()), (Vec::new(), entries));
    audit(&mut world);
}
