//! What kinds of entries there are, and what verdicts leaves tell.

use crate::call::Outcome;
use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$of])* #[serde(rename = $word)] $variant,)+ }

        impl $name {
            /// All of them, in alphabetical order of their words.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// As it stands in leaves.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// What kind of entry it is. `Event` says what each means.
    Kind {
        /// An action was decided.
        Action = "action",
        /// A reviewer approved a parked action.
        Approval = "approval",
        /// An agent announced a change.
        Claim = "claim",
        /// The wall clock stepped, or was confirmed.
        Clock = "clock",
        /// A source said that its fact is still so.
        Confirm = "confirm",
        /// Requests were refused at the door.
        Denials = "denials",
        /// A cooling effect was decided again.
        Dispatch = "dispatch",
        /// Payloads were erased.
        Erasure = "erasure",
        /// A parked action expired.
        Expiry = "expiry",
        /// A claim was extended.
        Extension = "extension",
        /// A fact was fed.
        Feed = "feed",
        /// The log begins.
        Genesis = "genesis",
        /// A scope was halted.
        Halt = "halt",
        /// A feed waits for a fence to end.
        Held = "held",
        /// A pact was published.
        Pact = "pact",
        /// A reviewer refused a parked action.
        Refusal = "refusal",
        /// A halt was lifted.
        Resume = "resume",
        /// The log's key was changed.
        Rotation = "rotation",
        /// A call came to an outcome.
        Settle = "settle",
        /// An action was decided in shadow mode.
        Shadow = "shadow",
        /// A claim was withdrawn.
        Withdrawal = "withdrawal",
    }
}

words! {
    /// A verdict or an outcome, as leaves tell it.
    LeafVerdict {
        /// Everything held.
        Committed = "committed",
        /// The call did not happen.
        Failed = "failed",
        /// It is unknown whether the call happened.
        InDoubt = "in_doubt",
        /// A call follows.
        InFlight = "in_flight",
        /// Something did not hold.
        Rejected = "rejected",
        /// A person must decide.
        Review = "review",
        /// The call happened.
        Settled = "settled",
    }
}

impl LeafVerdict {
    /// The outcome of a call, if it is one.
    pub fn outcome(self) -> Option<Outcome> {
        match self {
            Self::Settled => Some(Outcome::Settled),
            Self::Failed => Some(Outcome::Failed),
            Self::InDoubt => Some(Outcome::InDoubt),
            Self::Committed | Self::InFlight | Self::Rejected | Self::Review => None,
        }
    }
}
