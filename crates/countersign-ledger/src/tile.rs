//! Tiles and entry bundles of C2SP tlog-tiles: their paths and their bytes.
//!
//! A path has one spelling. The parser takes nothing else, so that a cache or a file system cannot be made to hold one tile
//! under two names. Whether a tile exists is for the caller to say: this module knows no tree.

use std::fmt;

use crate::checkpoint::canonical_decimal;
use crate::hash::Hash;

/// Hashes in a full tile, and entries in a full bundle.
pub const FULL_WIDTH: u16 = 256;
/// The highest tile level that a path may name.
const MAX_LEVEL: u8 = 63;
/// The longest entry: its length is written in 16 bits.
pub const MAX_ENTRY_BYTES: usize = u16::MAX as usize;

/// What a path under `/log/` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TileRef {
    /// A tile of tree hashes.
    Hashes {
        /// The tile level: a hash in the tile covers 256^level entries.
        level: u8,
        /// The tile's number on that level.
        index: u64,
        /// How many hashes it has, 256 if it is full.
        width: u16,
    },
    /// A bundle of entries.
    Entries {
        /// The bundle's number: its first entry is 256 times that.
        index: u64,
        /// How many entries it has, 256 if it is full.
        width: u16,
    },
}

impl fmt::Display for TileRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&match *self {
            Self::Hashes { level, index, width } => tile_path(level, index, width),
            Self::Entries { index, width } => entries_path(index, width),
        })
    }
}

/// The path of a tile of hashes, such as `tile/0/x001/x234/067` or, partial, `tile/1/000.p/17`.
///
/// A width of 256 is a full tile. Widths above that do not exist and count as full; a width of 0 gives a path that
/// [`parse_path`] refuses.
#[must_use]
pub fn tile_path(level: u8, index: u64, width: u16) -> String {
    format!("tile/{level}/{}", index_path(index, width))
}

/// The path of an entry bundle, such as `tile/entries/x001/x234/067`; for widths see [`tile_path`].
#[must_use]
pub fn entries_path(index: u64, width: u16) -> String {
    format!("tile/entries/{}", index_path(index, width))
}

fn index_path(index: u64, width: u16) -> String {
    let mut path = format!("{:03}", index % 1000);
    let mut rest = index / 1000;
    while rest > 0 {
        path = format!("x{:03}/{path}", rest % 1000);
        rest /= 1000;
    }
    if width < FULL_WIDTH {
        path.push_str(&format!(".p/{width}"));
    }
    path
}

/// Why a path names no tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the path of a tile")]
pub struct PathError;

impl PathError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        Some(
            "expected `tile/<level>/<index>` or `tile/entries/<index>` with the index as `x001/x234/067`, and \
              `.p/<width>` (1 to 255) after it for a partial one"
                .to_owned(),
        )
    }
}

/// Reads a path that [`tile_path`] or [`entries_path`] wrote.
///
/// # Errors
/// If the path is in any other form.
pub fn parse_path(path: &str) -> Result<TileRef, PathError> {
    let (kind, rest) = path.strip_prefix("tile/").and_then(|rest| rest.split_once('/')).ok_or(PathError)?;
    let (numbers, width) = match rest.split_once(".p/") {
        Some((numbers, width)) => (numbers, canonical_decimal(width).ok_or(PathError)?),
        None => (rest, u64::from(FULL_WIDTH)),
    };
    let width = u16::try_from(width).map_err(|_| PathError)?;
    let index = parse_index(numbers).ok_or(PathError)?;
    let tile = if kind == "entries" {
        TileRef::Entries { index, width }
    } else {
        let level = canonical_decimal(kind).and_then(|level| u8::try_from(level).ok());
        TileRef::Hashes { level: level.filter(|level| *level <= MAX_LEVEL).ok_or(PathError)?, index, width }
    };
    // Writing it again catches what is left: leading groups of zeroes, `.p/256`, a width of nothing.
    if width > 0 && tile.to_string() == path { Ok(tile) } else { Err(PathError) }
}

