//! Every limit of the domain in one place, each with its reason.
//!
//! A limit here is part of the meaning of a ledger: changing one changes what `decide` answers, so a change needs a new
//! format version (I3).

/// Longest fact, agent or parameter-built identifier in bytes; ids are names, not documents.
pub const ID_BYTES_MAX: usize = 256;

/// Longest action body in bytes. A leaf and its payload must stay readable by C2SP clients, whose bundles cap a leaf at
/// 64 KiB; the body is the only part of a record that an agent sizes.
pub const BODY_BYTES_MAX: usize = 48 * 1024;

/// Largest canonical value of one fact in bytes, so that a record with several writes stays small.
pub const FACT_BYTES_MAX: usize = 16 * 1024;

/// Largest pact source in bytes; it is stored in one payload.
pub const PACT_BYTES_MAX: usize = 256 * 1024;

/// Most actions of one batch: one signature, one answer, and a leaf that lists the ids of all.
pub const BATCH_ACTIONS_MAX: usize = 256;

/// Most actions of one atomic group. They are decided and committed at once, so no one else has a turn between them.
pub const GROUP_ACTIONS_MAX: usize = 32;

/// Deepest nesting of JSON that is read from outside.
pub const JSON_DEPTH_MAX: usize = 16;

/// Most facts one action may read, and one observation may show.
pub const READS_MAX: usize = 32;

/// Most observation tokens one action may carry.
pub const OBSERVATIONS_MAX: usize = 16;

/// Most bytes of values in one observation that is an entry: about as much as an agent can have written by sending it.
pub const ATTESTED_BYTES_MAX: usize = 64 * 1024;

/// Most distinct facts that one budget on observing has room for in a window: all of them are kept in memory, with every snapshot.
pub const OBSERVING_DISTINCT_MAX: i64 = 10_000;

/// Longest window of a budget on observing: what counts to one that is open is not erased.
pub const OBSERVING_PER_MS_MAX: u64 = 31 * 24 * 60 * 60 * 1000;

/// Most budgets on observing of one grant.
pub const OBSERVING_BUDGETS_MAX: usize = 4;

/// Most facts that are counted in all open windows together, 16 bytes each.
pub const OBSERVING_COUNTED_MAX: usize = 1 << 18;

/// How deep a chain of reads through attributes of facts already read may go.
pub const READ_DEPTH_MAX: usize = 4;

/// Most readings of one session: all of them are read again for a write that narrows them in no way.
pub const READINGS_MAX: usize = 200;
/// How many tools are told apart that were read when a session had that many readings: their names stand in the fact of the session.
pub const BEYOND_MAX: usize = 8;
/// Most tools of a session of which it is noted that they answered and are not asked again. With as many readings, they fit its fact.
pub const ANSWERING_TOOLS_MAX: usize = 32;
/// How many changes an action type names: each is a fence, and a part of a turn.
pub const CHANGES_MAX: usize = 32;
/// Most names of readings whose delivery a write may call unsure: each of a session twice.
pub const UNSURE_MAX: usize = 2 * READINGS_MAX;
/// Most bytes that the index of values of one session takes: the values themselves, and some for each.
pub const CARRIED_BYTES_MAX: usize = 512 * 1024;
/// Most values in it that begin alike: all of them are looked at where a text has such a beginning.
pub const CARRIED_LIKE_MAX: usize = 64;
/// Most bytes of readings that are read for such an index, and as many of what a write says are looked for in it: everyone else waits
/// meanwhile. The largest body fits, with its parts in every spelling.
pub const CARRIED_WORK_MAX: usize = 512 * 1024;
/// Most preconditions of one action type; every one of them is evaluated for every action.
pub const PRECONDITIONS_MAX: usize = 64;

/// Largest integer that JSON readers everywhere agree on (RFC 8785 section 3.2.2.3).
pub const INTEGER_MAX: i64 = (1 << 53) - 1;

/// Shortest idempotency key in characters: 22 base64 characters carry 128 bits, which makes the action id unguessable.
pub const IDEMPOTENCY_KEY_CHARS_MIN: usize = 22;

/// Longest idempotency key in characters.
pub const IDEMPOTENCY_KEY_CHARS_MAX: usize = 128;

/// How long an idempotency key is remembered, in ledger time.
pub const IDEMPOTENCY_KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// Most lines of one entry of denials that name an agent; what does not fit is counted by code alone.
pub const DENIAL_LINES_MAX: usize = 256;

/// Longest sample of what was denied, in bytes.
pub const DENIAL_SAMPLE_BYTES_MAX: usize = 256;

/// How long a review waits for a person before it expires, in ledger time.
pub const REVIEW_EXPIRES_MS: u64 = 60 * 60 * 1000;

/// Most actions that wait for a person at a time; each is kept whole in memory. Past it, actions are rejected.
pub const REVIEWS_MAX: usize = 1024;

/// Most actions of one agent that wait for a person at a time: no one takes the places of others.
pub const REVIEWS_PER_AGENT_MAX: usize = 256;

/// How many ended reviews are remembered, to say how they ended and to answer a repeated key with what became of it.
pub const CLOSED_REVIEWS_MAX: usize = 65_536;

