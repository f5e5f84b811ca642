//! Properties of the loader: order has no meaning, any text is answered, and what is exported validates in Cedar itself.

use cedar_policy::{PolicySet, Schema, ValidationMode, Validator};
use countersign_core::expression::{Input, Inputs, Mention, Source};
use countersign_core::pact::export::{cedar_policies, cedar_schema};
use countersign_core::pact::load::load;
use countersign_core::pact::manifest::manifest;
use countersign_core::pact::{ActionType, Pact, Presence};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

fn examples() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    paths.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

/// Whatever is asked, there is a thousand of it.
struct Rich;

impl Source for Rich {
    fn input(&self, _: &Mention) -> Option<Input<'_>> {
        Some(Input::Long(1000))
    }
}

fn pact(source: &str) -> Pact {
    load(source).unwrap_or_else(|problems| panic!("{problems:#?}\n{source}")).pact
}

/// Everything that a decision depends on, whatever the order it was written in.
fn structure(pact: &Pact) -> BTreeSet<String> {
    let action = |action: &ActionType| {
        let mut require: Vec<_> = action
            .require
            .iter()
            .map(|r| format!("{} {} {:?} {:?}", r.id, r.that.text(), r.stale_after_ms, r.on_fail))
            .collect();
        require.sort();
        let mut budgets: Vec<_> = action.budgets.iter().map(|budget| format!("{budget:?}")).collect();
        budgets.sort();
        let writes: Vec<_> = action.writes.iter().map(|write| format!("{write:?}")).collect();
        format!("{} {:?} {:?} {require:#?} {budgets:#?} {writes:#?}", action.name, action.params.schema, action.reads)
    };
    pact.actions.values().map(action).chain([format!("{:?}", pact.facts)]).collect()
}

/// The blocks of a pact: each starts at a header and can stand anywhere after the first.
fn blocks(source: &str) -> (String, Vec<String>) {
    let mut blocks: Vec<String> = vec![String::new()];
    for line in source.lines() {
        if line.starts_with('[') {
            blocks.push(String::new());
        }
        let _ = writeln!(blocks.last_mut().unwrap(), "{line}");
    }
    let first = blocks.remove(0);
    (first, blocks)
}

/// What conditions are made of; by chance some of them are right.
const WORDS: &[&str] = &[
    "resource",
    "context",
    "principal",
    ".",
    "balance",
    "amount",
    "roles",
    "observed",
    " has ",
    " like ",
    "if ",
    " then ",
    " else ",
    " == ",
    " && ",
    "(",
    ")",
    "[",
    "]",
    "\"x\"",
    "1",
    " - ",
    "!",
    "contains",
    "::",
    "Account",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_blocks_has_no_meaning(which in 0..6usize, seed in proptest::collection::vec(any::<u32>(), 40)) {
        let source = examples().swap_remove(which);
        let (first, mut parts) = blocks(&source);
        let expected = structure(&pact(&source));
        let mut order: Vec<(u32, String)> = seed.into_iter().cycle().zip(parts.drain(..)).collect();
        order.sort();
        let shuffled = order.into_iter().fold(first, |all, (_, block)| all + &block);
        prop_assert_eq!(structure(&pact(&shuffled)), expected);
    }

    #[test]
    fn any_text_is_answered(text in "\\PC{0,200}") {
        check_answer(&text);
    }

    /// Text near a pact gets further into the loader than noise does.
    #[test]
    fn any_damage_is_answered(
        which in 0..6usize,
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), 0..60usize, any::<prop::sample::Index>()), 1..4),
    ) {
        let mut text: Vec<char> = examples().swap_remove(which).chars().collect();
        for (at, length, to) in cuts {
            let at = at.index(text.len());
            let piece: Vec<char> = text.iter().skip(at).take(length).copied().collect();
            if length % 2 == 0 {
                let end = (at + length).min(text.len());
                text.drain(at..end);
            }
            if text.is_empty() {
                break;
            }
            let to = to.index(text.len());
            text.splice(to..to, piece);
        }
        check_answer(&text.into_iter().collect::<String>());
    }

    #[test]
    fn any_condition_is_answered(
        noise in "[a-z.()!<>=&|+*\\[\\]{}\" 0-9]{0,80}",
        words in proptest::collection::vec(prop::sample::select(WORDS), 0..30),
    ) {
        let source = examples().swap_remove(1);
        for condition in [noise, words.concat()] {
            check_answer(&source.replace("resource.balance >= context.amount", &condition));
        }
    }
}

