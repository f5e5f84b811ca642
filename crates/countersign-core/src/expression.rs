//! A condition or value expression, compiled for one pass over flat inputs.
//!
//! Cedar sees one record, `context`, in which every attribute that the expressions of an action type mention stands under
//! a flat key (`resource.status`, `principal.roles`, `observed.to.balance`). So a decision builds one small map instead of
//! an entity store, and the list of keys is also the list of attributes a precondition reads (the reasons of a rejection
//! come from the same pass). The rewriting only accepts expressions that name facts directly; anything through which a
//! fact could be reached that the action does not declare is refused (reads too narrow).
//!
//! What most conditions are made of (comparing, adding, `&&`, `contains`) runs as a small program of our own; Cedar has the last
//! word wherever that has no answer, so every error and every rarer operator is Cedar's.
//!
//! Pure: no I/O, no clock; evaluation is total because Cedar has no loops and every error is an answer (I4).

mod could;
mod inputs;
mod program;
mod rewrite;
#[cfg(test)]
mod tests;

pub use inputs::{Input, Inputs, Source};

use crate::pact::Presence;
use crate::value::{FieldType, Value};
use cedar_policy_core::ast::{BinaryOp, Expr, ExprKind, Literal, UnaryOp, ValueKind};
use could::Could;
use program::{Operand, Program};
use rewrite::Rewriter;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

/// An expression of a pact.
#[derive(Debug)]
pub struct Expression {
    text: Arc<str>,
    expr: Expr,
    program: Option<Program>,
    could: Could,
    mentions: Vec<(SmolStr, Mention)>,
}

/// One input that an expression mentions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mention {
    /// A parameter.
    Param(SmolStr),
    /// The commit's time.
    Now,
    /// The fact itself, compared or tested for presence.
    Entity(Base),
    /// An attribute at the time of use.
    Attribute(Base, SmolStr),
    /// Whether the fact was observed.
    ObservedFact(usize),
    /// An attribute as it was observed.
    Observed(usize, SmolStr),
    /// An attribute of the latest reading of this name in the session.
    Reading(SmolStr, SmolStr),
    /// The labels of what its agent was shown in the session.
    SessionLabels,
    /// The labels of what the write rests on.
    RestsOnLabels,
    /// The labels of the content that a parameter carries values of.
    Tainted(SmolStr),
}

impl Mention {
    /// Whether it speaks of where content came from.
    pub fn is_labels(&self) -> bool {
        matches!(self, Self::SessionLabels | Self::RestsOnLabels | Self::Tainted(_))
    }

    /// The fact, among those read, that it speaks of; `None` where it speaks of none.
    pub fn read(&self) -> Option<usize> {
        match self {
            Self::Entity(Base::Read(read))
            | Self::Attribute(Base::Read(read), _)
            | Self::ObservedFact(read)
            | Self::Observed(read, _) => Some(*read),
            _ => None,
        }
    }
}

/// Whose attribute is mentioned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Base {
    /// The agent whose right is used.
    Principal,
    /// The agent that acts; the principal itself, where nothing is delegated.
    Actor,
    /// A fact read, by its index.
    Read(usize),
}

/// What names mean inside the expressions of one action type.
#[derive(Debug)]
pub struct Scope<'a> {
    /// The parameters.
    pub params: &'a BTreeMap<SmolStr, FieldType>,
    /// The facts read: name (`resource` first) and presence.
    pub reads: &'a [(SmolStr, Presence)],
    /// The names of the readings that the pact declares.
    pub readings: &'a [SmolStr],
}

/// Why an expression has no value. Recorded, so it must come out the same under every version of Cedar (I3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvalError {
    /// An attribute that it reads is absent.
    AttributeAbsent,
    /// The result is beyond 64 bits.
    Overflow,
    /// The result is beyond what a fact can hold.
    OutOfRange,
    /// An operand has another type than the operator takes.
    Type,
    /// It is nested too deeply.
    TooDeep,
    /// It is neither true nor false.
    NotBoolean,
    /// It is not a value that an attribute can hold.
    NotAValue,
    /// Anything else.
    Other,
}

