//! The three fields, read strictly. Parsing is `sfv`'s, but for the form in which nearly all come ([`plain`]); what is added here is that
//! each field must be written the one canonical way, which leaves no room for a second member, a repeated parameter or anything a reader
//! could take otherwise.

mod plain;

use super::{ACTIONS, FIELD_BYTES_MAX, NONCE_CHARS_MAX, NONCE_CHARS_MIN, SignatureError, known};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use countersign_core::identity::KeyName;
use countersign_core::ids::Digest;
use sfv::{BareItem, Dictionary, FieldType as _, InnerList, Key, List, ListEntry, Parser};
use smol_str::SmolStr;
use std::borrow::Cow;

/// What can be covered: what an entry keeps, or what follows from it.
const KNOWN: [&str; 8] =
    ["@method", "@authority", "@path", "@query", "@request-target", "content-digest", "if-match", ACTIONS];

/// What a signature covers, and with which parameters.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Input<'a> {
    /// What is covered, in order.
    pub(super) components: Vec<SmolStr>,
    parameters: Vec<(Cow<'a, str>, Parameter<'a>)>,
}

/// The value of a parameter.
#[derive(Debug, PartialEq, Eq)]
enum Parameter<'a> {
    Text(Cow<'a, str>),
    Integer(i64),
    /// Of a type that no parameter has which counts.
    Other,
}

/// The parameters that count.
pub(super) struct Checked {
    pub(super) key: KeyName,
    pub(super) created_s: u64,
    pub(super) expires_s: Option<u64>,
    pub(super) nonce: SmolStr,
}

fn malformed(why: impl Into<String>) -> SignatureError {
    SignatureError::Malformed(why.into())
}

/// The one member of a dictionary that is written in canonical form.
fn only_member(name: &str, field: &str) -> Result<(Key, ListEntry), SignatureError> {
    if field.len() > FIELD_BYTES_MAX {
        return Err(malformed(format!("`{name}` has more than {FIELD_BYTES_MAX} bytes")));
    }
    let members: Dictionary =
        Parser::new(field).parse().map_err(|error| malformed(format!("`{name}` is no structured field: {error}")))?;
    if members.len() != 1 {
        return Err(malformed(format!("`{name}` must have exactly one member, and has {}", members.len())));
    }
    if members.serialize().as_deref() != Some(field.trim_matches(' ')) {
        return Err(malformed(format!("`{name}` is not in canonical form, or names something twice")));
    }
    members.into_iter().next().ok_or_else(|| malformed(format!("`{name}` is empty")))
}

/// Reads `Signature-Input`. With its label, and its value as it was written, which is the one canonical way.
pub(super) fn input(field: &str) -> Result<(Cow<'_, str>, &str, Input<'_>), SignatureError> {
    match plain::member(field) {
        Some((label, text, list)) => Ok((label.into(), text, Input::of_plain(list)?)),
        None => input_in_any_form(field),
    }
}

fn input_in_any_form(field: &str) -> Result<(Cow<'_, str>, &str, Input<'_>), SignatureError> {
    let not_a_list = || malformed("the member of `Signature-Input` is not a list of components");
    let (label, ListEntry::InnerList(list)) = only_member("Signature-Input", field)? else { return Err(not_a_list()) };
    let text = field.trim_matches(' ').strip_prefix(label.as_str()).and_then(|value| value.strip_prefix('='));
    Ok((label.as_str().to_owned().into(), text.ok_or_else(not_a_list)?, Input::new(list)?))
}

/// The bytes of a field that is written `key=:base64:` and has nothing else, which is how the two of that form nearly always come.
/// There is one way to write a sequence of bytes, and the decoder takes no other.
fn only_bytes<const N: usize>(field: &str, key: &str) -> Option<[u8; N]> {
    let encoded = field.strip_prefix(key)?.strip_prefix("=:")?.strip_suffix(':')?;
    // The decoder wants room for whole groups of three.
    let mut room = [0; 96];
    let decoded = BASE64.decode_slice(encoded, &mut room).ok()?;
    room.get(..decoded)?.try_into().ok()
}

/// Reads `Signature`, whose label must be the same.
pub(super) fn signature(field: &str, label: &str) -> Result<[u8; 64], SignatureError> {
    if let Some(signature) = only_bytes(field, label) {
        return Ok(signature);
    }
    let (found, member) = only_member("Signature", field)?;
    if found.as_str() != label {
        return Err(malformed("`Signature` and `Signature-Input` have different labels"));
    }
    let bytes = match &member {
        ListEntry::Item(item) if item.params.is_empty() => item.bare_item.as_byte_sequence(),
        _ => None,
    };
    bytes
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(|| malformed("the signature is not a sequence of 64 bytes"))
}

/// Reads `Content-Digest`.
pub(super) fn digest(field: &str) -> Result<Digest, SignatureError> {
    digest_in("Content-Digest", field)
}

/// Reads a field of the same form.
pub(super) fn digest_in(name: &str, field: &str) -> Result<Digest, SignatureError> {
    if let Some(digest) = only_bytes(field, "sha-256") {
        return Ok(Digest(digest));
    }
    let (algorithm, member) = only_member(name, field)?;
    let digest = match &member {
        ListEntry::Item(item) if algorithm.as_str() == "sha-256" && item.params.is_empty() => {
            item.bare_item.as_byte_sequence()
        }
        _ => return Err(malformed(format!("`{name}` must be of the form sha-256=:…: and have nothing else"))),
    };
    digest.and_then(|digest| digest.try_into().ok()).map(Digest).ok_or(SignatureError::Digest)
}

