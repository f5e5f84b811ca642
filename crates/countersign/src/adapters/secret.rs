//! Secrets: read once at the start, sent to whom they are for, and shown to no one.
//!
//! A secret has no `Display`, and its `Debug` shows nothing. What comes back from outside may hold one anyway (a
//! service that echoes its request), so everything that goes into the ledger is searched for them first, also in other forms.

use crate::hinted::{bail_hinted, hinted};
use anyhow::Result;
use countersign_core::screen::known;
use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

/// What is shown in the place of a secret.
const HIDDEN: &str = "[secret]";
/// Shorter values are not searched for: they would be found in everything.
const SEARCHED_BYTES_MIN: usize = 8;
/// Most bytes of a secret.
const SECRET_BYTES_MAX: usize = 16 << 10;

/// A value that no one is shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The value, for whom it is for.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

/// Where a value is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// In an environment variable.
    Env(String),
    /// In a file.
    File(PathBuf),
    /// In the settings themselves; not searched for, since it is often no secret at all.
    Literal(Secret),
}

/// Looks up an environment variable.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Source {
    /// The value, where it stands in the settings themselves.
    pub fn literal(&self) -> Option<&str> {
        match self {
            Self::Literal(value) => Some(value.reveal()),
            Self::Env(_) | Self::File(_) => None,
        }
    }

    /// Reads the value; `at` names it in messages.
    pub fn read(&self, at: &str, environment: Environment<'_>) -> Result<Secret> {
        let text = match self {
            Self::Literal(secret) => return Ok(secret.clone()),
            Self::Env(name) => match environment(name) {
                Some(text) => text,
                None => {
                    bail_hinted!("`{at}`: the environment variable {name} is not set"; "set it for the countersign process")
                }
            },
            Self::File(path) => read_file(at, path)?,
        };
        let text = text.strip_suffix('\n').map_or(text.as_str(), |text| text.strip_suffix('\r').unwrap_or(text));
        if text.is_empty() || text.len() > SECRET_BYTES_MAX || text.contains(char::is_control) {
            bail_hinted!("`{at}`: what is kept in {} cannot be used", self.place(); "it must be one line of text, and not empty");
        }
        Ok(Secret::from(text))
    }

    fn place(&self) -> String {
        match self {
            Self::Env(name) => format!("the environment variable {name}"),
            Self::File(path) => path.display().to_string(),
            Self::Literal(_) => "the settings".to_owned(),
        }
    }
}

fn read_file(at: &str, path: &PathBuf) -> Result<String> {
    let shown = path.display();
    let read = fs::metadata(path).and_then(|metadata| Ok((metadata.permissions().mode(), fs::read(path)?)));
    let (mode, bytes) = match read {
        Ok(read) => read,
        Err(error) => bail_hinted!("`{at}`: cannot read {shown}: {error}"; "the gate must be able to read the file"),
    };
    if mode & 0o007 != 0 {
        bail_hinted!("`{at}`: {shown} can be read by everyone (mode {:o})", mode & 0o777; "chmod o-rwx {shown}");
    }
    String::from_utf8(bytes)
        .map_err(|_| anyhow::Error::from(hinted!("`{at}`: {shown} is not text"; "it must be one line of text")))
}

/// The secrets of one adapter, to be searched for in what comes back.
#[derive(Debug, Clone, Default)]
pub struct Known(known::Known);

impl Known {
    /// Remembers a secret that was read from its source.
    pub fn add(&mut self, source: &Source, secret: &Secret) {
        if matches!(source, Source::Literal(_)) {
            return;
        }
        // `Bearer …`: the second word is what must not show, wherever it turns up alone.
        let words = [Some(secret.reveal()), secret.reveal().rsplit(' ').next()];
        words.into_iter().flatten().filter(|word| word.len() >= SEARCHED_BYTES_MIN).for_each(|word| self.0.add(word));
    }

    /// Whether a text holds a secret.
    pub fn is_in(&self, text: &str) -> bool {
        self.0.is_in(text)
    }

    /// How much more than what is kept must be read, so that no secret is cut in two before it is searched for.
    pub fn reach(&self) -> usize {
        self.0.reach()
    }

    /// Takes every secret out of a text.
    pub fn hide(&self, text: String) -> String {
        let end = text.len();
        self.hide_front(text, end)
    }

