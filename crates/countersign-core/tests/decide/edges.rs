//! The edges of each rule: one millisecond before and after, the value that came back, the sum that is just too large.

use crate::decide::world::{World, in_words};
use countersign_core::decision::Verdict;
use countersign_core::fact::Version;
use countersign_core::reason::{Expected, Why};
use serde_json::{Value as Json, json};

const HEAD: &str = r#"
pact = "edge"
version = 1
[facts.Account]
attributes = { status = "String", balance = "Long" }
"#;

const PARAMS: &str = r#"
[action.act.params]
type = "object"
additionalProperties = false
required = ["account", "amount"]
properties.account = { type = "string" }
properties.amount = { type = "integer" }
properties.other = { type = "string" }
"#;

const ALWAYS: &str = r#"
[[action.act.require]]
id = "always"
that = 'resource.status != "nowhere"'
"#;

const A: &str = "Account::\"a\"";

/// A world with one account and one agent; `rules` completes the action type.
fn world(rules: &str) -> World {
    // A pact without any precondition is refused; where a test speaks of something else, one that holds is added.
    let filler = if rules.contains("require]]") { "" } else { ALWAYS };
    let source = format!("{HEAD}\n[action.act]\nallow = 'true'\n{}{filler}", rules.replace("PARAMS", PARAMS));
    let mut world = World::new(&source, "act", json!({"account": "a", "amount": 10})).with_agent(&[]);
    world.feed(A, Some(account("active", 100)));
    world
}

fn account(status: &str, balance: i64) -> Json {
    json!({"status": status, "balance": balance})
}

const STALE: &str = r#"
resource = 'Account::"{account}"'
set = { balance = "resource.balance - context.amount" }
PARAMS
[[action.act.require]]
id = "active"
that = 'resource.status == "active"'
stale_after = "2s"
"#;

#[test]
fn an_observation_is_good_up_to_its_last_millisecond() {
    for (age_ms, expected) in
        [(0, "committed"), (1_999, "committed"), (2_000, "committed"), (2_001, "precondition_failed: active stale")]
    {
        let mut world = world(STALE);
        world.observe(&[A]);
        world.now_ms += age_ms;
        assert_eq!(world.verdict(), expected, "at an age of {age_ms} ms");
        assert_eq!(world.decide().gap_ms, Some(age_ms));
    }
}

#[test]
fn no_observation_is_said_to_be_none_and_one_from_the_future_is_stale() {
    let mut unseen = world(STALE);
    assert_eq!(unseen.verdict(), "precondition_failed: active unobserved");
    let decision = unseen.decide();
    let failed = &decision.blocked().unwrap().failed()[0];
    assert_eq!((failed.gap_ms, &failed.reads[0].expected), (None, &Expected::NotObserved));
    unseen.observe_at(&[A], unseen.now_ms + 1);
    assert_eq!(unseen.verdict(), "precondition_failed: active stale");
    unseen.observe_at(&[A], unseen.now_ms);
    // Of several observations the latest counts, and the latest claims to be from the future.
    assert_eq!(unseen.verdict(), "precondition_failed: active stale");
}

#[test]
fn a_condition_that_is_false_is_called_so_even_if_stale() {
    let mut world = world(STALE);
    world.observe(&[A]);
    world.now_ms += 150;
    world.feed(A, Some(account("frozen", 100)));
    world.now_ms += 10;
    let decision = world.decide();
    assert_eq!(in_words(&decision), "precondition_failed: active false");
    let blocked = decision.blocked().unwrap();
    assert_eq!(blocked.message(), "active no longer holds");
    let failed = &blocked.failed()[0];
    assert_eq!(failed.gap_ms, Some(160));
    let read = &failed.reads[0];
    assert_eq!(read.attribute.as_deref(), Some("status"));
    assert!(matches!(&read.expected, Expected::Value(value) if value.to_json() == "active"));
    assert_eq!(read.actual.as_ref().unwrap().to_json(), "frozen");
    let changed = read.changed.as_ref().unwrap();
    assert_eq!((changed.by.as_str(), changed.at_ms, changed.version), ("operator", world.now_ms - 10, 2));
    assert!(failed.hint().contains(A) && failed.hint().contains("10 ms before"), "{}", failed.hint());
}

