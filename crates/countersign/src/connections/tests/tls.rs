//! The same where TLS is spoken: half a handshake is half a request, and what is not TLS gets no answer.

use super::*;
use crate::tls::client::Client;
use crate::tls::{Acceptor, Files, Rules};
use countersign_testing::certificates::Authority;
use tempfile::TempDir;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// What a client begins a handshake with, and stops: a record that is announced and does not come.
const PART_OF_A_HANDSHAKE: &[u8] = &[0x16, 0x03, 0x01, 0x02, 0x00, 0x01];

/// A server with a certificate that clients trust by `ca.pem`.
struct Secured {
    server: Server,
    folder: TempDir,
    authority: Authority,
    acceptor: Arc<Acceptor>,
}

async fn secured(limits: Limits) -> Secured {
    secured_by(limits, false).await
}

/// With a list of revoked certificates, where clients are asked for theirs.
async fn secured_by(limits: Limits, asks: bool) -> Secured {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("tests").unwrap();
    authority.server(&["localhost"]).unwrap().write(folder.path(), "server").unwrap();
    std::fs::write(folder.path().join("ca.pem"), &authority.pem).unwrap();
    let file = |name: &str| Some(folder.path().join(name));
    std::fs::write(folder.path().join("crl.pem"), authority.revoking(&[]).unwrap()).unwrap();
    let of_clients = |name: &str| file(name).filter(|_| asks);
    let files = Files {
        certificate: file("server.pem"),
        key: file("server.key"),
        ca: of_clients("ca.pem"),
        crl: of_clients("crl.pem"),
    };
    let acceptor = Acceptor::new(files, Rules::default()).unwrap();
    let server = server_over(limits, Some(Arc::clone(&acceptor))).await;
    Secured { server, folder, authority, acceptor }
}

impl Secured {
    async fn shake_hands(&self) -> std::io::Result<TlsStream<TcpStream>> {
        self.shake_hands_showing(None).await
    }

    /// With a client certificate from files of this name.
    async fn shake_hands_showing(&self, name: Option<&str>) -> std::io::Result<TlsStream<TcpStream>> {
        let file = |end: &str| name.map(|name| self.folder.path().join(format!("{name}.{end}")));
        let ca = Some(self.folder.path().join("ca.pem"));
        let client = Client::new(Files { certificate: file("pem"), key: file("key"), ca, crl: None }).unwrap();
        let stream = TcpStream::connect(self.server.addr).await?;
        TlsConnector::from(client.config()).connect("localhost".try_into().unwrap(), stream).await
    }
}

/// Sends a request and reads the line of its answer's status.
async fn ask(stream: &mut TlsStream<TcpStream>, request: &[u8]) -> String {
    stream.write_all(request).await.unwrap();
    stream.flush().await.unwrap();
    let mut answer = [0; 4096];
    let read = tokio::time::timeout(PATIENCE, stream.read(&mut answer)).await.expect("there is no answer").unwrap();
    String::from_utf8_lossy(&answer[..read]).lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn half_open_handshakes_lose_their_place_to_a_newcomer_the_oldest_first() {
    let secured = secured(few(3)).await;
    let mut silent = secured.server.connect(b"").await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let mut half = secured.server.connect(PART_OF_A_HANDSHAKE).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    // Its handshake is whole, and it asks for nothing.
    let mut idle = secured.shake_hands().await.unwrap();
    for gone in [&mut silent, &mut half] {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let mut newcomer = secured.shake_hands().await.unwrap();
        assert_eq!(ask(&mut newcomer, GET).await, "HTTP/1.1 200 OK");
        closed(gone).await;
    }
    let mut newcomer = secured.shake_hands().await.unwrap();
    assert_eq!(ask(&mut newcomer, GET).await, "HTTP/1.1 200 OK");
    let mut rest = Vec::new();
    let _ = tokio::time::timeout(PATIENCE, idle.read_to_end(&mut rest)).await.expect("it is never closed");
    assert!(rest.is_empty(), "{rest:?}");
}

#[tokio::test]
async fn hundreds_of_half_open_handshakes_lock_no_one_out() {
    let secured = secured(few(16)).await;
    let mut half = Vec::new();
    for _ in 0..300 {
        half.push(secured.server.connect(PART_OF_A_HANDSHAKE).await);
    }
    for _ in 0..5 {
        let mut newcomer = secured.shake_hands().await.unwrap();
        assert_eq!(ask(&mut newcomer, GET).await, "HTTP/1.1 200 OK");
    }
    drop(half);
}

#[tokio::test]
async fn a_handshake_that_drips_is_not_kept_alive_by_its_drops() {
    let secured = secured(Limits { header: Duration::from_millis(600), ..Limits::default() }).await;
    let mut dripping = secured.server.connect(PART_OF_A_HANDSHAKE).await;
    for _ in 0..PATIENCE.as_millis() / 50 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        if dripping.write_all(b"x").await.is_err() {
            return;
        }
    }
    panic!("it is never closed");
}

