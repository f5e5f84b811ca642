//! Properties of scopes: narrowing is an order, and a chain never allows what one of its hops refuses.

use crate::decide::delegation::{at_most, scope};
use countersign_core::delegation::{Limit, Scope, narrows};
use countersign_core::ids::{ActionName, FactId, PactName};
use countersign_core::value::Attributes;
use proptest::collection::{btree_map, btree_set};
use proptest::option;
use proptest::prelude::*;
use serde_json::json;

fn any_action() -> impl Strategy<Value = (PactName, ActionName)> {
    ("[pq]", "[xy]").prop_map(|(pact, action)| (PactName::new(pact).unwrap(), ActionName::new(action).unwrap()))
}

fn any_limit() -> impl Strategy<Value = Limit> {
    let values = btree_set(prop_oneof!["[abc]", "[0-4]"].prop_map(Into::into), 0..4);
    (option::of(0..5_i64), option::of(values)).prop_map(|(max, one_of)| Limit { max, one_of })
}

fn any_fact() -> impl Strategy<Value = FactId> {
    "[1-3]".prop_map(|id| format!("Account::\"{id}\"").parse().unwrap())
}

fn any_scope() -> impl Strategy<Value = Scope> {
    let limits = btree_map("[mn]".prop_map(Into::into), any_limit(), 0..3);
    let facts = option::of(btree_set(any_fact(), 0..3));
    let actions = option::of(btree_set(any_action(), 0..4));
    (actions, limits, facts, option::of(0..4_u64), 0..4_u32).prop_map(
        |(actions, limits, facts, expires_at_ms, depth)| Scope {
            actions,
            limits,
            facts,
            expires_at_ms,
            depth,
            ..scope("b", 1)
        },
    )
}

/// Parameters of an action: text, integers and sets.
fn any_params() -> impl Strategy<Value = Attributes> {
    let value = prop_oneof![
        "[abc]".prop_map(|text| json!(text)),
        (0..6_i64).prop_map(|number| json!(number)),
        btree_set("[abc]", 0..3).prop_map(|set| json!(set)),
    ];
    btree_map("[mn]", value, 0..3).prop_map(|map| Attributes::from_untyped_json(&map.into_iter().collect()).unwrap())
}

/// Whether a scope lets an action pass.
fn allows(scope: &Scope, action: &(PactName, ActionName), params: &Attributes, fact: &FactId, now_ms: u64) -> bool {
    scope.refuses(&action.0, &action.1, params).is_none()
        && scope.refuses_fact(fact).is_none()
        && scope.expires_at_ms.is_none_or(|at_ms| now_ms < at_ms)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn narrowing_is_reflexive(scope in any_scope()) {
        prop_assert_eq!(narrows(&scope, &scope), Ok(()));
    }

    #[test]
    fn narrowing_is_transitive(a in any_scope(), b in any_scope(), c in any_scope()) {
        // Taking over what is not limited makes narrower scopes frequent enough to mean something.
        let (b, c) = (b.within(&a), c.within(&a));
        let c = c.within(&b);
        if narrows(&a, &b).is_ok() && narrows(&b, &c).is_ok() {
            prop_assert_eq!(narrows(&a, &c), Ok(()));
        }
    }

    #[test]
    fn a_narrower_scope_allows_nothing_that_the_wider_refuses(
        parent in any_scope(), child in any_scope(), action in any_action(), params in any_params(), fact in any_fact(),
        now_ms in 0..5_u64,
    ) {
        let child = child.within(&parent);
        if narrows(&parent, &child).is_ok() && allows(&child, &action, &params, &fact, now_ms) {
            prop_assert!(allows(&parent, &action, &params, &fact, now_ms));
        }
    }

    #[test]
    fn a_scope_within_another_limits_at_least_as_much(parent in any_scope(), child in any_scope()) {
        let within = child.clone().within(&parent);
        prop_assert!(narrows(&child, &within).is_ok() || within.depth > child.depth);
        // What it did not limit itself it has from its parent, so only its own claims can widen.
        if child.limits.is_empty() && child.actions.is_none() && child.facts.is_none() && child.expires_at_ms.is_none() {
            prop_assert_eq!(narrows(&parent, &Scope { depth: 0, ..within }), Ok(()));
        }
    }
}

#[test]
fn a_limit_over_what_cannot_be_compared_refuses() {
    let mut scope = scope("b", 1);
    scope.limits.insert("m".into(), at_most(3));
    let (pact, action) = (PactName::new("p").unwrap(), ActionName::new("x").unwrap());
    let refuses = |value: serde_json::Value| {
        let params = Attributes::from_untyped_json(json!({"m": value}).as_object().unwrap()).unwrap();
        scope.refuses(&pact, &action, &params).is_some()
    };
    assert!(!refuses(json!(3)) && !refuses(json!([1, 2, 3])));
    for value in [json!(4), json!("3"), json!(true), json!([1, 4]), json!([[1]])] {
        assert!(refuses(value.clone()), "{value}");
    }
}