/// How long after it was shown an approval may be good, in ledger time: what a person saw goes stale as well.
pub const APPROVAL_EXPIRES_MS: u64 = 10 * 60 * 1000;

/// Most scopes that are halted at a time; each action is checked against all that concern it, and all are in every snapshot.
pub const HALTS_MAX: usize = 4096;

/// Longest reason that an operator gives, in bytes; rejections quote it.
pub const REASON_BYTES_MAX: usize = 1024;

/// Most action types of one pact; each is type-checked on its own when the pact is loaded.
pub const ACTION_TYPES_MAX: usize = 128;

/// Most grants on one fact type in one pact; every one of them is evaluated for every observation of such a fact.
pub const GRANTS_MAX: usize = 32;

/// Most fact types that one pact declares.
pub const FACT_TYPES_MAX: usize = 128;

/// Most budgets that one pact defines by name, as many as it has action types.
pub const NAMED_BUDGETS_MAX: usize = 128;

/// Most budgets of one action type; every one of them is charged for every action.
pub const BUDGETS_MAX: usize = 16;

/// Longest expression in bytes; with the two limits below it bounds the depth of its tree, and thereby the stack that
/// parsing, checking and evaluating it take.
pub const EXPRESSION_BYTES_MAX: usize = 4096;

/// Deepest nesting of brackets and conditionals in an expression.
pub const EXPRESSION_DEPTH_MAX: usize = 24;

/// Most words, numbers, strings and signs in an expression.
pub const EXPRESSION_TOKENS_MAX: usize = 512;

/// Most bytes of expected and actual values that one rejection quotes; beyond, values are named by their digest, so that
/// an explanation can never outgrow its record.
pub const EXPLAINED_BYTES_MAX: usize = 64 * 1024;

/// Most payloads that one erasure names: its leaf lists them, and must stay a leaf.
pub const ERASED_MAX: usize = 2048;

/// Longest delegation token in bytes of its text: it stands in the body, beside parameters and observations.
pub const DELEGATION_BYTES_MAX: usize = 16 * 1024;

/// Largest chain in bytes of its canonical form. A token names each text once and may use it often, so it can unfold to far
/// more than its own length.
pub const CHAIN_BYTES_MAX: usize = 32 * 1024;

/// Most hops of one delegation; every member is looked up, and charged, for every action.
pub const DELEGATION_HOPS_MAX: usize = 8;

/// Most claims that stand at a time; all are kept in memory and in every snapshot.
pub const CLAIMS_MAX: usize = 4096;

/// Most claims of one agent that stand at a time: one agent cannot use up the claims of all.
pub const CLAIMS_PER_AGENT_MAX: usize = 256;

/// Most facts of one claim, as many as one action reads.
pub const CLAIM_FACTS_MAX: usize = READS_MAX;

/// Longest claim in ledger time, extensions included, whatever a pact says: an announcement that lasts longer is no
/// announcement.
pub const CLAIM_MS_MAX: u64 = 60 * 60 * 1000;

/// Most effects under way at a time, cooling, dispatched or in doubt; each is kept whole in memory.
pub const EFFECTS_MAX: usize = 65_536;

/// Most effects of one agent that are under way at a time: one agent cannot use up the places of all.
pub const EFFECTS_PER_AGENT_MAX: usize = 16_384;

/// How many ended effects are remembered, to answer a repeated key with what became of it.
pub const ENDED_EFFECTS_MAX: usize = 65_536;

/// Most feeds that wait for a steady fence to end; past it, feeds of fenced facts are refused.
pub const HELD_FEEDS_MAX: usize = 4096;

/// Longest that an action waits for a fence, in ledger time. Longer waits are a matter of the agent's own plan.
pub const WAIT_MS_MAX: u64 = 60 * 1000;

/// Most bytes of what the outside answered that an entry keeps.
pub const RESULT_BYTES_MAX: usize = 16 * 1024;

/// Longest sentence, in bytes, that an entry keeps about an outcome; the other side words it in part.
pub const SUMMARY_BYTES_MAX: usize = 1024;

/// Most bytes of facts read outside, and of what was sent on them, that a settlement keeps: half of a payload, since it also holds
/// what it writes.
pub const JUDGED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Longest path, argument or statement of a call, in bytes.
pub const CALL_TEXT_BYTES_MAX: usize = 8 * 1024;

/// Most arguments, statements or body members of one call.
pub const CALL_PARTS_MAX: usize = 64;

/// How often a call may be tried again.
pub const RETRIES_MAX: u32 = 20;

/// Longest query or statement in bytes; every attempt sends it.
pub const SQL_BYTES_MAX: usize = 8192;

/// Most parameters of one SQL statement.
pub const SQL_PARAMS_MAX: usize = 64;

/// Entries that one entry may name as what led to it: enough for a review of many readings, and a leaf still has room.
pub const BECAUSE_OF_MAX: usize = 64;

/// Labels of one entry: as many names as a gate may have.
pub const LABELS_MAX: usize = 16;

/// The highest severity.
pub const SEVERITY_MAX: u64 = 100;

/// Full confidence, in thousandths.
pub const CONFIDENCE_MAX: u64 = 1000;

/// Organisations that one entry counts for or against.
pub const SCORES_MAX: usize = 32;
