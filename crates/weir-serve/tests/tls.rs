//! Do HTTPS and HTTP/2 give the same answers as plain HTTP/1.1?
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::io::{Read, Seek, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use support::{CHANGES, Client, LARGE, connect_narrow, large, pattern, serve};
use tokio::io::{AsyncRead, AsyncWrite};
use weir_serve::{Config, Content, Handle, TlsSource};
use weir_units::Rate;

const SIZE: u64 = 5_000_000;

fn generated() -> Config {
    Config::new(Content::Generated(vec![("data.bin".into(), SIZE)]))
}

fn serve_tls(mut config: Config) -> Handle {
    config.tls = Some(TlsSource::SelfSigned { names: vec!["weir.test".into()] });
    serve(config)
}

/// Trusts the server's own certificate and nothing else.
fn client_config(server: &Handle, alpn: &[u8]) -> Arc<ClientConfig> {
    let pem = server.certificate_pem().expect("a self-signed server has a certificate to show");
    trusting(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap(), alpn)
}

/// Trusts this certificate and nothing else.
fn trusting(certificate: CertificateDer<'static>, alpn: &[u8]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.to_vec()];
    Arc::new(config)
}

fn https(server: &Handle, name: &'static str) -> StreamOwned<ClientConnection, TcpStream> {
    https_over(TcpStream::connect(server.addresses()[0]).unwrap(), server, name)
}

fn https_over(
    socket: TcpStream,
    server: &Handle,
    name: &'static str,
) -> StreamOwned<ClientConnection, TcpStream> {
    let session =
        ClientConnection::new(client_config(server, b"http/1.1"), ServerName::try_from(name).unwrap())
            .unwrap();
    StreamOwned::new(session, socket)
}

fn ask_https(server: &Handle, name: &'static str, request: &str) -> (String, Vec<u8>) {
    let mut stream = https(server, name);
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let split = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
    let body = answer.split_off(split);
    (String::from_utf8(answer).unwrap(), body)
}

#[test]
fn https_serves_whole_files_and_ranges_under_every_name() {
    let server = serve_tls(generated());
    assert!(server.url().starts_with("https://127.0.0.1:"));
    for name in ["localhost", "127.0.0.1", "::1", "weir.test"] {
        let request = "GET /data.bin HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
        let (head, body) = ask_https(&server, name, request);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(body == pattern(0, SIZE as usize), "{name}");
    }
    let request =
        "GET /data.bin HTTP/1.1\r\nHost: test\r\nRange: bytes=9-2000008,-5\r\nConnection: close\r\n\r\n";
    let (head, body) = ask_https(&server, "localhost", request);
    assert!(
        head.starts_with("HTTP/1.1 206 Partial Content\r\n") && head.contains("multipart/byteranges"),
        "{head}"
    );
    let inner = pattern(1_000_000, 1000);
    assert!(body.windows(1000).any(|bytes| bytes == inner));
    let request = "HEAD /data.bin HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
    let (head, body) = ask_https(&server, "localhost", request);
    assert!(head.contains("Content-Length: 5000000\r\n") && body.is_empty(), "{head}");
}

/// Longer than that some clients take none, whoever trusts it.
#[test]
fn a_certificate_made_on_the_spot_is_valid_for_less_than_825_days() {
    let server = serve_tls(generated());
    let pem = server.certificate_pem().unwrap();
    let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let is_valid = |at| {
        let at = UnixTime::since_unix_epoch(at);
        verifier.verify_server_cert(&certificate, &[], &name, &[], at).is_ok()
    };
    let (now, day) = (UNIX_EPOCH.elapsed().unwrap(), Duration::from_secs(86_400));
    assert!(is_valid(now - day / 2) && is_valid(now) && is_valid(now + 820 * day));
    assert!(!is_valid(now - 2 * day) && !is_valid(now + 824 * day));
}

#[test]
fn https_refuses_what_plain_http_refuses() {
    let root = tempfile::tempdir().unwrap();
    let server = serve_tls(Config::new(Content::Dir(root.path().to_owned())));
    for (target, status) in [("/../etc/passwd", 404), ("/%2e%2e/x", 404), ("/a%00", 404), ("/", 200)] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
        let (head, _) = ask_https(&server, "localhost", &request);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{target}: {head}");
    }
    let long = format!("GET / HTTP/1.1\r\nHost: test\r\nX: {}\r\n\r\n", "x".repeat(80 * 1024));
    let mut stream = https(&server, "localhost");
    // The server may refuse before all of it is written.
    let _ = stream.write_all(long.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.starts_with(b"HTTP/1.1 431 "), "{}", answer.escape_ascii());
}

