//! The codes of findings, and the words of each. A record holds the code; the words are for people, and may be improved at any time.
//!
//! `{about}` and `{number}` stand for the data of a finding. A code that `quotes` may also keep what someone else said: a service, a
//! program, a library, a database, a person. No other code keeps a text, so that no sentence of the gate's own enters a record.

use serde::{Deserialize, Serialize};

macro_rules! quotes {
    () => {
        false
    };
    (quotes) => {
        true
    };
}

macro_rules! codes {
    ($($name:ident $(($quotes:ident))? = $code:literal: $words:literal,)*) => {
        /// The kinds of findings, as they stand in records.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        pub enum FoundCode {
            $(#[doc = $words] #[serde(rename = $code)] $name,)*
        }

        impl FoundCode {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// As it stands in records.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $code,)*
                }
            }

            /// Its words, without what they are about.
            pub(super) fn template(self) -> &'static str {
                match self {
                    $(Self::$name => $words,)*
                }
            }

            /// Whether it keeps what someone else said.
            pub fn quotes(self) -> bool {
                match self {
                    $(Self::$name => quotes!($($quotes)?),)*
                }
            }
        }
    };
}

codes! {
    // What became of a call.
    Resolved(quotes) = "resolved": "an operator said what became of it",
    Answered = "answered": "the service answered {number}",
    Exited(quotes) = "exited": "the command ended with exit {number}",
    Signalled(quotes) = "signalled": "the command was ended by signal {about}",
    TimedOut(quotes) = "timed_out": "the command took too long and was ended",
    NotStarted(quotes) = "not_started": "{about} could not be started",
    Stopped = "stopped": "nothing was sent: {about}",
    Blocked = "blocked": "nothing was sent: rejected right before the call ({about})",
    Late = "late": "its deadline passed before it could be sent",
    LogLost = "log_lost": "nothing was sent: the ledger takes no more entries",
    NotSent = "not_sent": "nothing was sent",
    Resting = "resting": "{about} failed too often; no calls are sent to it for another {number} s",
    NoAnswer(quotes) = "no_answer": "the answer was incomplete or never arrived",
    Unsendable(quotes) = "unsendable": "this cannot be sent",
    WrongKind = "wrong_kind": "{about} cannot carry out a call of this kind",
    NoAdapter = "no_adapter": "the gate has no adapter or MCP server `{about}`; add it to its countersign.toml and restart it",
    Unreachable(quotes) = "unreachable": "{about} cannot be reached",
    Unread = "unread": "{about} could not be read",
    Interrupted = "interrupted": "the gate ended while the call was under way",
    Panicked = "panicked": "the adapter failed with an internal error (a panic)",
    TooLong = "too_long": "what was read and sent is too long to keep",
    Committed = "committed": "committed in PostgreSQL with receipt {about}",
    FoundCommitted = "found_committed": "committed in PostgreSQL with receipt {about}, which was found afterwards",
    Void = "void": "the call did not happen: there was no receipt, and a void receipt now prevents it",
    ForeignReceipt = "foreign_receipt": "the call did not happen: the receipt under its key belongs to another call, {about}",
    OfLog = "of_log": "it is of the log {about}",
    CommitUnknown = "commit_unknown": "the outcome of the commit is unknown",
    ReceiptsUnread = "receipts_unread": "the receipts cannot be read",
    Database(quotes) = "database": "PostgreSQL answered with error {about}",
    Misfit = "misfit": "{about} does not fit the pact",
    NotOneRow(quotes) = "not_one_row": "a statement must change one row and would have changed {number}",
    ToolCalled = "tool_called": "{about} was called",
    ToolFailed(quotes) = "tool_failed": "{about} did nothing",
    ToolOver(quotes) = "tool_over": "{about} answered with an error, and whether it did anything is not known",
    ToolError(quotes) = "tool_error": "{about} answered with an error",
    ToolUnclear = "tool_unclear": "{about} gave no clear answer",
    NotApproved = "not_approved": "the tool `{about}` is not approved, or its definition has changed since",
    ProbeFound = "probe_found": "{about} finds it",
    ProbeAbsent = "probe_absent": "{about} finds nothing",
    ProbeUnclear = "probe_unclear": "{about} gave no clear answer",
    // Why nothing was sent or read: the gate itself.
    TurnTaken = "turn_taken": "{about} has the turn",
    TurnAt = "turn_at": "at `{about}` since {time}",
    GateEnded = "gate_ended": "the gate has ended",
    ReadBefore = "read_before": "{about} before it could not be read",
    ReadTooLong = "read_too_long": "reading again took longer than {number} s in all",
    ReadsNoFacts = "reads_no_facts": "{about} reads no facts",
    ReadsNoTools = "reads_no_tools": "`{about}` has no tools that could be read",
    WrongSource = "wrong_source": "{about} cannot read it in this way",
    OtherAdapter = "other_adapter": "it lives with {about}, and the call goes elsewhere",
    ObservedInstead = "observed_instead": "a pact reads facts by {about}; observe those instead",
    NoTime = "no_time": "it took too long",
    // Connections.
    NoAddress = "no_address": "{about} has no address",
    HostNotFound(quotes) = "host_not_found": "{about} was not found",
    AddressNotAllowed = "address_not_allowed": "{about} is not a public address, and `allow_private` does not list it",
    NotEncrypted = "not_encrypted": "{about} is a public address, and the connection to it is not encrypted",
    NotConnected(quotes) = "not_connected": "no connection to {about}",
    NotListening = "not_listening": "nothing listens there",
    TlsFailed(quotes) = "tls_failed": "TLS with {about} failed",
    ConnectionFailed(quotes) = "connection_failed": "the connection failed",
    ConnectionLost = "connection_lost": "the connection was lost after what it rests on was read again",
    ConnectionEnded = "connection_ended": "it ended",
    ConnectionsInUse = "connections_in_use": "all {number} connections are in use",
    ConnectionsEnding = "connections_ending": "{number} connections to it are still ending",
    ClosedHere = "closed_here": "it was closed here",
    OutputClosed = "output_closed": "it closed its output",
    OutputUnreadable(quotes) = "output_unreadable": "its output cannot be read",
    InputUnread = "input_unread": "it has ended, or does not read what it is sent",
    RequestUnread = "request_unread": "it did not read the request before its deadline",
    TakenTooLate = "taken_too_late": "the server did not take it soon enough after the gate had let it pass",
    AnotherUnanswered = "another_unanswered": "other requests to it were not answered in time",
    SessionUnknown = "session_unknown": "it does not know the session any more",
    StreamEnded = "stream_ended": "its stream ended early",
    BuffersFull = "buffers_full": "too many bytes of messages wait already (mcp.buffered_max = {number})",
    NoProgram = "no_program": "no program is named",
    NoEnvironment = "no_environment": "what its environment is set to cannot be read; start the gate again to see why",
    // Requests that cannot be made.
    NothingToSend = "nothing_to_send": "there is nothing to send",
    BadPath = "bad_path": "the path {about} does not stay below the adapter's base",
    BadMethod = "bad_method": "{about} is not an HTTP method",
    BadHeader = "bad_header": "the header {about} is not ASCII text",
    BadArguments = "bad_arguments": "its arguments are not JSON",
    BodyNotAllowed = "body_not_allowed": "{about} has no body",
    NoProbe = "no_probe": "the call has no probe",
    ProbeNotGet = "probe_not_get": "a probe over HTTP is a GET without a body",
    NoEtag = "no_etag": "{about} came without a strong ETag, so the call cannot be bound to what was read; the service must give one",
    NotBound = "not_bound": "several facts were read, and none of them at {about}, so the call cannot be bound to what was read",
    // Answers.
    NoAnswerWithin = "no_answer_within": "no answer within {number} ms",
    BrokenOff(quotes) = "broken_off": "the answer broke off",
    AnswerTooLong = "answer_too_long": "the answer has more than {number} bytes",
    NotText = "not_text": "the answer is not UTF-8",
    NotJson = "not_json": "the answer is not JSON that can be read in one way",
    NotAnObject = "not_an_object": "the answer is not an object",
    NotAMessage = "not_a_message": "it answered {number} without a JSON-RPC message",
    NoMessages = "no_messages": "{number} lines in a row were no messages",
    OtherRequest = "other_request": "it answered another request than the one that it was sent",
    ErrorAnswer(quotes) = "error_answer": "the server returned error {number}",
    HoldsSecret = "holds_secret": "the answer holds a secret of the adapter, which must not go into the ledger",
    // Tools.
    NoTool = "no_tool": "there is no tool {about}",
    UnfitTool = "unfit_tool": "the tool {about} is not fit to be used; `countersign mcp approve {about}` says why",
    ToolUnapproved = "tool_unapproved": "the tool {about} is not approved; an operator reads it and runs: countersign mcp approve {about}",
    ToolChanged = "tool_changed": "the definition of the tool {about} has changed since it was approved; an operator reads it and runs: \
        countersign mcp approve {about}",
    ToolNotRead = "tool_not_read": "{about} is not approved, or no longer, as a tool that the gate reads",
    ToolWrites = "tool_writes": "{about} is approved as a tool that may change something, so no fact is read by it; where it only reads, \
        an admin runs: countersign mcp approve --reads {about}",
    OnlyTools = "only_tools": "agents may use the tools of {about} and nothing else",
    ToolsUnlisted = "tools_unlisted": "it did not list its tools",
    ToolListInvalid = "tool_list_invalid": "its list of tools is not as the protocol says",
    ToolListTooLong = "tool_list_too_long": "its list of tools is too long",
    TaskPromised = "task_promised": "it answered with a task, which is not over",
    AsksForMore = "asks_for_more": "it asks for more, and does not say what it has done",
    UnknownResult = "unknown_result": "it answered with a result of a type that is not known",
    FailureUnclear = "failure_unclear": "it does not say clearly whether it failed",
    // What an answer says of a fact, or of a call that is looked for.
    NothingAt = "nothing_at": "the answer has no {about}; a tool that finds nothing must give null there",
    TextNotJson = "text_not_json": "the text on the way to {about} is not JSON",
    NotAList = "not_a_list": "{about} of the answer is not a list",
    NotOneElement = "not_one_element": "several elements of the list are {about}",
    NotAnObjectAt = "not_an_object_at": "{about} of the answer is not an object",
    EmptyAt = "empty_at": "{about} of the answer is an empty object",
    NotStructured = "not_structured": "it answers without structuredContent, and does not say whether it finds anything",
    ProbeWithoutAt = "probe_without_at": "it answers with an object, and the probe of the pact does not say `at` where to look in it",
    NeitherAt = "neither_at": "it gives neither a value nor null at {about}",
    // Values.
    WrongType = "wrong_type": "`{about}` has the wrong type",
    ExpectedType = "expected_type": "it must be {about}",
    NotWhole = "not_whole": "`{about}` must be a whole number between -(2^53-1) and 2^53-1; write money in minor units",
    TooManyDigits = "too_many_digits": "`{about}` has more than {number} digits behind its point",
    UnknownAttribute = "unknown_attribute": "`{about}` is not an attribute of this type",
    MissingAttribute = "missing_attribute": "`{about}` is required and missing",
    FactTooLarge = "fact_too_large": "it has {number} bytes; a fact has at most 16384",
    TooManyRows = "too_many_rows": "{number} rows were found; its key must find one",
    QueryNotAllowed = "query_not_allowed": "its query is not one that a pact may have",
    Column(quotes) = "column": "column `{about}` cannot be read",
    ItemIsNull = "item_is_null": "an item of the array is NULL",
    NumberNotExact = "number_not_exact": "a number with a fraction or beyond ±(2^53-1) is no value of a fact; scale it: \
        `(price * 100)::bigint`",
    NumberTooLarge = "number_too_large": "a number beyond ±(2^53-1) is no value of a fact; cast it: `::text`",
    TypeNotSupported = "type_not_supported": "type `{about}` has no counterpart in facts; cast it: `::text`, or \
        `extract(epoch from …)::bigint` for a time",
}

impl Default for FoundCode {
    /// What a person says, which is all that a settlement by hand knows.
    fn default() -> Self {
        Self::Resolved
    }
}
