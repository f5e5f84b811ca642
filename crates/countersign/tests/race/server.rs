//! The built program as processes of its own: a server, and single commands.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const BINARY: &str = env!("CARGO_BIN_EXE_countersign");

/// A running server; killed when dropped.
pub struct Server {
    child: Child,
    /// Where it listens.
    pub url: String,
}

impl Server {
    /// Starts one on a data folder, on a free port of loopback.
    pub fn start(data: &Path) -> Self {
        let mut child = Command::new(BINARY)
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let url = loop {
            let line = lines.next().expect("the server ended before it listened").unwrap();
            if let Some(url) = line.strip_prefix("Listening on ") {
                break url.to_owned();
            }
        };
        // Whatever else it says must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url }
    }

    /// SIGKILL: no goodbye of any kind.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command in a folder, ready to be run.
pub fn command(args: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(BINARY);
    // What the machine happens to have set must not show.
    command.args(args).current_dir(folder).env_clear().stdin(Stdio::null());
    command
}

/// Runs a command in a folder, which must succeed; gives what it printed.
pub fn run(args: &[&str], folder: &Path) -> String {
    let output = command(args, folder).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
