//! What is read: facts and their history, pacts, the ledger, the log for outsiders, the gate's own state.

use super::*;
use countersign_ledger::checkpoint::Checkpoint;
use countersign_ledger::hash::{Hash, leaf_hash};
use countersign_ledger::receipt::Receipt;
use countersign_ledger::tile::{decode_bundle, decode_tile};
use countersign_ledger::tree::verify_consistency;

#[test]
fn facts_have_versions_and_a_history() {
    let server = furnished();
    let got = server.get("/v1/facts/Account/42");
    assert_eq!(got.header("etag"), Some("\"1\""));
    let fact = got.json();
    assert_eq!(
        keys(&fact),
        ["fact", "version", "value", "written_at", "written_by", "entry", "confirmed_at", "confirmed_by", "atomicity"]
    );
    assert_eq!((&fact["written_by"], &fact["entry"]), (&json!("operator"), &json!(3)));
    for balance in 2..=5 {
        assert_eq!(server.put("/v1/facts/Account/42", &account("active", balance)).json()["version"], balance);
    }
    let deleted = server.send("DELETE", "/v1/facts/Account/42", &["If-Match: \"5\""], b"");
    assert_eq!((deleted.status, &deleted.json()["version"]), (200, &json!(6)));

    let page = server.get("/v1/facts/Account/42/history?limit=4").json();
    let versions = |page: &Value| -> Vec<u64> {
        page["versions"].as_array().unwrap().iter().map(|version| version["version"].as_u64().unwrap()).collect()
    };
    assert_eq!((versions(&page), &page["next_before"]), (vec![6, 5, 4, 3], &json!(3)));
    assert_eq!(page["versions"][0].get("value"), None);
    let rest = server.get("/v1/facts/Account/42/history?limit=4&before=3").json();
    assert_eq!((versions(&rest), rest.get("next_before")), (vec![2, 1], None));
    assert_eq!(rest["versions"][1]["value"]["balance"], 900_000);

    // An id that is not plain text stays one id.
    let odd = "/v1/facts/Account/a%2Fb%22%20%C3%BC";
    assert_eq!(server.put(odd, &account("active", 1)).status, 200);
    assert_eq!(server.get(odd).json()["fact"], "Account::\"a/b\\\" ü\"");
}

#[test]
fn pacts_are_listed_with_their_text_and_problems_have_places() {
    let server = furnished();
    let list = server.get("/v1/pacts").json();
    assert_eq!(list["pacts"][0]["name"], "billing");
    assert_eq!(list["pacts"][0]["actions"], json!(["refund", "trial"]));
    let pact = server.get("/v1/pacts/billing").json();
    assert_eq!(pact["source"], PACT);
    assert!(pact["manifest"].as_str().unwrap().contains("account-is-active"));

    let broken = PACT
        .replace("resource.balance >= context.amount", "resource.blance >= context.amount")
        .replace("version = 1", "version = 2");
    let refused = server.send("POST", "/v1/pacts", &["Content-Type: text/plain; charset=utf-8"], broken.as_bytes());
    assert_error(&refused, 422, "pact_invalid");
    let problem = &refused.json()["error"]["problems"][0];
    let line = broken.lines().position(|line| line.contains("blance")).unwrap() + 1;
    assert_eq!((&problem["severity"], &problem["line"]), (&json!("error"), &json!(line)), "{problem}");
    assert!(problem["column"].as_u64().unwrap() > 1 && problem["hint"].is_string(), "{problem}");
}

#[test]
fn numbers_beyond_what_the_document_allows_are_refused_and_not_cut_down() {
    let server = furnished();
    for beyond in [1_u64 << 53, 1 << 63, u64::MAX] {
        for path in
            ["/v1/ledger/entries/", "/v1/ledger/receipts/", "/v1/ledger/entries?start=", "/v1/ledger/consistency?old="]
        {
            assert_error(&server.get(&format!("{path}{beyond}")), 400, "invalid_path");
        }
        assert_error(&server.get(&format!("/v1/facts/Account/42/history?before={beyond}")), 400, "invalid_path");
    }
    assert_error(&server.get(&format!("/v1/ledger/entries/{}", (1_u64 << 53) - 1)), 404, "beyond_log");
    for (path, most) in [("/v1/ledger/entries", 256), ("/v1/facts/Account/42/history", 100)] {
        assert_eq!(server.get(&format!("{path}?limit={most}")).status, 200);
        for limit in [0, most + 1] {
            assert_error(&server.get(&format!("{path}?limit={limit}")), 400, "invalid_path");
        }
    }
}

#[test]
fn the_ledger_can_be_read_proved_and_erased() {
    let server = furnished();
    let first: Value = server.get("/v1/ledger/entries?start=1&limit=2").json();
    assert_eq!((&first["size"], &first["next"]), (&json!(4), &json!(3)));
    assert_eq!(first["entries"][0]["leaf"]["kind"], "pact");
    assert_eq!(first["entries"][0]["payload"]["source"], PACT);
    let last = server.get("/v1/ledger/entries?start=3").json();
    assert_eq!((last["entries"].as_array().unwrap().len(), last.get("next")), (1, None));
    assert_eq!(server.get("/v1/ledger/entries?start=99").json()["entries"], json!([]));

    let receipt = server.get("/v1/ledger/receipts/2").json();
    Receipt::decode(receipt["receipt"].as_str().unwrap()).unwrap().verify(&server.gate.log_key()).unwrap();
    let acted = server.post("/v1/actions", &refund("a", 1, &[])).json();
    let receipt = Receipt::decode(acted["receipt"].as_str().unwrap()).unwrap();
    receipt.verify(&server.gate.log_key()).unwrap();
    assert_eq!(receipt.index, 4);

    let erase = |body: Value| server.post("/v1/ledger/erasures", &body.to_string());
    // The request of an erasure is kept forever, so it must not name the fact.
    assert_eq!(erase(json!({"fact": "Account::\"42\"", "reason": "asked for"})).status, 400);
    let plan = erase(json!({"fact": "Account::\"42\"", "reason": "asked for", "dry_run": true})).json();
    assert_eq!((&plan["records"], &plan["erased"], &plan["kept"][0]["entry"]), (&json!([]), &json!([3]), &json!(4)));
    assert_eq!(plan["kept"][0]["why"], "it holds the current version of Account::\"42\"");
    let erased = erase(json!({"entries": plan["erased"], "reason": "asked for"})).json();
    assert_eq!((&erased["records"], &erased["erased"]), (&json!([5]), &json!([3])));
    let entry = server.get("/v1/ledger/entries/3").json();
    assert_eq!((&entry["erased"], entry.get("payload")), (&json!(true), None));
    assert_eq!(server.get("/v1/facts/Account/42/history").json()["erased_at_entry"], 3);
}

