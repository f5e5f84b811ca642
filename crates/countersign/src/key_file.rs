//! Key files of agents and operators: an Ed25519 private key as PKCS#8 PEM, mode 0600.
//!
//! They are made where they are used and never sent anywhere; a gate learns only the public key. The format is what openssl
//! and most libraries read and write, so that an agent in another language can use the same file.

use crate::commands::Failure;
use anyhow::{Context as _, Result};
use countersign_core::identity::KeyName;
use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey as _, EncodePrivateKey as _, KeypairBytes};
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// A key file that a command has just made. Dropped before it is kept, it is removed: a command that failed for certain leaves
/// nothing that the next try stumbles over.
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    name: KeyName,
    is_kept: bool,
}

impl NewFile {
    /// Writes a key to a new file, which must not exist.
    pub fn write(path: &Path, key: &SigningKey) -> Result<Self> {
        // Without the public key: what has it too is of a later version, which openssl does not read.
        let pem = KeypairBytes { secret_key: key.to_bytes(), public_key: None }.to_pkcs8_pem(LineEnding::LF);
        let pem = pem.map_err(|error| anyhow::anyhow!("the key cannot be written as PEM: {error}"))?;
        let cannot = |error| Failure::cannot(format!("cannot make {}: {error}", path.display()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let mut file = file.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                Failure::cannot(format!("{} is there already, and a key is never overwritten", path.display()))
                    .hint("say where with --key-file (`init`: --admin-key); remove this one yourself if its key is no longer needed")
            }
            _ => cannot(error),
        })?;
        let new = Self { path: path.to_owned(), name: name(key), is_kept: false };
        file.write_all(pem.as_bytes()).and_then(|()| file.sync_all()).map_err(cannot)?;
        Ok(new)
    }

    /// A key that was there before, which is not removed.
    pub fn found(path: &Path, key: &SigningKey) -> Self {
        Self { path: path.to_owned(), name: name(key), is_kept: true }
    }

    pub fn name(&self) -> &KeyName {
        &self.name
    }

    /// Leaves the file where it is.
    pub fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // A file that cannot be removed does no harm, and what went wrong before is the better message.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A new key.
pub fn generate() -> Result<SigningKey> {
    let mut secret_key = [0; 32];
    getrandom::fill(&mut secret_key).context("the system gives no randomness")?;
    Ok(SigningKey::from_bytes(&secret_key))
}

/// Makes a new key in a new file, which must not exist.
pub fn create(path: &Path) -> Result<SigningKey> {
    let key = generate()?;
    NewFile::write(path, &key)?.keep();
    Ok(key)
}

/// Reads a key; a file that others can read is refused.
pub fn read(path: &Path) -> Result<SigningKey> {
    let shown = path.display();
    let cannot = |error: std::io::Error| {
        Failure::cannot(format!("cannot read the key {shown}: {error}")).hint(
            "name a key file with --key, COUNTERSIGN_KEY or `key` in countersign.toml; `countersign key new` makes one",
        )
    };
    let mode = fs::metadata(path).map_err(cannot)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(Failure::cannot(format!("the key {shown} can be read by others (mode {:o})", mode & 0o777))
            .hint(format!("chmod 600 {shown}, and rotate the key if it is not yours alone any more"))
            .into());
    }
    let pem = fs::read_to_string(path).map_err(cannot)?;
    SigningKey::from_pkcs8_pem(&pem).map_err(|error| {
        Failure::cannot(format!("{shown} is no Ed25519 key in PKCS#8 PEM: {error}"))
            .hint("make one with `countersign key new FILE`, or with `openssl genpkey -algorithm ed25519 -out FILE`")
            .into()
    })
}

/// The public name of a key.
pub fn name(key: &SigningKey) -> KeyName {
    KeyName::of(key.verifying_key().to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::Report;

    #[test]
    fn what_is_made_reads_back_and_is_never_overwritten() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("a.key");
        let key = create(&path).expect("is made");
        assert_eq!(read(&path).expect("reads back").to_bytes(), key.to_bytes());
        assert_eq!(fs::metadata(&path).expect("is there").permissions().mode() & 0o777, 0o600);
        assert!(create(&path).expect_err("is there").to_string().contains("never overwritten"));
        // 48 bytes, the form of RFC 8410 without a public key: what openssl writes.
        assert_eq!(fs::read_to_string(&path).expect("is text").lines().nth(1).map(str::len), Some(64));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("is ours");
        let refused = Report::of_error(&read(&path).expect_err("is open to others"));
        assert!(refused.to_string().contains("chmod 600"), "{refused}");
    }
}
