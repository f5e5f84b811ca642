//! Reading leaves.
//!
//! The form is not checked piece by piece: what was read is written again, and every byte must come out the same. So there is no
//! second spelling of a leaf, whatever the library below would let pass.

use super::{Fields, Leaf};
use crate::decision::PactRef;
use crate::ids::{Digest, Tag};
use crate::record::context::{Context, Given};
use crate::record::decode::DecodeError;
use crate::record::{FORMAT, Kind, LeafAuth, LeafIdentity, LeafVerdict};
use minicbor::Decoder;
use minicbor::encode::Write as Sink;

/// Whether a leaf of this kind may have this member.
fn may_have(kind: Kind, member: u8) -> bool {
    use Kind::{
        Action, Approval, Batch, Confirm, Dispatch, Erasure, Expiry, Extension, Feed, Genesis, Group, Halt, Held,
        Observation, Pact, Reading, Refusal, Resume, Rotation, Session, Settle, Shadow, Withdrawal,
    };
    match member {
        0..=6 | 20..=25 | 29 => true,
        7 => matches!(kind, Action | Shadow | Approval),
        8 => matches!(kind, Action | Shadow),
        9 => matches!(kind, Action | Shadow | Approval | Dispatch | Settle | Group),
        10 => matches!(kind, Action | Shadow | Approval | Dispatch | Pact | Group),
        11 => matches!(kind, Action | Shadow | Approval | Dispatch | Confirm | Group | Observation),
        12 => matches!(kind, Action | Shadow | Approval | Settle | Feed | Session | Reading),
        13 => matches!(kind, Approval | Refusal | Expiry),
        14 => matches!(kind, Dispatch | Settle | Reading),
        15 => matches!(kind, Extension | Withdrawal),
        16 => kind == Feed,
        17 => kind == Erasure,
        18 => matches!(kind, Halt | Resume),
        19 => matches!(kind, Genesis | Rotation),
        27 => may_have(kind, 12),
        28 => matches!(kind, Feed | Held | Confirm | Genesis),
        30 => matches!(kind, Action | Shadow),
        31 => matches!(kind, Batch | Group),
        32 => kind == Group,
        _ => false,
    }
}

/// Compares what is written with what is expected, and keeps nothing.
struct Same<'a>(&'a [u8]);

impl Sink for Same<'_> {
    type Error = ();

    fn write_all(&mut self, bytes: &[u8]) -> Result<(), ()> {
        self.0 = self.0.strip_prefix(bytes).ok_or(())?;
        Ok(())
    }
}

pub(super) fn read_kind(bytes: &[u8]) -> Result<Kind, DecodeError> {
    Ok(read_head(&mut Decoder::new(bytes))?.1)
}

pub(super) fn read_commitment(bytes: &[u8]) -> Result<Digest, DecodeError> {
    let mut from = Decoder::new(bytes);
    read_head(&mut from)?;
    next(&mut from, 2, "commitment")?;
    Ok(Digest(read_array(&mut from)?))
}

/// The number of members, and the kind. A later format may have other members: its number is the better message.
fn read_head(from: &mut Decoder<'_>) -> Result<(u64, Kind), DecodeError> {
    if from.input().first() == Some(&b'{') {
        // Leaves were JSON once.
        return Err(DecodeError::Format(2));
    }
    let members = from.map()?.ok_or(DecodeError::NotCanonical)?;
    next(from, 0, "v")?;
    let format = from.u64()?;
    if format != FORMAT {
        return Err(DecodeError::Format(format));
    }
    next(from, 1, "kind")?;
    let code = from.u8()?;
    let kind = Kind::from_code(code).ok_or(DecodeError::Kind(code))?;
    Ok((members, kind))
}

/// Every leaf begins with the same members, in this order.
fn next(from: &mut Decoder<'_>, member: u8, name: &'static str) -> Result<(), DecodeError> {
    if from.u8()? == member { Ok(()) } else { Err(DecodeError::Missing(name)) }
}

