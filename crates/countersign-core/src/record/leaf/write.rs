//! Writing leaves. Members have numbers and come in ascending order; the table is in docs/formats/entry.md.

use super::Leaf;
use crate::action::{Action, KeyDigest};
use crate::decision::{PactRef, ReadVersion, Write};
use crate::identity::{Auth, RequestDigest, Signed};
use crate::ids::{Digest, PactName, Tag};
use crate::observation::Seen;
use crate::record::context::{Context, Given};
use crate::record::{Entry, Event, FORMAT, Kind, LeafAuth, LeafIdentity, LeafVerdict};
use minicbor::Encoder;
use minicbor::encode::{Error, Write as Sink};
use std::borrow::Cow;

/// The members of a leaf, lent by an entry or by a leaf that was read.
pub(in crate::record) struct Fields<'a> {
    kind: Kind,
    index: u64,
    time: u64,
    by: &'a str,
    auth: LeafAuth,
    commitment: &'a [u8; 32],
    action: Option<&'a Digest>,
    key: Option<&'a KeyDigest>,
    verdict: Option<LeafVerdict>,
    pact: Option<(&'a PactName, u64, &'a Digest)>,
    reads: Option<Versions<'a>>,
    writes: Option<Versions<'a>>,
    review: Option<u64>,
    effect: Option<u64>,
    claim: Option<u64>,
    held: Option<u64>,
    erased: Option<&'a [u64]>,
    scope: Option<Cow<'a, str>>,
    log_key: Option<&'a str>,
    context: &'a Context,
    identity: Option<LeafIdentity>,
    request: Option<RequestDigest>,
    deletes: Cow<'a, [u64]>,
    batch: Option<u64>,
    actions: Option<Ids<'a>>,
    keys: Option<Keys<'a>>,
}

