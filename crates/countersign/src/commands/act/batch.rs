//! `countersign act --batch`: many actions, one a line, under one signature for every 256 of them.
//!
//! A line is the body of its action, byte for byte. So the same file can be sent again whenever it is not known what became of it: the
//! gate knows every action by its key and body, and does none of them twice.

use super::ActArgs;
use super::interrupt::Interrupt;
use crate::client::Call;
use crate::commands::{Exit, Failure, Outcome};
use crate::config::Config;
use crate::terminal::{say, say_json};
use anyhow::{Context as _, Result};
use countersign_api::routes::BATCH_BYTES_MAX;
use countersign_api::{ActionError, ActionRefused, BatchResponse, BatchResult, ErrorCode};
use countersign_core::action::ActionRequest;
use countersign_core::ids::Digest;
use countersign_core::limits::{BATCH_ACTIONS_MAX, GROUP_ACTIONS_MAX};
use serde_json::{Value, json};

/// An action of the file.
struct Line {
    /// Its number, from 1.
    number: usize,
    body: String,
    key: String,
}

/// Sends the lines of a file.
pub fn run(args: &ActArgs, given: &str, agent: &str, config: &Config) -> Result<Outcome> {
    if args.check {
        return Err(Failure::usage("--check looks at one action, not at a batch").hint("leave --batch out").into());
    }
    let text = match given {
        "-" => std::io::read_to_string(std::io::stdin()).context("cannot read standard input")?,
        file => std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?,
    };
    let lines = lines(&text)?;
    if args.atomic && lines.len() > GROUP_ACTIONS_MAX {
        let message = format!("there are {} actions; an atomic group has at most {GROUP_ACTIONS_MAX}", lines.len());
        return Err(Failure::usage(message).hint("send them without --atomic, or in several groups").into());
    }
    let client = args.connection.client(config)?;
    let mut worst = Outcome::Yes;
    for batch in batches(&lines) {
        let key = match batch {
            [one] => one.key.clone(),
            [first, rest @ ..] => format!("{} and {} more", first.key, rest.len()),
            [] => continue,
        };
        let find_out = |error: anyhow::Error| or_send_again(error, given, batch);
        let interrupted = Failure::no("interrupted").into_unknown("the batch may have committed", Some(&key));
        let waiting = Interrupt::watch(find_out(interrupted.into()), args.json)?;
        let sent = client.call_counted(call(args, batch, &key).agent(agent)).map_err(find_out)?;
        let (answer, is_doubtful): (BatchResponse, bool) = sent;
        drop(waiting);
        for (line, result) in batch.iter().zip(&answer.results) {
            worst = worse(worst, told(line, result, is_doubtful, args.json)?);
        }
        if answer.results.len() != batch.len() {
            let message = format!("{} actions were sent, and {} answered", batch.len(), answer.results.len());
            let unknown = Failure::cannot(message).into_unknown("the batch may have committed", Some(&key));
            return Err(find_out(unknown.into()));
        }
    }
    client.close()?;
    Ok(worst)
}

/// The actions of a file. An empty line is none, nor is one that begins with `#`.
fn lines(text: &str) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let (number, body) = (at + 1, line.trim());
        if body.is_empty() || body.starts_with('#') {
            continue;
        }
        let request = ActionRequest::parse(body).map_err(|error| {
            Failure::usage(format!("line {number}: {error}")).hint(
                "write one action a line: {\"pact\":…,\"action\":…,\"params\":{…},\"idempotency_key\":\"…\"}, with a random key \
                 of 22 characters or more each",
            )
        })?;
        lines.push(Line { number, body: body.to_owned(), key: request.idempotency_key.as_str().to_owned() });
    }
    match lines.is_empty() {
        true => Err(Failure::usage("there are no actions").hint("write one action a line").into()),
        false => Ok(lines),
    }
}

/// The lines in pieces that a gate takes at once.
fn batches(lines: &[Line]) -> impl Iterator<Item = &[Line]> {
    let mut rest = lines;
    std::iter::from_fn(move || {
        let mut bytes = 2;
        let fits = |line: &&Line| {
            bytes += line.body.len() + 1;
            bytes <= BATCH_BYTES_MAX
        };
        let count = rest.iter().take(BATCH_ACTIONS_MAX).take_while(fits).count();
        let (batch, later) = rest.split_at_checked(count)?;
        rest = later;
        (!batch.is_empty()).then_some(batch)
    })
}

fn call(args: &ActArgs, batch: &[Line], key: &str) -> Call {
    let bodies: Vec<&str> = batch.iter().map(|line| line.body.as_str()).collect();
    let path = if args.atomic { "/v1/actions/batch?atomic=true" } else { "/v1/actions/batch" };
    Call::post(path)
        .keyed(key)
        .waiting_ms(u64::from(args.wait) * 1000)
        .listing(bodies.iter().map(|body| Digest::of(body.as_bytes())).collect())
        .body("application/json", format!("[{}]", bodies.join(",")).into_bytes())
}

