//! The 512 bytes that start a segment file: one sector, so that it is written whole or not at all.

use thiserror::Error;

use super::{FORMAT_VERSION, ORIGIN_BYTES_MAX, SEGMENT_MAGIC, array_at, crc32c, u16_at, u32_at, u64_at};

/// Bytes of the segment header, padded with zeros to one sector.
pub const SEGMENT_HEADER_LEN: usize = 512;
/// The value of `previous_first_index` in the first segment of a log.
pub const FIRST_SEGMENT: u64 = u64::MAX;

const CRC_AT: usize = SEGMENT_HEADER_LEN - 4;
const ORIGIN_AT: usize = 34;

/// What a segment file says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Format of everything after the header; anything but [`FORMAT_VERSION`] is refused.
    pub format_version: u32,
    /// Index of the first entry in this file.
    pub first_index: u64,
    /// `first_index` of the segment before this one, or [`FIRST_SEGMENT`]. It makes a missing segment visible without
    /// reading the others.
    pub previous_first_index: u64,
    /// Origin of the log, so that a segment of another log is never taken for one of this.
    pub origin: String,
}

/// Why the start of a file is not a segment header that this build can read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// Fewer bytes than a header has.
    #[error("the file ends inside its {SEGMENT_HEADER_LEN}-byte header")]
    Short,
    /// The magic bytes are wrong.
    #[error("the file does not start as a segment does")]
    Magic,
    /// The checksum does not match.
    #[error("the header's checksum does not match")]
    Checksum,
    /// A format that this build does not know.
    #[error("the log has format version {found}, and this build reads version {FORMAT_VERSION} only")]
    Version {
        /// The version in the file.
        found: u32,
    },
    /// The origin is longer than fits, or is not UTF-8.
    #[error("the origin in the header is not readable")]
    Origin,
}

impl HeaderError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Short => "it was truncated; restore it from a copy",
            Self::Magic => "it is not a segment, or its first bytes were overwritten",
            Self::Checksum => "bytes of the header were changed; restore the file from a copy",
            Self::Version { .. } => {
                "go on with the build that wrote it; a log of another version cannot be converted, so begin a new folder \
                 with `countersign init`"
            }
            Self::Origin => return Some(format!("an origin is UTF-8 of at most {ORIGIN_BYTES_MAX} bytes")),
        };
        Some(hint.to_owned())
    }
}

impl SegmentHeader {
    /// The header's bytes.
    pub fn encode(&self) -> Result<[u8; SEGMENT_HEADER_LEN], HeaderError> {
        if self.format_version != FORMAT_VERSION {
            return Err(HeaderError::Version { found: self.format_version });
        }
        let origin_len = u16::try_from(self.origin.len()).map_err(|_| HeaderError::Origin)?;
        if self.origin.len() > ORIGIN_BYTES_MAX {
            return Err(HeaderError::Origin);
        }
        let mut bytes = [0u8; SEGMENT_HEADER_LEN];
        let fields = [
            SEGMENT_MAGIC.as_slice(),
            &self.format_version.to_le_bytes(),
            // Four bytes of zeros keep the 64-bit fields aligned.
            &[0; 4],
            &self.first_index.to_le_bytes(),
            &self.previous_first_index.to_le_bytes(),
            &origin_len.to_le_bytes(),
            self.origin.as_bytes(),
        ];
        for (slot, byte) in bytes.iter_mut().zip(fields.into_iter().flatten()) {
            *slot = *byte;
        }
        let (covered, checksum) = bytes.split_at_mut(CRC_AT);
        checksum.copy_from_slice(&crc32c(covered).to_le_bytes());
        Ok(bytes)
    }

    /// Reads a header from the start of a file.
    pub fn parse(bytes: &[u8]) -> Result<Self, HeaderError> {
        let bytes = bytes.get(..SEGMENT_HEADER_LEN).ok_or(HeaderError::Short)?;
        if array_at(bytes, 0) != Some(SEGMENT_MAGIC) {
            return Err(HeaderError::Magic);
        }
        let covered = bytes.get(..CRC_AT).ok_or(HeaderError::Short)?;
        // The version comes before the checksum: a later format may place its checksum elsewhere, and then the version
        // is the more useful thing to say.
        let format_version = u32_at(bytes, 8).ok_or(HeaderError::Short)?;
        if format_version != FORMAT_VERSION {
            return Err(HeaderError::Version { found: format_version });
        }
        if u32_at(bytes, CRC_AT) != Some(crc32c(covered)) {
            return Err(HeaderError::Checksum);
        }
        let first_index = u64_at(bytes, 16).ok_or(HeaderError::Short)?;
        let previous_first_index = u64_at(bytes, 24).ok_or(HeaderError::Short)?;
        let origin_len = usize::from(u16_at(bytes, 32).ok_or(HeaderError::Short)?);
        if origin_len > ORIGIN_BYTES_MAX {
            return Err(HeaderError::Origin);
        }
        let origin = bytes.get(ORIGIN_AT..ORIGIN_AT + origin_len).ok_or(HeaderError::Origin)?;
        let origin = std::str::from_utf8(origin).map_err(|_| HeaderError::Origin)?.to_owned();
        Ok(Self { format_version, first_index, previous_first_index, origin })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may panic")]
mod tests {
    use super::*;

    fn header() -> SegmentHeader {
        SegmentHeader {
            format_version: FORMAT_VERSION,
            first_index: 812,
            previous_first_index: 400,
            origin: "gate.example/log".into(),
        }
    }

    #[test]
    fn round_trips_and_sees_every_flipped_byte() {
        let bytes = header().encode().unwrap();
        assert_eq!(SegmentHeader::parse(&bytes), Ok(header()));
        for at in 0..SEGMENT_HEADER_LEN {
            let mut changed = bytes;
            changed[at] ^= 0x20;
            assert!(SegmentHeader::parse(&changed).is_err(), "byte {at}");
        }
        assert_eq!(SegmentHeader::parse(&bytes[..511]), Err(HeaderError::Short));
    }

    #[test]
    fn an_unknown_version_is_named_not_guessed() {
        let mut bytes = header().encode().unwrap();
        bytes[8] = 3;
        assert_eq!(SegmentHeader::parse(&bytes), Err(HeaderError::Version { found: 3 }));
        assert_eq!(SegmentHeader { format_version: 3, ..header() }.encode(), Err(HeaderError::Version { found: 3 }));
    }

    #[test]
    fn an_origin_that_does_not_fit_is_refused() {
        let long = SegmentHeader { origin: "o".repeat(ORIGIN_BYTES_MAX + 1), ..header() };
        assert_eq!(long.encode(), Err(HeaderError::Origin));
    }
}
