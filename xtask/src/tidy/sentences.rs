//! Where sentences do not belong: in what a finding quotes, since that is for the words of others (ADR 0014), and hints in messages, since
//! an error has its hint as data.

use super::{Finding, Tree};

const SAYS: [&str; 2] = [".said(", ".and_said("];

/// Looks at what is shipped, up to the tests of each file.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let is_shipped = |path: &str| {
        let of_tests = path.contains("/tests/") || path.ends_with("/tests.rs");
        let is_other = ["bench", "testing"].iter().any(|name| path.starts_with(&format!("crates/countersign-{name}/")));
        path.starts_with("crates/") && path.contains("/src/") && !of_tests && !is_other
    };
    let mut findings = Vec::new();
    for file in tree.with_extension("rs").filter(|file| is_shipped(&file.path)) {
        let shipped = file.text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        for (line, text) in (1..).zip(shipped.lines()) {
            let quoted = SAYS.iter().filter_map(|says| text.split_once(says)).map(|(_, quoted)| quoted);
            if quoted
                .into_iter()
                .any(|quoted| quoted.starts_with(['"', '&']) && quoted.contains('"') || quoted.starts_with("format!"))
            {
                let message = "a finding quotes others only: give the gate's own reason a code in call/found/codes.rs";
                findings.push(Finding::new(&file.path, line, message));
            }
            if text.contains("\\nhint: ") && !text.contains("\\nhint: {")
                || text.contains("(hint: ") && text.contains("#[error")
            {
                let message = "a hint inside a message: make it with `hinted!`, or give the error a `hint()`";
                findings.push(Finding::new(&file.path, line, message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::made_up;
    use super::*;

    #[test]
    fn a_sentence_of_ours_and_a_hint_in_a_message_are_found() {
        let text = "a.said(\"the gate has ended\");\na.and_said(format!(\"{x} ended\"));\na.and_said(error);\n\
                    bail!(\"no\\nhint: yes\");\nwrite!(f, \"\\nhint: {hint}\");\n#[error(\"no (hint: yes)\")]\n\
                    #[cfg(test)]\nmod tests {\n a.said(\"fine\");\n}\n";
        let lines = |path: &str| check(&made_up(&[(path, text)])).iter().map(|it| it.line).collect::<Vec<_>>();
        assert_eq!(lines("crates/countersign/src/a.rs"), [1, 2, 4, 6]);
        assert!(lines("crates/countersign/src/a/tests.rs").is_empty());
    }
}
