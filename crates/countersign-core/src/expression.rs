//! A condition or value expression, compiled for one pass over flat inputs.
//!
//! Cedar sees one record, `context`, in which every attribute that the expressions of an action type mention stands under
//! a flat key (`resource.status`, `principal.roles`, `observed.to.balance`). So a decision builds one small map instead of
//! an entity store, and the list of keys is also the list of attributes a precondition reads (the reasons of a rejection
//! come from the same pass). The rewriting only accepts expressions that name facts directly; anything through which a
//! fact could be reached that the action does not declare is refused (reads too narrow).
//!
//! Pure: no I/O, no clock; evaluation is total because Cedar has no loops and every error is an answer (I4).

use crate::ids::{AgentId, FactId};
use crate::pact::Presence;
use crate::pact::diagnostic::closest;
use crate::value::{FieldType, Value};
use cedar_policy_core::ast::{
    BinaryOp, Context, Eid, EntityType, EntityUID, EntityUIDEntry, Expr, ExprKind, Literal, Request, SlotEnv,
    Value as CedarValue, ValueKind, Var,
};
use cedar_policy_core::entities::Entities;
use cedar_policy_core::evaluator::{EvaluationError, Evaluator};
use cedar_policy_core::extensions::Extensions;
use smol_str::{SmolStr, format_smolstr};
use std::collections::BTreeMap;
use std::ops::Range;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

/// An expression of a pact.
#[derive(Debug)]
pub struct Expression {
    text: Arc<str>,
    expr: Expr,
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
}

/// Whose attribute is mentioned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Base {
    /// The acting agent.
    Principal,
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
        let mut rewriter = Rewriter { scope, text, mentions: BTreeMap::new(), errors: Vec::new() };
        let expr = rewriter.rewrite(&parsed);
        if !rewriter.errors.is_empty() {
            return Err(rewriter.errors);
        }
        Ok(Self { text: text.into(), expr, mentions: rewriter.mentions.into_iter().collect() })
    }

    /// The text as written in the pact.
    pub fn text(&self) -> &Arc<str> {
        &self.text
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
        self.mentions.iter().filter_map(|(_, mention)| match mention {
            Mention::Entity(Base::Read(read))
            | Mention::Attribute(Base::Read(read), _)
            | Mention::ObservedFact(read)
            | Mention::Observed(read, _) => Some(*read),
            _ => None,
        })
    }

    /// Evaluates to a value; an error is a sentence (I4: the caller rejects).
    pub fn value(&self, inputs: &Inputs<'_>) -> Result<Value, String> {
        let value = self.evaluate(inputs)?;
        Value::from_cedar(&value).ok_or_else(|| format!("`{}` is not a value that an attribute can hold", self.text))
    }

    /// Evaluates to true or false; an error is a sentence (I4: the caller rejects).
    pub fn holds(&self, inputs: &Inputs<'_>) -> Result<bool, String> {
        match self.evaluate(inputs)?.value {
            ValueKind::Lit(Literal::Bool(truth)) => Ok(truth),
            _ => Err(format!("`{}` is neither true nor false", self.text)),
        }
    }

    fn evaluate(&self, inputs: &Inputs<'_>) -> Result<CedarValue, String> {
        inputs.evaluator.interpret(&self.expr, &NO_SLOTS).map_err(|error| evaluation_error(&error).to_owned())
    }
}

/// Why an evaluation failed, in our own words: they are recorded, and must come out the same under every version of Cedar
/// (I3).
fn evaluation_error(error: &EvaluationError) -> &'static str {
    match error {
        EvaluationError::RecordAttrDoesNotExist(_) => "an attribute that it reads is absent",
        EvaluationError::IntegerOverflow(_) => "the result is beyond 64 bits",
        EvaluationError::TypeError(_) => "an operand has another type than the operator takes",
        EvaluationError::RecursionLimit(_) => "it is nested too deeply",
        _ => "it cannot be evaluated",
    }
}

