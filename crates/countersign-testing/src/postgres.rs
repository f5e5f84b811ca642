//! A private PostgreSQL server: its own cluster in its own folder, reachable through a Unix socket only.
//!
//! The server is stopped by its own process id and its folder is removed when [`Server`] is dropped, which also happens on
//! an error or a panic, and when the program is interrupted. It never touches a server that is already on the machine.
//! The bench measures against it, and the tests of the PostgreSQL adapter run on it.

mod account;

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use account::{Account, Folder};

/// The superuser of the private cluster.
const USER: &str = "countersign";

/// Where distributions keep the server's programs when they are not in `PATH`.
const KNOWN_PARENTS: &[&str] = &["/usr/lib/postgresql", "/usr/local/pgsql", "/opt/homebrew/opt"];

/// How long a server may take to answer, and to stop when asked politely.
const START_WAIT: Duration = Duration::from_secs(60);
const STOP_WAIT: Duration = Duration::from_secs(15);

/// The settings that we choose; everything else is the server's default. Durability is on in full, as it is for the gate.
/// The rest is what a person who wants speed without losing data would set on a small machine.
pub const SETTINGS: &[(&str, &str)] = &[
    ("fsync", "on"),
    ("synchronous_commit", "on"),
    ("full_page_writes", "on"),
    ("wal_level", "minimal"),
    ("max_wal_senders", "0"),
    ("wal_buffers", "16MB"),
    ("min_wal_size", "1GB"),
    ("max_wal_size", "8GB"),
    ("checkpoint_timeout", "30min"),
    ("shared_buffers", "512MB"),
    ("max_connections", "100"),
    ("max_pred_locks_per_transaction", "256"),
    ("jit", "off"),
    ("default_transaction_isolation", "serializable"),
];

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// No server programs.
    #[error(
        "no PostgreSQL server was found (initdb, postgres and pg_isready, in PATH or under /usr/lib/postgresql)\n\
         hint: install the package `postgresql`, or leave this comparison out with --no-postgres"
    )]
    NotInstalled,
    /// Root has no one to run the server as.
    #[error(
        "PostgreSQL refuses to run as root, and there is neither an account `postgres` nor `nobody`\n\
         hint: run the bench as another user, or leave this comparison out with --no-postgres"
    )]
    NoAccount,
    /// The server did not come up.
    #[error("{what}: {said}\nhint: the lines above are the server's own; --no-postgres leaves this comparison out")]
    Start {
        /// Which part failed.
        what: &'static str,
        /// What the program said.
        said: String,
    },
    /// The operating system refused something.
    #[error(
        "{what}: {source}\nhint: is the disk full, or the folder not ours? --no-postgres leaves this comparison out"
    )]
    Io {
        /// What was being done.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

impl ServerError {
    /// The operating system refused something.
    pub fn io(what: &'static str, source: io::Error) -> Self {
        Self::Io { what, source }
    }
}

pub struct Server {
    running: Arc<Mutex<Option<Running>>>,
    sockets: PathBuf,
    data: PathBuf,
    programs: PathBuf,
    account: Account,
}

impl Server {
    /// Makes a cluster in a new folder under `dir`, so that it is on the disk to be measured, and starts it.
    pub fn start(dir: &Path) -> Result<Self, ServerError> {
        let programs = find_programs(std::env::var_os("PATH").as_deref(), KNOWN_PARENTS)?;
        let account = Account::choose()?;
        let folder = Folder::create(dir, &account)?;
        let (data, sockets) = (folder.path.join("data"), folder.sockets.clone());

        let mut initdb = account.command(&programs.join("initdb"), &folder.path);
        initdb.arg("--pgdata").arg(&data).args(["--username", USER, "--auth", "trust", "--encoding", "UTF8"]);
        initdb.args(["--locale", "C", "--no-sync", "--no-instructions"]);
        let output = initdb.output().map_err(|source| ServerError::io("initdb could not be started", source))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(ServerError::Start { what: "initdb failed", said });
        }

        // In the file and not on the command line, so that a test can let it listen.
        let quiet = |mut file: fs::File| file.write_all(b"listen_addresses = ''\n");
        let file = fs::OpenOptions::new().append(true).open(data.join("postgresql.conf"));
        file.and_then(quiet).map_err(|source| ServerError::io("the server's settings cannot be written", source))?;

        let child = spawn(&account, &programs, &folder)?;
        let running = Arc::new(Mutex::new(Some(Running { child, folder })));
        let server = Self { running, sockets, data, programs, account };
        stop_when_interrupted(&server.running)?;
        server.wait_until_ready(&server.programs)?;
        Ok(server)
    }

    /// Where the server's socket is.
    pub fn sockets(&self) -> &Path {
        &self.sockets
    }

    /// Stops the server as a crash would, without finishing or telling anyone anything, and starts it again.
    pub fn crash_and_restart(&self) -> Result<(), ServerError> {
        if let Some(running) = self.running.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            running.stop(&[Signal::QUIT, Signal::KILL]);
            running.child = spawn(&self.account, &self.programs, &running.folder)?;
        }
        self.wait_until_ready(&self.programs)
    }

    /// Where the server keeps its data; elsewhere than asked for if its account could not get there.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// How to reach the server.
    pub fn config(&self) -> tokio_postgres::Config {
        let mut config = tokio_postgres::Config::new();
        config.host_path(&self.sockets).user(USER).dbname("postgres");
        config
    }

    /// The server's process id and folder, while it runs.
    pub fn process_and_folder(&self) -> Option<(u32, PathBuf)> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.as_ref().map(|running| (running.child.id(), running.folder.path.clone()))
    }

    fn wait_until_ready(&self, programs: &Path) -> Result<(), ServerError> {
        let started = Instant::now();
        loop {
            self.fail_if_ended()?;
            let mut probe = Command::new(programs.join("pg_isready"));
            probe.arg("--quiet").arg("--host").arg(&self.sockets).stdin(Stdio::null());
            let ready = probe.status().map_err(|source| ServerError::io("pg_isready could not be started", source))?;
            if ready.success() {
                return Ok(());
            }
            if started.elapsed() > START_WAIT {
                let said = format!("no answer within {} s", START_WAIT.as_secs());
                return Err(ServerError::Start { what: "the server does not answer", said });
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn fail_if_ended(&self) -> Result<(), ServerError> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(running) = running.as_mut() else {
            return Err(ServerError::Start { what: "the server was stopped", said: String::new() });
        };
        let ended =
            running.child.try_wait().map_err(|source| ServerError::io("the server cannot be watched", source))?;
        match ended {
            None => Ok(()),
            Some(_) => {
                let said = fs::read_to_string(running.folder.path.join("log")).unwrap_or_default();
                Err(ServerError::Start { what: "the server ended at once", said })
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Taking it out drops it: the server is stopped and the folder removed, once, by whichever comes first.
        drop(self.running.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// The process and, dropped after it, its folder.
struct Running {
    child: Child,
    folder: Folder,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fast shutdown, then immediate, then the kernel's.
        self.stop(&[Signal::INT, Signal::QUIT, Signal::KILL]);
    }
}

impl Running {
    /// Asks with one signal after the other, until the server has ended. A process id is ours until it has been waited for.
    fn stop(&mut self, signals: &[Signal]) {
        for &signal in signals {
            if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
                let _sent = kill_process(pid, signal);
            }
            let asked = Instant::now();
            while asked.elapsed() < STOP_WAIT {
                if !matches!(self.child.try_wait(), Ok(None)) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// Starts the server's process on a cluster that is already there.
fn spawn(account: &Account, programs: &Path, folder: &Folder) -> Result<Child, ServerError> {
    let mut postgres = account.command(&programs.join("postgres"), &folder.path);
    postgres.arg("-D").arg(folder.path.join("data")).arg("-k").arg(&folder.sockets);
    for (name, value) in SETTINGS {
        postgres.arg("-c").arg(format!("{name}={value}"));
    }
    let log = fs::File::create(folder.path.join("log"))
        .map_err(|source| ServerError::io("the server's log cannot be written", source))?;
    // A group of its own: an interrupt at the terminal reaches us alone, and we stop the server in order.
    postgres
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .process_group(0)
        .spawn()
        .map_err(|source| ServerError::io("the server could not be started", source))
}

/// Waits in a thread for an interrupt or a request to end, stops the server and ends the program. Without it the default
/// action would end the program with the server left behind.
fn stop_when_interrupted(running: &Arc<Mutex<Option<Running>>>) -> Result<(), ServerError> {
    use tokio::signal::unix::{SignalKind, signal};

    let running = Arc::clone(running);
    let failed = |source| ServerError::io("interrupts cannot be watched", source);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let (mut interrupt, mut terminate) = {
        let _inside = runtime.enter();
        (signal(SignalKind::interrupt()).map_err(failed)?, signal(SignalKind::terminate()).map_err(failed)?)
    };
    std::thread::spawn(move || {
        let code = runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => 130,
                _ = terminate.recv() => 143,
            }
        });
        drop(running.lock().unwrap_or_else(PoisonError::into_inner).take());
        std::process::exit(code);
    });
    Ok(())
}

/// The folder that holds `initdb`, `postgres` and `pg_isready`: from `PATH`, else the newest that a distribution installed.
pub fn find_programs(path: Option<&OsStr>, parents: &[&str]) -> Result<PathBuf, ServerError> {
    let in_path = path.into_iter().flat_map(std::env::split_paths);
    let mut installed: Vec<(u32, PathBuf)> = parents
        .iter()
        .filter_map(|parent| fs::read_dir(parent).ok())
        .flat_map(|entries| entries.flatten())
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let digits: String = name.chars().filter(char::is_ascii_digit).collect();
            (digits.parse().unwrap_or(0), entry.path().join("bin"))
        })
        .collect();
    installed.sort();
    let candidates = in_path.chain(installed.into_iter().rev().map(|(_, folder)| folder));
    let complete =
        |folder: &PathBuf| ["initdb", "postgres", "pg_isready"].iter().all(|name| folder.join(name).is_file());
    // A program in PATH may be a link; the server looks for its files beside the real one by itself.
    candidates.into_iter().find(complete).ok_or(ServerError::NotInstalled)
}
