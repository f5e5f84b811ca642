//! Reducing a token to a chain: signatures, signers and vocabulary, and nothing about the present.

use super::mint::public;
use super::vocabulary::{Hop, Said};
use super::{DelegationError, PREFIX};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use biscuit_auth::Biscuit;
use biscuit_auth::datalog::SymbolTable;
use biscuit_auth::format::schema;
use biscuit_auth::format::schema::public_key::Algorithm;
use biscuit_auth::format::schema::term::Content;
use countersign_core::canonical::Canonical;
use countersign_core::delegation::{Chain, ChainError};
use countersign_core::identity::KeyName;
use countersign_core::ids::Digest;
use countersign_core::limits::{CHAIN_BYTES_MAX, DELEGATION_BYTES_MAX, DELEGATION_HOPS_MAX};
use prost::Message as _;

/// The chain that a token stands for, if every signature holds, every hop is signed by the agent that the hop before it
/// names, and nothing is in it but the vocabulary.
pub fn reduce(token: &str) -> Result<Chain, DelegationError> {
    let bytes = bytes_of(token)?;
    let biscuit = parse(&bytes)?;
    let mut hops = vec![read(1, &biscuit.authority)?];
    for (block, number) in biscuit.blocks.iter().zip(2..) {
        // Who signed is compared before a block is read and before signatures are verified: it has the clearer message, and
        // a block that no agent signed speaks in symbols of the blocks before it.
        let signer = block.external_signature.as_ref().and_then(|signature| key_name(&signature.public_key));
        let expected = hops.last().map(|hop| hop.scope.key.clone()).ok_or(DelegationError::Malformed)?;
        if signer.as_ref() != Some(&expected) {
            return Err(DelegationError::WrongSigner { hop: number, expected });
        }
        hops.push(read(number, block)?);
    }
    let (root, root_key) = hops.first().and_then(|hop| hop.from.clone()).ok_or(DelegationError::Malformed)?;
    let gate = hops.first().and_then(|hop| hop.gate.clone()).ok_or(DelegationError::Malformed)?;
    Biscuit::from(&bytes, public(&root_key)?).map_err(|_| DelegationError::Forged)?;
    let scopes = hops.into_iter().map(|hop| hop.scope).collect();
    let chain = Chain::new(gate, root, root_key, scopes, Digest::of(token.as_bytes()))?;
    let mut written = Canonical::new();
    chain.write(&mut written);
    match written.as_str().len() {
        ..=CHAIN_BYTES_MAX => Ok(chain),
        bytes => Err(DelegationError::TooMuch(bytes)),
    }
}

/// The same of a token that must be for the gate of this origin: a right at one gate is none at another, no matter who runs both.
pub fn reduce_for(token: &str, origin: &str) -> Result<Chain, DelegationError> {
    let chain = reduce(token)?;
    if chain.gate() != origin {
        return Err(DelegationError::OtherGate { found: chain.gate().to_owned(), expected: origin.to_owned() });
    }
    Ok(chain)
}

/// The bytes of a token's text.
pub(super) fn bytes_of(token: &str) -> Result<Vec<u8>, DelegationError> {
    if token.len() > DELEGATION_BYTES_MAX {
        return Err(DelegationError::TooLong(token.len()));
    }
    let encoded = token.strip_prefix(PREFIX).ok_or(DelegationError::Malformed)?;
    URL_SAFE_NO_PAD.decode(encoded).map_err(|_| DelegationError::Malformed)
}

/// The key of the root delegator, as the token itself names it.
pub(super) fn root_of(bytes: &[u8]) -> Result<KeyName, DelegationError> {
    let (_, key) = read(1, &parse(bytes)?.authority)?.from.ok_or(DelegationError::Malformed)?;
    Ok(key)
}

/// The token's own frame. What would be lost by reading and writing it back could be a restriction of a later version, so
/// it is refused.
fn parse(bytes: &[u8]) -> Result<schema::Biscuit, DelegationError> {
    let biscuit = schema::Biscuit::decode(bytes).map_err(|_| DelegationError::Malformed)?;
    if biscuit.encode_to_vec() != bytes || biscuit.root_key_id.is_some() {
        return Err(DelegationError::Malformed);
    }
    let hops = biscuit.blocks.len().saturating_add(1);
    if hops > DELEGATION_HOPS_MAX {
        return Err(ChainError::TooLong(hops).into());
    }
    let others = std::iter::once(&biscuit.authority).chain(&biscuit.blocks).map(|block| &block.next_key);
    if others.into_iter().any(|key| key_name(key).is_none()) {
        return Err(DelegationError::Malformed);
    }
    Ok(biscuit)
}

/// The name of a key; other algorithms have none.
fn key_name(key: &schema::PublicKey) -> Option<KeyName> {
    let bytes = <[u8; 32]>::try_from(key.key.as_slice()).ok()?;
    (key.algorithm == Algorithm::Ed25519 as i32).then(|| KeyName::of(bytes))
}

/// What one block says.
fn read(number: usize, signed: &schema::SignedBlock) -> Result<Hop, DelegationError> {
    let foreign = |what: &str| DelegationError::Foreign { hop: number, what: what.to_owned() };
    let block = schema::Block::decode(signed.block.as_slice()).map_err(|_| DelegationError::Malformed)?;
    if block.encode_to_vec() != signed.block {
        return Err(foreign("a field that this version does not know"));
    }
    let others = [
        (block.rules.is_empty(), "a rule"),
        (block.checks.is_empty(), "a check"),
        (block.scope.is_empty(), "a trusted scope"),
        (block.public_keys.is_empty(), "a list of keys"),
        (block.context.is_none(), "a context"),
    ];
    if let Some((_, what)) = others.iter().find(|(absent, _)| !absent) {
        return Err(foreign(what));
    }
    // Every block of such a token has its own table: third-party blocks share none, and the authority block is the first.
    let symbols = SymbolTable::from(block.symbols).map_err(|_| DelegationError::Malformed)?;
    let mut facts = Vec::with_capacity(block.facts.len());
    for schema::Fact { predicate } in block.facts {
        let name = symbols.get_symbol(predicate.name).ok_or(DelegationError::Malformed)?.to_owned();
        let terms: Option<Vec<Said>> = predicate.terms.into_iter().map(|term| said(&symbols, term)).collect();
        let terms = terms.ok_or_else(|| foreign(&format!("`{name}` with terms other than text and integers")))?;
        facts.push((name, terms));
    }
    Hop::read(number, facts)
}

fn said(symbols: &SymbolTable, term: schema::Term) -> Option<Said> {
    match term.content? {
        Content::Integer(number) => Some(Said::Number(number)),
        Content::String(at) => symbols.get_symbol(at).map(|text| Said::Text(text.to_owned())),
        _ => None,
    }
}
