//! Words that must not be anywhere in the tree: paths of one machine, hosts of package registries, work without an owner.
//!
//! The words are written in two parts here so that this file does not find itself.

use super::{File, Finding, Tree};

/// Folders that exist on one machine only.
const MACHINE_PATHS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

/// Where packages are fetched from is the business of each machine's configuration.
const REGISTRY_HOSTS: &[&str] = &[
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("python", "hosted.org"),
    concat!("npmjs", ".org"),
    concat!("npmjs", ".com"),
    concat!("deb.", "debian.org"),
    concat!("docker", ".io"),
];

const UNFINISHED: &str = concat!("TO", "DO");

/// Cargo writes the name of its public index into every entry, and accepts no other way to say it.
const LOCK: &str = "Cargo.lock";

/// All findings of forbidden words.
pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.files.iter().filter(|file| file.name() != LOCK).flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        for path in MACHINE_PATHS.iter().filter(|path| holds_path(line, path)) {
            let message = format!("{path} is a path of one machine: write it relative to the repository");
            findings.push(Finding::new(&file.path, number, message));
        }
        for host in REGISTRY_HOSTS.iter().filter(|host| line.contains(**host)) {
            findings.push(Finding::new(&file.path, number, format!("{host} is the host of a package registry")));
        }
        if line.match_indices(UNFINISHED).any(|(at, word)| !is_owned(line, at, word)) {
            let message = format!("{UNFINISHED} without an owner: write {UNFINISHED}(name), or do it");
            findings.push(Finding::new(&file.path, number, message));
        }
    }
    findings
}

/// Whether an absolute path occurs; after a letter, digit or dot it is the middle of a longer one, or of an address.
fn holds_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '~' | '}' | '*'))
    })
}

fn is_owned(line: &str, at: usize, word: &str) -> bool {
    let rest = line.get(at + word.len()..).unwrap_or_default();
    let owner = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    owner.is_some_and(|(name, _)| !name.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::made_up;

    fn found(path: &str, text: &str) -> usize {
        check(&made_up(&[(path, text)])).len()
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        let path = MACHINE_PATHS[0];
        assert_eq!(found("a.md", &format!("see {path}main")), 1);
        assert_eq!(found("a.rs", &format!("include!(\"{path}x\")")), 1);
        assert_eq!(found("a.md", &format!("https://example.com{path}x and docs{path}y")), 0);
    }

    #[test]
    fn registry_hosts_are_found_except_where_cargo_writes_them() {
        assert_eq!(found("a.toml", REGISTRY_HOSTS[0]), 1);
        assert_eq!(found("Cargo.lock", REGISTRY_HOSTS[0]), 0);
    }

    #[test]
    fn unfinished_work_needs_an_owner() {
        assert_eq!(found("a.rs", &format!("// {UNFINISHED}: later")), 1);
        assert_eq!(found("a.rs", &format!("// {UNFINISHED}( ): later")), 1);
        assert_eq!(found("a.rs", &format!("// {UNFINISHED}(ada): later")), 0);
    }
}
