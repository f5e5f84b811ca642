//! Calls over HTTP: to one service, below one base, to addresses that were checked.
//!
//! An attempt opens a line of its own, looks at the halts, sends one request, and says what it found. Redirects are never
//! followed, no proxy is used, and what the service answers is cut to what a ledger can hold.

pub mod base;
pub mod connection;
mod exchange;
mod outcome;
mod reading;

use self::base::NotBelow;
use super::breaker::Breaker;
use super::kept;
use super::secret::{Environment, Known, Secret};
use crate::config::adapters::HttpSettings;
use crate::hinted::hinted;
use crate::tls::Files;
use crate::tls::client::{Client, server_name};
use anyhow::Result;
use connection::Connector;
use countersign_core::call::{Evidence, ExternalRead, Found, FoundCode, Send};
use countersign_core::canonical::Canonical;
use countersign_core::decimal;
use countersign_core::pact::FactSchema;
use countersign_engine::outbox::{Adapter, Attempt, Job, Probed, Reading};
use exchange::{Answer, NoAnswer, exchange};
use std::time::{Duration, Instant};
use ureq::http::{HeaderName, HeaderValue, Method, Request, header};

/// One HTTP service.
#[derive(Debug)]
pub struct HttpAdapter {
    name: String,
    connector: Connector,
    headers: Vec<(HeaderName, Secret)>,
    known: Known,
    /// For calls, and for what is read right before them.
    breaker: Breaker,
    /// For observations: anyone who may only look must not be able to stop the calls.
    looking: Breaker,
    response_bytes_max: usize,
    concurrency: usize,
}

/// Why nothing was sent, or the answer was incomplete or never arrived.
enum Failed {
    /// No byte of the request left.
    NotSent(Evidence),
    /// It can never be sent, whenever it is tried.
    Never(Evidence),
    /// Bytes left, and the answer was incomplete or never arrived.
    Unknown(Evidence),
}

impl HttpAdapter {
    /// An adapter by its settings; reads its secrets and certificates.
    pub fn new(name: &str, settings: &HttpSettings, environment: Environment<'_>) -> Result<Self> {
        let mut known = Known::default();
        let mut headers = Vec::new();
        for (header, source) in &settings.headers {
            let at = format!("adapters.{name}.headers.{header}");
            let secret = source.read(&at, environment)?;
            known.add(source, &secret);
            let unfit =
                || anyhow::Error::from(hinted!("`{at}` cannot be sent in a header"; "it must be plain ASCII text"));
            let header = HeaderName::from_bytes(header.as_bytes()).map_err(|_| unfit())?;
            HeaderValue::from_str(secret.reveal()).map_err(|_| unfit())?;
            headers.push((header, secret));
        }
        let base = settings.base.clone();
        let tls = match base.is_tls {
            true => {
                let trust = Files { ca: settings.ca.clone(), ..Files::default() };
                Some((Client::new(trust)?, server_name(&base.host)?))
            }
            false => None,
        };
        Ok(Self {
            name: name.to_owned(),
            connector: Connector {
                base,
                listed: settings.allow_private.clone(),
                tls,
                names: connection::system_names(),
                timeout: settings.connect_timeout,
            },
            headers,
            known,
            breaker: Breaker::new(settings.breaker),
            looking: Breaker::new(settings.breaker),
            response_bytes_max: settings.response_bytes_max,
            concurrency: settings.concurrency,
        })
    }

    /// The same, with another way to find addresses.
    #[cfg(test)]
    pub fn with_names(mut self, names: connection::Names) -> Self {
        self.connector.names = names;
        self
    }

    /// Sends one request, once, over a line of its own.
    ///
    /// `may_send` is asked when everything is ready and no byte has left: a halt that comes while the line is being opened still counts.
    fn send(
        &self,
        breaker: &Breaker,
        request: Request<Vec<u8>>,
        until: Instant,
        may_send: impl Fn() -> Result<(), Evidence>,
    ) -> Result<Answer, Failed> {
        may_send().map_err(Failed::NotSent)?;
        if let Err(wait) = breaker.pass(Instant::now()) {
            let found = FoundCode::Resting.about(&self.name).with_number(wait.as_secs() + 1);
            return Err(Failed::NotSent(self.found(found)));
        }
        let opened = self.connector.open(until);
        let line = opened.map_err(|why| {
            breaker.report(false, Instant::now());
            Failed::NotSent(self.found(Found::not_sent(why)))
        })?;
        may_send().map_err(Failed::NotSent)?;
        let answered = exchange(line, request, self.response_bytes_max.saturating_add(self.known.reach()));
        let is_clear = answered.as_ref().is_ok_and(|answer| answer.status < 500 && answer.status != 429);
        breaker.report(is_clear, Instant::now());
        answered.map_err(|NoAnswer { is_sent, why, status }| {
            let status = status.map(i64::from);
            if is_sent {
                Failed::Unknown(Evidence { status, ..self.found(FoundCode::NoAnswer.because(why)) })
            } else {
                Failed::Never(self.found(FoundCode::Unsendable.because(why)))
            }
        })
    }

