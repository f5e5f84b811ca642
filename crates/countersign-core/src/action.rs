//! An agent's request to do one thing under a pact, as it comes to be decided.

use crate::body::RawBody;
use crate::canonical::Canonical;
use crate::decide::bind;
use crate::delegation::Chain;
use crate::fact::{Fact, Version};
use crate::fence::ClaimId;
use crate::identity::Auth;
use crate::ids::{ActionId, ActionName, AgentId, Digest, FactId, IdError, IdempotencyKey, PactName};
use crate::json::{JsonError, JsonRef, Key, Members, Numbers, Strict, parse_as, to_map};
use crate::limits::{BODY_BYTES_MAX, OBSERVATIONS_MAX, UNSURE_MAX};
use crate::pact::ActionType;
use crate::reason::{BindProblem, Misfit};
use crate::session::SessionName;
use crate::tainted::Tainted;
use crate::value::Attributes;
use serde::de::{Error as _, MapAccess, Visitor};
use serde_json::Value as Json;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// What an action's body says, parsed. It borrows from the body: nothing is copied that will not be kept.
#[derive(Debug, Clone, PartialEq)]
pub struct ActionRequest<'a> {
    pub pact: PactName,
    /// The action type.
    pub action: ActionName,
    /// The caller's key for retries.
    pub idempotency_key: IdempotencyKey<'a>,
    /// The parameters, not yet bound.
    pub params: Members<'a>,
    /// Observation tokens, not yet opened.
    pub observations: Vec<Cow<'a, str>>,
    /// The delegation that it acts under, not yet reduced.
    pub delegation: Option<Cow<'a, str>>,
    /// The claim that it acts under.
    pub claim: Option<ClaimId>,
    /// The session that it is asked for in.
    pub session: Option<SessionName>,
    /// The names of readings of which it is not known whether they reached the agent before it asked for this.
    pub unsure: Vec<Digest>,
}

/// Why a body is not an action.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The body is too long.
    #[error("the body has {0} bytes; at most {BODY_BYTES_MAX} are allowed")]
    TooLong(usize),
    /// The body is not strict JSON.
    #[error("the body is not acceptable JSON: {0}")]
    Json(#[from] JsonError),
    /// A field is missing.
    #[error("field `{0}` is missing")]
    Missing(&'static str),
    /// A field has another type.
    #[error("field `{0}` must be {1}")]
    Type(&'static str, &'static str),
    /// A field is not known.
    #[error(
        "field `{0}` is not known; an action has `pact`, `action`, `idempotency_key`, `params`, `observations`, \
         `delegation`, `claim`, `session` and `unsure`"
    )]
    Unknown(String),
    /// A name is not acceptable.
    #[error("field `{0}`: {1}")]
    Name(&'static str, IdError),
    /// Too many observations.
    #[error("at most {OBSERVATIONS_MAX} observations are allowed, there are {0}")]
    Observations(usize),
    /// Too many readings are unsure.
    #[error("at most {UNSURE_MAX} readings can be unsure, there are {0}")]
    Unsure(usize),
}

