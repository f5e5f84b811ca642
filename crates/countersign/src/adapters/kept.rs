//! What is kept of an answer: as much as belongs into a ledger, without secrets.

use super::secret::Known;
use countersign_core::call::{Found, FoundCode};
use countersign_core::limits::{FACT_BYTES_MAX, RESULT_BYTES_MAX};
use countersign_core::value::Attributes;

/// The front of an answer as text, of `bytes_max` at most, `None` where there is nothing; and whether there was more. `bytes` is what
/// was read, more than that by the secrets' reach where there was more; `is_whole` says whether it is all there was.
pub fn text(bytes: &[u8], bytes_max: usize, is_whole: bool, known: &Known) -> (Option<String>, bool) {
    if bytes.is_empty() {
        return (None, false);
    }
    // Secrets go first: a cut through one would leave its front behind.
    let is_whole = is_whole && bytes.len() <= bytes_max;
    let all = String::from_utf8_lossy(bytes).into_owned();
    let end = if is_whole { all.len() } else { bytes_max };
    let mut front = known.hide_front(all, end);
    let is_cut = !is_whole || front.len() > RESULT_BYTES_MAX;
    front.truncate(front.floor_char_boundary(RESULT_BYTES_MAX));
    (Some(front), is_cut)
}

/// A fact that was read outside, unless it is larger than a fact may be, or holds a secret: it goes into the ledger, and to agents.
pub fn fact(value: Attributes, known: &Known) -> Result<Attributes, Found> {
    let bytes = if value.bytes_bound() > FACT_BYTES_MAX { value.bytes() } else { 0 };
    if bytes > FACT_BYTES_MAX {
        return Err(FoundCode::FactTooLarge.number(bytes));
    }
    if known.is_in(&value.to_json().to_string()) {
        return Err(FoundCode::HoldsSecret.alone());
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::super::secret::Source;
    use super::*;

    #[test]
    fn a_long_answer_is_cut_and_says_so() {
        let known = Known::default();
        assert_eq!(text(b"", 1 << 20, true, &known), (None, false));
        assert_eq!(text(b"ok", 1 << 20, true, &known), (Some("ok".into()), false));
        assert_eq!(text(b"ok", 1 << 20, false, &known), (Some("ok".into()), true));
        let long = text("ä".repeat(20_000).as_bytes(), 1 << 20, true, &known);
        assert_eq!(long, (Some("ä".repeat(RESULT_BYTES_MAX / 2)), true));
        assert_eq!(text(b"\xff", 1 << 20, true, &known), (Some("\u{fffd}".into()), false));
    }

    #[test]
    fn a_secret_that_crosses_the_cut_leaves_nothing_behind() {
        let mut known = Known::default();
        known.add(&Source::Env("TOKEN".into()), &"sesame-open-sesame".into());
        let said = b"you sent sesame-open-sesame, and more";
        for max in 10..27 {
            let kept = text(said, max, true, &known);
            assert_eq!(kept, (Some("you sent [secret]".into()), true));
        }
        assert!(known.reach() >= 18);
    }
}
