//! A pact as it is after loading: checked, typed, and ready to decide by.
//!
//! The text of a pact is TOML (`load`); this is what the text means. Nothing here can be wrong any more: every condition
//! has been type-checked, every template names what exists, every read is wide enough for the conditions. A pact is never
//! changed after it was loaded; its content hash is its identity.

mod action;
pub mod budgets;
mod call;
pub mod catalogue;
pub mod changes;
mod check;
mod claims;
pub mod diagnostic;
pub mod export;
pub mod external;
mod facts;
pub mod load;
pub mod manifest;
pub mod normaliser;
mod observe;
mod params;
mod readings;
mod reads;
mod schema;
mod source;
pub mod sql;
mod template;
pub mod tool_source;
mod writes;

pub use external::{
    AsRead, Atomicity, BodyRule, CallRule, Changes, FactSource, IdPart, ProbeRule, SendRule, SourceRead, TextPart,
    VersionRule,
};
pub use normaliser::Normaliser;
pub use params::Slots;
pub(crate) use params::lower;
pub use readings::ReadingType;
pub use source::duration_ms;

use crate::expression::{Base, Expression, Mention};
use crate::ids::{ActionName, Digest, FactType, PactName};
use crate::value::FieldType;
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The attributes of one fact type.
pub type FactSchema = BTreeMap<SmolStr, FieldType>;

/// Names that conditions use for something else, so that no parameter and no read may have them.
pub(crate) const RESERVED: [&str; 12] = [
    "now",
    "observed",
    "resource",
    "principal",
    "actor",
    "action",
    "context",
    "call",
    // In `context` from a later version on: what a pact may use today must load then.
    "session",
    "readings",
    "rests_on",
    "tainted",
];

/// A loaded pact.
#[derive(Debug)]
pub struct Pact {
    pub name: PactName,
    /// Its version; rises by one with each publication.
    pub version: u64,
    /// SHA-256 of its source text.
    pub hash: Digest,
    /// The text it was loaded from.
    pub source: Arc<str>,
    /// What it is for, in the author's words.
    pub doc: Option<String>,
    /// The fact types it declares.
    pub facts: BTreeMap<FactType, FactSchema>,
    /// Its action types.
    pub actions: BTreeMap<ActionName, ActionType>,
    /// Who may observe which of its facts; what is not granted is withheld.
    pub observe: BTreeMap<FactType, Vec<Grant>>,
    /// Who may announce changes of which facts.
    pub claims: BTreeMap<FactType, Vec<ClaimRule>>,
    /// The fact types whose facts live outside, and where.
    pub sources: BTreeMap<FactType, Arc<FactSource>>,
    /// How long ago the source of a fact may have confirmed it, for the types that say so.
    pub max_staleness: BTreeMap<FactType, u64>,
    /// What its conditions may ask of readings, by name.
    pub readings: BTreeMap<SmolStr, Arc<ReadingType>>,
    /// The budgets that it defines by name, for its own action types and those of other pacts.
    pub budgets: BTreeMap<SmolStr, NamedBudget>,
}

impl PartialEq for Pact {
    /// By its text, from which everything follows.
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

/// Lets some agents announce changes of the facts of one type.
#[derive(Debug)]
pub struct ClaimRule {
    /// Which agents, and of which facts: a condition over `principal` and `resource`.
    pub who: Expression,
    /// The longest that a claim lasts, extensions included.
    pub max_ms: u64,
    /// A higher one takes a fact from a lower.
    pub priority: i64,
    /// What it is for, in the author's words.
    pub doc: Option<String>,
}

/// Lets some agents observe some attributes of the facts of one type.
#[derive(Debug)]
pub struct Grant {
    /// Which agents, and of which facts: a condition over `principal` and `resource`.
    pub who: Expression,
    /// The attributes that they are shown.
    pub attributes: BTreeSet<SmolStr>,
    /// How many distinct facts it shows, to whom together, in which time.
    pub budgets: Vec<ObservingBudget>,
    /// What it is for, in the author's words.
    pub doc: Option<String>,
}

/// How many distinct facts of a type may be observed in a window of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObservingBudget {
    pub distinct: u64,
    pub per_ms: u64,
    pub by: Together,
}

