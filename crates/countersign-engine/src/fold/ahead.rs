//! Reading ahead: one thread walks, verifies and decodes a log while another applies what was read.

use super::FoldError;
use crate::storage::{self, Place, PlacedBatch, StorageError};
use crossbeam_channel::bounded;
use std::thread;

/// Batches that are read before the first of them is applied: enough that neither thread waits for the other's slow ones, and little
/// memory even with the largest.
const BATCHES: usize = 4;

/// The other thread has refused an entry; what it says is the error.
#[derive(Debug, thiserror::Error)]
#[error("an entry before was refused")]
struct Stopped;

/// Walks a log on this thread, and applies what `read` makes of each batch on another, in order.
///
/// # Errors
/// If the walk fails, or something cannot be read or applied: whichever comes first in the log.
pub fn ahead<T: Send, R>(
    read: impl Fn(&PlacedBatch<'_>) -> Result<Vec<T>, FoldError>,
    mut apply: impl FnMut(T) -> Result<(), FoldError> + Send,
    walk: impl FnOnce(&mut storage::Fold<'_>) -> Result<R, StorageError>,
) -> Result<R, StorageError> {
    let (send, receive) = bounded::<(Place, Vec<T>)>(BATCHES);
    thread::scope(|scope| {
        let applying = scope.spawn(move || {
            for (place, batch) in receive {
                if let Err(source) = batch.into_iter().try_for_each(&mut apply) {
                    return Err(StorageError::Fold { place, source: source.into() });
                }
            }
            Ok(())
        });
        let walked = walk(&mut |placed| {
            let index = placed.batch.header().first_index;
            let place = Place { segment: placed.segment.to_owned(), offset: placed.offset, index };
            send.send((place, read(&placed)?)).map_err(|_| Stopped.into())
        });
        drop(send);
        match applying.join() {
            // What is applied comes before what is read.
            Ok(applied) => applied.and(walked),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
