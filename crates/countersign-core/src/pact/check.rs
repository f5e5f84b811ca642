//! Type-checking the expressions of one action type.
//!
//! Two checks are needed. `Expression::compile` sees to it that only declared reads can be reached; Cedar's strict
//! validator sees to it that types agree and that nothing optional is used unguarded. For the second, each expression is
//! wrapped as a policy against the derived schema, and what Cedar says is brought back to the text of the pact.

mod grant;
mod size;

use super::catalogue::AGENT;
use super::diagnostic::Problems;
use super::reads::Reads;
use super::schema::{self, Signature};
use super::source::Text;
use super::{Params, Presence, ReadingType};
use crate::expression::{Base, Expression, Mention, Scope};
use crate::value::{FieldType, ValueType};
use cedar_policy_core::ast::Expr;
use cedar_policy_core::extensions::Extensions;
use cedar_policy_core::validator::{ValidationError, ValidationMode, ValidationWarning, Validator, ValidatorSchema};
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::str::FromStr as _;
use std::sync::{Arc, LazyLock};

/// Checks the expressions of one action type.
pub(super) struct Checker<'a> {
    action: &'a str,
    params: &'a Params,
    reads: &'a Reads,
    scope_reads: Vec<(SmolStr, Presence)>,
    readings: &'a BTreeMap<SmolStr, Arc<ReadingType>>,
    scope_readings: Vec<SmolStr>,
    validator: Validator,
}

/// The field of the context that a checked value is compared with. Names that start like this cannot be declared.
const TARGET: &str = "__target_";

/// The types of what can be sent outside.
static SENDABLE: LazyLock<[ValueType; 6]> = LazyLock::new(|| {
    let set = |element| ValueType::Set(Box::new(element));
    let scalars = [ValueType::String, ValueType::Long, ValueType::Bool, ValueType::Decimal];
    let [text, number, truth, decimal] = scalars;
    [text, number, truth, decimal, set(ValueType::String), set(ValueType::Long)]
});

fn target(ty: &ValueType) -> String {
    let name: String = ty.to_string().chars().filter(char::is_ascii_alphanumeric).collect();
    format!("{TARGET}{name}")
}

impl<'a> Checker<'a> {
    /// Derives the schema of one action type; only the fact types it reads are in it.
    pub(super) fn new(
        action: &'a str,
        params: &'a Params,
        reads: &'a Reads,
        require_observation: bool,
        readings: &'a BTreeMap<SmolStr, Arc<ReadingType>>,
        span: &Range<usize>,
        problems: &mut Problems,
    ) -> Option<Self> {
        let mut text = String::new();
        let mut entities = BTreeMap::from([(AGENT.to_owned(), super::catalogue::agent_schema())]);
        let mut targets = BTreeMap::new();
        for (read, schema) in reads.reads.iter().zip(&reads.schemas) {
            entities.insert(read.ty.to_string(), schema.clone());
            targets.extend(schema.values().map(|field| (target(&field.ty), &field.ty)));
        }
        for (name, schema) in &entities {
            schema::entity(&mut text, name, schema);
        }
        targets.extend(SENDABLE.iter().map(|ty| (target(ty), ty)));
        let targets: Vec<(String, &ValueType)> = targets.into_iter().collect();
        schema::action(&mut text, &Signature::new(action, params, reads, require_observation, readings), &targets);
        let derived = ValidatorSchema::from_cedarschema_str(&text, Extensions::all_available());
        match derived {
            Ok((schema, _)) => {
                let scope_reads = reads.reads.iter().map(|read| (read.name.clone(), read.presence)).collect();
                let scope_readings = readings.keys().cloned().collect();
                Some(Self {
                    action,
                    params,
                    reads,
                    scope_reads,
                    readings,
                    scope_readings,
                    validator: Validator::new(schema),
                })
            }
            Err(error) => {
                let message = format!("no Cedar schema follows from action `{action}`: {error}");
                problems.error(span, message, "rename the parameter, read or attribute that it names");
                None
            }
        }
    }

