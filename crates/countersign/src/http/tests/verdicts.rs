//! Verdicts on the wire: their shape, and that a retry is told the same.

use super::*;

/// What an answer says apart from the evidence, which is under a later checkpoint when it is repeated.
fn said(reply: &Reply) -> Value {
    assert_eq!(reply.status, 200, "{reply:?}");
    let mut said = reply.json();
    let object = said.as_object_mut().unwrap();
    assert!(object["receipt"].as_str().unwrap().starts_with("rct1."));
    object.remove("receipt");
    said
}

#[test]
fn observe_act_and_be_told_what_changed() {
    let server = furnished();
    let observed = observe(&server);
    assert_eq!(keys(&observed), ["observation", "observed_at", "position", "facts"]);
    assert_eq!(observed["position"], 4);
    let fact = &observed["facts"][0];
    assert_eq!(keys(fact), ["fact", "version", "value", "written_at", "atomicity"]);
    assert_eq!(fact["value"], json!({"balance": 900_000, "status": "active"}));
    let token = observed["observation"].as_str().unwrap();

    let body = refund("a", 80_000, &[token]);
    let committed = said(&server.post("/v1/actions", &body));
    let hash = countersign_core::ids::Digest::of(PACT.as_bytes()).to_string();
    let id = countersign_core::ids::Digest::of(body.as_bytes()).to_string();
    assert_eq!(
        committed,
        json!({
            "verdict": "committed", "entry": 4, "action": id, "pact": {"name": "billing", "version": 1, "hash": hash},
            "wrote": [{"fact": "Account::\"42\"", "version": 2}], "gap_ms": committed["gap_ms"], "atomicity": "atomic",
        })
    );
    assert!(committed["gap_ms"].is_u64());

    let frozen = server.send(
        "PUT",
        "/v1/facts/Account/42",
        &["Content-Type: application/json", "Countersign-Agent: fraud-1", "If-Match: \"2\""],
        account("frozen", 820_000).to_string().as_bytes(),
    );
    assert_eq!(frozen.header("etag"), Some("\"3\""), "{frozen:?}");

    let rejected = said(&server.post("/v1/actions", &refund("b", 80_000, &[token])));
    assert_eq!(rejected["verdict"], "rejected");
    assert_eq!(rejected["code"], "precondition_failed");
    assert_eq!(rejected.get("wrote"), None);
    let failed = &rejected["failed"][0];
    assert_eq!(rejected["failed"].as_array().unwrap().len(), 1);
    assert_eq!(keys(failed), ["precondition", "that", "why", "reads", "gap_ms", "hint"]);
    assert_eq!(failed["precondition"], "account-is-active");
    assert_eq!(failed["that"], "resource.status == \"active\"");
    assert_eq!(failed["why"], "false");
    assert_eq!(
        failed["reads"][0],
        json!({
            "attribute": "Account::\"42\".status", "observed": true, "expected": "active", "actual": "frozen",
            "observed_version": 1, "version": 3, "changed_by": "fraud-1", "changed_at": failed["reads"][0]["changed_at"], "entry": 5,
        })
    );

    // Without an observation there is nothing that was expected, and the answer says so.
    let blind = said(&server.post("/v1/actions", &refund("c", 80_000, &[])));
    let read = &blind["failed"][0]["reads"][0];
    assert_eq!((read.get("expected"), &read["observed"]), (None, &json!(false)));
    assert_eq!(blind.get("gap_ms"), None);
}

#[test]
fn a_retry_is_told_the_same() {
    let server = furnished();
    let observed = observe(&server);
    let token = observed["observation"].as_str().unwrap();
    let bodies = [
        ("committed", refund("a", 10, &[token])),
        ("review", refund("b", 200_000, &[token])),
        ("rejected", refund("c", 10, &[token])),
        ("committed", action("d", "trial", &json!({"account": "42"}), &[])),
        ("rejected", refund("f", -1, &[token])),
    ];
    let mut first = Vec::new();
    for (at, (verdict, body)) in bodies.iter().enumerate() {
        if at == 2 {
            server.put("/v1/facts/Account/42", &account("frozen", 5));
        }
        let told = said(&server.post("/v1/actions", body));
        assert_eq!(&told["verdict"], verdict, "{told}");
        first.push(told);
    }
    assert!(first[1]["review"].as_str().unwrap().starts_with("rev_") && first[1]["expires_at"].is_u64());
    assert_eq!(first[2]["failed"].as_array().unwrap().len(), 2, "{}", first[2]);
    assert_eq!(first[3]["shadowed"]["code"], "precondition_failed");
    let position = server.gate.view().position;
    for ((_, body), first) in bodies.iter().zip(&first) {
        let mut again = said(&server.post("/v1/actions", body));
        assert_eq!(again.as_object_mut().unwrap().remove("repeated"), Some(json!(true)));
        assert_eq!(&again, first);
        // And so is an agent that asks for the entry, in shadow mode too.
        let agent = ["Countersign-Agent: refund-1"];
        let mut shown = said(&server.send("GET", &format!("/v1/actions/{}", first["entry"]), &agent, b""));
        assert_eq!(shown.as_object_mut().unwrap().remove("repeated"), Some(json!(true)));
        assert_eq!(&shown, first);
    }
    assert_eq!(server.gate.view().position, position);
}