static NO_SLOTS: LazyLock<SlotEnv> = LazyLock::new(SlotEnv::new);
static NO_ENTITIES: LazyLock<Entities> = LazyLock::new(Entities::new);
static NOBODY: LazyLock<EntityUIDEntry> = LazyLock::new(EntityUIDEntry::unknown);

/// The inputs of all expressions of one decision.
pub struct Inputs<'a> {
    evaluator: Evaluator<'a>,
}

/// Collects the inputs of one decision under their flat keys.
#[derive(Debug, Default)]
pub struct InputsBuilder {
    record: BTreeMap<SmolStr, CedarValue>,
}

impl InputsBuilder {
    /// Adds a value.
    pub fn value(&mut self, key: &SmolStr, value: &Value) {
        self.record.insert(key.clone(), value.to_cedar());
    }

    /// Adds a fact itself.
    pub fn fact(&mut self, key: &SmolStr, fact: &FactId) {
        if let Ok(uid) = entity_uid(fact.ty().as_str(), fact.id()) {
            let kind = ValueKind::Lit(Literal::EntityUID(Arc::new(uid)));
            self.record.insert(key.clone(), CedarValue { value: kind, loc: None });
        }
    }

    /// Adds the acting agent itself.
    pub fn agent(&mut self, key: &SmolStr, agent: &AgentId) {
        self.fact(key, &FactId::of_agent(agent));
    }

    /// Adds the presence of something.
    pub fn present(&mut self, key: &SmolStr) {
        self.record.insert(key.clone(), CedarValue { value: ValueKind::Lit(Literal::Bool(true)), loc: None });
    }

    /// Adds an integer.
    pub fn long(&mut self, key: &SmolStr, number: i64) {
        self.record.insert(key.clone(), CedarValue { value: ValueKind::Lit(Literal::Long(number)), loc: None });
    }

    /// The inputs, ready to evaluate on.
    pub fn build(self) -> Inputs<'static> {
        let context = Context::Value(Arc::new(self.record));
        let request = Request::new_unchecked(NOBODY.clone(), NOBODY.clone(), NOBODY.clone(), Some(context));
        Inputs { evaluator: Evaluator::new(request, &NO_ENTITIES, Extensions::none()) }
    }
}

fn entity_uid(ty: &str, id: &str) -> Result<EntityUID, ()> {
    let ty = EntityType::from_str(ty).map_err(|_| ())?;
    Ok(EntityUID::from_components(ty, Eid::new(id), None))
}

struct Rewriter<'a> {
    scope: &'a Scope<'a>,
    text: &'a str,
    mentions: BTreeMap<SmolStr, Mention>,
    errors: Vec<ExpressionError>,
}

/// A chain of attribute accesses that starts at a variable.
enum Path {
    Principal,
    Fact(usize),
    Context,
    Param,
    Observed,
    ObservedFact(usize),
    Plain,
}

