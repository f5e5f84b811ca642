//! What `[connections]` and `operator_socket` say: how many may call, for how long, and where operators do.

use super::table::{Table, string};
use crate::connections::Limits;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Value;

/// The longest time that is accepted for any of these: past it, a limit is none.
const TIMEOUT_MAX: Duration = Duration::from_secs(3600);
/// The most connections that are taken; the system's own limit comes first nearly everywhere.
const CONNECTIONS_MAX: i64 = 65_536;

/// The file in the data folder that operators connect to unless told otherwise.
pub const OPERATOR_SOCKET: &str = "operator.sock";
/// What is written to have no such socket.
const OFF: &str = "off";

/// Limits that the settings name; each is `None` where they say nothing.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionSettings {
    max: Option<usize>,
    per_peer: Option<usize>,
    header_timeout: Option<Duration>,
    body_timeout: Option<Duration>,
    idle_timeout: Option<Duration>,
}

impl ConnectionSettings {
    pub(super) fn parse(value: &Value) -> Result<Self> {
        let table = Table::new("connections", value)?;
        table.only(&["body_timeout", "header_timeout", "idle_timeout", "max", "per_peer"])?;
        Ok(Self {
            max: table.number("max", 1, CONNECTIONS_MAX)?,
            per_peer: table.number("per_peer", 1, CONNECTIONS_MAX)?,
            header_timeout: table.duration("header_timeout", TIMEOUT_MAX)?,
            body_timeout: table.duration("body_timeout", TIMEOUT_MAX)?,
            idle_timeout: table.duration("idle_timeout", TIMEOUT_MAX)?,
        })
    }

    /// The limits, where the system has room for so many connections.
    pub fn limits(&self, room: usize) -> Limits {
        let usual = Limits::default();
        let connections = self.max.unwrap_or(usual.connections).min(room).max(1);
        Limits {
            connections,
            // One address that is not this machine leaves the other half to others.
            per_peer: self.per_peer.unwrap_or((connections / 2).max(1)),
            header: self.header_timeout.unwrap_or(usual.header),
            body: self.body_timeout.unwrap_or(usual.body),
            idle: self.idle_timeout.unwrap_or(usual.idle),
            ..usual
        }
    }
}

/// Where operators connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperatorSocket {
    /// Nowhere of their own.
    Off,
    /// Here.
    At(PathBuf),
}

impl OperatorSocket {
    pub(super) fn parse(value: &Value, base: &Path) -> Result<Self> {
        let text = string("operator_socket", value)?;
        Ok(if text == OFF { Self::Off } else { Self::At(base.join(text)) })
    }
}
