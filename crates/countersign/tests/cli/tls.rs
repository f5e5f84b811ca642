//! A gate over TLS, against `openssl s_client`, `curl` and the command line: who believes whom, and what is never answered.

mod clients;
mod listening;
mod trusting;
mod wire;

use crate::cli::identity::identified;
use crate::cli::sandbox::{Sandbox, Server};
use countersign_testing::certificates::{Authority, Issued, Wanted};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long anything may take. The machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Names of this machine, which the certificates of good gates have.
const HERE: [&str; 2] = ["localhost", "127.0.0.1"];

/// How every settings file of a gate over TLS begins.
const LISTENS: &str = "ca = \"ca.pem\"\n[tls]\ncertificate = \"server.pem\"\nkey = \"server.key\"\n";

/// A gate with an admin, a pact, an agent and an account, and an authority that clients trust.
struct World {
    sandbox: Sandbox,
    authority: Authority,
}

impl World {
    /// With a good certificate and nothing asked of clients.
    fn new() -> Self {
        let (sandbox, authority) = (identified(), Authority::new("tests").unwrap());
        sandbox.write("ca.pem", &authority.pem);
        let world = Self { sandbox, authority };
        world.issue("server", &world.authority.server(&HERE).unwrap());
        world.sandbox.write("countersign.toml", LISTENS);
        world
    }

    /// The same, where more is said of clients.
    fn asking(more: &str) -> Self {
        let world = Self::new();
        world.sandbox.write("countersign.toml", &format!("{LISTENS}client_ca = \"ca.pem\"\n{more}"));
        world
    }

    fn issue(&self, name: &str, issued: &Issued) {
        issued.write(self.sandbox.path(), name).unwrap();
    }

    /// Writes what is revoked, for the gate or for clients.
    fn revoke(&self, revoked: &[&Issued]) {
        self.sandbox.write("crl.pem", &self.authority.revoking(revoked).unwrap());
    }

    /// A client's certificate, and the settings of one that shows it, in a file of that name.
    fn client(&self, name: &str, issued: &Issued) {
        self.issue(name, issued);
        let settings = format!("ca = \"ca.pem\"\ncertificate = \"{name}.pem\"\ncertificate_key = \"{name}.key\"\n");
        self.sandbox.write(&format!("{name}.toml"), &settings);
    }

    fn curl(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--max-time", "60", "--noproxy", "*"]).args(arguments);
        command.current_dir(self.sandbox.path()).stdin(Stdio::null()).output().unwrap()
    }

    /// How many entries there are.
    fn entries(&self, server: &Server) -> usize {
        let list = format!("ledger list --json --from 0 --limit 500 --server {} --key admin.key", server.url);
        self.sandbox.run(&list).must(0).stdout.lines().count()
    }

    /// An open connection, which shows this certificate if any.
    fn open(&self, server: &Server, name: Option<&str>) -> StreamOwned<ClientConnection, TcpStream> {
        let path = |name: String| self.sandbox.path().join(name);
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(path("ca.pem".into())).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots);
        let config = match name {
            None => config.with_no_client_auth(),
            Some(name) => {
                let chain = vec![CertificateDer::from_pem_file(path(format!("{name}.pem"))).unwrap()];
                let key = PrivateKeyDer::from_pem_file(path(format!("{name}.key"))).unwrap();
                config.with_client_auth_cert(chain, key).unwrap()
            }
        };
        let stream = TcpStream::connect(host(server)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        StreamOwned::new(ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap(), stream)
    }
}

/// Asks whether the gate answers, over a connection that is open and stays so.
fn ask(stream: &mut StreamOwned<ClientConnection, TcpStream>) -> std::io::Result<String> {
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    stream.flush()?;
    let mut answer = [0; 4096];
    let read = stream.read(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer[..read]).into_owned())
}

/// The host and port of a server.
fn host(server: &Server) -> &str {
    server.url.split_once("://").unwrap().1
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn openssl(world: &World, server: &Server, arguments: &[&str]) -> Output {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", host(server), "-CAfile", "ca.pem", "-verify_return_error"]).args(arguments);
    command.current_dir(world.sandbox.path()).stdin(Stdio::null()).output().unwrap()
}
