//! Problems of a pact, drawn where they are, or as data.

use super::source::PactFile;
use crate::terminal::{Stream, colours, is_printable, note, note_coloured};
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use countersign_core::pact::diagnostic::{Diagnostic, Severity};
use serde_json::{Value, json};

/// Draws every problem of a file on stderr.
pub fn show(file: &PactFile) {
    for problem in &file.problems {
        let plain = draw(file, problem, &Renderer::plain());
        // Colours of the renderer's own would be escaped like those of a text that pretends. They are only trusted around what
        // needs no escaping.
        if colours(Stream::Err) && is_printable(&plain) {
            note_coloured(&draw(file, problem, &Renderer::styled()));
        } else {
            note(plain);
        }
        note("");
    }
}

fn draw(file: &PactFile, problem: &Diagnostic, renderer: &Renderer) -> String {
    let level = match problem.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let snippet = Snippet::source(file.text.as_str())
        .path(file.path.display().to_string())
        .annotation(AnnotationKind::Primary.span(problem.span.clone()));
    let mut group = level.primary_title(problem.message.as_str()).element(snippet);
    if let Some(hint) = &problem.hint {
        group = group.element(Level::HELP.with_name("hint").message(hint.as_str()));
    }
    renderer.render(&[group])
}

/// The problems of a file as data.
pub fn to_json(file: &PactFile) -> Vec<Value> {
    let severity = |problem: &Diagnostic| match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let problems = file.problems.iter().map(|problem| {
        let (line, column) = place(&file.text, problem.span.start);
        json!({"severity": severity(problem), "line": line, "column": column, "message": problem.message,
            "hint": problem.hint})
    });
    problems.collect()
}

/// Line and column in characters, counted from 1.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_in_characters_from_one() {
        assert_eq!(place("", 0), (1, 1));
        assert_eq!(place("é = 1\nb", 3), (1, 3));
        assert_eq!(place("a\nbc", 3), (2, 2));
    }
}
