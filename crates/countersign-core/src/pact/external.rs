//! What a pact says about the outside: where facts live that are not in the ledger, and what actions call.

use super::Read;
use super::tool_source::ToolSource;
use crate::expression::{Base, Expression};
use crate::ids::ActionName;
use crate::session::Place;
use smol_str::SmolStr;
use std::sync::Arc;

/// Where the facts of a type live, if not in the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactSource {
    /// The adapter that reads them.
    pub adapter: SmolStr,
    /// How one is read.
    pub read: SourceRead,
}

/// How an external fact is read, by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceRead {
    /// A query that gives one row, with the id as `$1`.
    Query(Arc<str>),
    /// A path, in which `{id}` stands for the id.
    Path(Vec<IdPart>),
    /// A tool, its arguments, and where in its result the value is.
    Tool(ToolSource),
}

/// A part of a text that is built from a fact's id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdPart {
    /// Text as it stands.
    Literal(SmolStr),
    Id,
}

impl FactSource {
    /// Whether a tool reads them, of this server and name.
    pub fn is_tool(&self, upstream: &str, tool: &str) -> bool {
        self.adapter == upstream && matches!(&self.read, SourceRead::Tool(source) if source.tool == tool)
    }

    /// Whether it can have a fact of this id.
    pub fn has(&self, id: &str) -> bool {
        match &self.read {
            SourceRead::Tool(source) => source.arguments_for(id).is_some(),
            SourceRead::Query(_) | SourceRead::Path(_) => true,
        }
    }

    /// How strong a decision on such a fact is.
    pub fn atomicity(&self) -> Atomicity {
        match self.read {
            SourceRead::Query(_) => Atomicity::Atomic,
            SourceRead::Path(_) | SourceRead::Tool(ToolSource { version: Some(_), .. }) => Atomicity::Conditional,
            SourceRead::Tool(ToolSource { version: None, .. }) => Atomicity::Rechecked,
        }
    }
}

/// How strong the step from check to use is. The order is from weak to strong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Atomicity {
    /// Read again right before the call. The gate does not know what other calls change, so one of them, or someone past the
    /// gate, can still come between the reading and the call.
    Rechecked,
    /// The outside itself refuses if it has changed since it was read (ETag and If-Match, or a version that goes along).
    Conditional,
    /// One step against everyone: in the ledger, or in a transaction of the user's database.
    Atomic,
}

impl Atomicity {
    /// As it stands in records and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rechecked => "rechecked",
            Self::Conditional => "conditional",
            Self::Atomic => "atomic",
        }
    }
}

/// What an action type calls outside.
#[derive(Debug)]
pub struct CallRule {
    /// The adapter, by its name in the gate's settings.
    pub adapter: SmolStr,
    /// What is sent.
    pub send: SendRule,
    /// How long it cools between intent and dispatch.
    pub after_ms: u64,
    /// How long one attempt may take.
    pub timeout_ms: u64,
    /// How long after the dispatch an attempt may begin.
    pub deadline_ms: u64,
    /// How often it may be tried again when no one knows whether it happened.
    pub retries: u32,
    /// How to find out whether it happened.
    pub probe: Option<ProbeRule>,
    /// The action type that undoes it, and where it is named.
    pub undo: Option<(ActionName, std::ops::Range<usize>)>,
}

/// A read call that tells whether a call happened.
#[derive(Debug)]
pub struct ProbeRule {
    /// What is sent.
    pub send: SendRule,
    /// How long after the last attempt *absent* counts.
    pub absent_after_ms: u64,
    /// Where in a tool's result to look, as a JSON pointer.
    pub at: Option<SmolStr>,
}

/// What is sent, before it is rendered.
#[derive(Debug)]
pub enum SendRule {
    /// An HTTP request.
    Http { method: SmolStr, path: Vec<TextPart>, body: BodyRule },
    Command {
        /// The arguments.
        args: Vec<Vec<TextPart>>,
    },
    /// SQL statements with their parameters.
    Sql { statements: Vec<(Arc<str>, Vec<Expression>)> },
    /// A call of an MCP tool.
    Tool {
        tool: SmolStr,
        arguments: BodyRule,
        /// The versions of facts that go along, so that the tool refuses what has changed.
        versions: Vec<VersionRule>,
        /// Whether a result that is an error means that nothing was done.
        fails_on_error: bool,
    },
    /// A call of whichever MCP tool the parameters name.
    AnyTool {
        /// The parameter that names the server.
        server: SmolStr,
        /// The parameter that names the tool.
        tool: SmolStr,
        /// The parameter that holds its arguments, as JSON.
        arguments: SmolStr,
    },
}

