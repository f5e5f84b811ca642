//! Claims that end: each gives up its own facts, and nothing else.

use super::*;
use std::time::Instant;

fn claim(number: u64, at_ms: u64) -> Claim {
    let fact = |k: usize| -> FactId { format!("Account::\"{number}-{k}\"").parse().unwrap() };
    let (by, reason) = (AgentId::new("clerk-1").unwrap(), "a test".into());
    let facts = (0..CLAIM_FACTS_MAX).map(fact).collect();
    Claim { by, at_ms, expires_at_ms: at_ms + 1, until_ms: at_ms + 1, priority: 0, reason, facts }
}

#[test]
fn claims_that_all_end_at_once_stop_the_gate_no_longer_than_entering_them_did() {
    let mut fences = Fences::default();
    let begun = Instant::now();
    for number in 0..CLAIMS_MAX as u64 {
        fences.announce(number, claim(number, 1));
    }
    let entering = begun.elapsed();
    let begun = Instant::now();
    fences.announce(u64::MAX, claim(u64::MAX, 2));
    let ending = begun.elapsed();
    assert_eq!((fences.claims.len(), fences.claimed.len()), (1, CLAIM_FACTS_MAX));
    // A walk over everything claimed, for each claim that ends, takes hundreds of times as long.
    assert!(ending < entering * 10, "{CLAIMS_MAX} claims took {entering:?} to enter and {ending:?} to end");
}

#[test]
fn a_claim_that_ends_leaves_what_another_took_from_it() {
    let mut fences = Fences::default();
    let (first, mut second) = (claim(1, 1), claim(1, 1));
    second.facts.truncate(1);
    let (taken, kept) = (first.facts[0].clone(), first.facts[1].clone());
    fences.announce(1, first);
    fences.announce(2, second);
    fences.withdraw(ClaimId(1));
    assert_eq!(fences.claim_on(&taken, 1).map(|(id, _)| id), Some(ClaimId(2)));
    assert_eq!(fences.claim_on(&kept, 1), None);
}
