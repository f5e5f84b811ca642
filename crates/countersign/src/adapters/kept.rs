//! What is kept of an answer: as much as belongs into a ledger, without secrets.

use super::secret::Known;
use countersign_core::limits::{FACT_BYTES_MAX, RESULT_BYTES_MAX};
use countersign_core::value::Attributes;

/// The most that is kept of an answer, with room for what is said about the rest.
const KEPT_BYTES_MAX: usize = RESULT_BYTES_MAX - 64;

/// The front of an answer as text, of `bytes_max` at most, `None` where there is nothing. `bytes` is what was read, more than that by
/// the secrets' reach where there was more; `is_whole` says whether it is all there was.
pub fn text(bytes: &[u8], bytes_max: usize, is_whole: bool, known: &Known) -> Option<String> {
    if bytes.is_empty() {
        return None;
    }
    // Secrets go first: a cut through one would leave its front behind.
    let is_whole = is_whole && bytes.len() <= bytes_max;
    let all = String::from_utf8_lossy(bytes).into_owned();
    let end = if is_whole { all.len() } else { bytes_max };
    let all = known.hide_front(all, end);
    let end = all.floor_char_boundary(KEPT_BYTES_MAX);
    let front = all.get(..end).unwrap_or_default();
    Some(match (is_whole, end == all.len()) {
        (true, true) => all,
        (true, false) => format!("{front}… (cut: there were {} bytes)", bytes.len()),
        (false, _) => format!("{front}… (cut: there was more)"),
    })
}

/// A fact that was read outside, unless it is larger than a fact may be, or holds a secret: it goes into the ledger, and to agents.
pub fn fact(value: Attributes, known: &Known) -> Result<Attributes, String> {
    let bytes = if value.bytes_bound() > FACT_BYTES_MAX { value.bytes() } else { 0 };
    if bytes > FACT_BYTES_MAX {
        return Err(format!("it has {bytes} bytes; a fact has at most {FACT_BYTES_MAX}"));
    }
    if known.is_in(&value.to_json().to_string()) {
        return Err("it holds a secret of this adapter, which must not go into the ledger".to_owned());
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
        assert_eq!(text(b"", 1 << 20, true, &known), None);
        assert_eq!(text(b"ok", 1 << 20, true, &known).as_deref(), Some("ok"));
        assert_eq!(text(b"ok", 1 << 20, false, &known).as_deref(), Some("ok… (cut: there was more)"));
        let long = text("ä".repeat(20_000).as_bytes(), 1 << 20, true, &known).unwrap();
        assert!(long.ends_with("… (cut: there were 40000 bytes)") && long.len() < KEPT_BYTES_MAX + 64);
        assert_eq!(text(b"\xff", 1 << 20, true, &known).as_deref(), Some("\u{fffd}"));
    }

    #[test]
    fn a_secret_that_crosses_the_cut_leaves_nothing_behind() {
        let mut known = Known::default();
        known.add(&Source::Env("TOKEN".into()), &"sesame-open-sesame".into());
        let said = b"you sent sesame-open-sesame, and more";
        for max in 10..27 {
            let kept = text(said, max, true, &known).unwrap();
            assert_eq!(kept, "you sent [secret]\u{2026} (cut: there was more)");
        }
        assert!(known.reach() >= 18);
    }
}