    /// Checks a condition.
    pub(super) fn condition(&self, text: &Text<'_>, problems: &mut Problems) -> Option<Expression> {
        let compiled = self.compile(text, problems);
        self.check_scales(text, compiled.as_ref().ok(), None, problems);
        let refused = match &compiled {
            Ok(_) => &[][..],
            Err(refused) => refused,
        };
        let sound = self.validate(text, "\n)", None, refused, problems);
        compiled.ok().filter(|_| sound)
    }

    /// Checks an expression for the value of an attribute.
    pub(super) fn value(&self, text: &Text<'_>, field: &FieldType, problems: &mut Problems) -> Option<Expression> {
        let compiled = self.compile(text, problems);
        // Cedar cannot type an empty set by itself; as the value of a set it is the only thing it can be.
        let empty_set: String = text.value.chars().filter(|c| !c.is_whitespace()).collect();
        if empty_set == "[]" && matches!(field.ty, ValueType::Set(_)) {
            return compiled.ok();
        }
        let scale = if let ValueType::Money(scale) = field.ty { Some(scale) } else { None };
        self.check_scales(text, compiled.as_ref().ok(), scale, problems);
        let suffix = format!("\n) == context.{}", target(&field.ty));
        let refused = compiled.as_ref().err().map_or(&[][..], Vec::as_slice);
        let sound = self.validate(text, &suffix, Some(&field.ty), refused, problems);
        compiled.ok().filter(|_| sound)
    }

    /// Checks an expression for a value that is sent outside: a string, an integer, a truth, or a set of these.
    pub(super) fn any_value(&self, text: &Text<'_>, problems: &mut Problems) -> Option<Expression> {
        let expression = self.compile(text, problems).ok()?;
        let fits = |ty: &&ValueType| {
            let suffix = format!("\n) == context.{}", target(ty));
            self.validate(text, &suffix, Some(ty), &[], &mut Problems::default())
        };
        if SENDABLE.iter().any(|ty| fits(&ty)) {
            return Some(expression);
        }
        // What is wrong shows best where the value is taken for a text.
        let text_type = FieldType { ty: ValueType::String, required: true };
        self.value(text, &text_type, problems)
    }

    /// Refuses money of two scales as if it were of one: 5.00 and 5.000 are 500 and 5000.
    fn check_scales(
        &self,
        text: &Text<'_>,
        compiled: Option<&Expression>,
        of_value: Option<u8>,
        problems: &mut Problems,
    ) {
        let read = |at: &usize, name: &SmolStr| self.reads.schemas.get(*at)?.get(name);
        let field = |mention: &Mention| match mention {
            Mention::Param(name) => self.params.types.get(name),
            Mention::Attribute(Base::Read(at), name) | Mention::Observed(at, name) => read(at, name),
            Mention::Reading(reading, name) => self.readings.get(reading)?.attributes.get(name),
            _ => None,
        };
        let scale = |mention: &Mention| match field(mention)?.ty {
            ValueType::Money(scale) => Some(scale),
            _ => None,
        };
        if let Some((one, other)) = compiled.and_then(|compiled| compiled.mixed_scales(&scale, of_value)) {
            let message = format!("this mixes money with {one} and with {other} digits behind its point");
            let factor = 10_i64.checked_pow(u32::from(other.abs_diff(one))).unwrap_or_default();
            let hint = format!("bring both to one scale first: multiply what has {one} digits by {factor}");
            problems.error(&text.content(), message, hint);
        }
    }

    /// Compiles an expression, or tells the places inside it that were refused.
    fn compile(&self, text: &Text<'_>, problems: &mut Problems) -> Result<Expression, Vec<Range<usize>>> {
        let everything = || std::iter::once(0..text.value.len()).collect();
        if let Some((message, hint)) = size::too_large(text.value) {
            problems.error(&text.content(), message, hint);
            return Err(everything());
        }
        let scope = Scope { params: &self.params.types, reads: &self.scope_reads, readings: &self.scope_readings };
        match Expression::compile(text.value, &scope) {
            Ok(expression) if self.reads_what_exists(text, &expression, problems) => Ok(expression),
            Ok(_) => Err(everything()),
            Err(errors) => {
                let parses = Expr::from_str(text.value).is_ok();
                let spans = if parses { errors.iter().map(|error| error.span.clone()).collect() } else { everything() };
                for error in errors {
                    let hint = error.hint.unwrap_or_else(|| syntax_hint(text.value));
                    problems.error(&text.part(&error.span), error.message, hint);
                }
                Err(spans)
            }
        }
    }

