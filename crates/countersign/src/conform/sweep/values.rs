//! Values for an action type: some under which every precondition holds, and some that break each precondition alone.
//!
//! Found by trying: a value is changed at a time, and kept if no more preconditions fail than before. Which ones fail is evaluated here
//! on the pact's own expressions, and not by `decide`, whose answer is what is tested. The search is the same in every run.

use countersign_core::decide::bind_by_schema;
use countersign_core::expression::{Base, Input, Mention, Source};
use countersign_core::ids::{AgentId, FactId};
use countersign_core::pact::{ActionType, Normaliser, Pact, Presence, Read, TemplatePart};
use countersign_core::value::{Attributes, Value, ValueType};
use serde_json::{Map, Value as Json, json};
use smol_str::SmolStr;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

/// Texts that are ids, in forms that most patterns accept.
const IDS: [&str; 6] = ["one", "two", "three", "ONE", "TWO", "THREE"];

/// Integers to begin with; those that conditions mention come on top.
const LONGS: [i64; 7] = [0, 1, 2, 10, 1_000, 100_000, 10_000_000];

/// How often a search starts over, and how many changes it tries each time.
const STARTS: usize = 64;
const CHANGES: usize = 3_000;

/// Parameters, and the facts as they are.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The parameters.
    pub params: Map<String, Json>,
    /// The facts that exist.
    pub facts: BTreeMap<FactId, Attributes>,
}

/// One action type, and what its values are chosen from.
pub struct Space<'a> {
    pact: &'a Pact,
    kind: &'a ActionType,
    /// The agent's own fact.
    agent: Attributes,
    strings: Vec<SmolStr>,
    longs: Vec<i64>,
}

/// A small generator, the same in every run.
pub struct Dice(u64);

impl Dice {
    /// A generator.
    pub fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(end.max(1)).unwrap_or(1)).unwrap_or_default()
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }
}

impl<'a> Space<'a> {
    /// The space of an action type, for an agent with these roles.
    pub fn new(pact: &'a Pact, kind: &'a ActionType, roles: &[String]) -> Self {
        let texts: Vec<&str> = kind.require.iter().map(|require| &**require.that.text()).collect();
        let said = texts.iter().flat_map(|text| literals(text)).map(SmolStr::from);
        let strings: BTreeSet<SmolStr> = said.chain(IDS.map(SmolStr::from)).collect();
        let longs: BTreeSet<i64> = texts.iter().flat_map(|text| numbers(text)).chain(LONGS).collect();
        let roles: Vec<&str> = roles.iter().map(String::as_str).collect();
        let agent = json!({"org": "conform", "roles": roles, "standing": "active", "trust": 1000});
        let agent = agent.as_object().and_then(|agent| Attributes::from_untyped_json(agent).ok());
        let agent = agent.unwrap_or_else(|| Attributes::from_fields(Vec::new()));
        Self { pact, kind, agent, strings: strings.into_iter().collect(), longs: longs.into_iter().collect() }
    }

    /// A setting in which every precondition holds.
    pub fn good(&self, dice: &mut Dice) -> Option<Setting> {
        for _ in 0..STARTS {
            let mut setting = Setting { params: Map::new(), facts: BTreeMap::new() };
            for name in self.kind.params.types.keys() {
                self.change_param(&mut setting, name, dice);
            }
            let mut failing = usize::MAX;
            for at in 0..CHANGES {
                let mut other = setting.clone();
                if at > 0 {
                    self.change_any(&mut other, dice);
                }
                self.fill(&mut other, dice);
                let failed = self.failed(&other, &other).map_or(usize::MAX, |failed| failed.len());
                if failed == 0 {
                    return Some(other);
                }
                if failed <= failing {
                    (setting, failing) = (other, failed);
                }
            }
        }
        None
    }

    /// The facts changed so that, for an agent that saw them as they were, one precondition fails and no other.
    pub fn broken(&self, good: &Setting, precondition: &str, dice: &mut Dice) -> Option<Setting> {
        let ids = self.resolve(good)?;
        for attempt in 0..STARTS * CHANGES {
            let mut other = good.clone();
            for _ in 0..=attempt / (STARTS * CHANGES / 3) {
                self.change_fact(&mut other, &ids, dice);
            }
            let same = self.resolve(&other).as_ref() == Some(&ids);
            if same && self.failed(&other, good).is_some_and(|failed| failed == [precondition]) {
                return Some(other);
            }
        }
        None
    }

