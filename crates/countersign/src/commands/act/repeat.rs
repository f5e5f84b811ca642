//! The way out when it is not known what became of an action: the command that asks for the very same action once more. The
//! gate knows it by its idempotency key and body, answers with what it did before, and never does it twice.

use crate::commands::{Connection, Exit, Failure};
use countersign_api::ActionRequest;

/// Says how to find out, where it is not known what became of an action; other errors stay as they are.
pub fn or_find_out(
    error: anyhow::Error,
    request: &ActionRequest,
    delegation: Option<&str>,
    agent: Option<&str>,
    connection: &Connection,
) -> anyhow::Error {
    match error.downcast::<Failure>() {
        Ok(failure) if failure.exit == Exit::Unknown => {
            let command = command(request, delegation, agent, connection);
            failure.hint(format!("find out with this, which never does it twice: {command}")).into()
        }
        Ok(failure) => failure.into(),
        Err(error) => error,
    }
}

/// The command, so that it can be pasted: with the observations as they were sent, since the body must be the same to the byte.
fn command(request: &ActionRequest, delegation: Option<&str>, agent: Option<&str>, connection: &Connection) -> String {
    let params = serde_json::to_string(&request.params).unwrap_or_default();
    let mut words = vec!["countersign".to_owned(), "act".to_owned()];
    let mut flag = |name: &str, value: Option<&str>| {
        match value {
            // A random key may begin with a hyphen, and would be read as a flag of its own.
            Some(value) if value.starts_with('-') => words.push(format!("--{name}={}", quoted(value))),
            Some(value) => words.extend([format!("--{name}"), quoted(value)]),
            None => {}
        }
    };
    flag("pact", Some(&request.pact));
    flag("action", Some(&request.action));
    flag("params", Some(&params));
    for token in &request.observations {
        flag("observation", Some(token));
    }
    flag("delegation", delegation);
    flag("claim", request.claim.as_deref());
    flag("idempotency-key", Some(&request.idempotency_key));
    flag("agent", agent);
    flag("key", connection.key.as_deref().and_then(|file| file.to_str()));
    flag("data", connection.data.as_deref().and_then(|folder| folder.to_str()));
    flag("ca", connection.ca.as_deref().filter(|_| connection.data.is_none()).and_then(|file| file.to_str()));
    flag("server", connection.server.as_deref().filter(|_| connection.data.is_none()));
    words.join(" ")
}

/// A word as a shell reads it back.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@%+,".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::Report;
    use serde_json::json;

    #[test]
    fn the_command_asks_for_the_very_same_action() {
        let request: ActionRequest = serde_json::from_value(json!({
            "pact": "billing", "action": "refund", "idempotency_key": "k-1", "observations": ["t1", "t2"],
            "params": {"account": "o'neill", "amount": 3}, "claim": "clm_3",
        }))
        .expect("a request");
        let connection =
            Connection { server: Some("http://127.0.0.1:1".into()), data: None, ca: None, key: Some("a b.key".into()) };
        let unknown = Failure::cannot("x").into_unknown("it may have been", Some("k-1"));
        let told =
            Report::of_error(&or_find_out(unknown.into(), &request, Some("@token"), None, &connection)).to_string();
        let wanted = [
            r#"countersign act --pact billing --action refund --params '{"account":"o'\''neill","amount":3}'"#,
            "--observation t1 --observation t2 --delegation @token --claim clm_3 --idempotency-key k-1",
            "--key 'a b.key' --server http://127.0.0.1:1",
        ]
        .join(" ");
        assert!(told.ends_with(&wanted), "{told}");
        let hyphen = ActionRequest { idempotency_key: "-P".to_owned(), ..request.clone() };
        let unknown = Failure::cannot("x").into_unknown("it may have been", Some("-P"));
        let told = Report::of_error(&or_find_out(unknown.into(), &hyphen, None, None, &connection)).to_string();
        assert!(told.contains(" --idempotency-key=-P --key"), "a key is no flag: {told}");
        let refused = or_find_out(Failure::no("x").into(), &request, None, None, &connection);
        assert_eq!(refused.to_string(), "x", "what is known needs no way out");
    }
}
