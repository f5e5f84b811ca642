//! What is wrong with a pact, where, and what to do about it.
//!
//! The loader collects every problem before it gives up, so an author sees all of them at once. A diagnostic points at
//! bytes of the TOML text; drawing lines and carets is for the command line.

use std::fmt;
use std::ops::Range;

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The pact is refused.
    Error,
    /// The pact loads, but probably does not say what its author meant.
    Warning,
}

/// One problem of a pact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// The bytes of the TOML text that it is about.
    pub span: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What to do about it; every error has one.
    pub hint: Option<String>,
}

/// In what a pact does not agree with others of its gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disagreement {
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

impl Disagreement {
    pub(crate) fn new(message: String, hint: impl Into<String>) -> Self {
        Self { message, hint: hint.into() }
    }

    /// All of them in one text.
    pub fn join(all: &[Self]) -> String {
        all.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.hint)
    }
}

/// Problems as they are found, in whatever order the loader meets them.
#[derive(Debug, Default)]
pub(super) struct Problems {
    found: Vec<Diagnostic>,
}

impl Problems {
    /// Notes an error.
    pub(super) fn error(&mut self, span: &Range<usize>, message: impl Into<String>, hint: impl Into<String>) {
        self.note(Severity::Error, span, message.into(), hint.into());
    }

    /// Notes a warning.
    pub(super) fn warning(&mut self, span: &Range<usize>, message: impl Into<String>, hint: impl Into<String>) {
        self.note(Severity::Warning, span, message.into(), hint.into());
    }

    fn note(&mut self, severity: Severity, span: &Range<usize>, message: String, hint: String) {
        self.found.push(Diagnostic { severity, span: span.clone(), message, hint: Some(hint) });
    }

    /// How many errors there are so far; a caller compares two counts to learn whether a part was sound.
    pub(super) fn errors(&self) -> usize {
        self.found.iter().filter(|problem| problem.severity == Severity::Error).count()
    }

    /// All problems in the order of the text, without repetitions, and with spans inside it.
    pub(super) fn into_sorted(mut self, source: &str) -> Vec<Diagnostic> {
        for problem in &mut self.found {
            problem.span = within(source, &problem.span);
        }
        self.found.sort_by(|a, b| {
            let key = |d: &Diagnostic| (d.span.start, d.span.end, d.severity);
            key(a).cmp(&key(b)).then_with(|| a.message.cmp(&b.message))
        });
        self.found.dedup();
        self.found
    }
}

/// Moves a span onto character boundaries inside the text, so that no one who slices by it can fail.
fn within(source: &str, span: &Range<usize>) -> Range<usize> {
    let floor = |mut at: usize| {
        at = at.min(source.len());
        while !source.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let start = floor(span.start);
    start..floor(span.end).max(start)
}

/// The candidate that a mistyped name most likely meant.
pub fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (name.chars().count() / 3).clamp(1, 3);
    candidates
        .into_iter()
        .map(|candidate| (distance(name, candidate, allowed), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, candidate)| candidate)
}

/// "did you mean `x`?", or else what there is to choose from.
pub(super) fn suggestion(name: &str, candidates: &[&str], otherwise: &str) -> String {
    match closest(name, candidates.iter().copied()) {
        Some(candidate) => format!("did you mean `{candidate}`?"),
        None if candidates.is_empty() => otherwise.to_owned(),
        None => format!("{otherwise}: {}", list(candidates)),
    }
}

/// Names for a sentence: `a`, `b`, `c`.
pub(super) fn list(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Edit distance in which a swap of neighbours counts once; anything beyond `allowed` is as good as infinite.
fn distance(a: &str, b: &str, allowed: usize) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > allowed {
        return usize::MAX;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, cb) in b.iter().enumerate() {
            let at = |row: &[usize], at: usize| row.get(at).copied().unwrap_or(usize::MAX / 2);
            let mut best = (at(&last, j) + usize::from(ca != cb)).min(at(&last, j + 1) + 1).min(at(&row, j) + 1);
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(cb) && b.get(j - 1) == Some(ca);
            if swapped {
                best = best.min(at(&before, j - 1) + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_name_is_found_only_when_it_is_close() {
        let names = ["resource", "require", "reads", "allow"];
        assert_eq!(closest("resuorce", names), Some("resource"));
        assert_eq!(closest("requires", names), Some("require"));
        assert_eq!(closest("alow", names), Some("allow"));
        assert_eq!(closest("banana", names), None);
        assert_eq!(closest("", names), None);
    }

    #[test]
    fn spans_end_up_on_character_boundaries() {
        assert_eq!(within("aé", &(2..9)), 1..3);
        assert_eq!(within("", &(5..9)), 0..0);
    }
}