/// Who shares a budget on observing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Together {
    /// Each agent has its own.
    Agent,
    /// All agents of an organisation share one.
    Org,
}

/// The word for resting on readings whose values are carried.
pub const CARRIED: &str = "carried";

/// One action type of a pact.
#[derive(Debug)]
pub struct ActionType {
    pub name: ActionName,
    /// What it is for, in the author's words.
    pub doc: Option<String>,
    /// Whether failed preconditions block.
    pub mode: Mode,
    /// Its parameters.
    pub params: Params,
    /// The facts it reads, in an order in which each template only uses what was read before. The first is `resource`.
    pub reads: Vec<Read>,
    /// Who may do it.
    pub allow: Expression,
    /// The least trust of the acting agent.
    pub min_trust: Option<i64>,
    /// Whether every fact read (except those it creates) must have been observed.
    pub require_observation: bool,
    /// The preconditions.
    pub require: Vec<Require>,
    /// The budgets it is charged to.
    pub budgets: Vec<Budget>,
    /// What it writes, one for each fact written.
    pub writes: Vec<WriteRule>,
    /// What it calls outside.
    pub call: Option<CallRule>,
    /// What its call changes, where that is declared.
    pub changes: Option<Changes>,
    /// What it rests on, where it is guarded as read.
    pub guard: Option<AsRead>,
    /// The readings that its expressions ask about, by name.
    pub readings: Vec<(SmolStr, Arc<ReadingType>)>,
    /// How long it waits for a fence before it is rejected.
    pub wait_ms: u64,
    /// What all its expressions mention, each once.
    pub inputs: Vec<(SmolStr, Mention)>,
}

impl Params {
    /// The words that parameters can take from a list: they say nothing about where they came from.
    pub(crate) fn enumerations(&self) -> Vec<&str> {
        let mut words = Vec::new();
        let mut left = vec![&self.lowered];
        while let Some(schema) = left.pop() {
            match schema {
                serde_json::Value::Object(members) => {
                    let listed = members.get("enum").and_then(|listed| listed.as_array());
                    words.extend(listed.into_iter().flatten().filter_map(|word| word.as_str()));
                    left.extend(members.values());
                }
                serde_json::Value::Array(items) => left.extend(items),
                _ => {}
            }
        }
        words
    }
}

impl ActionType {
    /// What its expressions mention, each once.
    pub(crate) fn mentioned(&self) -> Vec<(SmolStr, Mention)> {
        let mentioned: BTreeMap<_, _> = self.expressions().flat_map(Expression::mentions).cloned().collect();
        mentioned.into_iter().collect()
    }

    /// Its expressions: of its conditions, of what it writes, and of what it sends.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &Expression> {
        let sets = self.writes.iter().flat_map(|rule| match &rule.change {
            Change::Set(sets) => sets.as_slice(),
            Change::Delete => &[],
        });
        std::iter::once(&self.allow)
            .chain(self.require.iter().map(|require| &require.that))
            .chain(sets.map(|(_, expression)| expression))
            .chain(self.call.iter().flat_map(CallRule::sends).flat_map(SendRule::expressions))
    }

    /// Every attribute that decides whether it happens, which facts it reads, what it writes or what it sends. An approval is
    /// good only while all of them are as they were shown.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = (Base, &SmolStr)> {
        let templates = self.reads.iter().flat_map(|read| &read.template).filter_map(|part| match part {
            TemplatePart::Attribute { read, attribute, .. } => Some((Base::Read(*read), attribute)),
            TemplatePart::Literal(_) | TemplatePart::Param { .. } => None,
        });
        let sent = self.call.iter().flat_map(CallRule::sends).flat_map(SendRule::attributes);
        self.expressions().flat_map(Expression::attributes).chain(sent).chain(templates)
    }
}