    /// Refuses a staleness that no observation could satisfy. Without a fact in the condition, it counts from the
    /// observation of the resource.
    pub(super) fn check_stale_after(&self, that: &Expression, span: &Range<usize>, problems: &mut Problems) {
        let mut facts: BTreeSet<usize> = that.facts().collect();
        if facts.is_empty() {
            facts.insert(0);
        }
        let created = |read: &usize| {
            let read = self.reads.reads.get(*read);
            read.is_some_and(|read| read.presence == Presence::Create)
        };
        if facts.iter().any(created) {
            let message = "`stale_after` counts from an observation, but the action creates that fact";
            let hint = "remove it, or put it on a precondition that reads a fact that exists";
            problems.error(span, message, hint);
        }
    }

    /// Refuses an age that no source could keep: of no fact at all, or of one that is about to be created.
    pub(super) fn check_max_staleness(&self, that: &Expression, span: &Range<usize>, problems: &mut Problems) {
        let facts: BTreeSet<usize> = that.facts().collect();
        let read = |at: &usize| self.reads.reads.get(*at);
        if facts.is_empty() {
            let message = "`max_staleness` is the age of a fact, and this condition reads none";
            problems.error(span, message, "put it on a precondition that reads a fact, or on the fact type");
        } else if facts.iter().filter_map(read).any(|read| read.presence == Presence::Create) {
            let message = "`max_staleness` counts from what a source said, but the action creates that fact";
            problems.error(span, message, "remove it, or put it on a precondition that reads a fact that exists");
        }
    }

    /// Refuses what a fact cannot have because the action is only about to create it.
    fn reads_what_exists(&self, text: &Text<'_>, expression: &Expression, problems: &mut Problems) -> bool {
        let mut refused = BTreeSet::new();
        for (key, mention) in expression.mentions() {
            let read = match mention {
                // The id of the resource is known even before it exists.
                Mention::Entity(Base::Read(read)) if *read != 0 => *read,
                Mention::Attribute(Base::Read(read), _) | Mention::ObservedFact(read) | Mention::Observed(read, _) => {
                    *read
                }
                _ => continue,
            };
            if self.reads.reads.get(read).is_some_and(|read| read.presence == Presence::Create) {
                refused.insert(key.clone());
            }
        }
        for key in &refused {
            let shown = if key.starts_with("resource.") { key.to_string() } else { format!("context.{key}") };
            let at = text.value.find(shown.as_str()).map(|at| at..at + shown.len());
            let span = at.map_or_else(|| text.content(), |at| text.part(&at));
            let message = format!("`{shown}` does not exist yet: the action creates that fact");
            problems.error(&span, message, "use parameters or other facts");
        }
        refused.is_empty()
    }

