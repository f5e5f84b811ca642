//! The names that `conform` uses on a gate: everything it publishes and feeds has a prefix, so that it meets nothing of anyone else's.

use crate::examples::PactFile;
use anyhow::{Result, anyhow};
use countersign_core::ids::{FactId, FactType};
use countersign_core::pact::load::load;

/// What pacts and agents begin with.
pub const PREFIX: &str = "conform-";

/// What fact types begin with.
const TYPE_PREFIX: &str = "Conform";

/// The name of a pact on the gate.
pub fn pact(name: &str) -> String {
    format!("{PREFIX}{name}")
}

/// A fact on the gate, given as the project's own pacts write it.
pub fn fact(written: &str) -> Result<FactId> {
    let fact: FactId = written.parse()?;
    Ok(FactId::new(FactType::new(format!("{TYPE_PREFIX}{}", fact.ty()))?, fact.id())?)
}

/// The text of a pact, under its name on the gate and at a version.
pub fn source(file: &PactFile, version: u64) -> Result<String> {
    let loaded = load(file.source).map_err(|problems| anyhow!("pact `{}` does not load: {problems:?}", file.name))?;
    let mut text = file.source.replacen(
        &format!("pact = \"{}\"\nversion = 1\n", file.name),
        &format!("pact = \"{}\"\nversion = {version}\n", pact(file.name)),
        1,
    );
    for ty in loaded.pact.facts.keys() {
        text = with_word(&text, ty.as_str(), &format!("{TYPE_PREFIX}{ty}"));
    }
    Ok(text)
}

/// Replaces a word, and no part of a longer one.
fn with_word(text: &str, word: &str, by: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let (before, found) = rest.split_at(at);
        let after = found.strip_prefix(word).unwrap_or_default();
        let is_word = !before.ends_with(is_part) && !after.starts_with(is_part) && !out_ends(&out, before, is_part);
        out.push_str(before);
        out.push_str(if is_word { by } else { word });
        rest = after;
    }
    out + rest
}

/// Whether a word that begins right after what was put out is part of it.
fn out_ends(out: &str, before: &str, is_part: impl Fn(char) -> bool) -> bool {
    before.is_empty() && out.ends_with(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples;

    #[test]
    fn every_example_loads_under_its_other_name() {
        for file in examples::ALL {
            let text = source(file, 7).unwrap();
            let pact = load(&text).unwrap_or_else(|problems| panic!("{problems:#?}\n{text}")).pact;
            assert_eq!((pact.name.as_str(), pact.version), (super::pact(file.name).as_str(), 7));
            assert!(pact.facts.keys().all(|ty| ty.as_str().starts_with(TYPE_PREFIX)), "{:?}", pact.facts.keys());
        }
    }

    #[test]
    fn only_whole_words_are_replaced() {
        assert_eq!(with_word("Order OrderOrder Order_ [Order]", "Order", "X"), "X OrderOrder Order_ [X]");
    }

    #[test]
    fn a_fact_has_another_type_there() {
        assert_eq!(fact(r#"Account::"42""#).unwrap().to_string(), r#"ConformAccount::"42""#);
    }
}