    /// The ids of the preconditions that fail; nothing where the action cannot be decided at all.
    pub fn failed(&self, now: &Setting, seen: &Setting) -> Option<Vec<&'a str>> {
        let params = bind_by_schema(self.kind, now.params.clone()).ok()?;
        let reads = self.resolve(now)?;
        let case = Case { space: self, params: &params, reads: &reads, now, seen };
        let fails = self.kind.require.iter().filter(|require| {
            let inputs = require.that.inputs(&case);
            require.that.holds(&inputs) != Ok(true)
        });
        Some(fails.map(|require| require.id.as_str()).collect())
    }

    /// The facts that the action reads, in the pact's order; nothing where one is missing that must be there, there that must not be,
    /// or written under two names.
    pub fn resolve(&self, setting: &Setting) -> Option<Vec<FactId>> {
        let mut ids = Vec::new();
        for read in &self.kind.reads {
            let id = self.id_of(read, setting, &ids)?;
            let exists = setting.facts.contains_key(&id);
            match read.presence {
                Presence::Required if !exists => return None,
                Presence::Create if exists => return None,
                _ => ids.push(id),
            }
        }
        let written = self.kind.writes.iter().map(|rule| rule.read);
        let is_alone = |at: usize| ids.iter().enumerate().all(|(other, id)| other == at || Some(id) != ids.get(at));
        written.into_iter().all(is_alone).then_some(ids)
    }

    fn id_of(&self, read: &Read, setting: &Setting, earlier: &[FactId]) -> Option<FactId> {
        let mut id = String::new();
        for part in &read.template {
            let (value, normalisers) = match part {
                TemplatePart::Literal(text) => {
                    id.push_str(text);
                    continue;
                }
                TemplatePart::Param { name, normalisers } => (plain(setting.params.get(name.as_str())?)?, normalisers),
                TemplatePart::Attribute { read, attribute, normalisers } => {
                    let value = setting.facts.get(earlier.get(*read)?)?.get(attribute)?;
                    (plain(&value.to_json())?, normalisers)
                }
            };
            let one = |text: String, by: &Normaliser| by.apply(&text).ok().map(Cow::into_owned);
            id.push_str(&normalisers.iter().try_fold(value, one)?);
        }
        FactId::new(read.ty.clone(), id).ok()
    }

    /// Adds the facts that are missing, and removes those that the action creates.
    fn fill(&self, setting: &mut Setting, dice: &mut Dice) {
        let mut ids = Vec::new();
        for read in &self.kind.reads {
            let Some(id) = self.id_of(read, setting, &ids) else { return };
            match read.presence {
                Presence::Create => drop(setting.facts.remove(&id)),
                Presence::Required if !setting.facts.contains_key(&id) => self.renew(setting, &id, dice),
                _ => {}
            }
            ids.push(id);
        }
    }

    fn renew(&self, setting: &mut Setting, id: &FactId, dice: &mut Dice) {
        let Some(schema) = self.pact.facts.get(id.ty()) else { return };
        let fields = schema.iter().filter_map(|(name, field)| Some((name.clone(), self.value(&field.ty, dice)?)));
        setting.facts.insert(id.clone(), Attributes::from_fields(fields.collect()));
    }

    fn change_any(&self, setting: &mut Setting, dice: &mut Dice) {
        let params: Vec<SmolStr> = self.kind.params.types.keys().cloned().collect();
        let ids: Vec<FactId> = setting.facts.keys().cloned().collect();
        let at = dice.below(params.len() + 4 * ids.len());
        match params.get(at) {
            Some(name) => self.change_param(setting, name, dice),
            None => self.change_fact(setting, &ids, dice),
        }
    }

    fn change_param(&self, setting: &mut Setting, name: &SmolStr, dice: &mut Dice) {
        let schema = self.kind.params.lowered.pointer(&format!("/properties/{name}")).cloned().unwrap_or_default();
        let listed = schema.get("enum").and_then(Json::as_array).cloned().unwrap_or_default();
        let least = schema.get("minimum").and_then(Json::as_i64).unwrap_or(1);
        let value = match self.kind.params.types.get(name).map(|field| &field.ty) {
            _ if !listed.is_empty() => dice.pick(&listed).cloned(),
            // Small ones, so that no budget is used up.
            Some(ValueType::Long) => dice.pick(&[least, least + 1, least + 9]).map(|number| json!(number)),
            Some(ValueType::Money(_) | ValueType::Decimal) => dice.pick(&[1, 2, 9]).map(|number| json!(number)),
            Some(ValueType::String) => dice.pick(&IDS).map(|id| json!(id)),
            Some(ty) => self.value(ty, dice).map(|value| value.to_json()),
            None => None,
        };
        if let Some(value) = value {
            setting.params.insert(name.to_string(), value);
        }
    }

    /// Changes one attribute of one of these facts, or makes an optional one appear or go.
    fn change_fact(&self, setting: &mut Setting, ids: &[FactId], dice: &mut Dice) {
        let Some(id) = dice.pick(ids) else { return };
        let Some(there) = setting.facts.get(id) else { return self.renew(setting, id, dice) };
        let is_optional = self.kind.reads.iter().any(|read| read.ty == *id.ty() && read.presence == Presence::Optional);
        if is_optional && dice.below(8) == 0 {
            setting.facts.remove(id);
            return;
        }
        let names: Vec<SmolStr> = there.iter().map(|(name, _)| name.clone()).collect();
        let field = dice.pick(&names).and_then(|name| Some((name, self.pact.facts.get(id.ty())?.get(name)?)));
        let Some((name, value)) = field.and_then(|(name, field)| Some((name.clone(), self.value(&field.ty, dice)?)))
        else {
            return;
        };
        let changed = there.with(vec![(name, value)]);
        setting.facts.insert(id.clone(), changed);
    }

    fn value(&self, ty: &ValueType, dice: &mut Dice) -> Option<Value> {
        match ty {
            ValueType::Bool => Some(Value::Bool(dice.below(2) == 0)),
            ValueType::Long | ValueType::Money(_) => dice.pick(&self.longs).map(|number| Value::Long(*number)),
            ValueType::Decimal => dice.pick(&self.longs).map(|number| Value::Decimal(number.saturating_mul(10_000))),
            ValueType::String => dice.pick(&self.strings).map(|text| Value::String(text.clone())),
            ValueType::Set(of) => {
                let many = dice.below(2);
                let items: Vec<Json> = (0..many).filter_map(|_| Some(self.value(of, dice)?.to_json())).collect();
                Value::from_json(&Json::Array(items), ty, "").ok()
            }
            ValueType::Record(_) => None,
        }
    }
}

