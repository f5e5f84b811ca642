//! With which certificate to listen, and whether an address may be listened on without one.

use crate::commands::{Exit, Failure};
use crate::config::TlsSettings;
use crate::terminal::note;
use crate::tls::{Acceptor, dev};
use anyhow::Result;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// What speaks TLS, where the settings name a certificate.
pub fn acceptor(settings: &TlsSettings) -> Option<Result<Arc<Acceptor>>> {
    settings.is_on().then(|| Acceptor::new(settings.files.clone(), settings.rules.clone()).map_err(unusable))
}

fn unusable(error: anyhow::Error) -> anyhow::Error {
    Failure::of(Exit::Cannot, error).into()
}

/// Refuses two certificates for one port.
pub fn check_flag(is_dev: bool, settings: &TlsSettings) -> Result<()> {
    if is_dev && settings.is_on() {
        return Err(Failure::usage("--dev-tls makes a certificate, and the settings name one")
            .hint("leave out one of them: `certificate` under [tls] is for more than trying it out")
            .into());
    }
    Ok(())
}

/// Refuses an address that others can reach, where nothing encrypts what travels there.
pub fn check_reach(listen: SocketAddr, acceptor: Option<&Arc<Acceptor>>, settings: &TlsSettings) -> Result<()> {
    if listen.ip().is_loopback() || acceptor.is_some() || settings.terminated_by_proxy {
        return Ok(());
    }
    Err(Failure::usage(format!("{listen} can be reached from outside, and what travels there would not be encrypted"))
        .hint("name a certificate and its key under [tls] in countersign.toml; --dev-tls makes one to try it out")
        .hint("if a proxy in front speaks TLS, say so with `terminated_by_proxy = true` under [tls]; or listen on 127.0.0.1")
        .into())
}

/// Makes a certificate, and says how clients trust it.
pub fn for_trying_out(data: &Path, listen: SocketAddr) -> Result<Arc<Acceptor>> {
    let made = dev::make(data, listen.ip())?;
    let ca = made.ca.display();
    note(format_args!("Made a certificate for {}, good for 90 days.", made.names.join(", ")));
    note(format_args!(
        "Clients trust it by its authority, {ca}: --ca {ca}, COUNTERSIGN_CA={ca}, or curl --cacert {ca}"
    ));
    Acceptor::new(made.files, crate::tls::Rules::default()).map_err(unusable)
}
