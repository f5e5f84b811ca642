//! Facts that live in an HTTP service.

use super::http::{adapter_to, post};
use super::service::{Service, answer};
use super::{Told, account, attempt, call, found};
use countersign_core::call::{Call, ExternalHow, ExternalRead};
use countersign_core::value::Value;
use countersign_engine::outbox::Adapter as _;
use std::io::Write as _;

/// A service with one account: GET gives it, POST is answered with a status.
fn service(account: &'static str, status: u16) -> Service {
    Service::new(move |request, stream| {
        let said = if request.starts_with("GET ") { account.to_owned() } else { answer(status, "{}") };
        drop(stream.write_all(said.as_bytes()));
    })
}

fn read_of(path: &str) -> ExternalRead {
    ExternalRead {
        fact: "Account::\"42\"".parse().unwrap(),
        adapter: "payments".into(),
        how: ExternalHow::Path(path.into()),
    }
}

fn reading(path: &str) -> Call {
    let read = read_of(path);
    Call { outside: vec![read], send: None, ..call(post("/unused"), 2_000) }
}

const ACCOUNT: &str =
    "HTTP/1.1 200 OK\r\netag: \"v7\"\r\ncontent-length: 31\r\n\r\n{\"balance\":9,\"status\":\"active\"}";

#[test]
fn what_is_read_is_judged_and_the_call_is_bound_to_it() {
    let service = service(ACCOUNT, 200);
    let judge = Told::judging(post("/accounts/42/payouts"));
    assert_eq!(found(attempt(&adapter_to(&service, ""), &reading("/accounts/42"), &judge)).0, "done");
    let shown = judge.shown.borrow();
    let value = shown[0].value.as_ref().unwrap();
    assert_eq!(
        (value.get("balance"), value.get("status")),
        (Some(&Value::Long(9)), Some(&Value::String("active".into())))
    );
    let requests = service.requests();
    assert!(requests[0].starts_with("GET /v1/accounts/42 "));
    assert!(requests[1].starts_with("POST /v1/accounts/42/payouts "));
    assert!(requests[1].to_lowercase().contains("\r\nif-match: \"v7\"\r\n"), "{}", requests[1]);
}

#[test]
fn what_changed_after_it_was_read_is_refused_by_the_service() {
    let service = service(ACCOUNT, 412);
    let judge = Told::judging(post("/accounts/42"));
    let (found, evidence) = found(attempt(&adapter_to(&service, ""), &reading("/accounts/42"), &judge));
    assert_eq!((found, evidence.status), ("refused", Some(412)));
    assert!(evidence.words().contains("has changed since"), "{}", evidence.words());
}

#[test]
fn without_a_strong_etag_nothing_is_sent() {
    for etag in ["", "etag: W/\"v7\"\r\n", "etag: v7\r\n", "etag: \"v7\"\r\netag: \"v8\"\r\n"] {
        let account = format!("HTTP/1.1 200 OK\r\n{etag}content-length: 13\r\n\r\n{{\"balance\":1}}");
        let service = service(Box::leak(account.into_boxed_str()), 200);
        let judge = Told::judging(post("/accounts/42"));
        let (found, evidence) = found(attempt(&adapter_to(&service, ""), &reading("/accounts/42"), &judge));
        assert_eq!(found, "refused", "{etag}");
        assert!(evidence.words().contains("Account::\"42\" came without a strong ETag"), "{}", evidence.words());
        assert_eq!(service.requests().len(), 1, "only the read was sent");
    }
}

#[test]
fn a_call_that_goes_to_none_of_several_facts_is_bound_to_nothing_and_not_sent() {
    let service = service(ACCOUNT, 200);
    let two = Call { outside: vec![read_of("/accounts/42"), read_of("/accounts/43")], ..reading("/accounts/42") };
    let judge = Told::judging(post("/transfers"));
    let (elsewhere, evidence) = found(attempt(&adapter_to(&service, ""), &two, &judge));
    assert_eq!(elsewhere, "refused");
    assert!(evidence.words().contains("none of them at /transfers"), "{}", evidence.words());
    assert_eq!(service.requests().len(), 2, "only reads were sent");
    let judge = Told::judging(post("/accounts/43"));
    assert_eq!(found(attempt(&adapter_to(&service, ""), &two, &judge)).0, "done");
}

