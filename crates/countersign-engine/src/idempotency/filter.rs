//! A filter over the keys of a run: it says "no" or "maybe", so that most runs are not read at all.
//!
//! A Bloom filter in lines of 64 bytes. All bits of a key are in one line, so that asking costs one access to memory. The digests of
//! keys are as good as random, so their own bytes are the hashes.

use countersign_core::action::KeyDigest;

/// Bits for each key. With all bits of a key in one line, 12 give a false "maybe" for about one key in 150.
const BITS_PER_KEY: u64 = 12;
/// Bits that a key sets.
const BITS_SET: u32 = 6;
const LINE_BITS: u64 = 512;
/// Bytes of a line.
pub(super) const LINE_BYTES: usize = 64;

#[derive(Debug)]
pub(super) struct Filter {
    lines: Box<[[u64; 8]]>,
}

impl Filter {
    /// A filter for so many keys.
    pub(super) fn for_keys(keys: u64) -> Self {
        let lines = keys.saturating_mul(BITS_PER_KEY).div_ceil(LINE_BITS).max(1);
        Self { lines: vec![[0; 8]; usize::try_from(lines).unwrap_or(usize::MAX)].into() }
    }

    /// A filter from its bytes.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (lines, []) = bytes.as_chunks::<LINE_BYTES>() else { return None };
        let word = |line: &[u8; LINE_BYTES], at: usize| {
            let (words, _) = line.as_chunks::<8>();
            words.get(at).map_or(0, |word| u64::from_le_bytes(*word))
        };
        let lines: Box<[[u64; 8]]> = lines.iter().map(|line| std::array::from_fn(|at| word(line, at))).collect();
        (!lines.is_empty()).then_some(Self { lines })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        self.lines.iter().flatten().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }

    pub(super) fn lines(&self) -> usize {
        self.lines.len()
    }

    pub(super) fn insert(&mut self, key: &KeyDigest) {
        let at = self.line_of(key);
        let Some(line) = self.lines.get_mut(at) else { return };
        for (word, bit) in bits(key) {
            if let Some(word) = line.get_mut(word) {
                *word |= bit;
            }
        }
    }

    /// Whether the key may be there.
    pub(super) fn may_hold(&self, key: &KeyDigest) -> bool {
        let line = self.lines.get(self.line_of(key));
        line.is_some_and(|line| bits(key).all(|(word, bit)| line.get(word).is_some_and(|word| word & bit != 0)))
    }

    fn line_of(&self, key: &KeyDigest) -> usize {
        let front = key.first_chunk().map_or(0, |front| u64::from_be_bytes(*front));
        // The front as a fraction of all lines.
        let line = (u128::from(front) * self.lines.len() as u128) >> 64;
        usize::try_from(line).unwrap_or(0)
    }
}

/// The bits that a key sets in its line: which word, and which bit of it.
fn bits(key: &KeyDigest) -> impl Iterator<Item = (usize, u64)> {
    let rest = key.last_chunk().map_or(0, |rest| u64::from_le_bytes(*rest));
    (0..BITS_SET).map(move |at| {
        let bit = (rest >> (at * 9)) % LINE_BITS;
        (usize::try_from(bit / 64).unwrap_or(0), 1 << (bit % 64))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::ids::Digest;

    fn key(number: u64) -> KeyDigest {
        *Digest::of(&number.to_le_bytes()).0.first_chunk().unwrap()
    }

    #[test]
    fn what_was_put_in_is_found_and_little_else() {
        let mut filter = Filter::for_keys(20_000);
        (0..20_000).for_each(|number| filter.insert(&key(number)));
        let mut bytes = Vec::new();
        filter.write(&mut bytes);
        assert_eq!(bytes.len(), filter.lines() * LINE_BYTES);
        let again = Filter::from_bytes(&bytes).unwrap();
        assert!((0..20_000).all(|number| again.may_hold(&key(number))), "a filter never forgets");
        let wrong = (20_000..120_000).filter(|number| again.may_hold(&key(*number))).count();
        assert!((1..1_500).contains(&wrong), "{wrong} of 100,000");
    }
}
