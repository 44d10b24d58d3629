//! Does a server that floods `weir get` with what makes its libraries complain fill the terminal?

use crate::support;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use support::Sandbox;
use support::stranger::{ping, settings};

/// Speaks HTTP/2 as far as SETTINGS, then answers pings that nobody sent, and hangs up.
fn flooding(sandbox: &Sandbox) -> u16 {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    sandbox.write("cert.pem", made.cert.pem());
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("a configuration");
    config.alpn_protocols = vec![b"h2".to_vec()];
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let config = config.clone();
            std::thread::spawn(move || {
                let session = ServerConnection::new(config).expect("a session");
                let mut stream = StreamOwned::new(session, socket);
                let mut flood = settings(65_535);
                flood.extend(std::iter::repeat_n(ping(true), 50_000).flatten());
                // The preface, so that the client is there.
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(&flood);
                let _ = stream.flush();
            });
        }
    });
    port
}

#[test]
fn a_flood_of_pings_is_silence() {
    let sandbox = Sandbox::new();
    let port = flooding(&sandbox);
    for verbose in [&[][..], &["-v"]] {
        let url = format!("https://localhost:{port}/x");
        let args = [url.as_str(), "--http2", "--cacert", "cert.pem", "--retries", "1", "--timeout", "5"];
        let run = sandbox.get(args).args(verbose).run();
        assert_ne!(run.status.code(), Some(0), "{}", run.stderr);
        assert!(!run.stderr.contains("PING"), "{}", run.stderr);
        assert!(run.stderr.lines().count() < 20, "{}", run.stderr);
    }
    // Whoever looks for it sees some, and how many more there were.
    let url = format!("https://localhost:{port}/x");
    let run = sandbox.get([url.as_str(), "--http2", "--cacert", "cert.pem", "--retries", "0", "-vv"]).run();
    assert!(run.stderr.contains("more like this: recv PING ack"), "{}", run.stderr);
    assert!(run.stderr.lines().count() < 60, "{}", run.stderr);
}
