//! Calls of MCP tools: what is sent, which versions go along, and what an error means.

use super::{Scope, members};
use crate::pact::diagnostic::{Problems, suggestion};
use crate::pact::reads;
use crate::pact::source::{Table, Text, string};
use crate::pact::template::{Part, parse_text};
use crate::pact::{BodyRule, SendRule, SourceRead, VersionRule};
use smol_str::SmolStr;
use std::ops::Range;

const VERSION_HINT: &str = "name the argument that takes it: if_version = { expected_version = \"resource\" }";

/// Reads what a call of a tool sends.
pub(super) fn read<'a>(scope: &Scope<'_, 'a>, body: &mut Table<'a>, problems: &mut Problems) -> Option<SendRule> {
    let tool = body.required_string("tool", "name the tool: tool = \"transfer\"", problems);
    let arguments = members(scope, body, "arguments", BodyRule::Params, problems);
    let versions = versions(scope, body, problems);
    let fails_on_error = body.choice("on_error", &[("in_doubt", false), ("failed", true)], problems).unwrap_or(false);
    Some(SendRule::Tool { tool: tool?.value.into(), arguments: arguments?, versions: versions?, fails_on_error })
}

/// Reads a call of whichever tool the parameters name: server, tool and arguments are each one parameter.
pub(super) fn any<'a>(
    scope: &Scope<'_, 'a>,
    server: &Text<'a>,
    body: &mut Table<'a>,
    problems: &mut Problems,
) -> Option<(SmolStr, SendRule)> {
    let tool = body.required_string("tool", "name the parameter: tool = \"{tool}\"", problems);
    let arguments = body.required_string("arguments", "name the parameter: arguments = \"{arguments}\"", problems);
    let server = param(scope, server, problems);
    let tool = tool.and_then(|tool| param(scope, &tool, problems));
    let arguments = arguments.and_then(|arguments| param(scope, &arguments, problems));
    Some((SmolStr::default(), SendRule::AnyTool { server: server?, tool: tool?, arguments: arguments? }))
}

/// A text that is one parameter and nothing else.
fn param(scope: &Scope<'_, '_>, text: &Text<'_>, problems: &mut Problems) -> Option<SmolStr> {
    let before = problems.errors();
    let parts = parse_text(text, problems)?;
    let Some((name, span)) = one_param(&parts) else {
        problems.error(&text.content(), "this must be one parameter and nothing else", "write it as \"{server}\"");
        return None;
    };
    reads::check_text_param(name, span, scope.params, problems);
    (problems.errors() == before).then(|| SmolStr::new(name))
}

/// The parameter that a text is, as it was given: a normalised one names another tool than the one that was approved.
fn one_param(parts: &[Part]) -> Option<(&String, &Range<usize>)> {
    match parts {
        [Part::Param(name, normalisers, span)] if normalisers.is_empty() => Some((name, span)),
        _ => None,
    }
}

/// A place in a tool's structured result. What a result says in texts is worded for people, and no place to look for a call.
pub(super) fn structured(at: &Text<'_>, problems: &mut Problems) -> Option<SmolStr> {
    let inside = at.value.strip_prefix("/structuredContent");
    if inside.is_some_and(|inside| inside.is_empty() || inside.starts_with('/')) {
        return Some(at.value.into());
    }
    let hint = "write it as a JSON pointer: at = \"/structuredContent/transfer\"";
    problems.error(&at.content(), "`at` of a probe is a place in `/structuredContent`", hint);
    None
}

/// Which arguments take which versions.
fn versions<'a>(scope: &Scope<'_, 'a>, body: &mut Table<'a>, problems: &mut Problems) -> Option<Vec<VersionRule>> {
    let Some((_, members)) = body.table("if_version", problems) else { return Some(Vec::new()) };
    let reads = &scope.reads.reads;
    let version = |(argument, node)| {
        let argument: &toml::Spanned<std::borrow::Cow<'_, str>> = argument;
        let text = string(scope.source, node, "the name of a fact that is read", problems)?;
        let Some(read) = reads.iter().position(|read| read.name == text.value) else {
            let names: Vec<&str> = reads.iter().map(|read| read.name.as_str()).collect();
            let hint = suggestion(text.value, &names, "it reads");
            problems.error(&text.content(), format!("this action does not read `{}`", text.value), hint);
            return None;
        };
        let Some(attribute) = reads.get(read).and_then(|read| version_of(&read.outside.as_deref()?.read)) else {
            let message = format!("the source of `{}` names no `version`", text.value);
            problems.error(&text.content(), message, "say which attribute it is, in the source: version = \"etag\"");
            return None;
        };
        Some(VersionRule { argument: SmolStr::new(argument.get_ref()), read, attribute })
    };
    let versions: Vec<_> = members.iter().map(version).collect();
    versions.into_iter().collect()
}

/// The attribute that is the version of what a source reads.
fn version_of(read: &SourceRead) -> Option<SmolStr> {
    match read {
        SourceRead::Tool(source) => source.version.clone(),
        SourceRead::Query(_) | SourceRead::Path(_) => None,
    }
}

/// Where a source has a version, every call that rests on its facts sends it: otherwise the outside would not refuse what has
/// changed, and `conditional` would be said of what is not.
pub(super) fn check_versions(scope: &Scope<'_, '_>, span: &Range<usize>, send: &SendRule, problems: &mut Problems) {
    let SendRule::Tool { versions, .. } = send else { return };
    for (at, read) in scope.reads.reads.iter().enumerate() {
        let has_version = read.outside.as_ref().is_some_and(|source| version_of(&source.read).is_some());
        if has_version && !versions.iter().any(|version| version.read == at) {
            let message = format!("`{}` has a version, and this call does not send it", read.name);
            problems.error(span, message, VERSION_HINT);
        }
    }
}