    /// The front of a text, without secrets. One that begins in it and ends beyond is hidden too.
    pub fn hide_front(&self, mut text: String, end: usize) -> String {
        let found = self.0.find(&text);
        let end = text.floor_char_boundary(end);
        if found.is_empty() {
            text.truncate(end);
            return text;
        }
        let (mut out, mut done) = (String::with_capacity(end), 0);
        for place in found.into_iter().filter(|place| place.start < end) {
            out.push_str(text.get(done..text.floor_char_boundary(place.start)).unwrap_or_default());
            out.push_str(HIDDEN);
            done = text.ceil_char_boundary(place.end);
        }
        out.push_str(text.get(done..end).unwrap_or_default());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::Report;

    fn environment(name: &str) -> Option<String> {
        (name == "TOKEN").then(|| "Bearer abcdefgh-12345\n".to_owned())
    }

    #[test]
    fn a_secret_is_read_from_the_environment_or_a_file_and_shown_nowhere() {
        let secret = Source::Env("TOKEN".into()).read("p.A", &environment).unwrap();
        assert_eq!(secret.reveal(), "Bearer abcdefgh-12345");
        assert_eq!(format!("{secret:?}"), "[secret]");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        fs::write(&file, "from-file\r\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(Source::File(file.clone()).read("p.A", &environment).unwrap().reveal(), "from-file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let said = Report::of_error(&Source::File(file).read("p.A", &environment).unwrap_err()).to_string();
        assert!(said.contains("can be read by everyone") && said.contains("hint: chmod"), "{said}");
    }

    #[test]
    fn a_secret_that_is_missing_or_unfit_is_named_and_not_shown() {
        for (source, part) in [
            (Source::Env("NOPE".into()), "NOPE is not set"),
            (Source::File("/nowhere/at/all".into()), "cannot read /nowhere/at/all"),
            (Source::Env("TWO".into()), "one line of text"),
        ] {
            let two = |name: &str| (name == "TWO").then(|| "hunter2\nhunter3".to_owned());
            let said = Report::of_error(&source.read("p.A", &two).unwrap_err()).to_string();
            assert!(said.starts_with("`p.A`: ") && said.contains(part) && said.contains("\nhint: "), "{said}");
            assert!(!said.contains("hunter"), "{said}");
        }
    }

    #[test]
    fn what_comes_back_is_searched_for_secrets() {
        let mut known = Known::default();
        let source = Source::Env("TOKEN".into());
        known.add(&source, &source.read("p.A", &environment).unwrap());
        known.add(&Source::Literal("2026-01-01".into()), &"2026-01-01".into());
        assert_eq!(
            known.hide("you sent Bearer abcdefgh-12345; abcdefgh-12345 on 2026-01-01".into()),
            "you sent [secret]; [secret] on 2026-01-01"
        );
        assert!(!format!("{known:?}").contains("abcdefgh"));
    }

    #[test]
    fn a_service_echoes_a_secret_in_another_form() {
        let secret = "s3cr\u{e9}t/\"to ken\"+%41\\?";
        let mut known = Known::default();
        known.add(&Source::Env("TOKEN".into()), &secret.into());
        let json = |text: &str| serde_json::to_string(text).unwrap();
        let percent = |is_all: bool| -> String {
            let byte = |byte: u8| match byte.is_ascii_alphanumeric() && !is_all {
                true => char::from(byte).to_string(),
                false => format!("%{byte:02x}"),
            };
            secret.bytes().map(byte).collect()
        };
        let hex: String = secret.bytes().map(|byte| format!("{byte:02X}")).collect();
        let all_u: String = secret.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        let mut forms = vec![
            secret.to_owned(),
            json(secret),
            json(&json(secret)),
            json(secret).replace('/', "\\/"),
            all_u,
            hex.to_lowercase(),
            hex,
            percent(true),
            percent(false)
                .to_uppercase()
                .replace("S3CR", "s3cr")
                .replace("T%2F", "t%2F")
                .replace("TO%20KEN", "to%20ken"),
            json(&percent(false)),
        ];
        for before in ["", "u", "us", "user:"] {
            use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE, BASE64_URL_SAFE_NO_PAD};
            for engine in [BASE64_STANDARD, BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE, BASE64_URL_SAFE_NO_PAD] {
                let text = base64::Engine::encode(&engine, format!("{before}{secret} and more"));
                forms.push(text.replace('/', "\\/"));
                forms.push(text.replace('+', "%2B").replace('/', "%2f"));
                forms.push(text);
            }
        }
        for form in forms {
            let shown = known.hide(format!("it said <{form}> \u{fc}ber alles"));
            assert!(shown.contains(HIDDEN) && shown.starts_with("it said <"), "{form}: {shown}");
            assert!(shown.ends_with("> \u{fc}ber alles"), "{form}: {shown}");
            let left = shown.len() - HIDDEN.len() - "it said <> \u{fc}ber alles".len();
            // What base64 has besides: what was before and after, and the two letters that are shared with the secret.
            assert!(left <= 24, "{form}: {shown}");
        }
        for other in ["s3cr\u{e9}t", "nothing \\u0041 of %41 it \\", "%", "\\u", "%4", "\\ud800\\ud800", "%ff%fe"] {
            assert_eq!(known.hide(other.to_owned()), other);
        }
    }

    #[test]
    fn two_secrets_in_one_another_are_both_hidden() {
        let mut known = Known::default();
        for secret in ["aaaabbbbcccc", "bbbbccccdddd", "aaaaaaaa"] {
            known.add(&Source::Env("TOKEN".into()), &secret.into());
        }
        assert_eq!(known.hide("<aaaabbbbccccdddd> <aaaaaaaaa>".into()), "<[secret]> <[secret]>");
    }
}