impl<'a> ActionRequest<'a> {
    /// Parses an action's body.
    pub fn parse(body: &'a str) -> Result<Self, RequestError> {
        if body.len() > BODY_BYTES_MAX {
            return Err(RequestError::TooLong(body.len()));
        }
        let Fields { pact, action, idempotency_key, params, observations, delegation, claim, session, unsure, unknown } =
            parse_as(body, FieldsVisitor(&Numbers::new(body)))?;
        let text = |field, value| match value {
            Some(JsonRef::String(text)) => Ok(text),
            Some(_) => Err(RequestError::Type(field, "a string")),
            None => Err(RequestError::Missing(field)),
        };
        let pact = PactName::new(text("pact", pact)?).map_err(|e| RequestError::Name("pact", e))?;
        let action = ActionName::new(text("action", action)?).map_err(|e| RequestError::Name("action", e))?;
        let idempotency_key = IdempotencyKey::new(text("idempotency_key", idempotency_key)?)
            .map_err(|e| RequestError::Name("idempotency_key", e))?;
        let params = match params {
            Some(JsonRef::Object(params)) => params,
            Some(_) => return Err(RequestError::Type("params", "an object")),
            None => Members::new(),
        };
        let observations = match observations {
            None => Vec::new(),
            Some(JsonRef::Array(items)) if items.len() > OBSERVATIONS_MAX => {
                return Err(RequestError::Observations(items.len()));
            }
            Some(JsonRef::Array(items)) => items
                .into_iter()
                .map(|item| match item {
                    JsonRef::String(token) => Ok(token),
                    _ => Err(RequestError::Type("observations", "an array of strings")),
                })
                .collect::<Result<_, _>>()?,
            Some(_) => return Err(RequestError::Type("observations", "an array of strings")),
        };
        let delegation = match delegation {
            None => None,
            Some(JsonRef::String(token)) => Some(token),
            Some(_) => return Err(RequestError::Type("delegation", "a string")),
        };
        let claim = match claim {
            None => None,
            Some(JsonRef::String(name)) => {
                Some(name.parse().map_err(|_| RequestError::Type("claim", "the name of a claim, such as clm_812"))?)
            }
            Some(_) => return Err(RequestError::Type("claim", "a string")),
        };
        let (session, unsure) = (read_session(session)?, read_unsure(unsure)?);
        match unknown {
            Some(unknown) => Err(RequestError::Unknown(unknown)),
            None => {
                Ok(Self { pact, action, idempotency_key, params, observations, delegation, claim, session, unsure })
            }
        }
    }
}

fn read_session(session: Option<JsonRef<'_>>) -> Result<Option<SessionName>, RequestError> {
    let not_one = RequestError::Type("session", "the name of a session, such as ses_812");
    match session {
        None => Ok(None),
        Some(JsonRef::String(name)) => name.parse().map(Some).map_err(|_| not_one),
        Some(_) => Err(not_one),
    }
}

fn read_unsure(unsure: Option<JsonRef<'_>>) -> Result<Vec<Digest>, RequestError> {
    let not_one = || RequestError::Type("unsure", "an array of the names of readings");
    let items = match unsure {
        None => return Ok(Vec::new()),
        Some(JsonRef::Array(items)) => items,
        Some(_) => return Err(not_one()),
    };
    if items.len() > UNSURE_MAX {
        return Err(RequestError::Unsure(items.len()));
    }
    let name = |item| match item {
        JsonRef::String(name) => name.parse().map_err(|_| not_one()),
        _ => Err(not_one()),
    };
    items.into_iter().map(name).collect()
}

/// The members of an action's body, each at most once, without a map in between: most requests come this way.
#[derive(Default)]
struct Fields<'a> {
    pact: Option<JsonRef<'a>>,
    action: Option<JsonRef<'a>>,
    idempotency_key: Option<JsonRef<'a>>,
    params: Option<JsonRef<'a>>,
    observations: Option<JsonRef<'a>>,
    delegation: Option<JsonRef<'a>>,
    claim: Option<JsonRef<'a>>,
    session: Option<JsonRef<'a>>,
    unsure: Option<JsonRef<'a>>,
    unknown: Option<String>,
}

struct FieldsVisitor<'n, 'de>(&'n Numbers<'de>);

impl<'de> Visitor<'de> for FieldsVisitor<'_, 'de> {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Fields<'de>, A::Error> {
        let mut fields = Fields::default();
        while let Some(key) = members.next_key_seed(Key)? {
            let value = members.next_value_seed(Strict::member(self.0))?;
            let field = match &*key {
                "pact" => &mut fields.pact,
                "action" => &mut fields.action,
                "idempotency_key" => &mut fields.idempotency_key,
                "params" => &mut fields.params,
                "observations" => &mut fields.observations,
                "delegation" => &mut fields.delegation,
                "claim" => &mut fields.claim,
                "session" => &mut fields.session,
                "unsure" => &mut fields.unsure,
                unknown => {
                    fields.unknown.get_or_insert_with(|| unknown.to_owned());
                    continue;
                }
            };
            if field.replace(value).is_some() {
                return Err(A::Error::custom(format_args!("key `{key}` appears twice")));
            }
        }
        Ok(fields)
    }
}