#[test]
fn unchanged_is_not_fooled_by_a_value_that_came_back() {
    let rules = r#"
resource = { fact = 'Account::"{account}"', unchanged = true }
set = { status = '"active"' }
PARAMS
"#;
    let mut world = world(rules);
    assert_eq!(world.verdict(), "precondition_failed: resource-unchanged unobserved");
    world.observe(&[A]);
    assert_eq!(world.verdict(), "committed");
    world.feed(A, Some(account("frozen", 100)));
    world.feed(A, Some(account("active", 100)));
    let decision = world.decide();
    assert_eq!(in_words(&decision), "precondition_failed: resource-unchanged changed");
    let failed = &decision.blocked().unwrap().failed()[0];
    assert_eq!(failed.why, Why::Changed);
    // No attribute differs, so the fact as a whole is named: from which version to which, by whom, and when.
    let read = &failed.reads[0];
    assert_eq!((failed.reads.len(), read.attribute.as_deref()), (1, None));
    assert_eq!((read.observed_version, read.version), (Some(Version::Number(1)), Some(Version::Number(3))));
    let changed = read.changed_here().unwrap();
    assert_eq!((changed.by.as_str(), changed.at_ms), ("operator", world.now_ms));
    // An observation of what comes later is no better than an old one.
    world.observed[0].version = Version::Number(9);
    assert_eq!(world.verdict(), "precondition_failed: resource-unchanged changed");
}

#[test]
fn a_person_may_waive_only_where_everything_that_failed_may_be_waived() {
    let rules = r#"
resource = 'Account::"{account}"'
set = { balance = "resource.balance - context.amount" }
PARAMS
[[action.act.require]]
id = "small"
that = 'context.amount <= 50'
on_fail = "review"
[[action.act.require]]
id = "known"
that = 'resource.status != "new"'
on_fail = "review"
[[action.act.require]]
id = "covered"
that = 'resource.balance >= context.amount'
"#;
    let mut world = world(rules);
    let rows = [
        (10, "active", "committed"),
        (50, "active", "committed"),
        (51, "active", "review: small false"),
        (51, "new", "review: small false, known false"),
        (101, "new", "precondition_failed: small false, known false, covered false"),
        (10, "new", "review: known false"),
    ];
    for (amount, status, expected) in rows {
        world.params["amount"] = json!(amount);
        world.feed(A, Some(account(status, 100)));
        let decision = world.decide();
        assert_eq!(in_words(&decision), expected, "{amount} {status}");
        assert_eq!(decision.writes.is_empty(), expected != "committed");
        if let Verdict::Review { expires_at_ms, .. } = decision.verdict {
            assert!(expires_at_ms > world.now_ms);
        }
    }
}

#[test]
fn shadow_mode_records_and_does_not_block() {
    let rules = r#"
mode = "shadow"
resource = 'Account::"{account}"'
budget = { sum = "amount", max = 20, per = "1h", by = "agent" }
set = { balance = "resource.balance - context.amount" }
PARAMS
[[action.act.require]]
id = "active"
that = 'resource.status == "active"'
"#;
    let rules =
        rules.replace("PARAMS", &PARAMS.replace("{ type = \"integer\" }", "{ type = \"integer\", minimum = 1 }"));
    let mut world = world(&rules);
    let held = world.act();
    assert_eq!((in_words(&held).as_str(), held.shadowed.is_none()), ("committed", true));
    world.feed(A, Some(account("frozen", 90)));
    let shadowed = world.act();
    assert_eq!(in_words(&shadowed), "committed");
    assert_eq!(shadowed.shadowed.as_ref().unwrap().failed()[0].id, "active");
    assert_eq!(world.value(A)["balance"], 80);
    // What would have been over budget is charged all the same: it happened.
    world.feed(A, Some(account("active", 80)));
    assert_eq!(world.act().shadowed.unwrap().code().as_str(), "budget_exceeded");
    // Who may act at all, and what cannot be computed, is not a matter of mode.
    world.feed(A, Some(account("active", -9_007_199_254_740_991)));
    assert_eq!(world.verdict(), "effect_invalid");
    world.register(&[], "quarantined", 0);
    assert_eq!(world.verdict(), "agent_not_active");
}

