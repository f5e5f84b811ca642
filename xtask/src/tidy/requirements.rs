//! docs/requirements.md is made from rows: an edit by hand would be lost the next time it is made.

use super::{Finding, Tree};
use crate::requirements::{DOCUMENT, ROWS, document};

/// Whether the document is what its rows say.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let Some(rows) = tree.file(ROWS) else { return Vec::new() };
    let written = tree.file(DOCUMENT).map(|file| file.text.as_str()).unwrap_or_default();
    match document(&rows.text) {
        Err(error) => vec![Finding::new(ROWS, 0, format!("{error:#}"))],
        Ok(made) if made == written => Vec::new(),
        Ok(made) => {
            let differs = |(made, written): (&str, &str)| made != written;
            let line = made.lines().zip(written.lines()).position(differs).map_or(0, |line| line + 1);
            vec![Finding::new(DOCUMENT, line, format!("is not what {ROWS} says: run `cargo xtask requirements`"))]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::made_up;

    const SOME: &str = "title = 'T'\nintro = 'I'\n[[section]]\ntitle = 'S'\nasks = 'a'\nshown = 's'\nrow = []\n";

    #[test]
    fn a_document_that_was_edited_is_found() {
        let made = document(SOME).unwrap();
        assert_eq!(check(&made_up(&[(ROWS, SOME), (DOCUMENT, &made)])), []);
        let found = check(&made_up(&[(ROWS, SOME), (DOCUMENT, &made.replace('I', "J"))]));
        assert_eq!(found.iter().map(|found| found.line).collect::<Vec<_>>(), [3]);
        assert_eq!(check(&made_up(&[(ROWS, "title = 3"), (DOCUMENT, &made)])).len(), 1);
    }
}
