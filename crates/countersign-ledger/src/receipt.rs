//! Receipts: one entry, the proof that it is in the log, and the checkpoint that the proof leads to.
//!
//! A receipt and the log's public key are all that is needed to check an entry offline, with no one's help (I7). It travels as
//! `rct1.` and base64url; the C2SP tlog-proof text says the same in a form that other tools read, with the leaf as its extra
//! data. Decoding checks the form only; nothing in a receipt may be believed before [`Receipt::verify`].

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};

use crate::checkpoint::{Checkpoint, CheckpointError, KeyChain, LogKey, MAX_NOTE_BYTES, canonical_decimal};
use crate::hash::{Hash, leaf_hash};
use crate::tile::MAX_ENTRY_BYTES;
use crate::tree::{MAX_PROOF_LEN, ProofError, verify_inclusion};

/// What every receipt's text starts with; the digit is the version of the bytes after it.
pub const PREFIX: &str = "rct1.";
const TLOG_PROOF: &str = "c2sp.org/tlog-proof@v1";

/// The longest text worth decoding: every part at its limit, in base64, and the words around them.
const MAX_TEXT_BYTES: usize = (MAX_ENTRY_BYTES + MAX_PROOF_LEN * 33 + MAX_NOTE_BYTES) / 3 * 4 + 256;

/// An entry with the evidence that it is in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The entry's position in the log.
    pub index: u64,
    /// The entry's bytes as they stand in the log: the public header with its commitment.
    pub leaf: Vec<u8>,
    /// The inclusion proof, from the leaf towards the root.
    pub proof: Vec<Hash>,
    /// The checkpoint that the proof leads to, as a whole signed note.
    pub checkpoint: String,
}

/// Why a receipt was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceiptError {
    /// The text is not a receipt.
    #[error("not a receipt: {what}")]
    Malformed {
        /// What is wrong.
        what: &'static str,
    },
    /// The checkpoint in the receipt does not hold.
    #[error("the receipt's checkpoint does not hold: {0}")]
    Checkpoint(#[from] CheckpointError),
    /// The proof in the receipt does not hold.
    #[error("the receipt's proof does not hold: {0}")]
    Proof(#[from] ProofError),
}

impl ReceiptError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Malformed { .. } => {
                Some(format!("a receipt is one word that starts with `{PREFIX}`, kept exactly as it was given out"))
            }
            _ => None,
        }
    }
}

const fn malformed(what: &'static str) -> ReceiptError {
    ReceiptError::Malformed { what }
}