#[test]
fn a_limited_rate_is_complete_over_tls() {
    let mut config = generated();
    config.limit_rate = Some(Rate(100e6));
    let server = serve_tls(config);
    let request = "GET /data.bin HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
    assert!(ask_https(&server, "localhost", request).1 == pattern(0, SIZE as usize));
}

#[test]
fn certificates_come_from_files_too() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let mut config = generated();
    config.tls = Some(TlsSource::Files { cert: cert.clone(), key });
    assert!(serve(config.clone()).url().starts_with("https://"));
    config.tls = Some(TlsSource::Files { cert: cert.clone(), key: cert.clone() });
    let err = weir_serve::Server::bind(config).err().unwrap();
    assert_eq!(err.to_string(), format!("cannot use {} as a PEM certificate or key", cert.display()));
}

#[test]
fn a_key_that_a_password_locks_is_called_encrypted() {
    let dir = tempfile::tempdir().unwrap();
    let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    renew(&cert, &key);
    for locked in [
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMA==\n-----END ENCRYPTED PRIVATE KEY-----\n",
        "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMA==\n-----END EC PRIVATE KEY-----\n",
    ] {
        std::fs::write(&key, locked).unwrap();
        let mut config = generated();
        config.tls = Some(TlsSource::Files { cert: cert.clone(), key: key.clone() });
        let err = weir_serve::Server::bind(config).err().unwrap().to_string();
        assert!(err.contains("the key is encrypted"), "{err}");
    }
}

/// A new certificate for localhost and its key, in these files.
fn renew(cert: &Path, key: &Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(cert, made.cert.pem()).unwrap();
    std::fs::write(key, made.signing_key.serialize_pem()).unwrap();
    made.cert.der().clone()
}

/// Whether the server shows a client this certificate.
fn shows(server: &Handle, certificate: &CertificateDer<'static>) -> bool {
    let config = trusting(certificate.clone(), b"http/1.1");
    let mut session = ClientConnection::new(config, ServerName::try_from("localhost").unwrap()).unwrap();
    let mut socket = TcpStream::connect(server.addresses()[0]).unwrap();
    while session.is_handshaking() {
        if session.complete_io(&mut socket).is_err() {
            return false;
        }
    }
    true
}

#[test]
fn a_certificate_is_renewed_while_the_server_runs() {
    let dir = tempfile::tempdir().unwrap();
    let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    let first = renew(&cert, &key);
    let mut config = generated();
    config.tls = Some(TlsSource::Files { cert: cert.clone(), key: key.clone() });
    let server = serve(config);
    let second = renew(&cert, &key);
    assert!(shows(&server, &first) && !shows(&server, &second), "not before it is told");
    assert!(server.reload().unwrap());
    assert!(shows(&server, &second) && !shows(&server, &first));
    std::fs::write(&key, "no key").unwrap();
    let error = server.reload().unwrap_err().to_string();
    assert!(error.contains("key.pem"), "{error}");
    assert!(shows(&server, &second), "what it had is kept");
    assert!(!serve_tls(generated()).reload().unwrap() && !serve(generated()).reload().unwrap());
}

#[test]
fn a_reload_that_finds_neither_folder_nor_key_tells_of_both() {
    let dir = tempfile::tempdir().unwrap();
    let (root, cert, key) = (dir.path().join("www"), dir.path().join("cert.pem"), dir.path().join("key.pem"));
    std::fs::create_dir(&root).unwrap();
    renew(&cert, &key);
    let mut config = Config::new(Content::Dir(root.clone()));
    config.tls = Some(TlsSource::Files { cert, key: key.clone() });
    let server = serve(config);
    std::fs::remove_dir(&root).unwrap();
    std::fs::write(&key, "no key").unwrap();
    let log = Arc::new(tempfile::tempfile().unwrap());
    let lines = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_ansi(false)
        .with_writer(log.clone())
        .finish();
    let error = tracing::subscriber::with_default(lines, || server.reload()).unwrap_err().to_string();
    assert!(error.contains("key.pem"), "{error}");
    let mut log = &*log;
    log.rewind().unwrap();
    let log = std::io::read_to_string(log).unwrap();
    assert!(log.contains(&format!("cannot serve directory {}: no such file", root.display())), "{log}");
}

#[test]
fn clients_that_offer_http_1_0_are_served() {
    let server = serve_tls(generated());
    let config = client_config(&server, b"http/1.0");
    let session = ClientConnection::new(config, ServerName::try_from("localhost").unwrap()).unwrap();
    let mut stream = StreamOwned::new(session, TcpStream::connect(server.addresses()[0]).unwrap());
    stream.write_all(b"GET /data.bin HTTP/1.0\r\nRange: bytes=0-9\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 206 ") && answer.ends_with(&pattern(0, 10)));
}