fn check_answer(text: &str) {
    if let Err(problems) = load(text) {
        assert!(!problems.is_empty());
        for problem in problems {
            assert!(text.get(problem.span.clone()).is_some(), "{problem:?}");
            assert!(problem.hint.is_some(), "{problem:?}");
        }
    }
}

/// Runs with the stack that a worker thread has, which is less than that of a main thread.
fn on_a_small_stack(run: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(2 * 1024 * 1024).spawn(run).unwrap().join().unwrap();
}

#[test]
fn deep_and_long_expressions_neither_overflow_nor_pass() {
    let billing = examples().swap_remove(1);
    let deep = |condition: String| billing.replace("resource.balance >= context.amount", &condition);
    let too_large = [
        format!("{}1 < 2{}", "(".repeat(2000), ")".repeat(2000)),
        format!("{}resource.balance{}", "[".repeat(100), "]".repeat(100)),
        format!("{}true", "true && ".repeat(300)),
        format!("{}true", "if true then true else ".repeat(150)),
        format!("resource{}", ".a".repeat(1500)),
        format!("{}1 < 2", "1 - ".repeat(600)),
        "x".repeat(5000),
    ];
    for condition in too_large {
        let source = deep(condition);
        on_a_small_stack(move || {
            let problems = load(&source).unwrap_err();
            assert!(problems.iter().any(|p| p.message.starts_with("an expression ")), "{problems:#?}");
        });
    }
    // The largest that pass must also be evaluated, dropped and checked on a small stack.
    let largest = [
        format!("{}resource.balance > 1", "resource.balance > 1 && ".repeat(84)),
        format!("resource.balance > {}1", "1 + ".repeat(250)),
        format!("{}resource.balance > 1{}", "(".repeat(24), ")".repeat(24)),
        format!("{}resource.balance > 1", "if resource.balance > 1 then true else ".repeat(24)),
    ];
    for condition in largest {
        let source = deep(condition);
        on_a_small_stack(move || {
            let pact = pact(&source);
            let refund = pact.actions.values().find(|action| action.name.as_str() == "refund").unwrap();
            let that = &refund.require.get(1).unwrap().that;
            assert_eq!(that.holds(&Inputs::new(&Rich, &refund.inputs)), Ok(true), "{}", that.text());
        });
    }
}

#[test]
fn deep_tables_neither_overflow_nor_pass() {
    for text in [
        "a".to_owned() + &".a".repeat(50_000) + " = 1",
        "[".repeat(100_000),
        format!("a = {}", "[".repeat(50_000)),
        format!("a = {}", "{a=".repeat(50_000)),
        examples().swap_remove(1).replace(
            "properties.account = {",
            &format!(
                "properties.deep = {}1{}\nproperties.account = {{",
                "{ type = \"object\", properties.x = ".repeat(70),
                "}".repeat(70)
            ),
        ),
    ] {
        on_a_small_stack(move || {
            load(&text).unwrap_err();
        });
    }
}

#[test]
fn what_is_exported_validates_with_cedar() {
    for source in examples() {
        let pact = pact(&source);
        let (schema, warnings) = Schema::from_cedarschema_str(&cedar_schema(&pact)).unwrap();
        assert_eq!(warnings.count(), 0, "{}", pact.name);
        let policies: PolicySet = cedar_policies(&pact).parse().unwrap();
        let grants: usize = pact.observe.values().map(Vec::len).sum();
        assert_eq!(policies.policies().count(), pact.actions.len() + grants);
        let result = Validator::new(schema).validate(&policies, ValidationMode::Strict);
        assert!(result.validation_passed_without_warnings(), "{}: {result:?}", pact.name);
    }
}

#[test]
fn the_manifest_names_every_rule() {
    for source in examples() {
        let pact = pact(&source);
        let document = manifest(&pact);
        for action in pact.actions.values() {
            assert!(document.contains(&format!("## Action `{}`", action.name)));
            for require in &action.require {
                assert!(document.contains(&format!("| `{}` |", require.id)), "{document}");
            }
            for param in action.params.types.keys() {
                assert!(document.contains(&format!("| `{param}` |")), "{document}");
            }
        }
    }
}

#[test]
fn reads_are_sorted_by_what_they_need() {
    let transfer = examples().iter().map(|source| pact(source)).find(|pact| pact.name.as_str() == "transfer").unwrap();
    let execute = transfer.actions.values().find(|action| action.name.as_str() == "execute").unwrap();
    let names: Vec<&str> = execute.reads.iter().map(|read| read.name.as_str()).collect();
    assert_eq!(names, ["resource", "source", "target"]);
    assert!(execute.reads.iter().all(|read| read.presence == Presence::Required));
}
