//! What a payload says of why something was blocked, and decisions that are the same but for those words.
//!
//! A rejection also says for people what is wrong and what to do. Those words get better from version to version, and none of them
//! decides anything: codes, conditions, values and versions do. So an auditor with another version than the gate had is told that
//! an entry says the same in other words, and not that it differs.

use countersign_core::canonical::Canonical;
use countersign_core::code::Code;
use serde_json::Value;

/// Where a payload explains why something was blocked, or would have been.
const EXPLAINED: [&str; 4] = ["/blocked", "/shadowed", "/decision/blocked", "/decision/shadowed"];

/// Whether two payloads differ in nothing but words for people.
pub(super) fn differ_in_words_only(recorded: &[u8], again: &[u8]) -> bool {
    let (Ok(mut recorded_value), Ok(mut again)) = (serde_json::from_slice(recorded), serde_json::from_slice(again))
    else {
        return false;
    };
    // What is not written in the canonical form differs in more than words.
    let mut canonical = Canonical::new();
    canonical.json(&recorded_value);
    if canonical.as_str().as_bytes() != recorded {
        return false;
    }
    take_words(&mut recorded_value);
    take_words(&mut again);
    recorded_value == again
}

/// Whether a payload gives one of these codes at one of those places. What an agent wrote into its body says nothing.
pub(super) fn says_one_of(payload: &[u8], codes: &[Code]) -> bool {
    let Ok(payload) = serde_json::from_slice::<Value>(payload) else { return false };
    let code = |place: &&str| payload.pointer(place).and_then(|blocked| blocked.get("code")?.as_str());
    EXPLAINED.iter().filter_map(code).any(|said| codes.iter().any(|code| code.as_str() == said))
}

/// Leaves of every text for people only that it is there.
fn take_words(payload: &mut Value) {
    let blank = |value: &mut Value, words: &[&str]| {
        for word in words {
            if let Some(text @ Value::String(_)) = value.get_mut(word) {
                *text = Value::String(String::new());
            }
        }
    };
    for place in EXPLAINED {
        let Some(blocked) = payload.pointer_mut(place) else { continue };
        blank(blocked, &["hint", "message"]);
        for failed in blocked.get_mut("failed").and_then(Value::as_array_mut).into_iter().flatten() {
            blank(failed, &["hint", "error"]);
        }
    }
}
