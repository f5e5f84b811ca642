//! Properties of `decide` on any input: it answers, it answers the same again, and order has no meaning.

use crate::decide::world::World;
use countersign_core::action::{Action, ActionRequest, Observed};
use countersign_core::code::Code;
use countersign_core::decide::decide;
use countersign_core::decision::{Decision, Verdict};
use countersign_core::denial::{DenialCode, without_right};
use countersign_core::fact::Version;
use countersign_core::identity::{Auth, KeyName, Signed};
use countersign_core::ids::{AgentId, Tag};
use countersign_core::record::{Context, Decided, Encoder, Entry, Event, Given, Leaf, LeafVerdict};
use countersign_core::value::Attributes;
use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

const HEAD: &str = r#"
pact = "any"
version = 1
[facts.Account]
attributes = { status = "String", balance = "Long", note = "String?", tags = "Set<String>" }
[facts.Transfer]
attributes = { from = "String", amount = "Long" }

[action.act]
resource = 'Transfer::"{transfer}"'
reads.source = { fact = 'Account::"{resource.from}"', unchanged = true }
reads.maybe = { fact = 'Account::"{account}"', optional = true }
reads.fresh = { fact = 'Account::"new-{account}"', create = true }
allow = 'principal.roles.contains("payer") || principal.trust > 100'
budget = { sum = "amount", max = 100000, per = "1m", by = "agent" }

[action.act.set]
amount = "resource.amount - context.amount"
source.balance = "context.source.balance - context.amount"
fresh = { balance = "context.amount * context.amount", status = '"active"', tags = "context.source.tags" }

[action.act.params]
type = "object"
additionalProperties = false
required = ["transfer", "account", "amount"]
properties.transfer = { type = "string" }
properties.account = { type = "string" }
properties.amount = { type = "integer", minimum = 0 }
properties.memo = { type = "string" }
"#;

const REQUIRES: [&str; 6] = [
    "id = \"active\"\nthat = 'context.source.status == \"active\"'\nstale_after = \"1s\"",
    "id = \"covered\"\nthat = 'context.source.balance >= resource.amount'",
    "id = \"product\"\nthat = 'context.source.balance * context.amount < 1000000'\non_fail = \"review\"",
    "id = \"maybe\"\nthat = '!(context has maybe && context.maybe.balance <= 0)'",
    "id = \"note\"\nthat = '!(context.source has note && !(context.source.note like \"a*\"))'\non_fail = \"review\"",
    "id = \"late\"\nthat = 'context.now > 1000000'",
];

fn source(order: &[usize]) -> String {
    let blocks: Vec<_> = order.iter().map(|at| format!("[[action.act.require]]\n{}\n", REQUIRES[*at])).collect();
    format!("{HEAD}\n{}", blocks.join("\n"))
}

/// Loading costs far more than deciding, so all cases share one world and change a copy.
static WORLD: LazyLock<World> = LazyLock::new(|| World::new(&source(&[0, 1, 2, 3, 4, 5]), "act", json!({})));

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        (-200_000i64..200_000).prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        "[a-c]{0,3}".prop_map(Json::from),
        any::<String>().prop_map(Json::from),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::btree_map("[a-z]{1,8}", inner, 0..4).prop_map(Json::from_iter),
        ]
    })
}

/// Parameters that mostly fit.
fn any_params() -> impl Strategy<Value = Map<String, Json>> {
    let good = ("t[0-2]", "[a-c]", 0i64..2_000).prop_map(|(transfer, account, amount)| {
        json!({"transfer": transfer, "account": account, "amount": amount}).as_object().unwrap().clone()
    });
    let spoilt =
        (good.clone(), prop_oneof![Just("transfer"), Just("account"), Just("amount"), Just("memo")], any_json())
            .prop_map(|(mut params, name, value)| {
                params.insert(name.to_owned(), value);
                params
            });
    let wild = any_json().prop_map(|json| json.as_object().cloned().unwrap_or_default());
    prop_oneof![6 => good, 3 => spoilt, 1 => wild]
}

