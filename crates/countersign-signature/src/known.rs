//! Keys that were read lately, each thread for itself. A name stands for one key for ever, so remembering what it stands for changes
//! nothing but the time that reading the name and unpacking the key take.
//!
//! Places are few and found by the name itself. Names that are made to fall on one place are read again each time, as all were before.

use countersign_core::identity::{KeyName, KeyNameError};
use ed25519_dalek::{SignatureError, VerifyingKey};
use std::cell::RefCell;
use std::str::FromStr as _;

/// How many are remembered.
const PLACES: usize = 128;

type Remembered<T> = RefCell<[Option<T>; PLACES]>;

thread_local! {
    static NAMES: Remembered<KeyName> = const { RefCell::new([const { None }; PLACES]) };
    static KEYS: Remembered<VerifyingKey> = const { RefCell::new([const { None }; PLACES]) };
}

/// Where something is remembered that ends in these bytes.
fn place(bytes: &[u8]) -> usize {
    let sum =
        bytes.iter().rev().take(8).fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
    sum % PLACES
}

/// What is remembered at a place, if it is what is wanted; else what is made now, and remembered.
fn remembered<T: Clone, E>(
    places: &Remembered<T>,
    place: usize,
    is_wanted: impl Fn(&T) -> bool,
    make: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    if let Some(Some(known)) = places.borrow().get(place)
        && is_wanted(known)
    {
        return Ok(known.clone());
    }
    let made = make()?;
    if let Some(held) = places.borrow_mut().get_mut(place) {
        *held = Some(made.clone());
    }
    Ok(made)
}

/// The key of a name.
pub(super) fn key_named(text: &str) -> Result<KeyName, KeyNameError> {
    let make = || KeyName::from_str(text);
    NAMES.with(|names| remembered(names, place(text.as_bytes()), |known| known.as_str() == text, make))
}

/// The same, ready to verify with.
pub(super) fn verifying_key(name: &KeyName) -> Result<VerifyingKey, SignatureError> {
    let public = name.public_key();
    let make = || VerifyingKey::from_bytes(&public);
    KEYS.with(|keys| remembered(keys, place(&public), |known| *known.as_bytes() == public, make))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_fall_on_one_place_are_told_apart() {
        let names: Vec<KeyName> = (0..=255).map(|byte| KeyName::of([byte; 32])).collect();
        for _ in 0..2 {
            for name in &names {
                assert_eq!(key_named(name.as_str()).unwrap(), *name);
                let read = VerifyingKey::from_bytes(&name.public_key()).map(|key| key.to_bytes()).ok();
                assert_eq!(verifying_key(name).map(|key| key.to_bytes()).ok(), read);
            }
        }
        assert!(key_named("did:key:z6Mk").is_err() && key_named("").is_err());
    }
}