/// What stands for an agent's idempotency key: the front of a digest, so that keys cost the same however long they are,
/// no one can choose keys that collide, and the key itself need not be kept.
pub type KeyDigest = [u8; 16];

/// What an agent was shown of one fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    pub fact: FactId,
    /// The version shown.
    pub version: Version,
    /// When, in ledger milliseconds.
    pub at_ms: u64,
    /// The value shown; `None` where there was none. Not looked at while the ledger is still at this version.
    pub value: Option<Attributes>,
}

/// Bound parameters, or every reason why they do not fit.
pub type Binding = Result<Attributes, Vec<BindProblem>>;

/// An action, ready to be decided.
#[derive(Debug, Clone)]
pub struct Action {
    /// SHA-256 of the raw body.
    pub id: ActionId,
    /// Who acts.
    pub agent: AgentId,
    /// How that is known.
    pub auth: Auth,
    /// The raw body, kept.
    pub body: Arc<str>,
    /// What stands for the agent's idempotency key.
    pub key: KeyDigest,
    /// The pact it is under.
    pub pact: PactName,
    /// The action type.
    pub action: ActionName,
    /// The observations it carries, opened; at most one for each fact.
    pub observed: Vec<Observed>,
    /// Whether the body carries a delegation.
    pub is_delegated: bool,
    /// The delegation it acts under, reduced; `None` where it acts in its own right.
    pub chain: Option<Arc<Chain>>,
    /// The claim that it acts under.
    pub claim: Option<ClaimId>,
    /// The session that it was asked for in.
    pub session: Option<SessionName>,
    /// The names of readings of which it is not known whether they had reached the agent.
    pub unsure: Vec<Digest>,
    /// The entry of the batch that it came in; `None` where it came alone.
    pub batch: Option<u64>,
    /// The parameters that carry values of labelled content that was shown before, with its labels. The gate finds out when it admits
    /// the action, and the entry keeps it (I8).
    pub tainted: Tainted,
    /// A binding made at admission, good for the pact with this hash only.
    bound: Option<(Digest, Binding)>,
}

impl PartialEq for Action {
    /// By what was sent and by whom. The rest follows from the body.
    fn eq(&self, other: &Self) -> bool {
        let Self { id, agent, auth, observed, chain, tainted, .. } = self;
        let of_other = (&other.id, &other.agent, &other.auth, &other.observed, &other.chain, &other.tainted);
        (id, agent, auth, observed, chain, tainted) == of_other
    }
}

impl Action {
    /// Puts an action together from its body and what that says; of several observations of one fact the latest counts.
    pub fn new(
        agent: AgentId,
        auth: Auth,
        body: Arc<str>,
        request: ActionRequest<'_>,
        observed: Vec<Observed>,
    ) -> Self {
        Self::from_body(agent, auth, &body.into(), request, observed)
    }

    /// The same from a body whose digest may be known: it is the action's id.
    pub fn from_body(
        agent: AgentId,
        auth: Auth,
        body: &RawBody,
        request: ActionRequest<'_>,
        observed: Vec<Observed>,
    ) -> Self {
        let (id, body) = (body.digest(), Arc::clone(body.text()));
        let key = key_digest(&agent, &request.idempotency_key);
        let ActionRequest { pact, action, delegation, claim, session, unsure, .. } = request;
        let (is_delegated, observed) = (delegation.is_some(), latest(observed));
        Self {
            id,
            agent,
            auth,
            body,
            key,
            pact,
            action,
            observed,
            is_delegated,
            chain: None,
            claim,
            session,
            unsure,
            batch: None,
            tainted: Tainted::new(),
            bound: None,
        }
    }

    /// Adds the observations that it carries, where they were opened after it was put together.
    pub fn observe(&mut self, observed: Vec<Observed>) {
        self.observed = latest(observed);
    }

    /// Whose right it uses: the root delegator, or the one who acts.
    pub fn principal(&self) -> &AgentId {
        self.chain.as_ref().map_or(&self.agent, |chain| chain.root())
    }

    /// Binds the parameters ahead of the decision, by the action type of the pact with this hash. They are those that its body was
    /// parsed to.
    pub fn bind_params(&mut self, params: &Members<'_>, pact: Digest, kind: &ActionType) {
        self.bound = Some((pact, bind(kind, params)));
    }

