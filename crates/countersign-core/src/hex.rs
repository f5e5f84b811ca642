//! Bytes as lower-case hexadecimal, as ids, records and snapshots write them. There is one spelling: upper case and signs are refused.

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