impl ActionType {
    /// How strong its step from check to use is: that of the weakest fact it reads. Readings are read again right before the call.
    pub fn atomicity(&self) -> Atomicity {
        let on_readings = self.guard.as_ref().map(|_| Atomicity::Rechecked);
        let on_facts = self.reads.iter().map(|read| self.atomicity_on(read));
        on_facts.chain(on_readings).min().unwrap_or(Atomicity::Atomic)
    }

    /// How strong its step from check to use is on one of the facts it reads.
    ///
    /// A request carries one `If-Match`, so of several facts in an HTTP service all but one are bound to nothing; which one is bound
    /// depends on the paths, and those are not known before the action is. So none of them is called `conditional`.
    pub fn atomicity_on(&self, read: &Read) -> Atomicity {
        let Some(source) = &read.outside else { return Atomicity::Atomic };
        let is_path = |read: &&Read| read.outside.as_ref().is_some_and(|it| matches!(it.read, SourceRead::Path(_)));
        if is_path(&read) && self.reads.iter().filter(is_path).count() > 1 {
            return Atomicity::Rechecked;
        }
        source.atomicity()
    }
}

impl Pact {
    /// The limit of a budget that it has: of one of its action types, or of a named one.
    pub fn limit(&self, action: Option<&ActionName>, id: &str) -> Option<&Limit> {
        let Some(action) = action else { return self.budgets.get(id).map(|named| &named.limit) };
        let budget = self.actions.get(action)?.budgets.iter().find(|budget| budget.id == id)?;
        budget.limit(|_| None)
    }

    /// Whether every agent may observe all of every fact of a type that it declares.
    pub fn shows_whole(&self, ty: &FactType) -> bool {
        let (grants, declared) = (self.observe.get(ty), self.facts.get(ty));
        grants.zip(declared).is_some_and(|(grants, declared)| {
            grants.iter().any(|it| &**it.who.text() == "true" && it.attributes.len() == declared.len())
        })
    }

    /// How strong decisions on facts of a type are under this pact: by the weakest of the action types that read one. `None`
    /// where it says nothing about the type.
    pub fn atomicity_on(&self, ty: &FactType) -> Option<Atomicity> {
        let source = self.sources.get(ty).map_or(Atomicity::Atomic, |source| source.atomicity());
        let reads = self.actions.values().flat_map(|action| action.reads.iter().map(move |read| (action, read)));
        let of = reads.filter(|(_, read)| read.ty == *ty).map(|(action, read)| action.atomicity_on(read));
        of.chain(self.facts.contains_key(ty).then_some(source)).min()
    }
}

/// Whether failed preconditions block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A failed precondition rejects the action.
    Enforce,
    /// A failed precondition is recorded and the action takes effect anyway; outside I1.
    Shadow,
}

/// The parameters of an action type.
#[derive(Debug)]
pub struct Params {
    /// The JSON Schema as written in the pact.
    pub schema: serde_json::Value,
    /// The same without references and alternatives, with money and decimals as their units: what binding runs on.
    pub lowered: serde_json::Value,
    /// The lowered schema, compiled.
    pub validator: jsonschema::Validator,
    /// The same schema as slots, where it uses only what they know.
    pub slots: Option<Slots>,
    /// The type of each parameter that conditions can read, derived from the schema. One that may be null may be absent.
    pub types: BTreeMap<SmolStr, FieldType>,
}

/// One fact that an action type reads.
#[derive(Debug)]
pub struct Read {
    /// `resource`, or the name under which conditions see it in `context`.
    pub name: SmolStr,
    /// Its type.
    pub ty: FactType,
    /// How its id is built.
    pub template: Vec<TemplatePart>,
    /// Whether it must exist.
    pub presence: Presence,
    /// Whether it must still be at the very version that was observed.
    pub unchanged: bool,
    /// Where it lives, if not in the ledger.
    pub outside: Option<Arc<FactSource>>,
    /// How long ago its source may have confirmed it.
    pub max_staleness_ms: Option<u64>,
}

