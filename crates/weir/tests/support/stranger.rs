//! A client that means no good to a server: bare sockets, TLS begun and left, HTTP/2 frames made by hand.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::TIMEOUT;

/// What a client of HTTP/2 says first.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A frame of HTTP/2 (RFC 9113 section 4.1).
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// SETTINGS with this initial window for each stream.
pub(crate) fn settings(window: u32) -> Vec<u8> {
    let mut payload = 4u16.to_be_bytes().to_vec();
    payload.extend(window.to_be_bytes());
    frame(4, 0, 0, &payload)
}

/// A GET of `path` without a body, as the headers that end `stream`.
pub(crate) fn get(stream: u32, scheme: &str, path: &str) -> Vec<u8> {
    // Static entries 2 (GET), 6 and 7 (http, https); 4 (:path) and 1 (:authority) with literal values (RFC
    // 7541).
    let mut block = vec![0x82, if scheme == "https" { 0x87 } else { 0x86 }, 0x04, path.len() as u8];
    block.extend(path.as_bytes());
    block.extend(b"\x01\x01x");
    frame(1, 5, stream, &block)
}

/// A PING, or the answer to one.
pub(crate) fn ping(is_answer: bool) -> Vec<u8> {
    frame(6, u8::from(is_answer), 0, b"12345678")
}

/// A connection that gives up reading after a while.
pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).expect("a server that listens");
    socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout can be set");
    socket
}

/// How TLS is begun with a server whose certificate, PEM, is this, for these protocols.
pub(crate) fn trusting(certificate: &[u8], protocol: &[u8]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(certificate).expect("a certificate")).expect("one that fits");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    Arc::new(config)
}

/// A TLS connection whose handshake is done.
pub(crate) fn connect_tls(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
) -> StreamOwned<ClientConnection, TcpStream> {
    let name = ServerName::try_from("localhost").expect("a name");
    let session = ClientConnection::new(config.clone(), name).expect("a session");
    let mut stream = StreamOwned::new(session, connect(address));
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).expect("a handshake");
    }
    stream
}

/// The status and how long its first byte took, of a GET on a connection of its own.
pub(crate) fn honest(address: SocketAddr, tls: Option<&Arc<ClientConfig>>, path: &str) -> (String, Duration) {
    let start = Instant::now();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let mut head = [0; 12];
    match tls {
        Some(config) => {
            let mut stream = connect_tls(address, config);
            stream.write_all(request.as_bytes()).expect("a request can be sent");
            stream.read_exact(&mut head).expect("an answer");
        }
        None => {
            let mut stream = connect(address);
            stream.write_all(request.as_bytes()).expect("a request can be sent");
            stream.read_exact(&mut head).expect("an answer");
        }
    }
    (String::from_utf8_lossy(&head[9..]).into_owned(), start.elapsed())
}
