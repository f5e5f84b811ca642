//! What conditions may ask of readings: `[readings.NAME]` says which tool of which server, where in its answer, and which attributes
//! are there. A condition then sees the latest reading of that tool in the session as `context.readings.NAME`.

use super::FactSchema;
use super::diagnostic::Problems;
use super::facts::{check_name, read_attributes};
use super::source::{Table, table};
use crate::json::parse_answer;
use crate::limits::FACT_TYPES_MAX;
use crate::reason::Unusable;
use crate::session::Reading;
use crate::value::Attributes;
use smol_str::SmolStr;
use std::collections::BTreeMap;
use std::sync::Arc;
use toml::de::DeTable;

/// The readings of one tool, as conditions see them.
#[derive(Debug)]
pub struct ReadingType {
    /// The server, by its name in the gate's settings.
    pub upstream: SmolStr,
    pub tool: SmolStr,
    /// Where in what is compared of its answer the attributes are; empty where they are at the top.
    pub at: SmolStr,
    pub attributes: FactSchema,
}

/// Where structured content begins in an answer. Of an answer that says nothing else, it is all that is compared.
const STRUCTURED: &str = "/structuredContent";

impl ReadingType {
    /// The attributes of a reading; what is not there as declared is not guessed (I4).
    pub(crate) fn value(&self, reading: &Reading) -> Result<Attributes, Unusable> {
        let content = reading.content.as_ref().ok_or(Unusable::DigestOnly)?;
        let answer = parse_answer(content).map_err(|_| Unusable::NoSuchPlace)?;
        let inside = || answer.pointer(self.at.strip_prefix(STRUCTURED)?);
        let found = answer.pointer(&self.at).or_else(inside);
        let found = found.and_then(serde_json::Value::as_object).ok_or(Unusable::NoSuchPlace)?;
        Attributes::declared_in(found, &self.attributes).map_err(|_| Unusable::OtherType)
    }
}

/// Reads `[readings.…]`.
pub(super) fn read<'a>(
    source: &'a str,
    declared: &'a DeTable<'a>,
    problems: &mut Problems,
) -> BTreeMap<SmolStr, Arc<ReadingType>> {
    let mut readings = BTreeMap::new();
    if let Some(key) = declared.keys().nth(FACT_TYPES_MAX) {
        let message = format!("a pact declares at most {FACT_TYPES_MAX} readings");
        problems.error(&key.span(), message, "split it into several pacts");
    }
    for (key, node) in declared.iter().take(FACT_TYPES_MAX) {
        let (name, span) = (key.get_ref().as_ref(), key.span());
        if !check_name(name, &span, problems) {
            continue;
        }
        let what = format!("the reading `{name}`");
        let Some(body) = table(node, &what, problems) else { continue };
        let mut body = Table::new(source, body, span, what);
        body.doc(problems);
        let upstream = body.required_string("mcp", "name the server: mcp = \"bank\"", problems);
        let tool = body.string("tool", problems);
        let at = body.string("at", problems);
        if let Some(at) = at.as_ref().filter(|at| !at.value.is_empty() && !at.value.starts_with('/')) {
            let message = format!("`{}` is no place in an answer", super::source::shorten(at.value));
            problems.error(&at.content(), message, "write it as at = \"/structuredContent\", or leave it out");
        }
        if body.get("attributes").is_none() {
            body.missing("attributes", "list them: attributes = { balance = \"Money<2>\" }", problems);
        }
        let attributes = body.table("attributes", problems);
        let attributes = attributes.map(|(_, attributes)| read_attributes(source, attributes, problems));
        body.finish(problems);
        if let (Some(upstream), Some(attributes)) = (upstream, attributes) {
            let tool = tool.map_or_else(|| SmolStr::new(name), |tool| SmolStr::new(tool.value));
            let at = at.map(|at| SmolStr::new(at.value)).unwrap_or_default();
            let reading = ReadingType { upstream: SmolStr::new(upstream.value), tool, at, attributes };
            readings.insert(SmolStr::new(name), Arc::new(reading));
        }
    }
    readings
}
