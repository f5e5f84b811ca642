//! Who may announce changes: `[claim]`.

use super::diagnostic::Problems;
use super::facts::Facts;
use super::observe::by_type;
use super::source::Table;
use super::{ClaimRule, check::Checker};
use crate::ids::FactType;
use crate::limits::{CLAIM_MS_MAX, INTEGER_MAX};
use std::collections::BTreeMap;
use toml::de::DeTable;

const WHO_HINT: &str = "say who announces it, for example who = 'principal.roles.contains(\"fraud\")'";

/// Reads `[claim.TYPE]` and `[[claim.TYPE]]`.
pub(super) fn read<'a>(
    source: &'a str,
    declared: &'a DeTable<'a>,
    facts: &Facts,
    problems: &mut Problems,
) -> BTreeMap<FactType, Vec<ClaimRule>> {
    by_type(source, declared, facts, "the claim rule on", problems, |_, body, checker, problems| {
        rule(body, checker, problems)
    })
}

fn rule(mut body: Table<'_>, checker: &Checker<'_>, problems: &mut Problems) -> Option<ClaimRule> {
    let doc = body.doc(problems);
    let who = body.required_string("who", WHO_HINT, problems);
    let who = who.and_then(|who| checker.grant(&who, problems));
    if body.get("max").is_none() {
        body.missing("max", "say how long one may last, extensions included: max = \"30s\"", problems);
    }
    let max_ms = body.duration("max", problems);
    if max_ms.is_some_and(|max_ms| max_ms > CLAIM_MS_MAX) {
        let message = format!("a claim lasts {} minutes at most", CLAIM_MS_MAX / 60_000);
        problems.error(&body.span, message, "an announcement that lasts longer is no announcement; halt instead");
        return None;
    }
    let priority = body.integer("priority", 0..=INTEGER_MAX, problems).unwrap_or(0);
    body.finish(problems);
    Some(ClaimRule { who: who?, max_ms: max_ms?, priority, doc })
}
