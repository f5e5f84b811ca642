//! The files in which the log's key rests. Each step is durable when it returns, and may be repeated after a crash.

use crate::storage::disk::{Disk, read_small, replace_small};
use countersign_ledger::checkpoint::LogKey;
use ed25519_dalek::SigningKey;
use std::io;
use std::sync::Arc;

const CURRENT: &str = "log";
const NEXT: &str = "log.next";
const PUBLIC: &str = "log.vkey";
const PUBLIC_BYTES_MAX: usize = 4 << 10;

/// The private keys in one folder (`log`, `log.next` while a rotation is under way, `log.old-<id>` for each replaced one), the
/// public one in another (`log.vkey`). New files can be read by their owner only.
#[derive(Clone)]
pub struct KeyFiles {
    secret: Arc<dyn Disk>,
    public: Arc<dyn Disk>,
}

impl KeyFiles {
    /// Key files in these folders.
    pub fn new(secret: Arc<dyn Disk>, public: Arc<dyn Disk>) -> Self {
        Self { secret, public }
    }

    /// The current key and the next, if there is one.
    pub(super) fn read(&self) -> io::Result<(SigningKey, Option<SigningKey>)> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, format!("there is no key file `{CURRENT}`"));
        Ok((self.key(CURRENT)?.ok_or_else(missing)?, self.key(NEXT)?))
    }

    fn key(&self, name: &str) -> io::Result<Option<SigningKey>> {
        let Some(bytes) = read_small(&*self.secret, name, 32)? else { return Ok(None) };
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, format!("the key file `{name}` has not 32 bytes"));
        let bytes = <[u8; 32]>::try_from(bytes).map_err(|_| damaged())?;
        Ok(Some(SigningKey::from_bytes(&bytes)))
    }

    /// Keeps the next key beside the current one.
    pub(super) fn prepare(&self, next: &SigningKey) -> io::Result<()> {
        replace_small(&*self.secret, NEXT, next.as_bytes())
    }

    /// Puts the next key in the current one's place and keeps that under its id.
    pub(super) fn promote(&self, old: &SigningKey, old_id: u32, next: &SigningKey) -> io::Result<()> {
        replace_small(&*self.secret, &format!("{CURRENT}.old-{old_id:08x}"), old.as_bytes())?;
        match self.secret.rename(NEXT, CURRENT) {
            // Renamed before, by a call that failed after it.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.key(CURRENT)?.as_ref() == Some(next) => {}
            renamed => renamed?,
        }
        self.secret.sync_dir()
    }

    /// Drops a next key that no entry names.
    pub(super) fn discard(&self) -> io::Result<()> {
        match self.secret.remove(NEXT) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.and_then(|()| self.secret.sync_dir()),
        }
    }

    /// Says in public which key is current. Written in place, so that anyone who may read the file may still do so.
    pub(super) fn publish(&self, key: &LogKey) -> io::Result<()> {
        let text = format!("{key}\n");
        let there = read_small(&*self.public, PUBLIC, PUBLIC_BYTES_MAX)?;
        if there.as_deref() == Some(text.as_bytes()) {
            return Ok(());
        }
        if there.is_none() {
            return replace_small(&*self.public, PUBLIC, text.as_bytes());
        }
        let file = self.public.open(PUBLIC)?;
        file.write_all_at(text.as_bytes(), 0)?;
        file.truncate(text.len() as u64)?;
        file.sync_all()
    }
}
