//! TLS to a real server: whom the gate believes, and that nothing is said to anyone else.

use super::world::{Bank, World, call};
use crate::adapters::postgres::Postgres;
use crate::adapters::postgres::settings::Settings;
use crate::adapters::postgres::tls::Tls;
use countersign_engine::outbox::Attempt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

/// Made for tests, for `bank.example`; no one else trusts it.
const CERTIFICATE: &str = include_str!("tls/server.pem");
const KEY: &str = include_str!("tls/server.key");
const CA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/adapters/postgres/tests/tls/ca.pem");

/// Lets the server listen with TLS, and without it refuse everyone, on an address of this machine that no one else uses.
fn listening(world: &World) -> IpAddr {
    let [.., a, b] = std::process::id().to_be_bytes();
    let address = Ipv4Addr::new(127, 77, a, b);
    for (file, text) in [("server.crt", CERTIFICATE), ("server.key", KEY)] {
        world
            .sql(&format!("copy (select '{}') to program 'umask 077; tr _ \"\\n\" > {file}'", text.replace('\n', "_")));
    }
    let rule = "hostssl all all 127.0.0.0/8 trust";
    world.sql(&format!("copy (select '{rule}') to program 'sed -i /^host/d pg_hba.conf; cat >> pg_hba.conf'"));
    world.sql("alter system set ssl = on");
    world.sql(&format!("alter system set listen_addresses = '{address}'"));
    world.server.crash_and_restart().unwrap();
    address.into()
}

fn attempt(address: IpAddr, name: &str, tls: Option<Tls>) -> Attempt {
    let mut config = Config::new();
    config.host(name).hostaddr(address).user("countersign").dbname("postgres");
    config.ssl_mode(if tls.is_some() { SslMode::Require } else { SslMode::Disable });
    let adapter = Postgres::new(Settings { tls, ..Settings::new(config) }, "o");
    let call = countersign_core::call::Call { timeout_ms: 3_000, ..call(&["a1"]) };
    Bank::paying(&format!("tls-{name}"), 1).attempt(&adapter, &call, 1)
}

#[test]
fn only_the_server_that_the_authority_vouches_for_is_spoken_to() {
    let world = World::new();
    let address = listening(&world);
    let tls = || Some(Tls::trusting(Path::new(CA)).unwrap());
    let done = attempt(address, "bank.example", tls());
    assert!(matches!(done, Attempt::Done(_)), "{done:?}");

    for (name, tls) in [("other.example", tls()), ("bank.example", None)] {
        let refused = attempt(address, name, tls);
        assert!(matches!(refused, Attempt::NotSent(_)), "{refused:?}");
    }
    // An authority that did not sign it: the server's own certificate is none.
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.pem");
    std::fs::write(&other, CERTIFICATE).unwrap();
    let refused = attempt(address, "bank.example", Tls::trusting(&other).ok());
    assert!(matches!(refused, Attempt::NotSent(_)), "{refused:?}");
    assert_eq!(world.count("select count(*) from payouts"), 1);
}
