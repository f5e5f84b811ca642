//! Batches over HTTP: one signature, one request, an answer for each action.

use super::signed::*;
use super::*;
use crate::http::rate::RateSettings;
use countersign_core::denial::DenialCode;
use countersign_core::identity::BatchDigests;
use countersign_core::ids::Digest;
use countersign_core::record::Kind;
use countersign_signature::{Headers, Signable, sign};

const PATH: &str = "/v1/actions/batch";

fn listed(bodies: &[String]) -> Digest {
    let ids: Vec<Digest> = bodies.iter().map(|body| Digest::of(body.as_bytes())).collect();
    BatchDigests::of_actions(&ids)
}

/// A signature over a batch whose header lists these actions.
fn signature(server: &Server, target: &str, body: &str, listed: Option<Digest>) -> Headers {
    let authority = server.addr.to_string();
    let request = Signable { actions: listed, ..signable("POST", target, &authority, body) };
    sign(&key(AGENT), &request, ORIGIN, now_s(), &nonce()).unwrap()
}

fn send_batch(server: &Server, target: &str, bodies: &[String]) -> Reply {
    // However it is laid out: what is hashed is each action as it was written.
    let body = format!("[ {}\n]", bodies.join(" ,\n"));
    let headers = signature(server, target, &body, Some(listed(bodies)));
    send_with(server, "POST", target, &[JSON], &headers, &body)
}

fn balance(server: &Server) -> i64 {
    let view = server.gate.view();
    let fact = view.whole_state().facts.get(&"Account::\"42\"".parse().unwrap()).unwrap().value.clone();
    fact.unwrap().to_json()["balance"].as_i64().unwrap()
}

fn words(reply: &Reply) -> Vec<String> {
    assert_eq!(reply.status, 200, "{reply:?}");
    let results = reply.json()["results"].as_array().unwrap().clone();
    let word = |result: &Value| {
        let code = result["code"].as_str().or(result["error"]["code"].as_str()).unwrap_or_default();
        format!("{} {code}", result["verdict"].as_str().unwrap_or("error")).trim().to_owned()
    };
    results.iter().map(word).collect()
}

#[test]
fn each_action_of_a_batch_is_answered_as_if_it_had_come_alone() {
    let server = identified();
    let stranger = refund("pact", 1, &[]).replace("billing", "unheard-of");
    let bodies = [
        refund("one", 100, &[]),
        refund("two", 900_001, &[]),
        stranger,
        refund("three", 200_000, &[]),
        refund("one", 100, &[]),
    ];
    let reply = send_batch(&server, PATH, &bodies);
    let expected =
        ["committed", "rejected invalid_params", "error unknown_pact", "review precondition_failed", "committed"];
    assert_eq!(words(&reply), expected);
    assert_eq!(balance(&server), 900_000 - 100);
    let answer = reply.json();
    assert_eq!(
        (&answer["results"][4]["repeated"], &answer["results"][4]["entry"]),
        (&json!(true), &answer["results"][0]["entry"])
    );
    for (result, body) in answer["results"].as_array().unwrap().iter().zip(&bodies) {
        if result["verdict"].is_string() {
            assert_eq!(result["action"], Digest::of(body.as_bytes()).to_string());
            assert!(result["receipt"].as_str().unwrap().starts_with("rct1."));
        }
    }
    // The signature lists all that were sent, in their order, and is in the entry of the batch alone.
    let batch = answer["batch"].as_u64().unwrap();
    let shown = |index: u64| send(&server, ADMIN, "GET", &format!("/v1/ledger/entries/{index}"), &[], "").json();
    let ids: Vec<String> = bodies.iter().map(|body| Digest::of(body.as_bytes()).to_string()).collect();
    assert_eq!(shown(batch)["leaf"]["actions"], json!(ids));
    let first = shown(answer["results"][0]["entry"].as_u64().unwrap());
    assert_eq!((&first["leaf"]["batch"], &first["leaf"]["auth"]), (&json!(batch), &json!("signature")));
    assert!(first["payload"].get("signed").is_none(), "{first}");
    // Sent again, nothing is done.
    let position = server.gate.view().position;
    assert_eq!(words(&send_batch(&server, PATH, &bodies[..1])), ["committed"]);
    assert_eq!((server.gate.view().position, balance(&server)), (position, 900_000 - 100));
}