/// Why an expression was refused, with the place inside its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpressionError {
    /// Byte range in the expression's text.
    pub span: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Expression {
    /// Parses and rewrites an expression. Types are checked elsewhere, against the derived schema.
    pub fn compile(text: &str, scope: &Scope<'_>) -> Result<Self, Vec<ExpressionError>> {
        let parsed = Expr::from_str(text).map_err(|errors| {
            errors
                .iter()
                .map(|error| {
                    use miette_span::first_span;
                    ExpressionError {
                        span: first_span(error).unwrap_or(0..text.len()),
                        message: format!("this is not a Cedar expression: {error}"),
                        hint: None,
                    }
                })
                .collect::<Vec<_>>()
        })?;
        let mut rewriter = Rewriter::new(scope, text);
        let expr = rewriter.rewrite(&parsed);
        if !rewriter.errors.is_empty() {
            return Err(rewriter.errors);
        }
        let program = Program::compile(&expr, &rewriter.mentions);
        let could = Could::of(&expr, &rewriter.mentions);
        Ok(Self { text: text.into(), expr, program, could, mentions: rewriter.mentions.into_iter().collect() })
    }

    /// The text as written in the pact.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// The inputs that it alone needs.
    pub fn inputs<'a>(&'a self, source: &'a dyn Source) -> Inputs<'a> {
        Inputs::new(source, &self.mentions)
    }

    /// Two scales of money that it compares or adds up as if they were one, given the scale of what it mentions; `of_value` is the
    /// scale that its own value is to have.
    pub fn mixed_scales(&self, scale: &dyn Fn(&Mention) -> Option<u8>, of_value: Option<u8>) -> Option<(u8, u8)> {
        let mut found = of_value.map(|scale| BTreeSet::from([scale])).unwrap_or_default();
        if of_value.is_some() {
            self.scales(&self.expr, scale, &mut found);
        }
        let two = |found: &BTreeSet<u8>| Some((*found.first()?, *found.last()?)).filter(|(one, other)| one != other);
        let mixed_in = |part: &Expr| {
            let ExprKind::BinaryApp {
                op: BinaryOp::Eq | BinaryOp::Less | BinaryOp::LessEq | BinaryOp::Add | BinaryOp::Sub,
                arg1,
                arg2,
            } = part.expr_kind()
            else {
                return None;
            };
            let mut found = BTreeSet::new();
            self.scales(arg1, scale, &mut found);
            self.scales(arg2, scale, &mut found);
            two(&found)
        };
        two(&found).or_else(|| self.expr.subexpressions().find_map(mixed_in))
    }

    /// The scales of the money that a part has the value of. What is multiplied has another scale, and its author says which.
    fn scales(&self, part: &Expr, scale: &dyn Fn(&Mention) -> Option<u8>, found: &mut BTreeSet<u8>) {
        match part.expr_kind() {
            ExprKind::GetAttr { attr, .. } => {
                let mention = self.mentions.iter().find(|(key, _)| key == attr);
                found.extend(mention.and_then(|(_, mention)| scale(mention)));
            }
            ExprKind::BinaryApp { op: BinaryOp::Add | BinaryOp::Sub, arg1, arg2 } => {
                self.scales(arg1, scale, found);
                self.scales(arg2, scale, found);
            }
            ExprKind::UnaryApp { op: UnaryOp::Neg, arg } => self.scales(arg, scale, found),
            ExprKind::If { then_expr, else_expr, .. } => {
                self.scales(then_expr, scale, found);
                self.scales(else_expr, scale, found);
            }
            _ => {}
        }
    }

    /// What it mentions, by flat key.
    pub fn mentions(&self) -> impl Iterator<Item = &(SmolStr, Mention)> {
        self.mentions.iter()
    }

    /// The attributes it reads at the time of use.
    pub fn attributes(&self) -> impl Iterator<Item = (Base, &SmolStr)> {
        self.mentions.iter().filter_map(|(_, mention)| match mention {
            Mention::Attribute(base, attribute) => Some((*base, attribute)),
            _ => None,
        })
    }

    /// The facts whose presence or identity it depends on beyond their attributes.
    pub fn facts(&self) -> impl Iterator<Item = usize> {
        self.mentions.iter().filter_map(|(_, mention)| mention.read())
    }

    /// Evaluates to a value (I4: the caller rejects on an error).
    pub fn value(&self, inputs: &Inputs<'_>) -> Result<Value, EvalError> {
        if let Some(value) = self.run(inputs).and_then(Operand::into_value) {
            return Ok(value);
        }
        Value::from_cedar(&inputs.interpret(&self.expr)?).ok_or(EvalError::NotAValue)
    }

    /// Evaluates to true or false (I4: the caller rejects on an error).
    pub fn holds(&self, inputs: &Inputs<'_>) -> Result<bool, EvalError> {
        if let Some(Operand::Bool(truth)) = self.run(inputs) {
            return Ok(truth);
        }
        match inputs.interpret(&self.expr)?.value {
            ValueKind::Lit(Literal::Bool(truth)) => Ok(truth),
            _ => Err(EvalError::NotBoolean),
        }
    }

    /// Whether it could still hold, given which inputs are known: `false` only where nothing that is unknown could make it true.
    pub fn could_hold(&self, inputs: &Inputs<'_>, is_known: &dyn Fn(&Mention) -> bool) -> bool {
        self.could.holds(inputs, is_known)
    }

    fn run<'i>(&'i self, inputs: &Inputs<'i>) -> Option<Operand<'i>> {
        self.program.as_ref()?.run(inputs.source())
    }
}

mod miette_span {
    //! Cedar reports places through `miette`, which it re-exports by trait only.
    use std::ops::Range;

    /// The first labelled place of a parse error.
    pub(super) fn first_span(error: &cedar_policy_core::parser::err::ParseError) -> Option<Range<usize>> {
        use miette::Diagnostic as _;
        let label = error.labels()?.next()?;
        Some(label.offset()..label.offset() + label.len())
    }
}