#[test]
fn optional_and_created_facts() {
    let rules = r#"
resource = 'Account::"{account}"'
reads.maybe = { fact = 'Account::"opt-{account}"', optional = true }
reads.fresh = { fact = 'Account::"new-{account}"', create = true }
set.fresh = { balance = "context.amount", status = '"active"' }
PARAMS
[[action.act.require]]
id = "optional-is-not-frozen"
that = '!(context has maybe && context.maybe.status == "frozen")'
"#;
    let mut world = world(rules);
    assert_eq!(world.verdict(), "committed");
    world.feed("Account::\"opt-a\"", Some(account("frozen", 0)));
    assert_eq!(world.verdict(), "precondition_failed: optional-is-not-frozen false");
    world.feed("Account::\"opt-a\"", None);
    assert_eq!(world.verdict(), "committed");
    let decision = world.act();
    assert_eq!(decision.writes.len(), 1);
    assert_eq!(decision.writes[0].version, 1);
    assert_eq!(world.verdict(), "fact_exists");
    // A deleted fact may be created again, and its versions go on: it can never pass for an old one.
    world.feed("Account::\"new-a\"", None);
    let decision = world.act();
    assert_eq!((in_words(&decision).as_str(), decision.writes[0].version), ("committed", 3));
    world.feed(A, None);
    assert_eq!(world.verdict(), "fact_missing");
}

#[test]
fn two_names_for_one_fact_are_refused_only_where_it_is_written() {
    let rules = |set: &str| {
        format!(
            "resource = 'Account::\"{{account}}\"'\nreads.second = 'Account::\"{{other}}\"'\n{set}\n{}\n[[action.act.require]]\n\
             id = \"both-active\"\nthat = 'context.second.status == resource.status'",
            PARAMS.replace("\"amount\"]", "\"amount\", \"other\"]")
        )
    };
    let rows = [
        ("set = { balance = \"resource.balance + 1\" }", "aliased_write"),
        ("set.second = { balance = \"context.second.balance + 1\" }", "aliased_write"),
        ("delete = [\"second\"]", "aliased_write"),
    ];
    for (set, expected) in rows {
        let mut world = world(&rules(set));
        world.params["other"] = json!("a");
        assert_eq!(world.verdict(), expected, "{set}");
        world.params["other"] = json!("b");
        world.feed("Account::\"b\"", Some(account("active", 5)));
        assert_eq!(world.verdict(), "committed", "{set}");
    }
    let harmless = "set.third = { balance = \"1\", status = '\"active\"' }\nreads.third = { fact = 'Account::\"third\"', create = true }";
    let mut world = world(&rules(harmless));
    world.params["other"] = json!("a");
    assert_eq!(world.verdict(), "committed");
}

#[test]
fn a_budget_fills_to_its_brim_and_starts_anew_with_the_window() {
    let rules = r#"
resource = 'Account::"{account}"'
budget = [
  { id = "amounts", sum = "amount", max = 30, per = "1m", by = "agent" },
  { id = "times", count = true, max = 4, per = "1h", by = "pact" },
]
set = { balance = "resource.balance - context.amount" }
PARAMS
"#;
    let mut world = world(
        &rules.replace("PARAMS", &PARAMS.replace("{ type = \"integer\" }", "{ type = \"integer\", minimum = 0 }")),
    );
    // The end of a minute and of an hour, in fixed windows since the epoch.
    world.now_ms = 7_200_000 - 60_000;
    world.params["amount"] = json!(30);
    assert_eq!(in_words(&world.act()), "committed");
    world.params["amount"] = json!(0);
    assert_eq!(in_words(&world.act()), "committed");
    world.params["amount"] = json!(1);
    assert_eq!(world.verdict(), "budget_exceeded");
    world.now_ms = 7_200_000 - 1;
    assert_eq!(world.verdict(), "budget_exceeded", "the last millisecond of the window");
    // Another agent has a budget of its own, but shares the pact's.
    world.agent = "agent-2";
    world.register(&[], "active", 0);
    assert_eq!(in_words(&world.act()), "committed");
    assert_eq!(in_words(&world.act()), "committed");
    assert_eq!(world.verdict(), "budget_exceeded", "a fifth within the hour");
    world.now_ms = 7_200_000;
    assert_eq!(world.verdict(), "committed", "the first millisecond of the next window");
    // What was rejected was never charged.
    assert!(world.decide().charges.iter().all(|charge| charge.amount <= 1));
}

