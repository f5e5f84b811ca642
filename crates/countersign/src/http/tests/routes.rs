//! The table of routes against the gate that is built from it: what a row lists is what callers meet, and nothing else.

use super::*;
use countersign_api::ErrorCode;
use countersign_api::routes::{Body, Callers, Named, Operation, ROUTES, Route};
use std::collections::BTreeSet;

/// A body that the operation reads to its end.
fn well_formed(operation: Operation) -> String {
    let body = match operation {
        Operation::Act | Operation::Check => return refund("routes", 1, &[]),
        Operation::ActMany => return format!("[{}]", refund("routes-batch", 1, &[])),
        Operation::PublishPact | Operation::CheckPact => return PACT.to_owned(),
        Operation::Observe => json!({"facts": ["Account::\"42\""]}),
        Operation::PutFact => account("active", 1),
        Operation::ConfirmFact => json!({"version": 1}),
        Operation::Erase => json!({"entries": [1], "reason": "x"}),
        Operation::Approve => json!({"shown": "shw1.AAAA"}),
        Operation::Claim => json!({"facts": ["Account::\"42\""], "for_ms": 1, "reason": "x"}),
        Operation::Acknowledge => json!({"messages": ["msg_1"]}),
        Operation::ExtendClaim => json!({"for_ms": 1}),
        Operation::Read => json!({"upstream": "bank", "tool": "get_account", "arguments": {}}),
        Operation::ResolveEffect => json!({"outcome": "settled", "reason": "x"}),
        Operation::Halt | Operation::Resume => json!({"scope": "agent:none", "reason": "x"}),
        Operation::Refuse | Operation::RotateLogKey => json!({"reason": "x"}),
        _ => json!({}),
    };
    body.to_string()
}

fn target(route: &Route) -> String {
    let real = [
        ("entry", "0"),
        ("index", "0"),
        ("type", "Account"),
        ("id", "none"),
        ("name", "billing"),
        ("review", "rev_1"),
        ("claim", "clm_1"),
        ("effect", "eff_1"),
        ("session", "ses_1"),
        ("*path", "tile/0/000.p/1"),
    ];
    real.iter().fold(route.path.to_owned(), |path, (name, real)| path.replace(&format!("{{{name}}}"), real))
}

/// Whether an answer is one that the row lists, and which error it is.
fn listed(route: &Route, what: &str, reply: &Reply) -> Option<ErrorCode> {
    let at = format!("{} {}, {what}: {reply:?}", route.method.as_str(), route.path);
    if reply.status < 400 {
        assert!(route.answers.iter().any(|answer| answer.status == reply.status), "{at}");
        return None;
    }
    let code = reply.json()["error"]["code"].clone();
    let found = route.errors().into_iter().find(|listed| code == listed.as_str());
    assert!(found.is_some(), "not listed: {at}");
    assert_eq!(found.map(ErrorCode::status), Some(reply.status), "{at}");
    found
}

