//! The log for outsiders: C2SP tlog-tiles under `/log/`, so that existing clients and witnesses can read it.

use super::App;
use super::error::HttpError;
use axum::extract::{OriginalUri, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use countersign_api::ErrorCode;
use countersign_ledger::tile::{FULL_WIDTH, TileRef, parse_path};
use std::sync::Arc;

/// A full tile never changes, so caches may keep it forever; a partial one is soon replaced by a wider one.
const FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

/// `GET /log/checkpoint`
pub async fn checkpoint(State(app): State<Arc<App>>) -> Response {
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    ([(header::CONTENT_TYPE, text)], app.gate.checkpoint().to_string()).into_response()
}

/// `GET /log/tile/…`
pub async fn tile(State(app): State<Arc<App>>, OriginalUri(uri): OriginalUri) -> Result<Response, HttpError> {
    // The path as it was sent, not decoded: a tile has one name, and a cache in front must not learn another.
    let path = uri.path().strip_prefix("/log/").unwrap_or_default();
    let tile = parse_path(path).map_err(|_| {
        HttpError::new(
            ErrorCode::NotFound,
            "there is no tile at this path",
            "tiles are at tile/<level>/<index> and tile/entries/<index>, the index as x001/x234/067, partial ones with .p/<width>",
        )
    })?;
    let bytes = app.blocking(move |gate| gate.tile(&tile)).await?;
    let mut response =
        ([(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"))], bytes).into_response();
    let (TileRef::Hashes { width, .. } | TileRef::Entries { width, .. }) = tile;
    if width == FULL_WIDTH {
        response.headers_mut().insert(header::CACHE_CONTROL, FOR_EVER);
    }
    Ok(response)
}