static NO_LABELS: LazyLock<Value> = LazyLock::new(|| Value::Set(Arc::default()));

/// One evaluation: the facts as they are, and as they were seen.
struct Case<'a> {
    space: &'a Space<'a>,
    params: &'a Attributes,
    reads: &'a [FactId],
    now: &'a Setting,
    seen: &'a Setting,
}

impl Case<'_> {
    fn fact<'s>(&'s self, setting: &'s Setting, read: usize) -> Option<&'s Attributes> {
        setting.facts.get(self.reads.get(read)?)
    }
}

impl Source for Case<'_> {
    fn input(&self, mention: &Mention) -> Option<Input<'_>> {
        match mention {
            Mention::Param(name) => self.params.get(name).map(Input::Value),
            Mention::Now => Some(Input::Long(now_ms())),
            Mention::Entity(Base::Read(read)) => {
                let id = self.reads.get(*read).filter(|id| *read == 0 || self.now.facts.contains_key(*id))?;
                Some(Input::Fact(Cow::Borrowed(id)))
            }
            Mention::Entity(_) => Some(Input::Fact(Cow::Owned(FactId::of_agent(&AgentId::new("conform").ok()?)))),
            Mention::Attribute(Base::Read(read), name) => self.fact(self.now, *read)?.get(name).map(Input::Value),
            Mention::Attribute(_, name) => self.space.agent.get(name).map(Input::Value),
            Mention::ObservedFact(read) => self.fact(self.seen, *read).map(|_| Input::Present),
            Mention::Observed(read, name) => self.fact(self.seen, *read)?.get(name).map(Input::Value),
            // What is read in a session is no fact that a sweep could feed.
            Mention::Reading(..) => None,
            // The agent of a sweep is shown nothing that has a label.
            Mention::SessionLabels | Mention::RestsOnLabels | Mention::Tainted(_) => Some(Input::Value(&NO_LABELS)),
        }
    }
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// A string or integer as a part of an id.
fn plain(value: &Json) -> Option<String> {
    match value {
        Json::String(text) => Some(text.clone()),
        Json::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The texts in quotes.
pub fn literals(text: &str) -> impl Iterator<Item = &str> {
    text.split('"').skip(1).step_by(2)
}

/// The integers.
fn numbers(text: &str) -> impl Iterator<Item = i64> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples;
    use countersign_core::pact::load::load;

    /// Whatever is added to the examples, the search must find its values: a precondition that cannot fail alone carries nothing.
    #[test]
    fn every_precondition_of_every_example_can_be_broken_alone() {
        for file in examples::ALL {
            let pact = load(file.source).unwrap().pact;
            for kind in pact.actions.values() {
                let space = Space::new(&pact, kind, &[]);
                let mut dice = Dice::new();
                let good = space.good(&mut dice).unwrap_or_else(|| panic!("{} {} has no values", file.name, kind.name));
                assert_eq!(space.failed(&good, &good), Some(vec![]));
                for require in &kind.require {
                    let broken = space.broken(&good, &require.id, &mut dice);
                    let broken = broken.unwrap_or_else(|| panic!("{} {} {}", file.name, kind.name, require.id));
                    assert_eq!(space.failed(&broken, &good), Some(vec![require.id.as_str()]));
                }
            }
        }
    }
}
