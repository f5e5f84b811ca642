//! Rewriting: from the names of a pact to flat keys, and a refusal of everything that reaches further than the action's reads.

use super::{Base, ExpressionError, Mention, Scope};
use crate::pact::diagnostic::closest;
use cedar_policy_core::ast::{BinaryOp, Expr, ExprKind, Var};
use smol_str::{SmolStr, format_smolstr};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One expression on its way.
pub(super) struct Rewriter<'a> {
    scope: &'a Scope<'a>,
    text: &'a str,
    /// What it mentions, by flat key.
    pub(super) mentions: BTreeMap<SmolStr, Mention>,
    /// Everything that is wrong with it.
    pub(super) errors: Vec<ExpressionError>,
}

/// What a session, and what a write rests on, can be asked for.
const LABELS: &str = "labels";

/// The flat key of labels.
fn labels_key(mention: &Mention) -> SmolStr {
    SmolStr::new_static(if *mention == Mention::RestsOnLabels { "rests_on.labels" } else { "session.labels" })
}

/// What every context has.
const CONTEXT: [&str; 5] = ["observed", "actor", "session", "rests_on", "tainted"];

/// Cedar's functions of decimals.
const DECIMALS: [&str; 5] = ["decimal", "lessThan", "lessThanOrEqual", "greaterThan", "greaterThanOrEqual"];

/// A chain of attribute accesses that starts at a variable.
enum Path {
    Principal,
    Actor,
    Fact(usize),
    Context,
    Param,
    Observed,
    ObservedFact(usize),
    Readings,
    Reading(SmolStr),
    /// `context.session` and `context.rests_on`, which have labels and nothing else.
    Labelled(Mention),
    /// `context.tainted`, which has the labels of each parameter.
    Tainted,
    Plain,
}

impl<'a> Rewriter<'a> {
    pub(super) fn new(scope: &'a Scope<'a>, text: &'a str) -> Self {
        Self { scope, text, mentions: BTreeMap::new(), errors: Vec::new() }
    }

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
                Path::Context if attr == "readings" => Path::Readings,
                Path::Context if attr == "session" => Path::Labelled(Mention::SessionLabels),
                Path::Context if attr == "rests_on" => Path::Labelled(Mention::RestsOnLabels),
                Path::Context if attr == "tainted" => Path::Tainted,
                Path::Context if attr == "now" => Path::Plain,
                Path::Context if attr == "actor" => Path::Actor,
                Path::Context => match self.read_named(attr).filter(|read| *read != 0) {
                    Some(read) => Path::Fact(read),
                    None => Path::Param,
                },
                Path::Observed => self.read_named(attr).map_or(Path::Plain, Path::ObservedFact),
                Path::Readings => Path::Reading(attr.clone()),
                Path::Param => Path::Param,
                _ => Path::Plain,
            },
            _ => Path::Plain,
        }
    }

    /// The expression as a value in its own right.
    pub(super) fn rewrite(&mut self, expr: &Expr) -> Expr {
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
            ExprKind::ExtensionFunctionApp { fn_name, args } if DECIMALS.contains(&fn_name.to_string().as_str()) => {
                Expr::call_extension_fn(fn_name.clone(), args.iter().map(|arg| self.rewrite(arg)).collect())
            }
            ExprKind::ExtensionFunctionApp { .. } => {
                self.error(
                    expr,
                    "the only extension functions in pacts are those of decimals".into(),
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
            Path::Reading(name) if self.scope.readings.contains(&name) => {
                self.flat(format_smolstr!("readings.{name}.{attr}"), Mention::Reading(name, attr.clone()))
            }
            Path::Reading(name) => self.no_reading(whole, &name),
            Path::Labelled(mention) if attr == LABELS => self.flat(labels_key(&mention), mention),
            Path::Labelled(mention) => self.only_labels(whole, &mention),
            Path::Context if attr == "session" => self.only_labels(whole, &Mention::SessionLabels),
            Path::Context if attr == "rests_on" => self.only_labels(whole, &Mention::RestsOnLabels),
            Path::Tainted if self.scope.params.contains_key(attr) => {
                self.flat(format_smolstr!("tainted.{attr}"), Mention::Tainted(attr.clone()))
            }
            Path::Tainted => self.no_tainted(whole, attr),
            Path::Context if attr == "tainted" => self.no_tainted(whole, attr),
            Path::Actor => self.flat(format_smolstr!("actor.{attr}"), Mention::Attribute(Base::Actor, attr.clone())),
            Path::Context if attr == "now" => self.flat("now".into(), Mention::Now),
            Path::Context if attr == "actor" => self.flat("actor".into(), Mention::Entity(Base::Actor)),
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
            Path::Readings => self.no_reading(whole, attr),
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

    /// Refuses what is asked of a session, or of what a write rests on, beside labels.
    fn only_labels(&mut self, whole: &Expr, mention: &Mention) -> Expr {
        let key = labels_key(mention);
        let message = format!("the only thing to ask here is `context.{key}`");
        self.error(whole, message, &format!("write context.{key}.contains(\"untrusted\")"));
        Expr::val(false)
    }

    /// Refuses what names no parameter whose labels there could be.
    fn no_tainted(&mut self, whole: &Expr, name: &str) -> Expr {
        let hint = match closest(name, self.scope.params.keys().map(SmolStr::as_str)) {
            Some(name) => format!("did you mean `context.tainted.{name}`?"),
            None => "name a parameter: context.tainted.destination.contains(\"untrusted\")".to_owned(),
        };
        let message = "`context.tainted` has the labels of each parameter, and is not used as a whole".to_owned();
        self.error(whole, message, &hint);
        Expr::val(false)
    }

    /// Refuses what names no attribute of a declared reading.
    fn no_reading(&mut self, whole: &Expr, name: &str) -> Expr {
        let hint = match closest(name, self.scope.readings.iter().map(SmolStr::as_str)) {
            Some(name) => format!("did you mean `context.readings.{name}`?"),
            None => format!("declare it as [readings.{name}], and name an attribute of it"),
        };
        let message =
            format!("`context.readings.{name}` is not a reading that this pact declares, or is used as a whole");
        self.error(whole, message, &hint);
        Expr::val(false)
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
            Path::Actor => {
                self.flat_has(format_smolstr!("actor.{attr}"), Mention::Attribute(Base::Actor, attr.clone()))
            }
            Path::Reading(name) if self.scope.readings.contains(&name) => {
                self.flat_has(format_smolstr!("readings.{name}.{attr}"), Mention::Reading(name, attr.clone()))
            }
            Path::Reading(name) => self.no_reading(whole, &name),
            Path::Labelled(_) if attr == LABELS => Expr::val(true),
            Path::Labelled(mention) => self.only_labels(whole, &mention),
            // What carries nothing has no labels.
            Path::Tainted if self.scope.params.contains_key(attr) => Expr::val(true),
            Path::Tainted => self.no_tainted(whole, attr),
            // What a condition asks of must have been read: without it nothing is decided.
            Path::Readings if self.scope.readings.contains(attr) => Expr::val(true),
            Path::Readings => self.no_reading(whole, attr),
            Path::Context if CONTEXT.contains(&attr.as_str()) => Expr::val(true),
            Path::Context => match self.read_named(attr).filter(|read| *read != 0) {
                Some(read) => self.flat_has(attr.clone(), Mention::Entity(Base::Read(read))),
                None => self.flat_has(attr.clone(), Mention::Param(attr.clone())),
            },
            Path::Param | Path::Plain => Expr::has_attr(self.rewrite(base), attr.clone()),
        }
    }
}
