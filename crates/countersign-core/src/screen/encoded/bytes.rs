//! Bytes in base64 and hex, where they are text.

use super::super::derived::Derived;

/// Decodes base64 in either alphabet, whole groups first; what is left over at the end is decoded as far as it goes. `None` for what is
/// no text.
pub(in crate::screen) fn base64(run: &[u8]) -> Option<String> {
    let mut out = Vec::with_capacity(run.len());
    let (mut bits, mut filled) = (0_u32, 0_u32);
    for byte in run {
        bits = (bits << 6 | u32::from(value(*byte)?)) & 0xff_ffff;
        filled = filled.saturating_add(6);
        if filled >= 8 {
            filled = filled.saturating_sub(8);
            out.push(u8::try_from(bits >> filled & 0xff).ok()?);
            // Most runs are no text, and show it at once.
            if out.len() == 16 && !is_text(&out) {
                return None;
            }
        }
    }
    text(out)
}

fn value(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => byte.checked_sub(b'A'),
        b'a'..=b'z' => byte.checked_sub(b'a')?.checked_add(26),
        b'0'..=b'9' => byte.checked_sub(b'0')?.checked_add(52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    }
}

/// Decodes hex, with or without `0x` before it.
pub(super) fn hex(run: &[u8]) -> Option<String> {
    let digits = run.strip_prefix(b"0x").unwrap_or(run);
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    text(digits.chunks_exact(2).filter_map(pair).collect())
}

fn pair(pair: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()
}

/// Bytes written in groups of two with something between them: `49 67 6e`, `49:67`.
pub(super) fn pairs(text: &str) -> Derived {
    let mut out = Derived::with_room_for(64);
    let mut at = 0_usize;
    for group in text.split(|char: char| !char.is_ascii_alphanumeric()) {
        let from = at;
        at = at.saturating_add(group.len());
        at = at.saturating_add(text.get(at..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8));
        let digits = group.as_bytes();
        let byte = (digits.len() == 2 && digits.iter().all(u8::is_ascii_hexdigit)).then(|| pair(digits)).flatten();
        if let Some(byte) = byte.filter(|byte| byte.is_ascii_graphic() || *byte == b' ') {
            out.push(char::from(byte), from);
        }
    }
    out.mark(text.len());
    out
}

fn is_text(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte >= b' ' || matches!(byte, b'\t' | b'\n' | b'\r'))
}

fn text(bytes: Vec<u8>) -> Option<String> {
    let text = if is_text(&bytes) { String::from_utf8(bytes) } else { return None };
    // A cut in the middle of a character is no reason to see nothing.
    match text {
        Ok(text) => Some(text),
        Err(error) => {
            let whole = error.utf8_error().valid_up_to();
            let mut bytes = error.into_bytes();
            let is_cut = bytes.len().saturating_sub(whole) < 4;
            bytes.truncate(whole);
            if is_cut { String::from_utf8(bytes).ok() } else { None }
        }
    }
}
