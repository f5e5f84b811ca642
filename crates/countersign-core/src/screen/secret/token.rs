//! Tokens and keys that are known by how they begin, and the words that announce a value.

use super::{Makeup, word};
use crate::screen::encoded::from_base64;
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use std::ops::Range;
use std::sync::LazyLock;

/// By how much of a run it is known whether it is a token: a text of nothing but beginnings would else be looked at from each to its end.
const FRONT_BYTES: usize = 128;
/// The same for the header of a JWT.
const HEADER_BYTES: usize = 256;

/// Which characters a token goes on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Upper,
    Alnum,
    Word,
    Base64,
    Hex,
    /// Parts with dots between them.
    Dotted,
    Path,
}

impl Of {
    fn has(self, byte: u8) -> bool {
        match self {
            Self::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Alnum => byte.is_ascii_alphanumeric(),
            Self::Word => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Self::Base64 => byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='),
            Self::Hex => byte.is_ascii_hexdigit(),
            Self::Dotted => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'),
            Self::Path => byte.is_ascii_alphanumeric() || byte == b'/',
        }
    }
}

/// A shape: how it begins, the rule, what follows, and how many characters of that at least.
type Shape = (&'static str, &'static str, Of, usize);

/// The shapes. None stands here as a whole, so that no scanner takes this for a leak.
const SHAPES: &[Shape] = &[
    ("AKIA", "secret_cloud_key", Of::Upper, 16),
    ("ASIA", "secret_cloud_key", Of::Upper, 16),
    ("AIza", "secret_cloud_key", Of::Word, 35),
    ("ya29.", "secret_cloud_key", Of::Word, 40),
    ("AccountKey=", "secret_cloud_key", Of::Base64, 60),
    ("SharedAccessKey=", "secret_cloud_key", Of::Base64, 40),
    ("dop_v1_", "secret_cloud_key", Of::Hex, 40),
    ("hvs.", "secret_cloud_key", Of::Word, 20),
    ("hvb.", "secret_cloud_key", Of::Word, 20),
    ("AGE-SECRET-KEY-1", "secret_private_key", Of::Upper, 50),
    ("ghp_", "secret_forge_token", Of::Alnum, 30),
    ("gho_", "secret_forge_token", Of::Alnum, 30),
    ("ghu_", "secret_forge_token", Of::Alnum, 30),
    ("ghs_", "secret_forge_token", Of::Alnum, 30),
    ("ghr_", "secret_forge_token", Of::Alnum, 30),
    ("github_pat_", "secret_forge_token", Of::Word, 22),
    ("glpat-", "secret_forge_token", Of::Word, 20),
    ("npm_", "secret_forge_token", Of::Alnum, 36),
    ("pypi-AgE", "secret_forge_token", Of::Word, 50),
    ("xoxb-", "secret_chat_token", Of::Word, 20),
    ("xoxp-", "secret_chat_token", Of::Word, 20),
    ("xoxa-", "secret_chat_token", Of::Word, 20),
    ("xoxr-", "secret_chat_token", Of::Word, 20),
    ("xoxs-", "secret_chat_token", Of::Word, 20),
    ("xapp-", "secret_chat_token", Of::Word, 20),
    ("hooks.slack.com/services/", "secret_chat_token", Of::Path, 30),
    ("sk_live_", "secret_payment_key", Of::Alnum, 16),
    ("rk_live_", "secret_payment_key", Of::Alnum, 16),
    ("sk_test_", "secret_payment_key", Of::Alnum, 16),
    ("whsec_", "secret_payment_key", Of::Base64, 24),
    ("shpat_", "secret_payment_key", Of::Hex, 32),
    ("sq0csp-", "secret_payment_key", Of::Word, 40),
    ("sk-ant-", "secret_model_key", Of::Word, 24),
    ("sk-proj-", "secret_model_key", Of::Word, 24),
    ("sk-", "secret_model_key", Of::Word, 32),
    ("hf_", "secret_model_key", Of::Alnum, 30),
    ("SG.", "secret_mail_key", Of::Dotted, 50),
    ("xkeysib-", "secret_mail_key", Of::Word, 60),
    ("key-", "secret_mail_key", Of::Hex, 32),
    ("lin_api_", "secret_forge_token", Of::Alnum, 32),
    ("eyJ", "secret_jwt", Of::Dotted, 20),
];