/// The ids of actions, wherever they are.
enum Ids<'a> {
    List(&'a [Digest]),
    Group(&'a [Action]),
}

/// The digests of idempotency keys, wherever they are.
enum Keys<'a> {
    List(&'a [KeyDigest]),
    Group(&'a [Action]),
}

/// Tags with versions, wherever they are.
enum Versions<'a> {
    Reads(&'a [ReadVersion]),
    Writes(&'a [Write]),
    One(Tag, u64),
    Seen(&'a [Seen]),
    Leaf(&'a [(Tag, u64)]),
}

impl Versions<'_> {
    fn for_each<E>(&self, mut each: impl FnMut(Tag, u64) -> Result<(), E>) -> Result<(), E> {
        match self {
            Self::Reads(reads) => {
                reads.iter().filter_map(|read| Some((read.tag?, read.version))).try_for_each(|(tag, at)| each(tag, at))
            }
            Self::Writes(writes) => {
                let tagged = writes.iter().filter_map(|write| Some((write.tag?, write.version)));
                tagged.into_iter().try_for_each(|(tag, at)| each(tag, at))
            }
            Self::One(tag, version) => each(*tag, *version),
            Self::Seen(facts) => {
                let numbered = facts.iter().filter_map(|seen| Some((seen.tag?, seen.version?.number()?)));
                numbered.into_iter().try_for_each(|(tag, at)| each(tag, at))
            }
            Self::Leaf(versions) => versions.iter().try_for_each(|(tag, version)| each(*tag, *version)),
        }
    }
}

impl<'a> Fields<'a> {
    pub(in crate::record) fn of_entry(entry: &'a Entry, commitment: &'a [u8; 32]) -> Self {
        let event = &entry.event;
        let auth = match &entry.auth {
            Auth::None => LeafAuth::None,
            Auth::Signature(_) | Auth::Batch { by_gateway: false, .. } => LeafAuth::Signature,
            Auth::Gateway(_) | Auth::Batch { by_gateway: true, .. } => LeafAuth::Gateway,
        };
        let mut fields = Self {
            kind: event.kind(),
            index: entry.index,
            time: entry.time_ms,
            by: entry.by.as_str(),
            auth,
            commitment,
            action: None,
            key: None,
            verdict: event.verdict(),
            pact: None,
            reads: None,
            writes: Some(event.writes()).filter(|writes| !writes.is_empty()).map(Versions::Writes),
            review: None,
            effect: event.effect().map(|effect| effect.0),
            claim: None,
            held: None,
            erased: None,
            scope: None,
            log_key: None,
            context: &entry.context,
            identity: event.identity(),
            request: entry.auth.signed().map(Signed::digest),
            deletes: Cow::Owned(deletes(event.writes())),
            batch: event.batch(),
            actions: None,
            keys: None,
        };
        if let Some(decision) = event.decision() {
            fields.pact = decision.pact.as_ref().map(lend);
            fields.reads = Some(Versions::Reads(&decision.reads));
        }
        match event {
            Event::Action(decided) => {
                (fields.action, fields.key) = (Some(&decided.action.id), Some(&decided.action.key));
            }
            Event::Approval(approved) => {
                (fields.action, fields.review) = (Some(&approved.action.id), Some(approved.shown.review.0));
            }
            Event::Refusal { review, .. } | Event::Expiry { review } => fields.review = Some(review.0),
            Event::Extension { claim, .. } | Event::Withdrawal { claim } => fields.claim = Some(claim.0),
            Event::Erasure { entries, .. } => fields.erased = Some(entries),
            Event::Feed { held, .. } => fields.held = *held,
            Event::Reading { effect, .. } => fields.effect = effect.map(|effect| effect.0),
            Event::Genesis { log_key, .. } | Event::Rotation { log_key, .. } => fields.log_key = Some(log_key),
            Event::Confirm { tag, version, .. } => fields.reads = Some(Versions::One(*tag, *version)),
            Event::Observation(observation) => fields.reads = Some(Versions::Seen(&observation.facts)),
            Event::Pact(pact) => fields.pact = Some((&pact.name, pact.version, &pact.hash)),
            Event::Halt { scope, .. } | Event::Resume { scope, .. } => {
                fields.scope = Some(Cow::Owned(scope.to_string()));
            }
            Event::Batch { actions, .. } => fields.actions = Some(Ids::List(actions)),
            Event::Group(group) => {
                (fields.actions, fields.keys) = (Some(Ids::Group(&group.actions)), Some(Keys::Group(&group.actions)));
            }
            Event::Held { .. }
            | Event::Clock { .. }
            | Event::Dispatch(_)
            | Event::Settle(_)
            | Event::Claim { .. }
            | Event::Session { .. }
            | Event::Denials(_)
            | Event::Done(_)
            | Event::Erased(_) => {}
        }
        fields
    }

    pub(super) fn of_leaf(leaf: &'a Leaf) -> Self {
        Self {
            kind: leaf.kind,
            index: leaf.index,
            time: leaf.time,
            by: leaf.by.as_str(),
            auth: leaf.auth,
            commitment: &leaf.commitment.0,
            action: leaf.action.as_ref(),
            key: leaf.key.as_ref(),
            verdict: leaf.verdict,
            pact: leaf.pact.as_ref().map(lend),
            reads: leaf.reads.as_deref().map(Versions::Leaf),
            writes: leaf.writes.as_deref().map(Versions::Leaf),
            review: leaf.review,
            effect: leaf.effect,
            claim: leaf.claim,
            held: leaf.held,
            erased: leaf.erased.as_deref(),
            scope: leaf.scope.as_deref().map(Cow::Borrowed),
            log_key: leaf.log_key.as_deref(),
            context: &leaf.context,
            identity: leaf.identity,
            request: leaf.request,
            deletes: Cow::Borrowed(&leaf.deletes),
            batch: leaf.batch,
            actions: leaf.actions.as_deref().map(Ids::List),
            keys: leaf.keys.as_deref().map(Keys::List),
        }
    }

    fn members(&self) -> u64 {
        let given = self.context.given();
        let optional = [
            self.action.is_some(),
            self.key.is_some(),
            self.verdict.is_some(),
            self.pact.is_some(),
            self.reads.is_some(),
            self.writes.is_some(),
            self.review.is_some(),
            self.effect.is_some(),
            self.claim.is_some(),
            self.held.is_some(),
            self.erased.is_some(),
            self.scope.is_some(),
            self.log_key.is_some(),
            given.is_some_and(|given| given.session.is_some()),
            given.is_some_and(|given| !given.because_of.is_empty()),
            given.is_some_and(|given| !given.labels.is_empty()),
            given.is_some_and(|given| given.severity.is_some()),
            given.is_some_and(|given| given.confidence.is_some()),
            given.is_some_and(|given| !given.score.is_empty()),
            self.identity.is_some(),
            self.request.is_some(),
            !self.deletes.is_empty(),
            self.batch.is_some(),
            self.actions.is_some(),
            self.keys.is_some(),
        ];
        7 + optional.into_iter().filter(|is_there| *is_there).fold(0, |count, _| count + 1)
    }

    pub(in crate::record) fn write<W: Sink>(&self, sink: W) -> Result<W, Error<W::Error>> {
        let mut out = Encoder::new(sink);
        out.map(self.members())?;
        out.u8(0)?.u64(FORMAT)?;
        out.u8(1)?.u8(self.kind.code())?;
        out.u8(2)?.bytes(self.commitment)?;
        out.u8(3)?.u64(self.index)?;
        out.u8(4)?.u64(self.time)?;
        out.u8(5)?.str(self.by)?;
        out.u8(6)?.u8(self.auth.code())?;
        if let Some(action) = self.action {
            out.u8(7)?.bytes(&action.0)?;
        }
        if let Some(key) = self.key {
            out.u8(8)?.bytes(key)?;
        }
        if let Some(verdict) = self.verdict {
            out.u8(9)?.u8(verdict.code())?;
        }
        if let Some((name, version, hash)) = self.pact {
            out.u8(10)?.array(3)?.str(name.as_str())?.u64(version)?.bytes(&hash.0)?;
        }
        for (member, versions) in [(11, &self.reads), (12, &self.writes)] {
            if let Some(versions) = versions {
                out.u8(member)?;
                write_versions(&mut out, versions)?;
            }
        }
        let numbers = [(13, self.review), (14, self.effect), (15, self.claim), (16, self.held)];
        for (member, number) in numbers {
            if let Some(number) = number {
                out.u8(member)?.u64(number)?;
            }
        }
        if let Some(erased) = self.erased {
            out.u8(17)?;
            write_numbers(&mut out, erased)?;
        }
        if let Some(scope) = &self.scope {
            out.u8(18)?.str(scope)?;
        }
        if let Some(log_key) = self.log_key {
            out.u8(19)?.str(log_key)?;
        }
        if let Some(given) = self.context.given() {
            write_context(&mut out, given)?;
        }
        if !self.deletes.is_empty() {
            out.u8(27)?;
            write_numbers(&mut out, &self.deletes)?;
        }
        if let Some(identity) = self.identity {
            out.u8(28)?.u8(identity.code())?;
        }
        if let Some(request) = &self.request {
            out.u8(29)?.bytes(request)?;
        }
        self.write_batch(&mut out)?;
        Ok(out.into_writer())
    }

    fn write_batch<W: Sink>(&self, out: &mut Encoder<W>) -> Result<(), Error<W::Error>> {
        if let Some(batch) = self.batch {
            out.u8(30)?.u64(batch)?;
        }
        match &self.actions {
            None => {}
            Some(Ids::List(ids)) => write_bytes(out, 31, ids.iter().map(|id| id.0.as_slice()))?,
            Some(Ids::Group(actions)) => write_bytes(out, 31, actions.iter().map(|action| action.id.0.as_slice()))?,
        }
        match &self.keys {
            None => Ok(()),
            Some(Keys::List(keys)) => write_bytes(out, 32, keys.iter().map(<[u8; 16]>::as_slice)),
            Some(Keys::Group(actions)) => write_bytes(out, 32, actions.iter().map(|action| action.key.as_slice())),
        }
    }
}

fn write_bytes<'a, W: Sink>(
    out: &mut Encoder<W>,
    member: u8,
    mut items: impl ExactSizeIterator<Item = &'a [u8]>,
) -> Result<(), Error<W::Error>> {
    out.u8(member)?.array(len(items.len()))?;
    items.try_for_each(|item| out.bytes(item)?.ok())
}

/// Which of these writes delete, by place.
pub(in crate::record) fn deletes(writes: &[Write]) -> Vec<u64> {
    (0..).zip(writes).filter(|(_, write)| write.value.is_none()).map(|(place, _)| place).collect()
}

fn lend(pact: &PactRef) -> (&PactName, u64, &Digest) {
    (&pact.name, pact.version, &pact.hash)
}

fn len(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Tags and versions by turns: `[tag, version, tag, version, …]`.
fn write_versions<W: Sink>(out: &mut Encoder<W>, versions: &Versions<'_>) -> Result<(), Error<W::Error>> {
    let mut count = 0u64;
    let counted = versions.for_each(|_, _| {
        count += 2;
        Ok::<_, std::convert::Infallible>(())
    });
    let Ok(()) = counted;
    out.array(count)?;
    versions.for_each(|tag, version| out.bytes(&tag.0)?.u64(version)?.ok())
}

fn write_numbers<W: Sink>(out: &mut Encoder<W>, numbers: &[u64]) -> Result<(), Error<W::Error>> {
    out.array(len(numbers.len()))?;
    numbers.iter().try_for_each(|number| out.u64(*number)?.ok())
}

fn write_context<W: Sink>(out: &mut Encoder<W>, given: &Given) -> Result<(), Error<W::Error>> {
    let Given { session, because_of, labels, severity, confidence, score } = given;
    if let Some(session) = session {
        out.u8(20)?.str(session)?;
    }
    if !because_of.is_empty() {
        out.u8(21)?;
        write_numbers(out, because_of)?;
    }
    if !labels.is_empty() {
        out.u8(22)?.array(len(labels.len()))?;
        labels.iter().try_for_each(|label| out.str(label)?.ok())?;
    }
    if let Some(severity) = severity {
        out.u8(23)?.u64(*severity)?;
    }
    if let Some(confidence) = confidence {
        out.u8(24)?.u64(*confidence)?;
    }
    if !score.is_empty() {
        out.u8(25)?.array(len(score.len()).saturating_mul(2))?;
        score.iter().try_for_each(|(name, counts)| out.str(name)?.i64(*counts)?.ok())?;
    }
    Ok(())
}