#[tokio::test]
async fn every_wait_for_a_client_over_tls_has_an_end() {
    let short = Duration::from_millis(300);
    let limits = Limits { header: short, body: short, idle: short, unread: short, ..Limits::default() };
    let secured = secured(limits).await;
    let mut idle = secured.shake_hands().await.unwrap();
    assert_eq!(ask(&mut idle, GET).await, "HTTP/1.1 200 OK");
    let mut unread = secured.shake_hands().await.unwrap();
    unread.write_all(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let (mut head, mut body) = (secured.shake_hands().await.unwrap(), secured.shake_hands().await.unwrap());
    head.write_all(PART_OF_A_HEAD).await.unwrap();
    body.write_all(PART_OF_A_BODY).await.unwrap();
    for stream in [&mut idle, &mut head, &mut body] {
        let mut rest = Vec::new();
        let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("it is never closed");
    }
    // Nothing is read of it for so long that it is cut; what had been sent by then is all that there is.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut rest = Vec::new();
    let _ = tokio::time::timeout(PATIENCE, unread.read_to_end(&mut rest)).await.expect("it is never closed");
    assert!(rest.len() < 64 << 20, "{} bytes came", rest.len());
}

#[tokio::test]
async fn what_is_not_tls_gets_no_answer() {
    let secured = secured(few(2)).await;
    for sent in [GET, b"\r\n\r\n\r\n\r\n", b"\x00\x01\x02\x03\x04\x05\x06\x07", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut plain = secured.server.connect(sent).await;
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(PATIENCE, plain.read_to_end(&mut answer)).await.expect("it is never closed");
        // At the most an alert of TLS: it begins with 21.
        assert!(answer.is_empty() || answer[0] == 21 && answer.len() < 16, "{answer:?}");
    }
    // Also where there is no place: the answer that says so is not one for here.
    let (mut first, mut second) = (secured.shake_hands().await.unwrap(), secured.shake_hands().await.unwrap());
    for stream in [&mut first, &mut second] {
        stream.write_all(SLOW).await.unwrap();
        secured.server.begun.acquire().await.unwrap().forget();
    }
    let mut refused = secured.server.connect(GET).await;
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(PATIENCE, refused.read_to_end(&mut answer)).await.expect("it is never closed");
    assert!(answer.is_empty(), "{answer:?}");
}

#[tokio::test]
async fn a_new_certificate_is_used_at_once_and_no_connection_is_dropped_for_it() {
    let secured = secured(Limits::default()).await;
    let mut before = secured.shake_hands().await.unwrap();
    assert_eq!(ask(&mut before, GET).await, "HTTP/1.1 200 OK");
    let certificate = |stream: &TlsStream<TcpStream>| stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
    let first = certificate(&before);
    // Half of a new one, as it is while someone writes it: the old one stays.
    std::fs::write(secured.folder.path().join("server.pem"), "-----BEGIN CERTIFICATE-----\nMIIB").unwrap();
    secured.acceptor.refresh();
    assert_eq!(certificate(&secured.shake_hands().await.unwrap()), first);
    // A whole one, and the key of another.
    let other = secured.authority.server(&["localhost"]).unwrap();
    std::fs::write(secured.folder.path().join("server.pem"), &other.certificate).unwrap();
    secured.acceptor.refresh();
    assert_eq!(certificate(&secured.shake_hands().await.unwrap()), first);
    other.write(secured.folder.path(), "server").unwrap();
    let until = std::time::Instant::now() + PATIENCE;
    while certificate(&secured.shake_hands().await.unwrap()) == first {
        assert!(std::time::Instant::now() < until, "the new certificate is never used");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(ask(&mut before, GET).await, "HTTP/1.1 200 OK");
}

#[tokio::test]
async fn an_answer_that_lasts_ends_when_the_certificate_of_its_client_is_revoked() {
    let secured = secured_by(Limits::default(), true).await;
    let [issued, other] = [(); 2].map(|()| secured.authority.client(&[]).unwrap());
    issued.write(secured.folder.path(), "client").unwrap();
    other.write(secured.folder.path(), "other").unwrap();
    let mut lasting = Vec::new();
    for name in [Some("client"), Some("other"), None] {
        let mut stream = secured.shake_hands_showing(name).await.unwrap();
        stream.write_all(SLOW).await.unwrap();
        secured.server.begun.acquire().await.unwrap().forget();
        lasting.push(stream);
    }
    let [mut revoked, mut other, mut none] = <[_; 3]>::try_from(lasting).unwrap();
    std::fs::write(secured.folder.path().join("crl.pem"), secured.authority.revoking(&[&issued]).unwrap()).unwrap();
    let mut rest = Vec::new();
    let _ = tokio::time::timeout(PATIENCE, revoked.read_to_end(&mut rest)).await.expect("it goes on to be answered");
    assert!(rest.is_empty(), "{rest:?}");
    // The others are answered when there is an answer.
    for stream in [&mut other, &mut none] {
        secured.server.release.notify_one();
        let mut answer = [0; 64];
        let read = tokio::time::timeout(PATIENCE, stream.read(&mut answer)).await.expect("no answer").unwrap();
        assert!(answer[..read].starts_with(b"HTTP/1.1 200 OK"));
    }
}
