//! What expressions are evaluated on: looked up where it stands, and lent to Cedar only where Cedar is asked.

use super::{EvalError, Mention};
use crate::ids::FactId;
use crate::value::Value;
use cedar_policy_core::ast::{
    Context, Eid, EntityType, EntityUID, EntityUIDEntry, Expr, Literal, Request, SlotEnv, Value as CedarValue,
    ValueKind,
};
use cedar_policy_core::entities::Entities;
use cedar_policy_core::evaluator::{EvaluationError, Evaluator};
use cedar_policy_core::extensions::Extensions;
use smol_str::SmolStr;
use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

static NO_SLOTS: LazyLock<SlotEnv> = LazyLock::new(SlotEnv::new);
static NO_ENTITIES: LazyLock<Entities> = LazyLock::new(Entities::new);
static NOBODY: LazyLock<EntityUIDEntry> = LazyLock::new(EntityUIDEntry::unknown);

/// One input of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input<'a> {
    /// The value of an attribute or parameter.
    Value(&'a Value),
    /// An integer that no fact holds, such as the time.
    Long(i64),
    /// Something is there, and that is all that can be asked of it.
    Present,
    /// A fact itself.
    Fact(Cow<'a, FactId>),
}

/// Where inputs come from: one decision on its way.
pub trait Source {
    /// What a mention stands for; `None` where it is absent.
    fn input(&self, mention: &Mention) -> Option<Input<'_>>;
}

/// The inputs of all expressions of one decision.
pub struct Inputs<'a> {
    source: &'a dyn Source,
    mentions: &'a [(SmolStr, Mention)],
    evaluator: OnceCell<Evaluator<'static>>,
}

impl<'a> Inputs<'a> {
    /// Inputs from a source, and all that expressions may mention, by flat key.
    pub fn new(source: &'a dyn Source, mentions: &'a [(SmolStr, Mention)]) -> Self {
        Self { source, mentions, evaluator: OnceCell::new() }
    }

    pub(super) fn source(&self) -> &'a dyn Source {
        self.source
    }

    /// Asks Cedar. What it sees is put together at the first question.
    pub(super) fn interpret(&self, expr: &Expr) -> Result<CedarValue, EvalError> {
        let evaluator = self.evaluator.get_or_init(|| self.evaluator());
        evaluator.interpret(expr, &NO_SLOTS).map_err(|error| evaluation_error(&error))
    }

    fn evaluator(&self) -> Evaluator<'static> {
        let lend = |(key, mention): &(SmolStr, Mention)| Some((key.clone(), lend(self.source.input(mention)?)?));
        let record: BTreeMap<SmolStr, CedarValue> = self.mentions.iter().filter_map(lend).collect();
        let context = Context::Value(Arc::new(record));
        let request = Request::new_unchecked(NOBODY.clone(), NOBODY.clone(), NOBODY.clone(), Some(context));
        // Only the functions of decimals get this far: the rewriting refuses all others.
        Evaluator::new(request, &NO_ENTITIES, Extensions::all_available())
    }
}

fn lend(input: Input<'_>) -> Option<CedarValue> {
    let literal = match input {
        Input::Value(value) => return Some(value.to_cedar()),
        Input::Long(number) => Literal::Long(number),
        Input::Present => Literal::Bool(true),
        Input::Fact(fact) => {
            let ty = EntityType::from_str(fact.ty().as_str()).ok()?;
            Literal::EntityUID(Arc::new(EntityUID::from_components(ty, Eid::new(fact.id()), None)))
        }
    };
    Some(CedarValue { value: ValueKind::Lit(literal), loc: None })
}

fn evaluation_error(error: &EvaluationError) -> EvalError {
    match error {
        EvaluationError::RecordAttrDoesNotExist(_) => EvalError::AttributeAbsent,
        EvaluationError::IntegerOverflow(_) => EvalError::Overflow,
        EvaluationError::TypeError(_) => EvalError::Type,
        EvaluationError::RecursionLimit(_) => EvalError::TooDeep,
        _ => EvalError::Other,
    }
}
