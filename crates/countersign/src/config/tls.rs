//! What `[tls]` says: with which certificate to listen, and what is asked of clients.

use super::table::Table;
use crate::hinted::bail_hinted;
use crate::tls::{Files, Rules};
use anyhow::Result;
use std::path::Path;
use toml::Value;

/// What a SPIFFE id begins with.
const SPIFFE: &str = "spiffe://";

/// What is needed to listen.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// The listener's own certificate and key; `ca` and `crl` are about clients. No TLS is spoken without a certificate.
    pub files: Files,
    /// What is asked of clients.
    pub rules: Rules,
    /// Whether something in front speaks TLS, so that this process may listen in clear.
    pub terminated_by_proxy: bool,
}

impl TlsSettings {
    pub(super) fn parse(value: &Value, base: &Path) -> Result<Self> {
        let table = Table::new("tls", value)?;
        table.only(&[
            "certificate",
            "client_ca",
            "crl",
            "key",
            "require_client_certificate",
            "spiffe",
            "terminated_by_proxy",
        ])?;
        let file = |key: &str| anyhow::Ok(table.string(key)?.map(|path| base.join(path)));
        let files =
            Files { certificate: file("certificate")?, key: file("key")?, ca: file("client_ca")?, crl: file("crl")? };
        check_key(&files, "tls.certificate")?;
        let rules =
            Rules { require: table.flag("require_client_certificate")?, spiffe: spiffe(table.string("spiffe")?)? };
        if files.ca.is_some() && files.certificate.is_none() {
            bail_hinted!("`tls.client_ca` is for a listener with a certificate"; "name its own with `certificate` and `key`");
        }
        let about_clients = [("crl", files.crl.is_some()), ("spiffe", rules.spiffe.is_some())];
        let mut about_clients = about_clients.into_iter().chain([("require_client_certificate", rules.require)]);
        if let Some((key, _)) = about_clients.find(|(_, is_set)| *is_set && files.ca.is_none()) {
            bail_hinted!(
                "`tls.{key}` is about certificates of clients, and no one is trusted to issue them";
                "name the file with their authorities with `client_ca`"
            );
        }
        Ok(Self { files, rules, terminated_by_proxy: table.flag("terminated_by_proxy")? })
    }

    /// Whether TLS is spoken.
    pub fn is_on(&self) -> bool {
        self.files.certificate.is_some()
    }
}

/// A key is a certificate's.
pub fn check_key(files: &Files, certificate: &str) -> Result<()> {
    if files.key.is_some() && files.certificate.is_none() {
        bail_hinted!("there is a key and no certificate that it is for"; "name the certificate's file with `{certificate}`");
    }
    Ok(())
}

/// What comes before an agent's name. It ends with a slash, so that no name continues the folder that it stands in.
fn spiffe(prefix: Option<String>) -> Result<Option<String>> {
    let is_prefix = |prefix: &str| {
        let rest = prefix.strip_prefix(SPIFFE).and_then(|rest| rest.split_once('/'));
        rest.is_some_and(|(domain, _)| !domain.is_empty()) && prefix.ends_with('/')
    };
    match prefix {
        Some(prefix) if !is_prefix(&prefix) => bail_hinted!(
            "`tls.spiffe` must be what stands before an agent's name in its SPIFFE id";
            "write it with a slash at the end: \"spiffe://example.org/agent/\""
        ),
        prefix => Ok(prefix),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use std::path::Path;

    fn refused(text: &str) -> String {
        crate::terminal::Report::of_error(&Config::parse(text, Path::new("")).expect_err("must be refused")).to_string()
    }

    #[test]
    fn every_key_is_read() {
        let text = "[tls]\ncertificate = \"c.pem\"\nkey = \"/k.pem\"\nclient_ca = \"ca.pem\"\ncrl = \"crl.pem\"\n\
                    require_client_certificate = true\nspiffe = \"spiffe://a.example/agent/\"\nterminated_by_proxy = true";
        let tls = Config::parse(text, Path::new("/etc")).expect("is right").tls;
        assert!(tls.is_on() && tls.rules.require && tls.terminated_by_proxy);
        assert_eq!(tls.files.certificate.as_deref(), Some(Path::new("/etc/c.pem")));
        assert_eq!(tls.files.key.as_deref(), Some(Path::new("/k.pem")));
        assert_eq!(tls.files.ca.as_deref(), Some(Path::new("/etc/ca.pem")));
        assert_eq!(tls.files.crl.as_deref(), Some(Path::new("/etc/crl.pem")));
        assert_eq!(tls.rules.spiffe.as_deref(), Some("spiffe://a.example/agent/"));
        assert!(!Config::default().tls.is_on());
    }

    #[test]
    fn what_does_not_go_together_is_refused_with_a_hint() {
        for (text, part) in [
            ("[tls]\nkey = \"k\"", "no certificate that it is for"),
            ("certificate_key = \"k\"", "no certificate that it is for"),
            ("[tls]\nclient_ca = \"c\"", "a listener with a certificate"),
            ("[tls]\ncertificate = \"c\"\ncrl = \"c\"", "`tls.crl` is about certificates of clients"),
            (
                "[tls]\ncertificate = \"c\"\nrequire_client_certificate = true",
                "`tls.require_client_certificate` is about",
            ),
            ("[tls]\ncertificate = \"c\"\nspiffe = \"spiffe://a/\"", "`tls.spiffe` is about"),
            ("[tls]\ncertificate = \"c\"\nclient_ca = \"a\"\nspiffe = \"spiffe://a/agent\"", "a slash at the end"),
            ("[tls]\ncertificate = \"c\"\nclient_ca = \"a\"\nspiffe = \"spiffe:///agent/\"", "a slash at the end"),
            ("[tls]\ncertificate = \"c\"\nclient_ca = \"a\"\nspiffe = \"https://a/agent/\"", "a slash at the end"),
            ("[tls]\nterminated_by_proxy = \"yes\"", "must be true or false"),
            ("[tls]\ncertifcate = \"c\"", "did you mean `certificate`?"),
        ] {
            let said = refused(text);
            assert!(said.contains(part) && said.contains("\nhint: "), "{text}: {said}");
        }
    }
}
