//! CRC-32C (Castagnoli), for the few header bytes that are not under a signature.

const TABLE: [u32; 256] = table();

#[expect(clippy::indexing_slicing, reason = "evaluated at compile time; an index out of range would not compile")]
const fn table() -> [u32; 256] {
    let mut table = [0u32; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

/// The CRC-32C of `bytes`.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        let slot = (crc ^ u32::from(*byte)) & 0xff;
        // The table has 256 slots and `slot` is below 256, so the default is never taken.
        crc = (crc >> 8) ^ TABLE.get(slot as usize).copied().unwrap_or_default();
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::crc32c;

    #[test]
    fn matches_the_published_check_values() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        // RFC 3720, B.4: 32 bytes of zeros and 32 bytes of ones.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    }
}
