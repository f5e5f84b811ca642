//! What an agent was shown, and until when that counts.

use super::*;

const HOUR_MS: u64 = 60 * 60 * 1000;

fn agent() -> AgentId {
    AgentId::new("ann").unwrap()
}

fn set(labels: &[&str]) -> LabelSet {
    labels.iter().map(SmolStr::new).collect()
}

#[test]
fn names_are_short_and_plain() {
    for name in ["untrusted", "suspect:injection", "a", "from-web_2"] {
        assert_eq!(check_label(name), Ok(()), "{name}");
    }
    for name in ["", "Untrusted", "2nd", "with space", "\u{e9}", ":x", &"a".repeat(33)] {
        assert!(check_label(name).is_err(), "{name}");
    }
}

#[test]
fn what_is_shown_grows_once_and_is_said_again_before_its_day_is_over() {
    let mut labels = Labels::default();
    let (ann, session) = (agent(), Some(SessionId(7)));
    assert!(!labels.grows(&ann, None, &set(&[]), 0));
    assert!(labels.grows(&ann, session, &set(&["untrusted"]), 0));
    labels.note(&ann, session, &["untrusted".into()], 0);
    assert!(!labels.grows(&ann, session, &set(&["untrusted"]), HOUR_MS - 1));
    assert!(!labels.grows(&ann, None, &set(&["untrusted"]), HOUR_MS - 1));
    assert!(labels.grows(&ann, Some(SessionId(8)), &set(&["untrusted"]), 1), "another session was not told");
    assert!(labels.grows(&ann, session, &set(&["confidential", "untrusted"]), 1));
    assert!(labels.grows(&ann, session, &set(&["untrusted"]), HOUR_MS), "its day begins anew");
}

proptest::proptest! {
    /// However often an agent is shown something, and in whichever sessions: it has the label for a day from the last time, in every
    /// session and outside, and in the session itself for good; an entry is made at most once an hour for each session.
    #[test]
    fn a_label_counts_for_a_day_from_when_it_was_last_shown(
        shown in proptest::collection::vec((0_u64..48, 0_u64..3), 1..20),
    ) {
        let mut labels = Labels::default();
        let (ann, label) = (agent(), set(&["untrusted"]));
        let (mut now_ms, mut entries) = (0, 0);
        for (passed, session) in &shown {
            now_ms += passed * HOUR_MS / 2;
            let session = (*session > 0).then_some(SessionId(*session));
            if labels.grows(&ann, session, &label, now_ms) {
                labels.note(&ann, session, &["untrusted".into()], now_ms);
                entries += 1;
            }
            for other in [None, Some(SessionId(1)), Some(SessionId(2)), Some(SessionId(3))] {
                for later_ms in [now_ms, now_ms + 24 * HOUR_MS - 1] {
                    proptest::prop_assert!(labels.in_force(&ann, other, later_ms).contains("untrusted"));
                }
            }
            if let Some(session) = session {
                proptest::prop_assert!(labels.in_force(&ann, Some(session), now_ms + 1_000 * HOUR_MS).contains("untrusted"));
            }
            let is_over = labels.in_force(&ann, Some(SessionId(3)), now_ms + 25 * HOUR_MS).is_empty();
            proptest::prop_assert!(is_over, "it does not count for ever where it was not shown");
        }
        proptest::prop_assert!(entries <= 2 + 1 + now_ms / HOUR_MS);
    }
}

#[test]
fn a_session_has_what_its_agent_had_when_it_was_opened_until_it_is_closed() {
    let mut labels = Labels::default();
    let ann = agent();
    labels.note(&ann, None, &["untrusted".into()], 0);
    labels.open(&ann, SessionId(1), HOUR_MS);
    labels.open(&ann, SessionId(2), 30 * HOUR_MS);
    assert_eq!(labels.in_force(&ann, Some(SessionId(1)), 100 * HOUR_MS), set(&["untrusted"]));
    assert_eq!(labels.in_force(&ann, Some(SessionId(2)), 100 * HOUR_MS), set(&[]));
    assert_eq!(labels.in_force(&AgentId::new("ben").unwrap(), Some(SessionId(1)), 0), set(&[]));
    labels.close(SessionId(1));
    assert_eq!(labels.in_force(&ann, Some(SessionId(1)), 100 * HOUR_MS), set(&[]));
}

#[test]
fn a_clean_session_has_what_is_shown_anywhere_from_then_on() {
    let mut labels = Labels::default();
    let ann = agent();
    labels.note(&ann, Some(SessionId(1)), &["untrusted".into()], 0);
    labels.open_clean(&ann, SessionId(2), 10);
    assert_eq!(labels.in_force(&ann, Some(SessionId(2)), 20), set(&[]));
    assert_eq!(labels.in_force(&ann, Some(SessionId(1)), 20), set(&["untrusted"]));
    assert_eq!(labels.in_force(&ann, None, 20), set(&["untrusted"]));
    // It was said a moment ago, and has to be said again.
    assert!(labels.grows(&ann, Some(SessionId(1)), &set(&["untrusted"]), 20));
    labels.note(&ann, Some(SessionId(1)), &["untrusted".into()], 20);
    assert_eq!(labels.in_force(&ann, Some(SessionId(2)), 20), set(&["untrusted"]));
    assert!(!labels.grows(&ann, Some(SessionId(1)), &set(&["untrusted"]), 21));
    labels.close(SessionId(2));
    assert_eq!(labels.in_force(&ann, Some(SessionId(2)), 21), set(&["untrusted"]));
}
