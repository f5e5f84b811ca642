//! Admission of several actions under one signature: each as if it had come alone.

use super::{AdmitError, Gate};
use crate::request::ActMany;
use countersign_core::action::Action;
use countersign_core::body::RawBody;
use countersign_core::identity::{Auth, BatchDigests};
use countersign_core::ids::{ActionId, AgentId};
use countersign_core::limits::{BATCH_ACTIONS_MAX, GROUP_ACTIONS_MAX};
use std::collections::BTreeMap;

/// Several actions that may be decided, and those of them that were refused at the door.
#[derive(Debug)]
pub struct AdmittedBatch {
    /// What the gate is asked.
    pub many: Box<ActMany>,
    /// Why actions were not admitted, by their places from 0. None of an atomic group ever is, and none that is no action at all.
    pub refused: BTreeMap<usize, AdmitError>,
}

/// Why a batch was refused as a whole: nothing of it was decided.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// There is no action in it.
    #[error("the batch has no actions")]
    Empty,
    /// It has too many.
    #[error("the batch has {count} actions; at most {most} are allowed{}", in_group(*most))]
    TooMany {
        /// How many it has.
        count: usize,
        /// How many it may have.
        most: usize,
    },
    /// Its signature does not cover the ids of its actions.
    #[error("the header `Countersign-Actions` is missing, so the signature does not say which actions it is for")]
    Unlisted,
    /// Its signature covers other actions.
    #[error("the header `Countersign-Actions` is not the digest of the ids of the actions in the body, in their order")]
    OtherActions,
    /// One is no action at all, or an action of an atomic group was refused at the door.
    #[error("action {at}: {source}")]
    Action {
        /// Its place, from 1.
        at: usize,
        /// Why.
        source: Box<AdmitError>,
    },
    /// Two actions of an atomic group have one idempotency key.
    #[error("actions {first} and {second} of this group have the same idempotency key")]
    Twice {
        /// The place of the first, from 1.
        first: usize,
        /// The place of the second.
        second: usize,
    },
}

fn in_group(most: usize) -> &'static str {
    if most == GROUP_ACTIONS_MAX { " in an atomic group" } else { "" }
}

impl Gate {
    /// Admits several actions, given as their raw bodies. A signature must cover exactly these, in this order.
    ///
    /// # Errors
    /// If nothing of it can be decided. In an atomic group one action that is refused refuses all.
    pub fn admit_many(
        &self,
        agent: AgentId,
        auth: Auth,
        bodies: &[RawBody],
        is_atomic: bool,
    ) -> Result<AdmittedBatch, BatchError> {
        let (count, most) = (bodies.len(), if is_atomic { GROUP_ACTIONS_MAX } else { BATCH_ACTIONS_MAX });
        match count {
            0 => return Err(BatchError::Empty),
            _ if count > most => return Err(BatchError::TooMany { count, most }),
            _ => {}
        }
        let ids: Vec<ActionId> = bodies.iter().map(RawBody::digest).collect();
        if let Some(signed) = auth.signed() {
            let listed = signed.batch.ok_or(BatchError::Unlisted)?.actions;
            if listed != BatchDigests::of_actions(&ids) {
                return Err(BatchError::OtherActions);
            }
        }
        let of_each = auth.of_batch();
        let (mut actions, mut refused) = (Vec::with_capacity(count), BTreeMap::new());
        for (at, body) in bodies.iter().enumerate() {
            match self.admit(agent.clone(), of_each.clone(), body.clone()) {
                Ok(action) => actions.push(action),
                // The ids of all are public for ever, and only a key of 128 random bits makes one of them safe to publish. So what has
                // none refuses the batch.
                Err(error) if is_atomic || matches!(error, AdmitError::Request(_)) => {
                    return Err(BatchError::Action { at: at + 1, source: Box::new(error) });
                }
                Err(error) => drop(refused.insert(at, error)),
            }
        }
        if is_atomic {
            check_keys(&actions)?;
        }
        let many = Box::new(ActMany { by: agent, auth: auth.by_digests(), ids, actions, is_atomic });
        Ok(AdmittedBatch { many, refused })
    }
}

/// One key stands for one action: a group that has it twice cannot commit as a whole.
fn check_keys(actions: &[Action]) -> Result<(), BatchError> {
    for (second, action) in actions.iter().enumerate() {
        let before = actions.iter().take(second).position(|earlier| earlier.key == action.key);
        if let Some(first) = before {
            return Err(BatchError::Twice { first: first + 1, second: second + 1 });
        }
    }
    Ok(())
}
