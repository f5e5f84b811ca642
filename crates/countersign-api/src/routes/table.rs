//! The table itself. A new operation is a new row here, and then a handler in the gate, which does not compile without it.

use super::errors::{ACTION, APPROVAL, EFFECT, ENTERED, FEED, LOG, REVIEW};
use super::params::{HISTORY_MAX, PAGE_MAX, actions, days, filter, flag, if_match, limit, position, wait_ms};
use super::{Answer, Body, Callers, Content, Method, Named, Role, Route, Shape};
use crate::error::ErrorCode::*;
use crate::shape::Described;
use crate::{
    ActionRequest, AgentList, ApproveRequest, BatchRequest, BatchResponse, CallerResponse, ClaimEntered,
    ClaimExtension, ClaimList, ClaimRequest, ClockConfirmed, ConsistencyResponse, Effect, EffectList, EntriesResponse,
    EntryResponse, ErasureRequest, ErasureResponse, FactConfirm, FactConfirmed, FactList, FactPut, FactResponse,
    FactWritten, HaltEntered, HaltList, HaltRequest, Health, HistoryResponse, LogKeyRotated, LogKeyRotation,
    ObserveRequest, ObserveResponse, OperatorList, PactChecked, PactList, PactPublished, PactResponse, ReadRequest,
    ReadResponse, Ready, ReceiptResponse, RefuseRequest, Refused, ResolveRequest, ReviewList, ReviewShown,
    SessionClosed, SessionOpened, SessionRequest, UnusedRights, Verdict,
};

/// Largest body of an action, and of everything else that agents send.
pub const ACTION_BYTES_MAX: usize = 48 * 1024;
/// Largest body of a batch of actions.
pub const BATCH_BYTES_MAX: usize = 1 << 20;
/// Largest body of a feed: a fact twice over, since JSON may escape what it writes.
pub const FEED_BYTES_MAX: usize = 2 * 16 * 1024 + 1024;
/// Largest pact.
pub const PACT_BYTES_MAX: usize = 256 * 1024;
/// Largest approval: it carries back all that was shown.
pub const APPROVAL_BYTES_MAX: usize = (1 << 20) + 4096;
/// Largest body of a rotation of the log's key, which is a reason.
pub const LOG_KEY_BYTES_MAX: usize = 8 * 1024;

const READERS: &[Role] = &[Role::Feeder, Role::Auditor, Role::Admin];

const fn json<T: Described>(bytes_max: usize) -> Body {
    Body::Json { shape: Some(Shape::of::<T>()), bytes_max }
}

const fn ok<T: Described>(about: &'static str) -> Answer {
    other(about, Content::Json(Shape::of::<T>()))
}

const fn other(about: &'static str, content: Content) -> Answer {
    Answer { status: 200, about, content, has_etag: false }
}

/// A row with what follows from its first line: an agent is always named in an open gate, an operator where something changes.
const fn row(operation: Operation, method: Method, path: &'static str, tag: &'static str, callers: Callers) -> Route {
    let names = match (callers, method) {
        (Callers::Agent, _) => Some(Named::Agent),
        (Callers::Operator(_) | Callers::Feed, Method::Put | Method::Post | Method::Delete) => Some(Named::Operator),
        _ => None,
    };
    let body = Body::None;
    Route { operation, method, path, callers, names, body, params: &[], answers: &[], errors: &[], tag, about: &[] }
}

