//! A service on a raw socket, which does with each request whatever a test says.

use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// A service that runs until it is dropped.
pub struct Service {
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    connections: Arc<Mutex<usize>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    /// A service that answers each connection with a function: it gets the request as read, and the stream.
    pub fn new(answer: impl Fn(&str, &mut TcpStream) + Send + 'static) -> Self {
        Self::raw(move |stream, requests| {
            let request = read_request(&mut *stream);
            requests.lock().unwrap().push(request.clone());
            answer(&request, stream);
        })
    }

    /// A service that does everything itself with a connection.
    pub fn raw(serve: impl Fn(&mut TcpStream, &Mutex<Vec<String>>) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (requests, connections) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<Mutex<usize>>::default());
        let is_over = Arc::<AtomicBool>::default();
        let thread = std::thread::spawn({
            let (requests, connections, is_over) = (requests.clone(), connections.clone(), is_over.clone());
            move || {
                for stream in listener.incoming() {
                    if is_over.load(Ordering::SeqCst) {
                        return;
                    }
                    let mut stream = stream.unwrap();
                    *connections.lock().unwrap() += 1;
                    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                    stream.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
                    serve(&mut stream, &requests);
                }
            }
        });
        Self { address, requests, connections, is_over, thread: Some(thread) }
    }

    /// A service that always says the same.
    pub fn saying(answer: impl Into<String>) -> Self {
        let answer = answer.into();
        Self::new(move |_, stream| drop(stream.write_all(answer.as_bytes())))
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// How many connections there were.
    pub fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Wakes the listener up.
        drop(TcpStream::connect(self.address));
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(ended.is_some_and(|ended| ended.is_ok()) || std::thread::panicking());
    }
}

/// An answer with a status and a body.
pub fn answer(status: u16, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// Reads one request to its end.
pub fn read_request(stream: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return text,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
        }
    }
}
