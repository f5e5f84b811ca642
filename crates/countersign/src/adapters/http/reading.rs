//! Facts that live in the service: read before the call, under an ETag where there is one.

use super::{Failed, HttpAdapter};
use countersign_core::call::{Evidence, OutsideHow, OutsideRead, Send};
use countersign_core::json;
use countersign_core::value::Attributes;
use countersign_engine::outbox::{Job, Outside};
use std::time::Instant;

/// What was read.
pub(super) struct Read {
    /// The facts, in the order of the call's reads.
    pub facts: Vec<Outside>,
    /// The path of each, and its ETag.
    etags: Vec<(String, Option<String>)>,
}

impl Read {
    /// The ETag that the call is to be sent under: that of the resource it goes to, or of the only one that was read.
    ///
    /// A service that does not know what to do with it answers 412 and has done nothing. That is the better mistake: leaving
    /// it out would let the call pass on what is no longer so.
    pub(super) fn etag_for(&self, send: &Send) -> Option<String> {
        let Send::Http { path, .. } = send else { return None };
        let same = self.etags.iter().find(|(read, _)| read == path);
        let only = self.etags.first().filter(|_| self.etags.len() == 1);
        same.or(only).and_then(|(_, etag)| etag.clone())
    }
}

impl HttpAdapter {
    /// Reads the facts outside that a call relies on. Whatever does not work out here is *not sent*: only reads have left.
    pub(super) fn read_outside(
        &self,
        job: &Job<'_>,
        until: Instant,
        halted: &dyn Fn() -> Result<(), Evidence>,
    ) -> Result<Read, Failed> {
        let mut read = Read { facts: Vec::new(), etags: Vec::new() };
        for outside in &job.call.outside {
            let OutsideHow::Path(path) = &outside.how else {
                let why = format!("{} reads paths, and {} is read in another way", self.name, outside.fact);
                return Err(Failed::Never(self.said(why)));
            };
            let (fact, etag) = self.read_one(outside, path, until, halted)?;
            read.facts.push(fact);
            read.etags.push((path.clone(), etag));
        }
        Ok(read)
    }

    fn read_one(
        &self,
        outside: &OutsideRead,
        path: &str,
        until: Instant,
        halted: &dyn Fn() -> Result<(), Evidence>,
    ) -> Result<(Outside, Option<String>), Failed> {
        let OutsideRead { fact, adapter, .. } = outside;
        let unread = |why: String| self.said(format!("nothing was sent: {fact} could not be read: {why}"));
        if *adapter != self.name {
            return Err(Failed::Never(unread(format!("it lives with {adapter}, and the call goes to {}", self.name))));
        }
        let answer = self.send(self.request("GET", path, None)?, until, halted);
        let answer = answer.map_err(|failed| match failed {
            // No answer to a read leaves no doubt: reading does nothing.
            Failed::NotSent(evidence) | Failed::Unknown(evidence) => Failed::NotSent(unread(evidence.summary)),
            Failed::Never(evidence) => Failed::Never(unread(evidence.summary)),
        })?;
        let value = match answer.status {
            200 if !answer.is_whole => return Err(Failed::NotSent(unread("the answer is too long".into()))),
            200 => Some(attributes(&answer.body).map_err(|why| Failed::NotSent(unread(why)))?),
            404 | 410 => None,
            status => return Err(Failed::NotSent(unread(super::outcome::sentence(status)))),
        };
        Ok((Outside { fact: fact.clone(), value }, answer.etag))
    }
}

/// A JSON object as attributes, by what its values look like: the judge checks them against the fact's type.
fn attributes(body: &[u8]) -> Result<Attributes, String> {
    let text = std::str::from_utf8(body).map_err(|_| "the answer is not text".to_owned())?;
    let object = json::parse_object(text).map_err(|error| format!("the answer does not fit: {error}"))?;
    Attributes::from_untyped_json(&object).map_err(|error| format!("the answer does not fit: {error}"))
}