#[test]
fn outsiders_get_checkpoints_tiles_and_consistency() {
    let server = furnished();
    let old = Checkpoint::open(server.get("/log/checkpoint").text(), &server.gate.log_key()).unwrap();
    for at in 0..300 {
        feed_directly(&server, at);
    }
    let new = server.get("/log/checkpoint");
    assert_eq!(new.header("cache-control"), Some("no-store"));
    let new = Checkpoint::open(new.text(), &server.gate.log_key()).unwrap();
    assert_eq!((old.size, new.size), (4, 304));

    let proof = server.get("/v1/ledger/consistency?old=4").json();
    let hashes: Vec<Hash> =
        proof["proof"].as_array().unwrap().iter().map(|hash| hash_of(hash.as_str().unwrap())).collect();
    verify_consistency(old.size, &old.root, new.size, &new.root, &hashes).unwrap();
    assert_eq!(proof["new"], 304);

    let full = server.get("/log/tile/0/000");
    assert_eq!(full.header("cache-control"), Some("public, max-age=31536000, immutable"));
    let bundle = server.get("/log/tile/entries/000");
    let leaves = decode_bundle(&bundle.body).unwrap();
    let hashes: Vec<Hash> = leaves.iter().map(|leaf| leaf_hash(leaf)).collect();
    assert_eq!((hashes.len(), decode_tile(&full.body).unwrap()), (256, hashes));
    let partial = server.get("/log/tile/0/001.p/48");
    assert_eq!((partial.body.len(), partial.header("cache-control")), (48 * 32, Some("no-store")));
    assert_eq!(server.get("/log/tile/1/000.p/1").body.len(), 32);
}

/// One feed without HTTP, to fill the log.
fn feed_directly(server: &Server, balance: i64) {
    use countersign_core::identity::Auth;
    use countersign_core::ids::AgentId;
    use countersign_core::value::Attributes;
    let value = account("active", balance);
    let value = Attributes::from_untyped_json(value["value"].as_object().unwrap()).unwrap();
    let by = AgentId::new("operator").unwrap();
    let fact = "Account::\"42\"".parse().unwrap();
    let request =
        countersign_engine::request::Request::Feed { by, auth: Auth::None, fact, value: Some(value), if_match: None };
    server.gate.call(request).unwrap();
}

fn hash_of(hex: &str) -> Hash {
    let digest: countersign_core::ids::Digest = hex.parse().unwrap();
    Hash(digest.0)
}

#[test]
fn the_gate_says_how_it_is() {
    let server = furnished();
    assert_eq!(server.get("/healthz").json()["status"], "ok");
    let ready = server.get("/readyz").json();
    assert_eq!((&ready["ready"], &ready["position"]), (&json!(true), &json!(4)));
    server.post("/v1/actions", &refund("a", 1, &[]));
    server.post("/v1/actions", &refund("b", -1, &[]));
    server.post("/v1/actions", "{");
    let text = server.get("/metrics").text().to_owned();
    for expected in [
        "countersign_verdicts_total{verdict=\"committed\"} 1\n",
        "countersign_verdicts_total{verdict=\"rejected\"} 1\n",
        "countersign_http_requests_total{route=\"/v1/actions\",status=\"200\"} 2\n",
        "countersign_http_requests_total{route=\"/v1/actions\",status=\"400\"} 1\n",
        "countersign_http_errors_total{code=\"invalid_json\"} 1\n",
        "countersign_action_seconds_count 2\n",
        "countersign_entries 6\n",
        "countersign_facts 2\n",
        "countersign_queue_length 0\n",
        "countersign_queue_capacity 8192\n",
        "countersign_ready 1\n",
    ] {
        assert!(text.contains(expected), "{expected} is not in {text}");
    }
    assert!(text.lines().all(|line| line.starts_with('#') || line.rsplit_once(' ').unwrap().1.parse::<f64>().is_ok()));
}

#[test]
fn every_documented_operation_is_there_and_the_document_is_the_one_checked_in() {
    let server = Server::start();
    let document = server.get("/openapi.json").json();
    let golden: Value = serde_json::from_str(include_str!("../../../../../openapi.json")).unwrap();
    assert_eq!(document, golden);
    let mut operations = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in keys(item) {
            let real =
                path.replace("{index}", "0").replace("/log/{path}", "/log/tile/0/000.p/1").replace(['{', '}'], "");
            let reply = server.send(&method.to_uppercase(), &real, &[], b"");
            let code = if reply.status < 400 { Value::Null } else { reply.json()["error"]["code"].clone() };
            assert!(code != "not_found" && code != "method_not_allowed", "{method} {path}: {code}");
            operations += 1;
        }
    }
    assert_eq!(operations, countersign_api::routes::ROUTES.len());
}
