//! Reading bodies: bounded, in time, UTF-8, and strict.

use super::error::{HttpError, invalid_json, too_large, unknown_field};
use crate::connections::Slot;
use crate::mcp::buffers::{Buffers, Held};
use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::Request;
use axum::http::{Extensions, header};
use countersign_api::ErrorCode;
use countersign_api::routes::Route;
use countersign_core::body::RawBody;
use countersign_core::json::parse_object_exact;
use serde_json::{Map, Value};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// How long a body may take to arrive where it comes over no connection that says so: a caller that stops halfway must not hold a place
/// forever. Tests send theirs at once and do not want to wait that long for the one that never comes.
const ARRIVES_WITHIN: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 10 });

/// How much of a body that is too large is still read and thrown away, so that an honest caller gets to read the answer: a
/// connection that is closed with bytes unread is reset, and the answer is lost with it.
const DRAINED_BYTES_MAX: usize = 1 << 20;

/// The body of a signed request, which the guard has read within the bounds of its row and whose digest it has checked: nothing
/// copies or decodes it again.
#[derive(Debug, Clone)]
pub struct Checked(pub RawBody);

/// Most bytes of all bodies on their way, together: 512 of the largest of agents. Small ones have a quarter more for themselves. That one
/// agent can announce so many is listed in docs/threat-model.md.
const ON_THEIR_WAY_BYTES_MAX: usize = 128 << 20;

/// The bodies on their way, of all connections.
#[derive(Debug, Clone)]
pub struct Bodies(Arc<Buffers>);

impl Default for Bodies {
    fn default() -> Self {
        Self(Buffers::new(ON_THEIR_WAY_BYTES_MAX))
    }
}

impl Bodies {
    /// Room for a body, until it is dropped: of the length that is announced, or else for the longest that is accepted.
    pub fn room(&self, announced: Option<usize>, bytes_max: usize) -> Result<Held, HttpError> {
        let mut held = self.0.nothing();
        let bytes = announced.unwrap_or(bytes_max).min(bytes_max);
        held.grow_to(bytes).map_err(|_| {
            HttpError::new(
                ErrorCode::Busy,
                "too many bytes of requests are on their way to the gate already",
                "nothing was decided; sign again and retry in a second, an action with the same idempotency key",
            )
        })?;
        Ok(held)
    }
}

/// How long a body is, where its sender announced that.
pub fn announced(body: &Body) -> Option<usize> {
    body.size_hint().exact().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// Reads a body as text, of a type and size that the operation's row in the table takes.
pub async fn text(mut request: Request) -> Result<RawBody, HttpError> {
    let route = request.extensions().get::<&'static Route>().copied();
    let route = route.ok_or_else(|| HttpError::internal("a handler reads a body where the table has no operation"))?;
    check_type(&request, route.body.types())?;
    if let Some(Checked(body)) = request.extensions_mut().remove() {
        return Ok(body);
    }
    let within = arrives_within(request.extensions());
    let bodies = request.extensions().get::<Bodies>().cloned();
    let announced = announced(request.body());
    let _held = bodies.map(|bodies| bodies.room(announced, route.body.bytes_max())).transpose()?;
    let bytes = whole(request.into_body(), route.body.bytes_max(), within).await?;
    Ok(utf8(&bytes)?.into())
}

/// How long the body of a request may take, as the settings of its connection say.
pub fn arrives_within(extensions: &Extensions) -> Duration {
    extensions.get::<Arc<Slot>>().map_or(ARRIVES_WITHIN, |connection| connection.body_within())
}

/// Reads a whole body.
pub async fn whole(body: Body, bytes_max: usize, within: Duration) -> Result<Bytes, HttpError> {
    let read = tokio::time::timeout(within, collect(body, bytes_max)).await;
    read.map_err(|_| {
        let message = format!("the body did not arrive within {} s", within.as_secs_f64());
        HttpError::new(ErrorCode::BodyTimeout, message, "send the whole body at once; nothing was decided")
    })?
}

/// Reads what comes of a body that is of no use, and keeps none of it: see [`DRAINED_BYTES_MAX`] for why.
pub async fn discard(mut body: Body, bytes_max: usize, within: Duration) {
    let mut left = bytes_max.saturating_add(DRAINED_BYTES_MAX);
    let drain = async {
        while let Some(Ok(frame)) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            left = left.saturating_sub(frame.data_ref().map_or(0, |data| data.len()));
            if left == 0 {
                return;
            }
        }
    };
    // The answer is the same whether the rest came or not.
    let _ = tokio::time::timeout(within, drain).await;
}

/// The text that bytes are.
pub fn utf8(bytes: &[u8]) -> Result<&str, HttpError> {
    std::str::from_utf8(bytes).map_err(|error| {
        HttpError::new(
            ErrorCode::InvalidUtf8,
            format!("the body is not UTF-8 from byte {} on", error.valid_up_to()),
            "encode the body as UTF-8",
        )
    })
}

