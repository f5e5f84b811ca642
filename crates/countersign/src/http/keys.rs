//! The gate's own keys.

use super::caller::Caller;
use super::error::HttpError;
use super::{App, body, json, receipt};
use axum::extract::{Request, State};
use axum::response::Response;
use countersign_api::{ErrorCode, LogKeyRotated};
use countersign_core::limits::REASON_BYTES_MAX;
use countersign_engine::gate::RotateLogKeyError;
use countersign_engine::log_key::RotateError;
use std::sync::Arc;

/// `POST /v1/keys/log/rotate`
pub async fn rotate_log(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Result<Response, HttpError> {
    let text = body::text(request).await?;
    let mut fields = body::Fields::parse(&text)?;
    let reason = fields.string("reason")?;
    fields.done()?;
    if reason.trim().is_empty() || reason.len() > REASON_BYTES_MAX {
        return Err(HttpError::field(format!("field `reason` must have 1 to {REASON_BYTES_MAX} bytes")));
    }
    let (entered, log_key) = app.blocking(move |gate| gate.rotate_log_key(caller.name, caller.auth, reason)).await?;
    let receipt = receipt(&entered);
    json(&LogKeyRotated { entry: entered.entry.index, log_key: log_key.to_string(), receipt })
}

impl From<RotateLogKeyError> for HttpError {
    fn from(error: RotateLogKeyError) -> Self {
        match error {
            RotateLogKeyError::Refused(refusal) => refusal.into(),
            RotateLogKeyError::Prepare(RotateError::UnderWay) => {
                let hint =
                    "ask again in a moment; if it stays so, restart the gate, which finishes or drops the rotation";
                Self::new(ErrorCode::NotReady, error.to_string(), hint)
            }
            RotateLogKeyError::Prepare(_) | RotateLogKeyError::Unsettled { .. } => Self::internal(error.to_string()),
        }
    }
}
