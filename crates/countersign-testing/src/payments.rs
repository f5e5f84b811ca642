//! A payment service that misbehaves on purpose: the outside, for tests of calls to it.
//!
//! It is a process of its own with a book of its own: an append-only file, one line for each payout, synced before anything is
//! answered. What it does to a request depends on its seed and the request's idempotency key alone, so a run can be repeated.
//!
//! - `POST /payouts` with `{"amount": …, "destination": …}` and an `Idempotency-Key` pays. Started with `--idempotent`, it pays
//!   once for each key; otherwise once for each request, as most of the world does.
//! - `GET /payouts/{key}` tells whether it has paid.

pub mod book;
pub mod plan;

use book::Book;
use plan::{Fault, Plan};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How a service is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The file of its book.
    pub book: PathBuf,
    /// Where it listens; port 0 takes any that is free.
    pub listen: String,
    /// What its faults are drawn from; `None` for none at all.
    pub seed: Option<u64>,
    /// Whether it pays once for each key.
    pub is_idempotent: bool,
    /// How late *late* is.
    pub late: Duration,
}

impl Options {
    /// Reads them from words: `--book FILE [--listen ADDRESS] [--seed N] [--late-ms N] [--idempotent]`.
    pub fn parse(words: &[String]) -> Option<Self> {
        let mut options = Self {
            book: PathBuf::new(),
            listen: "127.0.0.1:0".to_owned(),
            seed: None,
            is_idempotent: false,
            late: Duration::from_millis(300),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--book" => options.book = words.next()?.into(),
                "--listen" => options.listen = words.next()?.clone(),
                "--seed" => options.seed = Some(words.next()?.parse().ok()?),
                "--late-ms" => options.late = Duration::from_millis(words.next()?.parse().ok()?),
                "--idempotent" => options.is_idempotent = true,
                _ => return None,
            }
        }
        (!options.book.as_os_str().is_empty()).then_some(options)
    }
}

/// Runs a service until the process ends. Says where it listens on stdout.
pub fn serve(options: Options) -> io::Result<()> {
    let listener = TcpListener::bind(&options.listen)?;
    let service = Arc::new(Service { book: Book::open(&options.book)?, seen: Mutex::default(), options });
    println!("Listening on http://{}", listener.local_addr()?);
    io::stdout().flush()?;
    for stream in listener.incoming() {
        let (service, stream) = (Arc::clone(&service), stream?);
        std::thread::spawn(move || {
            // Anyone who hangs up is none of the service's business.
            drop(service.answer(stream));
        });
    }
    Ok(())
}

struct Service {
    options: Options,
    book: Book,
    seen: Mutex<Seen>,
}

/// What a service remembers of requests; a payout is remembered by the book alone.
#[derive(Default)]
struct Seen {
    /// How often each key was posted.
    posts: BTreeMap<String, u32>,
    /// How often each key was asked for.
    gets: BTreeMap<String, u32>,
    /// The keys that are being paid.
    under_way: BTreeSet<String>,
}

struct Request {
    method: String,
    path: String,
    key: Option<String>,
    body: String,
}

impl Service {
    fn answer(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let Some(request) = read(&mut stream)? else { return Ok(()) };
        match (request.method.as_str(), request.path.as_str(), &request.key) {
            ("POST", "/payouts", Some(key)) => self.post(&mut stream, key, &request.body),
            ("GET", path, _) => match path.strip_prefix("/payouts/") {
                Some(key) => self.get(&mut stream, key),
                None => say(&mut stream, 404, &json!({"error": "there is nothing here"})),
            },
            _ => {
                say(&mut stream, 400, &json!({"error": "POST /payouts with an Idempotency-Key, or GET /payouts/{key}"}))
            }
        }
    }

