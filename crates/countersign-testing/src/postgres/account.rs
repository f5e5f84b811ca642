//! The account that the server runs under and the folders that it may use.
//!
//! PostgreSQL refuses to run as root. Then it gets an unprivileged account, and folders that belong to it and to no one else.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::geteuid;

use super::ServerError;

/// Accounts that a server may run under when we are root, which it refuses.
const UNPRIVILEGED: &[&str] = &["postgres", "nobody"];

/// Whom the server runs as: ourselves, or an unprivileged account when we are root.
pub struct Account {
    other: Option<(u32, u32)>,
}

impl Account {
    /// Ourselves unless we are root.
    pub fn choose() -> Result<Self, ServerError> {
        if !geteuid().is_root() {
            return Ok(Self { other: None });
        }
        let ids = |name: &&str| Some((id("-u", name)?, id("-g", name)?));
        let other = UNPRIVILEGED.iter().find_map(ids).ok_or(ServerError::NoAccount)?;
        Ok(Self { other: Some(other) })
    }

    /// A command under this account, in a folder that it may read, without our environment. Setting the user from root also
    /// drops the other groups.
    pub fn command(&self, program: &Path, folder: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(folder).env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C").env("HOME", folder);
        if let Some((user, group)) = self.other {
            command.uid(user).gid(group);
        }
        command
    }

    /// A new folder that belongs to the account, in the first of these parents that it can reach.
    fn make_folder(&self, kind: &str, parents: &[&Path]) -> io::Result<PathBuf> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        for parent in parents {
            let path = parent.join(format!("countersign-{kind}-{}-{number}", std::process::id()));
            fs::create_dir(&path)?;
            self.give(&path)?;
            if self.can_write_in(&path) {
                return Ok(path);
            }
            fs::remove_dir(&path)?;
        }
        let message = "the account that runs PostgreSQL can reach none of the folders tried";
        Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
    }

    fn give(&self, path: &Path) -> io::Result<()> {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
        match self.other {
            Some((user, group)) => chown(path, Some(user), Some(group)),
            None => Ok(()),
        }
    }

    fn can_write_in(&self, path: &Path) -> bool {
        let mut probe = self.command(Path::new("/bin/sh"), Path::new("/"));
        probe.args(["-c", "test -w \"$0\""]).arg(path);
        probe.status().is_ok_and(|status| status.success())
    }
}

/// One of an account's numbers, as `id` tells it; it also knows accounts that are not in a file.
fn id(which: &str, name: &str) -> Option<u32> {
    let output = Command::new("id").args([which, name]).stderr(Stdio::null()).output().ok()?;
    std::str::from_utf8(output.stdout.trim_ascii()).ok()?.parse().ok()
}

/// The cluster's folder and the one for its socket; both are removed when dropped.
pub struct Folder {
    /// The server's own files.
    pub path: PathBuf,
    /// Where its socket is.
    pub sockets: PathBuf,
}

impl Folder {
    /// Data goes under `dir` if the account can get there, else to where temporary files are. The socket is always there:
    /// the kernel allows its path about a hundred bytes.
    pub fn create(dir: &Path, account: &Account) -> Result<Self, ServerError> {
        let failed = |source| ServerError::io("a folder for the server cannot be made", source);
        let dir = dir.canonicalize().map_err(failed)?;
        let temporary = [std::env::temp_dir(), PathBuf::from("/tmp")];
        let [first, second] = &temporary;
        let sockets = account.make_folder("socket", &[first, second]).map_err(failed)?;
        let mut folder = Self { path: sockets.clone(), sockets };
        folder.path = account.make_folder("postgres", &[&dir, first, second]).map_err(failed)?;
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // There is no one left to tell: a folder that cannot be removed is visible by its name.
        let _removed = fs::remove_dir_all(&self.path);
        let _removed = fs::remove_dir_all(&self.sockets);
    }
}
