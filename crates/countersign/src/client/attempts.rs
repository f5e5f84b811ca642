//! When a call is sent again, and what may be said about it when it fails.
//!
//! A request whose answer is missing may have been carried out. So what is remembered from attempt to attempt is whether any of
//! them may have arrived: from then on only the gate's own verdict says what became of the call, and no refusal of a later
//! attempt does. Every attempt is signed on its own and has the same body, and so the same idempotency key.

use super::{Answer, Call, Repeat, refused};
use crate::commands::Failure;
use countersign_api::{ErrorBody, ErrorCode};
use std::time::Duration;

/// For how long a gate is given time to start or to become ready: `serve &` and the next command are typed in one breath.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often a call is repeated whose answer was lost.
const UNANSWERED_MAX: u32 = 3;

/// How often it is signed again because a signature came too late.
const SIGNED_AGAIN_MAX: u32 = 3;

/// How long to wait before signing again: `created` has whole seconds, so the next one is soon enough.
const SIGN_AGAIN_AFTER: Duration = Duration::from_millis(1100);

/// Why an attempt has no answer.
pub(super) enum Lost {
    /// The request cannot be sent at all.
    Unsendable(Failure),
    /// No byte of it has left.
    Unsent(Failure),
    /// It may have arrived.
    Unanswered(Failure),
}

/// What follows from an attempt.
pub(super) enum Next {
    /// Sign and send again after a while.
    Again(Duration),
    /// This is the answer.
    Answer(Answer),
    /// This is the end.
    Failed(Failure),
}

/// What an answer other than 2xx says about the request that it answers.
enum Refused {
    /// It was not carried out, and would not be either if it were sent again.
    ForGood,
    /// It was not carried out, and may be later.
    NotNow(Option<Duration>),
    /// It was not carried out, and another signature may pass.
    SignAgain,
    /// It was not carried out, and no earlier attempt was: the gate has looked for its key.
    Never,
    /// It may have been.
    Unknown,
}

/// The attempts of one call.
pub(super) struct Attempts {
    repeat: Repeat,
    made: u32,
    unanswered: u32,
    signed_again: u32,
    patient_until: Duration,
}

impl Attempts {
    pub(super) fn new(call: &Call) -> Self {
        Self { repeat: call.repeat.clone(), made: 0, unanswered: 0, signed_again: 0, patient_until: PATIENCE }
    }

    /// What follows from an attempt that has ended so long after the first one began.
    pub(super) fn after(&mut self, path: &str, attempt: Result<Answer, Lost>, elapsed: Duration) -> Next {
        self.made += 1;
        let pause = Duration::from_millis(50 << self.made.min(4));
        match attempt {
            Ok(answer) if (200..300).contains(&answer.status) => Next::Answer(answer),
            Ok(answer) => match said(&answer) {
                Refused::ForGood => self.failed(refused(path, &answer)),
                Refused::Never => Next::Failed(refused(path, &answer)),
                Refused::NotNow(after) => self.later(after.unwrap_or(pause), elapsed, refused(path, &answer)),
                Refused::SignAgain if self.signed_again < SIGNED_AGAIN_MAX => {
                    self.signed_again += 1;
                    Next::Again(SIGN_AGAIN_AFTER)
                }
                Refused::SignAgain => self.failed(refused(path, &answer)),
                Refused::Unknown => self.unanswered(pause, elapsed, refused(path, &answer)),
            },
            Err(Lost::Unsendable(failure)) => self.failed(failure),
            Err(Lost::Unsent(failure)) => self.later(pause, elapsed, failure),
            Err(Lost::Unanswered(failure)) => self.unanswered(pause, elapsed, failure),
        }
    }

    /// Whether an attempt that was not answered may have arrived.
    pub(super) fn may_have_arrived(&self) -> bool {
        self.unanswered > 0
    }

    /// It certainly did not arrive: send it again as long as there is patience left.
    fn later(&self, pause: Duration, elapsed: Duration, failure: Failure) -> Next {
        if elapsed + pause <= self.patient_until { Next::Again(pause) } else { self.failed(failure) }
    }

    /// It may have arrived: ask again only where that cannot do it twice.
    fn unanswered(&mut self, pause: Duration, elapsed: Duration, failure: Failure) -> Next {
        self.unanswered += 1;
        // The gate may have been stopped; its restart gets as much time as the first start.
        self.patient_until = elapsed + PATIENCE;
        match self.repeat {
            Repeat::Reads | Repeat::Keyed(_) if self.unanswered < UNANSWERED_MAX => Next::Again(pause),
            _ => self.failed(failure),
        }
    }

    fn failed(&self, last: Failure) -> Next {
        Next::Failed(match &self.repeat {
            Repeat::Keyed(key) if self.unanswered > 0 => last.into_unknown("the action may have committed", Some(key)),
            Repeat::Writes if self.unanswered > 0 => last.into_unknown("it may have been done", None),
            _ => last,
        })
    }
}