pub(super) fn read(bytes: &[u8]) -> Result<Leaf, DecodeError> {
    let mut from = Decoder::new(bytes);
    let (members, mut leaf) = read_common(&mut from)?;
    let mut given = Given::default();
    for _ in 7..members {
        let member = from.u8()?;
        if !may_have(leaf.kind, member) {
            return Err(DecodeError::Member { member, kind: leaf.kind });
        }
        match member {
            7 => leaf.action = Some(Digest(read_array(&mut from)?)),
            8 => leaf.key = Some(read_array(&mut from)?),
            9 => {
                let code = from.u8()?;
                leaf.verdict = Some(LeafVerdict::from_code(code).ok_or(DecodeError::Verdict(code))?);
            }
            10 => leaf.pact = Some(read_pact(&mut from)?),
            11 => leaf.reads = Some(read_versions(&mut from)?),
            12 => leaf.writes = Some(read_versions(&mut from)?).filter(|writes| !writes.is_empty()),
            13 => leaf.review = Some(from.u64()?),
            14 => leaf.effect = Some(from.u64()?),
            15 => leaf.claim = Some(from.u64()?),
            16 => leaf.held = Some(from.u64()?),
            17 => leaf.erased = Some(read_list(&mut from, 1, |from| Ok(from.u64()?))?),
            18 => leaf.scope = Some(from.str()?.to_owned()),
            19 => leaf.log_key = Some(from.str()?.to_owned()),
            20 => given.session = Some(from.str()?.into()),
            21 => given.because_of = read_list(&mut from, 1, |from| Ok(from.u64()?))?,
            22 => given.labels = read_list(&mut from, 1, |from| Ok(from.str()?.into()))?,
            23 => given.severity = Some(from.u64()?),
            24 => given.confidence = Some(from.u64()?),
            25 => given.score = read_list(&mut from, 2, |from| Ok((from.str()?.into(), from.i64()?)))?,
            27 => leaf.deletes = read_list(&mut from, 1, |from| Ok(from.u64()?))?,
            28 => {
                let code = from.u8()?;
                leaf.identity = Some(LeafIdentity::from_code(code).ok_or(DecodeError::Identity(code))?);
            }
            29 => leaf.request = Some(read_array(&mut from)?),
            30 => leaf.batch = Some(from.u64()?),
            31 => leaf.actions = Some(read_list(&mut from, 1, |from| Ok(Digest(read_array(from)?)))?),
            _ => leaf.keys = Some(read_list(&mut from, 1, read_array)?),
        }
    }
    leaf.context = Context::new(given)?;
    if leaf.erased.as_ref().is_some_and(|erased| erased.is_empty() || !erased.is_sorted_by(|a, b| a < b)) {
        return Err(DecodeError::Erased);
    }
    if !leaf.deletes.is_sorted_by(|a, b| a < b) {
        return Err(DecodeError::NotCanonical);
    }
    // The request that brought the actions of a batch is told by the batch's own leaf.
    if leaf.request.is_some() != (leaf.auth.is_signed() && leaf.batch.is_none()) {
        return Err(DecodeError::Signed("request"));
    }
    match Fields::of_leaf(&leaf).write(Same(bytes)) {
        Ok(Same([])) => Ok(leaf),
        _ => Err(DecodeError::NotCanonical),
    }
}

/// The members that every leaf has, and how many it has in all.
fn read_common(from: &mut Decoder<'_>) -> Result<(u64, Leaf), DecodeError> {
    let (members, kind) = read_head(from)?;
    next(from, 2, "commitment")?;
    let commitment = Digest(read_array(from)?);
    next(from, 3, "index")?;
    let index = from.u64()?;
    next(from, 4, "time")?;
    let time = from.u64()?;
    next(from, 5, "by")?;
    let by = from.str()?.parse()?;
    next(from, 6, "auth")?;
    let code = from.u8()?;
    let auth = LeafAuth::from_code(code).ok_or(DecodeError::Auth(code))?;
    let leaf = Leaf {
        action: None,
        actions: None,
        auth,
        batch: None,
        by,
        claim: None,
        commitment,
        context: Context::default(),
        deletes: Vec::new(),
        effect: None,
        erased: None,
        held: None,
        identity: None,
        index,
        key: None,
        keys: None,
        kind,
        log_key: None,
        pact: None,
        reads: None,
        request: None,
        review: None,
        scope: None,
        time,
        verdict: None,
        writes: None,
    };
    Ok((members, leaf))
}

fn read_array<const N: usize>(from: &mut Decoder<'_>) -> Result<[u8; N], DecodeError> {
    from.bytes()?.try_into().map_err(|_| DecodeError::Length(N))
}

fn read_pact(from: &mut Decoder<'_>) -> Result<PactRef, DecodeError> {
    if from.array()? != Some(3) {
        return Err(DecodeError::Missing("pact"));
    }
    Ok(PactRef { name: from.str()?.parse()?, version: from.u64()?, hash: Digest(read_array(from)?) })
}

fn read_versions(from: &mut Decoder<'_>) -> Result<Vec<(Tag, u64)>, DecodeError> {
    read_list(from, 2, |from| Ok((Tag(read_array(from)?), from.u64()?)))
}

/// Reads an array whose elements belong together in groups of `each`. A length that was read is not believed: room is made as
/// elements come.
fn read_list<'b, T>(
    from: &mut Decoder<'b>,
    each: u64,
    mut read: impl FnMut(&mut Decoder<'b>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let len = from.array()?.filter(|len| len.is_multiple_of(each)).ok_or(DecodeError::NotCanonical)?;
    (0..len / each).map(|_| read(from)).collect()
}
