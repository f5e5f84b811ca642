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
use anyhow::Result;
use countersign_api::routes::BATCH_BYTES_MAX;
use countersign_api::{ActionError, ActionRefused, BatchResponse, BatchResult, ErrorCode};
use countersign_core::action::ActionRequest;
use countersign_core::code::Code;
use countersign_core::ids::Digest;
use countersign_core::limits::{BATCH_ACTIONS_MAX, GROUP_ACTIONS_MAX};
use serde_json::{Value, json};
use std::collections::HashMap;

/// How many mistakes of a file are told.
const PROBLEMS_SHOWN: usize = 10;

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
        return Err(Failure::usage("--check cannot be combined with --batch")
            .hint("check one action at a time")
            .into());
    }
    let lines = lines(&read(given)?)?;
    if args.atomic {
        check_group(&lines)?;
    }
    let client = args.connection.client(config)?;
    let mut worst = Outcome::Yes;
    let mut waiting: Option<Interrupt> = None;
    for batch in batches(&lines) {
        let key = match batch {
            [one] => one.key.clone(),
            [first, rest @ ..] => format!("{} and {} more", first.key, rest.len()),
            [] => continue,
        };
        let find_out = |error: anyhow::Error| or_send_again(error, given, batch, &lines);
        let interrupted = Failure::no("interrupted").into_unknown("the batch may have committed", Some(&key));
        let interrupted = find_out(interrupted.into());
        match &waiting {
            Some(waiting) => waiting.now(interrupted),
            None => waiting = Some(Interrupt::watch(interrupted, args.json)?),
        }
        let sent = client.call_counted(call(args, batch, &key).agent(agent)).map_err(find_out)?;
        let (answer, is_doubtful): (BatchResponse, bool) = sent;
        let failed = batch.iter().zip(&answer.results).find(|(_, result)| !is_of_group(result));
        for (line, result) in batch.iter().zip(&answer.results) {
            let because_of = failed.map(|(failed, _)| failed.number).filter(|_| is_of_group(result));
            worst = worse(worst, told(line, result, because_of, is_doubtful, args.json)?);
        }
        if answer.results.len() != batch.len() {
            let message = format!("{} actions were sent, and {} answered", batch.len(), answer.results.len());
            let unknown = Failure::cannot(message).into_unknown("the batch may have committed", Some(&key));
            return Err(find_out(unknown.into()));
        }
    }
    drop(waiting);
    client.close()?;
    Ok(worst)
}

fn read(given: &str) -> Result<String> {
    let (name, read) = match given {
        "-" => ("standard input", std::io::read_to_string(std::io::stdin())),
        file => (file, std::fs::read_to_string(file)),
    };
    read.map_err(|error| {
        let failure = Failure::usage(format!("cannot read {name}: {error}"));
        failure.hint("give a file with one action a line, or - for standard input").into()
    })
}

/// Refuses what cannot be one group. It is sent as one request, or not at all.
fn check_group(lines: &[Line]) -> Result<(), Failure> {
    let hint = "send them without --atomic, or in several groups";
    if lines.len() > GROUP_ACTIONS_MAX {
        let message = format!("there are {} actions; an atomic group has at most {GROUP_ACTIONS_MAX}", lines.len());
        return Err(Failure::usage(message).hint(hint));
    }
    match batches(lines).count() {
        0 | 1 => Ok(()),
        _ => {
            let bytes: usize = lines.iter().map(|line| line.body.len() + 1).sum();
            let message = format!("the actions have {bytes} bytes; an atomic group has at most {BATCH_BYTES_MAX}");
            Err(Failure::usage(message).hint(hint))
        }
    }
}

/// Whether an action was only rejected because another one of its group was.
fn is_of_group(result: &BatchResult) -> bool {
    matches!(result, BatchResult::Verdict(verdict) if verdict.code.as_deref() == Some(Code::GroupRejected.as_str()))
}

