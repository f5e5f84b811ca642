//! A service outside the gate that remembers every request it received: what it saw is what really happened.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request as the service received it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// Method and path, such as `POST /payouts`.
    pub line: String,
    /// Header names in lower case, and their values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

/// What the service answers.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
    /// How long it waits before it answers.
    pub after: Duration,
}

impl Reply {
    /// This status with this JSON body, at once.
    pub fn json(status: u16, body: &str) -> Self {
        Self { status, headers: Vec::new(), body: body.to_owned(), after: Duration::ZERO }
    }
}

type Answer = dyn Fn(&Received) -> Reply + Send + Sync;

/// A running service. Its threads end with the test process.
pub struct Service {
    /// Its address, `http://127.0.0.1:PORT`.
    pub url: String,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Service {
    /// Listens on a free port and answers as `answer` says.
    pub fn start(answer: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let (answer, log): (Arc<Answer>, _) = (Arc::new(answer), Arc::clone(&received));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (answer, log) = (Arc::clone(&answer), Arc::clone(&log));
                std::thread::spawn(move || serve(stream, &*answer, &log));
            }
        });
        Self { url, received }
    }

    /// Every request so far, in the order of arrival.
    pub fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }
}

fn serve(stream: TcpStream, answer: &Answer, log: &Mutex<Vec<Received>>) {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    while let Some(request) = read(&mut reader) {
        log.lock().unwrap().push(request.clone());
        let reply = answer(&request);
        std::thread::sleep(reply.after);
        let more: String = reply.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!(
            "HTTP/1.1 {} Answer\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{more}\r\n",
            reply.status,
            reply.body.len()
        );
        if writer.write_all((head + &reply.body).as_bytes()).is_err() {
            return;
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Received> {
    let mut first = String::new();
    reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
    let line = first.trim_end().rsplit_once(' ')?.0.to_owned();
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, length)| length.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    Some(Received { line, headers, body: String::from_utf8_lossy(&body).into_owned() })
}
