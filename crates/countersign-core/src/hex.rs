//! Bytes as lower-case hexadecimal, as ids, records and snapshots write them. There is one spelling: upper case and signs are refused.

use std::fmt;

/// The bytes that a text stands for.
pub fn bytes(text: &str) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|pair| byte(*pair)).collect()
}

/// The same where their number is known.
pub fn array<const N: usize>(text: &str) -> Option<[u8; N]> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    let mut bytes = [0; N];
    if pairs.len() != N {
        return None;
    }
    for (held, pair) in bytes.iter_mut().zip(pairs) {
        *held = byte(*pair)?;
    }
    Some(bytes)
}

/// The digits of a byte.
pub fn digits(byte: u8) -> [u8; 2] {
    let digit = |half: u8| half + if half < 10 { b'0' } else { b'a' - 10 };
    [digit(byte >> 4), digit(byte & 15)]
}

/// Writes bytes as digits, in one piece.
pub fn write<const N: usize>(f: &mut fmt::Formatter<'_>, bytes: &[u8; N]) -> fmt::Result {
    let mut text = [[0; 2]; N];
    for (digits, byte) in text.iter_mut().zip(bytes) {
        *digits = self::digits(*byte);
    }
    // Digits are always text.
    f.write_str(std::str::from_utf8(text.as_flattened()).unwrap_or_default())
}

fn byte([high, low]: [u8; 2]) -> Option<u8> {
    Some(digit(high)? << 4 | digit(low)?)
}

fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_spelling() {
        assert_eq!(bytes("00ff7a"), Some(vec![0, 255, 0x7a]));
        assert_eq!((array::<1>("0f"), array::<0>("")), (Some([15]), Some([])));
        for other in ["0", "0F", "+f", "-1", " 1", "0x", "é"] {
            assert_eq!((bytes(other), array::<1>(other)), (None, None), "{other}");
        }
        assert_eq!((array::<2>("00"), array::<1>("0000")), (None, None));
    }
}
