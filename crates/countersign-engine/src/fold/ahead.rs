//! Reading ahead: one thread walks and verifies a log, others decode what it has verified, and one applies it in order.

use super::FoldError;
use crate::storage::{self, Entries, Place, StorageError};
use crossbeam_channel::{Receiver, Sender, bounded};
use std::sync::Arc;
use std::thread;

/// Most threads that decode: past this, walking and applying are what takes the time.
const DECODERS_MAX: usize = 4;

/// Batches on their way for each decoder: enough that no thread waits for another's slow ones, and little memory even with the largest.
const BATCHES: usize = 3;

/// The other thread has refused an entry; what it says is the error.
#[derive(Debug, thiserror::Error)]
#[error("an earlier entry was rejected")]
struct Stopped;

/// What was made of a batch.
type Decoded<T> = Result<Vec<T>, FoldError>;

/// A batch to be decoded, and where to put what is made of it.
type Job<T> = (Entries, Sender<Decoded<T>>);

/// Walks a log on this thread, has `read` decode each batch on others, and applies what comes of it on another one, in order.
///
/// # Errors
/// If the walk fails, or something cannot be read or applied: whichever comes first in the log.
pub fn ahead<T: Send, R>(
    read: impl Fn(&Arc<Entries>) -> Decoded<T> + Sync,
    mut apply: impl FnMut(T) -> Result<(), FoldError> + Send,
    walk: impl FnOnce(&mut storage::Fold<'_>) -> Result<R, StorageError>,
) -> Result<R, StorageError> {
    let decoders = thread::available_parallelism().map_or(1, usize::from).min(DECODERS_MAX);
    let (in_order, ordered) = bounded::<(Place, Receiver<Decoded<T>>)>(BATCHES * decoders);
    let (to_decode, jobs) = bounded::<Job<T>>(BATCHES * decoders);
    thread::scope(|scope| {
        for _ in 0..decoders {
            let (jobs, read) = (jobs.clone(), &read);
            scope.spawn(move || {
                for (batch, decoded) in jobs {
                    // Where no one waits for it any more, an entry before was refused.
                    drop(decoded.send(read(&Arc::new(batch))));
                }
            });
        }
        drop(jobs);
        let applying = scope.spawn(move || {
            for (place, decoded) in ordered {
                // A decoder that panicked ends the scope with its panic; nothing behind it is applied.
                let Ok(decoded) = decoded.recv() else { break };
                let applied = decoded.and_then(|batch| batch.into_iter().try_for_each(&mut apply));
                if let Err(source) = applied {
                    return Err(StorageError::Fold { place, source: source.into() });
                }
            }
            Ok(())
        });
        let walked = walk(&mut |placed| {
            let index = placed.batch.header().first_index;
            let place = Place { segment: placed.segment.to_owned(), offset: placed.offset, index };
            let (decoded, receive) = bounded(1);
            in_order.send((place, receive)).map_err(|_| Stopped)?;
            to_decode.send((placed.to_entries(), decoded)).map_err(|_| Stopped.into())
        });
        drop((in_order, to_decode));
        match applying.join() {
            // What is applied comes before what is read.
            Ok(applied) => applied.and(walked),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
