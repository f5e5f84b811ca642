//! Which crate may depend on which.
//!
//! The purity of `decide` (I1, I3) and of the log mathematics (I7) rests on these crates being unable to reach a clock, a
//! disk or a network; the manifest is where that would first go wrong.

use toml::{Table, Value};

use super::{File, Finding, Tree};

/// What a crate may use of ours in what it ships.
const ALLOWED: &[(&str, &[&str])] = &[
    ("countersign-core", &[]),
    ("countersign-ledger", &[]),
    ("countersign-api", &[]),
    ("countersign-signature", &["countersign-core"]),
    ("countersign-engine", &["countersign-core", "countersign-ledger", "countersign-signature"]),
    (
        "countersign",
        &["countersign-core", "countersign-ledger", "countersign-signature", "countersign-engine", "countersign-api"],
    ),
    (
        "countersign-testing",
        &["countersign-core", "countersign-ledger", "countersign-signature", "countersign-engine", "countersign-api"],
    ),
    (
        "countersign-bench",
        &[
            "countersign",
            "countersign-core",
            "countersign-ledger",
            "countersign-signature",
            "countersign-engine",
            "countersign-testing",
        ],
    ),
    (
        "xtask",
        &["countersign-core", "countersign-ledger", "countersign-engine", "countersign-api", "countersign-testing"],
    ),
];

/// What the core must not reach: an executor or randomness.
const NOT_IN_CORE: &[&str] = &["tokio", "rand", "getrandom", "fastrand", "async-std"];

/// All findings in manifests.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let manifests = tree.files.iter().filter(|file| {
        let parts: Vec<&str> = file.path.split('/').collect();
        matches!(parts.as_slice(), ["crates", _, "Cargo.toml"] | ["xtask", "Cargo.toml"])
    });
    manifests.flat_map(check_manifest).collect()
}

fn check_manifest(file: &File) -> Vec<Finding> {
    let manifest: Table = match file.text.parse() {
        Ok(manifest) => manifest,
        Err(error) => {
            return vec![Finding::new(&file.path, 0, format!("cannot be read: {error}"))];
        }
    };
    let name = manifest.get("package").and_then(|package| package.get("name")).and_then(Value::as_str);
    let Some((name, allowed)) = ALLOWED.iter().find(|(known, _)| Some(*known) == name) else {
        let message =
            format!("the crate {name:?} has no place in the dependency rules: a new crate needs a decision record");
        return vec![Finding::new(&file.path, 0, message)];
    };
    let mut findings = Vec::new();
    for dependency in shipped_dependencies(&manifest) {
        if dependency.starts_with("countersign") && !allowed.contains(&dependency.as_str()) {
            let message = format!("{name} must not depend on {dependency}");
            findings.push(Finding::new(&file.path, 0, message));
        }
        let impure = NOT_IN_CORE.iter().any(|word| is_or_belongs_to(&dependency, word));
        if *name == "countersign-core" && impure {
            let message = format!("the core is pure: {dependency} has no place in it");
            findings.push(Finding::new(&file.path, 0, message));
        }
    }
    findings
}

/// Whether a package is the named one or one of its family, such as `tokio-util` and `rand_core`.
fn is_or_belongs_to(package: &str, family: &str) -> bool {
    package.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']))
}

/// The packages in `dependencies` and `build-dependencies`, for every target. Tests may use what they like.
fn shipped_dependencies(manifest: &Table) -> Vec<String> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let per_target = targets.into_iter().flat_map(|targets| targets.values().filter_map(Value::as_table));
    let mut packages = Vec::new();
    for table in std::iter::once(manifest).chain(per_target) {
        for kind in ["dependencies", "build-dependencies"] {
            for (name, details) in table.get(kind).and_then(Value::as_table).into_iter().flatten() {
                let renamed = details.get("package").and_then(Value::as_str);
                packages.push(renamed.unwrap_or(name).to_owned());
            }
        }
    }
    packages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::made_up;

    fn found(name: &str, rest: &str) -> usize {
        let path = format!("crates/{name}/Cargo.toml");
        check(&made_up(&[(&path, &format!("[package]\nname = \"{name}\"\n{rest}"))])).len()
    }

    #[test]
    fn the_arrows_point_one_way() {
        assert_eq!(found("countersign-engine", "[dependencies]\ncountersign-core.workspace = true\n"), 0);
        assert_eq!(found("countersign-core", "[dependencies]\ncountersign-ledger.workspace = true\n"), 1);
        assert_eq!(found("countersign-engine", "[dependencies]\ncountersign-api.workspace = true\n"), 1);
        assert_eq!(found("countersign-api", "[build-dependencies]\ncountersign-core.workspace = true\n"), 1);
        assert_eq!(
            found("countersign-api", "[target.'cfg(unix)'.dependencies]\ncountersign-core.workspace = true\n"),
            1
        );
    }

    #[test]
    fn the_testing_crate_is_for_tests() {
        assert_eq!(found("countersign", "[dev-dependencies]\ncountersign-testing.workspace = true\n"), 0);
        assert_eq!(found("countersign", "[dependencies]\ncountersign-testing.workspace = true\n"), 1);
    }

    #[test]
    fn the_core_reaches_no_executor_and_no_randomness() {
        for package in ["tokio", "tokio-util", "rand", "rand_chacha", "getrandom"] {
            assert_eq!(found("countersign-core", &format!("[dependencies]\n{package} = \"1\"\n")), 1, "{package}");
        }
        assert_eq!(found("countersign-core", "[dependencies]\nchance = { package = \"rand\", version = \"1\" }\n"), 1);
        assert_eq!(found("countersign-core", "[dependencies]\nrandom-access = \"1\"\n"), 0);
    }

    #[test]
    fn a_seventh_crate_needs_a_place() {
        assert_eq!(found("countersign-more", ""), 1);
    }
}
