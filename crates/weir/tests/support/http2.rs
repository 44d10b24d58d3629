//! The little of HTTP/2 that servers need which misbehave below what any library lets them: frames, and TLS
//! that offers protocols.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;

/// Frame types and flags (RFC 9113 section 6).
pub(crate) const HEADERS: u8 = 1;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// A server called `name`, with a certificate of its own making, that offers these protocols. A client that
/// offers none of them gets the alert no_application_protocol (RFC 7301 section 3.2).
pub(crate) fn config(name: &str, protocols: &[&str]) -> Arc<ServerConfig> {
    let key = rcgen::generate_simple_self_signed([name.to_owned()]).expect("a certificate");
    let private = PrivatePkcs8KeyDer::from(key.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("versions").with_no_client_auth();
    let mut config = config.with_single_cert(vec![key.cert.der().clone()], private.into()).expect("a key");
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    Arc::new(config)
}

/// A frame (RFC 9113 section 4.1).
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}
