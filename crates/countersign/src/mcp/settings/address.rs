//! Where a server is that runs, and whom to trust where TLS is spoken with it.

use crate::config::check_key;
use crate::config::table::Table;
use crate::hinted::bail_hinted;
use crate::tls::Files;
use anyhow::Result;
use std::path::Path;

/// What the settings of a server say of TLS.
const TLS_KEYS: [&str; 4] = ["ca", "certificate", "certificate_key", "crl"];

/// Where one is that runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Address {
    pub url: String,
    /// Whom to trust where TLS is spoken, and what to show.
    pub trust: Files,
}

impl Address {
    /// One that can be spoken to.
    pub fn new(url: &str, trust: Files) -> Result<Self> {
        if !is_url(url) || url.parse::<axum::http::Uri>().is_err() {
            bail_hinted!(
                "`{url}` is not an address of a server";
                "write it as https://bank.example/mcp or http://127.0.0.1:8000/mcp"
            );
        }
        check_key(&trust, "certificate")?;
        Ok(Self { url: url.to_owned(), trust })
    }

    /// The same with what the settings of the server say of TLS; relative paths start at `base`.
    pub(super) fn parse(url: &str, table: &Table<'_>, base: &Path) -> Result<Self> {
        let file = |key: &str| anyhow::Ok(table.string(key)?.map(|path| base.join(path)));
        let (certificate, key) = (file("certificate")?, file("certificate_key")?);
        Self::new(url, Files { certificate, key, ca: file("ca")?, crl: file("crl")? })
    }
}

/// Whether a server is named by its address.
pub(super) fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

/// Refuses what is about TLS where none is spoken.
pub(super) fn check_keys(name: &str, table: &toml::Table, url: Option<&str>) -> Result<()> {
    let is_tls = url.is_some_and(|url| url.starts_with("https://"));
    match TLS_KEYS.iter().find(|key| !is_tls && table.contains_key(**key)) {
        Some(key) => {
            bail_hinted!("key `mcp.upstream.{name}.{key}` is for a server over TLS"; "its `url` begins with https://")
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::settings::{McpSettings, Place};

    #[test]
    fn what_is_said_of_tls_goes_with_the_address() {
        let text = "[upstream.a]\nurl = \"https://a\"\nca = \"ca\"\ncrl = \"r\"\ncertificate = \"c\"\ncertificate_key = \"/k\"";
        let table = toml::Value::Table(toml::from_str(text).expect("is TOML"));
        let settings = McpSettings::parse(&table, Path::new("/etc")).expect("is right");
        let file = |path: &str| Some(path.into());
        let trust = Files { certificate: file("/etc/c"), key: file("/k"), ca: file("/etc/ca"), crl: file("/etc/r") };
        let url = "https://a".to_owned();
        assert_eq!(settings.upstreams.get("a"), Some(&Place::Url(Address { url, trust })));
    }
}