#[test]
fn a_group_is_answered_as_a_whole_and_says_which_action_failed() {
    let server = identified();
    let target = &format!("{PATH}?atomic=true");
    let good = [refund("a", 1, &[]), refund("b", 2, &[])];
    assert_eq!(words(&send_batch(&server, target, &good)), ["committed", "committed"]);
    let bad = [refund("c", 3, &[]), refund("d", 200_000, &[]), refund("e", 4, &[])];
    let reply = send_batch(&server, target, &bad);
    let expected = ["rejected group_rejected", "rejected precondition_failed", "rejected group_rejected"];
    assert_eq!(words(&reply), expected, "what a person would decide is rejected here");
    let entry = reply.json()["batch"].clone();
    let told = reply.json()["results"].clone();
    assert!(told.as_array().unwrap().iter().all(|result| result["entry"] == entry), "{told}");
    assert_eq!(told[1]["failed"][0]["precondition"], "amount-is-small");
    assert!(told[0]["message"].as_str().unwrap().contains("action 2"), "{told}");
    assert_eq!(balance(&server), 900_000 - 3);
    // Told the same when asked again, in whole, alone, or by its entry.
    assert_eq!(words(&send_batch(&server, target, &bad)), expected);
    let alone = post(&server, AGENT, "/v1/actions", &bad[0]).json();
    assert_eq!((&alone["code"], &alone["entry"], &alone["repeated"]), (&json!("group_rejected"), &entry, &json!(true)));
    let shown = send(&server, AGENT, "GET", &format!("/v1/actions/{entry}"), &[], "").json();
    assert_eq!(shown["code"], "precondition_failed");
    // What was decided otherwise before is no group, although every key is known.
    let singles = [refund("f", 1, &[]), refund("g", 2, &[])];
    assert_eq!(words(&send_batch(&server, PATH, &singles)), ["committed", "committed"]);
    assert_error(&send_batch(&server, target, &singles), 409, "group_repeats");
    assert_error(&send_batch(&server, target, &bad[..2]), 409, "group_repeats");
    assert_error(&send_batch(&server, target, &good[..1]), 409, "group_repeats");
    assert_eq!(balance(&server), 900_000 - 6);
}

#[test]
fn attack_a_batch_altered_on_its_way_is_refused_and_leaves_nothing() {
    let server = identified();
    let bodies = [refund("a", 1, &[]), refund("b", 2, &[])];
    let body = format!("[{}]", bodies.join(","));
    let reordered = format!("[{},{}]", bodies[1], bodies[0]);
    let (position, target) = (server.gate.view().position, format!("{PATH}?atomic=true"));
    let refused = |target: &str, headers: &Headers, body: &str, status: u16, code: &str| {
        assert_error(&send_with(&server, "POST", target, &[JSON], headers, body), status, code);
        assert_eq!((server.gate.view().position, balance(&server)), (position, 900_000), "{code}");
    };
    let good = || signature(&server, PATH, &body, Some(listed(&bodies)));
    refused(PATH, &good(), &reordered, 401, "digest_mismatch");
    refused(PATH, &good(), &format!("[{}]", bodies[0]), 401, "digest_mismatch");
    // Whoever holds the key signs a header that says something else than the body.
    let swapped = [bodies[1].clone(), bodies[0].clone()];
    for other in [&swapped[..], &bodies[..1]] {
        refused(PATH, &signature(&server, PATH, &body, Some(listed(other))), &body, 400, "actions_mismatch");
    }
    refused(PATH, &signature(&server, PATH, &body, None), &body, 401, "signature_incomplete");
    refused(PATH, &Headers { actions: None, ..good() }, &body, 401, "signature_incomplete");
    refused(
        PATH,
        &Headers { actions: good().actions, ..signature(&server, PATH, &body, None) },
        &body,
        401,
        "signature_incomplete",
    );
    let other = signature(&server, PATH, &body, Some(listed(&swapped))).actions;
    refused(PATH, &Headers { actions: other, ..good() }, &body, 401, "signature_invalid");
    // Whether all must commit or none is signed as well.
    refused(&target, &good(), &body, 401, "signature_incomplete");
    let atomic = signature(&server, &target, &body, Some(listed(&bodies)));
    refused(&format!("{PATH}?atomic=false"), &atomic, &body, 401, "signature_invalid");
    // The field means nothing anywhere else.
    let single = signature(&server, "/v1/actions", &bodies[0], Some(listed(&bodies[..1])));
    refused("/v1/actions", &single, &bodies[0], 401, "signature_malformed");
    let once = good();
    assert_eq!(words(&send_with(&server, "POST", PATH, &[JSON], &once, &body)), ["committed", "committed"]);
    assert_error(&send_with(&server, "POST", PATH, &[JSON], &once, &body), 401, "signature_replayed");
    assert_eq!(balance(&server), 900_000 - 3);
}

