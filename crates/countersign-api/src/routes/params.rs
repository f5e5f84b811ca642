//! Parameters in paths, queries and headers, and what each accepts. The gate refuses everything else.

use super::Named;

/// Integers stay within what every JSON reader keeps exact.
pub const INTEGER_MAX: u64 = (1 << 53) - 1;

/// Ids of facts, agents and operators are bounded in bytes, which are at least as many as characters.
pub const TEXT_ID_BYTES_MAX: usize = 256;

/// Longest that a request waits for an effect. A caller that wants to wait longer asks again.
pub const WAIT_MS_MAX: u64 = 60_000;

/// Most items of a page, and most versions of a page of a fact's history, which holds whole values.
pub const PAGE_MAX: u64 = 256;
/// See [`PAGE_MAX`].
pub const HISTORY_MAX: u64 = 100;

/// A parameter.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// Where it is.
    pub place: Place,
    /// What it accepts.
    pub accepts: Accepts,
    /// Whether it must be there.
    pub is_required: bool,
    /// What it says.
    pub about: &'static str,
    /// One it could be.
    pub example: Option<&'static str>,
}

/// Where a parameter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the path.
    Path,
    /// In the query.
    Query,
    /// In a header.
    Header,
}

/// What a parameter accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepts {
    /// A whole number within these limits.
    Whole(u64, u64),
    /// Text that matches, of at most so many characters.
    Matching(&'static str, usize),
    /// Any text; what matches nothing finds nothing.
    Text,
    /// The rest of the path, which finds something or does not.
    Rest,
}

/// The longest time that is looked back for rights that were not used, in days.
pub const DAYS_MAX: u64 = 366;

const POSITION: Accepts = Accepts::Whole(0, INTEGER_MAX);

const IDENTIFIER: Accepts = Accepts::Matching("^[A-Za-z_][A-Za-z0-9_]{0,63}$", 64);
const NAME: Accepts = Accepts::Matching("^[A-Za-z_][A-Za-z0-9_-]{0,63}$", 64);
/// No control characters.
const TEXT_ID: Accepts = Accepts::Matching("^[^\\u0000-\\u001f\\u007f-\\u009f]+$", TEXT_ID_BYTES_MAX);
const REVIEW: Accepts = Accepts::Matching("^rev_(0|[1-9][0-9]{0,15})$", 20);
const CLAIM: Accepts = Accepts::Matching("^clm_(0|[1-9][0-9]{0,15})$", 20);
const EFFECT: Accepts = Accepts::Matching("^eff_(0|[1-9][0-9]{0,15})$", 20);
const SESSION: Accepts = Accepts::Matching("^ses_(0|[1-9][0-9]{0,15})(\\.[1-9][0-9]{0,9})?$", 31);
const BOOLEAN: Accepts = Accepts::Matching("^(true|false)$", 5);
const DIGEST: Accepts = Accepts::Matching("^sha-256=:[A-Za-z0-9+/]{43}=:$", 54);
const QUOTED_VERSION: Accepts = Accepts::Matching("^\"[0-9]{1,16}\"$", 18);

/// What varies in a path: the same name is the same thing everywhere. `None` for a name that is not known here.
pub(super) fn in_path(name: &str) -> Option<Param> {
    let (name, accepts, about, example) = match name {
        "entry" => {
            let about = "The entry of the first verdict; of a parked action, the number of its review";
            ("entry", POSITION, about, None)
        }
        "index" => ("index", POSITION, "The entry", None),
        "type" => ("type", IDENTIFIER, "The fact's type", None),
        "id" => ("id", TEXT_ID, "Its id", None),
        "name" => ("name", NAME, "The pact's name", None),
        "review" => ("review", REVIEW, "The review", Some("rev_813")),
        "claim" => ("claim", CLAIM, "The claim", Some("clm_812")),
        "effect" => ("effect", EFFECT, "The effect", Some("eff_813")),
        "session" => ("session", SESSION, "The session", Some("ses_812")),
        "path" => ("path", Accepts::Rest, "The tile's path, slashes included", Some("tile/0/x001/067.p/8")),
        _ => return None,
    };
    Some(Param { name, place: Place::Path, accepts, is_required: true, about, example })
}

/// The header that names the caller of an open gate.
pub(super) fn agent(named: Named) -> Param {
    let about = match named {
        Named::Agent => "The agent, in an open gate, where it is required; elsewhere the agent is who signs",
        Named::Operator => "The operator, in an open gate; `operator` if absent",
    };
    // Not required: an identified gate goes by the signature.
    Param {
        name: "Countersign-Agent",
        place: Place::Header,
        accepts: TEXT_ID,
        is_required: false,
        about,
        example: None,
    }
}

/// An optional parameter of the query.
const fn query(name: &'static str, accepts: Accepts, about: &'static str) -> Param {
    Param { name, place: Place::Query, accepts, is_required: false, about, example: None }
}

/// A place in the ledger, a version or a time.
pub(super) const fn position(name: &'static str, about: &'static str) -> Param {
    query(name, POSITION, about)
}

/// Text to look for.
pub(super) const fn filter(name: &'static str, about: &'static str) -> Param {
    query(name, Accepts::Text, about)
}

/// How many at most.
pub(super) const fn limit(max: u64, about: &'static str) -> Param {
    query("limit", Accepts::Whole(1, max), about)
}

/// A number of days.
pub(super) const fn days(about: &'static str) -> Param {
    query("days", Accepts::Whole(1, DAYS_MAX), about)
}

/// Something that is so only if it is asked for.
pub(super) const fn flag(name: &'static str, about: &'static str) -> Param {
    query(name, BOOLEAN, about)
}

/// The digest of the actions of a batch.
pub(super) const fn actions(about: &'static str) -> Param {
    Param { place: Place::Header, ..query("Countersign-Actions", DIGEST, about) }
}

/// How long to wait.
pub(super) const fn wait_ms(about: &'static str) -> Param {
    query("wait_ms", Accepts::Whole(0, WAIT_MS_MAX), about)
}

/// The version that a fact must have.
pub(super) const fn if_match(about: &'static str) -> Param {
    Param { place: Place::Header, ..query("If-Match", QUOTED_VERSION, about) }
}

impl Param {
    /// The same, but it must be there.
    pub(super) const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }
}