impl<'a> Input<'a> {
    /// Reads the member's value alone, as it is kept.
    pub(super) fn parse(text: &'a str) -> Result<Self, SignatureError> {
        match plain::list(text) {
            Some(list) => Self::of_plain(list),
            None => Self::parse_in_any_form(text),
        }
    }

    fn parse_in_any_form(text: &str) -> Result<Self, SignatureError> {
        let mut members: List = Parser::new(text).parse().map_err(|error| malformed(error.to_string()))?;
        match (members.pop(), members.is_empty()) {
            (Some(ListEntry::InnerList(list)), true) => Self::new(list),
            _ => Err(malformed("this is not one list of components")),
        }
    }

    fn new(list: InnerList) -> Result<Self, SignatureError> {
        let mut components = Vec::with_capacity(list.items.len());
        for item in &list.items {
            let Some(name) = item.bare_item.as_string() else {
                return Err(malformed("a covered component is not a string"));
            };
            if !item.params.is_empty() {
                return Err(SignatureError::Component(name.as_str().to_owned()));
            }
            cover(&mut components, name.as_str())?;
        }
        let value = |value: BareItem| match value {
            BareItem::String(text) => Parameter::Text(String::from(text).into()),
            BareItem::Integer(integer) => Parameter::Integer(integer.into()),
            _ => Parameter::Other,
        };
        let parameters = list.params.into_iter().map(|(key, it)| (String::from(key).into(), value(it))).collect();
        Ok(Self { components, parameters })
    }

    fn of_plain(list: plain::Plain<'a>) -> Result<Self, SignatureError> {
        let mut components = Vec::with_capacity(list.strings.len());
        for name in list.strings {
            cover(&mut components, name)?;
        }
        Ok(Self { components, parameters: list.parameters })
    }

    pub(super) fn covers(&self, component: &str) -> bool {
        self.components.iter().any(|covered| covered == component)
    }

    pub(super) fn require(&self, component: &str) -> Result<(), SignatureError> {
        if self.covers(component) { Ok(()) } else { Err(SignatureError::Incomplete(component.to_owned())) }
    }

    /// The parameters, each of its type; one that is not known is refused, since it might mean something.
    pub(super) fn parameters(&self, tag: &str) -> Result<Checked, SignatureError> {
        let known = ["created", "expires", "nonce", "alg", "keyid", "tag"];
        if let Some((unknown, _)) = self.parameters.iter().find(|(key, _)| !known.contains(&&**key)) {
            return Err(malformed(format!("the parameter `{unknown}` is not known")));
        }
        match self.string("alg")? {
            None | Some("ed25519") => {}
            Some(other) => return Err(SignatureError::Algorithm(other.to_owned())),
        }
        let lacks = |name: &str| SignatureError::Incomplete(name.to_owned());
        let found = self.string("tag")?.ok_or_else(|| lacks("tag"))?;
        if found != tag {
            return Err(SignatureError::Tag { found: found.to_owned(), expected: tag.to_owned() });
        }
        let created_s = self.seconds("created")?.ok_or_else(|| lacks("created"))?;
        let nonce = self.string("nonce")?.ok_or_else(|| lacks("nonce"))?;
        let is_printable = nonce.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_printable || !(NONCE_CHARS_MIN..=NONCE_CHARS_MAX).contains(&nonce.len()) {
            return Err(SignatureError::Nonce);
        }
        let keyid = self.string("keyid")?.ok_or_else(|| lacks("keyid"))?;
        let key = known::key_named(keyid).map_err(|error| malformed(format!("`keyid`: {error}")))?;
        Ok(Checked { key, created_s, expires_s: self.seconds("expires")?, nonce: nonce.into() })
    }

    fn parameter(&self, name: &str) -> Option<&Parameter<'a>> {
        self.parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    fn string(&self, name: &str) -> Result<Option<&str>, SignatureError> {
        match self.parameter(name) {
            None => Ok(None),
            Some(Parameter::Text(text)) => Ok(Some(text)),
            Some(_) => Err(malformed(format!("the parameter `{name}` is not a string"))),
        }
    }

    fn seconds(&self, name: &str) -> Result<Option<u64>, SignatureError> {
        let seconds = match self.parameter(name) {
            None => return Ok(None),
            Some(Parameter::Integer(seconds)) => u64::try_from(*seconds).ok(),
            Some(_) => None,
        };
        seconds.map(Some).ok_or_else(|| malformed(format!("the parameter `{name}` is not a time in whole seconds")))
    }
}

/// Adds a covered component, which must be one that is known, and not there yet.
fn cover(components: &mut Vec<SmolStr>, name: &str) -> Result<(), SignatureError> {
    if !KNOWN.contains(&name) {
        return Err(SignatureError::Component(name.to_owned()));
    }
    if components.iter().any(|covered| covered == name) {
        return Err(malformed(format!("`{name}` is covered twice")));
    }
    components.push(name.into());
    Ok(())
}

#[cfg(test)]
mod tests;
