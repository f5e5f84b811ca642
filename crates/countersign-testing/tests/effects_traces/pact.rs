//! The pact that means the same as a configuration of the model.

use countersign_testing::model::{Config, Fact, Spec};

/// How long a call cools. The clock stands still unless a step moves it, so these only have to differ enough.
pub const COOLING_MS: u64 = 100;
/// How long after an attempt *absent* counts.
pub const ABSENT_AFTER_MS: u64 = 1;
/// How long a claim stands.
pub const CLAIM_MS: u64 = 5_000;
/// How long an action waits.
pub const WAIT_MS: u64 = 60_000;

/// The id of a fact.
pub fn fact_id(fact: Fact) -> String {
    format!("Thing::\"{fact:?}\"")
}

/// The text of the pact.
pub fn pact(config: &Config) -> String {
    let mut text = String::from(
        "pact = \"model\"\nversion = 1\n\n[facts.Thing]\nattributes = { open = \"Bool\" }\n\n\
         [observe.Thing]\nwho = 'true'\nattributes = \"*\"\n",
    );
    for (number, claim) in config.claims.iter().enumerate() {
        text += &format!(
            "\n[[claim.Thing]]\nwho = 'principal.roles.contains(\"claims-{number}\")'\nmax = \"{CLAIM_MS}ms\"\n\
             priority = {}\n",
            claim.priority
        );
    }
    for (number, spec) in config.actions.iter().enumerate() {
        text += &action(number, spec);
    }
    text
}

fn action(number: usize, spec: &Spec) -> String {
    let reads: Vec<Fact> = Fact::ALL.into_iter().filter(|fact| spec.reads[*fact as usize]).collect();
    let names = ["resource", "context.other"];
    let mut text = format!("\n[action.act{number}]\nresource = '{}'\nallow = 'true'\n", fact_id(reads[0]));
    if let Some(other) = reads.get(1) {
        text += &format!("reads.other = '{}'\n", fact_id(*other));
    }
    if let Some((fact, open)) = spec.sets {
        let attribute = if fact == reads[0] { "open" } else { "other.open" };
        text += &format!("set.{attribute} = '{open}'\n");
    }
    if spec.waits {
        text += &format!("wait = \"{WAIT_MS}ms\"\n");
    }
    if spec.call {
        let after = if spec.cooling { COOLING_MS } else { 0 };
        text +=
            &format!("call = {{ http = \"outside\", path = \"/{number}\", after = \"{after}ms\", deadline = \"1d\"");
        if spec.idempotent {
            text += &format!(", idempotent = true, retries = {}", spec.attempts - 1);
        }
        if spec.probe {
            text += &format!(", probe = {{ path = \"/{number}\", absent_after = \"{ABSENT_AFTER_MS}ms\" }}");
        }
        text += " }\n";
    }
    text += &format!("\n[action.act{number}.params]\ntype = \"object\"\nadditionalProperties = false\n");
    for (name, _) in names.iter().zip(&reads) {
        let id = name.replace("context.", "");
        text += &format!("\n[[action.act{number}.require]]\nid = \"{id}-is-open\"\nthat = '{name}.open'\n");
    }
    text
}
