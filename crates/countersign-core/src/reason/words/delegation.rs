//! The words on delegations.

use super::super::{HopRef, Listed, OutOfScope, ScopeRefusal, Widening};
use crate::utc::Utc;
use std::fmt;

impl fmt::Display for HopRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hop {}, from {} to {},", self.number, self.from, self.to)
    }
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first.is_empty() {
            return f.write_str("nothing");
        }
        f.write_str(&self.first.join(", "))?;
        if self.more > 0 { write!(f, ", and {} more", self.more) } else { Ok(()) }
    }
}

impl fmt::Display for Widening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AnyAction { given } => write!(f, "any action, where it was given {given}"),
            Self::AnyFact { given } => write!(f, "any fact, where it was given {given}"),
            Self::Actions { claimed } | Self::Facts { claimed } => write!(f, "{claimed}, which it was not given"),
            Self::Maximum { name, claimed: Some(claimed), given } => {
                write!(f, "up to {claimed} `{name}`, where it was given up to {given}")
            }
            Self::Maximum { name, claimed: None, given } => {
                write!(f, "any `{name}`, where it was given up to {given}")
            }
            Self::AnyValue { name, given } => write!(f, "any `{name}`, where it was given {given}"),
            Self::Values { name, claimed } => write!(f, "`{name}` {claimed}, which it was not given"),
            Self::Expiry { claimed: Some(claimed), given } => {
                write!(f, "until {}, where it was given until {}", Utc(*claimed), Utc(*given))
            }
            Self::Expiry { claimed: None, given } => write!(f, "no expiry, where it was given until {}", Utc(*given)),
            Self::Depth { claimed, given } => write!(f, "to pass on {claimed} times, where it was given {given}"),
        }
    }
}

impl fmt::Display for OutOfScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReduced => f.write_str("the delegation in the body was not reduced to a chain"),
            Self::OfAnother { names, acts } => write!(f, "this delegation names {names}, and {acts} acts"),
            Self::NotCarried => f.write_str("the body carries no delegation that the chain could come from"),
            Self::Hop { hop, refuses } => write!(f, "{hop} {refuses}"),
        }
    }
}

impl fmt::Display for ScopeRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Action { allowed, asked } => write!(f, "allows {allowed}, not `{asked}`"),
            Self::NoParameter { name } => write!(f, "limits parameter `{name}`, which the action does not have"),
            Self::Maximum { name, max, value } => write!(f, "allows `{name}` up to {max}, not {value}"),
            Self::Value { name, allowed, value } => write!(f, "allows `{name}` to be {allowed}, not {value}"),
            Self::Fact { allowed, asked } => write!(f, "allows {allowed}, not {asked}"),
        }
    }
}