/// What the sender of a body with more bytes than this is told.
pub fn larger_than(bytes_max: usize) -> HttpError {
    too_large(format!("the body has more than {bytes_max} bytes"))
}

async fn collect(mut body: Body, bytes_max: usize) -> Result<Bytes, HttpError> {
    let too_large = || larger_than(bytes_max);
    // Most bodies come in one piece, which is not copied.
    let (mut first, mut bytes) = (Bytes::new(), Vec::new());
    let mut arrived = 0_usize;
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|_| {
            let hint = "send the whole body; nothing was decided";
            HttpError::new(ErrorCode::BadRequest, "the body could not be read", hint)
        })?;
        // Trailers say nothing that is read here.
        let Ok(data) = frame.into_data() else { continue };
        arrived = arrived.saturating_add(data.len());
        if arrived > bytes_max.saturating_add(DRAINED_BYTES_MAX) {
            return Err(too_large());
        }
        if arrived > bytes_max {
            continue;
        }
        if arrived == data.len() {
            first = data;
            continue;
        }
        if bytes.is_empty() {
            bytes.extend_from_slice(&first);
        }
        bytes.extend_from_slice(&data);
    }
    match arrived > bytes_max {
        true => Err(too_large()),
        false if bytes.is_empty() => Ok(first),
        false => Ok(bytes.into()),
    }
}

fn check_type(request: &Request, types: &[&str]) -> Result<(), HttpError> {
    let given = request.headers().get(header::CONTENT_TYPE).and_then(|given| given.to_str().ok()).unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim();
    if types.iter().any(|taken| essence.eq_ignore_ascii_case(taken)) {
        return Ok(());
    }
    let message = match essence {
        "" => "the header `Content-Type` is missing".to_owned(),
        _ => "this `Content-Type` is not accepted here".to_owned(),
    };
    Err(HttpError::new(
        ErrorCode::UnsupportedMediaType,
        message,
        format!("send it with `Content-Type: {}`", types.join("` or `")),
    ))
}

/// The fields of a JSON object, taken one by one; what is left over in the end is unknown and refused.
pub struct Fields(Map<String, Value>);

impl Fields {
    /// Reads an object strictly.
    pub fn parse(text: &str) -> Result<Self, HttpError> {
        let object = parse_object_exact(text)
            .map_err(|error| invalid_json(format!("the body is not acceptable JSON: {error}")))?;
        Ok(Self(object))
    }

    /// Takes a field.
    pub fn take(&mut self, field: &str) -> Option<Value> {
        self.0.swap_remove(field)
    }

    /// Takes a field that must be there.
    pub fn required(&mut self, field: &str) -> Result<Value, HttpError> {
        self.take(field).ok_or_else(|| HttpError::field(format!("field `{field}` is missing")))
    }

    /// Takes a string that must be there.
    pub fn string(&mut self, field: &str) -> Result<String, HttpError> {
        match self.required(field)? {
            Value::String(text) => Ok(text),
            _ => Err(HttpError::field(format!("field `{field}` must be a string"))),
        }
    }

    /// Takes a required number above 0.
    pub fn positive(&mut self, field: &str) -> Result<u64, HttpError> {
        let value = self.required(field)?.as_u64().filter(|value| *value > 0);
        value.ok_or_else(|| HttpError::field(format!("field `{field}` must be a whole number above 0")))
    }

    /// Refuses what no one asked for.
    pub fn done(self) -> Result<(), HttpError> {
        match self.0.keys().next() {
            None => Ok(()),
            // The name is the caller's own text: shortened, so that an answer is never much larger than its message.
            Some(unknown) => {
                let unknown: String = unknown.chars().take(80).collect();
                Err(unknown_field(format!("field `{unknown}` is not known")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Frame;
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::task::{Context, Poll};

    /// A body that arrives in these pieces.
    struct Pieces(VecDeque<&'static str>);

    impl http_body::Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;
        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(Bytes::from_static(piece.as_bytes())))))
        }
    }

    #[tokio::test]
    async fn a_body_is_whole_in_however_many_pieces_it_arrives() {
        let read = async |pieces: &[&'static str], bytes_max| {
            let body = Body::new(Pieces(pieces.iter().copied().collect()));
            whole(body, bytes_max, ARRIVES_WITHIN).await.map_err(|error| error.code)
        };
        for pieces in [&["abcd"][..], &["ab", "cd"], &["", "a", "", "bc", "d", ""], &["abcd", ""]] {
            assert_eq!(read(pieces, 4).await.as_deref(), Ok(&b"abcd"[..]), "{pieces:?}");
            assert_eq!(read(pieces, 3).await, Err(ErrorCode::BodyTooLarge), "{pieces:?}");
        }
        assert_eq!(read(&[], 0).await.as_deref(), Ok(&b""[..]));
    }
}