/// What a write rests on that is guarded as read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AsRead {
    /// The tools whose readings count; all where none is named.
    pub rests_on: Vec<SmolStr>,
    /// Whether of those only the readings count whose values the write carries.
    pub carried: bool,
    /// The tools that must have been read in the session.
    pub must_read: Vec<SmolStr>,
    /// How old a reading may be.
    pub stale_after_ms: Option<u64>,
    /// The MCP server that the action calls: a tool that is named without a server is one of it.
    pub server: Option<SmolStr>,
}

impl AsRead {
    /// Whether what was read at a place counts.
    pub fn counts(&self, place: &Place) -> bool {
        self.rests_on.is_empty() || self.rests_on.iter().chain(&self.must_read).any(|tool| self.names(tool, place))
    }

    /// Whether what was read at a place must have been read.
    pub fn must(&self, place: &Place) -> bool {
        self.must_read.iter().any(|tool| self.names(tool, place))
    }

    /// Whether a pact's name of a tool means what was read at a place.
    pub fn names(&self, tool: &str, place: &Place) -> bool {
        match tool.split_once('/') {
            Some((upstream, name)) if place.tool != tool => place.upstream == upstream && place.tool == name,
            _ => place.tool == tool && self.server.as_ref().is_none_or(|server| *server == place.upstream),
        }
    }
}

/// What a call changes outside, as its author says. Nothing else is changed by it, beside its resource where that is external.
#[derive(Debug, Default)]
pub struct Changes {
    /// Servers, by the names of their adapters: anything there may change.
    pub servers: Vec<SmolStr>,
    /// Facts, whose ids are built from parameters alone.
    pub facts: Vec<Read>,
}

/// An argument that takes the version of a fact, as it was read right before.
#[derive(Debug)]
pub struct VersionRule {
    pub argument: SmolStr,
    /// Index of the read.
    pub read: usize,
    /// The attribute that is its version.
    pub attribute: SmolStr,
}

impl CallRule {
    /// Everything that is sent for it: the call, and its probe.
    pub(crate) fn sends(&self) -> impl Iterator<Item = &SendRule> {
        std::iter::once(&self.send).chain(self.probe.as_ref().map(|probe| &probe.send))
    }
}

impl SendRule {
    /// The expressions in it.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &Expression> {
        self.parts().0
    }

    /// Every attribute that it is rendered from, whether by an expression, in a text, or as a version.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = (Base, &SmolStr)> {
        let (expressions, texts, versions) = self.parts();
        let placed = texts.filter_map(|part| match part {
            TextPart::Attribute { read, attribute } => Some((Base::Read(*read), attribute)),
            TextPart::Literal(_) | TextPart::Param(_) | TextPart::Key => None,
        });
        let versions = versions.iter().map(|rule| (Base::Read(rule.read), &rule.attribute));
        expressions.flat_map(Expression::attributes).chain(placed).chain(versions)
    }

    /// All that it is rendered from. Every field is named here, so that a new one cannot be forgotten.
    fn parts(&self) -> (impl Iterator<Item = &Expression>, impl Iterator<Item = &TextPart>, &[VersionRule]) {
        type Parts<'a> = (Option<&'a BodyRule>, &'a [Statement], &'a [Vec<TextPart>], &'a [VersionRule]);
        let (body, statements, texts, versions): Parts<'_> = match self {
            Self::Http { method: _, path, body } => (Some(body), &[], std::slice::from_ref(path), &[]),
            Self::Command { args } => (None, &[], args, &[]),
            Self::Sql { statements } => (None, statements, &[], &[]),
            Self::Tool { tool: _, arguments, versions, fails_on_error: _ } => (Some(arguments), &[], &[], versions),
            Self::AnyTool { server: _, tool: _, arguments: _ } => (None, &[], &[], &[]),
        };
        let members = body.into_iter().flat_map(|body| match body {
            BodyRule::Members(members) => members.as_slice(),
            BodyRule::None | BodyRule::Params => &[],
        });
        let params = statements.iter().flat_map(|(_, params)| params);
        (members.map(|(_, expression)| expression).chain(params), texts.iter().flatten(), versions)
    }
}

/// A statement of SQL, and the expressions that its places are filled from.
type Statement = (Arc<str>, Vec<Expression>);

/// The members of what is sent.
#[derive(Debug)]
pub enum BodyRule {
    /// Nothing.
    None,
    /// The parameters, as they came.
    Params,
    /// The values of expressions.
    Members(Vec<(SmolStr, Expression)>),
}

/// A part of a text that is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextPart {
    /// Text as it stands.
    Literal(SmolStr),
    /// The value of a string or integer parameter.
    Param(SmolStr),
    /// The value of a string or integer attribute of a read.
    Attribute {
        /// Index of the read.
        read: usize,
        attribute: SmolStr,
    },
    /// The idempotency key that the outside is given.
    Key,
}
