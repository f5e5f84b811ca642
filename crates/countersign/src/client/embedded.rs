//! A gate opened here on its data folder, called without a socket.

use super::attempts::Lost;
use super::{ANSWER_BYTES_MAX, Answer, Call, Client};
use crate::commands::Failure;
use crate::commands::serve::operators::{Operators, Socket};
use crate::config::{Config, OPERATOR_SOCKET};
use crate::data::DataFolder;
use crate::http::Reach;
use crate::http::rate::RateSettings;
use anyhow::{Context as _, Result};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use countersign_engine::gate::Gate;
use countersign_engine::outbox::{Adapters, Outbox};
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Runtime;
use tower::Service as _;

/// The host that calls are sent to, which is this process.
pub(super) const HOST: &str = "127.0.0.1";

/// Says how to ask the gate that runs on a folder, where that is why the folder cannot be opened.
fn beside_gate(error: anyhow::Error, data: &Path, config: &Config) -> anyhow::Error {
    let Ok(Some(_)) = Client::nearby(data, config) else { return error };
    let is_usual = data.canonicalize().ok() == config.data(None).canonicalize().ok();
    let instead = match is_usual {
        true => "leave out --data".to_owned(),
        false => format!("write --server unix:{} instead of --data", data.join(OPERATOR_SOCKET).display()),
    };
    match error.downcast::<Failure>() {
        Ok(failure) => {
            let told =
                Failure::cannot(failure.message()).hint(format!("a gate runs on it: {instead} to ask that gate"));
            failure.hints().iter().cloned().fold(told, Failure::hint).into()
        }
        Err(error) => error,
    }
}

/// A gate opened here.
pub struct Embedded {
    gate: Arc<Gate>,
    router: Router,
    runtime: Runtime,
    /// Carries calls out; only where the process stays for long enough to see to them.
    outbox: Option<Outbox>,
    /// Others on this machine who ask the same gate.
    others: Option<Operators>,
}

impl Embedded {
    /// Opens a gate for a command: calls that it begins are carried out by the next gate that runs on the folder.
    pub(super) fn open(data: &Path, config: &Config) -> Result<Self> {
        Self::open_with(data, config, Adapters::new(), false)
    }

    /// Opens a gate for a process that stays, with everything that `serve` would have but a socket.
    fn open_whole(data: &Path, config: &Config) -> Result<Self> {
        let folder = DataFolder::find(data)?;
        Self::open_with(data, config, crate::adapters::all(config, &folder.origin)?, true)
    }

    /// The same, with the socket that `serve` would have.
    pub(super) fn open_with_socket(data: &Path, config: &Config) -> Result<Self> {
        let mut opened = Self::open_whole(data, config)?;
        // Without it this process works all the same.
        let socket = Socket::bind(config, data).and_then(|socket| {
            let serve = |socket: Socket| socket.serve(opened.router.clone());
            socket.map(serve).transpose()
        });
        match socket {
            Ok(others) => opened.others = others,
            Err(error) => crate::terminal::note(format_args!("note: no one else can ask this gate: {error}")),
        }
        Ok(opened)
    }

    fn open_with(data: &Path, config: &Config, adapters: Adapters, calls: bool) -> Result<Self> {
        let folder = DataFolder::find(data)?;
        let opened = folder.open(config.tune(folder.options()));
        let (gate, report) = opened.map_err(|error| beside_gate(error, data, config))?;
        if let Some(cut) = &report.storage.cut {
            crate::terminal::note(format_args!(
                "note: cut {} bytes of a batch that was never acknowledged from {}",
                cut.bytes, cut.place
            ));
        }
        let gate = Arc::new(gate);
        let outbox = calls.then(|| Outbox::start(Arc::clone(&gate), adapters.clone())).transpose();
        let router = match calls {
            true => {
                crate::http::router(Arc::clone(&gate), Arc::new(adapters), Reach::Loopback, RateSettings::default())
            }
            false => crate::http::router_for_command(Arc::clone(&gate)),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Ok(Self {
            router,
            gate,
            outbox: outbox.context("the system gives no threads for the outbox")?,
            runtime: runtime.context("the system gives no runtime")?,
            others: None,
        })
    }

    pub(super) fn send(&self, call: Call) -> Result<Answer, Lost> {
        let mut request = Request::builder().method(call.method).uri(&call.path).header("host", HOST);
        for (name, value) in &call.headers {
            request = request.header(*name, value.as_bytes());
        }
        let request = request.body(call.body.map_or_else(Body::empty, Body::from)).map_err(|error| {
            let failure = Failure::usage(format!("this cannot be sent: {error}"));
            Lost::Unsendable(failure.hint("agent names and ids must be plain text"))
        })?;
        let mut router = self.router.clone();
        self.runtime.block_on(async move {
            let response = match router.call(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
            let status = response.status().as_u16();
            let retry_after = response.headers().get("retry-after").and_then(|after| after.to_str().ok()?.parse().ok());
            let limit = usize::try_from(ANSWER_BYTES_MAX).unwrap_or(usize::MAX);
            let body = to_bytes(response.into_body(), limit).await;
            let body = body.map_err(|error| Lost::Unanswered(Failure::cannot(format!("no answer: {error}"))))?;
            Ok(Answer { status, retry_after_s: retry_after, body: body.to_vec() })
        })
    }

    pub(super) fn close(self) -> Result<()> {
        if let Some(others) = self.others {
            others.stop();
        }
        drop(self.router);
        drop(self.runtime);
        if let Some(outbox) = self.outbox {
            outbox.stop();
        }
        match Arc::into_inner(self.gate) {
            Some(gate) => {
                gate.close().map_err(|cause| Failure::cannot(format!("the log was not closed: {cause}")).into())
            }
            // Someone still holds it; its own drop closes it.
            None => Ok(()),
        }
    }
}
