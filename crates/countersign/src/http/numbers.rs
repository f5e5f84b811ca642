//! Numbers in paths and queries, within the limits that /openapi.json states. What lies beyond is refused and not cut down: a
//! caller that asked for 1,000 and got 256 would take them for all there is.

use super::error::HttpError;
use super::facts::bad_path;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use countersign_api::ErrorCode;
use countersign_core::limits::INTEGER_MAX;
use std::ops::RangeInclusive;

/// An index in the ledger, from a path.
pub fn index(path: Result<Path<u64>, PathRejection>) -> Result<u64, HttpError> {
    let Path(index) = path.map_err(|error| bad_path(&error))?;
    position("index", index)
}

/// A place in the ledger, or a version.
pub fn position(name: &str, value: u64) -> Result<u64, HttpError> {
    within(name, value, 0..=INTEGER_MAX.unsigned_abs())
}

/// A number within limits.
pub fn within(name: &str, value: u64, limits: RangeInclusive<u64>) -> Result<u64, HttpError> {
    if limits.contains(&value) {
        return Ok(value);
    }
    let message = format!("`{name}` is {value}; it must be {} to {}", limits.start(), limits.end());
    Err(HttpError::new(ErrorCode::InvalidPath, message, "the limits are in /openapi.json; ask for the rest in pages"))
}