/// Attributes that mostly fit the type, and sometimes are anything.
fn any_account() -> impl Strategy<Value = Option<Json>> {
    let status = prop_oneof![4 => Just("active"), 1 => Just("frozen")];
    let balance = prop_oneof![4 => -10i64..3_000, 1 => Just(9_007_199_254_740_991), 1 => Just(i64::MAX)];
    let good = (status, balance, prop::option::of("[ab]{0,2}"), prop::collection::vec("[a-c]", 0..3));
    let good = good.prop_map(|(status, balance, note, tags)| {
        let mut value = json!({"status": status, "balance": balance, "tags": tags});
        if let Some(note) = note {
            value["note"] = json!(note);
        }
        Some(value)
    });
    prop_oneof![8 => good, 1 => Just(None), 1 => any_json().prop_map(Some)]
}

/// A key by its first byte, and texts of the signed request.
type Signing = (u8, String, Option<String>);

#[derive(Debug, Clone)]
struct Case {
    params: Map<String, Json>,
    facts: Vec<(&'static str, Option<Json>)>,
    roles: Vec<&'static str>,
    observed: Vec<(&'static str, u64, u64, Option<Json>)>,
    now_ms: u64,
    /// Whether the gate is identified, the agent's key, and what signed; keys by their first byte.
    identity: (bool, Option<u8>, Option<Signing>),
}

const NAMES: [&str; 4] = ["Account::\"a\"", "Account::\"b\"", "Account::\"new-a\"", "Transfer::\"t1\""];

fn any_case() -> impl Strategy<Value = Case> {
    let transfer = prop_oneof![
        6 => ("[ab]", 0i64..2_000).prop_map(|(from, amount)| Some(json!({"from": from, "amount": amount}))),
        1 => any_json().prop_map(Some),
        1 => Just(None),
    ];
    let facts = (any_account(), any_account(), prop::option::weighted(0.1, any_account()), transfer);
    let observed = prop::collection::vec(
        (prop::sample::select(NAMES.to_vec()), 0u64..4, 998_000u64..1_002_000, any_account()),
        0..5,
    );
    let roles = prop_oneof![4 => Just(vec!["payer"]), 1 => Just(vec![])];
    let key = prop_oneof![6 => Just(1u8), 1 => Just(2u8)];
    let signed = (key.clone(), any::<String>(), prop::option::of(any::<String>()));
    let identity = prop_oneof![
        4 => Just((false, None, None)),
        4 => signed.clone().prop_map(|signed| (true, Some(1), Some(signed))),
        1 => (any::<bool>(), prop::option::of(key), prop::option::of(signed)),
    ];
    let now_ms = prop_oneof![Just(1_000_000u64), 999_000u64..1_003_000, any::<u64>()];
    (any_params(), facts, roles, observed, now_ms, identity).prop_map(
        |(params, (a, b, new, transfer), roles, observed, now_ms, identity)| {
            let mut facts = vec![(NAMES[0], a), (NAMES[1], b), (NAMES[3], transfer)];
            facts.extend(new.map(|new| (NAMES[2], new)));
            Case { params, facts, roles, observed, now_ms, identity }
        },
    )
}

fn attributes(value: Json) -> Option<Attributes> {
    value.as_object().and_then(|object| Attributes::from_untyped_json(object).ok())
}

fn set_up(world: &World, case: &Case) -> World {
    let mut world = world.clone();
    let (identified, key, signed) = &case.identity;
    if *identified {
        world.identify();
    }
    world.key = key.map(|byte| KeyName::of([byte; 32]));
    world.register(&case.roles, "active", 5);
    if let Some((byte, text, query)) = signed {
        world.sign_with(KeyName::of([*byte; 32]));
        let Auth::Signature(signed) = &world.auth else { panic!("not signed") };
        let signed = Signed {
            input: text.as_str().into(),
            path: text.into(),
            query: query.as_ref().map(Into::into),
            if_match: query.as_ref().map(Into::into),
            batch: None,
            ..Signed::clone(signed)
        };
        world.auth = Auth::Signature(Arc::new(signed));
    }
    for (fact, value) in &case.facts {
        if value.is_none() || value.clone().and_then(attributes).is_some() {
            world.feed(fact, value.clone());
        }
    }
    world.params = Json::Object(case.params.clone());
    world.now_ms = case.now_ms;
    world.observed = case
        .observed
        .iter()
        .map(|(fact, version, at_ms, value)| Observed {
            fact: fact.parse().unwrap(),
            version: Version::Number(*version),
            at_ms: *at_ms,
            value: value.clone().and_then(attributes),
        })
        .collect();
    world
}

/// The action; `None` where the body is refused before it is one.
fn action(world: &World) -> Option<Action> {
    let body = json!({
        "pact": world.pact, "action": world.action, "params": world.params,
        "idempotency_key": "0123456789abcdef0123456789abcdef",
    });
    let body: Arc<str> = body.to_string().into();
    let request = ActionRequest::parse(&body).ok()?;
    Some(Action::new(
        AgentId::new(world.agent).unwrap(),
        world.auth.clone(),
        Arc::clone(&body),
        request,
        world.observed.clone(),
    ))
}

/// Whatever an entry may say of where it came from.
fn any_context() -> impl Strategy<Value = Context> {
    let names = || prop::collection::btree_set("[a-z]{1,12}", 0..5);
    let because_of = prop::collection::btree_set(any::<u64>(), 0..4);
    let score = prop::collection::btree_map("[a-z]{1,12}", any::<i64>(), 0..4);
    let numbers = (prop::option::of(0u64..=100), prop::option::of(0u64..=1000));
    (prop::option::of("[a-z]{1,20}"), because_of, names(), numbers, score).prop_map(
        |(session, because_of, labels, (severity, confidence), score)| {
            let (session, labels) = (session.map(Into::into), labels.into_iter().map(Into::into).collect());
            let score = score.into_iter().map(|(name, counts)| (name.into(), counts)).collect();
            let because_of = because_of.into_iter().collect();
            Context::new(Given { session, because_of, labels, severity, confidence, score }).unwrap()
        },
    )
}

fn entry(world: &World, action: Action, mut decision: Decision, context: &Context) -> Entry {
    for write in &mut decision.writes {
        write.tag.get_or_insert(Tag([7; 12]));
    }
    let (by, auth) = (action.agent.clone(), action.auth.clone());
    let event = Event::Action(Box::new(Decided { action: Box::new(action), decision }));
    Entry { index: 77, time_ms: world.now_ms.min(1 << 52), by, auth, context: context.clone(), event }
}

fn failed(decision: &Decision) -> BTreeSet<String> {
    decision
        .blocked()
        .into_iter()
        .flat_map(|blocked| blocked.failed())
        .map(|failed| format!("{} {}", failed.id, failed.why.as_str()))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decide_answers_anything_and_the_same_again(case in any_case()) {
        let world = set_up(&WORLD, &case);
        let Some(action) = action(&world) else { return Ok(()) };
        let decision = decide(&action, &world.state, world.now_ms);
        prop_assert_eq!(&decision, &decide(&action, &world.state, world.now_ms));
        match &decision.verdict {
            Verdict::Committed => prop_assert!(!decision.writes.is_empty()),
            Verdict::InFlight(_) => prop_assert!(false, "nothing is called here"),
            Verdict::Rejected(blocked) | Verdict::Review { blocked, .. } => {
                prop_assert!(decision.writes.is_empty() && decision.charges.is_empty());
                prop_assert_eq!(blocked.code() == Code::PreconditionFailed, !blocked.failed().is_empty());
                prop_assert!(!blocked.message().is_empty() && !blocked.hint().is_empty());
            }
        }
    }

    #[test]
    fn the_door_refuses_exactly_what_agents_alone_rule_out(case in any_case()) {
        let world = set_up(&WORLD, &case);
        let Some(action) = action(&world) else { return Ok(()) };
        let refused = without_right(&action, &world.state, world.now_ms).map(|(code, _)| code);
        let decision = decide(&action, &world.state, world.now_ms);
        let code = decision.blocked().map(|blocked| blocked.code());
        prop_assert!(refused.is_none() || matches!(decision.verdict, Verdict::Rejected(_)), "{refused:?}: {decision:?}");
        // Its `allow` is about agents alone, so nobody without the right gets past the door to be told so by an entry.
        prop_assert!(code != Some(Code::NotAllowed) || refused == Some(DenialCode::NotAllowed), "{decision:?}");
    }

    #[test]
    fn a_decision_read_back_and_made_again_has_the_same_bytes(case in any_case(), context in any_context()) {
        let world = set_up(&WORLD, &case);
        let Some(action) = action(&world) else { return Ok(()) };
        let decision = decide(&action, &world.state, world.now_ms);
        let first = entry(&world, action, decision, &context);
        let (mut payloads, mut leaves) = (Encoder::default(), Encoder::default());
        let payload = payloads.payload(&first).to_owned();
        let leaf_bytes = leaves.leaf(&first, &[5; 32]).to_owned();

        let leaf = Leaf::decode(&leaf_bytes).unwrap();
        let read = Entry::decode(leaf.clone(), Some(payload.as_bytes())).unwrap();
        prop_assert_eq!(&read.context, &context);
        prop_assert_eq!(payloads.payload(&read), &payload);
        prop_assert_eq!(leaves.leaf(&read, &[5; 32]), &leaf_bytes);
        prop_assert_eq!(read.show_payload(), first.show_payload());
        // The fold reads less of it, and the same.
        let folded = Entry::decode_to_fold(leaf.clone(), Some(payload.as_bytes())).unwrap();
        let is_done = matches!(leaf.verdict, Some(LeafVerdict::Committed | LeafVerdict::Rejected));
        prop_assert_eq!(matches!(folded.event, Event::Done(_)), is_done);
        prop_assert_eq!((folded.event.kind(), folded.event.verdict()), (read.event.kind(), read.event.verdict()));
        prop_assert_eq!((folded.event.keys().collect::<Vec<_>>(), &folded.context), (read.event.keys().collect::<Vec<_>>(), &read.context));
        prop_assert_eq!(folded.event.writes(), read.event.writes());
        prop_assert_eq!(folded.event.charges(), read.event.charges());
        // A payload says how long its body is, and what is behind it is nothing.
        let longer = format!("{payload} ");
        prop_assert!(Entry::decode(leaf.clone(), Some(longer.as_bytes())).is_err());
        prop_assert!(Entry::decode(leaf, Some(&payload.as_bytes()[..payload.len() - 1])).is_err());
        let Event::Action(stored) = read.event else { panic!("not an action") };
        let again = stored.action;
        let decision = decide(&again, &world.state, world.now_ms);
        let second = entry(&world, *again, decision, &context);
        prop_assert_eq!(payloads.payload(&second), payload);
        prop_assert_eq!(leaves.leaf(&second, &[5; 32]), leaf_bytes);
        let Event::Action(decided) = &second.event else { panic!("not an action") };
        prop_assert_eq!(&stored.decision.writes, &decided.decision.writes);
        prop_assert_eq!(&stored.decision.charges, &decided.decision.charges);
    }
}

#[test]
fn the_order_of_preconditions_has_no_meaning() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let orders = [[5, 4, 3, 2, 1, 0], [2, 0, 5, 1, 4, 3], [3, 5, 0, 4, 2, 1]];
    let others: Vec<World> = orders.iter().map(|order| World::new(&source(order), "act", json!({}))).collect();
    let mut blocked = 0;
    for _ in 0..600 {
        let case = any_case().new_tree(&mut runner).unwrap().current();
        let world = set_up(&WORLD, &case);
        let Some(action) = action(&world) else { continue };
        let decision = decide(&action, &world.state, world.now_ms);
        blocked += usize::from(failed(&decision).len() > 1);
        for other in &others {
            let other = set_up(other, &case);
            let shuffled = decide(&action, &other.state, other.now_ms);
            assert_eq!(decision.verdict.as_str(), shuffled.verdict.as_str(), "{case:?}");
            assert_eq!(decision.blocked().map(|b| b.code()), shuffled.blocked().map(|b| b.code()), "{case:?}");
            assert_eq!(failed(&decision), failed(&shuffled), "{case:?}");
            assert_eq!(decision.writes, shuffled.writes, "{case:?}");
        }
    }
    assert!(blocked > 20, "only {blocked} cases failed more than one precondition");
}