/// Says how to find out what became of a batch.
fn or_send_again(error: anyhow::Error, given: &str, batch: &[Line]) -> anyhow::Error {
    let numbers = match batch {
        [first, .., last] => format!("lines {} to {}", first.number, last.number),
        [one] => format!("line {}", one.number),
        [] => String::new(),
    };
    match error.downcast::<Failure>() {
        Ok(failure) if failure.exit == Exit::Unknown => {
            let source = if given == "-" { "the same lines" } else { given };
            failure.hint(format!("{numbers}: send {source} again, unchanged, which never does anything twice")).into()
        }
        Ok(failure) => failure.into(),
        Err(error) => error,
    }
}

/// Shows what came of one action.
fn told(line: &Line, result: &BatchResult, is_doubtful: bool, json: bool) -> Result<Outcome> {
    if json {
        let mut object = serde_json::to_value(result)?;
        if let Value::Object(members) = &mut object {
            members.insert("line".to_owned(), json!(line.number));
        }
        say_json(&object);
    }
    Ok(match result {
        BatchResult::Verdict(verdict) => {
            if !json {
                let word = serde_json::to_value(verdict.verdict)?;
                let entry = verdict.entry.map(|entry| format!(" in entry {entry}")).unwrap_or_default();
                let why = verdict.message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
                say(format_args!("{}: {}{entry}{why}", line.number, word.as_str().unwrap_or_default()));
            }
            verdict.verdict.into()
        }
        BatchResult::Refused(ActionRefused { error }) => {
            if !json {
                say(format_args!("{}: not decided: {} ({})", line.number, error.message, error.code));
            }
            refused(error, is_doubtful)
        }
    })
}

/// Whether an action that has no verdict was certainly not done. Where an earlier attempt may have arrived, only a gate that has looked
/// for its key knows.
fn refused(error: &ActionError, is_doubtful: bool) -> Outcome {
    let code = ErrorCode::ALL.iter().find(|code| code.as_str() == error.code);
    let is_certain =
        |code: &ErrorCode| *code == ErrorCode::IdempotencyKeyReused || code.leaves_nothing() && !is_doubtful;
    match code.is_some_and(is_certain) {
        true => Outcome::No,
        false => Outcome::InDoubt,
    }
}

/// The worse of two ends, which is how a batch ends: what no one knows comes first, what will still come last.
fn worse(one: Outcome, other: Outcome) -> Outcome {
    let rank = |outcome| match outcome {
        Outcome::InDoubt => 5,
        Outcome::Failed => 4,
        Outcome::No => 3,
        Outcome::Waiting => 2,
        Outcome::InFlight => 1,
        Outcome::Yes => 0,
    };
    if rank(other) > rank(one) { other } else { one }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: usize, body: String) -> Line {
        Line { number, body, key: "k".to_owned() }
    }

    #[test]
    fn a_batch_ends_as_its_worst_action_did() {
        use Outcome::{Failed, InDoubt, InFlight, No, Waiting, Yes};
        let order = [Yes, InFlight, Waiting, No, Failed, InDoubt];
        for (at, one) in order.into_iter().enumerate() {
            for (behind, other) in order.into_iter().enumerate() {
                let expected = if behind > at { other } else { one };
                assert_eq!(worse(one, other), expected);
            }
        }
        let error = |code: &str| ActionError { code: code.into(), message: "m".into(), hint: "h".into(), entry: None };
        assert_eq!(refused(&error("unknown_pact"), false), No);
        assert_eq!(refused(&error("unknown_pact"), true), InDoubt, "an earlier attempt may have arrived");
        assert_eq!(refused(&error("idempotency_key_reused"), true), No);
        for unknown in ["ledger_failed", "internal_error", "something_new"] {
            assert_eq!(refused(&error(unknown), false), InDoubt, "{unknown}");
        }
    }

    #[test]
    fn pieces_are_as_large_as_a_gate_takes_and_nothing_is_left_out() {
        let small: Vec<Line> = (0..600).map(|number| line(number, "{}".to_owned())).collect();
        assert_eq!(batches(&small).map(<[Line]>::len).collect::<Vec<_>>(), [256, 256, 88]);
        let large: Vec<Line> = (0..5).map(|number| line(number, "x".repeat(400_000))).collect();
        assert_eq!(batches(&large).map(<[Line]>::len).collect::<Vec<_>>(), [2, 2, 1]);
    }

    #[test]
    fn a_line_that_is_no_action_is_named() {
        let error = lines("\n{\"pact\":1}\n").err().expect("is no action");
        assert!(error.to_string().starts_with("line 2: "), "{error}");
        assert!(lines(" \n").is_err(), "nothing to do is a mistake");
    }
}
