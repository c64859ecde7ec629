//! What clients of HTTP need to know of this machine: which certificates it trusts, and which servers are its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ureq::tls::{PemItem, RootCerts, parse_pem};

/// Time limit for connecting to a server.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns true if a URL leads to this machine.
pub fn is_local(url: &str) -> bool {
    let host = url.split_once("://").map_or(url, |(_, host)| host);
    ["localhost", "127.", "[::1]"].iter().any(|loopback| host.starts_with(loopback))
}

/// Returns the certificates of the system, which may include those of a company's own servers, or else the built-in ones of Mozilla.
pub fn root_certificates() -> RootCerts {
    let bundles =
        ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem"];
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let bundle = named.into_iter().chain(bundles.map(PathBuf::from)).find(|path| path.exists());
    bundle.and_then(|path| certificates_of(&path)).unwrap_or(RootCerts::WebPki)
}

/// Returns the certificates in a file of PEM form; `None` if it has none or cannot be read.
pub fn certificates_of(path: &Path) -> Option<RootCerts> {
    let text = fs::read(path).ok()?;
    let certificate = |item| if let Ok(PemItem::Certificate(found)) = item { Some(found) } else { None };
    let certificates: Vec<_> = parse_pem(&text).filter_map(certificate).collect();
    (!certificates.is_empty()).then(|| RootCerts::from(certificates))
}