#[test]
fn a_batch_costs_as_much_as_its_actions_and_is_denied_as_many_times() {
    let server = identified_at(RateSettings { per_key: 4, ..RateSettings::default() });
    let bodies: Vec<String> = (0..8).map(|number| refund(&format!("k{number}"), 1, &[])).collect();
    let position = server.gate.view().position;
    assert_error(&send_batch(&server, PATH, &bodies), 429, "rate_limited");
    let denied = server.gate.denials().totals().find(|(code, _)| *code == DenialCode::RateLimited).unwrap();
    assert_eq!((denied.1, balance(&server)), (8, 900_000));
    for index in position..server.gate.view().position {
        let kind = server.gate.read_log(index).unwrap().decode().unwrap().event.kind();
        assert_eq!(kind, Kind::Denials, "nothing of it was decided");
    }
}

#[test]
fn an_open_gate_takes_batches_too() {
    let server = furnished();
    let bodies = [refund("a", 1, &[]), refund("b", 2, &[])];
    let reply =
        server.send("POST", PATH, &[JSON, "Countersign-Agent: refund-1"], format!("[{}]", bodies.join(",")).as_bytes());
    assert_eq!(words(&reply), ["committed", "committed"]);
    assert_eq!(balance(&server), 900_000 - 3);
}

#[test]
fn attack_a_batch_of_too_many_is_not_even_counted_and_one_without_keys_leaves_no_id() {
    let server = identified();
    let position = server.gate.view().position;
    let refused = |body: &str, listed: Option<Digest>| {
        let headers = signature(&server, PATH, body, listed);
        let reply = send_with(&server, "POST", PATH, &[JSON], &headers, body);
        (reply.status, reply.json()["error"]["code"].as_str().unwrap().to_owned())
    };
    let many = format!("[{}0]", "0,".repeat(200_000));
    assert_eq!(refused(&many, Some(Digest::of(b"any"))), (400, "batch_size".to_owned()));
    assert_eq!(refused("[1", Some(Digest::of(b"any"))), (400, "invalid_json".to_owned()));
    assert_eq!(
        server.gate.denials().totals().map(|(_, count)| count).sum::<u64>(),
        0,
        "nothing of it was counted as so many requests"
    );
    // The id of a body without a random key could be guessed, and a leaf keeps it for ever.
    let bodies =
        [refund("one", 1, &[]), r#"{"pact":"billing","action":"refund","params":{"account":"jane"}}"#.to_owned()];
    let reply = send_batch(&server, PATH, &bodies);
    assert_eq!((reply.status, &reply.json()["error"]["code"]), (400, &json!("invalid_field")), "{reply:?}");
    assert!(reply.json()["error"]["message"].as_str().unwrap().starts_with("action 2: "), "{reply:?}");
    assert_eq!((server.gate.view().position, balance(&server)), (position, 900_000));
}

#[test]
fn attack_a_request_is_spelled_so_that_an_audit_reads_it_otherwise() {
    let server = identified();
    let position = server.gate.view().position;
    for query in ["atomic=%74rue", "%61tomic=true", "atomic=true&wait_ms=%30"] {
        let reply = send_batch(&server, &format!("{PATH}?{query}"), &[refund("a", 1, &[]), refund("b", 2, &[])]);
        let is_plain = query.starts_with("atomic=true");
        assert_eq!(reply.status, if is_plain { 200 } else { 400 }, "{query}: {reply:?}");
        if !is_plain {
            assert_eq!(reply.json()["error"]["code"], "invalid_path", "{query}");
            assert_eq!((server.gate.view().position, balance(&server)), (position, 900_000), "{query}");
        }
    }
    for path in ["/v1/claims/%63lm_5/extend", "/v1/claims/clm%5F5/withdraw", "/v1/reviews/rev%5F5/refuse"] {
        let reply = send(&server, AGENT, "POST", path, &[JSON], r#"{"for_ms": 1000}"#);
        assert_eq!((reply.status, &reply.json()["error"]["code"]), (400, &json!("invalid_path")), "{path}: {reply:?}");
    }
}