    /// Lets Cedar check the expression as a policy; whether it found no error. Places that were refused already are not
    /// refused again; if that is the whole expression, Cedar does not get to see it.
    fn validate(
        &self,
        text: &Text<'_>,
        suffix: &str,
        ty: Option<&ValueType>,
        refused: &[Range<usize>],
        problems: &mut Problems,
    ) -> bool {
        if refused.contains(&(0..text.value.len())) {
            return false;
        }
        let prefix = format!("permit(principal, action == Action::\"{}\", resource) when {{ (", self.action);
        // The newline in the suffix ends a comment that the expression may end with.
        let policy = format!("{prefix}{}{suffix} }};", text.value);
        let policies = match cedar_policy_core::parser::parse_policyset(&policy) {
            Ok(policies) => policies,
            Err(error) => {
                let message = format!("this is not a Cedar expression: {error}");
                problems.error(&text.content(), message, syntax_hint(text.value));
                return false;
            }
        };
        let (errors, warnings) = self.validator.validate(&policies, ValidationMode::Strict).into_errors_and_warnings();
        let inside = Inside { text, start: prefix.len(), ty, refused };
        let mut sound = true;
        for error in errors {
            sound = false;
            let optional = matches!(error, ValidationError::UnsafeOptionalAttributeAccess(_));
            let more = if optional { "; where missing is fine, write !(… has … && …)" } else { "" };
            inside.report(&error, |span, message, hint| problems.error(&span, message, hint + more));
        }
        for warning in warnings {
            if let ValidationWarning::ImpossiblePolicy(_) = warning {
                if ty.is_none() && refused.is_empty() {
                    let message = "this condition can never hold";
                    problems.warning(
                        &text.content(),
                        message,
                        "nothing will pass it; compare with a value that can occur",
                    );
                }
                continue;
            }
            inside.report(&warning, |span, message, hint| problems.warning(&span, message, hint));
        }
        sound
    }
}

/// Where an expression stands inside the policy that wraps it.
struct Inside<'a> {
    text: &'a Text<'a>,
    start: usize,
    ty: Option<&'a ValueType>,
    refused: &'a [Range<usize>],
}

impl Inside<'_> {
    fn report(&self, found: &impl miette::Diagnostic, note: impl FnOnce(Range<usize>, String, String)) {
        let whole = 0..self.text.value.len();
        let label = found.labels().and_then(|mut labels| labels.next());
        let span = label.and_then(|label| {
            let start = label.offset().checked_sub(self.start)?;
            let end = start.checked_add(label.len())?;
            (end <= whole.end).then_some(start..end)
        });
        let at = span.clone().unwrap_or(whole);
        if self.refused.iter().any(|refused| refused.start < at.end && at.start < refused.end) {
            return;
        }
        let message = plain(&found.to_string());
        let help = found.help().map(|help| plain(&help.to_string()));
        match (span, self.ty) {
            (Some(span), _) => {
                let hint = help.unwrap_or_else(|| "see the types under `facts` and `params`".to_owned());
                note(self.text.part(&span), message, hint);
            }
            // What Cedar finds outside the expression is the comparison with the type of the attribute.
            (None, Some(ty)) => {
                let hint = format!("the attribute is declared as {ty}: {message}");
                note(self.text.content(), format!("this value is not of type {ty}"), hint);
            }
            (None, None) => {
                let hint = help.unwrap_or_else(|| "a condition is true or false: compare something".to_owned());
                note(self.text.content(), message, hint);
            }
        }
    }
}

/// What Cedar says, without the name of the policy that the author never wrote.
fn plain(message: &str) -> String {
    let rest = message.strip_prefix("for policy `").and_then(|rest| rest.split_once("`, "));
    rest.map_or(message, |(_, rest)| rest).to_owned()
}
/// What to do about a text that is no Cedar expression. A fraction is the usual mistake where money is compared.
fn syntax_hint(text: &str) -> String {
    let is_fraction = |part: &str| {
        let (whole, rest) = part.split_once('.').unwrap_or_default();
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits(whole) && digits(rest)
    };
    let is_apart = |char: char| !char.is_ascii_alphanumeric() && char != '.';
    match text.split(is_apart).find(|part| is_fraction(part)) {
        Some(fraction) => format!(
            "there are no fractions here: money is a whole number of minor units, so {fraction} at scale 2 is {}",
            minor(fraction)
        ),
        None => "see https://docs.cedarpolicy.com for the syntax".to_owned(),
    }
}

/// A fraction in hundredths.
fn minor(fraction: &str) -> String {
    let (whole, rest) = fraction.split_once('.').unwrap_or((fraction, ""));
    let hundredths: String = rest.chars().chain(['0', '0']).take(2).collect();
    let all = format!("{whole}{hundredths}");
    let plain = all.trim_start_matches('0');
    if plain.is_empty() { "0".to_owned() } else { plain.to_owned() }
}