/// The actions of a file. An empty line is none, nor is one that begins with `#`.
fn lines(text: &str) -> Result<Vec<Line>> {
    let mut lines: Vec<Line> = Vec::new();
    let (mut places, mut problems) = (HashMap::new(), Vec::new());
    for (at, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let (number, body) = (at + 1, line.trim());
        if body.is_empty() || body.starts_with('#') {
            continue;
        }
        match ActionRequest::parse(body) {
            Ok(request) => {
                let key = request.idempotency_key.as_str().to_owned();
                if let Some(first) = places.insert(key.clone(), number) {
                    problems.push(format!("line {number}: it has the idempotency key of line {first}"));
                }
                lines.push(Line { number, body: body.to_owned(), key });
            }
            Err(error) => problems.push(format!("line {number}: {error}")),
        }
    }
    if problems.is_empty() && lines.is_empty() {
        return Err(Failure::usage("there are no actions in it").hint("write one action a line").into());
    }
    if problems.is_empty() {
        return Ok(lines);
    }
    let more = problems.len().saturating_sub(PROBLEMS_SHOWN);
    problems.truncate(PROBLEMS_SHOWN);
    if more > 0 {
        problems.push(format!("and {more} more"));
    }
    let failure = Failure::usage(format!("nothing was sent: {}", problems.join("; ")));
    let shape = "write one action a line: {\"pact\":…,\"action\":…,\"params\":{…},\"idempotency_key\":\"…\"}, each with a random key \
                 of its own, 22 to 128 characters";
    Err(failure.hint(shape).into())
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

/// Says what became of the lines: of those before and behind a batch that got no answer, and how to find out about its own.
fn or_send_again(error: anyhow::Error, given: &str, batch: &[Line], all: &[Line]) -> anyhow::Error {
    let failure = match error.downcast::<Failure>() {
        Ok(failure) => failure,
        Err(error) => return error,
    };
    let number = |line: Option<&Line>| line.map_or(0, |line| line.number);
    let (first, last) = (number(batch.first()), number(batch.last()));
    let before: Vec<&Line> = all.iter().filter(|line| line.number < first).collect();
    let behind: Vec<&Line> = all.iter().filter(|line| line.number > last).collect();
    let span = |first: usize, last: usize| match first == last {
        true => format!("line {first}"),
        false => format!("lines {first} to {last}"),
    };
    let mut parts = Vec::new();
    if let (Some(one), Some(other)) = (before.first(), before.last()) {
        parts.push(format!("{} answered", span(one.number, other.number)));
    }
    let is_unknown = failure.exit == Exit::Unknown;
    parts.push(format!("{} {}", span(first, last), if is_unknown { "unknown" } else { "not done" }));
    if let (Some(one), Some(other)) = (behind.first(), behind.last()) {
        parts.push(format!("{} not sent", span(one.number, other.number)));
    }
    let source = if given == "-" { "the same lines" } else { given };
    let again = format!("{}; send {source} again, unchanged, within 24 hours: nothing is done twice", parts.join(", "));
    match is_unknown || all.len() > batch.len() {
        true => failure.hint(again).into(),
        false => failure.into(),
    }
}

/// Shows what came of one action.
fn told(
    line: &Line,
    result: &BatchResult,
    because_of: Option<usize>,
    is_doubtful: bool,
    json: bool,
) -> Result<Outcome> {
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
                let word = word.as_str().unwrap_or_default().replace('_', " ");
                let before = if verdict.repeated { " (decided before)" } else { "" };
                let why = match (because_of, &verdict.message) {
                    (Some(failed), _) => {
                        format!(": line {failed} of its group was rejected, so none of the group was done")
                    }
                    (None, Some(message)) => format!(": {message}"),
                    (None, None) => String::new(),
                };
                say(format_args!("{}: {word}{entry}{before}{why}", line.number));
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
        // A group goes as one piece or not at all.
        let group: Vec<Line> = (0..32).map(|number| line(number, "x".repeat(40_000))).collect();
        assert!(check_group(&group).unwrap_err().message().contains("at most 1048576"));
        assert!(check_group(&small[..33]).is_err());
        assert_eq!(check_group(&small[..32]), Ok(()));
    }

    #[test]
    fn a_line_that_is_no_action_is_named() {
        let error = lines("\n{\"pact\":1}\n").err().expect("is no action");
        assert!(error.to_string().starts_with("nothing was sent: line 2: "), "{error}");
        let body = |key: &str| format!("{{\"pact\":\"p\",\"action\":\"a\",\"idempotency_key\":\"{key:0>22}\"}}");
        let twice =
            lines(&format!("\u{feff}{}\n{}\n{}", body("1"), body("2"), body("1"))).err().expect("one key twice");
        assert!(twice.to_string().contains("line 3: it has the idempotency key of line 1"), "{twice}");
        assert!(lines(" \n").is_err(), "nothing to do is a mistake");
    }
}
