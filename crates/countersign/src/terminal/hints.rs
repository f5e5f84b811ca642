//! The hints of errors: each error has its own, as data, and this asks it.

use crate::adapters::address::NotACidr;
use crate::adapters::http::base::NotABase;
use crate::adapters::postgres::setup::SetupError;
use crate::commands::Failure;
use crate::hinted::Hinted;
use crate::tls::Why;
use countersign_engine::commit::CommitError;
use countersign_engine::gate::OpenError;
use countersign_engine::storage::StorageError;
use countersign_ledger::checkpoint::{CheckpointError, KeyError};
use countersign_ledger::hash::HashParseError;
use countersign_ledger::receipt::ReceiptError;
use countersign_ledger::segment::{EncodeError, HeaderError};
use countersign_ledger::tile::{BundleError, PathError};
use countersign_ledger::tree::{ProofError, TreeError};
use countersign_ledger::verify::Broken;
use std::error::Error;

/// What one error of a chain says to do.
pub(super) fn of(error: &(dyn Error + 'static)) -> Vec<String> {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return failure.hints().to_vec();
    }
    macro_rules! first {
        ($($kind:ty),*) => { $(if let Some(error) = error.downcast_ref::<$kind>() { return error.hint().into_iter().collect(); })* };
    }
    first!(
        Hinted,
        Why,
        NotACidr,
        NotABase,
        SetupError,
        StorageError,
        CommitError,
        OpenError,
        CheckpointError,
        KeyError
    );
    first!(
        HashParseError,
        ReceiptError,
        EncodeError,
        HeaderError,
        BundleError,
        PathError,
        ProofError,
        TreeError,
        Broken
    );
    Vec::new()
}
