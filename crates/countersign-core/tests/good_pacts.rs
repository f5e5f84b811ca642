//! Pacts that are right although they look like what is wrong, and how the fact types of a gate grow.

use cedar_policy::{PolicySet, Schema, ValidationMode, Validator};
use countersign_core::ids::FactType;
use countersign_core::pact::Pact;
use countersign_core::pact::catalogue::Catalogue;
use countersign_core::pact::export::{cedar_policies, cedar_schema};
use countersign_core::pact::load::load;
use std::path::Path;

fn pact(source: &str) -> Pact {
    load(source).unwrap_or_else(|problems| panic!("{problems:#?}\n{source}")).pact
}

const THING: &str = r#"pact = "things"
version = 1
[facts.Thing]
attributes = { a = "String", b = "Long?" }
[action.make]
resource = { fact = 'Thing::"{id}"', create = true }
allow = 'principal.standing == "active"'
set = { a = '"x"' }
params = { type = "object", additionalProperties = false, required = ["id"], properties = { id = { type = "string" } } }
[[action.make.require]]
id = "early"
that = 'context.now < 5000'
"#;

/// What is right although it looks like what is wrong: what to replace in the pact above, and what to put there.
#[test]
fn good_pacts_load_without_warnings() {
    let optional =
        "resource = { fact = 'Thing::\"{id}\"' }\nreads.other = { fact = 'Thing::\"{id}-2\"', optional = true }";
    let created = "resource = { fact = 'Thing::\"{id}\"', create = true }";
    let rows = [
        (created, "resource = { fact = 'Thing::\"{id}\"', unchanged = true }"),
        (created, "resource = 'Thing::\"x-{{{id}}}-\\\"\\\\\"'"),
        (created, "resource = \"Thing::\\\"{id}\\\"\""),
        (created, "resource = 'Agent::\"{id}\"'\nreads.thing = 'Thing::\"{resource.org}\"'\nset.thing.b = \"1\"\n#"),
        ("context.now < 5000", "resource == Thing::\"1\" || context.id like \"a*\""),
        ("context.now < 5000", "context.now < 5000 // until then"),
        ("context.now < 5000", "principal.roles.containsAny([\"a\", \"b\"]) && principal.trust * 2 > 5"),
        ("set = { a", "min_trust = 0\nmode = \"shadow\"\ndoc = \"…\"\nset = { b = \"context.now\", a"),
        ("set = { a", "set = { resource.b = \"1\", a"),
        ("set = { a", "set = { \"resource.b\" = \"if context.now > 1 then 1 else 2\", a"),
        ("set = { a", "budget = []\nset = { a"),
        ("set = { a", "budget = { id = \"few\", count = true, max = 1, per = \"250ms\", by = \"pact\" }\nset = { a"),
        ("{ id = { type = \"string\" }", "{ id = { type = \"integer\" }"),
        (
            "{ id = { type = \"string\" }",
            "{ id = { const = \"x\" }, f = { type = \"array\", items = { enum = [1, 2] } }",
        ),
        (
            "{ id = { type = \"string\" }",
            "{ id = { type = \"string\" }, o = { type = \"object\", additionalProperties = false, properties.x.type = \"boolean\" }",
        ),
    ];
    for (from, to) in rows {
        assert!(THING.contains(from), "{from}");
        let source = THING.replace(from, to);
        let source = if to.contains("set.thing") { source.replace("set = { a", "# { a") } else { source };
        let loaded = load(&source).unwrap_or_else(|problems| panic!("{problems:#?}\n{source}"));
        assert_eq!(loaded.warnings, [], "{source}");
        what_follows_validates(&loaded.pact);
    }
    let upsert = THING
        .replace(created, optional)
        .replace("set = { a", "set = { other.a = 'if context has other then context.other.a else \"\"', a");
    assert_eq!(load(&upsert).unwrap().warnings, []);
    let stale = THING.replace("id = \"early\"", "id = \"early\"\nstale_after = \"1m\"");
    let problems = load(&stale).unwrap_err();
    assert!(problems.iter().any(|p| p.message.contains("counts from an observation")), "{problems:#?}");
    let observed =
        stale.replace(", create = true", "").replace("context.now < 5000", "context.observed.resource.a == resource.a");
    load(&observed).unwrap_err();
    assert_eq!(load(&observed.replace("allow =", "require_observation = true\nallow =")).unwrap().warnings, []);
}

/// A rule of a pact may only be a rule in Cedar, too.
fn what_follows_validates(pact: &Pact) {
    let (schema, _) = Schema::from_cedarschema_str(&cedar_schema(pact)).unwrap();
    let policies: PolicySet = cedar_policies(pact).parse().unwrap();
    let result = Validator::new(schema).validate(&policies, ValidationMode::Strict);
    assert!(result.validation_passed(), "{}: {result:?}", pact.name);
}

#[test]
fn the_pacts_of_the_guide_load() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guide = std::fs::read_to_string(root.join("docs/guides/writing-pacts.md")).unwrap();
    let blocks: Vec<&str> = guide.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    // The first line says under which name to save it.
    let whole: Vec<&str> = blocks.iter().filter_map(|block| block.strip_prefix("# billing.toml\n")).collect();
    assert_eq!(whole.len(), 1, "the guide has one complete example");
    for block in whole {
        assert_eq!(load(block).unwrap_or_else(|problems| panic!("{problems:#?}")).warnings, []);
        assert_eq!(block, std::fs::read_to_string(root.join("examples/billing.toml")).unwrap());
    }
}

/// What each row declares instead, and what the gate that knows the pact above says to it.
#[test]
fn fact_types_may_only_grow_by_optional_attributes() {
    let gate = Catalogue::new().admit(&pact(THING)).unwrap();
    let declared = |attributes: &str| {
        let source = THING.replace("a = \"String\", b = \"Long?\"", attributes);
        gate.admit(&pact(&source)).map(|grown| grown.types()[&FactType::new("Thing").unwrap()].len())
    };
    assert_eq!(declared("a = \"String\", b = \"Long?\""), Ok(2));
    assert_eq!(declared("a = \"String\""), Ok(2));
    assert_eq!(declared("a = \"String\", c = \"Bool?\""), Ok(3));
    for (attributes, refusal) in [
        ("a = \"String\", b = \"String?\"", "is already `Long?` on this gate, not `String?`"),
        ("a = \"String\", b = \"Long?\", a2 = \"Set<Long>?\", b2 = \"Bool?\", c = \"Set<String>?\"", ""),
        ("a = \"String?\"", "is already `String` on this gate, not `String?`"),
    ] {
        match declared(attributes) {
            Ok(_) => assert_eq!(refusal, ""),
            Err(refusals) => {
                assert!(!refusal.is_empty() && refusals.iter().any(|r| r.message.contains(refusal)), "{refusals:?}")
            }
        }
    }
    let required = THING.replace("b = \"Long?\"", "c = \"Long\"").replace("set = { a", "set = { c = \"1\", a");
    let refusals = gate.admit(&pact(&required)).unwrap_err();
    assert!(refusals.iter().any(|r| r.message.contains("its new attribute `c` must be optional")), "{refusals:?}");
    let ignorant = THING.replace("a = \"String\", b = \"Long?\"", "b = \"Long?\"").replace("a = '\"x\"'", "b = \"1\"");
    let refusals = gate.admit(&pact(&ignorant)).unwrap_err();
    assert!(refusals.iter().any(|r| r.message.contains("required attribute `a`")), "{refusals:?}");
}