fn parse_index(text: &str) -> Option<u64> {
    let mut index = 0_u64;
    for group in text.split('/') {
        let digits = group.strip_prefix('x').unwrap_or(group);
        if digits.len() != 3 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        index = index.checked_mul(1000)?.checked_add(digits.parse().ok()?)?;
    }
    Some(index)
}

/// Why bytes are not a tile or a bundle, or entries cannot be put in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// An entry does not fit the 16 bits of its length.
    #[error("entry {position} of the bundle has {bytes} bytes, more than {MAX_ENTRY_BYTES}")]
    EntryTooLarge {
        /// Which one in the bundle.
        position: usize,
        /// Its length.
        bytes: usize,
    },
    /// More than fit in a full tile.
    #[error("more than {FULL_WIDTH} items")]
    TooMany,
    /// The bytes end in the middle of an item.
    #[error("the bytes end inside item {position}")]
    CutShort {
        /// The item that is not whole.
        position: usize,
    },
}

impl BundleError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::EntryTooLarge { .. } => "refuse such an entry before it is logged",
            Self::TooMany => {
                return Some(format!("a tile or bundle holds at most {FULL_WIDTH}, split at multiples of that"));
            }
            Self::CutShort { .. } => "the download or file was cut short, get it again",
        };
        Some(hint.to_owned())
    }
}

/// The bytes of a bundle: each entry after its length as a big-endian 16-bit number.
///
/// # Errors
/// If there are more than 256 entries, or one is longer than 65,535 bytes.
pub fn encode_bundle(entries: &[&[u8]]) -> Result<Vec<u8>, BundleError> {
    if entries.len() > usize::from(FULL_WIDTH) {
        return Err(BundleError::TooMany);
    }
    let mut bundle = Vec::with_capacity(entries.iter().map(|entry| entry.len() + 2).sum());
    for (position, entry) in entries.iter().enumerate() {
        let too_large = BundleError::EntryTooLarge { position, bytes: entry.len() };
        let length = u16::try_from(entry.len()).map_err(|_| too_large)?;
        bundle.extend_from_slice(&length.to_be_bytes());
        bundle.extend_from_slice(entry);
    }
    Ok(bundle)
}

/// The entries in a bundle.
///
/// # Errors
/// If the bytes end inside an entry or hold more than 256.
pub fn decode_bundle(bundle: &[u8]) -> Result<Vec<&[u8]>, BundleError> {
    let mut entries = Vec::new();
    let mut rest = bundle;
    while !rest.is_empty() {
        let cut_short = BundleError::CutShort { position: entries.len() };
        if entries.len() == usize::from(FULL_WIDTH) {
            return Err(BundleError::TooMany);
        }
        let (length, after) = rest.split_first_chunk::<2>().ok_or(cut_short)?;
        let (entry, after) = after.split_at_checked(u16::from_be_bytes(*length).into()).ok_or(cut_short)?;
        entries.push(entry);
        rest = after;
    }
    Ok(entries)
}

/// The bytes of a tile: its hashes one after the other.
#[must_use]
pub fn encode_tile(hashes: &[Hash]) -> Vec<u8> {
    hashes.iter().flat_map(|hash| hash.0).collect()
}

