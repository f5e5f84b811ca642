//! A source file that no other declares is compiled by no one, and its tests never run. Cargo used to find every file in `tests` by itself;
//! with one test binary per crate, `tests/all.rs` lists them, and this check keeps the list whole.

use super::{File, Finding, Tree};

/// The files of a folder that cargo starts from.
const ROOTS: &[&str] = &["lib.rs", "main.rs", "all.rs"];

/// All files that are declared nowhere.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let orphans = tree.with_extension("rs").filter(|file| is_orphan(tree, file));
    orphans.map(|file| Finding::new(&file.path, 0, "no module declares this file: it is never compiled")).collect()
}

fn is_orphan(tree: &Tree, file: &File) -> bool {
    let mut parts = file.path.split('/');
    if parts.next() != Some("crates") || !matches!(parts.nth(1), Some("src" | "tests")) {
        return false;
    }
    let Some((folder, name)) = file.path.rsplit_once('/') else { return false };
    if folder.ends_with("/bin") || ROOTS.contains(&name) {
        return false;
    }
    // A crate whose tests have no root leaves it to cargo to find them.
    let declares_itself = folder.ends_with("/tests") && !tree.holds(&format!("{folder}/all.rs"));
    let roots = ROOTS.iter().map(|root| format!("{folder}/{root}"));
    let mut parents = roots.chain([format!("{folder}.rs")]).filter_map(|path| tree.file(&path));
    let declared = format!("mod {};", name.trim_end_matches(".rs"));
    let declares = |parent: &File| parent.lines().any(|(_, line)| line.ends_with(&declared));
    !declares_itself && !parents.any(declares)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::made_up;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(&made_up(files)).into_iter().map(|finding| finding.path).collect()
    }

    #[test]
    fn a_file_that_nothing_declares_is_found() {
        let files = [
            ("crates/a/src/lib.rs", "pub mod shop;\n"),
            ("crates/a/src/shop.rs", "#[cfg(test)]\nmod tests;\n"),
            ("crates/a/src/shop/tests.rs", ""),
            ("crates/a/src/shop/till.rs", ""),
            ("crates/a/src/bin/tool.rs", ""),
            ("crates/a/tests/all.rs", "mod buying;\n"),
            ("crates/a/tests/buying.rs", ""),
            ("crates/a/tests/selling.rs", ""),
        ];
        assert_eq!(found(&files), ["crates/a/src/shop/till.rs", "crates/a/tests/selling.rs"]);
    }

    #[test]
    fn without_a_root_cargo_finds_the_tests_itself() {
        let files = [("crates/a/tests/golden.rs", ""), ("crates/a/tests/log/main.rs", "mod notes;\n")];
        assert_eq!(found(&files), Vec::<String>::new());
        assert_eq!(found(&[files[1], ("crates/a/tests/log/bills.rs", "")]), ["crates/a/tests/log/bills.rs"]);
    }
}
