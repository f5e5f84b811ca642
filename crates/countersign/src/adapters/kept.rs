//! What is kept of an answer: as much as belongs into a ledger, without secrets.

use super::secret::Known;

/// The most that is kept of an answer: an entry has 64 KiB, and this is read by people.
const KEPT_BYTES_MAX: usize = 16 << 10;

/// The front of an answer as text, `None` where there is nothing; `is_whole` says whether `bytes` is all there was.
pub fn text(bytes: &[u8], is_whole: bool, known: &Known) -> Option<String> {
    if bytes.is_empty() {
        return None;
    }
    // Secrets go first: a cut through one would leave its front behind.
    let all = known.hide(String::from_utf8_lossy(bytes).into_owned());
    let end = all.floor_char_boundary(KEPT_BYTES_MAX);
    let front = all.get(..end).unwrap_or_default();
    Some(match (is_whole, end == all.len()) {
        (true, true) => all,
        (true, false) => format!("{front}… (cut: there were {} bytes)", bytes.len()),
        (false, _) => format!("{front}… (cut: there was more)"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_answer_is_cut_and_says_so() {
        let known = Known::default();
        assert_eq!(text(b"", true, &known), None);
        assert_eq!(text(b"ok", true, &known).as_deref(), Some("ok"));
        assert_eq!(text(b"ok", false, &known).as_deref(), Some("ok… (cut: there was more)"));
        let long = text("ä".repeat(20_000).as_bytes(), true, &known).unwrap();
        assert!(long.ends_with("… (cut: there were 40000 bytes)") && long.len() < KEPT_BYTES_MAX + 64);
        assert_eq!(text(b"\xff", true, &known).as_deref(), Some("\u{fffd}"));
    }
}
