//! Our flat evaluation against Cedar's own authorizer: the same condition as a policy over real entities.

use crate::decide::world::{World, in_words};
use cedar_policy::{Authorizer, Context, Decision, Entities, EntityUid, PolicySet, Request};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value as Json, json};

/// Each is one action type of the pact, and one policy.
const CONDITIONS: &[&str] = &[
    "resource.status == \"active\"",
    "resource.status != context.text",
    "resource.balance >= context.amount",
    "resource.balance - context.amount >= 0",
    "resource.balance * context.amount > 100",
    "resource.balance * 1024 + context.amount < 9000000000000000000",
    "-resource.balance < context.amount",
    "principal.roles.contains(\"payer\") && resource.balance > 5",
    "principal.roles.containsAny([\"payer\", \"boss\"])",
    "principal.roles.containsAll([\"payer\", \"boss\"])",
    "principal.trust > 3 || resource.balance * 4611686018427387904 > 0",
    "resource.balance * 4611686018427387904 > 0 || principal.trust > 3",
    "resource has note && resource.note like \"a*\"",
    "!(resource has note && resource.note != context.text)",
    "if resource.balance > 0 then context.amount < 10 else principal.trust > 3",
    "context.other.balance + resource.balance > context.amount",
    "context.other != resource",
    "context.other == resource || context.other.status == resource.status",
    "context has maybe && context.maybe.balance > 0",
    "!(context has maybe && !context.maybe.tags.contains(context.text))",
    "context.now > 1000000 && context.now - 1000000 < resource.balance",
    "context.observed has resource && context.observed.resource.balance == resource.balance",
    "!(context.observed has resource && resource.balance * 100 > context.observed.resource.balance * 102)",
    "resource.tags.containsAll([\"a\"])",
    "resource.tags.isEmpty() || resource.tags.contains(context.text)",
    "resource.tags == context.other.tags",
    "context has memo && context.memo like \"*x*\"",
    "[\"active\", \"frozen\"].contains(resource.status)",
    "resource is Account && resource.balance == context.amount",
];

fn pact() -> String {
    let mut text = String::from(
        "pact = \"cedar\"\nversion = 1\n[facts.Account]\nattributes = { status = \"String\", balance = \"Long\", \
         note = \"String?\", tags = \"Set<String>\" }\n",
    );
    for (at, condition) in CONDITIONS.iter().enumerate() {
        text.push_str(&format!(
            r#"
[action.c{at}]
resource = 'Account::"r"'
reads.other = 'Account::"{{other_id}}"'
reads.maybe = {{ fact = 'Account::"m"', optional = true }}
allow = 'true'
set = {{ balance = "resource.balance" }}
[action.c{at}.params]
type = "object"
additionalProperties = false
required = ["amount", "text", "other_id"]
properties.amount = {{ type = "integer" }}
properties.text = {{ type = "string" }}
properties.other_id = {{ type = "string" }}
properties.memo = {{ type = "string" }}
[[action.c{at}.require]]
id = "it"
that = '''{condition}'''
"#
        ));
    }
    text
}

fn account() -> impl Strategy<Value = Json> {
    let balance =
        prop_oneof![-20i64..20, Just(9_007_199_254_740_991), Just(-9_007_199_254_740_991), -1_000i64..100_000];
    let parts = (prop::sample::select(vec!["active", "frozen", "a"]), balance, prop::option::of("[ax]{0,2}"));
    (parts, prop::collection::btree_set("[abx]", 0..3)).prop_map(|((status, balance, note), tags)| {
        let mut value = json!({"status": status, "balance": balance, "tags": tags});
        if let Some(note) = note {
            value["note"] = json!(note);
        }
        value
    })
}

#[derive(Debug)]
struct Case {
    resource: Json,
    other: Option<Json>,
    maybe: Option<Json>,
    observed: Option<Json>,
    roles: Vec<&'static str>,
    trust: i64,
    params: Json,
    now_ms: u64,
}

fn case() -> impl Strategy<Value = Case> {
    let facts =
        (account(), prop::option::weighted(0.8, account()), prop::option::of(account()), prop::option::of(account()));
    let agent = (prop::sample::subsequence(vec!["payer", "boss", "x"], 0..=3), 0i64..8);
    let amount = prop_oneof![-20i64..20, 0i64..100_000, Just(9_007_199_254_740_991)];
    (facts, agent, amount, "[abx]", prop::option::of("[ax]{0,3}"), 999_990u64..1_000_020).prop_map(
        |((resource, other, maybe, observed), (roles, trust), amount, text, memo, now_ms)| {
            let other_id = if other.is_some() { "o" } else { "r" };
            let mut params = json!({"amount": amount, "text": text, "other_id": other_id});
            if let Some(memo) = memo {
                params["memo"] = json!(memo);
            }
            Case { resource, other, maybe, observed, roles, trust, params, now_ms }
        },
    )
}

