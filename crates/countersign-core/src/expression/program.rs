//! The part of Cedar that most conditions are made of, run without building anything.
//!
//! A program never disagrees with Cedar: it answers only where every operand has the type its operator takes and nothing
//! overflows, and is silent everywhere else, so that Cedar is asked. A test holds the two against each other.

use super::{Input, Mention, Source};
use crate::ids::FactId;
use crate::value::{Set, Value};
use cedar_policy_core::ast::{BinaryOp, Expr, ExprKind, Literal, Pattern, UnaryOp, Var};
use smol_str::SmolStr;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Deeper expressions are left to Cedar, which counts its stack.
const DEPTH_MAX: usize = 24;

/// An expression, compiled.
#[derive(Debug)]
pub(super) enum Program {
    Constant(Value),
    Input(Mention),
    Has(Mention),
    Not(Box<Program>),
    Negate(Box<Program>),
    And(Box<[Program; 2]>),
    Or(Box<[Program; 2]>),
    If(Box<[Program; 3]>),
    Binary(Operator, Box<[Program; 2]>),
    Like(Box<Program>, Pattern),
}

/// An operator whose operands are both evaluated.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operator {
    Equal,
    Less,
    LessOrEqual,
    Add,
    Subtract,
    Multiply,
    Contains,
}

/// A value on its way.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Operand<'a> {
    Bool(bool),
    Long(i64),
    Text(&'a SmolStr),
    Set(&'a Arc<Set>),
    Fact(Cow<'a, FactId>),
}

impl Operand<'_> {
    /// The value, unless it is a fact itself.
    pub(super) fn into_value(self) -> Option<Value> {
        match self {
            Self::Bool(truth) => Some(Value::Bool(truth)),
            Self::Long(number) => Some(Value::Long(number)),
            Self::Text(text) => Some(Value::String(text.clone())),
            Self::Set(set) => Some(Value::Set(Arc::clone(set))),
            Self::Fact(_) => None,
        }
    }
}

impl Program {
    /// Compiles an expression over flat keys; `None` where it holds anything that is left to Cedar.
    pub(super) fn compile(expr: &Expr, mentions: &BTreeMap<SmolStr, Mention>) -> Option<Self> {
        Compiler { mentions }.compile(expr, DEPTH_MAX)
    }

    /// Runs it; `None` where Cedar has to be asked.
    pub(super) fn run<'a>(&'a self, source: &'a dyn Source) -> Option<Operand<'a>> {
        match self {
            Self::Constant(value) => operand(value),
            Self::Input(mention) => match source.input(mention)? {
                Input::Value(value) => operand(value),
                Input::Long(number) => Some(Operand::Long(number)),
                Input::Present => Some(Operand::Bool(true)),
                Input::Fact(fact) => Some(Operand::Fact(fact)),
            },
            Self::Has(mention) => Some(Operand::Bool(source.input(mention).is_some())),
            Self::Not(inner) => Some(Operand::Bool(!inner.truth(source)?)),
            Self::Negate(inner) => Some(Operand::Long(inner.number(source)?.checked_neg()?)),
            Self::And(both) => {
                let [left, right] = &**both;
                Some(Operand::Bool(left.truth(source)? && right.truth(source)?))
            }
            Self::Or(both) => {
                let [left, right] = &**both;
                Some(Operand::Bool(left.truth(source)? || right.truth(source)?))
            }
            Self::If(parts) => {
                let [test, then, otherwise] = &**parts;
                if test.truth(source)? { then.run(source) } else { otherwise.run(source) }
            }
            Self::Binary(operator, both) => {
                let [left, right] = &**both;
                operator.apply(left.run(source)?, right.run(source)?)
            }
            Self::Like(inner, pattern) => match inner.run(source)? {
                Operand::Text(text) => Some(Operand::Bool(pattern.wildcard_match(text))),
                _ => None,
            },
        }
    }

    fn truth(&self, source: &dyn Source) -> Option<bool> {
        match self.run(source)? {
            Operand::Bool(truth) => Some(truth),
            _ => None,
        }
    }

    fn number(&self, source: &dyn Source) -> Option<i64> {
        match self.run(source)? {
            Operand::Long(number) => Some(number),
            _ => None,
        }
    }
}

fn operand(value: &Value) -> Option<Operand<'_>> {
    match value {
        Value::Bool(truth) => Some(Operand::Bool(*truth)),
        Value::Long(number) => Some(Operand::Long(*number)),
        Value::String(text) => Some(Operand::Text(text)),
        Value::Set(set) => Some(Operand::Set(set)),
        Value::Decimal(_) | Value::Record(_) => None,
    }
}

