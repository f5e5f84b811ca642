//! Every stable code has a page in `docs/codes/`, and every page a code.
//!
//! A code is what an agent or an operator searches for at three in the morning; a code without a page, or a page for a
//! code that no longer exists, is a broken promise. Codes are the string literals of `=> "…"` arms in the files below.

use std::collections::BTreeMap;

use super::{File, Finding, Tree};

/// Where codes are declared: verdict codes, and error codes of the HTTP interface.
const DECLARED_IN: &[&str] = &["crates/countersign-core/src/code.rs", "crates/countersign-api/src/error.rs"];

const PAGES: &str = "docs/codes/";

/// All findings about codes and pages.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let sources: Vec<&File> = DECLARED_IN.iter().filter_map(|path| tree.file(path)).collect();
    if sources.is_empty() {
        return Vec::new();
    }
    let codes: BTreeMap<&str, (&File, usize)> =
        sources.iter().flat_map(|file| declared(file).map(move |(line, code)| (code, (*file, line)))).collect();
    let pages: BTreeMap<&str, &File> = tree.with_extension("md").filter_map(|file| Some((page(file)?, file))).collect();

    let mut findings = Vec::new();
    for (code, (file, line)) in &codes {
        if !pages.contains_key(code) {
            findings.push(Finding::new(&file.path, *line, format!("the code {code:?} has no page {PAGES}{code}.md")));
        }
    }
    for (name, file) in &pages {
        if !codes.contains_key(name) {
            let message = format!("no code {name:?} is declared in {}", DECLARED_IN.join(" or "));
            findings.push(Finding::new(&file.path, 0, message));
        }
    }
    findings
}

/// The codes of a file, with their lines. What comes after the tests begin is not a declaration.
fn declared(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let shipped = file.lines().take_while(|(_, line)| !line.starts_with("#[cfg(test)]"));
    shipped.filter_map(|(number, line)| {
        let (_, literal) = line.split_once("=> \"")?;
        let (code, _) = literal.split_once('"')?;
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        (!code.is_empty() && code.chars().all(plain)).then_some((number, code))
    })
}

fn page(file: &File) -> Option<&str> {
    let name = file.path.strip_prefix(PAGES)?.strip_suffix(".md")?;
    (name != "README").then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::made_up;

    const CODE: &str =
        "match self {\n    Code::A => \"fact_missing\",\n    Code::B => \"a sentence, not a code\",\n}\n";

    #[test]
    fn codes_and_pages_that_match_pass() {
        let tree = made_up(&[(DECLARED_IN[0], CODE), ("docs/codes/fact_missing.md", ""), ("docs/codes/README.md", "")]);
        assert_eq!(check(&tree), Vec::new());
    }

    #[test]
    fn a_code_without_a_page_and_a_page_without_a_code_are_found() {
        let tree = made_up(&[(DECLARED_IN[0], CODE), ("docs/codes/other.md", "")]);
        let found: Vec<_> = check(&tree).into_iter().map(|finding| (finding.path, finding.line)).collect();
        assert_eq!(found, vec![(DECLARED_IN[0].to_owned(), 2), ("docs/codes/other.md".to_owned(), 0)]);
    }

    #[test]
    fn nothing_is_asked_before_codes_exist() {
        assert_eq!(check(&made_up(&[("docs/codes/other.md", "")])), Vec::new());
    }
}
