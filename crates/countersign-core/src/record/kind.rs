//! What kinds of entries there are, what verdicts leaves tell, and how they say who sent them.
//!
//! Each has a number, which is what leaves hold, and a word, which is what people read. Neither ever changes its meaning.

use crate::call::Outcome;
use crate::ids::FactType;
use crate::pact::catalogue::{AGENT, OPERATOR};
use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $word:literal / $code:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$of])* #[serde(rename = $word)] $variant,)+ }

        impl $name {
            /// All of them, in alphabetical order of their words.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Its number, as it stands in leaves.
            pub fn code(self) -> u8 {
                match self { $(Self::$variant => $code,)+ }
            }

            /// The one with this number.
            pub fn from_code(code: u8) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)+ _ => None }
            }

            /// Its word, as it is shown.
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
        Action = "action" / 1,
        /// A reviewer approved a parked action.
        Approval = "approval" / 2,
        /// An agent sent several actions at once.
        Batch = "batch" / 22,
        /// An agent announced a change.
        Claim = "claim" / 3,
        /// The wall clock stepped, or was confirmed.
        Clock = "clock" / 4,
        /// A source said that its fact is still so.
        Confirm = "confirm" / 5,
        /// Requests were refused at the door.
        Denials = "denials" / 6,
        /// A cooling effect was decided again.
        Dispatch = "dispatch" / 7,
        /// Payloads were erased.
        Erasure = "erasure" / 8,
        /// A parked action expired.
        Expiry = "expiry" / 9,
        /// A claim was extended.
        Extension = "extension" / 10,
        /// A fact was fed.
        Feed = "feed" / 11,
        /// The log begins.
        Genesis = "genesis" / 12,
        /// An atomic group of actions was rejected.
        Group = "group" / 23,
        /// A scope was halted.
        Halt = "halt" / 13,
        /// A feed waits for a fence to end.
        Held = "held" / 14,
        /// An agent was shown facts.
        Observation = "observation" / 28,
        /// A pact was published.
        Pact = "pact" / 15,
        /// A tool was read in a session.
        Reading = "reading" / 24,
        /// A reviewer refused a parked action.
        Refusal = "refusal" / 16,
        /// A halt was lifted.
        Resume = "resume" / 17,
        /// The log's key was changed.
        Rotation = "rotation" / 18,
        /// A session was opened or closed.
        Session = "session" / 25,
        /// A call came to an outcome.
        Settle = "settle" / 19,
        /// An action was decided in shadow mode.
        Shadow = "shadow" / 20,
        /// A claim was withdrawn.
        Withdrawal = "withdrawal" / 21,
    }
}

words! {
    /// A verdict or an outcome, as leaves tell it.
    LeafVerdict {
        /// Everything held.
        Committed = "committed" / 1,
        /// The call did not happen.
        Failed = "failed" / 2,
        /// It is unknown whether the call happened.
        InDoubt = "in_doubt" / 3,
        /// A call follows.
        InFlight = "in_flight" / 4,
        /// Something did not hold.
        Rejected = "rejected" / 5,
        /// A person must decide.
        Review = "review" / 6,
        /// The call happened.
        Settled = "settled" / 7,
    }
}

words! {
    /// How the sender was authenticated, as leaves tell it. `Auth` has the signature itself.
    LeafAuth {
        /// By a signature with a key that a gateway holds.
        Gateway = "gateway" / 2,
        /// Not at all: an open gate, or the gate itself.
        None = "none" / 0,
        /// By a signature of the sender's own.
        Signature = "signature" / 1,
    }
}

words! {
    /// Whose identity an entry is about, as leaves tell it: what no erasure may take away.
    LeafIdentity {
        /// An agent's.
        Agent = "agent" / 1,
        /// An operator's.
        Operator = "operator" / 2,
    }
}

impl LeafIdentity {
    /// Whose identity facts of this type are.
    pub fn of_type(ty: &FactType) -> Option<Self> {
        match ty.as_str() {
            AGENT => Some(Self::Agent),
            OPERATOR => Some(Self::Operator),
            _ => None,
        }
    }
}

impl LeafAuth {
    /// Whether the sender signed.
    pub fn is_signed(self) -> bool {
        self != Self::None
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
