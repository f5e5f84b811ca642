//! What an answer means. The one place where statuses become outcomes, each with its reason.

use countersign_core::call::Evidence;
use countersign_engine::outbox::{Attempt, Probed};

/// What the status of an answer to a call means.
///
/// - `2xx`: it says that it did it.
/// - `307`, `308`: it asks for the same request elsewhere, so it did not do it here; and nothing is followed.
/// - other `3xx`: services answer a form with "see there" *after* having done what it asks. No one knows.
/// - `408`, `425`: something in between gave up or would not risk it; the service itself may have seen the request.
/// - `409`: most often another attempt under the same key is under way or done. No one knows until it is asked.
/// - `412`: what was read has changed: it compared first and did nothing.
/// - `429`: it counts before it works, and asks to come again later.
/// - other `4xx`: it understood and will not.
/// - `5xx` and the rest: it broke, before, during or after.
pub fn of_call(status: u16, evidence: Evidence) -> Attempt {
    match status {
        200..=299 => Attempt::Done(evidence),
        307 | 308 => Attempt::Refused(evidence),
        408 | 409 | 425 => Attempt::Unknown(evidence),
        429 => Attempt::NotSent(evidence),
        400..=499 => Attempt::Refused(evidence),
        _ => Attempt::Unknown(evidence),
    }
}

/// Whether the same request may well be answered otherwise a moment later: the service is busy or broken, and does not refuse.
pub fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500..=599)
}

/// What the status of an answer to a probe means: only a clear yes and a clear no count.
pub fn of_probe(status: u16, evidence: Evidence) -> Probed {
    match status {
        200..=299 => Probed::There(evidence),
        404 | 410 => Probed::Absent(evidence),
        _ => Probed::Unknown(evidence),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_one_meaning() {
        let name = |status| match of_call(status, Evidence::default()) {
            Attempt::Done(_) => "done",
            Attempt::Refused(_) => "refused",
            Attempt::NotSent(_) => "not sent",
            Attempt::Unknown(_) => "unknown",
            Attempt::Blocked(_) => "blocked",
        };
        for status in 0..=999 {
            let expected = match status {
                200..=299 => "done",
                429 => "not sent",
                408 | 409 | 425 => "unknown",
                307 | 308 | 400..=499 => "refused",
                _ => "unknown",
            };
            assert_eq!(name(status), expected, "{status}");
        }
    }

    #[test]
    fn only_a_clear_answer_of_a_probe_counts() {
        assert!(matches!(of_probe(200, Evidence::default()), Probed::There(_)));
        for status in [404, 410] {
            assert!(matches!(of_probe(status, Evidence::default()), Probed::Absent(_)));
        }
        for status in [302, 304, 400, 401, 403, 409, 429, 500, 503] {
            assert!(matches!(of_probe(status, Evidence::default()), Probed::Unknown(_)), "{status}");
        }
    }
}