impl Operator {
    fn apply<'a>(self, left: Operand<'a>, right: Operand<'a>) -> Option<Operand<'a>> {
        use Operand::{Bool, Long, Set};
        match (self, left, right) {
            // Values of two types are unequal in Cedar too, but that is a mistake in the pact and not worth being fast.
            (Self::Equal, left, right) => {
                let same_type = std::mem::discriminant(&left) == std::mem::discriminant(&right);
                same_type.then(|| Bool(left == right))
            }
            (Self::Less, Long(left), Long(right)) => Some(Bool(left < right)),
            (Self::LessOrEqual, Long(left), Long(right)) => Some(Bool(left <= right)),
            (Self::Add, Long(left), Long(right)) => left.checked_add(right).map(Long),
            (Self::Subtract, Long(left), Long(right)) => left.checked_sub(right).map(Long),
            (Self::Multiply, Long(left), Long(right)) => left.checked_mul(right).map(Long),
            (Self::Contains, Set(set), item) => Some(Bool(set.contains(&item.into_value()?))),
            _ => None,
        }
    }
}

struct Compiler<'a> {
    mentions: &'a BTreeMap<SmolStr, Mention>,
}

impl Compiler<'_> {
    fn compile(&self, expr: &Expr, depth_left: usize) -> Option<Program> {
        let depth_left = depth_left.checked_sub(1)?;
        let boxed = |expr: &Expr| self.compile(expr, depth_left).map(Box::new);
        let both = |left: &Expr, right: &Expr| {
            Some(Box::new([self.compile(left, depth_left)?, self.compile(right, depth_left)?]))
        };
        Some(match expr.expr_kind() {
            ExprKind::Lit(Literal::Bool(truth)) => Program::Constant(Value::Bool(*truth)),
            ExprKind::Lit(Literal::Long(number)) => Program::Constant(Value::Long(*number)),
            ExprKind::Lit(Literal::String(text)) => Program::Constant(Value::String(text.clone())),
            ExprKind::GetAttr { expr, attr } => Program::Input(self.mention(expr, attr)?),
            ExprKind::HasAttr { expr, attr } => Program::Has(self.mention(expr, attr)?),
            ExprKind::UnaryApp { op: UnaryOp::Not, arg } => Program::Not(boxed(arg)?),
            ExprKind::UnaryApp { op: UnaryOp::Neg, arg } => Program::Negate(boxed(arg)?),
            ExprKind::And { left, right } => Program::And(both(left, right)?),
            ExprKind::Or { left, right } => Program::Or(both(left, right)?),
            ExprKind::If { test_expr, then_expr, else_expr } => Program::If(Box::new([
                self.compile(test_expr, depth_left)?,
                self.compile(then_expr, depth_left)?,
                self.compile(else_expr, depth_left)?,
            ])),
            ExprKind::BinaryApp { op, arg1, arg2 } => Program::Binary(operator(*op)?, both(arg1, arg2)?),
            ExprKind::Like { expr, pattern } => Program::Like(boxed(expr)?, pattern.clone()),
            _ => return None,
        })
    }

    fn mention(&self, base: &Expr, key: &SmolStr) -> Option<Mention> {
        matches!(base.expr_kind(), ExprKind::Var(Var::Context)).then(|| self.mentions.get(key).cloned())?
    }
}

fn operator(op: BinaryOp) -> Option<Operator> {
    Some(match op {
        BinaryOp::Eq => Operator::Equal,
        BinaryOp::Less => Operator::Less,
        BinaryOp::LessEq => Operator::LessOrEqual,
        BinaryOp::Add => Operator::Add,
        BinaryOp::Sub => Operator::Subtract,
        BinaryOp::Mul => Operator::Multiply,
        BinaryOp::Contains => Operator::Contains,
        _ => return None,
    })
}