#[test]
fn what_no_longer_holds_is_blocked_and_nothing_is_sent() {
    let service = service(ACCOUNT, 200);
    let (found, evidence) = found(attempt(&adapter_to(&service, ""), &reading("/accounts/42"), &Told::free()));
    assert!(found == "blocked" && evidence.words().contains("no longer holds"), "{}", evidence.words());
    assert_eq!(service.requests().len(), 1);
}

#[test]
fn a_fact_that_is_not_there_is_shown_as_absent() {
    let service = service("HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n", 200);
    let judge = Told::judging(post("/accounts/42"));
    assert_eq!(found(attempt(&adapter_to(&service, ""), &reading("/accounts/42"), &judge)).0, "done");
    assert_eq!(judge.shown.borrow()[0].value, None);
    // And it must still not be there.
    assert!(service.requests()[1].to_lowercase().contains("\r\nif-none-match: *\r\n"));
}

#[test]
fn what_gives_no_answer_is_not_sent_and_an_answer_that_is_of_no_use_is_final() {
    let passing = [
        "HTTP/1.1 500 X\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 429 X\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{}",
        "",
    ];
    let lasting = [
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nnot JSON!",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\ncontent-length: 25\r\n\r\n{\"balance\":1,\"balance\":2}",
        "HTTP/1.1 200 OK\r\ncontent-length: 15\r\n\r\n{\"balance\":1.5}",
        "HTTP/1.1 200 OK\r\ncontent-length: 15\r\n\r\n{\"balance\":\"1\"}",
        "HTTP/1.1 200 OK\r\ncontent-length: 16\r\n\r\n{\"balance\":null}",
        "HTTP/1.1 302 X\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 403 X\r\ncontent-length: 0\r\n\r\n",
    ];
    let passing = passing.iter().map(|account| (*account, "not sent"));
    for (account, expected) in passing.chain(lasting.iter().map(|account| (*account, "refused"))) {
        let service = service(account, 200);
        let judge = Told::judging(post("/accounts/42"));
        let (found, evidence) = found(attempt(&adapter_to(&service, ""), &reading("/accounts/42"), &judge));
        assert_eq!(found, expected, "{account}: {evidence:?}");
        assert!(evidence.words().contains("Account::\"42\" could not be read"), "{}", evidence.words());
        assert_eq!(service.requests().len(), 1, "only the read was sent");
    }
}

#[test]
fn a_service_puts_a_secret_or_any_amount_of_text_into_a_fact() {
    let long = "x".repeat(17_000);
    for (status, why) in [("open sesame-open-sesame", "holds a secret"), (&*long, "a fact has at most 16384")] {
        let body = format!(r#"{{"balance":9,"status":"{status}"}}"#);
        let service = service(Box::leak(answer(200, &body).into_boxed_str()), 200);
        let adapter = adapter_to(&service, "headers = { Authorization = { env = \"TOKEN\" } }");
        let judge = Told::judging(post("/accounts/42"));
        let (found, evidence) = found(attempt(&adapter, &reading("/accounts/42"), &judge));
        assert!(found == "refused" && evidence.words().contains(why), "{found}: {evidence:?}");
        assert_eq!(service.requests().len(), 1, "only the read was sent");
        let shown = adapter.observe(&read_of("/accounts/42"), &account()).unwrap_err();
        super::holds_no_sentence(&shown);
        let shown = shown.to_string();
        assert!(shown.contains(why) && !shown.contains("sesame"), "{shown}");
    }
}

#[test]
fn a_fact_is_read_for_an_observation_and_only_what_its_type_has() {
    let body = r#"{"balance":9,"status":null,"owner":{"name":"Ada"},"rate":1}"#;
    let said: &'static str = Box::leak(answer(200, body).into_boxed_str());
    let service = service(said, 200);
    let adapter = adapter_to(&service, "");
    let value = adapter.observe(&read_of("/accounts/42"), &account()).unwrap().value.unwrap();
    assert_eq!((value.get("balance"), value.get("status"), value.get("rate")), (Some(&Value::Long(9)), None, None));
    let elsewhere = ExternalRead { adapter: "ledger".into(), ..read_of("/accounts/42") };
    assert!(adapter.observe(&elsewhere, &account()).unwrap_err().to_string().contains("lives with ledger"));
    let query = ExternalRead { how: ExternalHow::Query("select 1".into()), ..read_of("/accounts/42") };
    assert!(adapter.observe(&query, &account()).unwrap_err().to_string().contains("cannot read it in this way"));
}