/// What else announces something: found by functions of their own.
const BEGIN: &str = "-----BEGIN ";
const AUTHORITY: &str = "://";
/// How a token of a Telegram bot goes on after its number.
const TELEGRAM: &str = ":AA";

static STARTS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let starts =
        SHAPES.iter().map(|(start, ..)| *start).chain([BEGIN, AUTHORITY, TELEGRAM]).chain(word::WORDS.iter().copied());
    let mut searcher = AhoCorasick::builder();
    searcher.match_kind(MatchKind::LeftmostLongest).kind(Some(AhoCorasickKind::DFA));
    searcher.ascii_case_insensitive(true).build(starts).ok()
});

/// Tells of every token: the rule and the place.
pub(super) fn look(text: &str, tell: &mut impl FnMut(&'static str, Range<usize>)) {
    // What was told of up to where: nothing is told twice, nor looked at twice.
    let mut until = 0_usize;
    // Up to where no token begins, because what follows is as dull as it is long.
    let mut dull_until = 0_usize;
    for found in STARTS.iter().flat_map(|starts| starts.find_iter(text)) {
        let (at, after) = (found.start(), found.end());
        if at < until {
            continue;
        }
        let start = text.get(at..after).unwrap_or_default();
        let secret = match SHAPES.get(found.pattern().as_usize()) {
            Some(shape) if shape.0 == start && at >= dull_until => {
                let secret = of_shape(text, at, shape);
                let front = text.as_bytes().get(after..after.saturating_add(FRONT_BYTES)).unwrap_or_default();
                if !front.is_empty() && front.iter().all(|byte| shape.2.has(*byte)) && !is_random(front) {
                    // A token that began in the first half of it would have made it random.
                    dull_until = at.saturating_add(FRONT_BYTES / 2);
                }
                secret
            }
            // Of a word that is no shape in its case, such as `Sk-`, nothing is known.
            Some(_) => None,
            None if start == BEGIN => private_key(text, at),
            None if start == AUTHORITY => in_address(text, after),
            None if start == TELEGRAM => of_bot(text, at),
            None => word::value(text, at, after),
        };
        if let Some((rule, range)) = secret.filter(|(_, range)| range.start >= until) {
            until = range.end;
            tell(rule, range);
        }
    }
}

fn is_alnum(text: &str, at: Option<usize>) -> bool {
    at.and_then(|at| text.as_bytes().get(at)).is_some_and(u8::is_ascii_alphanumeric)
}

fn of_shape(text: &str, at: usize, shape: &Shape) -> Option<(&'static str, Range<usize>)> {
    let (start, rule, of, least) = *shape;
    if is_alnum(text, at.checked_sub(1)) {
        return None;
    }
    let body = at.saturating_add(start.len());
    let rest = text.as_bytes().get(body..)?;
    let front = rest.iter().take(FRONT_BYTES).take_while(|byte| of.has(**byte)).count();
    let is_secret = match rule {
        "secret_jwt" => is_jwt(text.get(at..)?),
        _ => front >= least && is_random(rest.get(..front)?),
    };
    let len = || rest.iter().take_while(|byte| of.has(**byte)).count();
    is_secret.then(|| (rule, at..body.saturating_add(len())))
}

/// Words have no digits in them, and names have the same few letters.
fn is_random(body: &[u8]) -> bool {
    let made = Makeup::of(body);
    made.digits >= 2 && made.different >= 8
}

/// A header that is JSON with an algorithm, and two more parts.
fn is_jwt(text: &str) -> bool {
    let part = |text: &str| text.bytes().take(FRONT_BYTES).take_while(|byte| Of::Word.has(*byte)).count();
    let front = text.get(..text.floor_char_boundary(HEADER_BYTES)).unwrap_or_default();
    let Some((header, _)) = front.split_once('.') else { return false };
    let claims = text.get(header.len().saturating_add(1)..).unwrap_or_default();
    let header = from_base64(header.as_bytes()).unwrap_or_default();
    header.starts_with('{') && header.contains("\"alg\"") && part(claims) >= 8
}

/// From `-----BEGIN … PRIVATE KEY-----` to its end, as far as what is in between looks like a key: an agent must not be able to hide what
/// follows from the person who decides on it.
fn private_key(text: &str, at: usize) -> Option<(&'static str, Range<usize>)> {
    let rest = text.get(at..)?;
    let line = rest.get(..rest.floor_char_boundary(80))?;
    let title = line.get(BEGIN.len()..)?.split("-----").next()?;
    if !title.contains("PRIVATE KEY") {
        return None;
    }
    let begins = BEGIN.len().saturating_add(title.len()).saturating_add(5);
    let begins = begins.min(line.len());
    let after = rest.get(begins..)?;
    let held = key_lines(after);
    let tail = after.get(held..).unwrap_or_default();
    let closing = tail.strip_prefix("-----END").and_then(|tail| {
        let closed = tail.find("-----").filter(|closed| *closed <= 80)?;
        Some(8_usize.saturating_add(closed).saturating_add(5))
    });
    let end = begins.saturating_add(held).saturating_add(closing.unwrap_or_default());
    Some(("secret_private_key", at..at.saturating_add(end)))
}

/// How much of a text is lines of base64, each with its end, which may be spelled as in JSON.
fn key_lines(text: &str) -> usize {
    let mut held = 0;
    loop {
        let rest = text.get(held..).unwrap_or_default();
        let ends = ["\\r\\n", "\\n", "\r\n", "\n"].into_iter().find(|end| rest.starts_with(end));
        if let Some(end) = ends {
            held = held.saturating_add(end.len());
            continue;
        }
        let run = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(byte)).count();
        let next = rest.as_bytes().get(run).copied();
        // A word of a sentence is followed by a blank or a sign.
        if run == 0 || !matches!(next, None | Some(b'\r' | b'\n' | b'\\' | b'-' | b'"')) {
            return held;
        }
        held = held.saturating_add(run);
    }
}

