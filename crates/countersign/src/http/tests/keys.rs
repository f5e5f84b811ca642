//! The gate's own keys, replaced by an admin who signs.

use super::signed::*;
use super::*;
use countersign_ledger::receipt::Receipt;

const ROTATE: &str = "/v1/keys/log/rotate";

#[test]
fn an_admin_replaces_the_log_key_with_a_signed_request_and_nobody_else_does() {
    let server = identified();
    let before = server.gate.log_key().clone();
    let reason = json!({"reason": "it is time"}).to_string();
    assert_error(&server.send("POST", ROTATE, &[JSON], reason.as_bytes()), 401, "signature_missing");
    assert_error(&post(&server, AGENT, ROTATE, &reason), 403, "not_authorised");
    assert_error(&post(&server, ADMIN, ROTATE, &json!({"reason": " "}).to_string()), 400, "invalid_field");
    assert_eq!(server.gate.log_key().to_string(), before.to_string());

    let rotated = post(&server, ADMIN, ROTATE, &reason);
    assert_eq!(rotated.status, 200, "{rotated:?}");
    let rotated = rotated.json();
    let after = server.gate.log_key().clone();
    assert_ne!(after.to_string(), before.to_string());
    assert_eq!(rotated["log_key"], after.to_string());
    // Both keys sign the entry's checkpoint, so anyone who holds either can check its receipt.
    let receipt = Receipt::decode(rotated["receipt"].as_str().unwrap()).unwrap();
    assert!(receipt.verify(&before).is_ok() && receipt.verify(&after).is_ok());
    let entry = send(&server, ADMIN, "GET", &format!("/v1/ledger/entries/{}", rotated["entry"]), &[], "").json();
    let leaf = &entry["leaf"];
    assert_eq!((&leaf["kind"], &leaf["by"], &leaf["auth"]), (&json!("rotation"), &json!("admin"), &json!("signature")));
    assert_eq!(entry["payload"]["signed"]["key"], name(ADMIN).as_str());
    // What comes after it is the new key's alone.
    let next = post(&server, AGENT, "/v1/actions", &refund("next", 1, &[])).json();
    let receipt = Receipt::decode(next["receipt"].as_str().unwrap()).unwrap();
    assert!(receipt.verify(&after).is_ok() && receipt.verify(&before).is_err());
    // A signature does not replace the key twice.
    let headers = sign_once(&server, &reason);
    assert_eq!(send_with(&server, "POST", ROTATE, &[JSON], &headers, &reason).status, 200);
    assert_error(&send_with(&server, "POST", ROTATE, &[JSON], &headers, &reason), 401, "signature_replayed");
}

fn sign_once(server: &Server, body: &str) -> countersign_signature::Headers {
    let authority = server.addr.to_string();
    let request = signable("POST", ROTATE, &authority, body);
    countersign_signature::sign(&key(ADMIN), &request, ORIGIN, now_s(), &nonce()).unwrap()
}