impl Rewriter<'_> {
    fn error(&mut self, at: &Expr, message: String, hint: &str) {
        let span =
            at.source_loc().map_or(0..self.text.len(), |loc| loc.span.offset()..loc.span.offset() + loc.span.len());
        let hint = Some(hint.to_owned()).filter(|hint| !hint.is_empty());
        self.errors.push(ExpressionError { span, message, hint });
    }

    fn flat(&mut self, key: SmolStr, mention: Mention) -> Expr {
        self.mentions.insert(key.clone(), mention);
        Expr::get_attr(Expr::var(Var::Context), key)
    }

    fn flat_has(&mut self, key: SmolStr, mention: Mention) -> Expr {
        self.mentions.insert(key.clone(), mention);
        Expr::has_attr(Expr::var(Var::Context), key)
    }

    fn read_named(&self, name: &str) -> Option<usize> {
        self.scope.reads.iter().position(|(n, _)| n == name)
    }

    fn read_name(&self, read: usize) -> SmolStr {
        self.scope.reads.get(read).map(|(name, _)| name.clone()).unwrap_or_default()
    }

    /// What an expression denotes if it is a chain of names.
    fn path(&self, expr: &Expr) -> Path {
        match expr.expr_kind() {
            ExprKind::Var(Var::Principal) => Path::Principal,
            ExprKind::Var(Var::Resource) => Path::Fact(0),
            ExprKind::Var(Var::Context) => Path::Context,
            ExprKind::GetAttr { expr, attr } => match self.path(expr) {
                Path::Context if attr == "observed" => Path::Observed,
                Path::Context if attr == "now" => Path::Plain,
                Path::Context => match self.read_named(attr).filter(|read| *read != 0) {
                    Some(read) => Path::Fact(read),
                    None => Path::Param,
                },
                Path::Observed => self.read_named(attr).map_or(Path::Plain, Path::ObservedFact),
                Path::Param => Path::Param,
                _ => Path::Plain,
            },
            _ => Path::Plain,
        }
    }

    /// The expression as a value in its own right.
    fn rewrite(&mut self, expr: &Expr) -> Expr {
        match expr.expr_kind() {
            ExprKind::Lit(literal) => Expr::val(literal.clone()),
            ExprKind::Var(Var::Principal) => self.flat("principal".into(), Mention::Entity(Base::Principal)),
            ExprKind::Var(Var::Resource) => self.flat("resource".into(), Mention::Entity(Base::Read(0))),
            ExprKind::Var(Var::Action) => {
                self.error(
                    expr,
                    "`action` says nothing here: a condition belongs to one action type".into(),
                    "remove it",
                );
                Expr::val(false)
            }
            ExprKind::Var(Var::Context) => {
                self.error(
                    expr,
                    "`context` as a whole cannot be used".into(),
                    "name the parameter or fact: context.amount",
                );
                Expr::val(false)
            }
            ExprKind::GetAttr { expr: base, attr } => self.get(expr, base, attr),
            ExprKind::HasAttr { expr: base, attr } => self.has(expr, base, attr),
            ExprKind::ExtHasAttr { expr: base, attrs } => {
                let mut base = base.as_ref().clone();
                let mut all: Option<Expr> = None;
                for attr in attrs {
                    let has = self.has(expr, &base, attr);
                    all = Some(match all {
                        Some(before) => Expr::and(before, has),
                        None => has,
                    });
                    base = Expr::get_attr(base, attr.clone());
                }
                all.unwrap_or_else(|| Expr::val(false))
            }
            ExprKind::If { test_expr, then_expr, else_expr } => {
                Expr::ite(self.rewrite(test_expr), self.rewrite(then_expr), self.rewrite(else_expr))
            }
            ExprKind::And { left, right } => Expr::and(self.rewrite(left), self.rewrite(right)),
            ExprKind::Or { left, right } => Expr::or(self.rewrite(left), self.rewrite(right)),
            ExprKind::UnaryApp { op, arg } => Expr::unary_app(*op, self.rewrite(arg)),
            ExprKind::BinaryApp { op: BinaryOp::In | BinaryOp::GetTag | BinaryOp::HasTag, .. } => {
                self.error(
                    expr,
                    "facts have no parents and no tags".into(),
                    "compare with == or test an attribute: principal.roles.contains(\"refunder\")",
                );
                Expr::val(false)
            }
            ExprKind::BinaryApp { op, arg1, arg2 } => Expr::binary_app(*op, self.rewrite(arg1), self.rewrite(arg2)),
            ExprKind::Like { expr, pattern } => Expr::like(self.rewrite(expr), pattern.clone()),
            ExprKind::Is { expr, entity_type } => Expr::is_entity_type(self.rewrite(expr), entity_type.clone()),
            ExprKind::Set(items) => Expr::set(items.iter().map(|item| self.rewrite(item)).collect::<Vec<_>>()),
            ExprKind::Record(fields) => {
                let fields = fields.iter().map(|(name, field)| (name.clone(), self.rewrite(field))).collect();
                Expr::record_arc(Arc::new(fields))
            }
            ExprKind::ExtensionFunctionApp { .. } => {
                self.error(
                    expr,
                    "extension functions are not available in pacts".into(),
                    "times are Long milliseconds (context.now), money is Long minor units",
                );
                Expr::val(false)
            }
            ExprKind::Slot(_) | ExprKind::Unknown(_) => {
                self.error(expr, "placeholders are not available in pacts".into(), "use a parameter: context.amount");
                Expr::val(false)
            }
        }
    }

    fn get(&mut self, whole: &Expr, base: &Expr, attr: &SmolStr) -> Expr {
        match self.path(base) {
            Path::Principal => {
                self.flat(format_smolstr!("principal.{attr}"), Mention::Attribute(Base::Principal, attr.clone()))
            }
            Path::Fact(read) => {
                let key = format_smolstr!("{}.{attr}", self.read_name(read));
                self.flat(key, Mention::Attribute(Base::Read(read), attr.clone()))
            }
            Path::ObservedFact(read) => {
                let key = format_smolstr!("observed.{}.{attr}", self.read_name(read));
                self.flat(key, Mention::Observed(read, attr.clone()))
            }
            Path::Context if attr == "now" => self.flat("now".into(), Mention::Now),
            Path::Context => match self.read_named(attr).filter(|read| *read != 0) {
                Some(read) => self.flat(attr.clone(), Mention::Entity(Base::Read(read))),
                None if self.scope.params.contains_key(attr) => self.flat(attr.clone(), Mention::Param(attr.clone())),
                None => {
                    let reads = self.scope.reads.iter().map(|(name, _)| name.as_str());
                    let names = self.scope.params.keys().map(SmolStr::as_str).chain(reads);
                    let hint = match closest(attr, names) {
                        Some(name) => format!("did you mean `context.{name}`?"),
                        None => "declare it under `params` or `reads`".to_owned(),
                    };
                    let message = format!("`context.{attr}` is neither a parameter nor a read of this action");
                    self.error(whole, message, &hint);
                    Expr::val(false)
                }
            },
            Path::Param => Expr::get_attr(self.rewrite(base), attr.clone()),
            Path::Observed => {
                self.error(
                    whole,
                    format!("`context.observed.{attr}` is not a read of this action, or is used as a whole"),
                    "name an attribute of a read: context.observed.resource.price",
                );
                Expr::val(false)
            }
            Path::Plain if matches!(base.expr_kind(), ExprKind::Record(_)) => {
                Expr::get_attr(self.rewrite(base), attr.clone())
            }
            Path::Plain => {
                self.error(
                    whole,
                    "attributes can only be read from `principal`, `resource` and the declared reads".into(),
                    "declare the fact under `reads` and name it: context.to.balance",
                );
                Expr::val(false)
            }
        }
    }

    fn has(&mut self, whole: &Expr, base: &Expr, attr: &SmolStr) -> Expr {
        match self.path(base) {
            Path::Principal => {
                self.flat_has(format_smolstr!("principal.{attr}"), Mention::Attribute(Base::Principal, attr.clone()))
            }
            Path::Fact(read) => {
                let key = format_smolstr!("{}.{attr}", self.read_name(read));
                self.flat_has(key, Mention::Attribute(Base::Read(read), attr.clone()))
            }
            Path::ObservedFact(read) => {
                let key = format_smolstr!("observed.{}.{attr}", self.read_name(read));
                self.flat_has(key, Mention::Observed(read, attr.clone()))
            }
            Path::Observed => match self.read_named(attr) {
                Some(read) => self.flat_has(format_smolstr!("observed.{attr}"), Mention::ObservedFact(read)),
                None => {
                    self.error(whole, format!("`{attr}` is not a read of this action"), "declare it under `reads`");
                    Expr::val(false)
                }
            },
            Path::Context if attr == "observed" => Expr::val(true),
            Path::Context => match self.read_named(attr).filter(|read| *read != 0) {
                Some(read) => self.flat_has(attr.clone(), Mention::Entity(Base::Read(read))),
                None => self.flat_has(attr.clone(), Mention::Param(attr.clone())),
            },
            Path::Param | Path::Plain => Expr::has_attr(self.rewrite(base), attr.clone()),
        }
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