macro_rules! routes {
    ($($(#[doc = $about:literal])+ $operation:ident: $method:ident $path:literal, $tag:ident, $callers:ident $(($roles:expr))?
        => { $($member:ident: $value:expr,)* })*) => {
        /// An operation of v1.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Operation {
            $($(#[doc = $about])+ $operation,)*
        }

        /// Every operation of v1.
        pub const ROUTES: &[Route] = &[$(Route {
            about: &[$($about),+],
            $($member: $value,)*
            ..row(Operation::$operation, Method::$method, $path, stringify!($tag), Callers::$callers $(($roles))?)
        },)*];
    };
}

routes! {
    /// Show facts to an agent, and seal what was shown. Writes nothing, unless what is shown is to be attested, or
    /// counts to a budget on observing.
    Observe: Post "/v1/observe", actions, Agent => {
        body: json::<ObserveRequest>(ACTION_BYTES_MAX),
        answers: &[ok::<ObserveResponse>("The facts, and the token to act on")],
        errors: &[ENTERED, LOG, &[NotObservable, ObservingExceeded, SessionNotFound, ExternalUnread, NoAdapter]],
    }
    /// Decide an action and, if everything holds, do it: one step. Safe to retry with the same idempotency key and body.
    Act: Post "/v1/actions", actions, Agent => {
        body: json::<ActionRequest>(ACTION_BYTES_MAX),
        params: &[wait_ms("Where a call follows, wait up to so long for its outcome; 60000 at most")],
        answers: &[ok::<Verdict>("The verdict, durable")],
        errors: &[ENTERED, LOG, ACTION, &[IdempotencyKeyReused, TooManyKeys, SessionNotFound]],
    }
    /// Decide up to 256 actions under one signature, each on its own and in their order; or, with `atomic`, up to 32 that commit all
    /// or none. Safe to retry in whole with the same idempotency keys and bodies.
    ActMany: Post "/v1/actions/batch", actions, Agent => {
        body: json::<BatchRequest>(BATCH_BYTES_MAX),
        params: &[
            actions("SHA-256 of the ids of the actions in their order, covered by the signature; an open gate does not look at it"),
            flag("atomic", "`true`: all actions commit, or none does"),
            wait_ms("Where calls follow, wait up to so long for their outcomes; 60000 at most"),
        ],
        answers: &[ok::<BatchResponse>("What came of each action, durable")],
        errors: &[ENTERED, LOG, ACTION, &[BatchSize, ActionsMismatch, GroupRepeats, IdempotencyKeyReused, TooManyKeys]],
    }
    /// Decide an action on the facts as they are now, and do nothing. Promises nothing about later.
    Check: Post "/v1/actions/check", actions, Agent => {
        body: json::<ActionRequest>(ACTION_BYTES_MAX),
        answers: &[ok::<Verdict>("The verdict that an action would get now")],
        errors: &[ACTION],
    }
    /// What has become of an action of one's own: the verdict as it is now, however long ago the action was asked for.
    GetAction: Get "/v1/actions/{entry}", actions, Agent => {
        params: &[wait_ms("Where a call is under way, wait up to so long for its outcome; 60000 at most")],
        answers: &[ok::<Verdict>("The verdict, durable")],
        errors: &[LOG, &[ActionNotFound]],
    }
    /// Open a session: what is read in it counts for what is done in it.
    OpenSession: Post "/v1/sessions", actions, Agent => {
        body: json::<SessionRequest>(ACTION_BYTES_MAX),
        answers: &[ok::<SessionOpened>("The session, durable")],
        errors: &[ENTERED],
    }
    /// Close a session: what was read in it counts no longer.
    CloseSession: Post "/v1/sessions/{session}/close", actions, Agent => {
        body: Body::Json { shape: None, bytes_max: ACTION_BYTES_MAX },
        answers: &[ok::<SessionClosed>("It is closed, durable")],
        errors: &[ENTERED, &[SessionNotFound]],
    }
    /// Have the gate read a tool that an operator approved as one that only reads, and keep what it answers in a session.
    Read: Post "/v1/sessions/{session}/readings", actions, Agent => {
        body: json::<ReadRequest>(ACTION_BYTES_MAX),
        answers: &[ok::<ReadResponse>("What the tool answered, durable before it is told")],
        errors: &[ENTERED, &[SessionNotFound, ReadingRefused, ExternalUnread, NoAdapter]],
    }
    /// The facts of a type, deleted ones not among them.
    ListFacts: Get "/v1/facts/{type}", facts, Operator(READERS) => {
        params: &[
            filter("after", "Only ids after this one"),
            limit(PAGE_MAX, "How many at most; 100 unless told, never more than 256"),
        ],
        answers: &[ok::<FactList>("The facts, by id")],
        errors: &[&[UnknownFactType]],
    }
    /// The current version of a fact.
    GetFact: Get "/v1/facts/{type}/{id}", facts, Operator(READERS) => {
        answers: &[Answer { has_etag: true, ..ok::<FactResponse>("The fact") }],
        errors: &[&[FactNotFound]],
    }
    /// Feed a fact: replace its value, or make it.
    PutFact: Put "/v1/facts/{type}/{id}", facts, Feed => {
        body: json::<FactPut>(FEED_BYTES_MAX),
        params: &[if_match("The version it must have now, in quotes; \"0\" for none")],
        answers: &[
            ok::<FactWritten>("The fact was written"),
            Answer { status: 202, ..ok::<FactWritten>("The feed is held until no effect in flight relies on the fact") },
        ],
        errors: &[ENTERED, FEED, &[UnknownFactType, InvalidValue]],
    }
    /// Delete a fact. Its version goes on from where it was if it is ever fed again.
    DeleteFact: Delete "/v1/facts/{type}/{id}", facts, Feed => {
        params: &[if_match("The version it must have now, in quotes")],
        answers: &[
            ok::<FactWritten>("The fact was deleted"),
            Answer { status: 202, ..ok::<FactWritten>("The deletion is held until no effect in flight relies on the fact") },
        ],
        errors: &[ENTERED, FEED, &[FactNotFound]],
    }
    /// Say, as its source, that a fact is still so. Makes an entry and no version, so observations of it stay good.
    ConfirmFact: Post "/v1/facts/{type}/{id}/confirm", facts, Feed => {
        body: json::<FactConfirm>(FEED_BYTES_MAX),
        answers: &[ok::<FactConfirmed>("The fact was confirmed")],
        errors: &[ENTERED, &[FactNotFound, VersionMismatch, InvalidValue]],
    }
    /// The versions of a fact, newest first.
    FactHistory: Get "/v1/facts/{type}/{id}/history", facts, Operator(READERS) => {
        params: &[
            position("before", "Only versions below this one"),
            limit(HISTORY_MAX, "How many at most; 20 unless told, never more than 100"),
        ],
        answers: &[ok::<HistoryResponse>("The versions")],
        errors: &[LOG, &[FactNotFound]],
    }
    /// All agents, with their roles, standing and keys.
    ListAgents: Get "/v1/agents", identity, Operator(&[Role::Admin, Role::Auditor]) => {
        answers: &[ok::<AgentList>("The agents")],
    }
    /// What agents could do, by their roles and their trust, and did not ask for within so many days. Reads that much of the log.
    ListUnusedRights: Get "/v1/agents/unused", identity, Operator(&[Role::Admin, Role::Auditor]) => {
        params: &[days("Within how many days; 30 unless told")],
        answers: &[ok::<UnusedRights>("The rights that were not used")],
        errors: &[LOG],
    }
    /// All operators, with their roles, standing and keys.
    ListOperators: Get "/v1/operators", identity, Operator(&[Role::Admin, Role::Auditor]) => {
        answers: &[ok::<OperatorList>("The operators")],
    }
    /// Who the gate takes the caller for: a program can find out at its start that it signs with the wrong key.
    GetCaller: Get "/v1/caller", identity, Known => {
        answers: &[ok::<CallerResponse>("The caller")],
    }
    /// All pacts, each at its current version.
    ListPacts: Get "/v1/pacts", pacts, Known => {
        answers: &[ok::<PactList>("The pacts")],
    }
    /// Publish a pact. Its version must follow the one that is published.
    PublishPact: Post "/v1/pacts", pacts, Operator(&[Role::Publisher]) => {
        body: Body::Toml { bytes_max: PACT_BYTES_MAX },
        answers: &[ok::<PactPublished>("The pact is in force from this entry on")],
        errors: &[ENTERED, &[PactInvalid, PactConflict]],
    }
    /// Whether a pact could be published now: refused with what publishing it would be refused with. Writes nothing.
    CheckPact: Post "/v1/check/pact", pacts, Operator(&[Role::Publisher, Role::Auditor]) => {
        body: Body::Toml { bytes_max: PACT_BYTES_MAX },
        answers: &[ok::<PactChecked>("It could be published, or is already")],
        errors: &[&[PactInvalid, PactConflict]],
    }
    /// One pact with its text.
    GetPact: Get "/v1/pacts/{name}", pacts, Known => {
        answers: &[ok::<PactResponse>("The pact")],
        errors: &[&[PactNotFound]],
    }
    /// Entries of the ledger, in order; with filters, those that match all of them. One request looks at 4096 entries at most, so a
    /// page may be empty and still have a `next`.
    ListEntries: Get "/v1/ledger/entries", ledger, Operator(&[Role::Auditor]) => {
        params: &[
            position("start", "The first entry; 0 unless told"),
            position("end", "The entry to stop before"),
            filter("by", "Only of this agent or operator"),
            filter("kind", "Only of this kind"),
            filter("verdict", "Only with this verdict"),
            filter("pact", "Only under this pact"),
            filter("action", "Only of this action type"),
            filter("fact", "Only those that name this fact, as `Type::\"id\"`"),
            position("since", "Only from this ledger time on, in milliseconds"),
            position("until", "Only before this ledger time, in milliseconds"),
            limit(PAGE_MAX, "How many at most; 100 unless told, never more than 256"),
        ],
        answers: &[ok::<EntriesResponse>("The entries")],
        errors: &[LOG],
    }
    /// One entry.
    GetEntry: Get "/v1/ledger/entries/{index}", ledger, Operator(&[Role::Auditor]) => {
        answers: &[ok::<EntryResponse>("The entry")],
        errors: &[LOG, &[BeyondLog]],
    }
    /// The receipt of an entry under the latest checkpoint.
    GetReceipt: Get "/v1/ledger/receipts/{index}", ledger, AgentOr(&[Role::Auditor]) => {
        answers: &[ok::<ReceiptResponse>("The receipt")],
        errors: &[LOG, &[BeyondLog]],
    }
    /// The proof that an earlier log is the beginning of the present one.
    GetConsistency: Get "/v1/ledger/consistency", ledger, Anyone => {
        params: &[position("old", "The size of the earlier log").required()],
        answers: &[ok::<ConsistencyResponse>("The proof")],
        errors: &[LOG, &[BeyondLog]],
    }
    /// Erase payloads. Leaves and proofs stay, current values are refused, and the erasure is itself an entry.
    Erase: Post "/v1/ledger/erasures", ledger, Operator(&[Role::Admin]) => {
        body: json::<ErasureRequest>(ACTION_BYTES_MAX),
        answers: &[ok::<ErasureResponse>("What was erased, and what had to be kept")],
        errors: &[ENTERED, LOG, &[BeyondLog, EntryInForce, NotErasable]],
    }
    /// What waits for a person.
    ListReviews: Get "/v1/reviews", actions, Operator(&[Role::Reviewer, Role::Auditor]) => {
        answers: &[ok::<ReviewList>("The reviews, oldest first")],
    }
    /// Show a parked action to a reviewer: its parameters whole, its facts as observed and as they are now, and a token that an
    /// approval must carry.
    GetReview: Get "/v1/reviews/{review}", actions, Operator(&[Role::Reviewer]) => {
        names: Some(Named::Operator),
        answers: &[ok::<ReviewShown>("What waits, as it is now")],
        errors: &[REVIEW, &[ExternalUnread, NoAdapter]],
    }
    /// Approve what was shown. The approving entry executes the action, once; where anything that a condition reads has changed
    /// since, it is void and nothing is done.
    Approve: Post "/v1/reviews/{review}/approve", actions, Operator(&[Role::Reviewer]) => {
        body: json::<ApproveRequest>(APPROVAL_BYTES_MAX),
        answers: &[ok::<Verdict>("The action is done")],
        errors: &[ENTERED, LOG, REVIEW, APPROVAL],
    }
    /// Refuse a parked action.
    Refuse: Post "/v1/reviews/{review}/refuse", actions, Operator(&[Role::Reviewer]) => {
        body: json::<RefuseRequest>(ACTION_BYTES_MAX),
        answers: &[ok::<Refused>("It will not be done")],
        errors: &[ENTERED, REVIEW],
    }
    /// The claims that stand.
    ListClaims: Get "/v1/claims", actions, Known => {
        answers: &[ok::<ClaimList>("The claims, oldest first")],
    }
    /// Announce that facts are about to change: until then no one else relies on them.
    Claim: Post "/v1/claims", actions, Agent => {
        body: json::<ClaimRequest>(ACTION_BYTES_MAX),
        answers: &[ok::<ClaimEntered>("The claim holds from this entry on")],
        errors: &[ENTERED, &[ClaimNotAllowed, ClaimHeld, TooManyClaims]],
    }
    /// Extend a claim, up to the longest time that the pact allows.
    ExtendClaim: Post "/v1/claims/{claim}/extend", actions, Agent => {
        body: json::<ClaimExtension>(ACTION_BYTES_MAX),
        answers: &[ok::<ClaimEntered>("Until when it holds now")],
        errors: &[ENTERED, &[ClaimNotFound]],
    }
    /// Withdraw a claim: the facts can be relied on again.
    WithdrawClaim: Post "/v1/claims/{claim}/withdraw", actions, Agent => {
        body: Body::Json { shape: None, bytes_max: ACTION_BYTES_MAX },
        answers: &[ok::<ClaimEntered>("The claim has ended with this entry")],
        errors: &[ENTERED, &[ClaimNotFound]],
    }
    /// Effects under way: cooling, dispatched or in doubt. An agent is shown its own.
    ListEffects: Get "/v1/effects", actions, AgentOr(&[Role::Reviewer, Role::Auditor, Role::Admin]) => {
        answers: &[ok::<EffectList>("The effects, oldest first")],
        errors: &[LOG],
    }
    /// Where an effect is. An agent is shown its own.
    GetEffect: Get "/v1/effects/{effect}", actions, AgentOr(&[Role::Reviewer, Role::Auditor, Role::Admin]) => {
        params: &[wait_ms("Wait up to so long until it has ended or is in doubt; 60000 at most")],
        answers: &[ok::<Effect>("The effect")],
        errors: &[LOG, &[EffectNotFound]],
    }
    /// Say what became of an effect that is in doubt. Its fences end.
    ResolveEffect: Post "/v1/effects/{effect}/resolve", actions, Operator(&[Role::Reviewer]) => {
        body: json::<ResolveRequest>(ACTION_BYTES_MAX),
        answers: &[ok::<Effect>("The effect has ended")],
        errors: &[ENTERED, LOG, EFFECT],
    }
    /// What is halted, and which effects are in flight.
    ListHalts: Get "/v1/halts", gate, Operator(&[Role::Admin, Role::Auditor]) => {
        answers: &[ok::<HaltList>("The halts in force")],
    }
    /// Stop a scope. Goes past everything that has queued, and works while the queue is full; no action of the scope commits in a
    /// later entry.
    Halt: Post "/v1/halts", gate, Operator(&[Role::Admin]) => {
        body: json::<HaltRequest>(ACTION_BYTES_MAX),
        answers: &[ok::<HaltEntered>("The scope is halted from this entry on")],
        errors: &[ENTERED, &[TooManyHalts]],
    }
    /// Lift the halt of exactly this scope.
    Resume: Post "/v1/halts/resume", gate, Operator(&[Role::Admin]) => {
        body: json::<HaltRequest>(ACTION_BYTES_MAX),
        answers: &[ok::<HaltEntered>("The scope is no longer halted from this entry on")],
        errors: &[ENTERED, &[NotHalted]],
    }
    /// Confirm that the wall clock is right after it stepped.
    ConfirmClock: Post "/v1/clock/confirm", gate, Operator(&[Role::Admin]) => {
        answers: &[ok::<ClockConfirmed>("Ledger time follows the wall clock again")],
        errors: &[ENTERED, &[ClockSteady]],
    }
    /// Replace the key that signs the log by a new one. The gate makes it; its private half never leaves the gate.
    RotateLogKey: Post "/v1/keys/log/rotate", gate, Operator(&[Role::Admin]) => {
        body: json::<LogKeyRotation>(LOG_KEY_BYTES_MAX),
        answers: &[ok::<LogKeyRotated>("The entry, and the key that signs from now on")],
        errors: &[ENTERED],
    }
    /// The latest checkpoint, as a signed note.
    GetCheckpoint: Get "/log/checkpoint", log, Anyone => {
        answers: &[other("The checkpoint", Content::Text)],
    }
    /// A tile of hashes (`tile/<level>/<index>`) or a bundle of entries (`tile/entries/<index>`), as C2SP tlog-tiles has them.
    GetTile: Get "/log/{*path}", log, Anyone => {
        answers: &[other("The tile or bundle", Content::Bytes)],
        errors: &[LOG, &[NotFound, BeyondLog]],
    }
    /// Whether the process is alive.
    Healthz: Get "/healthz", gate, Anyone => {
        answers: &[ok::<Health>("It is")],
    }
    /// Whether the gate is ready to decide.
    Readyz: Get "/readyz", gate, Anyone => {
        answers: &[ok::<Ready>("It is")],
        errors: &[&[NotReady]],
    }
    /// Counts for Prometheus.
    Metrics: Get "/metrics", gate, Metrics => {
        answers: &[other("Prometheus text format", Content::Text)],
    }
    /// This document.
    Openapi: Get "/openapi.json", gate, Anyone => {
        answers: &[other("OpenAPI 3.1", Content::OpenApi)],
    }
}