/// A password in an address: `scheme://user:password@host`.
fn in_address(text: &str, after: usize) -> Option<(&'static str, Range<usize>)> {
    let rest = text.as_bytes().get(after..)?;
    let authority =
        rest.iter().take(256).position(|byte| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'"' | b'<' | b'>'));
    let authority = text.get(after..after.saturating_add(authority.unwrap_or(rest.len().min(256))))?;
    let (login, _) = authority.rsplit_once('@')?;
    let (user, password) = login.split_once(':')?;
    let from = after.saturating_add(user.len()).saturating_add(1);
    word::is_secret(password.as_bytes(), 8).then(|| ("secret_in_address", from..from.saturating_add(password.len())))
}

/// A token of a Telegram bot: its number, a colon and 35 characters.
fn of_bot(text: &str, at: usize) -> Option<(&'static str, Range<usize>)> {
    let before = text.as_bytes().get(..at)?;
    let digits = before.iter().rev().take(12).take_while(|byte| byte.is_ascii_digit()).count();
    let rest = text.as_bytes().get(at.saturating_add(1)..)?;
    let len = rest.iter().take_while(|byte| Of::Word.has(**byte)).count();
    let is_token = (8..=10).contains(&digits) && len == 35 && is_random(rest.get(..len)?);
    is_token.then(|| ("secret_chat_token", at.saturating_sub(digits)..at.saturating_add(1).saturating_add(len)))
}
