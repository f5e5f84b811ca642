//! Values by what they begin with: a filter that most places of a text do not pass, and the values behind it.

use std::collections::BTreeMap;

/// Bits of the filter of a new table, as a power of two, and for how many beginnings they are enough.
const FILTER_BITS_MIN: u32 = 10;
const BITS_EACH: usize = 32;

/// Values by their first bytes.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    /// One bit for each beginning, at a place that follows from it. Its length is a power of two.
    filter: Vec<u64>,
    /// How many bits there are, as a power of two.
    bits: u32,
    values: BTreeMap<u64, Vec<usize>>,
}

/// The first bytes of a value, as a number.
pub(super) fn key(bytes: &[u8], width: usize) -> Option<u64> {
    let front = bytes.get(..width)?;
    Some(front.iter().fold(0, |key, byte| next(key, *byte, mask(width))))
}

/// The bytes that a number of this width holds.
pub(super) fn mask(width: usize) -> u64 {
    u32::try_from(width)
        .ok()
        .and_then(|width| 1_u64.checked_shl(width.saturating_mul(8)))
        .map_or(u64::MAX, |end| end - 1)
}

/// The window one byte further.
pub(super) fn next(key: u64, byte: u8, mask: u64) -> u64 {
    (key << 8 | u64::from(byte)) & mask
}

impl Table {
    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Adds a value that begins like this, unless as many do already.
    pub(super) fn add(&mut self, key: u64, value: usize, like_max: usize) -> bool {
        let alike = self.values.entry(key).or_default();
        if alike.len() >= like_max {
            return false;
        }
        alike.push(value);
        if self.values.len().saturating_mul(BITS_EACH) > self.filter.len().saturating_mul(64) {
            self.grow();
        } else {
            self.mark(key);
        }
        true
    }

    fn grow(&mut self) {
        self.bits = if self.filter.is_empty() { FILTER_BITS_MIN } else { self.bits.saturating_add(1) };
        let words = 1_usize.checked_shl(self.bits.saturating_sub(6)).unwrap_or(1);
        self.filter = vec![0; words];
        let keys: Vec<u64> = self.values.keys().copied().collect();
        keys.into_iter().for_each(|key| self.mark(key));
    }

    fn place(&self, key: u64) -> (usize, u64) {
        let hash = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let at = hash.checked_shr(64_u32.saturating_sub(self.bits)).unwrap_or(0);
        (usize::try_from(at >> 6).unwrap_or(0), 1 << (at & 63))
    }

    fn mark(&mut self, key: u64) {
        let (word, bit) = self.place(key);
        if let Some(word) = self.filter.get_mut(word) {
            *word |= bit;
        }
    }

    /// The values that begin like this.
    pub(super) fn at(&self, key: u64) -> &[usize] {
        let (word, bit) = self.place(key);
        match self.filter.get(word) {
            Some(word) if word & bit != 0 => self.values.get(&key).map_or(&[], Vec::as_slice),
            _ => &[],
        }
    }
}
