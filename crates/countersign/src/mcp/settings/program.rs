//! A server that is a program: its words, and its environment. A server is other people's code, so it does not inherit the
//! environment of the process that starts it, in which there are keys and tokens; it gets what programs need to run, and what is
//! listed for it.

use super::Place;
use crate::adapters::secret::{Known, Secret, Source};
use crate::hinted::bail_hinted;
use anyhow::{Context as _, Result};
use std::ffi::{OsStr, OsString};

/// What every server gets, where it is set: where programs and folders are, in which language to write, and which authorities to trust,
/// as a company has its own. These are files that anyone may read. `LC_…` too.
const INHERITED: [&str; 14] = [
    "CURL_CA_BUNDLE",
    "HOME",
    "LANG",
    "LOGNAME",
    "NODE_EXTRA_CA_CERTS",
    "PATH",
    "REQUESTS_CA_BUNDLE",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Program {
    /// Its name and its arguments.
    pub words: Vec<String>,
    /// What is in its environment besides what every server gets.
    pub env: Vec<(String, Source)>,
}

impl Program {
    /// Its whole environment, as it is now.
    pub fn environment(&self) -> Result<Vec<(OsString, OsString)>> {
        let is_inherited =
            |name: &OsStr| name.to_str().is_some_and(|name| INHERITED.contains(&name) || name.starts_with("LC_"));
        let mut all: Vec<(OsString, OsString)> = std::env::vars_os().filter(|(name, _)| is_inherited(name)).collect();
        // A later one of the same name counts.
        all.extend(self.listed()?.into_iter().map(|(name, value)| (name.into(), value.reveal().into())));
        Ok(all)
    }

    /// The secrets that it is started with, as they are now.
    pub fn secrets(&self, known: &mut Known) {
        for (name, source) in &self.env {
            // One that cannot be read is not handed to the program either: it is not started then.
            if let Ok(secret) = source.read(name, &|name| std::env::var(name).ok()) {
                known.add(source, &secret);
            }
        }
    }

    /// The values that are set for it as they stand in the settings or on the command line.
    pub fn literals(&self) -> impl Iterator<Item = &str> {
        self.env.iter().filter_map(|(_, source)| source.literal())
    }

    fn listed(&self) -> Result<Vec<(&str, Secret)>> {
        let read = |(name, source): &'_ (String, Source)| {
            source.read(&format!("env.{name}"), &|name| std::env::var(name).ok())
        };
        self.env.iter().map(|variable| Ok((variable.0.as_str(), read(variable)?))).collect()
    }
}

impl Place {
    /// Fails where a variable that is listed for the server cannot be read: better now than when it is started.
    pub fn check_environment(&self, upstream: &str) -> Result<()> {
        match self {
            Self::Command(program) => {
                program.listed().map(drop).with_context(|| format!("the MCP server `{upstream}`"))
            }
            Self::Url(_) => Ok(()),
        }
    }

    /// Adds variables from the command line: `NAME` is passed on, `NAME=VALUE` is set.
    pub fn add_environment(&mut self, variables: &[String]) -> Result<()> {
        let Self::Command(program) = self else {
            bail_hinted!("--env is for a server that is started"; "one that runs has its own environment");
        };
        for variable in variables {
            let (name, source) = match variable.split_once('=') {
                Some((name, value)) => (name, Source::Literal(value.into())),
                None => (variable.as_str(), Source::Env(variable.clone())),
            };
            if name.is_empty() || name.contains('\0') {
                bail_hinted!("`{variable}` names no variable"; "write --env NAME or --env NAME=VALUE");
            }
            program.env.push((name.to_owned(), source));
        }
        Ok(())
    }
}
