//! A server on a free loopback port, over a gate whose disk and clock the test holds.

use super::client::{Reply, send};
use crate::http::rate::RateSettings;
use crate::http::{App, Reach, finish, listen, routes, serve_router};
use axum::Router;
use axum::routing::get;
use countersign_engine::clock::Clock;
use countersign_engine::gate::{Environment, Gate, Options};
use countersign_engine::log_key::{HeldKey, KeyFiles};
use countersign_engine::storage::disk::{Disk, DiskFile, DiskLock, RealDisk, replace_small};
use countersign_testing::gate::{ORIGIN, Wall, environment, signing_key};
use serde_json::Value;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

pub struct Server {
    pub addr: SocketAddr,
    pub gate: Arc<Gate>,
    pub disk: Arc<Hands>,
    pub clock: Arc<Wall>,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<tokio::task::JoinHandle<()>>,
    runtime: tokio::runtime::Runtime,
    pub dirs: [tempfile::TempDir; 2],
}

impl Server {
    pub fn start() -> Self {
        Self::start_with(Options::new(ORIGIN))
    }

    pub fn start_with(options: Options) -> Self {
        Self::start_at(options, RateSettings::default())
    }

    /// The same with other limits on how often one may ask.
    pub fn start_at(options: Options, rates: RateSettings) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let disk = Arc::new(Hands::default());
        let clock = Arc::new(Wall::default());
        let on = TestDisk { real: RealDisk::open(dir.path()).unwrap(), hands: Arc::clone(&disk) };
        // The log's key is in a file of its own, as it is in a data folder, so that it can be replaced.
        let keys_dir = tempfile::tempdir().unwrap();
        let keys: Arc<dyn Disk> = Arc::new(RealDisk::open(keys_dir.path()).unwrap());
        replace_small(&*keys, "log", signing_key().as_bytes()).unwrap();
        let log_key = HeldKey::load(KeyFiles::new(Arc::clone(&keys), keys)).unwrap();
        let environment = Environment { log_key, ..environment(Arc::new(on), Arc::clone(&clock) as Arc<dyn Clock>) };
        let options = Options { segment_bytes: 8 << 20, ..options };
        let gate = Arc::new(Gate::open(environment, options).unwrap().0);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let listener = runtime.block_on(listen(&gate, "127.0.0.1:0".parse().unwrap())).unwrap();
        let addr = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let with_fault: Router<Arc<App>> = routes::router().route("/panic", get(fault));
        let router = finish(with_fault, Arc::clone(&gate), Reach::Loopback, Arc::default(), false, rates);
        let serving = runtime.spawn(async move {
            let shutdown = async move { drop(stopped.await) };
            serve_router(router, listener, shutdown).await.unwrap();
        });
        Self { addr, gate, disk, clock, stop: Some(stop), serving: Some(serving), runtime, dirs: [dir, keys_dir] }
    }

    pub fn send(&self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> Reply {
        send(self.addr, method, path, headers, body)
    }

    pub fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], b"")
    }

    pub fn put(&self, path: &str, body: &Value) -> Reply {
        self.send("PUT", path, &["Content-Type: application/json"], body.to_string().as_bytes())
    }

    /// Posts JSON as the agent `refund-1`.
    pub fn post(&self, path: &str, body: &str) -> Reply {
        let headers = ["Content-Type: application/json", "Countersign-Agent: refund-1"];
        self.send("POST", path, &headers, body.as_bytes())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.disk.release();
        drop(self.stop.take());
        if let Some(serving) = self.serving.take() {
            let ended = self.runtime.block_on(serving);
            assert!(ended.is_ok() || std::thread::panicking(), "the server ended by a panic");
        }
    }
}

async fn fault() -> &'static str {
    panic!("this handler has a fault")
}

/// What a test does to the disk.
#[derive(Default)]
pub struct Hands {
    /// Syncs of the log.
    syncs: Held,
    /// Syncs of small files, which are written whole.
    pub small_syncs: Held,
    pub reads: Held,
    pub fail_syncs: AtomicBool,
    pub fail_reads: AtomicBool,
}

impl Hands {
    /// From now on no sync of the log ends.
    pub fn hold(&self) {
        self.syncs.hold();
    }

    /// Lets go of everything that is held.
    pub fn release(&self) {
        [&self.syncs, &self.small_syncs, &self.reads].into_iter().for_each(Held::release);
    }
}

/// One operation of a disk, which a test can hold.
#[derive(Default)]
pub struct Held {
    /// Whether it is held, and how many are waiting in it.
    held: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Held {
    pub fn hold(&self) {
        self.held.lock().unwrap().0 = true;
    }

    fn release(&self) {
        self.held.lock().unwrap().0 = false;
        self.changed.notify_all();
    }

    /// Returns once someone waits in it.
    pub fn until_reached(&self) {
        let held = self.held.lock().unwrap();
        let long = Duration::from_secs(60);
        let (_held, timeout) = self.changed.wait_timeout_while(held, long, |(_, waiting)| *waiting == 0).unwrap();
        assert!(!timeout.timed_out(), "nobody got there");
    }

    fn pass(&self) {
        let mut held = self.held.lock().unwrap();
        held.1 += 1;
        self.changed.notify_all();
        let mut held = self.changed.wait_while(held, |(is_held, _)| *is_held).unwrap();
        held.1 -= 1;
    }
}

struct TestDisk {
    real: RealDisk,
    hands: Arc<Hands>,
}

impl TestDisk {
    fn wrap(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(TestFile { real: file, hands: Arc::clone(&self.hands) })
    }
}

impl Disk for TestDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        self.real.list()
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.wrap(self.real.open(name)?))
    }
    fn open_read(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.wrap(self.real.open_read(name)?))
    }
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.wrap(self.real.create(name)?))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.real.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.real.remove(name)
    }
    fn sync_dir(&self) -> io::Result<()> {
        self.real.sync_dir()
    }
    fn lock(&self) -> io::Result<Box<dyn DiskLock>> {
        self.real.lock()
    }
}

struct TestFile {
    real: Arc<dyn DiskFile>,
    hands: Arc<Hands>,
}

impl DiskFile for TestFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.hands.reads.pass();
        if self.hands.fail_reads.load(Ordering::SeqCst) {
            return Err(io::Error::other("the test fails this read"));
        }
        self.real.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.real.write_at(bytes, offset)
    }
    fn allocate(&self, len: u64) -> io::Result<()> {
        self.real.allocate(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.hands.syncs.pass();
        if self.hands.fail_syncs.load(Ordering::SeqCst) {
            return Err(io::Error::other("the test fails this sync"));
        }
        self.real.sync_data()
    }
    fn sync_all(&self) -> io::Result<()> {
        self.hands.small_syncs.pass();
        self.real.sync_all()
    }
    fn truncate(&self, len: u64) -> io::Result<()> {
        self.real.truncate(len)
    }
    fn len(&self) -> io::Result<u64> {
        self.real.len()
    }
}
