//! Effects that were under way when a snapshot was taken, read again from their entries.

use crate::fold::{Fold, Moved, parked_action};
use crate::storage::{SegmentLog, StorageError};
use countersign_core::action::Action;
use countersign_core::call::{EffectId, Outcome};
use countersign_core::effect::Approved;
use countersign_core::identity::Auth;
use countersign_core::record::{Leaf, Stored, UnderWay, decode_with_auth};
use std::sync::Arc;

/// Puts under way again what had not ended. The entries of what is under way are never erased, so they can be read.
pub(super) fn under_way(fold: &mut Fold, log: &SegmentLog) -> Result<(), StorageError> {
    for (effect, moved) in std::mem::take(&mut fold.under_way) {
        resume(fold, log, effect, moved)?;
    }
    Ok(())
}

fn resume(fold: &mut Fold, log: &SegmentLog, effect: u64, moved: Moved) -> Result<(), StorageError> {
    let Some((leaf, stored, auth)) = read(log, effect)? else { return Ok(()) };
    let begun = match &stored {
        Stored::Action(action) => parked_action(&leaf, action, auth).ok().map(|action| (action, None)),
        Stored::Approval(approval) => {
            let review = approval.shown.review.0;
            let parked = parked(log, review)?.map(|mut action| {
                // It may have waited when the snapshot was taken, which then says what it had observed.
                let waited = fold.waiting.iter().find(|(entry, _)| *entry == review);
                action.observed = waited.map_or(action.observed, |(_, observed)| observed.clone());
                action
            });
            let approved =
                leaf.by().ok().map(|by| Approved { by, shown: approval.shown.clone(), until_ms: approval.until_ms });
            parked.zip(approved).map(|(action, approved)| (action, Some(approved)))
        }
        _ => None,
    };
    let (Some((mut action, approved)), Some(under_way)) = (begun, stored.in_flight()) else { return Ok(()) };
    action.observed = moved.observed.unwrap_or(action.observed);
    fold.put_under_way(&leaf, Arc::new(action), approved, stored.charges(), under_way);
    if let Some(dispatch) = moved.dispatch
        && let Some((leaf, Stored::Dispatch(stored), _)) = read(log, dispatch)?
        && let Some(UnderWay { in_flight, reads }) = &stored.in_flight
    {
        fold.state.dispatched(stored.effect, leaf.index, leaf.time, in_flight, &stored.charges, reads);
    }
    if let Some(entry) = moved.in_doubt {
        let since_ms = read(log, entry)?.map_or(fold.time_ms, |(leaf, ..)| leaf.time);
        let fences = &mut fold.state.fences;
        fold.state.effects.settle(EffectId(effect), Outcome::InDoubt, entry, since_ms, fences);
    }
    Ok(())
}

fn parked(log: &SegmentLog, review: u64) -> Result<Option<Action>, StorageError> {
    let Some((leaf, Stored::Action(stored), auth)) = read(log, review)? else { return Ok(None) };
    Ok(parked_action(&leaf, &stored, auth).ok())
}

fn read(log: &SegmentLog, index: u64) -> Result<Option<(Leaf, Stored, Auth)>, StorageError> {
    let stored = log.read_entry(index)?;
    let Some((_, payload)) = stored.content else { return Ok(None) };
    let Ok(leaf) = Leaf::decode(&stored.leaf) else { return Ok(None) };
    let Ok((stored, auth)) = decode_with_auth(&leaf, &payload) else { return Ok(None) };
    Ok(Some((leaf, stored, auth)))
}
