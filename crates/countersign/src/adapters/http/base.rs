//! The place below which everything is sent.

use std::fmt;
use std::str::FromStr;
use ureq::http::Uri;

/// A scheme, a host, a port and a path that every request's path is put after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// Whether TLS is spoken.
    pub is_tls: bool,
    /// The host as it is resolved: a name or an address, without brackets.
    pub host: String,
    pub port: u16,
    authority: String,
    prefix: String,
}

/// Text that is no base.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotABase(&'static str);

impl NotABase {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        Some("write it as https://payments.example/v1".to_owned())
    }
}

/// A path that does not stay below the base.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the path {0:?} does not stay below the adapter's base")]
pub struct NotBelow(pub String);

impl Base {
    /// The address of a path below.
    ///
    /// What would let a path climb is refused in every spelling: dots as segments, plain or encoded, backslashes, and what is not
    /// a path at all. The parts that come from agents are encoded already; this holds even where a pact is careless.
    pub fn join(&self, path: &str) -> Result<Uri, NotBelow> {
        let wrong = || NotBelow(path.chars().take(200).collect());
        let only_path = path.split(['?', '#']).next().unwrap_or_default();
        let climbs = only_path.split('/').any(|segment| {
            let plain = segment.to_ascii_lowercase().replace("%2e", ".");
            plain == "." || plain == ".." || plain.contains("%2f") && plain.contains("..")
        });
        let is_odd = !path.starts_with('/') || path.contains(['\\', '#']) || path.contains(char::is_whitespace);
        if climbs || is_odd || path.contains(char::is_control) {
            return Err(wrong());
        }
        let scheme = if self.is_tls { "https" } else { "http" };
        Uri::from_str(&format!("{scheme}://{}{}{path}", self.authority, self.prefix)).map_err(|_| wrong())
    }
}

impl FromStr for Base {
    type Err = NotABase;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let uri: Uri = text.parse().map_err(|_| NotABase("this is not a URL"))?;
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(NotABase("only https and http are spoken")),
        };
        let authority = uri.authority().ok_or(NotABase("there is no host"))?;
        if authority.as_str().contains('@') {
            return Err(NotABase("a user or password is not allowed here; use `headers`"));
        }
        if uri.query().is_some() || text.contains(['?', '#']) {
            return Err(NotABase("a query is not allowed here"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(NotABase("there is no host"));
        }
        Ok(Self {
            is_tls,
            host: host.to_owned(),
            port: authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 }),
            authority: authority.as_str().to_owned(),
            prefix: uri.path().trim_end_matches('/').to_owned(),
        })
    }
}

impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_put_after_the_base_and_stays_there() {
        let base: Base = "https://p.example/v1/".parse().unwrap();
        assert_eq!(base.join("/payouts/a%2Fb?x=1").unwrap().to_string(), "https://p.example/v1/payouts/a%2Fb?x=1");
        let base: Base = "http://[::1]:8080".parse().unwrap();
        assert_eq!((base.host.as_str(), base.port, base.is_tls), ("::1", 8080, false));
        assert_eq!(base.join("/a").unwrap().to_string(), "http://[::1]:8080/a");
        for wrong in [
            "",
            "a",
            "@evil.example/",
            "/../admin",
            "/a/%2e%2E/b",
            "/a/.",
            "/a\\..\\b",
            "/a b",
            "/a#b",
            "/a\n",
            "/..%2fa",
        ] {
            assert!(base.join(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn only_a_plain_url_is_a_base() {
        for wrong in
            ["", "p.example", "ftp://p.example", "https://u:p@p.example", "https://p.example/?a=b", "https:///a"]
        {
            assert!(wrong.parse::<Base>().is_err(), "{wrong:?}");
        }
    }
}
