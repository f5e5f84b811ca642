//! The outer form of a C2SP signed note: a text, a blank line, and signature lines.
//!
//! This is written out here rather than taken from the `signed_note` crate, because that one brings a second Ed25519 and
//! SHA-256 stack and checks signatures by the lax rules; it serves as the oracle in the tests.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::checkpoint::CheckpointError;
use crate::checkpoint::key::check_origin;

/// The longest note read: room for the 16 signatures every verifier must accept, even where they are post-quantum ones.
pub const MAX_NOTE_BYTES: usize = 128 * 1024;
/// The most signatures read in one note.
pub const MAX_SIGNATURES: usize = 64;

/// A note taken apart, unverified.
pub(crate) struct Note<'a> {
    /// The signed text with its last newline.
    pub text: &'a str,
    pub signatures: Vec<NoteSignature<'a>>,
}

pub(crate) struct NoteSignature<'a> {
    pub name: &'a str,
    pub id: u32,
    pub bytes: Vec<u8>,
}

pub(crate) fn split(note: &str) -> Result<Note<'_>, CheckpointError> {
    let wrong = |what| CheckpointError::Malformed { what };
    if note.len() > MAX_NOTE_BYTES {
        return Err(wrong("it is longer than any note"));
    }
    if note.bytes().any(|byte| byte < 0x20 && byte != b'\n') {
        return Err(wrong("it has a control character other than newline"));
    }
    let blank = note.rfind("\n\n").ok_or(wrong("there is no blank line before the signatures"))?;
    let (text, signatures) = note.split_at_checked(blank + 1).ok_or(wrong("it has no text"))?;
    let lines = signatures.strip_prefix('\n').and_then(|lines| lines.strip_suffix('\n'));
    let lines = lines.filter(|lines| !lines.is_empty()).ok_or(wrong("it does not end in signature lines"))?;
    let signatures = lines.split('\n').take(MAX_SIGNATURES + 1).map(signature).collect::<Option<Vec<_>>>();
    let signatures = signatures.ok_or(wrong("a signature line does not have the form `— name base64`"))?;
    if signatures.len() > MAX_SIGNATURES {
        return Err(wrong("it has too many signatures"));
    }
    Ok(Note { text, signatures })
}

fn signature(line: &str) -> Option<NoteSignature<'_>> {
    let (name, base64) = line.strip_prefix("— ")?.split_once(' ')?;
    let bytes = BASE64_STANDARD.decode(base64).ok()?;
    let (id, bytes) = bytes.split_first_chunk::<4>()?;
    if check_origin(name).is_err() || bytes.is_empty() {
        return None;
    }
    Some(NoteSignature { name, id: u32::from_be_bytes(*id), bytes: bytes.to_vec() })
}

pub(crate) fn push_signature(note: &mut String, name: &str, id: u32, signature: &[u8]) {
    let bytes = [&id.to_be_bytes(), signature].concat();
    note.push_str(&format!("— {name} {}\n", BASE64_STANDARD.encode(bytes)));
}
