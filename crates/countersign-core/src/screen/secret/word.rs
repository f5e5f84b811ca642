//! Values that a word announces: `password: …`, `"client_secret": "…"`, `the api key is …`.

use super::Makeup;
use std::ops::Range;

/// The words, in lower case; whatever their case is in a text.
pub(super) const WORDS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "secret",
    "token",
    "api key",
    "api_key",
    "apikey",
    "api-key",
    "access key",
    "access_key",
    "accesskey",
    "private key",
    "private_key",
    "credential",
    "credentials",
    "auth_key",
    "passwort",
    "kennwort",
    "contraseña",
    "contrasena",
    "clave",
    "mot de passe",
    "mot_de_passe",
    "密码",
    "口令",
    "密钥",
    "令牌",
];

/// Words after which a short value is one too: people choose passwords, machines keys.
const CHOSEN: &[&str] = &["pass", "pwd", "kennwort", "contra", "mot", "密码", "口令"];

/// What may stand between word and value, in bytes.
const BETWEEN_MAX: usize = 24;
const VALUE_BYTES_MAX: usize = 128;

/// The value that the word at a place announces, if it looks like a secret.
pub(super) fn value(text: &str, at: usize, after: usize) -> Option<(&'static str, Range<usize>)> {
    let word = text.get(at..after)?.to_lowercase();
    let rest = text.get(after..)?;
    // The rest of a name: `token_value`, `secretKey`.
    let name = rest
        .bytes()
        .take(BETWEEN_MAX)
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        .count();
    let between = rest.get(name..)?;
    let begins = announced(between)?;
    let from = after.saturating_add(name).saturating_add(begins);
    let value = text.as_bytes().get(from..)?;
    let is_end = |byte: &u8| {
        byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'`' | b',' | b';' | b'<' | b'>' | b')' | b'}')
    };
    let len = value.iter().take(VALUE_BYTES_MAX).take_while(|byte| !is_end(byte)).count();
    let value = value.get(..len)?;
    let least = if CHOSEN.iter().any(|chosen| word.starts_with(chosen)) { 8 } else { 16 };
    // A full stop ends the sentence, not the value.
    let value = value.strip_suffix(b".").unwrap_or(value);
    is_secret(value, least).then(|| ("secret_value", from..from.saturating_add(value.len())))
}

/// Where a value begins, after what says that one follows.
fn announced(between: &str) -> Option<usize> {
    let front = between.get(..between.floor_char_boundary(BETWEEN_MAX))?;
    let is_space = |char: char| char.is_whitespace() || matches!(char, '"' | '\'' | '`' | '*' | '(');
    let said = front.trim_start_matches(is_space);
    let signs = ["=>", ":=", ":", "=", "：", "is ", "is: ", "lautet ", "ist ", "es ", "est ", "是", "为"];
    let sign = signs.iter().find(|sign| said.starts_with(**sign))?;
    let value = said.get(sign.len()..)?.trim_start_matches(|char: char| is_space(char) || char == ':');
    // A scheme goes before some values.
    let value = value.strip_prefix("Bearer ").or_else(|| value.strip_prefix("Basic ")).unwrap_or(value);
    front.len().checked_sub(value.len())
}

/// Whether a value of at least so many characters looks random: letters and digits, few of them twice, and no placeholder.
pub(super) fn is_secret(value: &[u8], least: usize) -> bool {
    let made = Makeup::of(value);
    let enough = if value.len() < 16 { 7 } else { 10 };
    if value.len() < least || made.digits == 0 || made.letters == 0 || made.different < enough {
        return false;
    }
    !value.iter().any(|byte| matches!(byte, b'$' | b'{' | b'[' | b'*' | b'\\'))
        && !value.windows(3).any(|three| three == b"://" || three == b"...")
        && !value.windows(4).any(|four| four.eq_ignore_ascii_case(b"xxxx"))
}