impl Receipt {
    /// The receipt as one word.
    ///
    /// The bytes, all numbers big-endian: index (64 bits), length of the leaf (32), leaf, number of hashes in the proof (32),
    /// the hashes, and the checkpoint up to the end.
    #[must_use]
    pub fn encode(&self) -> String {
        // A length that does not fit is one that `decode` refuses anyway.
        let length = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes();
        let mut bytes = self.index.to_be_bytes().to_vec();
        bytes.extend_from_slice(&length(self.leaf.len()));
        bytes.extend_from_slice(&self.leaf);
        bytes.extend_from_slice(&length(self.proof.len()));
        bytes.extend(self.proof.iter().flat_map(|hash| hash.0));
        bytes.extend_from_slice(self.checkpoint.as_bytes());
        format!("{PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Reads what [`Receipt::encode`] wrote. Each receipt has one spelling.
    ///
    /// # Errors
    /// If the text has any other form, or a part is longer than it can be.
    pub fn decode(text: &str) -> Result<Self, ReceiptError> {
        let base64 = text.strip_prefix(PREFIX).ok_or(malformed("it does not start with `rct1.`"))?;
        if base64.len() > MAX_TEXT_BYTES {
            return Err(malformed("it is longer than any receipt"));
        }
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(base64);
        let bytes = bytes.map_err(|_| malformed("it is not base64url without padding"))?;
        let cut_short = malformed("it ends too early");
        let (index, rest) = bytes.split_first_chunk::<8>().ok_or(cut_short.clone())?;
        let (length, rest) = split_length(rest, MAX_ENTRY_BYTES)?;
        let (leaf, rest) = rest.split_at_checked(length).ok_or(cut_short.clone())?;
        let (count, rest) = split_length(rest, MAX_PROOF_LEN)?;
        let (proof, rest) = rest.split_at_checked(count * 32).ok_or(cut_short)?;
        let checkpoint = std::str::from_utf8(rest).map_err(|_| malformed("its checkpoint is not UTF-8"))?;
        if checkpoint.len() > MAX_NOTE_BYTES {
            return Err(malformed("its checkpoint is longer than any note"));
        }
        Ok(Self {
            index: u64::from_be_bytes(*index),
            leaf: leaf.to_vec(),
            proof: proof.as_chunks::<32>().0.iter().copied().map(Hash).collect(),
            checkpoint: checkpoint.to_owned(),
        })
    }

    /// Checks everything: the log's signature on the checkpoint, and that the leaf is at its index under that root.
    ///
    /// # Errors
    /// If either does not hold.
    pub fn verify(&self, key: &LogKey) -> Result<Checkpoint, ReceiptError> {
        self.leads_to(Checkpoint::open(&self.checkpoint, key)?)
    }

    /// Checks everything, for a log whose key may have changed: the checkpoint must be signed by the key of its time.
    ///
    /// # Errors
    /// If the signature or the proof does not hold.
    pub fn verify_in(&self, keys: &KeyChain) -> Result<Checkpoint, ReceiptError> {
        self.leads_to(keys.open(&self.checkpoint)?)
    }

    fn leads_to(&self, checkpoint: Checkpoint) -> Result<Checkpoint, ReceiptError> {
        verify_inclusion(&leaf_hash(&self.leaf), self.index, checkpoint.size, &self.proof, &checkpoint.root)?;
        Ok(checkpoint)
    }

    /// The receipt as a C2SP tlog-proof, with the leaf as extra data. Files of this form end in `.tlog-proof`.
    #[must_use]
    pub fn to_tlog_proof(&self) -> String {
        let mut text = format!("{TLOG_PROOF}\n");
        if !self.leaf.is_empty() {
            text.push_str(&format!("extra {}\n", BASE64_STANDARD.encode(&self.leaf)));
        }
        text.push_str(&format!("index {}\n", self.index));
        for hash in &self.proof {
            text.push_str(&format!("{}\n", BASE64_STANDARD.encode(hash.0)));
        }
        text.push('\n');
        text.push_str(&self.checkpoint);
        text
    }

    /// Reads a C2SP tlog-proof whose extra data is the leaf.
    ///
    /// # Errors
    /// If the text is not such a proof, or a part is longer than it can be.
    pub fn from_tlog_proof(text: &str) -> Result<Self, ReceiptError> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(malformed("it is longer than any proof"));
        }
        let (head, checkpoint) =
            text.split_once("\n\n").ok_or(malformed("there is no blank line before the checkpoint"))?;
        let mut lines = head.split('\n').peekable();
        if lines.next() != Some(TLOG_PROOF) {
            return Err(malformed("it does not start with the line `c2sp.org/tlog-proof@v1`"));
        }
        let leaf = match lines.next_if(|line| line.starts_with("extra ")).and_then(|line| line.strip_prefix("extra ")) {
            Some(extra) => BASE64_STANDARD.decode(extra).map_err(|_| malformed("its extra data is not base64"))?,
            None => Vec::new(),
        };
        let index = lines.next().and_then(|line| line.strip_prefix("index ")).and_then(canonical_decimal);
        let index = index.ok_or(malformed("it has no index line"))?;
        let proof: Option<Vec<Hash>> = lines.take(MAX_PROOF_LEN + 1).map(hash_line).collect();
        let proof = proof.ok_or(malformed("a line of the proof is not the base64 of 32 bytes"))?;
        if leaf.len() > MAX_ENTRY_BYTES || proof.len() > MAX_PROOF_LEN || checkpoint.len() > MAX_NOTE_BYTES {
            return Err(malformed("a part of it is longer than it can be"));
        }
        Ok(Self { index, leaf, proof, checkpoint: checkpoint.to_owned() })
    }
}

fn split_length(bytes: &[u8], limit: usize) -> Result<(usize, &[u8]), ReceiptError> {
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or(malformed("it ends too early"))?;
    match usize::try_from(u32::from_be_bytes(*length)) {
        Ok(length) if length <= limit => Ok((length, rest)),
        _ => Err(malformed("a part of it is longer than it can be")),
    }
}

fn hash_line(line: &str) -> Option<Hash> {
    let mut hash = [0; 32];
    (BASE64_STANDARD.decode_slice(line, &mut hash) == Ok(32)).then_some(Hash(hash))
}