    /// The same for what only has its body.
    pub fn bind(&mut self, pact: Digest, kind: &ActionType) {
        self.bound = Some((pact, self.bind_by(kind)));
    }

    /// The binding by the action type of the pact with this hash: the one made ahead, if it was by that pact.
    pub(crate) fn binding(&self, pact: &Digest, kind: &ActionType) -> Cow<'_, Binding> {
        match &self.bound {
            Some((hash, binding)) if hash == pact => Cow::Borrowed(binding),
            _ => Cow::Owned(self.bind_by(kind)),
        }
    }

    fn bind_by(&self, kind: &ActionType) -> Binding {
        // The body was parsed before, so it parses again. If it did not, nothing would fit it.
        match ActionRequest::parse(&self.body) {
            Ok(request) => bind(kind, &request.params),
            Err(_) => Err(vec![BindProblem { at: String::new(), what: Misfit::NotAnObject }]),
        }
    }

    /// The parameters as sent, read from the body again: an action waits in queues and should be light.
    pub fn params(&self) -> Json {
        ActionRequest::parse(&self.body).map_or(Json::Null, |request| Json::Object(to_map(&request.params)))
    }

    /// Everyone it rests on: the members of its delegation, root first, and the one who acts.
    pub fn members(&self) -> impl Iterator<Item = &AgentId> {
        let members = self.chain.iter().flat_map(|chain| chain.agents());
        let is_named = self.chain.as_ref().is_some_and(|chain| chain.agents().any(|agent| *agent == self.agent));
        members.chain((!is_named).then_some(&self.agent))
    }

    /// What was observed of a fact.
    pub fn observation_of(&self, fact: &FactId) -> Option<&Observed> {
        self.observed.iter().find(|observed| observed.fact == *fact)
    }
}

/// The latest observation of each fact.
fn latest(observed: Vec<Observed>) -> Vec<Observed> {
    let mut latest: Vec<Observed> = Vec::with_capacity(observed.len());
    for observation in observed {
        match latest.iter_mut().find(|seen| seen.fact == observation.fact) {
            Some(seen) if seen.is_before(&observation) => *seen = observation,
            Some(_) => {}
            None => latest.push(observation),
        }
    }
    latest
}

fn key_digest(agent: &AgentId, key: &IdempotencyKey<'_>) -> KeyDigest {
    let Digest(digest) = Digest::of_parts(&[agent.as_str().as_bytes(), b"\0", key.as_str().as_bytes()]);
    digest.first_chunk().copied().unwrap_or_default()
}

impl Observed {
    fn is_before(&self, other: &Self) -> bool {
        (self.at_ms, self.version.number()) < (other.at_ms, other.version.number())
    }

    /// The value as it was observed, given what the ledger holds: where that is still at the version observed, the value is there,
    /// and records leave it out. An external value is never replaced by another.
    pub fn value_with<'a>(&'a self, held: Option<&'a Arc<Fact>>) -> Option<&'a Attributes> {
        match held {
            Some(fact) if self.is_held_as(fact) => fact.value.as_ref(),
            _ => self.value.as_ref(),
        }
    }

    /// Whether the ledger holds the fact at this very version.
    pub fn is_held_as(&self, fact: &Fact) -> bool {
        !fact.written.is_external() && self.version == Version::Number(fact.version())
    }

    /// Writes the observation as it stands in a record, with or without its value.
    pub fn write(&self, out: &mut Canonical, with_value: bool) {
        self.write_with(out, with_value, Canonical::fact);
    }

    /// The same, with the fact written in whichever way.
    pub(crate) fn write_with(&self, out: &mut Canonical, with_value: bool, fact: impl Fn(&mut Canonical, &FactId)) {
        out.open('{');
        out.key("at");
        out.u64(self.at_ms);
        self.version.write_digest(out, "digest");
        out.key("fact");
        fact(out, &self.fact);
        if let Some(value) = self.value.as_ref().filter(|_| with_value) {
            out.key("value");
            value.write(out);
        }
        self.version.write_number(out, "version");
        out.close('}');
    }
}
