//! What of a reason one agent may be told. Done on the data, so that no word is made of what must stay untold.

use super::{
    ClaimLoss, Condition, Crowded, Drift, Expected, FailedPrecondition, FailedRead, OutOfScope, Reason, ScopeRefusal,
};
use crate::disclose::Disclosure;
use crate::fact::Version;
use crate::ids::FactId;

impl Reason {
    /// Leaves out what the agent may not see.
    pub fn withhold(&mut self, from: &Disclosure<'_>) {
        match self {
            Self::FactMissing { fact, .. }
            | Self::FactExists { fact, .. }
            | Self::AliasedWrite { fact, .. }
            | Self::FactClaimed { fact, .. }
            | Self::FactFenced { fact, .. }
            | Self::ClaimLost { why: ClaimLoss::DoesNotCover { fact }, .. } => mask(fact, from),
            Self::DelegationOutOfScope { why } => {
                if let OutOfScope::Hop { refuses: ScopeRefusal::Fact { asked, .. }, .. } = &mut **why {
                    mask(asked, from);
                }
            }
            // A message may go to whom an attribute names that its sender may not see.
            Self::RecipientNotActive { to }
            | Self::MessageQuotaExceeded(Crowded { to, .. })
            | Self::InboxFull(Crowded { to, .. }) => {
                let masked = from.masked(&FactId::of_agent(to)).and_then(|masked| masked.as_agent());
                *to = masked.unwrap_or_else(|| to.clone());
            }
            Self::ObservationRequired { facts, .. } => facts.iter_mut().for_each(|fact| mask(fact, from)),
            // How much another member is trusted is not for the one who acts to read.
            Self::TrustTooLow { agent, has, withheld, .. } if agent != from.agent() => {
                (*has, *withheld) = (None, true);
            }
            Self::PreconditionFailed { failed } => failed.iter_mut().for_each(|failed| failed.withhold(from)),
            Self::ApprovalOutdated { drift } => drift.withhold(from),
            _ => {}
        }
    }
}

fn mask(fact: &mut FactId, from: &Disclosure<'_>) {
    if let Some(masked) = from.masked(fact) {
        *fact = masked;
    }
}

impl FailedPrecondition {
    fn withhold(&mut self, from: &Disclosure<'_>) {
        if let Condition::Unchanged { fact, .. } | Condition::Confirmed { fact, .. } = &mut self.that {
            mask(fact, from);
        }
        self.reads.iter_mut().for_each(|read| read.withhold(from));
        self.facts.iter_mut().for_each(|fact| mask(fact, from));
        if let Some(change) = &mut self.last_change {
            mask(&mut change.fact, from);
        }
    }
}

impl FailedRead {
    fn withhold(&mut self, from: &Disclosure<'_>) {
        // A fact as a whole has no values here.
        if self.attribute.as_ref().is_some_and(|attribute| !from.shows(&self.fact, attribute)) {
            self.withheld = true;
            self.actual = None;
            if let Expected::Value(_) = self.expected {
                self.expected = Expected::Absent;
            }
        }
        if !from.shows_whole(&self.fact) {
            // A digest of the whole would let an agent guess what is withheld.
            let is_number = |version: &Version| version.number().is_some();
            self.version = self.version.filter(is_number);
            self.observed_version = self.observed_version.filter(is_number);
        }
        mask(&mut self.fact, from);
    }
}

impl Drift {
    fn withhold(&mut self, from: &Disclosure<'_>) {
        let withheld = match self {
            Self::Attribute { read, fact, attribute, .. } if !from.shows(fact, attribute) => {
                format!("{read}.{attribute}").into()
            }
            Self::NotShown { read, fact } | Self::Presence { read, fact, .. } if !from.shows_whole(fact) => {
                read.clone()
            }
            Self::Attribute { fact, .. }
            | Self::NotShown { fact, .. }
            | Self::Presence { fact, .. }
            | Self::ReadAgain { fact, .. } => return mask(fact, from),
            Self::Pact { .. } | Self::Reviewer { .. } | Self::Withheld { .. } => return,
        };
        *self = Self::Withheld { read: withheld };
    }
}