/// Fetches a range over HTTP/2 and returns the status and the bytes.
async fn ask_http2(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> (u16, Vec<u8>) {
    let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
    let driver = tokio::spawn(connection);
    let request =
        http::Request::get("http://test/data.bin").header("range", "bytes=7-3000006").body(()).unwrap();
    let (response, _) = client.send_request(request, true).unwrap();
    let response = response.await.unwrap();
    let status = response.status().as_u16();
    assert_eq!(response.headers()["content-range"], "bytes 7-3000006/5000000");
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
        bytes.extend_from_slice(&data);
    }
    driver.abort();
    (status, bytes)
}

#[tokio::test]
async fn http2_is_spoken_over_tls() {
    let server = serve_tls(generated());
    let connector = tokio_rustls::TlsConnector::from(client_config(&server, b"h2"));
    let socket = tokio::net::TcpStream::connect(server.addresses()[0]).await.unwrap();
    let stream = connector.connect(ServerName::try_from("localhost").unwrap(), socket).await.unwrap();
    let (status, bytes) = ask_http2(stream).await;
    assert!(status == 206 && bytes == pattern(7, 3_000_000));
}

#[tokio::test]
async fn http2_is_spoken_in_the_clear_with_prior_knowledge() {
    let server = serve(generated());
    let socket = tokio::net::TcpStream::connect(server.addresses()[0]).await.unwrap();
    let (status, bytes) = ask_http2(socket).await;
    assert!(status == 206 && bytes == pattern(7, 3_000_000));
    // HTTP/1.1 goes on beside it.
    assert_eq!(Client::new(&server).get("/data.bin", &["Range: bytes=0-9"]).body, pattern(0, 10));
}

#[tokio::test]
async fn a_request_with_a_body_is_told_why_it_is_refused() {
    let server = serve(generated());
    let socket = tokio::net::TcpStream::connect(server.addresses()[0]).await.unwrap();
    let (mut client, connection) = h2::client::handshake(socket).await.unwrap();
    let driver = tokio::spawn(connection);
    let request = http::Request::post("http://test/data.bin").body(()).unwrap();
    let (response, mut body) = client.send_request(request, false).unwrap();
    body.send_data(vec![0; 1000].into(), true).unwrap();
    let response = response.await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["allow"]),
        (405, &"GET, HEAD".parse().unwrap())
    );
    driver.abort();
}

