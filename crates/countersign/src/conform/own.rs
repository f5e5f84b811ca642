//! A gate of our own: a process on loopback in a temporary folder, with a payment service beside it whose book can be read.

mod payments;

use crate::commands::serve::LISTENING;
use crate::{commands::Failure, key_file};
use anyhow::{Context as _, Result};
use ed25519_dalek::SigningKey;
use payments::Payments;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// The origin of the log.
const ORIGIN: &str = "countersign.example/conform";

/// A gate of our own, and what it works with.
pub struct Own {
    process: Process,
    payments: Payments,
    folder: TempDir,
}

/// A gate's process; killed when dropped.
pub struct Process(Child);

impl Own {
    /// Makes a data folder, and starts a gate on it; gives its address and its admin's key.
    pub fn start() -> Result<(Self, String, SigningKey)> {
        let folder = tempfile::tempdir().context("no temporary folder can be made")?;
        let key = make(folder.path())?;
        let payments = Payments::start()?;
        let settings = format!(
            "[adapters.payments]\nkind = \"http\"\nbase = \"{}\"\nallow_private = [\"127.0.0.0/8\"]\n",
            payments.url()
        );
        std::fs::write(folder.path().join("countersign.toml"), settings)?;
        let (process, url) = serve(folder.path())?;
        Ok((Self { process, payments, folder }, url, key))
    }

    /// How many calls the payment service has seen.
    pub fn calls(&self) -> usize {
        self.payments.calls()
    }

    /// Where the data folder is.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// SIGKILL: the process gets no chance to finish anything.
    pub fn kill(&mut self) -> Result<()> {
        self.process.0.kill().and_then(|()| self.process.0.wait()).context("the gate cannot be killed")?;
        Ok(())
    }

    /// Starts the gate again; gives its new address.
    pub fn restart(&mut self) -> Result<String> {
        let (process, url) = serve(self.folder.path())?;
        self.process = process;
        Ok(url)
    }
}

/// Makes a data folder with an admin in a folder; gives the admin's key.
pub fn make(folder: &Path) -> Result<SigningKey> {
    run(folder, &["init", "--data", "data", "--origin", ORIGIN, "--admin-key", "admin.key"])?;
    key_file::read(&folder.join("admin.key"))
}

/// Runs this program in a folder to its end; gives its exit code and what it printed.
pub fn output(folder: &Path, args: &[&str]) -> Result<(Option<i32>, String)> {
    let output = command(folder, args)?.output().context("this program cannot be started again")?;
    Ok((output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// Runs this program in a folder to its end, which must be a good one.
pub fn run(folder: &Path, args: &[&str]) -> Result<()> {
    let output = command(folder, args)?.output().context("this program cannot be started again")?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Failure::cannot(format!("`countersign {}` failed: {said}", args.join(" "))).into())
}

/// This program again. Of the caller's environment it has only what is logged and where temporary files go.
pub fn command(folder: &Path, args: &[&str]) -> Result<Command> {
    let program = std::env::current_exe().context("the system does not say which program this is")?;
    let mut command = Command::new(program);
    command.args(args).current_dir(folder).env_clear().stdin(Stdio::null());
    let kept = ["RUST_LOG", "TMPDIR"].into_iter().chain(SABOTAGE);
    command.envs(kept.filter_map(|name| Some((name, std::env::var_os(name)?))));
    Ok(command)
}

/// The variable that says which control a gate must do without; only in builds that can.
#[cfg(feature = "sabotage")]
const SABOTAGE: Option<&str> = Some(countersign_engine::sabotage::VARIABLE);
#[cfg(not(feature = "sabotage"))]
const SABOTAGE: Option<&str> = None;

/// Starts a gate on the data folder in a folder; gives its address.
pub fn serve(folder: &Path) -> Result<(Process, String)> {
    let mut command = command(folder, &["serve", "--data", "data", "--listen", "127.0.0.1:0"])?;
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut process = Process(child.context("the gate cannot be started")?);
    let stderr = process.0.stderr.take().context("the gate has no stderr")?;
    let mut lines = BufReader::new(stderr).lines();
    let mut said = Vec::new();
    for line in lines.by_ref() {
        let line = line?;
        if let Some(url) = line.strip_prefix(LISTENING) {
            let url = url.to_owned();
            // What else it says must not fill the pipe.
            std::thread::spawn(move || lines.for_each(drop));
            return Ok((process, url));
        }
        said.push(line);
    }
    Err(Failure::cannot(format!("the gate did not start:\n{}", said.join("\n"))).into())
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only where it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
