//! Checks of documents: line width, links inside the repository, and the numbers of decision records.

use super::source::LINE_CHARS_MAX;
use super::{File, Finding, Tree};

const DECISIONS: &str = "docs/adr/";

/// All findings in documents.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.with_extension("md") {
        for (number, line) in prose(file) {
            width(file, number, line, &mut findings);
            for target in link_targets(line) {
                if let Some(path) = resolve(&file.path, target).filter(|path| !tree.holds(path)) {
                    let message = format!("the link {target:?} leads to {path:?}, which is not there");
                    findings.push(Finding::new(&file.path, number, message));
                }
            }
        }
    }
    decisions(tree, &mut findings);
    findings
}

/// The lines outside fenced code, which may be as wide as what it shows.
fn prose(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    file.lines().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// Tables and lines that hold a link cannot always be broken, so they may be wider.
fn width(file: &File, number: usize, line: &str, findings: &mut Vec<Finding>) {
    let chars = line.chars().count();
    let breakable = !line.trim_start().starts_with('|') && !line.contains("](") && !line.contains("://");
    if chars > LINE_CHARS_MAX && breakable {
        let message = format!("{chars} characters, the limit is {LINE_CHARS_MAX}");
        findings.push(Finding::new(&file.path, number, message));
    }
}

/// The targets of `[text](target)`, `![text](target)` and `[name]: target` in a line, without those inside inline code.
fn link_targets(line: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    for part in line.split('`').step_by(2) {
        for (at, opening) in part.match_indices("](") {
            let rest = part.get(at + opening.len()..).unwrap_or_default();
            let target = rest.split([')', ' ']).next().unwrap_or_default();
            targets.push(target.trim_matches(['<', '>']));
        }
    }
    let reference = line.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]: "));
    targets.extend(reference.and_then(|(_, target)| target.split_whitespace().next()));
    targets
}

/// The path from the root that a link in a file means; nothing for other sites and for places in the same file.
fn resolve(from: &str, target: &str) -> Option<String> {
    let path = target.split(['#', '?']).next().unwrap_or_default();
    if path.is_empty() || target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = if path.starts_with('/') { Vec::new() } else { folder.split('/').collect() };
    for part in path.split('/') {
        match part {
            ".." if parts.iter().all(|part| part.is_empty()) => return Some(path.to_owned()),
            ".." => {
                parts.pop();
            }
            "" | "." => {}
            part => parts.push(part),
        }
    }
    parts.retain(|part| !part.is_empty());
    Some(parts.join("/"))
}

/// Decision records are numbered 0001, 0002, … without a gap, so that a missing one is noticed.
fn decisions(tree: &Tree, findings: &mut Vec<Finding>) {
    let records = tree.with_extension("md").filter_map(|file| {
        let name = file.path.strip_prefix(DECISIONS).filter(|name| !name.contains('/') && *name != "README.md")?;
        Some((file, name))
    });
    let mut expected = 1;
    let mut records: Vec<_> = records.collect();
    records.sort_by_key(|(_, name)| *name);
    for (file, name) in records {
        let number = name.split_once('-').map(|(digits, _)| digits).filter(|digits| digits.len() == 4);
        match number.and_then(|digits| digits.parse::<u32>().ok()) {
            Some(number) if number == expected => {}
            Some(number) => {
                let message =
                    format!("decision {number:04} where {expected:04} should be: numbers have no gap and no double");
                findings.push(Finding::new(&file.path, 0, message));
                expected = number;
            }
            None => {
                findings.push(Finding::new(&file.path, 0, "a decision record is named NNNN-what-was-decided.md"));
                continue;
            }
        }
        expected += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::made_up;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(&made_up(files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_are_followed_from_the_file_that_holds_them() {
        let guide =
            "[a](../architecture.md#parts) ![b](./p.svg) [c](https://example.com/x.md) [d](#here) [e](/README.md)\n";
        let tree = [
            ("docs/guides/first.md", guide),
            ("docs/architecture.md", ""),
            ("docs/guides/p.svg", ""),
            ("README.md", ""),
        ];
        assert_eq!(found(&tree), Vec::<String>::new());
        assert_eq!(found(&tree[..1]).len(), 3);
    }

    #[test]
    fn links_in_code_do_not_count_and_folders_and_references_do() {
        assert_eq!(found(&[("a.md", "`[a](no.md)`\n```\n[b](no.md)\n```\n")]), Vec::<String>::new());
        assert_eq!(found(&[("a.md", "[docs](docs/)\n"), ("docs/x.md", "")]), Vec::<String>::new());
        assert_eq!(found(&[("a.md", "[name]: gone.md\n")]).len(), 1);
        assert_eq!(found(&[("a.md", "[out](../../etc/passwd)\n")]).len(), 1);
    }

    #[test]
    fn wide_prose_is_found_and_wide_tables_are_not() {
        let wide = "x".repeat(141);
        assert_eq!(found(&[("a.md", &wide)]).len(), 1);
        assert_eq!(found(&[("a.md", &format!("| {wide} |"))]), Vec::<String>::new());
        assert_eq!(found(&[("a.md", &format!("```\n{wide}\n```\n"))]), Vec::<String>::new());
    }

    #[test]
    fn decisions_are_numbered_without_gaps() {
        let good = [("docs/adr/README.md", ""), ("docs/adr/0001-a.md", ""), ("docs/adr/0002-b.md", "")];
        assert_eq!(found(&good), Vec::<String>::new());
        assert_eq!(found(&[("docs/adr/0002-b.md", "")]).len(), 1);
        assert_eq!(found(&[("docs/adr/0001-a.md", ""), ("docs/adr/0001-b.md", "")]).len(), 1);
        assert_eq!(found(&[("docs/adr/1-a.md", "")]).len(), 1);
    }
}
