//! Attacks on tokens: none is reduced, and each says why.

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use biscuit_auth::builder::{Scope as Trusted, fact, int, string};
use biscuit_auth::format::schema;
use biscuit_auth::{Algorithm, Biscuit, BlockBuilder, KeyPair, PrivateKey};
use countersign_core::delegation::{Chain, Limit, Scope, narrows};
use countersign_core::ids::{ActionName, AgentId, PactName};
use ed25519_dalek::SigningKey;
use prost::Message as _;
use std::collections::{BTreeMap, BTreeSet};

const GATE: &str = "gate.example/log";

fn key(seed: u8) -> SigningKey {
    SigningKey::from_bytes(&[seed; 32])
}

fn name(seed: u8) -> KeyName {
    KeyName::of(key(seed).verifying_key().to_bytes())
}

fn agent(text: &str) -> AgentId {
    AgentId::new(text).unwrap()
}

fn scope(to: &str, seed: u8, depth: u32) -> Scope {
    Scope {
        to: agent(to),
        key: name(seed),
        actions: Some(BTreeSet::from([(PactName::new("billing").unwrap(), ActionName::new("refund").unwrap())])),
        limits: BTreeMap::from([
            ("amount".into(), Limit { max: Some(1000), one_of: None }),
            (
                "currency".into(),
                Limit { max: None, one_of: Some(BTreeSet::from(["USD".into(), "a\") <- b(\"".into()])) },
            ),
        ]),
        facts: Some(BTreeSet::from(["Account::\"4\\\"2\"".parse().unwrap()])),
        expires_at_ms: Some(1_794_700_000_000),
        depth,
    }
}

/// `lead` to `middle` to `last`.
fn token() -> String {
    let first = mint(&key(1), &agent("lead"), GATE, &scope("middle", 2, 1)).unwrap();
    extend(&first, &key(2), &scope("last", 3, 0)).unwrap()
}

fn decoded(token: &str) -> schema::Biscuit {
    schema::Biscuit::decode(URL_SAFE_NO_PAD.decode(token.strip_prefix(PREFIX).unwrap()).unwrap().as_slice()).unwrap()
}

fn encoded(biscuit: &schema::Biscuit) -> String {
    format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(biscuit.encode_to_vec()))
}

fn root() -> KeyPair {
    KeyPair::from(&PrivateKey::from_bytes(&[1; 32], Algorithm::Ed25519).unwrap())
}

fn biscuit(token: &str) -> Biscuit {
    Biscuit::from(URL_SAFE_NO_PAD.decode(token.strip_prefix(PREFIX).unwrap()).unwrap(), root().public()).unwrap()
}

fn text(biscuit: &Biscuit) -> String {
    format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(biscuit.to_vec().unwrap()))
}

#[test]
fn what_is_handed_on_offline_is_what_is_reduced() {
    let token = token();
    let expected = Chain::new(
        GATE.into(),
        agent("lead"),
        name(1),
        vec![scope("middle", 2, 1), scope("last", 3, 0)],
        countersign_core::ids::Digest::of(token.as_bytes()),
    );
    assert_eq!(reduce(&token), Ok(expected.unwrap()));
    let kept = Delegations::default();
    assert_eq!(kept.reduce(&token, GATE), kept.reduce(&token, GATE));
    assert_eq!(kept.reduce("dlg1.", GATE), Err(DelegationError::Malformed));
    // What a hop leaves out it has from the one before.
    let all = Scope { actions: None, limits: BTreeMap::new(), facts: None, expires_at_ms: None, ..scope("last", 3, 0) };
    assert_eq!(narrows(&scope("middle", 2, 1), &all.within(&scope("middle", 2, 1))), Ok(()));
}

#[test]
fn attack_every_altered_byte_is_noticed() {
    let token = token();
    let bytes = URL_SAFE_NO_PAD.decode(token.strip_prefix(PREFIX).unwrap()).unwrap();
    // The last secret is the holder's own to choose with; all else is signed.
    for at in (0..bytes.len()).step_by(3) {
        let mut altered = bytes.clone();
        altered[at] ^= 1 << (at % 8);
        assert!(reduce(&format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(altered))).is_err(), "byte {at}");
    }
    for at in 0..token.len() {
        assert!(reduce(&token[..at]).is_err(), "cut at {at}");
    }
    assert_eq!(reduce(&token.replace("dlg1.", "dlg2.")), Err(DelegationError::Malformed));
    assert!(matches!(reduce(&format!("{token}{}", "A".repeat(20_000))), Err(DelegationError::TooLong(_))));
}