/// A part of a fact id template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplatePart {
    /// Text as it stands.
    Literal(SmolStr),
    /// The value of a string or integer parameter.
    Param {
        /// The parameter.
        name: SmolStr,
        /// What makes one spelling of it.
        normalisers: Box<[Normaliser]>,
    },
    /// The value of a string or integer attribute of an earlier read.
    Attribute {
        /// Index of the earlier read.
        read: usize,
        attribute: SmolStr,
        /// What makes one spelling of it.
        normalisers: Box<[Normaliser]>,
    },
}

/// Whether a fact that is read must exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It must exist.
    Required,
    /// It may be missing; conditions guard with `context has name`.
    Optional,
    /// It must not exist; the action creates it.
    Create,
}

/// One precondition.
#[derive(Debug)]
pub struct Require {
    /// Its id within the action type.
    pub id: SmolStr,
    /// What it is for, in the author's words.
    pub doc: Option<String>,
    /// What must hold.
    pub that: Expression,
    /// How old the observation of the facts it reads may be.
    pub stale_after_ms: Option<u64>,
    /// How long ago the source of the facts it reads may have confirmed them.
    pub max_staleness_ms: Option<u64>,
    /// What follows when it does not hold.
    pub on_fail: OnFail,
}

/// What follows when a precondition does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFail {
    /// The action is rejected.
    Reject,
    /// The action waits for a person.
    Review,
    /// The action is rejected, in shadow mode too.
    RejectAlways,
}

/// A budget that an action type charges.
#[derive(Debug)]
pub struct Budget {
    /// Its id within the action type; the name of a named one.
    pub id: SmolStr,
    /// What is added up.
    pub measure: Measure,
    /// How many digits behind the point the units have that are added up, where they are of money.
    pub scale: Option<u8>,
    /// How much it may hold.
    pub limit: LimitRule,
}

/// Where a budget's limit is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitRule {
    /// With the action type, which alone charges it.
    Own(Limit),
    /// In the named budget of this pact, which other action types charge too.
    Named(PactName),
}

/// A limit over a fixed UTC window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The most that one window may hold.
    pub max: i64,
    /// The length of a window; windows start at multiples of it since the epoch.
    pub per_ms: u64,
    /// Who shares the budget.
    pub by: BudgetBy,
}

/// A budget that several action types, of one or several pacts, charge by its name. The pact that defines it owns it.
#[derive(Debug)]
pub struct NamedBudget {
    /// What it is for, in the author's words.
    pub doc: Option<String>,
    /// Whether it counts actions; otherwise it adds up a parameter of each.
    pub is_count: bool,
    /// How many digits behind the point its units have, where it adds up money: cents and dollars are not added to each other.
    pub scale: Option<u8>,
    /// How much it may hold.
    pub limit: Limit,
}

impl Budget {
    /// Its limit. A named one is found in the pact that owns it, as it is now.
    pub fn limit<'a>(&'a self, owner: impl FnOnce(&PactName) -> Option<&'a Pact>) -> Option<&'a Limit> {
        match &self.limit {
            LimitRule::Own(limit) => Some(limit),
            LimitRule::Named(pact) => owner(pact)?.budgets.get(&self.id).map(|named| &named.limit),
        }
    }

    /// The pact that owns it, where it is a named one.
    pub fn owner(&self) -> Option<&PactName> {
        match &self.limit {
            LimitRule::Own(_) => None,
            LimitRule::Named(pact) => Some(pact),
        }
    }
}

/// What a budget adds up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Measure {
    /// The number of actions.
    Count,
    /// The sum of an integer parameter.
    Sum(SmolStr),
}

/// Who shares a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetBy {
    /// Each agent has its own.
    Agent,
    /// All agents share it.
    All,
}

/// What an action type writes to one fact.
#[derive(Debug)]
pub struct WriteRule {
    /// Index of the read that is written.
    pub read: usize,
    /// What is done to it.
    pub change: Change,
}

/// What is done to a fact.
#[derive(Debug)]
pub enum Change {
    /// Attributes are set to the values of expressions over the facts as they were before the action.
    Set(Vec<(SmolStr, Expression)>),
    /// The fact is deleted.
    Delete,
}
