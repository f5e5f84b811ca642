//! The OpenAPI document is checked in: a change of the contract shows in the diff of `openapi.json`.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that panics has failed, which is what it is for"
)]

use countersign_api::routes::{ROUTES, Route};
use countersign_api::{ErrorCode, openapi};
use std::path::Path;

#[test]
fn the_document_is_the_one_checked_in() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../openapi.json");
    let now = openapi().to_pretty_json().unwrap() + "\n";
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert!(golden == now, "openapi.json is out of date; run the tests with UPDATE_GOLDEN=1 and look at the diff");
}

#[test]
fn it_is_openapi_3_1_and_every_reference_leads_somewhere() {
    let document = serde_json::to_value(openapi()).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    let text = document.to_string();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let references: Vec<&str> =
        text.split("\"#/components/schemas/").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(references.len() > 20);
    for name in references {
        assert!(schemas.contains_key(name), "{name}");
    }
    let codes = schemas["ErrorCode"]["oneOf"].as_array().or(schemas["ErrorCode"]["enum"].as_array()).unwrap();
    assert_eq!(codes.len(), ErrorCode::ALL.len());
}

#[test]
fn every_operation_lists_its_errors_and_every_error_is_some_operations() {
    let document = serde_json::to_value(openapi()).unwrap();
    let mut documented: Vec<(String, String)> = Vec::new();
    let mut listed = std::collections::BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            documented.push((method.clone(), path.clone()));
            for (status, response) in operation["responses"].as_object().unwrap() {
                assert!(!status.contains('X'), "{method} {path}: {status} says too little");
                let Some(reference) = response["$ref"].as_str() else { continue };
                let response = document.pointer(reference.strip_prefix('#').unwrap()).unwrap();
                let schema = &response["content"]["application/json"]["schema"]["allOf"][1];
                for code in schema["properties"]["error"]["properties"]["code"]["enum"].as_array().unwrap() {
                    listed.insert(code.as_str().unwrap().to_owned());
                }
            }
        }
    }
    let row = |route: &Route| (route.method.as_str().to_lowercase(), route.path.replace("{*", "{"));
    let mut rows: Vec<(String, String)> = ROUTES.iter().map(row).collect();
    rows.sort();
    documented.sort();
    assert_eq!(rows, documented, "each row is one operation of the document, and no two rows are the same");
    // An operation that does not exist has no row.
    let elsewhere = [ErrorCode::MethodNotAllowed];
    for code in ErrorCode::ALL.iter().filter(|code| !elsewhere.contains(code)) {
        assert!(listed.contains(code.as_str()), "no operation lists {}", code.as_str());
    }
}

#[test]
fn every_row_says_what_varies_in_its_path_and_what_it_answers() {
    for route in ROUTES {
        let params = route.params();
        for name in route.placeholders() {
            assert!(params.iter().any(|param| param.name == name), "{}: {name} is not described", route.path);
        }
        assert!(!route.answers.is_empty(), "{} {}", route.method.as_str(), route.path);
    }
}
