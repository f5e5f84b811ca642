//! Documents that claim something cite the test or the file that shows it. A test that was renamed, or never written, would leave the
//! claim without proof, so every name is looked up.

use std::collections::BTreeSet;

use super::{File, Finding, Tree};

/// The documents whose citations count.
const CITING: &[&str] = &["docs/requirements.md", "docs/threat-model.md", "docs/architecture.md"];

/// What a cited file can end in.
const FILES: &[&str] = &[".rs", ".py", ".mjs", ".toml"];

/// Names of tests have at least so many words; shorter ones in the same form are fields and codes.
const TEST_WORDS_MIN: usize = 4;

/// All citations of tests and files that are not there.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let tests = tests(tree);
    let mut findings = Vec::new();
    for file in CITING.iter().filter_map(|path| tree.file(path)) {
        for (number, line) in file.lines() {
            for word in line.split('`').skip(1).step_by(2) {
                if let Some(message) = missing(tree, &tests, word) {
                    findings.push(Finding::new(&file.path, number, message));
                }
            }
        }
    }
    findings
}

fn missing(tree: &Tree, tests: &BTreeSet<&str>, word: &str) -> Option<String> {
    if FILES.iter().any(|ending| word.ends_with(ending)) && !word.contains([' ', '*']) {
        let is_there = tree.paths.iter().any(|path| path == word || path.ends_with(&format!("/{word}")));
        return (!is_there).then(|| format!("cites the file `{word}`, which is not there"));
    }
    if let Some(folder) = word.strip_suffix('/').or_else(|| word.starts_with("tests/").then_some(word)) {
        let is_there = tree.paths.iter().any(|path| path == folder || path.ends_with(&format!("/{folder}")));
        return (!is_there).then(|| format!("cites `{word}`, which is not there"));
    }
    let is_name = word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if !is_name || word.split('_').count() < TEST_WORDS_MIN || tests.contains(word) {
        return None;
    }
    Some(format!("cites the test `{word}`, and there is no such test"))
}

/// Every function marked as a test, in Rust and in Python. A property of `proptest!` is a function with a mark too.
fn tests(tree: &Tree) -> BTreeSet<&str> {
    let rust = tree.with_extension("rs").flat_map(marked);
    let python = tree.with_extension("py").flat_map(|file| {
        let names = file.lines().filter_map(|(_, line)| name(line, "def ").or_else(|| name(line, "async def ")));
        names.filter(|name| name.starts_with("test_")).collect::<Vec<_>>()
    });
    rust.chain(python).collect()
}

fn marked(file: &File) -> Vec<&str> {
    let mut is_marked = false;
    let mut found = Vec::new();
    for (_, line) in file.lines() {
        let line = line.trim_start();
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_marked = true;
        } else if let Some(name) = name(line, "fn ").or_else(|| name(line, "async fn ")) {
            if is_marked {
                found.push(name);
            }
            is_marked = false;
        }
    }
    found
}

fn name<'a>(line: &'a str, keyword: &str) -> Option<&'a str> {
    let rest = line.trim_start().strip_prefix(keyword)?;
    rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::made_up;

    const TESTS: &str = "#[test]\nfn a_test_that_is_there() {}\n\nfn a_function_that_no_one_runs() {}\n";

    fn found(document: &str) -> Vec<String> {
        let tree = made_up(&[
            ("docs/requirements.md", document),
            ("crates/a/tests/race/grants.rs", TESTS),
            ("interop/test_signatures.py", "def test_it_signs_as_others_do():\n"),
        ]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_there_may_be_cited() {
        let cited = "`a_test_that_is_there`, `tests/race/grants.rs`, `grants.rs`, `tests/race`, `interop/test_signatures.py`, \
                     `test_it_signs_as_others_do`, `stale_after`, `GET /v1/facts`\n";
        assert_eq!(found(cited), Vec::<String>::new());
    }

    #[test]
    fn what_is_not_there_is_found() {
        for cited in ["`a_test_that_was_never_written`", "`a_function_that_no_one_runs`", "`gone.rs`", "`tests/gone`"] {
            assert_eq!(found(cited).len(), 1, "{cited}");
        }
    }
}
