//! Features that disable controls are for tests. None is on unless it is asked for, and none compiles in a release build.

use toml::{Table, Value};

use super::{Finding, Tree};

/// The feature that lets a gate do without a control.
const SABOTAGE: &str = "sabotage";

/// What keeps it out of release builds.
const REFUSAL: &str = "#[cfg(not(debug_assertions))]\ncompile_error!(";

/// The module that has it.
const MODULE: &str = "crates/countersign-engine/src/sabotage.rs";

/// All manifests that turn it on, and its module where it would compile in a release build.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let manifests = tree.files.iter().filter(|file| file.name() == "Cargo.toml");
    let on = manifests.filter(|file| file.text.parse().is_ok_and(|manifest: Table| turns_it_on(&manifest)));
    let message = format!("turns `{SABOTAGE}` on for everyone who builds it");
    let mut findings: Vec<Finding> = on.map(|file| Finding::new(&file.path, 0, &message)).collect();
    if let Some(module) = tree.file(MODULE).filter(|module| !module.text.contains(REFUSAL)) {
        findings.push(Finding::new(&module.path, 0, "must not compile in a release build: the refusal is missing"));
    }
    findings
}

/// By a feature other than itself, or by a dependency on what has it.
fn turns_it_on(manifest: &Table) -> bool {
    let features = manifest.get("features").and_then(Value::as_table).into_iter().flatten();
    let others = features.filter(|(name, _)| *name != SABOTAGE).any(|(_, on)| on.to_string().contains(SABOTAGE));
    let rest = manifest.iter().filter(|(key, _)| *key != "features");
    others || rest.into_iter().any(|(_, value)| value.to_string().contains(SABOTAGE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::made_up;

    fn found(manifest: &str) -> usize {
        check(&made_up(&[("crates/a/Cargo.toml", manifest)])).len()
    }

    #[test]
    fn it_is_off_unless_asked_for() {
        assert_eq!(found("[features]\nsabotage = [\"b/sabotage\"]\n"), 0);
        assert_eq!(found("[features]\ndefault = [\"sabotage\"]\nsabotage = []\n"), 1);
        assert_eq!(found("[features]\nmore = [\"b/sabotage\"]\n"), 1);
        assert_eq!(found("[dependencies]\nb = { version = \"1\", features = [\"sabotage\"] }\n"), 1);
        assert_eq!(found("[dependencies]\nb.workspace = true\n"), 0);
    }

    #[test]
    fn it_does_not_compile_in_a_release_build() {
        let with = |text: &str| check(&made_up(&[(MODULE, text)])).len();
        assert_eq!(with("#[cfg(not(debug_assertions))]\ncompile_error!(\"for tests\");\n"), 0);
        assert_eq!(with("pub enum Control {}\n"), 1);
    }
}