#[test]
fn attack_a_block_signed_by_the_wrong_key() {
    let first = mint(&key(1), &agent("lead"), GATE, &scope("middle", 2, 1)).unwrap();
    // Through the front door: only the key that was named can pass on.
    assert!(matches!(extend(&first, &key(9), &scope("last", 3, 0)), Err(DelegationError::NotYours(_))));
    // Through the back door: anyone who holds the token can append, with a signature of its own.
    let thief = PrivateKey::from_bytes(&[9; 32], Algorithm::Ed25519).unwrap();
    let facts = vocabulary::scope_facts(&scope("thief", 9, 0));
    let block = facts.into_iter().try_fold(BlockBuilder::new(), |block, fact| block.fact(fact)).unwrap();
    let held = biscuit(&first);
    let signed = held.third_party_request().unwrap().create_block(&thief, block.clone()).unwrap();
    let forged = held.append_third_party(thief.public(), signed).unwrap();
    let refused = Err(DelegationError::WrongSigner { hop: 2, expected: name(2) });
    assert_eq!(reduce(&text(&forged)), refused);
    // Without any signature of an agent.
    assert_eq!(reduce(&text(&held.append(block).unwrap())), refused);
    // A root that signs with another key than it names.
    let other = KeyPair::from(&thief);
    let mut builder = Biscuit::builder();
    for fact in vocabulary::root_facts(&agent("lead"), &name(1), GATE)
        .into_iter()
        .chain(vocabulary::scope_facts(&scope("thief", 9, 0)))
    {
        builder = builder.fact(fact).unwrap();
    }
    assert_eq!(reduce(&text(&builder.build(&other).unwrap())), Err(DelegationError::Forged));
    // The name of the right key written over the wrong one.
    let mut renamed = decoded(&text(&forged));
    renamed.blocks[0].external_signature.as_mut().unwrap().public_key.key = name(2).public_key().to_vec();
    assert_eq!(reduce(&encoded(&renamed)), Err(DelegationError::Forged));
}

#[test]
fn attack_a_block_moved_to_another_token() {
    // The same delegator, the same next agent, more room: the block signed under the small one does not fit the large one.
    let (small, large) = (token(), mint(&key(1), &agent("lead"), GATE, &scope("middle", 2, 3)).unwrap());
    let large = extend(&large, &key(2), &scope("last", 3, 2)).unwrap();
    let mut moved = decoded(&large);
    moved.blocks[0] = decoded(&small).blocks[0].clone();
    assert_eq!(reduce(&encoded(&moved)), Err(DelegationError::Forged));
    // Signed anew by the holder of the frame, whose secret is in the token; the delegator's own signature still tells.
    let mut moved = decoded(&large);
    let external = decoded(&small).blocks[0].external_signature.clone();
    moved.blocks[0].external_signature = external;
    assert_eq!(reduce(&encoded(&moved)), Err(DelegationError::Forged));
}

#[test]
fn attack_a_hop_reordered_or_dropped() {
    let first = mint(&key(1), &agent("lead"), GATE, &scope("a", 2, 3)).unwrap();
    let second = extend(&first, &key(2), &scope("b", 3, 2)).unwrap();
    let third = decoded(&extend(&second, &key(3), &scope("c", 4, 1)).unwrap());
    let mut reordered = third.clone();
    reordered.blocks.swap(0, 1);
    assert!(reduce(&encoded(&reordered)).is_err());
    for dropped in 0..2 {
        let mut cut = third.clone();
        cut.blocks.remove(dropped);
        assert!(reduce(&encoded(&cut)).is_err(), "hop {}", dropped + 2);
    }
    let mut cut = third.clone();
    cut.blocks.clear();
    assert_eq!(reduce(&encoded(&cut)), Err(DelegationError::Forged));
    let mut repeated = third;
    let last = repeated.blocks[1].clone();
    repeated.blocks.push(last);
    assert!(reduce(&encoded(&repeated)).is_err());
}

#[test]
fn attack_a_delegation_in_a_loop_or_too_long() {
    let first = mint(&key(1), &agent("lead"), GATE, &scope("middle", 2, 9)).unwrap();
    for (to, seed) in [("lead", 1), ("middle", 2), ("middle", 7)] {
        let error = extend(&first, &key(2), &scope(to, seed, 0)).unwrap_err();
        assert_eq!(error, DelegationError::Chain(ChainError::Loop(agent(to))));
    }
    assert_eq!(
        reduce(&mint(&key(1), &agent("lead"), GATE, &scope("lead", 1, 0)).unwrap()),
        Err(ChainError::Loop(agent("lead")).into())
    );
    let mut token = first;
    for hop in 2..=8_u8 {
        token = extend(&token, &key(hop), &scope(&format!("m{hop}"), hop + 1, 0)).unwrap();
    }
    let error = extend(&token, &key(9), &scope("m9", 10, 0)).unwrap_err();
    assert_eq!(error, DelegationError::Chain(ChainError::TooLong(9)));
}

