//! Escapes of URLs, of HTML and of strings in programs, taken off a whole text.

use super::super::derived::Derived;

/// `%49%67`. A plus is a space, as it is in forms.
pub(super) fn percent(text: &str) -> Derived {
    let mut out = Derived::with_room_for(text.len());
    let mut at = 0_usize;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let bytes = escaped_bytes(rest);
        if bytes.is_empty() {
            let char = rest.chars().next().unwrap_or_default();
            out.push(if char == '+' { ' ' } else { char }, at);
            at = at.saturating_add(char.len_utf8().max(1));
            continue;
        }
        let mut of = at;
        for char in String::from_utf8_lossy(&bytes).chars() {
            out.push(char, of);
            of = of.saturating_add(char.len_utf8().saturating_mul(3));
        }
        at = at.saturating_add(bytes.len().saturating_mul(3));
    }
    out.mark(text.len());
    out
}

/// The bytes of the escapes with which a text begins.
fn escaped_bytes(text: &str) -> Vec<u8> {
    let groups = text.as_bytes().chunks(3).map_while(|group| match group {
        [b'%', digits @ ..] if digits.len() == 2 && digits.iter().all(u8::is_ascii_hexdigit) => {
            u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
        }
        _ => None,
    });
    groups.collect()
}

/// `&#105;`, `&#x69;` and the few names that stand for signs of ASCII.
pub(super) fn entities(text: &str) -> Derived {
    replaced(text, '&', |rest| {
        let end = rest.bytes().take(12).position(|byte| byte == b';')?;
        let name = rest.get(1..end)?;
        let char = match name {
            "lt" => '<',
            "gt" => '>',
            "amp" => '&',
            "quot" => '"',
            "apos" => '\'',
            "nbsp" => ' ',
            _ => {
                let number = name.strip_prefix('#')?;
                let code = match number.strip_prefix(['x', 'X']) {
                    Some(hex) => u32::from_str_radix(hex, 16),
                    None => number.parse(),
                };
                char::from_u32(code.ok()?)?
            }
        };
        Some((char, end.saturating_add(1)))
    })
}

/// `\u0069`, `\u{69}` and `\x69`.
pub(super) fn backslashes(text: &str) -> Derived {
    replaced(text, '\\', |rest| {
        let kind = rest.as_bytes().get(1)?;
        let (digits, len) = match (kind, rest.as_bytes().get(2)) {
            (b'u', Some(b'{')) => {
                let end = rest.bytes().take(12).position(|byte| byte == b'}')?;
                (rest.get(3..end)?, end.saturating_add(1))
            }
            (b'u', _) => (rest.get(2..6)?, 6),
            (b'x', _) => (rest.get(2..4)?, 4),
            (b'n' | b't' | b'r', _) => return Some((' ', 2)),
            _ => return None,
        };
        Some((char::from_u32(u32::from_str_radix(digits, 16).ok()?)?, len))
    })
}

/// The text with what begins with a sign replaced where that reads as an escape: by a character, for so many bytes.
fn replaced(text: &str, sign: char, read: impl Fn(&str) -> Option<(char, usize)>) -> Derived {
    let mut out = Derived::with_room_for(text.len());
    let mut until = 0_usize;
    for (at, char) in text.char_indices() {
        if at < until {
            continue;
        }
        let escape = (char == sign).then(|| text.get(at..).and_then(&read)).flatten();
        let (char, len) = escape.unwrap_or((char, char.len_utf8()));
        out.push(char, at);
        until = at.saturating_add(len);
    }
    out.mark(text.len());
    out
}
