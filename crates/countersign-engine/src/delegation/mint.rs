//! Making tokens, on the delegator's machine: no gate is asked.

use super::reduce::{bytes_of, root_of};
use super::vocabulary::{root_facts, scope_facts};
use super::{DelegationError, PREFIX, reduce};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use biscuit_auth::builder::Fact;
use biscuit_auth::{Algorithm, Biscuit, BlockBuilder, KeyPair, PrivateKey, PublicKey};
use countersign_core::delegation::Scope;
use countersign_core::identity::KeyName;
use countersign_core::ids::AgentId;
use ed25519_dalek::SigningKey;

/// Passes on a part of an agent's own right at the gate of this origin, and at no other: the first hop, signed with the agent's key.
pub fn mint(key: &SigningKey, from: &AgentId, gate: &str, scope: &Scope) -> Result<String, DelegationError> {
    let own = KeyName::of(key.verifying_key().to_bytes());
    let mut builder = Biscuit::builder();
    for fact in root_facts(from, &own, gate).into_iter().chain(scope_facts(scope)) {
        builder = builder.fact(fact).map_err(unmade)?;
    }
    encode(&builder.build(&KeyPair::from(&private(key)?)).map_err(unmade)?)
}

/// Passes on a part of what was handed to the holder of `key`: one more hop, signed with that key. Whether the scope lies
/// within what was given is not looked at here: a gate refuses one that does not.
pub fn extend(token: &str, key: &SigningKey, scope: &Scope) -> Result<String, DelegationError> {
    let chain = reduce(token)?;
    let own = KeyName::of(key.verifying_key().to_bytes());
    if let Some((agent, held)) = chain.members().last().filter(|(_, held)| **held != own) {
        return Err(DelegationError::NotYours(format!("{agent} under {}", held.as_str())));
    }
    let bytes = bytes_of(token)?;
    let root = public(&root_of(&bytes)?)?;
    let biscuit = Biscuit::from(&bytes, root).map_err(|_| DelegationError::Forged)?;
    let block = block(scope_facts(scope))?;
    let signed = biscuit.third_party_request().and_then(|request| request.create_block(&private(key)?, block));
    let extended = signed.and_then(|signed| biscuit.append_third_party(KeyPair::from(&private(key)?).public(), signed));
    let token = encode(&extended.map_err(unmade)?)?;
    // What no gate would take is not handed out: too long, too many hops, a loop.
    reduce(&token)?;
    Ok(token)
}

fn block(facts: Vec<Fact>) -> Result<BlockBuilder, DelegationError> {
    facts.into_iter().try_fold(BlockBuilder::new(), |block, fact| block.fact(fact)).map_err(unmade)
}

fn encode(biscuit: &Biscuit) -> Result<String, DelegationError> {
    let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(biscuit.to_vec().map_err(unmade)?));
    Ok(token)
}

fn private(key: &SigningKey) -> Result<PrivateKey, biscuit_auth::error::Token> {
    Ok(PrivateKey::from_bytes(&key.to_bytes(), Algorithm::Ed25519)?)
}

/// The key as the token library has it.
pub(super) fn public(key: &KeyName) -> Result<PublicKey, DelegationError> {
    PublicKey::from_bytes(&key.public_key(), Algorithm::Ed25519).map_err(|_| DelegationError::Forged)
}

impl From<biscuit_auth::error::Token> for DelegationError {
    fn from(error: biscuit_auth::error::Token) -> Self {
        unmade(error)
    }
}

fn unmade(error: biscuit_auth::error::Token) -> DelegationError {
    DelegationError::Unmade(error.to_string())
}