/// Cedar's own answer: whether it allows, and whether an error was met.
fn by_cedar(case: &Case, policies: &PolicySet) -> (bool, bool) {
    let mut entities = vec![
        json!({"uid": {"type": "Account", "id": "r"}, "attrs": case.resource, "parents": []}),
        json!({"uid": {"type": "Agent", "id": "agent-1"}, "parents": [],
               "attrs": {"org": "acme", "roles": case.roles, "standing": "active", "trust": case.trust}}),
    ];
    let reference = |id: &str| json!({"__entity": {"type": "Account", "id": id}});
    let mut context = case.params.clone();
    let other_id = context["other_id"].as_str().unwrap().to_owned();
    context["other"] = reference(&other_id);
    context["now"] = json!(case.now_ms);
    context["observed"] = json!({});
    if let Some(observed) = &case.observed {
        context["observed"]["resource"] = observed.clone();
    }
    for (id, value) in [("o", &case.other), ("m", &case.maybe)] {
        if let Some(value) = value {
            entities.push(json!({"uid": {"type": "Account", "id": id}, "attrs": value, "parents": []}));
        }
    }
    if case.maybe.is_some() {
        context["maybe"] = reference("m");
    }
    let entities = Entities::from_json_value(Json::from(entities), None).unwrap();
    let uid = |text: &str| text.parse::<EntityUid>().unwrap();
    let context = Context::from_json_value(context, None).unwrap();
    let request =
        Request::new(uid("Agent::\"agent-1\""), uid("Action::\"act\""), uid("Account::\"r\""), context, None).unwrap();
    let response = Authorizer::new().is_authorized(&request, policies, &entities);
    (response.decision() == Decision::Allow, response.diagnostics().errors().next().is_some())
}

fn by_us(world: &World, case: &Case, at: usize) -> (bool, bool) {
    let mut world = world.clone();
    world.action = format!("c{at}");
    world.now_ms = case.now_ms;
    world.register(&case.roles, "active", case.trust);
    if let Some(observed) = &case.observed {
        world.feed("Account::\"r\"", Some(observed.clone()));
        world.observe(&["Account::\"r\""]);
    }
    world.feed("Account::\"r\"", Some(case.resource.clone()));
    for (fact, value) in [("Account::\"o\"", &case.other), ("Account::\"m\"", &case.maybe)] {
        if value.is_some() {
            world.feed(fact, value.clone());
        }
    }
    world.params = case.params.clone();
    match world.verdict().as_str() {
        "committed" => (true, false),
        "precondition_failed: it false" => (false, false),
        "precondition_failed: it error" => (false, true),
        other => panic!("{other}: {} {case:?}", in_words(&world.decide())),
    }
}

#[test]
fn conditions_mean_what_they_mean_in_cedar() {
    let mut world = World::new(&pact(), "c0", json!({}));
    world.agent = "agent-1";
    let mut runner = TestRunner::deterministic();
    let mut seen = std::collections::BTreeMap::new();
    for (at, condition) in CONDITIONS.iter().enumerate() {
        let policy = format!("permit(principal, action, resource) when {{ {condition} }};");
        let policies: PolicySet = policy.parse().unwrap();
        for _ in 0..120 {
            let mut case = case().new_tree(&mut runner).unwrap().current();
            // `other` written through `resource` would be refused before any condition is asked.
            if case.other.is_none() {
                case.other = Some(case.resource.clone());
                case.params["other_id"] = json!("o");
            }
            let (ours, cedars) = (by_us(&world, &case, at), by_cedar(&case, &policies));
            assert_eq!(ours, cedars, "{condition}: we say {ours:?}, Cedar says {cedars:?}: {case:?}");
            *seen.entry(ours).or_insert(0) += 1;
        }
    }
    for outcome in [(true, false), (false, false), (false, true)] {
        assert!(seen.get(&outcome).is_some_and(|count| *count > 20), "hardly ever {outcome:?}: {seen:?}");
    }
}
