//! Programs against Cedar: on any expression and any inputs, a program answers as Cedar does or not at all.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use super::program::Operand;
use super::*;
use crate::value::ValueType;
use proptest::prelude::*;

/// Parameters with the values they were given; the rest is absent.
#[derive(Debug)]
struct Given(BTreeMap<SmolStr, Value>);

impl Source for Given {
    fn input(&self, mention: &Mention) -> Option<Input<'_>> {
        match mention {
            Mention::Param(name) => self.0.get(name).map(Input::Value),
            Mention::Now => Some(Input::Long(1_794_700_000_000)),
            _ => None,
        }
    }
}

fn params() -> BTreeMap<SmolStr, FieldType> {
    let optional = |ty| FieldType { ty, required: false };
    let set = ValueType::Set(Box::new(ValueType::String));
    [("n", ValueType::Long), ("m", ValueType::Long), ("p", ValueType::Bool), ("s", ValueType::String), ("t", set)]
        .into_iter()
        .map(|(name, ty)| (name.into(), optional(ty)))
        .collect()
}

fn given() -> impl Strategy<Value = Given> {
    let long = prop_oneof![any::<i64>(), -3..4_i64, Just(i64::MAX), Just(i64::MIN)];
    let text = prop_oneof![Just("a"), Just("ab"), Just("")].prop_map(SmolStr::new_static);
    let absent = proptest::bool::weighted(0.1);
    (long.clone(), long, any::<bool>(), text.clone(), prop::collection::btree_set(text, 0..3), [absent; 5]).prop_map(
        |(n, m, p, s, t, absent)| {
            let set = t.into_iter().map(Value::String).collect();
            let values = [
                ("n", Value::Long(n)),
                ("m", Value::Long(m)),
                ("p", Value::Bool(p)),
                ("s", Value::String(s)),
                ("t", Value::Set(Arc::new(set))),
            ];
            let there = values.into_iter().zip(absent).filter(|(_, absent)| !absent);
            Given(there.map(|((name, value), _)| (name.into(), value)).collect())
        },
    )
}

/// Expressions of all types, mostly well typed, some not.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        prop::sample::select(vec![
            "context.n",
            "context.m",
            "context.p",
            "context.s",
            "context.t",
            "context.now",
            "true",
            "false",
            "\"a\"",
            "0",
            "1",
            "-1",
            "9223372036854775807",
            "[\"a\"]",
            "context has n",
            "context has t",
            "context has s",
        ])
        .prop_map(str::to_owned),
        (-4..5_i64).prop_map(|n| n.to_string()),
    ];
    leaf.prop_recursive(5, 48, 3, |inner| {
        let binary = prop::sample::select(vec!["&&", "||", "==", "!=", "<", "<=", ">", ">=", "+", "-", "*"]);
        prop_oneof![
            6 => (inner.clone(), binary, inner.clone()).prop_map(|(l, op, r)| format!("({l} {op} {r})")),
            1 => inner.clone().prop_map(|e| format!("!({e})")),
            1 => inner.clone().prop_map(|e| format!("-({e})")),
            1 => (inner.clone(), inner.clone(), inner.clone()).prop_map(|(c, a, b)| format!("(if {c} then {a} else {b})")),
            1 => (inner.clone(), inner.clone()).prop_map(|(set, item)| format!("({set}).contains({item})")),
            1 => inner.prop_map(|e| format!("({e} like \"a*\")")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, max_global_rejects: 100_000, ..ProptestConfig::default() })]

    #[test]
    fn a_program_answers_as_cedar_does_or_not_at_all(text in expression(), given in given()) {
        let params = params();
        let reads = [(SmolStr::new_static("resource"), Presence::Required)];
        let compiled = Expression::compile(&text, &Scope { params: &params, reads: &reads, readings: &[] });
        prop_assume!(compiled.is_ok());
        let expression = compiled.unwrap();
        let inputs = Inputs::new(&given, &expression.mentions);
        if let Some(answer) = expression.run(&inputs) {
            let cedar = inputs.interpret(&expression.expr);
            let cedar = cedar.ok().and_then(|value| Value::from_cedar(&value));
            prop_assert_eq!(answer.into_value(), cedar, "{}", text);
        }
    }
}

#[test]
fn what_conditions_are_made_of_is_compiled_and_answers() {
    let params = params();
    let reads = [(SmolStr::new_static("resource"), Presence::Required)];
    let scope = Scope { params: &params, reads: &reads, readings: &[] };
    let values = [("n", Value::Long(7)), ("s", Value::String("ab".into()))];
    let given = Given(values.into_iter().map(|(name, value)| (name.into(), value)).collect());
    let answers = |text: &str| {
        let expression = Expression::compile(text, &scope).unwrap();
        let answer = expression.run(&Inputs::new(&given, &expression.mentions));
        answer.and_then(Operand::into_value)
    };
    assert_eq!(answers("context.n >= 7 && context.s == \"ab\""), Some(Value::Bool(true)));
    assert_eq!(answers("context.n - 10"), Some(Value::Long(-3)));
    assert_eq!(answers("context has m || context.s like \"*b\""), Some(Value::Bool(true)));
    // An error is Cedar's to name: the program has no answer to it.
    assert_eq!(answers("context.n + 9223372036854775807 > 0"), None);
    assert_eq!(answers("context.m > 0"), None);
    assert_eq!(answers("[context.n].contains(7)"), None);
}
