//! Writing a snapshot, piece by piece, under a name that nobody reads until it is whole.

use std::sync::Arc;

use countersign_ledger::tree::TileTree;
use ed25519_dalek::{Signer, SigningKey};
use sha2::{Digest, Sha256};

use super::{
    CHUNK_BYTES_MAX, MAGIC, NAME_BYTES_MAX, SECTION_LEVEL8, SECTION_PARTIAL, SIGNED_PREFIX, SNAPSHOT_VERSION,
    SNAPSHOTS_KEPT, TAG_CHUNK, TAG_END, TAG_SECTION, listed, remove_all, snapshot_name,
};
use crate::storage::StorageError;
use crate::storage::disk::{Disk, DiskFile};
use crate::storage::error::IoContext;

/// A snapshot that is being written. Dropped before `finish`, it leaves only a temporary file, which the next open removes.
pub struct SnapshotWriter {
    disk: Arc<dyn Disk>,
    file: Arc<dyn DiskFile>,
    size: u64,
    temporary: String,
    buffer: Vec<u8>,
    offset: u64,
    hasher: Sha256,
}

impl SnapshotWriter {
    /// Starts a snapshot of the log that `tree` is over.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn begin(disk: Arc<dyn Disk>, origin: &str, tree: &TileTree) -> Result<Self, StorageError> {
        let size = tree.size();
        let temporary = format!("{}.tmp", snapshot_name(size));
        let file = disk.create(&temporary).on("create", &temporary)?;
        let buffer = Vec::with_capacity(2 * CHUNK_BYTES_MAX);
        let mut writer = Self { disk, file, size, temporary, buffer, offset: 0, hasher: Sha256::new() };
        let origin_len = u16::try_from(origin.len()).map_err(|_| writer.refused("its origin is too long"))?;
        writer.put(&MAGIC)?;
        writer.put(&SNAPSHOT_VERSION.to_le_bytes())?;
        writer.put(&size.to_le_bytes())?;
        writer.put(&origin_len.to_le_bytes())?;
        writer.put(origin.as_bytes())?;
        for (section, hashes) in [(SECTION_LEVEL8, tree.level8()), (SECTION_PARTIAL, tree.partial())] {
            writer.section(section)?;
            for hash in hashes.chunks(CHUNK_BYTES_MAX / 32) {
                let bytes: Vec<u8> = hash.iter().flat_map(|hash| hash.0).collect();
                writer.write(&bytes)?;
            }
        }
        Ok(writer)
    }

    /// Starts a section; what is written next belongs to it.
    ///
    /// # Errors
    /// If the name is longer than 64 bytes or the disk refuses.
    pub fn section(&mut self, name: &str) -> Result<(), StorageError> {
        let len = u8::try_from(name.len()).ok().filter(|len| usize::from(*len) <= NAME_BYTES_MAX);
        let len = len.ok_or_else(|| self.refused("a section's name is longer than 64 bytes"))?;
        self.put(&[TAG_SECTION, len])?;
        self.put(name.as_bytes())
    }

    /// Adds bytes to the section. Up to one MiB arrives as one chunk when read back.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        for chunk in bytes.chunks(CHUNK_BYTES_MAX) {
            let len = u32::try_from(chunk.len()).map_err(|_| self.refused("a chunk is too long"))?;
            self.put(&[TAG_CHUNK])?;
            self.put(&len.to_le_bytes())?;
            self.put(chunk)?;
        }
        Ok(())
    }

    /// Seals, syncs and names the snapshot, then removes all but the newest two.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn finish(mut self, key: &SigningKey) -> Result<(), StorageError> {
        self.put(&[TAG_END])?;
        self.flush()?;
        let digest: [u8; 32] = self.hasher.clone().finalize().into();
        let mut signed = SIGNED_PREFIX.to_vec();
        signed.extend_from_slice(&digest);
        let mut seal = digest.to_vec();
        seal.extend_from_slice(&key.sign(&signed).to_bytes());
        self.file.write_all_at(&seal, self.offset).on("write", &self.temporary)?;
        self.file.sync_all().on("sync", &self.temporary)?;
        let name = snapshot_name(self.size);
        self.disk.rename(&self.temporary, &name).on("name", &name)?;
        self.disk.sync_dir().on("sync", "the data folder")?;
        let all = listed(&*self.disk)?;
        let surplus = all.len().saturating_sub(SNAPSHOTS_KEPT);
        let old: Vec<String> = all.into_iter().take(surplus).map(|(_, name)| name).collect();
        remove_all(&*self.disk, &old)?;
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.hasher.update(bytes);
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK_BYTES_MAX { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), StorageError> {
        self.file.write_all_at(&self.buffer, self.offset).on("write", &self.temporary)?;
        self.offset += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn refused(&self, reason: &str) -> StorageError {
        StorageError::Snapshot { name: self.temporary.clone(), reason: reason.to_owned() }
    }
}