/// What a request must be refused with, its target, headers and body.
type Fault = (Option<ErrorCode>, String, Vec<&'static str>, Vec<u8>);

/// Everything that can be wrong with a request to an operation whatever it does, and what it must be refused with; `None` for the
/// request as it should be, and for what an operation is free to ignore.
fn faults(route: &Route) -> Vec<Fault> {
    use ErrorCode as Code;
    let (path, body) = (target(route), well_formed(route.operation).into_bytes());
    let content_type = match route.body {
        Body::None => None,
        Body::Json { .. } => Some("Content-Type: application/json"),
        Body::Toml { .. } => Some("Content-Type: application/toml"),
    };
    let agent = "Countersign-Agent: refund-1";
    let usual: Vec<&str> = [agent].into_iter().chain(content_type).collect();
    let and = |more: &'static str| [usual.clone(), vec![more]].concat();
    let if_named = |code: Code| route.names.map(|_| code);
    let unnamed = (route.names == Some(Named::Agent)).then_some(Code::AgentMissing);
    let mut faults = vec![
        (None, path.clone(), usual.clone(), body.clone()),
        (None, path.clone(), and("Accept: text/html"), body.clone()),
        (Some(Code::WrongHost), path.clone(), and("Host: evil.example"), body.clone()),
        (Some(Code::CrossOrigin), path.clone(), and("Origin: http://evil.example"), body.clone()),
        (if_named(Code::AgentInvalid), path.clone(), and(agent), body.clone()),
        (unnamed, path.clone(), content_type.into_iter().collect(), body.clone()),
    ];
    if route.params().iter().any(|param| param.name == "If-Match") {
        faults.push((Some(Code::InvalidHeader), path.clone(), and("If-Match: *"), body.clone()));
    }
    if let Some(name) = route.placeholders().find(|name| *name != "path") {
        let bad = route.path.replace(&format!("{{{name}}}"), "%FF").replace(['{', '}'], "");
        faults.push((Some(Code::InvalidPath), bad, usual.clone(), body.clone()));
    }
    let has_query = route.params().iter().any(|param| param.place == countersign_api::routes::Place::Query);
    if has_query || !matches!(route.callers, Callers::Anyone | Callers::Metrics) {
        faults.push((Some(Code::InvalidPath), format!("{path}?nonsense=1"), usual.clone(), body.clone()));
    }
    if content_type.is_some() {
        let most = route.body.bytes_max();
        let long = [body.clone(), vec![b' '; most + 1 - body.len()]].concat();
        let octets = vec![agent, "Content-Type: application/octet-stream"];
        faults.push((Some(Code::BodyTooLarge), path.clone(), usual.clone(), long));
        faults.push((Some(Code::InvalidUtf8), path.clone(), usual.clone(), b"\xff".to_vec()));
        faults.push((Some(Code::UnsupportedMediaType), path.clone(), octets, body.clone()));
    }
    if route.operation == Operation::ActMany {
        // A list: what is wrong with one action of a group is wrong with all of it.
        let path = format!("{path}?atomic=true");
        for (code, body) in [
            (
                Code::UnknownField,
                r#"[{"nonsense":1,"pact":"billing","action":"refund","idempotency_key":"0000000000000000000000"}]"#,
            ),
            (Code::InvalidJson, "{}"),
            (Code::InvalidField, "[{}]"),
        ] {
            faults.push((Some(code), path.clone(), usual.clone(), body.as_bytes().to_vec()));
        }
    } else if let Body::Json { shape, .. } = route.body {
        let more = String::from_utf8(body).unwrap().replacen('{', "{\"nonsense\":1,", 1).replace(",}", "}");
        faults.push((Some(Code::UnknownField), path.clone(), usual.clone(), more.into_bytes()));
        faults.push((Some(Code::InvalidJson), path.clone(), usual.clone(), b"[]".to_vec()));
        if shape.is_some() {
            // Of a session nothing has to be said.
            let lacking = if route.operation == Operation::OpenSession { r#"{"follows":1}"# } else { "{}" };
            faults.push((Some(Code::InvalidField), path, usual, lacking.as_bytes().to_vec()));
        }
    }
    faults
}

#[test]
fn every_operation_of_an_open_gate_refuses_with_what_its_row_lists_and_lists_nothing_more_of_the_kind() {
    let server = furnished();
    for route in ROUTES {
        let mut expected = BTreeSet::new();
        for (code, path, headers, body) in faults(route) {
            let reply = server.send(route.method.as_str(), &path, &headers, &body);
            let found = listed(route, &format!("{path} {headers:?} to be {code:?}"), &reply);
            if let Some(code) = code {
                assert_eq!(found, Some(code), "{} {path} {headers:?}: {reply:?}", route.method.as_str());
                expected.insert(code);
            }
        }
        // What follows from the shape of a request alone is listed only where it can happen.
        use ErrorCode as Code;
        let of_shape = [
            Code::AgentMissing,
            Code::AgentInvalid,
            Code::InvalidHeader,
            Code::InvalidPath,
            Code::UnsupportedMediaType,
            Code::UnknownField,
            Code::InvalidJson,
            Code::InvalidField,
        ];
        for code in route.errors().iter().filter(|code| of_shape.contains(code)) {
            assert!(expected.contains(code), "{} {} lists {code:?}", route.method.as_str(), route.path);
        }
    }
}

#[test]
fn a_stranger_cannot_make_an_identified_gate_hold_more_than_the_operation_takes() {
    let server = signed::identified();
    for route in ROUTES {
        let reply = server.send(route.method.as_str(), &target(route), &[], &vec![b' '; route.body.bytes_max() + 1]);
        let found = listed(route, "a long body", &reply);
        // Who has not signed is refused before the body is read.
        let is_signed = !matches!(route.callers, Callers::Anyone | Callers::Metrics);
        assert_eq!(found == Some(ErrorCode::SignatureMissing), is_signed, "{} {reply:?}", route.path);
        let unsigned = listed(route, "no signature", &server.send(route.method.as_str(), &target(route), &[], b""));
        assert_eq!(unsigned == Some(ErrorCode::SignatureMissing), is_signed, "{}", route.path);
    }
}
