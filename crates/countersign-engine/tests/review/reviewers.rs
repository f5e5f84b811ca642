//! Who may approve: nobody for themselves or on their own behalf, nobody by what others were shown, nobody without the role.

use crate::review::world::{World, key_of, name, secret_of, signed, void};
use countersign_core::delegation::Scope;
use countersign_core::identity::Auth;
use countersign_core::review::{ReviewId, ReviewRefusal, Voided};
use countersign_engine::delegation::{extend, mint};
use countersign_engine::request::{Answer, Refusal, Request};
use countersign_engine::token::TokenError;
use std::collections::BTreeMap;

#[test]
fn nobody_approves_by_what_somebody_else_was_shown_nor_themselves() {
    let world = World::new();
    let (review, other) = (world.park("a", 500), world.park("b", 501));
    let token = world.show(review);
    assert_eq!(world.gate.open_shown(&token, &name("mallory")), Err(TokenError::NotYours));
    let mut altered = token.clone().into_bytes();
    let last = altered.len() - 1;
    altered[last] = if altered[last] == b'A' { b'B' } else { b'A' };
    assert!(world.gate.open_shown(&String::from_utf8(altered).unwrap(), &name("vera")).is_err());
    // An observation does not open as what a reviewer was shown.
    let observed = world.gate.observe(name("refund-1"), vec!["Account::\"42\"".parse().unwrap()]).unwrap().token;
    assert!(world.gate.open_shown(&observed.replace("obs1.", "rvw1."), &name("vera")).is_err());
    // What was shown of one action moved to another.
    let mut shown = world.gate.open_shown(&token, &name("vera")).unwrap();
    shown.review = other;
    let until_ms = shown.at_ms + 1_000;
    let moved = Request::Approve { by: name("vera"), auth: Auth::None, shown: Box::new(shown), until_ms };
    let Err(Refusal::Review(ReviewRefusal::Void(_, why))) = world.gate.call(moved) else { panic!("executed") };
    assert_eq!(why, Voided::OtherAction);
    let own = world.gate.show_review(review, &name("refund-1")).unwrap().shown;
    let until_ms = own.at_ms + 1_000;
    let own = Request::Approve { by: name("refund-1"), auth: Auth::None, shown: Box::new(own), until_ms };
    let refused = world.gate.call(own).unwrap_err();
    assert!(matches!(refused, Refusal::Review(ReviewRefusal::SelfApproval { .. })), "{refused}");
    assert_eq!(world.balance(), 900);
}

#[test]
fn a_reviewer_whose_role_or_standing_is_gone_approves_nothing() {
    let steps: [fn(&World); 3] = [
        |world| world.operator("vera", &["reviewer"], "revoked"),
        |world| world.operator("vera", &["reviewer"], "quarantined"),
        |world| world.operator("vera", &["auditor"], "active"),
    ];
    for (at, step) in steps.iter().enumerate() {
        let mut world = World::new();
        world.operator("operator", &["admin", "feeder", "publisher"], "active");
        world.auth = signed;
        world.operator("vera", &["reviewer"], "active");
        let (review, kept) = (world.park("a", 500), world.park("b", 400));
        let token = world.show(review);
        step(&world);
        let refused = world.approve(&token).unwrap_err();
        assert!(matches!(refused, Refusal::NotAuthorised(_)), "step {at}: {refused}");
        assert_eq!(world.balance(), 900);
        world.operator("vera", &["reviewer"], "active");
        world.halt(true);
        world.halt(false);
        world.approve(&world.show(kept)).unwrap();
        world.audit();
    }
}

const CHAIN: [&str; 3] = ["lead", "middle", "vera-the-agent"];

fn handed(to: &str, depth: u32) -> Scope {
    let (to, key) = (name(to), key_of(to));
    Scope { to, key, actions: None, limits: BTreeMap::new(), facts: None, expires_at_ms: None, depth }
}

/// `lead` hands its right to `middle`, which hands it on; the last one acts, and the action waits for a person.
fn parked_by_a_chain(world: &World) -> ReviewId {
    let [lead, middle, last] = CHAIN;
    for member in CHAIN {
        world.member(member, "active");
    }
    let first = mint(&secret_of(lead), &name(lead), "test.example/review", &handed(middle, 1)).unwrap();
    let token = extend(&first, &secret_of(middle), &handed(last, 0)).unwrap();
    let observed = world.gate.observe(name(last), vec!["Account::\"42\"".parse().unwrap()]).unwrap();
    let body = serde_json::json!({
        "pact": "billing", "action": "refund", "idempotency_key": format!("{:0>32}", "chain"),
        "params": {"account": "42", "amount": 500}, "observations": [observed.token], "delegation": token,
    });
    let action = world.gate.admit(name(last), Auth::None, body.to_string().into()).unwrap();
    let Answer::Entered(entered) = world.gate.call(Request::Act(Box::new(action))).unwrap() else { panic!("repeated") };
    assert_eq!(entered.entry.event.decision().unwrap().verdict.as_str(), "review");
    ReviewId(entered.entry.index)
}

#[test]
fn no_member_of_the_acting_chain_approves_what_it_does() {
    let world = World::new();
    let review = parked_by_a_chain(&world);
    for member in CHAIN {
        let shown = world.gate.show_review(review, &name(member)).unwrap().shown;
        let until_ms = shown.at_ms + 1_000;
        let own = Request::Approve { by: name(member), auth: Auth::None, shown: Box::new(shown), until_ms };
        let refused = world.gate.call(own).unwrap_err();
        let expected = ReviewRefusal::SelfApproval { by: name(member), review };
        assert_eq!(refused, Refusal::Review(expected), "{member}");
    }
    assert_eq!(world.balance(), 900);
    // Somebody outside of the chain may, and every member's budget is charged.
    let (_, decision) = world.approve(&world.show(review)).unwrap();
    assert_eq!((decision.charges.len(), world.balance()), (CHAIN.len(), 400));
    world.audit();
}

#[test]
fn a_member_revoked_between_showing_and_approving_voids_the_approval() {
    for member in CHAIN {
        let world = World::new();
        let review = parked_by_a_chain(&world);
        let token = world.show(review);
        world.member(member, "revoked");
        let why = void(world.approve(&token));
        let code = if member == CHAIN[2] { "agent_not_active" } else { "delegation_member_not_active" };
        assert!(why.contains(code) && why.contains(member), "{member}: {why}");
        assert_eq!(world.balance(), 900, "{member}");
        // Shown again while it is revoked, it cannot be approved either; active again, it can.
        assert!(void(world.approve(&world.show(review))).contains(code), "{member}");
        world.member(member, "active");
        world.approve(&world.show(review)).unwrap();
        assert_eq!(world.balance(), 400, "{member}");
        world.audit();
    }
}
