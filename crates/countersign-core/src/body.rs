//! The raw body of a request, hashed once: its digest is what a signature covers, and the id of the action that it holds.

use crate::ids::Digest;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// A raw body. Cloning is cheap, and a clone knows the digest that was taken.
#[derive(Debug, Clone)]
pub struct RawBody {
    text: Arc<str>,
    digest: OnceLock<Digest>,
}

impl RawBody {
    /// The digest of its bytes, taken when it is first asked for.
    pub fn digest(&self) -> Digest {
        *self.digest.get_or_init(|| Digest::of(self.text.as_bytes()))
    }

    /// The text, shared.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }
}

impl Deref for RawBody {
    type Target = str;
    fn deref(&self) -> &str {
        &self.text
    }
}

impl<T: Into<Arc<str>>> From<T> for RawBody {
    fn from(text: T) -> Self {
        Self { text: text.into(), digest: OnceLock::new() }
    }
}

impl PartialEq for RawBody {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for RawBody {}
