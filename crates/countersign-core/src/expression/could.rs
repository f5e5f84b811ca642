//! Whether a condition could still hold when some of its inputs are not known yet.
//!
//! A condition is taken apart at its `&&` and `||`. A part that mentions something unknown could be true; every other part is
//! evaluated. So the answer is *no* only where no value of what is unknown could make the condition true, and a caller without a
//! right is refused before anything is looked up or read for it.

use super::program::{Operand, Program};
use super::{Inputs, Mention};
use cedar_policy_core::ast::{Expr, ExprKind, Literal, Value as CedarValue, ValueKind, Var};
use smol_str::SmolStr;
use std::collections::BTreeMap;

/// A condition, taken apart.
#[derive(Debug)]
pub(super) enum Could {
    /// All must hold.
    All(Vec<Could>),
    /// One must hold.
    Any(Vec<Could>),
    /// Evaluated as it is.
    Part(Box<Part>),
}

/// A part of a condition.
#[derive(Debug)]
pub(super) struct Part {
    expr: Expr,
    program: Option<Program>,
    mentions: Vec<Mention>,
}

impl Could {
    /// Takes an expression over flat keys apart.
    pub(super) fn of(expr: &Expr, mentions: &BTreeMap<SmolStr, Mention>) -> Self {
        match expr.expr_kind() {
            ExprKind::And { left, right } => Self::All(vec![Self::of(left, mentions), Self::of(right, mentions)]),
            ExprKind::Or { left, right } => Self::Any(vec![Self::of(left, mentions), Self::of(right, mentions)]),
            _ => {
                let found = expr.subexpressions().filter_map(|part| mentioned(part, mentions).cloned());
                let (program, mentions) = (Program::compile(expr, mentions), found.collect());
                Self::Part(Box::new(Part { expr: expr.clone(), program, mentions }))
            }
        }
    }

    /// Whether it could hold, given which inputs are known.
    pub(super) fn holds(&self, inputs: &Inputs<'_>, is_known: &dyn Fn(&Mention) -> bool) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.holds(inputs, is_known)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(inputs, is_known)),
            Self::Part(part) => !part.mentions.iter().all(is_known) || part.is_true(inputs),
        }
    }
}

impl Part {
    /// Whether it is true; an error is not (I4).
    fn is_true(&self, inputs: &Inputs<'_>) -> bool {
        match self.program.as_ref().and_then(|program| program.run(inputs.source())) {
            Some(Operand::Bool(truth)) => truth,
            _ => {
                let value = inputs.interpret(&self.expr);
                matches!(value, Ok(CedarValue { value: ValueKind::Lit(Literal::Bool(true)), .. }))
            }
        }
    }
}

/// The input that an expression is, if it is one.
fn mentioned<'a>(expr: &Expr, mentions: &'a BTreeMap<SmolStr, Mention>) -> Option<&'a Mention> {
    match expr.expr_kind() {
        ExprKind::GetAttr { expr, attr } | ExprKind::HasAttr { expr, attr } => {
            matches!(expr.expr_kind(), ExprKind::Var(Var::Context)).then(|| mentions.get(attr))?
        }
        _ => None,
    }
}
