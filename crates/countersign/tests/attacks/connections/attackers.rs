//! Thousands of clients that keep the gate waiting, in a process of their own: it needs more descriptors than a process usually may have,
//! and what a process may have is not for one test of many to change.

use crate::attacks::world::PATIENCE;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

pub const HALF_OPEN: usize = 2000;
pub const SLOW: usize = 2000;

/// The variable that tells the process whom to attack.
const ATTACKED: &str = "ATTACKED";
/// What it says once every client has tried to connect.
const CONNECTED: &str = "every attacker has connected";

/// An attack, until it is dropped.
pub struct Attack(Child);

impl Attack {
    /// Begins it, and waits until every attacker has connected.
    pub fn begin(addr: SocketAddr) -> Self {
        let script = format!("ulimit -Sn {} && exec \"$0\" \"$@\"", HALF_OPEN + SLOW + 200);
        let test = format!("{}::attack", module_path!().split_once("::").unwrap().1);
        let mut command = Command::new("sh");
        command.args(["-c", &script]).arg(std::env::current_exe().unwrap());
        command.args(["--exact", &test, "--ignored", "--nocapture", "--test-threads=1"]);
        command.env(ATTACKED, addr.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut attack = Self(command.spawn().unwrap());
        let said = BufReader::new(attack.0.stdout.take().unwrap());
        let (sender, connected) = channel();
        std::thread::spawn(move || {
            let mut lines = said.lines().map_while(Result::ok);
            let _ = sender.send(lines.any(|line| line.contains(CONNECTED)));
        });
        assert!(connected.recv_timeout(PATIENCE).unwrap(), "the attackers were given enough descriptors");
        attack
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The attackers themselves, and nothing where nobody is to be attacked. They end with the test that started them.
#[test]
#[ignore = "is a crowd of clients, which another test starts"]
fn attack() {
    let Ok(addr) = std::env::var(ATTACKED) else { return };
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let mut attackers = Attackers::new(addr.parse().unwrap());
    attackers.round();
    println!("{CONNECTED}");
    loop {
        attackers.round();
    }
}

/// Clients that connect and then keep the gate waiting. Those that are cut come back at once.
struct Attackers {
    addr: SocketAddr,
    clients: Vec<(Option<TcpStream>, &'static [u8])>,
}

impl Attackers {
    fn new(addr: SocketAddr) -> Self {
        let half_open: &[u8] = b"POST /v1/actions HTTP/1.1\r\nHost: gate\r\nContent-";
        let slow_head: &[u8] = b"POST /v1/actions HTTP/1.1\r\nHost: gate\r\nX: ";
        let slow_body: &[u8] =
            b"POST /v1/actions HTTP/1.1\r\nHost: gate\r\nContent-Type: text/plain\r\nContent-Length: 9999\r\n\r\n{";
        let mut clients: Vec<_> = (0..HALF_OPEN).map(|_| (None, half_open)).collect();
        clients.extend((0..SLOW).map(|at| (None, if at % 2 == 0 { slow_head } else { slow_body })));
        Self { addr, clients }
    }

    /// Every client once: connects if it has no connection, and otherwise sends one byte more if it is a slow one.
    fn round(&mut self) {
        for (at, (stream, begins_with)) in self.clients.iter_mut().enumerate() {
            let is_alive = stream.as_mut().is_some_and(|stream| {
                let mut byte = [0];
                let is_open =
                    matches!(stream.read(&mut byte), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock);
                is_open && (at < HALF_OPEN || stream.write(b"x").is_ok())
            });
            if is_alive {
                continue;
            }
            *stream = TcpStream::connect_timeout(&self.addr, Duration::from_secs(1)).ok();
            if let Some(stream) = stream {
                let _ = stream.write_all(begins_with);
                stream.set_nonblocking(true).unwrap();
            }
        }
    }
}
