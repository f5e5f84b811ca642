//! The key that seals observation tokens, and those before it.
//!
//! `keys/token` is the current one. `keys/token.old-<id>` has a key that was replaced and, in 8 bytes behind it, the time until
//! which it opens what it sealed. Every step is durable when it returns and may be repeated after a crash: the old key is kept
//! before the new one takes its place.

use super::{OPEN_HINT, check_mode, open_disk};
use crate::hinted::{OrHinted, hinted};
use anyhow::{Context, Result};
use countersign_engine::clock::{Clock as _, SystemClock};
use countersign_engine::storage::disk::{Disk as _, replace_small};
use countersign_engine::token::{OldTokenKey, TOKEN_KEY_KEPT_MS, key_id};
use std::path::Path;

const CURRENT: &str = "token";
const OLD: &str = "token.old-";

/// What a rotation came to.
#[derive(Debug)]
pub struct Rotated {
    /// The name of the key that seals from now on.
    pub key: String,
    /// The one before it, if there was one.
    pub old: Option<Replaced>,
}

#[derive(Debug)]
pub struct Replaced {
    /// Its name.
    pub key: String,
    /// Until when it opens what it sealed, in milliseconds UTC.
    pub until_ms: u64,
}

/// Puts a new key in the place of `current`, if there is one, which is kept for a while. Those whose time is over are removed.
pub(super) fn rotate(keys: &Path, current: Option<&[u8; 32]>) -> Result<Rotated> {
    let disk = open_disk(keys)?;
    let now_ms = SystemClock::default().wall_ms();
    for (name, old) in read(keys)? {
        if old.until_ms <= now_ms {
            disk.remove(&name)?;
        }
    }
    let until_ms = now_ms.saturating_add(TOKEN_KEY_KEPT_MS);
    let old = current.map(|current| (Replaced { key: name(current), until_ms }, current));
    if let Some((old, current)) = &old {
        let kept = [current.as_slice(), &until_ms.to_be_bytes()].concat();
        replace_small(&disk, &format!("{OLD}{}", old.key), &kept)?;
    }
    let mut next = [0; 32];
    getrandom::fill(&mut next).context("the system gives no randomness")?;
    replace_small(&disk, CURRENT, &next)?;
    Ok(Rotated { key: name(&next), old: old.map(|(old, _)| old) })
}

/// The keys that were replaced, whether or not their time is over.
pub(super) fn old(keys: &Path) -> Result<Vec<OldTokenKey>> {
    Ok(read(keys)?.into_iter().map(|(_, old)| old).collect())
}

fn name(key: &[u8; 32]) -> String {
    key_id(key).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read(keys: &Path) -> Result<Vec<(String, OldTokenKey)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(keys).or_hinted(|| hinted!("cannot read {}", keys.display(); "{OPEN_HINT}"))? {
        let Ok(name) = entry?.file_name().into_string() else { continue };
        if !name.starts_with(OLD) || name.ends_with(".tmp") {
            continue;
        }
        let path = keys.join(&name);
        check_mode(&path)?;
        let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let old = bytes.split_first_chunk::<32>().and_then(|(key, until)| {
            Some(OldTokenKey { key: *key, until_ms: u64::from_be_bytes(until.try_into().ok()?) })
        });
        let old = old.or_hinted(|| {
            hinted!(
                "{} is no key that was replaced", path.display();
                "restore it from a backup, or remove it; then observations that were made with it are refused, and agents \
                 look again"
            )
        })?;
        found.push((name, old));
    }
    Ok(found)
}
