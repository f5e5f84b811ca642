//! Operators have a listener of their own: whatever happens to the port, a halt gets through.
//!
//! It is a socket in the file system that only the gate's own user can connect to, with a thread, a runtime and a number of
//! connections of its own. Nothing that agents do on the port can use these up. The interface is the same, and so are the
//! signatures: reaching the socket proves nothing.

use crate::commands::Failure;
use crate::config::{Config, OPERATOR_SOCKET, OperatorSocket};
use crate::connections::{self, Limits, SOCKET_PATH_BYTES_MAX};
use crate::terminal::note;
use anyhow::{Context as _, Result};
use axum::Router;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// How many connections operators have. People and their scripts; each lasts for one command.
pub const CONNECTIONS: usize = 32;
/// How many of them may read the ledger at a time.
pub const READERS: usize = 4;

/// The operators' listener, bound and not yet serving.
pub struct Socket {
    path: PathBuf,
    listener: UnixListener,
}

impl Socket {
    /// Binds it where the settings say. The gate holds its folder by then, so there is no other one to disturb.
    pub fn bind(config: &Config, data: &Path) -> Result<Option<Self>> {
        let (path, is_chosen) = match &config.operator_socket {
            Some(OperatorSocket::Off) => return Ok(None),
            Some(OperatorSocket::At(path)) => (path.clone(), true),
            None => (data.join(OPERATOR_SOCKET), false),
        };
        let len = path.as_os_str().as_bytes().len();
        if len > SOCKET_PATH_BYTES_MAX {
            let message = format!("the path of the operators' socket has {len} bytes: {}", path.display());
            let hint =
                format!("sockets take at most {SOCKET_PATH_BYTES_MAX}; name a shorter one with `operator_socket`");
            if is_chosen {
                return Err(Failure::usage(message).hint(hint).into());
            }
            // It was not asked for: the gate runs without, and says so.
            note(format_args!(
                "note: there is no socket for operators, who use the port like all others: {message}\nhint: {hint}"
            ));
            return Ok(None);
        }
        let listener = connections::bind_socket(&path)?;
        Ok(Some(Self { path, listener }))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Begins to serve, on a thread of its own.
    pub fn serve(self, router: Router) -> Result<Operators> {
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(READERS).enable_all().build();
        let runtime = runtime.context("the system gives no runtime for operators")?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::UnixListener::from_std(self.listener).context("the operators' socket cannot be used")?
        };
        let limits = Limits { connections: CONNECTIONS, ..Limits::default() };
        let (stop, stopped) = oneshot::channel::<()>();
        let work = move || {
            let until = async move { drop(stopped.await) };
            runtime.block_on(connections::serve(router, listener, limits, until))
        };
        let thread = std::thread::Builder::new().name("operators".into()).spawn(work);
        Ok(Operators { path: self.path, stop, thread: thread.context("the system gives no thread for operators")? })
    }
}

/// Operators being served.
pub struct Operators {
    path: PathBuf,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Result<()>>,
}

impl Operators {
    /// Answers what was taken, and removes the socket: the gate still holds its folder.
    pub fn stop(self) {
        drop(self.stop);
        match self.thread.join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the operators' listener failed"),
            // The panic hook has said what happened.
            Err(_) => {}
        }
        // A socket that stays does no harm: nothing answers there, and the next gate replaces it.
        drop(std::fs::remove_file(&self.path));
    }
}
