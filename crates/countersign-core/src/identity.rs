//! Who acts: keys by name, signed requests as data, and what an operator may do.
//!
//! Nothing here verifies a signature: that is done at admission, and again when a log is verified. Here is what must be
//! answered at a request's own place in the order (I1): whether the key that signed is a key of the one who acts at this
//! very instant, and whether an operator has the role. So a revocation or rotation holds from the next commit on.

mod key_name;
mod keys;
mod roles;
mod signed;

pub use key_name::{KeyName, KeyNameError};
pub use keys::{Holder, HolderKind, IdentityRefusal, Keys};
pub use roles::{NoAuthority, Role, WhyNot, authorise, authorise_key, first_operator, role_to_feed, still_has};
pub(crate) use signed::StoredSigned;
pub use signed::{Auth, BatchDigests, RequestDigest, Signed};

use crate::fact::Fact;
use crate::value::{Attributes, Value};

/// The standing of an agent or operator that may act.
pub const ACTIVE: &str = "active";

/// Every standing that there is.
pub const STANDINGS: [&str; 3] = [ACTIVE, "quarantined", "revoked"];

/// Whether a key is one of an agent's or operator's at this time: the current one, or the one before it until its overlap
/// ends.
pub fn holds_key(fact: &Fact, key: &KeyName, now_ms: u64) -> bool {
    let Some(value) = &fact.value else { return false };
    if text(value, "key") == Some(key.as_str()) {
        return true;
    }
    let until = match value.get("old_key_until") {
        Some(Value::Long(until)) => u64::try_from(*until).unwrap_or(0),
        _ => 0,
    };
    text(value, "old_key") == Some(key.as_str()) && now_ms < until
}

/// Who holds an agent's key, where that is not the agent alone; the only one there is.
pub const GATEWAY: &str = "gateway";

/// Whether the key of an agent or operator is held by a gateway, which signs for it.
pub fn is_held_by_gateway(fact: &Fact) -> bool {
    fact.value.as_ref().is_some_and(|value| text(value, "held_by") == Some(GATEWAY))
}

/// An attribute that is text.
fn text<'a>(value: &'a Attributes, name: &str) -> Option<&'a str> {
    match value.get(name) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

/// Whether the roles in a fact hold this one.
fn has_role(value: &Attributes, role: &str) -> bool {
    match value.get("roles") {
        Some(Value::Set(roles)) => roles.iter().any(|held| matches!(held, Value::String(held) if held == role)),
        _ => false,
    }
}
