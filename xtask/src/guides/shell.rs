//! One shell for one guide: bash, fed on its standard input as a terminal would feed it, in a session of its own.
//!
//! Bash reads its commands byte by byte from a pipe, so a command that reads its input swallows what was pasted after it, here
//! as in a terminal. What the shell tells about itself goes to a file beside the output.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::Place;

/// The ports that guides use. Where a guide cannot have a network of its own they must be free.
const PORTS: &[u16] = &[8420, 8430, 8443, 5433];

/// How often it is asked whether the shell is done.
const POLL: Duration = Duration::from_millis(10);

/// A running shell.
pub struct Shell {
    child: Child,
    told: PathBuf,
    output: PathBuf,
    folder: PathBuf,
    blocks: usize,
    told_read: usize,
    output_read: usize,
}

/// What became of one block.
pub struct Ran {
    /// The commands that failed, with their codes.
    pub failed: Vec<(i32, String)>,
    /// What was printed, by background processes too.
    pub printed: String,
}

impl Ran {
    /// Whether just those commands failed that were meant to.
    pub fn judge(&self, expected: &[i32], text: &str) -> Result<()> {
        let codes: Vec<i32> = self.failed.iter().map(|(code, _)| *code).collect();
        if codes == expected {
            return Ok(());
        }
        let commands: String =
            self.failed.iter().map(|(code, command)| format!("\n  exit code {code}: {command}")).collect();
        bail!(
            "these commands failed:{}\nand these codes were expected: {expected:?}\nthe block:\n{text}\nit printed:\n{}",
            if commands.is_empty() { " none".to_owned() } else { commands },
            self.printed
        )
    }
}

/// Whether a process can be given a network of its own: as root, outside of most containers.
pub fn can_isolate() -> bool {
    let mut probe = Command::new("unshare");
    probe.args(["--net", "--", "ip", "link", "set", "lo", "up"]);
    let probe = probe.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    probe.is_ok_and(|status| status.success())
}

impl Shell {
    /// Starts bash in `here`, with little in its environment.
    pub fn start(place: &Place, told: &Path, home: &Path, here: &Path, programs: &Path) -> Result<Self> {
        let (told, output) = (told.with_extension("told"), told.with_extension("output"));
        File::create(&told)?;
        let printed = File::create(&output)?;
        let mut bash = if place.isolated {
            let mut command = Command::new("unshare");
            command.args(["--net", "--", "bash"]);
            command
        } else {
            Command::new("bash")
        };
        bash.args(["--noprofile", "--norc"]).current_dir(here).process_group(0);
        bash.env_clear().env("HOME", home).env("LANG", "C.UTF-8").env("PATH", path(place, programs)?);
        bash.env("PYTHONPATH", place.root.join("clients/python/src")).env("PYTHONDONTWRITEBYTECODE", "1");
        bash.stdin(Stdio::piped()).stdout(printed.try_clone()?).stderr(printed);
        let child =
            bash.spawn().context("bash could not be started\nhint: the guides are written for bash; install it")?;
        let folder = here.to_path_buf();
        let mut shell = Self { child, told, output, folder, blocks: 0, told_read: 0, output_read: 0 };
        // A network of one's own begins with everything switched off.
        let network = if place.isolated { "ip link set lo up\n" } else { "" };
        let told = shell.told.display();
        let notice = format!(
            "{network}set -o pipefail\ntrap 'printf \"failed %s %q\\n\" \"$?\" \"$BASH_COMMAND\" >>{told}' ERR"
        );
        shell.paste(&notice, Duration::from_secs(60))?.judge(&[], &notice)?;
        Ok(shell)
    }

    /// Feeds text to the shell and waits until it has done all of it.
    pub fn paste(&mut self, text: &str, within: Duration) -> Result<Ran> {
        self.blocks += 1;
        let done = format!("done {} ", self.blocks);
        let stdin = self.child.stdin.as_mut().context("the shell has no input")?;
        let told = self.told.display();
        writeln!(stdin, "{}\nprintf '{done}%s\\n' \"$PWD\" >>{told}", text.trim_end()).context("the shell is gone")?;
        let deadline = Instant::now() + within;
        loop {
            let heard = std::fs::read_to_string(&self.told)?;
            let new = heard.get(self.told_read..).unwrap_or_default();
            if let Some(folder) = new.lines().find_map(|line| line.strip_prefix(&done)) {
                self.folder = PathBuf::from(folder);
                let failed = new.lines().filter_map(failure).collect();
                self.told_read = heard.len();
                return Ok(Ran { failed, printed: self.printed() });
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the shell ended in the middle ({status}); the block:\n{text}\nit printed:\n{}", self.printed());
            }
            if Instant::now() > deadline {
                let seconds = within.as_secs();
                bail!("not done after {seconds} s; the block:\n{text}\nit printed:\n{}", self.printed());
            }
            std::thread::sleep(POLL);
        }
    }

    /// What was printed since this was last asked.
    pub fn printed(&mut self) -> String {
        let bytes = std::fs::read(&self.output).unwrap_or_default();
        let new = bytes.get(self.output_read..).unwrap_or_default();
        self.output_read = bytes.len();
        String::from_utf8_lossy(new).into_owned()
    }

    /// The folder that the shell is in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Lets the shell end by itself.
    pub fn end(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                bail!("the shell does not end");
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for Shell {
    /// Ends what a guide that failed has left running: the shell's own process group, and nothing else.
    fn drop(&mut self) {
        let group = format!("-{}", self.child.id());
        let mut kill = Command::new("kill");
        // Nothing to do about a group that is gone already.
        let _ended = kill.args(["-KILL", "--", &group]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        let _reaped = self.child.wait();
    }
}

fn failure(line: &str) -> Option<(i32, String)> {
    let (code, command) = line.strip_prefix("failed ")?.split_once(' ')?;
    Some((code.parse().ok()?, command.replace('\\', "")))
}

/// The binary, the Python that has the client's libraries, and what is on this machine.
fn path(place: &Place, programs: &Path) -> Result<String> {
    let python = place.python.parent().context("Python is in no folder")?;
    let inherited = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned());
    let mut folders = vec![programs.display().to_string(), python.display().to_string(), inherited];
    // Where Debian keeps servers; an ordinary user's path does not always have it.
    folders.extend(["/usr/sbin".to_owned(), "/sbin".to_owned()]);
    Ok(folders.join(":"))
}

/// Makes sure that nothing else listens where guides do.
pub fn ports_are_free() -> Result<()> {
    for port in PORTS {
        if std::net::TcpStream::connect(("127.0.0.1", *port)).is_ok() {
            bail!(
                "port {port} of this machine is taken, and the guides need it\n\
                 hint: stop what listens there, or run this as root, where each guide gets a network of its own"
            );
        }
    }
    Ok(())
}