#[test]
fn attack_foreign_datalog_is_refused_by_name() {
    let good = || {
        let facts = vocabulary::root_facts(&agent("lead"), &name(1), GATE);
        let facts = facts.into_iter().chain(vocabulary::scope_facts(&scope("middle", 2, 1)));
        facts.fold(Biscuit::builder(), |builder, fact| builder.fact(fact).unwrap())
    };
    let refused = |builder: biscuit_auth::BiscuitBuilder, says: &str| {
        let error = reduce(&text(&builder.build(&root()).unwrap())).unwrap_err().to_string();
        assert!(error.contains(says), "{error}, not {says}");
    };
    assert!(reduce(&text(&good().build(&root()).unwrap())).is_ok());
    refused(good().rule("action($p, $a) <- max($p, $a)").unwrap(), "hop 1 of the delegation holds a rule");
    refused(good().check("check if time($t), $t < 2030-01-01T00:00:00Z").unwrap(), "a check");
    refused(good().check("reject if true").unwrap(), "a check");
    refused(good().scope(Trusted::Previous), "a trusted scope");
    refused(good().context("admin".to_owned()), "a context");
    refused(good().fact(fact("right", &[string("all")])).unwrap(), "the fact `right`");
    refused(good().fact(fact("read", &[string("all")])).unwrap(), "the fact `read`");
    refused(good().fact("max(\"amount\", true)").unwrap(), "`max` with terms other than text and integers");
    refused(good().fact("max({1, 2}, 3)").unwrap(), "terms other than text and integers");
    refused(good().fact(fact("max", &[string("amount"), int(5000)])).unwrap(), "`max` appears twice");
    refused(good().fact(fact("max", &[int(5), int(6)])).unwrap(), "`max` has other terms");
    refused(good().fact(fact("max", &[string("a b"), int(6)])).unwrap(), "is not a type or attribute name");
    refused(good().fact(fact("max", &[string("n"), int(i64::MAX)])).unwrap(), "beyond 2^53-1");
    refused(good().fact(fact("depth", &[int(9)])).unwrap(), "`depth` appears twice");
    refused(good().fact(fact("to", &[string("thief"), string(name(9).as_str())])).unwrap(), "`to` appears twice");
    refused(good().fact(fact("from", &[string("x"), string(name(9).as_str())])).unwrap(), "`from` appears twice");
    refused(good().fact(fact("fact", &[string("Account"), string("a\nb")])).unwrap(), "control characters");
    refused(good().fact(fact("action", &[string("billing")])).unwrap(), "`action` has other terms");
    refused(good().root_key_id(7), "this is not a delegation");
    refused(Biscuit::builder().fact(fact("depth", &[int(1)])).unwrap(), "`from` is missing");
    let from = vocabulary::root_facts(&agent("lead"), &name(1), GATE);
    refused(Biscuit::builder().fact(from[0].clone()).unwrap(), "`gate` is missing");
    refused(Biscuit::builder().fact(from[0].clone()).unwrap().fact(from[1].clone()).unwrap(), "`to` is missing");
    refused(good().fact(fact("gate", &[string("other.example/log")])).unwrap(), "`gate` appears twice");
    let from = from[0].clone();
    // In a later hop, by its rightful signer.
    let held = biscuit(&text(&good().build(&root()).unwrap()));
    let middle = PrivateKey::from_bytes(&[2; 32], Algorithm::Ed25519).unwrap();
    let appended = |block: BlockBuilder| {
        let signed = held.third_party_request().unwrap().create_block(&middle, block).unwrap();
        reduce(&text(&held.append_third_party(middle.public(), signed).unwrap())).unwrap_err().to_string()
    };
    let hop = || {
        let facts = vocabulary::scope_facts(&scope("last", 3, 0)).into_iter();
        facts.fold(BlockBuilder::new(), |block, fact| block.fact(fact).unwrap())
    };
    assert!(appended(hop().check("check if true").unwrap()).contains("hop 2 of the delegation holds a check"));
    assert!(appended(hop().fact(from).unwrap()).contains("`from` belongs in the first hop only"));
}

#[test]
fn attack_a_short_token_that_unfolds_to_a_long_chain() {
    let mut wide = scope("middle", 2, 0);
    let value = "\u{1}".repeat(200);
    for param in 0..300 {
        let limit = Limit { max: None, one_of: Some(BTreeSet::from([value.as_str().into()])) };
        wide.limits.insert(format!("p{param}").into(), limit);
    }
    let token = mint(&key(1), &agent("lead"), GATE, &wide).unwrap();
    assert!(token.len() < DELEGATION_BYTES_MAX);
    assert!(matches!(reduce(&token), Err(DelegationError::TooMuch(_))));
}
