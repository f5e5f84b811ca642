//! A payment service that pays every request and keeps a book: what a gate let out is seen here, whatever the gate says.

use anyhow::{Context as _, Result};
use axum::Router;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A service that runs until it is dropped.
pub struct Payments {
    url: String,
    calls: Arc<AtomicUsize>,
    _runtime: tokio::runtime::Runtime,
}

impl Payments {
    /// Starts it on a free port of loopback.
    pub fn start() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.context("the system gives no runtime")?;
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"));
        let listener = listener.context("no port of loopback is free")?;
        let url = format!("http://{}", listener.local_addr()?);
        let calls = Arc::new(AtomicUsize::new(0));
        let router = Router::new().fallback(answer).with_state(Arc::clone(&calls));
        runtime.spawn(async move { axum::serve(listener, router).await });
        Ok(Self { url, calls, _runtime: runtime })
    }

    /// Where it listens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// How many payments it has made.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

async fn answer(State(calls): State<Arc<AtomicUsize>>, method: Method) -> (StatusCode, &'static str) {
    match method {
        Method::POST => {
            calls.fetch_add(1, Ordering::SeqCst);
            (StatusCode::OK, "{}")
        }
        _ => (StatusCode::NOT_FOUND, "{}"),
    }
}
