//! Adapters may panic: they, and the libraries below them, read what others send. The thread that called one goes on, and what the
//! adapter was doing counts as unknown, because it may have sent something before (I6).

use super::{Attempt, Probed, ToolAnswer};
use countersign_core::call::{Evidence, Found, FoundCode};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts an attempt as being made until it is dropped, also by a panic.
pub(super) struct Busy(Arc<AtomicUsize>);

impl Busy {
    pub(super) fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(count))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn evidence() -> Evidence {
    Evidence::of(FoundCode::Panicked.alone())
}

/// What an attempt found.
pub(super) fn attempting(attempt: impl FnOnce() -> Attempt) -> Attempt {
    // The panic hook has said what happened. What the adapter shares with others it must keep whole itself.
    catch_unwind(AssertUnwindSafe(attempt)).unwrap_or_else(|_| Attempt::Unknown(evidence()))
}

/// What a probe found.
pub(super) fn probing(probe: impl FnOnce() -> Probed) -> Probed {
    catch_unwind(AssertUnwindSafe(probe)).unwrap_or_else(|_| Probed::Unknown(evidence()))
}

/// What a reading gave.
pub(super) fn reading(read: impl FnOnce() -> Result<ToolAnswer, Found>) -> Result<ToolAnswer, Found> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(FoundCode::Panicked.alone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_unknown_and_leaves_nothing_counted() {
        let count = Arc::new(AtomicUsize::new(0));
        let found = attempting(|| {
            let _busy = Busy::new(&count);
            panic!("for the test")
        });
        assert_eq!(found, Attempt::Unknown(evidence()));
        assert_eq!(count.load(Ordering::Acquire), 0);
        assert_eq!(probing(|| panic!("for the test")), Probed::Unknown(evidence()));
        assert_eq!(reading(|| panic!("for the test")), Err(FoundCode::Panicked.alone()));
    }
}