    /// The request that a call sends.
    fn request(&self, method: &str, path: &str, body: Option<String>) -> Result<Request<Vec<u8>>, Failed> {
        let uri =
            self.connector.base.join(path).map_err(|NotBelow(path)| self.never(FoundCode::BadPath.about(path)))?;
        let method =
            Method::from_bytes(method.as_bytes()).map_err(|_| self.never(FoundCode::BadMethod.about(method)))?;
        if body.is_some() && !matches!(method.as_str(), "POST" | "PUT" | "PATCH") {
            return Err(self.never(FoundCode::BodyNotAllowed.about(method)));
        }
        let mut request = Request::new(Vec::new());
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        for (name, secret) in &self.headers {
            let mut value =
                HeaderValue::from_str(secret.reveal()).map_err(|_| self.never(FoundCode::BadHeader.about(name)))?;
            value.set_sensitive(true);
            headers.insert(name.clone(), value);
        }
        // One request a line: see there.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        if let Some(body) = body {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            *request.body_mut() = body.into_bytes();
        }
        Ok(request)
    }

    /// The request of a call, with its key and, where something was read, the condition that binds it to that.
    fn call_request(
        &self,
        send: &Send,
        key: &str,
        condition: Option<(HeaderName, String)>,
    ) -> Result<Request<Vec<u8>>, Failed> {
        let Send::Http { method, path, body } = send else {
            return Err(Failed::Never(self.found(FoundCode::WrongKind.about(&self.name))));
        };
        let body = body.as_ref().map(|body| {
            let mut canonical = Canonical::new();
            canonical.json(body);
            let text = canonical.into_string();
            match text.contains(decimal::MARK).then(|| serde_json::from_str(&text)) {
                Some(Ok(json)) => decimal::unmarked(&json),
                _ => text,
            }
        });
        let mut request = self.request(method, path, body)?;
        let mut header = |name: HeaderName, value: &str| -> Result<(), Failed> {
            let value = HeaderValue::from_str(value).map_err(|_| self.never(FoundCode::BadHeader.about(&name)))?;
            request.headers_mut().insert(name, value);
            Ok(())
        };
        header(HeaderName::from_static("idempotency-key"), key)?;
        if let Some((name, condition)) = condition {
            header(name, &condition)?;
        }
        Ok(request)
    }

    fn try_once(&self, job: &Job<'_>) -> Result<Attempt, Failed> {
        let until = Instant::now() + Duration::from_millis(job.call.timeout_ms);
        let halted = || match job.held_back() {
            None => Ok(()),
            Some(why) => Err(self.found(why)),
        };
        let (send, condition) = if job.call.outside.is_empty() {
            let nothing = || self.never(FoundCode::NothingToSend.alone());
            (job.call.send.clone().ok_or_else(nothing)?, None)
        } else {
            let read = self.read_external(job, until, &halted)?;
            match job.judge.judge(&read.facts) {
                Ok(send) => {
                    let unbound = |why: Found| Failed::Never(self.found(Found::not_sent(why)));
                    let condition = read.condition_for(&send).map_err(unbound)?;
                    (send, Some(condition))
                }
                Err(blocked) => return Ok(Attempt::Blocked(Box::new(blocked))),
            }
        };
        let request = self.call_request(&send, job.key, condition)?;
        let answer = self.send(&self.breaker, request, until, halted)?;
        Ok(outcome::of_call(answer.status, self.evidence(&answer)))
    }

    fn probe_once(&self, job: &Job<'_>) -> Result<Probed, Failed> {
        let until = Instant::now() + Duration::from_millis(job.call.timeout_ms);
        let Some(probe) = &job.call.probe else {
            return Err(self.never(FoundCode::NoProbe.alone()));
        };
        match &probe.send {
            Send::Http { method, path, body: None } if method == "GET" => {
                let answer = self.send(&self.breaker, self.request("GET", path, None)?, until, || Ok(()))?;
                Ok(outcome::of_probe(answer.status, self.evidence(&answer)))
            }
            _ => Err(self.never(FoundCode::ProbeNotGet.alone())),
        }
    }

    fn evidence(&self, answer: &Answer) -> Evidence {
        let (result, is_cut) = kept::text(&answer.body, self.response_bytes_max, answer.is_whole, &self.known);
        Evidence { status: Some(i64::from(answer.status)), result, is_cut, ..self.found(FoundCode::Answered.alone()) }
    }

    /// The request can never be made, for this reason.
    fn never(&self, why: Found) -> Failed {
        Failed::Never(self.found(FoundCode::Unsendable.because(why)))
    }

    /// Evidence that is a finding, without secrets.
    fn found(&self, found: Found) -> Evidence {
        Evidence::of(found.map(|text| self.known.hide(text)))
    }
}

impl Adapter for HttpAdapter {
    fn attempt(&self, job: &Job<'_>) -> Attempt {
        self.try_once(job).unwrap_or_else(|failed| match failed {
            Failed::NotSent(evidence) => Attempt::NotSent(evidence),
            // Trying again would find the same, so it is no use to wait for the deadline.
            Failed::Never(evidence) => Attempt::Refused(evidence),
            Failed::Unknown(evidence) => Attempt::Unknown(evidence),
        })
    }

    fn probe(&self, job: &Job<'_>) -> Probed {
        self.probe_once(job).unwrap_or_else(|failed| match failed {
            Failed::NotSent(evidence) | Failed::Never(evidence) | Failed::Unknown(evidence) => {
                Probed::Unknown(evidence)
            }
        })
    }

    fn observe(&self, read: &ExternalRead, schema: &FactSchema) -> Result<Reading, Found> {
        self.read_to_show(read, schema).map(Reading::of)
    }

    fn concurrency(&self) -> usize {
        self.concurrency
    }
}
