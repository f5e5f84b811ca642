//! How random a value looks, without floats: Shannon's entropy of its characters, in thousandths of a bit.

/// Values are looked at up to here.
const BYTES_MAX: usize = 128;

/// 1000 · log2(n), rounded, for n up to [`BYTES_MAX`].
const LOG2: [u32; BYTES_MAX + 1] = {
    let mut table = [0; BYTES_MAX + 1];
    let mut n = 1;
    while n <= BYTES_MAX {
        #[expect(clippy::indexing_slicing, reason = "the loop ends with the last place of the table")]
        {
            table[n] = log2_thousandths(n as u64);
        }
        n += 1;
    }
    table
};

/// By squaring: each step gives one binary digit of the fraction.
const fn log2_thousandths(n: u64) -> u32 {
    let whole = 63 - n.leading_zeros();
    // The fraction part of n / 2^whole in 32.32 fixed point, between 1 and 2.
    let mut x = (n << 32) >> whole;
    let mut fraction = 0_u64;
    let mut step = 0;
    while step < 20 {
        let squared = (x as u128 * x as u128) >> 32;
        fraction <<= 1;
        if squared >= 2 << 32 {
            fraction |= 1;
            x = (squared >> 1) as u64;
        } else {
            x = squared as u64;
        }
        step += 1;
    }
    whole * 1000 + ((fraction * 1000 + (1 << 19)) >> 20) as u32
}

/// So many bits and hundredths of one, in thousandths.
pub(super) const fn bits(whole: u32, hundredths: u32) -> u32 {
    whole * 1000 + hundredths * 10
}

fn log2(n: u32) -> u32 {
    usize::try_from(n).ok().and_then(|n| LOG2.get(n)).copied().unwrap_or_default()
}

/// The entropy of the characters of a value.
pub(super) fn per_character(value: &[u8]) -> u32 {
    let value = value.get(..BYTES_MAX).unwrap_or(value);
    let mut counts = [0_u32; 256];
    for byte in value {
        if let Some(count) = counts.get_mut(usize::from(*byte)) {
            *count = count.saturating_add(1);
        }
    }
    let Some(len) = u32::try_from(value.len()).ok().filter(|len| *len > 0) else { return 0 };
    // H = log2(n) - (1/n) Σ c·log2(c)
    let sum = counts.iter().map(|count| count.saturating_mul(log2(*count))).fold(0_u32, u32::saturating_add);
    log2(len).saturating_sub(sum.checked_div(len).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropy_is_that_of_shannon() {
        for (value, thousandths) in
            [("", 0), ("aaaa", 0), ("abab", 1000), ("abcd", 2000), ("abcdefgh", 3000), ("aab", 918)]
        {
            let found = per_character(value.as_bytes());
            assert!(found.abs_diff(thousandths) <= 1, "{value}: {found}");
        }
        assert_eq!((log2(3), log2(100), log2(128)), (1585, 6644, 7000));
    }
}
