//! Labels in a decision: those of who acts, and those that what it writes will have.

use super::{Deciding, Snapshot, Stage};
use crate::action::Action;
use crate::expression::{Base, Expression, Input, Mention, Source};
use crate::ids::FactId;
use crate::labels::{AttributeLabels, LabelSet, UNTRUSTED, content_of_place, of_attribute};
use crate::pact::WriteRule;
use crate::session::{Held, Session};
use crate::value::Value;
use smol_str::SmolStr;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// What conditions see of what has none.
static NO_LABELS: LazyLock<Value> = LazyLock::new(|| Value::Set(Arc::default()));

/// The smallest number that says where it came from: shorter ones are found anywhere.
const TELLING_MIN: u64 = 1000;

/// The labels that an action is asked for under: of its session, or of its agent where it names none; and of everyone whose right it
/// uses, since what they were shown may be why it is asked for.
pub fn in_force(action: &Action, snapshot: &dyn Snapshot, now_ms: u64) -> LabelSet {
    let labels = snapshot.labels();
    // A session that is not open, or another's, has nothing: then it counts what its agent was shown anywhere.
    let session = action.session.map(|session| session.id);
    let session = session.filter(|session| Session::of(*session, &action.agent, snapshot).is_ok());
    let of_member = |member| labels.in_force(member, session.filter(|_| *member == action.agent), now_ms);
    action.members().flat_map(of_member).collect()
}

/// Whether a value is too short to say where it came from.
fn is_small(value: &Value) -> bool {
    match value {
        Value::Bool(_) => true,
        Value::Long(number) => number.unsigned_abs() < TELLING_MIN,
        _ => false,
    }
}

/// What conditions see of labelled parameters.
pub(super) fn tainted_values(action: &Action) -> BTreeMap<SmolStr, Value> {
    action.tainted.iter().map(|(param, labels)| (param.clone(), as_value(labels))).collect()
}

/// Labels as conditions see them.
fn as_value(labels: &LabelSet) -> Value {
    Value::Set(Arc::new(labels.iter().cloned().map(Value::String).collect()))
}

