//! The condition of a grant, which sees an agent and a fact and no action.

use super::{Checker, size};
use crate::expression::Expression;
use crate::pact::diagnostic::Problems;
use crate::pact::source::Text;
use cedar_policy_core::ast::{Expr, ExprKind, Var};
use std::ops::Range;
use std::str::FromStr as _;

impl Checker<'_> {
    /// Checks who a grant is for. Observing has no parameters, no reads and no action, so nothing can depend on them.
    pub(in crate::pact) fn grant(&self, text: &Text<'_>, problems: &mut Problems) -> Option<Expression> {
        // What is too large to be walked is refused by the usual check.
        let parsed = size::too_large(text.value).is_none().then(|| Expr::from_str(text.value).ok()).flatten();
        let foreign: Vec<(&str, Range<usize>)> =
            parsed.iter().flat_map(Expr::subexpressions).filter_map(|part| of_an_action(part, text.value)).collect();
        for (name, span) in &foreign {
            let message = format!("`{name}` cannot be used in [observe]: there is no action yet");
            problems.error(&text.part(span), message, "a grant depends on `principal` and `resource` only");
        }
        if foreign.is_empty() { self.condition(text, problems) } else { None }
    }
}

/// A name that only an action has, and where it stands.
fn of_an_action(part: &Expr, text: &str) -> Option<(&'static str, Range<usize>)> {
    let name = match part.expr_kind() {
        ExprKind::Var(Var::Context) => "context",
        ExprKind::Var(Var::Action) => "action",
        _ => return None,
    };
    let place = part.source_loc().map(|loc| loc.span.offset()..loc.span.offset() + loc.span.len());
    Some((name, place.unwrap_or(0..text.len())))
}
