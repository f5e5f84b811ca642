//! The outermost layer, round every request: its id, its span, its count, and the one place where errors get their body.
//!
//! A panic in a handler ends that request with 500 and nothing else. Neither bodies nor payloads are ever logged.

use super::App;
use super::error::HttpError;
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use countersign_api::{ErrorBody, ErrorCode, ErrorDetail};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Instant;
use tracing::Instrument as _;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longest request id that is accepted from a caller.
const REQUEST_ID_CHARS_MAX: usize = 64;

/// Wraps one request.
pub async fn outermost(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request_id(request.headers());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("none", MatchedPath::as_str);
    let request_is_get = request.method() == Method::GET;
    let span = tracing::info_span!("request", id, method = known_method(request.method()), route);
    #[cfg(debug_assertions)]
    let method = request.method().clone();
    let mut response = caught(next.run(request)).instrument(span.clone()).await;
    if response.status().is_client_error() || response.status().is_server_error() {
        let code = write_error(&mut response, &id);
        #[cfg(debug_assertions)]
        is_listed(&method, route, code);
        app.metrics.refused(code);
        // Whoever looks whether there is a fact is answered, and not refused.
        let looks = code == ErrorCode::FactNotFound.as_str() && request_is_get;
        if let Some(unlogged) = (!looks).then(|| REFUSALS.may_log()).flatten() {
            span.in_scope(|| {
                tracing::info!(
                    status = response.status().as_u16(),
                    code,
                    took_us = micros(started),
                    unlogged,
                    "refused"
                )
            });
        }
    } else {
        span.in_scope(|| tracing::debug!(status = response.status().as_u16(), took_us = micros(started), "answered"));
    }
    app.metrics.answered(route, response.status().as_u16());
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, HeaderValue::from_str(&id).unwrap_or(HeaderValue::from_static("unknown")));
    // Answers speak of one instant; only tiles, which never change, say otherwise themselves.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// A method by its name, if it is one of HTTP's own: what a caller makes up, of whatever length, does not get into the log.
fn known_method(method: &Method) -> &str {
    const KNOWN: [Method; 8] = [
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::DELETE,
        Method::HEAD,
        Method::OPTIONS,
        Method::PATCH,
        Method::TRACE,
    ];
    if KNOWN.contains(method) { method.as_str() } else { "other" }
}

/// Refusals that are logged in one second. Callers without a right must not be able to fill the disk with lines about themselves; the
/// metrics count all of them.
const REFUSALS_LOGGED_MAX: u64 = 20;

static REFUSALS: Refusals =
    Refusals { second: AtomicU64::new(0), in_it: AtomicU64::new(0), unlogged: AtomicU64::new(0) };

/// Counts refusals by the second.
struct Refusals {
    second: AtomicU64,
    in_it: AtomicU64,
    unlogged: AtomicU64,
}

impl Refusals {
    /// How many were not logged since the last that was, if this one may be.
    fn may_log(&self) -> Option<u64> {
        static START: OnceLock<Instant> = OnceLock::new();
        let now = START.get_or_init(Instant::now).elapsed().as_secs();
        if self.second.swap(now, Ordering::Relaxed) != now {
            self.in_it.store(0, Ordering::Relaxed);
        }
        if self.in_it.fetch_add(1, Ordering::Relaxed) < REFUSALS_LOGGED_MAX {
            return Some(self.unlogged.swap(0, Ordering::Relaxed));
        }
        self.unlogged.fetch_add(1, Ordering::Relaxed);
        None
    }
}

/// How many refusals were not logged since the last that was, if there may be a line about one now.
pub fn may_log_refusal() -> Option<u64> {
    REFUSALS.may_log()
}

/// Every error that any test of a debug build meets, in the process or over the wire, is one that the table lists for the operation.
#[cfg(debug_assertions)]
fn is_listed(method: &Method, route: &str, code: &str) {
    // Tests have handlers of their own, and call what does not exist.
    let Some(listed) = countersign_api::routes::find(method.as_str(), route) else { return };
    debug_assert!(
        listed.errors().iter().any(|known| known.as_str() == code),
        "{method} {route} answers {code}, which its row in countersign-api/src/routes/table.rs does not list"
    );
}

fn micros(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// Gives an error its body. What axum refused by itself gets the same shape as what handlers refuse.
fn write_error(response: &mut Response, request_id: &str) -> &'static str {
    let error = response.extensions_mut().remove::<HttpError>();
    let error = error.unwrap_or_else(|| HttpError::from_status(response.status()));
    let body = ErrorBody {
        error: ErrorDetail {
            code: error.code.as_str().to_owned(),
            message: error.message,
            hint: error.hint.into_owned(),
            request_id: request_id.to_owned(),
            entry: error.entry,
            problems: error.problems,
        },
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.remove(header::CONTENT_LENGTH);
    *response.body_mut() = Body::from(serde_json::to_vec(&body).unwrap_or_default());
    error.code.as_str()
}

/// Turns a panic into an answer.
async fn caught(future: impl Future<Output = Response>) -> Response {
    let mut future = Box::pin(future);
    poll_fn(move |context| {
        // Nothing of the request is looked at again after a panic; what the gate shares has its own locks, none of which
        // is held while a handler runs.
        catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)))
            .unwrap_or_else(|_| Poll::Ready(HttpError::internal("a handler panicked").into_response()))
    })
    .await
}

/// The caller's id for the request, if it is fit to be logged, or a new one.
fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok());
    let fit = |id: &&str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        (1..=REQUEST_ID_CHARS_MAX).contains(&id.len()) && id.bytes().all(plain)
    };
    given.filter(fit).map_or_else(new_id, ToOwned::to_owned)
}

/// Ids need only be told apart in the logs of some days: a random start of the process and a count.
fn new_id() -> String {
    static PROCESS: OnceLock<u32> = OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let process = PROCESS.get_or_init(|| getrandom::u32().unwrap_or_else(|_| std::process::id()));
    format!("{process:08x}-{:08x}", COUNT.fetch_add(1, Ordering::Relaxed))
}