impl Deciding<'_> {
    /// The labels that the action is asked for under.
    pub(super) fn in_force(&self) -> &LabelSet {
        self.in_force.get_or_init(|| match self.snapshot.labels_before() {
            Some(before) => before.clone(),
            None => in_force(self.action, self.snapshot, self.now_ms),
        })
    }

    /// What conditions see of the labels that it is asked for under.
    pub(super) fn session_labels(&self) -> &Value {
        self.session_labels.get_or_init(|| as_value(self.in_force()))
    }

    /// What conditions see of the labels of what it rests on: of the readings, and of the attributes that its expressions ask for.
    pub(super) fn rests_on_labels(&self) -> &Value {
        self.rests_on_labels.get_or_init(|| as_value(&self.labels_rested_on()))
    }

    /// What conditions see of the labels that a parameter carries: found when the action was admitted, and recorded with it.
    pub(super) fn tainted(&self, param: &str) -> &Value {
        self.tainted.get(param).unwrap_or(&NO_LABELS)
    }

    fn labels_rested_on(&self) -> LabelSet {
        let readings: Vec<FactId> = match self.stage {
            Stage::Intent(_) => self.session_reads().into_iter().map(|read| read.fact).collect(),
            Stage::Dispatch(_, rests_on) => rests_on.iter().map(|(fact, _)| fact.clone()).collect(),
            // External facts are not decided on together with labels: see the loader.
            Stage::Judgement(_) => return self.in_force().clone(),
        };
        let held = readings.iter().filter_map(|fact| Held::of(self.snapshot.fact(fact)?));
        // With what was said of the tool since.
        let of_readings = held.flat_map(|held| {
            let now = content_of_place(&held.reading.place, self.snapshot);
            held.labels.into_iter().chain(now)
        });
        let asked_for = self.kind.inputs.iter().filter(|(_, mention)| matches!(mention, Mention::Attribute(..)));
        of_readings.chain(asked_for.flat_map(|(_, mention)| self.labels_of_mention(mention))).collect()
    }

    /// The labels of a fact after it was set: of the attributes that are set those of what their values are made of, of all others
    /// those that they have. What the action endorses loses the labels that it names.
    pub(super) fn labels_after(
        &self,
        rule: &WriteRule,
        sets: &[(SmolStr, Expression)],
        set: impl Fn(&str) -> Option<Value>,
    ) -> Option<Arc<AttributeLabels>> {
        let resolved = self.reads.get(rule.read)?;
        let before = resolved.live().and_then(|fact| fact.labels.as_deref());
        let is_kept = |name: &SmolStr| !sets.iter().any(|(attribute, _)| attribute == name);
        let kept = before.into_iter().flatten().filter(|(name, _)| is_kept(name));
        let mut after: AttributeLabels = kept.map(|(name, labels)| (name.clone(), labels.clone())).collect();
        let of_type = self.snapshot.labels().of_type(resolved.id.ty());
        // What is external was read since, and the labels of its type are among those before.
        let is_labelled = !of_type.is_empty() || self.snapshot.labels_before().is_some();
        for (attribute, expression) in sets {
            let labels = self.labels_of(expression, set(attribute).as_ref());
            if is_labelled || !labels.is_empty() {
                after.insert(attribute.clone(), labels);
            }
        }
        for (attribute, endorsed) in &rule.endorse {
            let labels = after.entry(attribute.clone()).or_insert_with(|| of_type.clone());
            labels.retain(|label| !endorsed.contains(label));
        }
        (!after.is_empty()).then(|| Arc::new(after))
    }

    /// The labels of what an expression reads: of attributes their own, of parameters those of who acts. A truth, a short number and a
    /// word from a list say nothing of what they were made from.
    fn labels_of(&self, expression: &Expression, result: Option<&Value>) -> LabelSet {
        let mut all = LabelSet::new();
        for (_, mention) in expression.mentions() {
            let mut labels = self.labels_of_mention(mention);
            let is_listed = matches!(mention, Mention::Param(name) if self.kind.params.is_listed(name));
            if is_listed || matches!(self.input(mention), Some(Input::Value(value)) if is_small(value)) {
                labels.remove(UNTRUSTED);
            }
            all.extend(labels);
        }
        if result.is_some_and(is_small) {
            all.remove(UNTRUSTED);
        }
        all
    }

    fn labels_of_mention(&self, mention: &Mention) -> LabelSet {
        let of_read = |read: usize, attribute: &str| {
            let resolved = self.reads.get(read);
            let labels = self.snapshot.labels();
            match resolved.and_then(super::Resolved::live) {
                Some(fact) => of_attribute(labels, fact, attribute).clone(),
                None => resolved.map(|resolved| labels.of_type(resolved.id.ty()).clone()).unwrap_or_default(),
            }
        };
        match mention {
            // All that went into it was gathered when it was dispatched.
            Mention::Param(_) | Mention::Attribute(Base::Read(_), _) | Mention::Observed(..) | Mention::Reading(..)
                if self.snapshot.labels_before().is_some() =>
            {
                self.in_force().clone()
            }
            Mention::Attribute(Base::Read(read), attribute) => of_read(*read, attribute),
            // The version that was observed may have had other labels, and its agent has those since.
            Mention::Observed(read, attribute) => {
                of_read(*read, attribute).into_iter().chain(self.in_force().iter().cloned()).collect()
            }
            Mention::Param(_) | Mention::Reading(..) => self.in_force().clone(),
            Mention::Now
            | Mention::Entity(_)
            | Mention::ObservedFact(_)
            // They say where content came from, and are none.
            | Mention::SessionLabels
            | Mention::RestsOnLabels
            | Mention::Tainted(_)
            | Mention::Attribute(Base::Principal | Base::Actor, _) => LabelSet::new(),
        }
    }
}
