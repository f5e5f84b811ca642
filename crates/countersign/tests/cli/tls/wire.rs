//! What comes over the wire, seen by whoever sits on it: only records of TLS, whatever they answer.

use super::*;
use std::net::{SocketAddr, TcpListener};
use std::sync::Mutex;

/// What is said by someone who wants a client to give up on TLS.
const TEMPTATIONS: [&[u8]; 5] = [
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 301 Moved Permanently\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    // Alerts: no handshake, and no such version.
    b"\x15\x03\x01\x00\x02\x02\x28",
    b"\x15\x03\x01\x00\x02\x02\x46",
];

/// What is in every request or answer of the tests, and must not be read by anyone on the way.
const SECRETS: [&str; 7] = ["Account", "refund", "admin", "signature", "/v1/", "HTTP/1.1", "committed"];

/// Everything that was sent over each connection, by the client and by the gate.
type Seen = Arc<Mutex<Vec<(Vec<u8>, Vec<u8>)>>>;

/// Sits between clients and a gate, passes everything on and keeps it.
fn tap(gate: SocketAddr) -> (SocketAddr, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, seen) = (listener.local_addr().unwrap(), Seen::default());
    let kept = Arc::clone(&seen);
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(gate) = TcpStream::connect(gate) else { return };
            let number = {
                let mut kept = kept.lock().unwrap();
                kept.push((Vec::new(), Vec::new()));
                kept.len() - 1
            };
            let ways = [(client.try_clone(), gate.try_clone(), true), (Ok(gate), Ok(client), false)];
            for (from, to, is_clients) in ways {
                let (mut from, mut to, kept) = (from.unwrap(), to.unwrap(), Arc::clone(&kept));
                std::thread::spawn(move || {
                    let mut bytes = [0; 16 << 10];
                    while let Ok(read @ 1..) = from.read(&mut bytes) {
                        {
                            let of = &mut kept.lock().unwrap()[number];
                            if is_clients { &mut of.0 } else { &mut of.1 }.extend_from_slice(&bytes[..read]);
                        }
                        if to.write_all(&bytes[..read]).is_err() {
                            break;
                        }
                    }
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
            }
        }
    });
    (address, seen)
}

/// Answers every connection with the same, and keeps what it was sent.
fn tempter(answer: &'static [u8]) -> (SocketAddr, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, seen) = (listener.local_addr().unwrap(), Seen::default());
    let kept = Arc::clone(&seen);
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            client.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
            let (mut sent, mut bytes) = (Vec::new(), [0; 16 << 10]);
            let read = client.read(&mut bytes).unwrap_or_default();
            sent.extend_from_slice(&bytes[..read]);
            let _ = client.write_all(answer);
            // What it sends after that answer, too.
            while let Ok(read @ 1..) = client.read(&mut bytes) {
                sent.extend_from_slice(&bytes[..read]);
            }
            kept.lock().unwrap().push((sent, answer.to_vec()));
        }
    });
    (address, seen)
}

/// Insists that bytes are records of TLS and nothing else. The last may be cut off.
fn only_records(bytes: &[u8]) {
    let mut rest = bytes;
    while let [kind, major, _, high, low, after @ ..] = rest {
        assert!((20..=23).contains(kind) && *major == 3, "no record of TLS: {:?}", String::from_utf8_lossy(rest));
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        assert!(len <= (16 << 10) + 256, "a record of {len} bytes");
        rest = after.get(len..).unwrap_or_default();
    }
    let text = String::from_utf8_lossy(bytes);
    for secret in SECRETS {
        assert!(!text.contains(secret), "{secret} can be read on the way");
    }
}

#[test]
fn whoever_sits_on_the_wire_sees_records_of_tls_and_nothing_else() {
    let world = World::new();
    let server = world.sandbox.serve();
    let (address, seen) = tap(host(&server).parse().unwrap());
    let url = format!("https://{address}");
    let act = "act --pact billing --action refund account=42 amount=100 currency=USD destination=acct_treasury_1";
    let acted = world.sandbox.run(&format!("{act} --observe Account::42 --server {url} --key refund-1.key")).must(0);
    assert!(acted.stdout.contains("committed"), "{}", acted.stdout);
    world.sandbox.run(&format!("fact get Account 42 --server {url} --key admin.key")).must(0);
    let seen = seen.lock().unwrap().clone();
    assert!(seen.len() >= 2, "both commands went this way");
    for (sent, answered) in &seen {
        assert!(sent.len() > 500 && answered.len() > 500, "{} and {} bytes", sent.len(), answered.len());
        only_records(sent);
        only_records(answered);
    }
    assert_eq!(server.end().0, 0);
}

#[test]
fn no_answer_makes_a_client_speak_in_clear() {
    let world = World::new();
    let put = r#"fact put Account 42 {"status":"frozen","balance":1,"owner":"ada"}"#;
    for answer in TEMPTATIONS {
        let (address, seen) = tempter(answer);
        let run = world.sandbox.run(&format!("{put} --server https://{address} --key admin.key"));
        let shown = String::from_utf8_lossy(answer);
        assert!(run.stderr.contains("hint: "), "{shown}: {}", run.must(3).stderr);
        let run = run.must(3);
        // Nothing of it left, so it is not in doubt.
        assert!(!run.stderr.contains("unknown: "), "{shown}: {}", run.stderr);
        let until = Instant::now() + PATIENCE;
        while seen.lock().unwrap().is_empty() {
            assert!(Instant::now() < until, "{shown}: it never came");
            std::thread::sleep(Duration::from_millis(20));
        }
        for (sent, _) in seen.lock().unwrap().iter() {
            assert_eq!(sent.first(), Some(&22), "{shown}: it begins with a handshake");
            only_records(sent);
        }
    }
}