#[test]
fn a_check_says_the_same_and_writes_nothing() {
    let server = furnished();
    let body = refund("a", 10, &[]);
    let position = server.gate.view().position;
    let checked = server.post("/v1/actions/check", &body).json();
    assert_eq!(keys(&checked), ["verdict", "action", "pact", "wrote", "checked"]);
    assert_eq!(checked["verdict"], "committed");
    assert_eq!(server.gate.view().position, position);
    let acted = server.post("/v1/actions", &body).json();
    assert_eq!((&acted["verdict"], &acted["wrote"]), (&checked["verdict"], &checked["wrote"]));
    assert_eq!(acted.get("repeated"), None);
}

#[test]
fn reasons_that_were_erased_are_not_made_up() {
    let server = furnished();
    let body = refund("a", 10, &[]);
    let entry = server.post("/v1/actions", &body).json()["entry"].as_u64().unwrap();
    server.put("/v1/facts/Account/42", &account("active", 1));
    let erase = json!({"entries": [entry], "reason": "asked for"}).to_string();
    assert_eq!(server.post("/v1/ledger/erasures", &erase).status, 200);
    let again = said(&server.post("/v1/actions", &body));
    assert_eq!((&again["verdict"], &again["erased"], again.get("wrote")), (&json!("committed"), &json!(true), None));
}

#[test]
fn every_rejection_says_the_same_in_its_answer_and_in_its_entry() {
    let server = furnished();
    let observed = observe(&server);
    let token = observed["observation"].as_str().unwrap();
    let frozen = account("frozen", 820_000).to_string();
    let headers = ["Content-Type: application/json", "Countersign-Agent: fraud-1"];
    assert_eq!(server.send("PUT", "/v1/facts/Account/42", &headers, frozen.as_bytes()).status, 200);
    let rejected = [
        ("invalid_params", refund("b", 80_000, &[token]).replace("80000", "\"all\"")),
        ("fact_missing", refund("c", 80_000, &[token]).replace("\"42\"", "\"43\"")),
        ("precondition_failed", refund("d", 80_000, &[token])),
        ("precondition_failed", refund("e", 80_000, &[])),
    ];
    for (code, body) in rejected {
        let answer = said(&server.post("/v1/actions", &body));
        assert_eq!((&answer["verdict"], &answer["code"]), (&json!("rejected"), &json!(code)), "{answer}");
        let entry = server.get(&format!("/v1/ledger/entries/{}", answer["entry"])).json();
        let blocked = entry["payload"]["decision"]["blocked"].as_object().unwrap();
        // The action, by its id and its own words.
        assert_eq!((&entry["leaf"]["action"], &entry["payload"]["body"]), (&answer["action"], &json!(body)));
        // The gap, which is left out of both where nothing was observed of what was read.
        let decided = entry["payload"]["decision"].as_object().unwrap();
        assert_eq!(answer.get("gap_ms"), decided.get("gap_ms"), "{code}");
        // The preconditions: none where the reason is another, and otherwise each with what was expected and found.
        let none = Vec::new();
        let told = answer.get("failed").and_then(Value::as_array).unwrap_or(&none);
        let kept = blocked.get("failed").and_then(Value::as_array).unwrap_or(&none);
        assert_eq!((told.len(), kept.is_empty()), (kept.len(), code != "precondition_failed"), "{code}");
        for (told, kept) in told.iter().zip(kept) {
            assert_eq!(told["precondition"], kept["precondition"]);
            assert_eq!(told.get("gap_ms"), kept.get("gap_ms"), "{code}");
            for (told, kept) in told["reads"].as_array().unwrap().iter().zip(kept["reads"].as_array().unwrap()) {
                let expected = kept.get("expected");
                assert_eq!(told.get("expected"), expected.and_then(|expected| expected.get("value")), "{code}");
                assert_eq!(told.get("actual"), kept.get("actual"), "{code}");
                assert_eq!(told["observed"], json!(expected.is_some()));
            }
        }
    }
}

/// A write that is guarded by what its agent read.
const GUARDED: &str = r#"
pact = "notes"
version = 1

[facts.Note]
attributes = { open = "Bool" }

[action.move]
guard = "as-read"
resource = 'Note::"{note}"'
allow = 'true'
call = { mcp = "shop", tool = "move" }

[[action.move.require]]
id = "note-is-open"
that = 'resource.open'

[action.move.params]
type = "object"
additionalProperties = false
required = ["note"]
properties.note = { type = "string", maxLength = 64 }
"#;

#[test]
fn a_retry_of_a_guarded_write_that_was_rejected_says_what_it_rested_on() {
    let server = furnished();
    let published = server.send("POST", "/v1/pacts", &["Content-Type: application/toml"], GUARDED.as_bytes());
    assert_eq!(published.status, 200, "{published:?}");
    assert_eq!(server.put("/v1/facts/Note/7", &json!({"value": {"open": false}})).status, 200);
    let session = server.post("/v1/sessions", "{}").json()["session"].clone();
    let body = json!({
        "pact": "notes", "action": "move", "idempotency_key": format!("{:x<22}", "a"), "params": {"note": "7"}, "session": session,
    });
    let first = server.post("/v1/actions", &body.to_string()).json();
    assert_eq!(
        (&first["code"], &first["readings"]["rested_on"]),
        (&json!("precondition_failed"), &json!(0)),
        "{first}"
    );
    let again = server.post("/v1/actions", &body.to_string()).json();
    assert_eq!((&again["repeated"], &again["readings"]), (&json!(true), &first["readings"]), "{again}");
}
