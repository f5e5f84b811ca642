//! The second half of the commit stage: one write, one sync, and only then is anything shown or answered.

use super::{CommitError, Encoded};
use crate::log_key::LogKeys;
use crate::request::{Answer, Entered};
use crate::sequence::Sequenced;
use crate::storage::{Append, Log, StorageError};
use crate::stream::Stream;
use crate::view::View;
use countersign_core::record::Event;
use countersign_ledger::hash::Hash;
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Syncs, publishes and answers.
pub struct StoreStage {
    writer: Box<dyn Append>,
    log: Arc<dyn Log>,
    view: Arc<RwLock<View>>,
    keys: Arc<LogKeys>,
    stream: Arc<Stream>,
    /// How far readers have come: what they needed of earlier positions can be dropped.
    synced: Arc<AtomicU64>,
    bytes: u64,
}

impl StoreStage {
    /// Goes on from the end of a log.
    pub fn new(
        (writer, log): (Box<dyn Append>, Arc<dyn Log>),
        view: Arc<RwLock<View>>,
        keys: Arc<LogKeys>,
        stream: Arc<Stream>,
        synced: Arc<AtomicU64>,
    ) -> Self {
        Self { writer, log, view, keys, stream, synced, bytes: 0 }
    }

    /// Bytes written to the log since it was opened.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The log it writes.
    pub fn log(&self) -> &Arc<dyn Log> {
        &self.log
    }

    /// Makes a batch durable, publishes it and answers; gives the memory of its bytes back. On an error everybody waiting is
    /// told, and no verdict is given.
    pub fn store(&mut self, encoded: Encoded) -> Result<Vec<u8>, CommitError> {
        if let Err(error) = self.make_durable(&encoded) {
            encoded.refuse(&(&error).into());
            return Err(error);
        }
        let Encoded { bytes, entries, leaves, tiles, proof, answers, clock_stepped } = encoded;
        if let Some(proof) = proof {
            self.publish(&entries, (&leaves, &tiles), &proof.checkpoint, clock_stepped);
            self.stream.publish(&entries, bytes.len());
            for Sequenced { entry, reply, .. } in entries {
                if let Some(reply) = reply {
                    reply(Ok(Answer::Entered(Entered { entry, proof: Arc::clone(&proof) })));
                }
            }
        }
        for (reply, answer) in answers {
            reply(answer.map(Answer::Repeated));
        }
        Ok(bytes)
    }

    fn make_durable(&mut self, encoded: &Encoded) -> Result<(), CommitError> {
        if encoded.entries.is_empty() {
            return Ok(());
        }
        self.writer.append(&encoded.bytes)?;
        self.bytes += encoded.bytes.len() as u64;
        for Sequenced { entry, .. } in &encoded.entries {
            // An erasure is done as soon as it is decided: before anybody is told, and before any later snapshot.
            if let Event::Erasure { entries, .. } = &entry.event {
                self.log.erase(entries)?;
            }
            // Past this, nothing that only the old key signed is needed to open the folder: an anchor from before would be.
            if let Event::Rotation { .. } = &entry.event {
                self.log.anchor_past(entry.index)?;
            }
        }
        Ok(())
    }

    /// Shows readers what is now durable, in one step.
    fn publish(
        &mut self,
        entries: &[Sequenced],
        (leaves, tiles): (&[Hash], &[Hash]),
        checkpoint: &Arc<str>,
        clock_stepped: bool,
    ) {
        let mut view = self.view.write();
        for Sequenced { entry, .. } in entries {
            view.rest.apply(entry);
            if let Event::Rotation { .. } = &entry.event {
                // Under the view's lock: a snapshot must be signed by the key that the log has at its position.
                self.keys.advance();
            }
            view.position = entry.index + 1;
            view.time_ms = entry.time_ms;
        }
        view.tree.extend(leaves, tiles);
        view.checkpoint = Arc::clone(checkpoint);
        view.clock_stepped = clock_stepped;
        self.synced.store(view.position, Ordering::Release);
    }

    /// Ends cleanly.
    pub fn close(self) -> Result<(), StorageError> {
        self.writer.close()
    }
}