    fn get(&self, stream: &mut TcpStream, key: &str) -> io::Result<()> {
        let before = self.seen(|seen| count(&mut seen.gets, key));
        if self.plan(key).is_some_and(|plan| before < plan.silent_gets) {
            return say(stream, 503, &json!({"error": "ask again"}));
        }
        match self.book.find(key) {
            Some(payout) => say(stream, 200, &payout),
            None => say(stream, 404, &json!({"error": "never heard of it"})),
        }
    }

    fn post(&self, stream: &mut TcpStream, key: &str, body: &str) -> io::Result<()> {
        let wanted = serde_json::from_str::<Json>(body).unwrap_or_default();
        let (Some(amount), Some(destination)) = (wanted["amount"].as_i64(), wanted["destination"].as_str()) else {
            return say(stream, 422, &json!({"error": "a payout has an amount and a destination"}));
        };
        let before = self.seen(|seen| count(&mut seen.posts, key));
        let plan = self.plan(key).filter(|plan| before < plan.times);
        let fault = plan.map_or(Fault::None, |plan| plan.fault);
        match fault {
            Fault::ClosesBeforePaying => return Ok(()),
            Fault::FailsBeforePaying => return say(stream, 500, &json!({"error": "out of order"})),
            Fault::ConflictBeforePaying => return say(stream, 409, &json!({"error": "something is in the way"})),
            // Pays although the caller may have gone already.
            Fault::Late => std::thread::sleep(self.options.late),
            _ => {}
        }
        if self.options.is_idempotent && !self.seen(|seen| seen.under_way.insert(key.to_owned())) {
            return say(stream, 409, &json!({"error": "a request under this key is under way"}));
        }
        let payout = match self.book.find(key).filter(|_| self.options.is_idempotent) {
            Some(payout) => Ok(payout),
            None => self.book.pay(key, amount, destination),
        };
        self.seen(|seen| seen.under_way.remove(key));
        let payout = payout?;
        match fault {
            Fault::ClosesAfterPaying => Ok(()),
            Fault::FailsAfterPaying => say(stream, 500, &json!({"error": "out of order"})),
            Fault::ConflictAfterPaying => say(stream, 409, &json!({"error": "something is in the way"})),
            // Ends when the other side hangs up, or with the read timeout.
            Fault::Never => stream.read(&mut [0]).map(drop),
            Fault::Twice => {
                say(stream, 201, &payout)?;
                say(stream, 201, &payout)
            }
            _ => say(stream, 201, &payout),
        }
    }

    fn plan(&self, key: &str) -> Option<Plan> {
        self.options.seed.map(|seed| Plan::of(seed, key))
    }

    fn seen<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Counts one more, and gives how many there were before.
fn count(counts: &mut BTreeMap<String, u32>, key: &str) -> u32 {
    let count = counts.entry(key.to_owned()).or_default();
    *count += 1;
    *count - 1
}

fn say(stream: &mut TcpStream, status: u16, body: &Json) -> io::Result<()> {
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes())
}

/// Reads one request; `None` where the other side hung up before it was whole, and then nothing is done.
fn read(stream: &mut TcpStream) -> io::Result<Option<Request>> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let header = |name: &str| {
                head.lines()
                    .skip(1)
                    .filter_map(|line| line.split_once(": "))
                    .find_map(|(found, value)| found.eq_ignore_ascii_case(name).then(|| value.to_owned()))
            };
            let length = header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
            if body.len() >= length {
                let mut line = head.lines().next().unwrap_or_default().split(' ').map(str::to_owned);
                return Ok(Some(Request {
                    method: line.next().unwrap_or_default(),
                    path: line.next().unwrap_or_default(),
                    key: header("idempotency-key"),
                    body: body.to_owned(),
                }));
            }
        }
        if bytes.len() > 1 << 20 {
            return Ok(None);
        }
        match stream.read(&mut buffer)? {
            0 => return Ok(None),
            read => bytes.extend_from_slice(buffer.get(..read).unwrap_or_default()),
        }
    }
}
