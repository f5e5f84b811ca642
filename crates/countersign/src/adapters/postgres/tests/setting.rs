//! Settings: what is taken, what is refused, and that no password is ever shown.

use crate::adapters::postgres::settings::Settings;
use crate::config::Config;
use crate::config::adapters::AdapterSettings;
use std::path::Path;

fn said(error: &anyhow::Error) -> String {
    crate::terminal::Report::of_error(error).to_string()
}

fn open(text: &str) -> Result<Settings, String> {
    let text = format!("[adapters.bank]\nkind = \"postgres\"\n{text}");
    let config = Config::parse(&text, Path::new("/nonexistent")).map_err(|error| said(&error))?;
    assert!(!format!("{config:?}").contains("secret@"), "{config:?}");
    let AdapterSettings::Postgres(given) = &config.adapters["bank"] else { panic!("another kind") };
    let environment = |name: &str| (name == "BANK_URL").then(|| "postgres://gate:secret@localhost/bank".to_owned());
    Settings::open("bank", given, &environment).map_err(|error| said(&error))
}

#[test]
fn every_key_is_read() {
    let settings = open(
        "url = { env = \"BANK_URL\" }\npool = 3\nstatement_timeout = \"7s\"\nlock_timeout = \"300ms\"\nschema = \"proof_1\"\n\
         tls = \"off\"",
    )
    .unwrap();
    assert_eq!((settings.pool, settings.statement_timeout_ms, settings.lock_timeout_ms), (3, 7000, 300));
    assert_eq!((settings.schema.as_str(), settings.config.get_user()), ("proof_1", Some("gate")));
    assert!(settings.tls.is_none());
}

#[test]
fn what_does_not_fit_is_refused_with_a_hint_and_without_the_password() {
    let url = "url = \"postgres://gate:secret@localhost/bank\"\n";
    for (text, said) in [
        ("", "needs `url`"),
        ("url = { env = \"NOT_SET\" }", "NOT_SET is not set"),
        ("url = { file = \"missing\" }", "cannot read /nonexistent/missing"),
        ("url = \"postgres://gate:secret@host:port/bank\"", "not the URL of a PostgreSQL database"),
        ("url = \"secret@\"", "not the URL of a PostgreSQL database"),
        (&format!("{url}pool = 0"), "whole number from 1"),
        (&format!("{url}lock_timeout = 5"), "must be a time"),
        (&format!("{url}schema = \"a; drop\""), "schema` must be"),
        (&format!("{url}shema = \"a\""), "did you mean `schema`?"),
        (&format!("{url}tls = \"maybe\""), "tls` must be"),
        (&format!("{url}tls = \"on\""), "ca` must name"),
        (&format!("{url}tls = \"on\"\nca = \"x.pem\""), "/nonexistent/x.pem"),
        ("url = \"postgres://gate:secret@db.example/bank\"", "ca` must name"),
        ("url = \"postgres://gate:secret@localhost/bank?sslmode=require\"", "ca` must name"),
    ] {
        let error = open(text).expect_err(text);
        assert!(error.contains(said) && error.contains("hint: "), "{text}\n{error}");
        assert!(!error.contains("secret@"), "{error}");
    }
    assert!(!format!("{:?}", open(url).unwrap()).contains("secret"));
}
