//! What files are made of, and whom certificates name.

use super::client::Client;
use super::*;
use crate::terminal::Report;
use countersign_testing::certificates::{Authority, Wanted};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use std::os::unix::fs::PermissionsExt as _;

#[test]
fn files_that_cannot_be_used_are_said_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("tests").unwrap();
    let server = authority.server(&["localhost"]).unwrap();
    server.write(folder.path(), "server").unwrap();
    authority.server(&["localhost"]).unwrap().write(folder.path(), "other").unwrap();
    let path = |name: &str| Some(folder.path().join(name));
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("empty.pem", "");
    write("broken.pem", "-----BEGIN CERTIFICATE-----\nnot base64\n-----END CERTIFICATE-----\n");
    write("open.key", &server.key);
    // A file that could be a key's, but for what is in it.
    write("none.key", &server.certificate);
    for (name, mode) in [("open.key", 0o644), ("none.key", 0o600)] {
        std::fs::set_permissions(folder.path().join(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let good = Files { certificate: path("server.pem"), key: path("server.key"), ..Files::default() };
    assert!(Acceptor::new(good.clone(), Rules::default()).is_ok());
    for (files, part) in [
        (Files { certificate: path("nowhere.pem"), ..good.clone() }, "cannot read "),
        (Files { certificate: path("empty.pem"), ..good.clone() }, "there is no certificate in "),
        (Files { certificate: path("broken.pem"), ..good.clone() }, "cannot read a certificate in "),
        (Files { certificate: path("server.key"), ..good.clone() }, "there is no certificate in "),
        (Files { key: path("none.key"), ..good.clone() }, "there is no private key in "),
        (Files { key: path("other.key"), ..good.clone() }, "do not match"),
        (Files { key: path("open.key"), ..good.clone() }, "can be read by everyone"),
        (Files { ca: path("empty.pem"), ..good.clone() }, "there is no certificate in "),
        (
            Files { ca: path("server.pem"), crl: path("server.pem"), ..good },
            "there is no list of revoked certificates in ",
        ),
    ] {
        let both = [Acceptor::new(files.clone(), Rules::default()).err(), Client::new(files.clone()).err()];
        for error in both {
            let said = Report::of_error(&error.unwrap_or_else(|| panic!("{part} is not said"))).to_string();
            assert!(said.contains(part) && said.contains("hint: "), "{said}");
            assert!(!said.contains("PRIVATE"), "{said}");
        }
    }
}

#[test]
fn a_certificate_names_agents_by_their_spiffe_ids_and_the_holder_of_its_key() {
    const PREFIX: &str = "spiffe://acme.example/agent/";
    let authority = Authority::new("tests").unwrap();
    let named = |uris: &[&str], spiffe: Option<&str>| {
        let issued = authority.client(uris).unwrap();
        let certificate = CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap();
        let named = certificate::Named::of(&certificate, spiffe);
        assert_eq!(named.key, None, "it is no key of Ed25519");
        (named.agents.iter().map(ToString::to_string).collect::<Vec<_>>(), named.unfit.is_some())
    };
    let no_one = (Vec::new(), false);
    assert_eq!(named(&["spiffe://acme.example/agent/a-1"], Some(PREFIX)), (vec!["a-1".to_owned()], false));
    assert_eq!(named(&["spiffe://acme.example/agent/ns/a-1"], Some(PREFIX)).0, ["ns/a-1"]);
    assert_eq!(named(&["spiffe://acme.example/agent/a-1"], None), no_one);
    assert_eq!(named(&["spiffe://acme.example/agents/a-1", "https://acme.example/agent/a"], Some(PREFIX)), no_one);
    assert_eq!(
        named(&["spiffe://acme.example.evil/agent/a-1", "x:spiffe://acme.example/agent/a-1"], Some(PREFIX)),
        no_one
    );
    assert_eq!(named(&["spiffe://acme.example/agent/"], Some(PREFIX)), (Vec::new(), true));
    // No one is both, so whoever signs is not who is named.
    let two = ["spiffe://acme.example/agent/a-1", "spiffe://acme.example/agent/a-2"];
    assert_eq!(named(&two, Some(PREFIX)).0.len(), 2);
    let folder = tempfile::tempdir().unwrap();
    let key = crate::key_file::create(&folder.path().join("a.key")).unwrap();
    let pem = std::fs::read_to_string(folder.path().join("a.key")).unwrap();
    let issued = authority.issue(Wanted { key: Some(&pem), is_client: true, ..Wanted::default() }).unwrap();
    let certificate = CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap();
    let named = certificate::Named::of(&certificate, None).key;
    assert_eq!(named, Some(countersign_core::identity::KeyName::of(key.verifying_key().to_bytes())));
}

#[test]
fn a_certificate_to_try_things_out_is_trusted_by_its_authority_again_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let listen = "192.0.2.7".parse().unwrap();
    let first = dev::make(folder.path(), listen).unwrap();
    assert!(first.names.contains(&"192.0.2.7".to_owned()) && first.names.contains(&"localhost".to_owned()));
    let authority = std::fs::read(&first.ca).unwrap();
    let second = dev::make(folder.path(), listen).unwrap();
    assert_eq!(std::fs::read(&second.ca).unwrap(), authority);
    Acceptor::new(second.files, Rules::default()).unwrap();
    for (name, mode) in [("ca.key", 0o600), ("server.key", 0o600), ("ca.pem", 0o644)] {
        let found = std::fs::metadata(folder.path().join("tls").join(name)).unwrap().permissions().mode();
        assert_eq!(found & 0o777, mode, "{name}");
    }
    std::fs::write(folder.path().join("tls/ca.key"), "no key").unwrap();
    let said = Report::of_error(&dev::make(folder.path(), listen).err().unwrap()).to_string();
    assert!(said.contains("hint: remove "), "{said}");
}