/// The hashes in a tile.
///
/// # Errors
/// If the bytes end inside a hash or hold more than 256.
pub fn decode_tile(tile: &[u8]) -> Result<Vec<Hash>, BundleError> {
    let (hashes, rest) = tile.as_chunks::<32>();
    if !rest.is_empty() {
        return Err(BundleError::CutShort { position: hashes.len() });
    }
    if hashes.len() > usize::from(FULL_WIDTH) {
        return Err(BundleError::TooMany);
    }
    Ok(hashes.iter().copied().map(Hash).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_specification() {
        assert_eq!(tile_path(0, 1_234_067, 256), "tile/0/x001/x234/067");
        assert_eq!(tile_path(1, 0, 17), "tile/1/000.p/17");
        assert_eq!(entries_path(1_234_067, 8), "tile/entries/x001/x234/067.p/8");
        assert_eq!(entries_path(1000, 256), "tile/entries/x001/000");
        let last = tile_path(63, u64::MAX, 255);
        assert_eq!(last, "tile/63/x018/x446/x744/x073/x709/x551/615.p/255");
        assert_eq!(parse_path(&last), Ok(TileRef::Hashes { level: 63, index: u64::MAX, width: 255 }));
    }

    #[test]
    fn paths_have_one_spelling() {
        for index in [0, 1, 999, 1000, 123_456, 999_999, 1_000_000, u64::MAX] {
            for width in [1, 9, 255, 256] {
                let tile = TileRef::Hashes { level: 2, index, width };
                assert_eq!(parse_path(&tile.to_string()), Ok(tile));
                let bundle = TileRef::Entries { index, width };
                assert_eq!(parse_path(&bundle.to_string()), Ok(bundle));
            }
        }
        for wrong in [
            "",
            "tile",
            "tile/",
            "tile/0",
            "tile/0/",
            "tile/0/0",
            "tile/0/00",
            "tile/0/0000",
            "/tile/0/000",
            "tile/0/000/",
            "tile/00/000",
            "tile/64/000",
            "tile/256/000",
            "tile/-1/000",
            "tile/+1/000",
            "tile/a/000",
            "tile/0/x000/001",
            "tile/0/001/002",
            "tile/0/x001",
            "tile/0/x001/x002",
            "tile/0/X001/002",
            "tile/0/000.p/",
            "tile/0/000.p/0",
            "tile/0/000.p/256",
            "tile/0/000.p/01",
            "tile/0/000.p/+1",
            "tile/0/000.p/1/",
            "tile/0/000.p/1.p/1",
            "tile/0/000.p/99999999999999999999",
            "tile/entries/0",
            "tile/Entries/000",
            "tile/entries/../000",
            "tile/0/+00",
            "tile/0/x018/x446/x744/x073/x709/x551/616",
            "tile/0/x999/x999/x999/x999/x999/x999/x999/999",
            "tile/0/٠٠٠",
        ] {
            assert_eq!(parse_path(wrong), Err(PathError), "{wrong}");
        }
    }

    #[test]
    fn bundles_come_back_and_cuts_are_noticed() {
        let long = vec![7; MAX_ENTRY_BYTES];
        let entries = [b"".as_slice(), b"one", &long];
        let bundle = encode_bundle(&entries).unwrap();
        assert_eq!(decode_bundle(&bundle).unwrap(), entries);
        assert_eq!(decode_bundle(&bundle[..bundle.len() - 1]), Err(BundleError::CutShort { position: 2 }));
        assert_eq!(decode_bundle(&bundle[..3]), Err(BundleError::CutShort { position: 1 }));
        let longer = vec![7; MAX_ENTRY_BYTES + 1];
        assert_eq!(encode_bundle(&[&longer]), Err(BundleError::EntryTooLarge { position: 0, bytes: 65_536 }));
        assert_eq!(encode_bundle(&[b"".as_slice(); 257]), Err(BundleError::TooMany));
        assert_eq!(decode_bundle(&[0; 2 * 257]), Err(BundleError::TooMany));
        assert_eq!(decode_bundle(&[0; 2 * 256]).unwrap().len(), 256);
    }

    #[test]
    fn tiles_come_back_and_cuts_are_noticed() {
        let hashes: Vec<Hash> = (0..=255).map(|i| Hash([i; 32])).collect();
        let tile = encode_tile(&hashes);
        assert_eq!(decode_tile(&tile).unwrap(), hashes);
        assert_eq!(decode_tile(&tile[..40]), Err(BundleError::CutShort { position: 1 }));
        assert_eq!(decode_tile(&[0; 257 * 32]), Err(BundleError::TooMany));
    }
}