fn said(answer: &Answer) -> Refused {
    // Anyone who answers without the gate's own words may be a proxy that has passed the request on.
    let Ok(ErrorBody { error }) = serde_json::from_slice::<ErrorBody>(&answer.body) else { return Refused::Unknown };
    let Some(code) = ErrorCode::ALL.iter().find(|code| code.as_str() == error.code) else {
        return if answer.status < 500 { Refused::ForGood } else { Refused::Unknown };
    };
    let after = answer.retry_after_s.map(Duration::from_secs);
    match code {
        ErrorCode::IdempotencyKeyReused | ErrorCode::GroupRepeats => Refused::Never,
        ErrorCode::SignatureExpired => Refused::SignAgain,
        // A gate that does not say for how long it is not ready waits for a person.
        code if after.is_none() && (*code == ErrorCode::NotReady || code.status() == 429) => Refused::ForGood,
        code if code.passes_later() => Refused::NotNow(after),
        code if code.leaves_nothing() => Refused::ForGood,
        _ => Refused::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::Exit;

    const START: Duration = Duration::ZERO;

    fn answer(code: ErrorCode, retry_after_s: Option<u64>) -> Result<Answer, Lost> {
        let body = serde_json::json!({"error": {"code": code, "message": "m", "hint": "h", "request_id": "r"}});
        Ok(Answer { status: code.status(), retry_after_s, body: body.to_string().into_bytes() })
    }

    fn plain(status: u16) -> Result<Answer, Lost> {
        Ok(Answer { status, retry_after_s: None, body: b"{}".to_vec() })
    }

    fn unsent() -> Result<Answer, Lost> {
        Err(Lost::Unsent(Failure::cannot("refused")))
    }

    fn unanswered() -> Result<Answer, Lost> {
        Err(Lost::Unanswered(Failure::cannot("reset")))
    }

    fn action() -> Call {
        Call::post("/v1/actions").keyed("the-key")
    }

    /// How a call ends whose attempts go like this: `None` where it goes on.
    fn end(call: &Call, attempts: Vec<Result<Answer, Lost>>) -> Option<Result<u16, Failure>> {
        let mut of = Attempts::new(call);
        let mut last = None;
        for attempt in attempts {
            assert!(last.is_none(), "it had ended before");
            last = match of.after("/v1/actions", attempt, START) {
                Next::Again(_) => None,
                Next::Answer(answer) => Some(Ok(answer.status)),
                Next::Failed(failure) => Some(Err(failure)),
            };
        }
        last
    }

    fn exit(call: &Call, attempts: Vec<Result<Answer, Lost>>) -> Exit {
        end(call, attempts).expect("it ends").expect_err("it fails").exit
    }

    #[test]
    fn once_an_attempt_may_have_arrived_no_refusal_says_that_nothing_was_done() {
        for code in ErrorCode::ALL {
            // Of these the gate has looked for the keys.
            let is_never = matches!(code, ErrorCode::IdempotencyKeyReused | ErrorCode::GroupRepeats);
            if is_never || end(&action(), vec![answer(*code, None)]).is_none() {
                continue;
            }
            let failed =
                end(&action(), vec![unanswered(), answer(*code, None)]).expect("it ends").expect_err("it fails");
            assert_eq!(failed.exit, Exit::Unknown, "{code:?}");
            assert!(failed.to_string().contains("the-key"), "{failed}");
        }
        // The gate has looked for the key, and it is another body's.
        assert_eq!(exit(&action(), vec![unanswered(), answer(ErrorCode::IdempotencyKeyReused, None)]), Exit::No);
        assert!(matches!(end(&action(), vec![unanswered(), plain(200)]), Some(Ok(200))));
    }

    #[test]
    fn a_first_answer_that_leaves_nothing_behind_is_what_it_says() {
        assert_eq!(exit(&action(), vec![answer(ErrorCode::KeyUnknown, None)]), Exit::No);
        assert_eq!(exit(&action(), vec![unsent(), answer(ErrorCode::KeyUnknown, None)]), Exit::No);
        let late = [ErrorCode::SignatureExpired; 4].map(|code| answer(code, None));
        assert_eq!(exit(&action(), late.into()), Exit::No);
    }

    #[test]
    fn an_answer_that_says_nothing_about_the_entry_is_asked_about_again_and_then_unknown() {
        let unclear = [
            ErrorCode::InternalError,
            ErrorCode::LedgerFailed,
            ErrorCode::LogUnreadable,
            // The very bytes that this client sent once arrived twice: what became of the first?
            ErrorCode::SignatureReplayed,
        ];
        for code in unclear {
            assert!(end(&action(), vec![answer(code, None)]).is_none(), "{code:?}");
            let attempts = (0..UNANSWERED_MAX).map(|_| answer(code, None)).collect();
            assert_eq!(exit(&action(), attempts), Exit::Unknown, "{code:?}");
        }
        assert!(end(&action(), vec![plain(502)]).is_none(), "a proxy");
    }

    #[test]
    fn what_has_no_key_is_not_repeated_once_it_may_have_arrived() {
        let feed = Call::put("/v1/facts/Account/42");
        assert_eq!(exit(&feed, vec![unanswered()]), Exit::Unknown);
        assert!(end(&feed, vec![unsent(), answer(ErrorCode::Busy, Some(1))]).is_none());
        assert!(end(&Call::get("/v1/pacts"), vec![unanswered()]).is_none());
        let lost = (0..UNANSWERED_MAX).map(|_| unanswered()).collect();
        assert_eq!(exit(&Call::get("/v1/pacts"), lost), Exit::Cannot, "reading does nothing");
    }

    #[test]
    fn a_gate_that_starts_is_given_time_and_no_more_than_that() {
        let mut attempts = Attempts::new(&action());
        assert!(matches!(attempts.after("", unsent(), START), Next::Again(_)));
        assert!(matches!(attempts.after("", answer(ErrorCode::NotReady, Some(1)), START), Next::Again(_)));
        assert!(
            matches!(attempts.after("", unsent(), PATIENCE), Next::Failed(failure) if failure.exit == Exit::Cannot)
        );
        // No one waits a minute for a second try.
        assert_eq!(exit(&action(), vec![answer(ErrorCode::Busy, Some(60))]), Exit::Cannot);
        assert_eq!(exit(&action(), vec![answer(ErrorCode::NotReady, None)]), Exit::Cannot);
    }
}
