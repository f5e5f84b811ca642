//! Checks of Rust sources: size, names, module documentation, leftovers; and of whitespace in everything written by hand.

use super::{File, Finding, Tree};

const LINES_MAX: usize = 600;
const LINES_AIM: usize = 400;

/// The widest line. Wider ones do not fit beside a second file on a laptop.
pub const LINE_CHARS_MAX: usize = 140;

/// Names that say nothing about what lives in a module.
const EMPTY_NAMES: &[&str] = &["utils", "util", "helpers", "helper", "common", "manager"];

/// Macros that must not be committed; written in two parts so that this file does not find itself.
const LEFTOVERS: &[&str] = &[concat!("todo", "!("), concat!("dbg", "!(")];

/// Files written by hand. Golden files may hold whatever the program prints.
const HAND_WRITTEN: &[&str] = &["rs", "md", "toml", "sql", "sh", "py", "yml", "yaml", "js", "css", "html", "cedar"];

/// All findings in sources.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        if HAND_WRITTEN.contains(&file.extension()) {
            trailing_whitespace(file, &mut findings);
        }
        if file.extension() == "rs" {
            size(file, &mut findings);
            names(file, &mut findings);
            lines(file, &mut findings);
            documentation(file, &mut findings);
        }
    }
    findings
}

fn trailing_whitespace(file: &File, findings: &mut Vec<Finding>) {
    for (number, line) in file.lines() {
        if line.ends_with([' ', '\t', '\r']) {
            findings.push(Finding::new(&file.path, number, "whitespace at the end of the line"));
        }
    }
}

fn size(file: &File, findings: &mut Vec<Finding>) {
    let count = file.text.lines().count();
    if count > LINES_MAX {
        let message = format!("{count} lines, the limit is {LINES_MAX}: split it by concept");
        findings.push(Finding::new(&file.path, 0, message));
    } else if count > LINES_AIM {
        let message = format!("{count} lines, aim for {LINES_AIM}");
        findings.push(Finding::warning(&file.path, 0, message));
    }
}

fn names(file: &File, findings: &mut Vec<Finding>) {
    if file.name() == "mod.rs" {
        findings.push(Finding::new(&file.path, 0, "write foo.rs beside foo/, not foo/mod.rs"));
    }
    for part in file.path.split('/') {
        let stem = part.strip_suffix(".rs").unwrap_or(part);
        if EMPTY_NAMES.contains(&stem) {
            let message = format!("{stem:?} does not say what lives here: name the concept");
            findings.push(Finding::new(&file.path, 0, message));
        }
    }
    for (number, line) in file.lines() {
        if let Some(name) = declared_module(line).filter(|name| EMPTY_NAMES.contains(name)) {
            let message = format!("a module named {name:?} does not say what lives there: name the concept");
            findings.push(Finding::new(&file.path, number, message));
        }
    }
}

/// The name in a line such as `pub(crate) mod name {`.
fn declared_module(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let first = words.next()?;
    let declares = if first.starts_with("pub") { words.next()? } else { first };
    let name = words.next().filter(|_| declares == "mod")?;
    Some(name.trim_end_matches([';', '{']))
}

fn lines(file: &File, findings: &mut Vec<Finding>) {
    for (number, line) in file.lines() {
        let chars = line.chars().count();
        if chars > LINE_CHARS_MAX {
            let message = format!("{chars} characters, the limit is {LINE_CHARS_MAX}");
            findings.push(Finding::new(&file.path, number, message));
        }
        for leftover in LEFTOVERS.iter().filter(|leftover| line.contains(**leftover)) {
            findings.push(Finding::new(&file.path, number, format!("{leftover}…) was left in")));
        }
    }
}

fn documentation(file: &File, findings: &mut Vec<Finding>) {
    let mut parts = file.path.split('/');
    let shipped = parts.next() == Some("crates") && parts.nth(1) == Some("src");
    if shipped && !file.text.starts_with("//!") {
        let message = "must open with //! saying what it is for, what it must not do, which invariants it holds";
        findings.push(Finding::new(&file.path, 1, message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::made_up;

    fn messages(path: &str, text: &str) -> Vec<String> {
        check(&made_up(&[(path, text)])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_good_file_passes() {
        assert_eq!(messages("crates/x/src/fact.rs", "//! Facts.\nmod version;\n"), Vec::<String>::new());
    }

    #[test]
    fn size_has_an_aim_and_a_limit() {
        let of = |lines: usize| messages("xtask/src/a.rs", &"//\n".repeat(lines));
        assert_eq!(of(400), Vec::<String>::new());
        assert!(of(401)[0].starts_with("warning: "));
        assert!(of(600)[0].starts_with("warning: "));
        assert!(of(601)[0].starts_with("error: "));
    }

    #[test]
    fn names_must_say_something() {
        assert_eq!(messages("crates/x/tests/common.rs", "").len(), 1);
        assert_eq!(messages("crates/x/tests/helpers/pact.rs", "").len(), 1);
        assert_eq!(messages("crates/x/tests/pact/mod.rs", "").len(), 1);
        assert_eq!(messages("crates/x/tests/a.rs", "pub(crate) mod utils {\n}\n").len(), 1);
        assert_eq!(messages("crates/x/tests/a.rs", "mod manager;\n").len(), 1);
        assert_eq!(messages("crates/x/tests/a.rs", "mod uncommon;\n").len(), 0);
    }

    #[test]
    fn leftovers_wide_lines_and_whitespace_are_found() {
        assert_eq!(messages("a.rs", &format!("{});\n", LEFTOVERS[0])).len(), 1);
        assert_eq!(messages("a.rs", &"é".repeat(140)).len(), 0);
        assert_eq!(messages("a.rs", &"é".repeat(141)).len(), 1);
        assert_eq!(messages("a.sql", "select 1; \n").len(), 1);
        assert_eq!(messages("a.snap", "whatever \n").len(), 0);
    }

    #[test]
    fn shipped_modules_open_with_documentation() {
        assert_eq!(messages("crates/x/src/a.rs", "use std::fmt;\n").len(), 1);
        assert_eq!(messages("crates/x/tests/a.rs", "use std::fmt;\n").len(), 0);
    }
}
