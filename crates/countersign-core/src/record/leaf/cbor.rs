//! Deterministic CBOR (RFC 8949, section 4.2) as leaves need it, written straight into its bytes.
//!
//! A leaf is written for every entry, and most of it are a few bytes at a time: each piece goes in with one copy of known length, and
//! nothing can fail.

/// Where bytes go.
pub(super) trait Sink {
    /// Takes the next bytes.
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Writes values, each with the shortest head there is.
pub(super) struct Cbor<'a, S>(pub(super) &'a mut S);

impl<S: Sink> Cbor<'_, S> {
    #[inline]
    fn head(&mut self, major: u8, number: u64) {
        let major = major << 5;
        match number.to_be_bytes() {
            [0, 0, 0, 0, 0, 0, 0, a] if a < 24 => self.0.put(&[major | a]),
            [0, 0, 0, 0, 0, 0, 0, a] => self.0.put(&[major | 24, a]),
            [0, 0, 0, 0, 0, 0, a, b] => self.0.put(&[major | 25, a, b]),
            [0, 0, 0, 0, a, b, c, d] => self.0.put(&[major | 26, a, b, c, d]),
            [a, b, c, d, e, f, g, h] => self.0.put(&[major | 27, a, b, c, d, e, f, g, h]),
        }
    }

    #[inline]
    pub(super) fn u64(&mut self, number: u64) -> &mut Self {
        self.head(0, number);
        self
    }

    /// A number below 24: of a member, or a code.
    #[inline]
    pub(super) fn u8(&mut self, number: u8) -> &mut Self {
        self.u64(number.into())
    }

    #[inline]
    pub(super) fn i64(&mut self, number: i64) -> &mut Self {
        match u64::try_from(number) {
            Ok(number) => self.head(0, number),
            // `-1 - number`, which is what the complement is.
            Err(_) => self.head(1, (!number).unsigned_abs()),
        }
        self
    }

    #[inline]
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.head(2, len(bytes.len()));
        self.0.put(bytes);
        self
    }

    #[inline]
    pub(super) fn str(&mut self, text: &str) -> &mut Self {
        self.head(3, len(text.len()));
        self.0.put(text.as_bytes());
        self
    }

    /// An array of so many values, which follow.
    #[inline]
    pub(super) fn array(&mut self, items: usize) -> &mut Self {
        self.head(4, len(items));
        self
    }

    /// A map of so many members, which follow.
    #[inline]
    pub(super) fn map(&mut self, members: u64) -> &mut Self {
        self.head(5, members);
        self
    }
}

fn len(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another writer of the same format says the same.
    #[test]
    fn every_head_is_as_minicbor_writes_it() {
        let numbers = [0, 1, 23, 24, 255, 256, 65_535, 65_536, u64::from(u32::MAX), 1 << 32, (1 << 53) - 1, u64::MAX];
        for number in numbers {
            let mut ours = Vec::new();
            Cbor(&mut ours).u64(number).map(number);
            let mut theirs = minicbor::Encoder::new(Vec::new());
            theirs.u64(number).unwrap().map(number).unwrap();
            assert_eq!(ours, theirs.into_writer());
        }
        for number in [0, 1, -1, -24, -25, -256, -257, i64::MIN, i64::MAX] {
            let mut ours = Vec::new();
            Cbor(&mut ours).i64(number);
            let mut theirs = minicbor::Encoder::new(Vec::new());
            theirs.i64(number).unwrap();
            assert_eq!(ours, theirs.into_writer());
        }
        for count in [0, 1, 23, 24, 300, 70_000] {
            let text = "x".repeat(count);
            let mut ours = Vec::new();
            Cbor(&mut ours).u8(7).str(&text).bytes(text.as_bytes()).array(count);
            let mut theirs = minicbor::Encoder::new(Vec::new());
            theirs.u8(7).unwrap().str(&text).unwrap().bytes(text.as_bytes()).unwrap().array(count as u64).unwrap();
            assert_eq!(ours, theirs.into_writer());
        }
    }
}
