//! Facts that live in the service: read before the call, under an ETag where there is one.

use super::super::breaker::Breaker;
use super::super::kept;
use super::{Failed, HttpAdapter};
use countersign_core::call::{Evidence, ExternalHow, ExternalRead, Found, FoundCode, Send};
use countersign_core::json;
use countersign_core::pact::FactSchema;
use countersign_core::value::Attributes;
use countersign_engine::outbox::{FactAsRead, Job};
use std::time::{Duration, Instant};
use ureq::http::{HeaderName, header};

/// How long a read for an observation may take, connecting included: an agent waits for it.
const OBSERVE_TIMEOUT: Duration = Duration::from_secs(10);

/// What was read.
pub(super) struct Read {
    /// The facts, in the order of the call's reads.
    pub facts: Vec<FactAsRead>,
    /// The path of each, and its ETag.
    etags: Vec<(String, Option<String>)>,
}

impl Read {
    /// The header that binds the call to what was read: to the resource it goes to, or to the only one that was read. A resource
    /// that was there must still have its ETag; one that was not must still not be there.
    ///
    /// A service that does not know what to do with it answers 412 and has done nothing. That is the better mistake: a call
    /// without it would pass on what is no longer so, and its verdict says `conditional`. So where there is nothing to bind it
    /// to, it is not sent, and the error says why.
    pub(super) fn condition_for(&self, send: &Send) -> Result<(HeaderName, String), Found> {
        let Send::Http { path, .. } = send else { return Err(FoundCode::WrongKind.alone()) };
        let seen = || self.facts.iter().zip(&self.etags);
        let same = seen().find(|(_, (read, _))| read == path);
        let only = seen().next().filter(|_| self.etags.len() == 1);
        match same.or(only) {
            Some((_, (_, Some(etag)))) => Ok((header::IF_MATCH, etag.clone())),
            Some((FactAsRead { value: None, .. }, _)) => Ok((header::IF_NONE_MATCH, "*".into())),
            Some((FactAsRead { fact, .. }, _)) => Err(FoundCode::NoEtag.about(fact)),
            None => Err(FoundCode::NotBound.about(path)),
        }
    }
}

impl HttpAdapter {
    /// Reads the external facts that a call relies on. Whatever does not work out here is *not sent*, or never will be: only reads
    /// have left.
    pub(super) fn read_external(
        &self,
        job: &Job<'_>,
        until: Instant,
        halted: &dyn Fn() -> Result<(), Evidence>,
    ) -> Result<Read, Failed> {
        let mut read = Read { facts: Vec::new(), etags: Vec::new() };
        for outside in &job.call.outside {
            let schema = job.judge.schema(&outside.fact);
            let (value, path, etag) = self.read_one(&self.breaker, outside, &schema, until, halted)?;
            read.facts.push(FactAsRead { fact: outside.fact.clone(), value });
            read.etags.push((path.to_owned(), etag));
        }
        Ok(read)
    }

    /// Reads a fact for an observation.
    pub(super) fn read_to_show(
        &self,
        outside: &ExternalRead,
        schema: &FactSchema,
    ) -> Result<Option<Attributes>, Found> {
        let read = self.read_one(&self.looking, outside, schema, Instant::now() + OBSERVE_TIMEOUT, &|| Ok(()));
        match read {
            Ok((value, ..)) => Ok(value),
            Err(Failed::NotSent(evidence) | Failed::Never(evidence) | Failed::Unknown(evidence)) => {
                Err(*evidence.found)
            }
        }
    }

    /// One fact, the path it was read from, and its ETag.
    fn read_one<'r>(
        &self,
        breaker: &Breaker,
        outside: &'r ExternalRead,
        schema: &FactSchema,
        until: Instant,
        halted: &dyn Fn() -> Result<(), Evidence>,
    ) -> Result<(Option<Attributes>, &'r str, Option<String>), Failed> {
        let ExternalRead { fact, adapter, how } = outside;
        let unread = |why: Found| self.found(FoundCode::Unread.about(fact).and_because(why));
        let ExternalHow::Path(path) = how else {
            return Err(Failed::Never(unread(FoundCode::WrongSource.about(&self.name))));
        };
        if *adapter != self.name {
            return Err(Failed::Never(unread(FoundCode::OtherAdapter.about(adapter))));
        }
        let answer = self.send(breaker, self.request("GET", path, None)?, until, halted);
        let answer = answer.map_err(|failed| match failed {
            // No answer to a read leaves no doubt: reading does nothing.
            Failed::NotSent(evidence) | Failed::Unknown(evidence) => Failed::NotSent(unread(*evidence.found)),
            Failed::Never(evidence) => Failed::Never(unread(*evidence.found)),
        })?;
        // A clear answer that cannot be used will be the same next time: waiting for another would keep everyone fenced out, and
        // act by itself whenever it comes.
        let value = match answer.status {
            200 if !answer.is_whole || answer.body.len() > self.response_bytes_max => {
                return Err(Failed::Never(unread(FoundCode::AnswerTooLong.number(self.response_bytes_max))));
            }
            200 => {
                let value = attributes(&answer.body, schema).and_then(|value| kept::fact(value, &self.known));
                Some(value.map_err(|why| Failed::Never(unread(why)))?)
            }
            404 | 410 => None,
            status if super::outcome::is_passing(status) => {
                return Err(Failed::NotSent(unread(FoundCode::Answered.number(status))));
            }
            status => return Err(Failed::Never(unread(FoundCode::Answered.number(status)))),
        };
        Ok((value, path, answer.etag))
    }
}

/// The attributes of a fact in a JSON object. A service says more about a thing than a pact asks for, so other members are
/// passed over, and null is what is absent; but what the pact does ask for must be there and fit.
fn attributes(body: &[u8], schema: &FactSchema) -> Result<Attributes, Found> {
    let text = std::str::from_utf8(body).map_err(|_| FoundCode::NotText.alone())?;
    let mut object = json::parse_object_exact(text).map_err(|_| FoundCode::NotJson.alone())?;
    object.retain(|name, value| schema.contains_key(name.as_str()) && !value.is_null());
    Ok(Attributes::from_json(&object, schema)?)
}
