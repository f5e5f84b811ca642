//! The PostgreSQL server that the guide's reader has: a cluster in a folder of its own, on the port that the guide names, in the
//! network of the guide's shell.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::shell::Shell;

/// How long the server may take to be made and started.
const START_WAIT: Duration = Duration::from_secs(120);

/// A running server; it is a child of the shell and ends with it at the latest.
pub struct Cluster {
    stop: String,
}

impl Cluster {
    /// Makes a cluster and starts its server, as `docker run postgres` would: user `postgres`, no password.
    pub fn start(shell: &mut Shell, folder: &Path) -> Result<Self> {
        let programs = super::postgres_programs()?;
        let (programs, data) = (programs.display(), folder.join("postgres"));
        let data = data.display();
        // The server refuses to run as root.
        let account =
            format!("if [ \"$(id -u)\" = 0 ]; then as='runuser -u nobody --'; chown nobody {data}; else as=; fi");
        let start = format!(
            "mkdir -m 700 {data}\n{account}\n\
             (cd / && $as {programs}/initdb -D {data} -U postgres --auth trust --no-sync >/dev/null)\n\
             (cd / && $as {programs}/pg_ctl -D {data} -o '-p 5433 -h 127.0.0.1 -k {data} -F' -l {data}/log -w start >/dev/null)\n\
             unset as"
        );
        shell.paste(&start, START_WAIT)?.judge(&[], &start)?;
        let stop = format!(
            "if [ \"$(id -u)\" = 0 ]; then as='runuser -u nobody --'; else as=; fi\n\
             (cd / && $as {programs}/pg_ctl -D {data} -m immediate -w stop >/dev/null)\nunset as"
        );
        Ok(Self { stop })
    }

    /// Stops the server.
    pub fn stop(self, shell: &mut Shell) -> Result<()> {
        shell.paste(&self.stop, START_WAIT)?.judge(&[], &self.stop)
    }
}