#[test]
fn what_cannot_be_held_exactly_is_not_written() {
    let rules = r#"
resource = 'Account::"{account}"'
set = { balance = "resource.balance * context.amount" }
PARAMS
"#;
    let max = 9_007_199_254_740_991_i64;
    let rows = [
        (max, 1, "committed"),
        (-max, 1, "committed"),
        ((max - 1) / 2, 2, "committed"),
        ((max + 1) / 2, 2, "effect_invalid"),
        (-(max + 1) / 2, 2, "effect_invalid"),
        // Beyond 64 bits the evaluation itself fails.
        (max, max, "effect_invalid"),
    ];
    let mut world = world(rules);
    for (balance, factor, expected) in rows {
        world.feed(A, Some(account("active", balance)));
        world.params["amount"] = json!(factor);
        assert_eq!(world.verdict(), expected, "{balance} * {factor}");
    }
}

#[test]
fn an_error_in_a_condition_is_a_rejection() {
    let rules = r#"
resource = 'Account::"{account}"'
set = { balance = "resource.balance" }
PARAMS
[[action.act.require]]
id = "product"
that = 'resource.balance * context.amount >= 0'
"#;
    let mut world = world(rules);
    let max = 9_007_199_254_740_991_i64;
    world.feed(A, Some(account("active", max)));
    world.params["amount"] = json!(max);
    assert_eq!(world.verdict(), "precondition_failed: product error");
}

#[test]
fn drift_is_measured_against_what_was_seen() {
    let rules = r#"
resource = 'Account::"{account}"'
require_observation = true
set = { balance = "resource.balance - context.amount" }
PARAMS
[[action.act.require]]
id = "near-what-was-seen"
that = '''resource.balance * 100 <= context.observed.resource.balance * 102
  && resource.balance * 100 >= context.observed.resource.balance * 98'''
"#;
    for (balance, expected) in [
        (1_000, "committed"),
        (1_020, "committed"),
        (980, "committed"),
        (1_021, "precondition_failed: near-what-was-seen false"),
        (979, "precondition_failed: near-what-was-seen false"),
    ] {
        let mut world = world(rules);
        world.feed(A, Some(account("active", 1_000)));
        assert_eq!(world.verdict(), "observation_required");
        world.observe(&[A]);
        world.feed(A, Some(account("active", balance)));
        assert_eq!(world.verdict(), expected, "{balance}");
    }
}

/// A fact that is reached through another: what leads to it is part of why a condition on it failed.
const LINKED: &str = r#"
resource = 'Account::"{account}"'
reads.next = 'Account::"{resource.status}"'
PARAMS
[[action.act.require]]
id = "rich"
that = 'context.next.balance >= context.amount'
"#;

#[test]
fn a_swapped_link_is_named() {
    let mut world = world(LINKED);
    world.feed("Account::\"b\"", Some(account("x", 50)));
    world.feed("Account::\"c\"", Some(account("x", 5)));
    world.feed(A, Some(account("b", 100)));
    world.observe(&[A, "Account::\"b\""]);
    world.feed(A, Some(account("c", 100)));
    let decision = world.decide();
    let failed = &decision.blocked().unwrap().failed()[0];
    let reads: Vec<String> = failed
        .reads
        .iter()
        .map(|read| format!("{}.{} {:?}", read.fact, read.attribute.as_deref().unwrap_or_default(), read.expected))
        .collect();
    assert_eq!(
        reads,
        ["Account::\"c\".balance NotObserved", "Account::\"a\".status Value(String(\"b\"))"],
        "{failed:?}"
    );
    assert!(failed.hint().starts_with("observe Account::\"a\", Account::\"c\" again"), "{}", failed.hint());
    // A link that did not change says nothing.
    world.observed.clear();
    world.observe(&[A]);
    assert_eq!(world.decide().blocked().unwrap().failed()[0].reads.len(), 1);
}
