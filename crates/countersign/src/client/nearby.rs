//! Where the gate of a data folder is reached, and a look at its socket while the gate may still be starting.

use super::remote::{Remote, UNIX};
use crate::config::{Config, OPERATOR_SOCKET, OperatorSocket};
use crate::tls::Files;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Where the gate on this data folder has its socket for operators, unless the settings turn it off.
pub(super) fn socket(data: &Path, config: &Config) -> Option<PathBuf> {
    match &config.operator_socket {
        Some(OperatorSocket::Off) => None,
        Some(OperatorSocket::At(path)) => Some(path.clone()),
        None => Some(data.join(OPERATOR_SOCKET)),
    }
}

pub(super) fn answers(path: &Path) -> bool {
    UnixStream::connect(path).is_ok()
}

pub(super) fn server(path: &Path) -> String {
    format!("{UNIX}{}", path.display())
}

/// A socket that did not answer when it was first looked for: `serve &` and the next command are typed in one breath.
pub(super) struct Awaited {
    path: PathBuf,
    found: OnceLock<Remote>,
}

impl Awaited {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, found: OnceLock::new() }
    }

    /// The gate at the socket, once it was found there.
    pub(super) fn found(&self) -> Option<&Remote> {
        self.found.get()
    }

    /// Looks for it. Whether it is there now and was not before.
    pub(super) fn look(&self) -> bool {
        if self.found.get().is_some() || !answers(&self.path) {
            return false;
        }
        Remote::new(&server(&self.path), &Files::default()).is_ok_and(|remote| self.found.set(remote).is_ok())
    }
}
