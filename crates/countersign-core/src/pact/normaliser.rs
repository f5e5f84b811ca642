//! Normalisers of what ids are built from: `{path|normal}`, `{mail|lower}`.
//!
//! Two spellings of one thing must be one fact: one version to compare, one fence, one name in the ledger. So a value is normalised
//! before the id is made of it, and the id is all that anything else sees. `vectors/normalisers.json` has examples of each.

use crate::reason::SpellingProblem;
use smol_str::SmolStr;
use std::borrow::Cow;
use unicode_normalization::{UnicodeNormalization as _, is_nfc};

/// One way to normalise a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normaliser {
    /// Unicode normal form C.
    Nfc,
    /// Lower case, each character by itself, in normal form C.
    Lower,
    /// A path without `.`, `..` and empty segments, in normal form C.
    Path,
}

impl Normaliser {
    /// Every one of them, by the name it has in templates.
    pub const ALL: [(&str, Self); 3] = [("lower", Self::Lower), ("nfc", Self::Nfc), ("normal", Self::Path)];

    /// Its name in templates.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, one)| *one == self).map_or("", |(name, _)| *name)
    }

    /// The one spelling of a value, or why it has none.
    pub fn apply(self, text: &str) -> Result<Cow<'_, str>, SpellingProblem> {
        match self {
            Self::Nfc => Ok(nfc(text)),
            // Lower case of what is composed may be decomposed, as that of U+0130 is.
            Self::Lower if text.is_ascii() => Ok(text.to_ascii_lowercase().into()),
            Self::Lower => {
                let lower: String = nfc(text).chars().flat_map(char::to_lowercase).collect();
                Ok(nfc(&lower).into_owned().into())
            }
            Self::Path => path(&nfc(text)).map(Cow::from),
        }
    }

    /// The one spelling by several, one after the other.
    pub(crate) fn apply_all(all: &[Self], text: &str) -> Result<SmolStr, SpellingProblem> {
        let mut text = Cow::Borrowed(text);
        for normaliser in all {
            text = normaliser.apply(&text)?.into_owned().into();
        }
        Ok(SmolStr::new(text))
    }
}

fn nfc(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || is_nfc(text) { text.into() } else { text.nfc().collect::<String>().into() }
}

/// Segments are what is between slashes. A path that begins with one is another than the same without it, since what the latter is
/// relative to is not known here. Links are not either, so `..` takes away the segment before it, as in a URL.
fn path(text: &str) -> Result<String, SpellingProblem> {
    if text.is_empty() {
        return Err(SpellingProblem::NoPath);
    }
    if text.contains('\\') {
        return Err(SpellingProblem::Backslash);
    }
    let root = if text.starts_with('/') { "/" } else { "" };
    let mut segments: Vec<&str> = Vec::new();
    for segment in text.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop().ok_or(SpellingProblem::AboveRoot)?),
            name => segments.push(name),
        }
    }
    let path = format!("{root}{}", segments.join("/"));
    Ok(if path.is_empty() { ".".to_owned() } else { path })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics has failed")]

    use super::*;
    use proptest::prelude::*;
    use serde_json::Value as Json;

    #[test]
    fn the_vectors_hold() {
        let vectors: Json = serde_json::from_str(include_str!("../../../../vectors/normalisers.json")).unwrap();
        let rows = vectors["normalisers"].as_array().unwrap();
        let mut seen = Vec::new();
        for row in rows {
            let names = row["normalisers"].as_array().unwrap().iter().map(|name| name.as_str().unwrap());
            let all: Vec<Normaliser> =
                names.map(|name| Normaliser::ALL.iter().find(|(known, _)| *known == name).unwrap().1).collect();
            let made = Normaliser::apply_all(&all, row["value"].as_str().unwrap());
            let expected = match row["refused"].as_str() {
                None => Ok(SmolStr::new(row["id"].as_str().unwrap())),
                Some(_) => Err(serde_json::from_value(row["refused"].clone()).unwrap()),
            };
            assert_eq!(made, expected, "{row}");
            seen.extend(all);
        }
        assert!(Normaliser::ALL.iter().all(|(_, one)| seen.contains(one)));
    }

    proptest! {
        /// What is normal stays as it is: an id read from the ledger and normalised again names the same fact.
        #[test]
        fn a_normal_spelling_is_its_own(text in "[a-zA-Z./ÄäßΣςſİK\u{301}\u{308}\u{0}-\u{10ffff}]{0,12}") {
            for (name, one) in Normaliser::ALL {
                if let Ok(once) = one.apply(&text) {
                    let twice = one.apply(&once);
                    prop_assert_eq!(twice.as_deref(), Ok(&*once), "{} {:?}", name, text);
                    prop_assert!(is_nfc(&once), "{} {:?}", name, text);
                }
            }
        }
    }
}