#[test]
fn what_arrives_whole_over_tls_is_of_one_version() {
    for (what, change, is_whole) in CHANGES {
        let (_root, path, config) = large();
        let server = serve_tls(config);
        let mut stream = https_over(connect_narrow(&server), &server, "localhost");
        stream.write_all(b"GET /large HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = vec![0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert!(answer.ends_with(b" 200"), "{}", answer.escape_ascii());
        // The server has begun, and cannot come to the end while nobody reads.
        change(&path);
        // An end without close_notify is an error, and says what came before it.
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(answer.len() as u64 > LARGE, is_whole, "{what}");
    }
}

#[test]
fn bytes_behind_the_last_request_cost_nothing_of_its_answer_over_tls() {
    let server = serve_tls(generated());
    let mut stream = https_over(connect_narrow(&server), &server, "localhost");
    stream.write_all(b"GET /data.bin HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = vec![0; 1000];
    stream.read_exact(&mut answer).unwrap();
    // The request is read, and this will not be.
    stream.write_all(b"\r\n").unwrap();
    // An end without close_notify would be an error.
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.ends_with(&pattern(SIZE - 1000, 1000)), "{} bytes", answer.len());
}

#[test]
fn stopping_ends_connections_in_the_middle_of_a_body() {
    let server = serve_tls(Config::new(Content::Generated(vec![("data.bin".into(), 1 << 40)])));
    let mut stream = https(&server, "localhost");
    stream.write_all(b"GET /data.bin HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    let mut some = [0; 1000];
    stream.read_exact(&mut some).unwrap();
    assert_eq!(server.stop().connections, 0);
}

#[test]
fn https_answers_that_were_begun_come_to_their_end() {
    let server = serve_tls(Config { drain: Duration::from_secs(20), ..generated() });
    let mut stream = https(&server, "localhost");
    stream.write_all(b"GET /data.bin HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    let mut answer = vec![0; 1000];
    stream.read_exact(&mut answer).unwrap();
    let stopping = std::thread::spawn(move || server.stop());
    // An end without close_notify would be an error.
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.ends_with(&pattern(SIZE - 1000, 1000)));
    assert_eq!(stopping.join().unwrap().connections, 0);
}

#[tokio::test]
async fn streams_that_were_begun_come_to_their_end() {
    let server = serve(Config { drain: Duration::from_secs(20), ..generated() });
    let socket = tokio::net::TcpStream::connect(server.addresses()[0]).await.unwrap();
    let (mut client, connection) = h2::client::handshake(socket).await.unwrap();
    let driver = tokio::spawn(connection);
    let request = http::Request::get("http://test/data.bin").body(()).unwrap();
    let (response, _) = client.send_request(request, true).unwrap();
    let mut body = response.await.unwrap().into_body();
    let stopping = tokio::task::spawn_blocking(move || server.stop());
    let mut bytes = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
        bytes.extend_from_slice(&data);
    }
    assert!(bytes == pattern(0, SIZE as usize), "{} bytes", bytes.len());
    assert_eq!(stopping.await.unwrap().connections, 0);
    let _ = driver.await;
}

#[tokio::test]
async fn http2_refuses_what_http1_refuses() {
    let server = serve(generated());
    for (uri, hosts, status) in [
        ("http://test/data.bin", &[][..], 200),
        ("http://test:80/data.bin", &["test:80"], 200),
        ("http://test/data.bin", &["other"], 400),
        ("http://test/data.bin", &["test", "test"], 400),
        ("http://user@test/data.bin", &[], 400),
        ("http://test/../data.bin", &[], 404),
        ("http://test/%00", &[], 404),
    ] {
        let socket = tokio::net::TcpStream::connect(server.addresses()[0]).await.unwrap();
        let (mut client, connection) = h2::client::handshake(socket).await.unwrap();
        let driver = tokio::spawn(connection);
        let mut request = http::Request::get(uri);
        for host in hosts {
            request = request.header("host", *host);
        }
        let (response, _) = client.send_request(request.body(()).unwrap(), true).unwrap();
        assert_eq!(response.await.unwrap().status().as_u16(), status, "{uri} {hosts:?}");
        driver.abort();
    }
}

#[tokio::test]
async fn a_refused_head_has_no_body_over_http2() {
    let server = serve(generated());
    let socket = tokio::net::TcpStream::connect(server.addresses()[0]).await.unwrap();
    let (mut client, connection) = h2::client::handshake(socket).await.unwrap();
    let driver = tokio::spawn(connection);
    let request = http::Request::head("http://user@test/data.bin").body(()).unwrap();
    let (response, _) = client.send_request(request, true).unwrap();
    let response = response.await.unwrap();
    assert_eq!(response.status().as_u16(), 400);
    let data = response.into_body().data().await;
    assert!(data.is_none(), "{data:?}");
    driver.abort();
}

/// A connection of HTTP/2 whose streams let a byte through at a time, and the task that drives it.
async fn connect_by_bytes(
    server: &Handle,
) -> (h2::client::SendRequest<bytes::Bytes>, tokio::task::JoinHandle<Result<(), h2::Error>>) {
    let socket = tokio::net::TcpStream::connect(server.addresses()[0]).await.unwrap();
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(1).initial_connection_window_size(1 << 20);
    let (client, connection) = builder.handshake::<_, bytes::Bytes>(socket).await.unwrap();
    (client, tokio::spawn(connection))
}

#[tokio::test]
async fn a_small_file_that_is_rewritten_longer_is_cut_off() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("small");
    std::fs::write(&path, "0123456789").unwrap();
    let server = serve(Config::new(Content::Dir(root.path().to_owned())));
    let (mut client, driver) = connect_by_bytes(&server).await;
    let request = http::Request::get("http://test/small").body(()).unwrap();
    let (response, _) = client.send_request(request, true).unwrap();
    let mut body = response.await.unwrap().into_body();
    assert_eq!(body.data().await.unwrap().unwrap(), "0");
    // The server has no window for the rest.
    std::fs::write(&path, "abcdefghijkl").unwrap();
    body.flow_control().release_capacity(1).unwrap();
    let end = loop {
        match body.data().await {
            Some(Ok(data)) => body.flow_control().release_capacity(data.len()).unwrap(),
            end => break end,
        }
    };
    assert!(end.is_some(), "bytes of two versions arrived whole");
    driver.abort();
}

#[tokio::test]
async fn a_stream_gets_what_its_window_lets_through() {
    let server = serve(generated());
    let (mut client, driver) = connect_by_bytes(&server).await;
    let request = http::Request::get("http://test/data.bin").header("range", "bytes=0-999").body(()).unwrap();
    let (response, _) = client.send_request(request, true).unwrap();
    let mut body = response.await.unwrap().into_body();
    let mut bytes = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.unwrap();
        bytes.extend_from_slice(&data);
        body.flow_control().release_capacity(data.len()).unwrap();
    }
    assert!(bytes == pattern(0, 1000));
    driver.abort();
}
