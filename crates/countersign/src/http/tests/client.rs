//! A client that sends exactly the bytes it is told to.

use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Every header that an answer may have; one more is a change of the contract.
const HEADERS: &[&str] = &[
    "allow",
    "cache-control",
    "connection",
    "content-length",
    "content-type",
    "date",
    "etag",
    "ratelimit",
    "ratelimit-policy",
    "retry-after",
    "x-content-type-options",
    "x-request-id",
];

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(held, _)| held == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// Sends a request and reads the answer.
pub fn send(addr: SocketAddr, method: &str, path: &str, headers: &[&str], body: &[u8]) -> Reply {
    let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|header| header.starts_with("Host:")) {
        head += &format!("Host: {addr}\r\n");
    }
    if !headers.iter().any(|header| header.starts_with("Transfer-Encoding:") || header.starts_with("Content-Length:")) {
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    for header in headers {
        head += &format!("{header}\r\n");
    }
    let mut bytes = (head + "\r\n").into_bytes();
    bytes.extend_from_slice(body);
    exchange(addr, &bytes)
}

/// Sends bytes and reads the answer.
pub fn exchange(addr: SocketAddr, bytes: &[u8]) -> Reply {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // The server may answer and close before it has read everything, which is its right.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        answer.extend_from_slice(&buffer[..read]);
    }
    parse(&answer)
}

fn parse(answer: &[u8]) -> Reply {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no answer: {:?}", String::from_utf8_lossy(answer)));
    let head = std::str::from_utf8(&answer[..end]).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers: Vec<(String, String)> = lines
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    for (name, _) in &headers {
        assert!(HEADERS.contains(&name.as_str()), "unexpected header {name}");
    }
    Reply { status, headers, body: answer[end + 4..].to_vec() }
}
