//! Stands between the adapter and the server, and does harm once, at a chosen message of the client.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// What is done to the chosen message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harm {
    /// The connection is cut before it reaches the server.
    CutBefore,
    /// The server gets it and answers, and the answer is lost with the connection.
    CutAnswer,
    /// The same, and from then on no one gets through.
    CutAnswerAndAll,
    /// The server ends the client's process right before.
    Terminate,
}

/// A proxy on a socket of its own.
pub struct Proxy {
    folder: tempfile::TempDir,
    state: Arc<State>,
    accepting: Option<JoinHandle<()>>,
}

struct State {
    /// Messages until the harm is done.
    countdown: AtomicUsize,
    harm: Harm,
    done: AtomicBool,
    closed: AtomicBool,
    ended: AtomicBool,
    terminate: Box<dyn Fn() + Send + Sync>,
    streams: Mutex<Vec<UnixStream>>,
}

impl Proxy {
    /// In front of the server in `sockets`; does its harm at message number `at`, counted from 1 over all connections.
    pub fn start(sockets: &Path, at: usize, harm: Harm, terminate: Box<dyn Fn() + Send + Sync>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
        let state = Arc::new(State {
            countdown: AtomicUsize::new(at),
            harm,
            done: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            terminate,
            streams: Mutex::default(),
        });
        let (server, shared) = (sockets.join(".s.PGSQL.5432"), Arc::clone(&state));
        let accepting = std::thread::spawn(move || {
            let mut relays = Vec::new();
            for client in listener.incoming() {
                if shared.ended.load(Ordering::SeqCst) {
                    break;
                }
                if shared.closed.load(Ordering::SeqCst) {
                    continue;
                }
                let (Ok(client), Ok(server)) = (client, UnixStream::connect(&server)) else { continue };
                let shared = Arc::clone(&shared);
                relays.push(std::thread::spawn(move || relay(client, server, &shared)));
            }
            relays.into_iter().for_each(|relay| relay.join().unwrap());
        });
        Self { folder, state, accepting: Some(accepting) }
    }

    pub fn sockets(&self) -> &Path {
        self.folder.path()
    }

    /// Whether the harm has been done.
    pub fn done(&self) -> bool {
        self.state.done.load(Ordering::SeqCst)
    }

    /// Lets everyone through again.
    pub fn heal(&self) {
        self.state.closed.store(false, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::SeqCst);
        for stream in self.state.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // Wakes the listener, which then sees that it is over.
        let _ = UnixStream::connect(self.folder.path().join(".s.PGSQL.5432"));
        let _ = self.accepting.take().map(JoinHandle::join);
    }
}

/// Passes on in both directions until one side ends. What a client sends in one write counts as one message.
fn relay(client: UnixStream, server: UnixStream, state: &Arc<State>) {
    let clones = [client.try_clone().unwrap(), server.try_clone().unwrap()];
    state.streams.lock().unwrap().extend(clones);
    let swallow = Arc::new(AtomicBool::new(false));
    let answers = {
        let (mut from, mut to, swallow) =
            (server.try_clone().unwrap(), client.try_clone().unwrap(), Arc::clone(&swallow));
        std::thread::spawn(move || {
            let mut buffer = [0; 65_536];
            while let Ok(len @ 1..) = from.read(&mut buffer) {
                if swallow.load(Ordering::SeqCst) {
                    // The server has answered, so it has done what it was asked to. No one will hear of it.
                    break;
                }
                if to.write_all(&buffer[..len]).is_err() {
                    break;
                }
            }
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
        })
    };
    let (mut from, mut to) = (client, server);
    let mut buffer = [0; 65_536];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        if state.countdown.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) == Ok(1) {
            state.done.store(true, Ordering::SeqCst);
            match state.harm {
                Harm::CutBefore => break,
                Harm::CutAnswer => swallow.store(true, Ordering::SeqCst),
                Harm::CutAnswerAndAll => {
                    state.closed.store(true, Ordering::SeqCst);
                    swallow.store(true, Ordering::SeqCst);
                }
                Harm::Terminate => (state.terminate)(),
            }
        }
        if to.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
    if swallow.load(Ordering::SeqCst) {
        // The other direction ends this connection once the server has answered.
        let _ = to.set_read_timeout(Some(Duration::from_secs(10)));
        let _ = answers.join();
        return;
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    let _ = answers.join();
}
