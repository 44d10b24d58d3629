//! TLS: what is missing when it fails, each with its way out, and certificates that a server wants to see of
//! its clients.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::net::TcpListener;
use std::process::Command;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use support::http_servers::{Apache, Nginx, Program, s_server, sandbox_with_www};
use support::http2::{SETTINGS, frame};
use support::net::free_port;
use support::{Sandbox, Server, pattern, skip};

const BODY: &[u8] = b"the bytes";

/// `openssl` with these arguments, in the sandbox. False where there is none.
fn openssl(sandbox: &Sandbox, args: &[&str]) -> bool {
    let run = Command::new("openssl").args(args).current_dir(sandbox.path("")).output();
    match run {
        Ok(output) => {
            assert!(output.status.success(), "openssl {args:?}: {}", String::from_utf8_lossy(&output.stderr));
            true
        }
        Err(_) => false,
    }
}

/// An authority `ca.pem`, a server's `cert.pem` and `key.pem` for localhost and 127.0.0.1, a client's
/// `me.pem` and `me.key`.
fn certificates(sandbox: &Sandbox) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "weir test authority");
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    sandbox.write("ca.pem", authority.pem());
    let write = |name: &str, key_name: &str, names: &[&str], purpose| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate().unwrap();
        sandbox.write(name, params.signed_by(&key, &authority).unwrap().pem());
        sandbox.write(key_name, key.serialize_pem());
    };
    write("cert.pem", "key.pem", &["localhost", "127.0.0.1"], ExtendedKeyUsagePurpose::ServerAuth);
    write("me.pem", "me.key", &["me"], ExtendedKeyUsagePurpose::ClientAuth);
}

/// What weir says of a server that fails.
#[track_caller]
fn fails(sandbox: &Sandbox, port: u16, args: &[&str], says: &[&str]) {
    let url = format!("https://127.0.0.1:{port}/x");
    let run = sandbox.get([&*url, "--cacert", "ca.pem", "-o", "out", "--retries", "0"]).args(args).run();
    run.fails(1, says);
    sandbox.has_nothing_of("out");
}

/// `openssl s_server` with the certificates of the sandbox.
fn serving(sandbox: &Sandbox, args: &[&str]) -> Option<Program> {
    let path = |name: &str| sandbox.path(name).to_str().unwrap().to_owned();
    let (cert, key, ca) = (path("cert.pem"), path("key.pem"), path("ca.pem"));
    s_server(&[&["-cert", &cert, "-key", &key, "-CAfile", &ca][..], args].concat())
}

#[test]
fn servers_that_are_too_old() {
    let sandbox = Sandbox::new();
    certificates(&sandbox);
    for (args, says) in [
        (
            &["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA256"][..],
            &["no cipher suite in common", "CBC", "ssl_ciphers"][..],
        ),
        (&["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], &["TLS 1.1 or older", "curl"]),
        (&["-tls1", "-cipher", "ALL:@SECLEVEL=0"], &["TLS 1.1 or older"]),
    ] {
        let Some(server) = serving(&sandbox, args) else { return skip("no openssl here") };
        fails(&sandbox, server.port, &[], says);
    }
}

#[test]
fn certificates_with_a_fault() {
    let sandbox = Sandbox::new();
    let server_of =
        |params: CertificateParams| Server::start_with(params, |_, wire| wire.answer("200 OK", &[], BODY));
    let params = |names: &[&str]| {
        CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap()
    };
    let mut expired = params(&["127.0.0.1"]);
    expired.not_after = rcgen::date_time_ymd(2020, 1, 2);
    let mut early = params(&["127.0.0.1"]);
    early.not_before = rcgen::date_time_ymd(2090, 1, 2);
    let mut client = params(&["127.0.0.1"]);
    client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    for (params, says) in [
        (expired, &["has expired on 2020-01-0", "-k accepts it"][..]),
        (early, &["is not valid yet", "2090-01-0", "set the clock"]),
        (params(&[]), &["names no host", "subjectAltName=IP:127.0.0.1"]),
        (params(&["a.example", "b.example"]), &["for a.example, b.example, not for 127.0.0.1"]),
        (client, &["not one for servers"]),
    ] {
        let server = server_of(params);
        sandbox.write("ca.pem", server.certificate());
        fails(&sandbox, server.address().port(), &[], says);
        // The last way out is one.
        sandbox.get([&*server.url("x"), "-k", "-o", "out"]).run().succeeds();
        std::fs::remove_file(sandbox.path("out")).unwrap();
    }
    let stranger = server_of(params(&["127.0.0.1"]));
    sandbox.write("ca.pem", server_of(params(&["other"])).certificate());
    fails(&sandbox, stranger.address().port(), &[], &["not signed by a trusted authority", "--cacert FILE"]);
}

#[test]
fn tls_on_one_side_only() {
    let sandbox = Sandbox::new();
    certificates(&sandbox);
    for (words, says) in
        [("HTTP/1.1 400 Bad Request\r\n\r\n", "say http://127.0.0.1:"), ("SSH-2.0-x\r\n", "ssh")]
    {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            use std::io::Write;
            for mut socket in listener.incoming().flatten() {
                let _ = socket.write_all(words.as_bytes());
                let _ = std::io::copy(&mut socket, &mut std::io::sink());
            }
        });
        fails(&sandbox, port, &[], &[says]);
    }
    let Some(server) = serving(&sandbox, &[]) else { return skip("no openssl here") };
    let run = sandbox.get([&format!("http://127.0.0.1:{}/x", server.port), "--retries", "0"]).run();
    run.exits(1);
}

#[test]
fn a_server_that_wants_a_certificate_and_gets_none_or_another() {
    let sandbox = Sandbox::new();
    certificates(&sandbox);
    for version in ["-tls1_2", "-tls1_3"] {
        let Some(server) = serving(&sandbox, &[version, "-Verify", "1", "-verify_return_error"]) else {
            return skip("no openssl here");
        };
        fails(&sandbox, server.port, &[], &["client certificate", "--cert FILE and --key FILE"]);
        let good = ["--cert", "me.pem", "--key", "me.key"];
        let url = format!("https://127.0.0.1:{}/", server.port);
        sandbox.get([&*url, "--cacert", "ca.pem", "-o", "out"]).args(&good).run().succeeds();
        std::fs::remove_file(sandbox.path("out")).unwrap();
        let stranger = rcgen::generate_simple_self_signed(["me".to_owned()]).unwrap();
        sandbox.write("stranger.pem", stranger.cert.pem() + &stranger.signing_key.serialize_pem());
        fails(&sandbox, server.port, &["--cert", "stranger.pem"], &["client certificate", "authority"]);
    }
}

/// The same identity in all the forms that files come in.
fn identities(sandbox: &Sandbox) -> Option<Vec<Vec<&'static str>>> {
    let me = String::from_utf8(sandbox.read("me.pem")).unwrap()
        + &String::from_utf8(sandbox.read("me.key")).unwrap();
    sandbox.write("both.pem", me);
    sandbox.write("pass", "geheim\nnot this\n");
    let locked = ["pkcs8", "-topk8", "-in", "me.key", "-passout", "pass:geheim"];
    let p12 = ["pkcs12", "-export", "-in", "me.pem", "-inkey", "me.key", "-certfile", "ca.pem"];
    let made = openssl(sandbox, &[&locked[..], &["-out", "locked.key"]].concat())
        && openssl(sandbox, &[&locked[..], &["-v2", "des3", "-out", "des3.key"]].concat())
        && openssl(sandbox, &[&locked[..], &["-v2prf", "hmacWithSHA1", "-out", "sha1.key"]].concat())
        && openssl(sandbox, &[&locked[..], &["-scrypt", "-out", "scrypt.key"]].concat())
        && openssl(sandbox, &[&p12[..], &["-passout", "pass:geheim", "-out", "me.p12"]].concat())
        && openssl(sandbox, &[&p12[..], &["-passout", "pass:", "-out", "open.p12"]].concat())
        && openssl(sandbox, &["x509", "-in", "me.pem", "-outform", "DER", "-out", "me.der"])
        && openssl(
            sandbox,
            &["pkcs8", "-topk8", "-nocrypt", "-in", "me.key", "-outform", "DER", "-out", "key.der"],
        )
        && openssl(sandbox, &["ec", "-in", "me.key", "-out", "sec1.key"]);
    made.then(|| {
        vec![
            vec!["--cert", "me.pem", "--key", "me.key"],
            vec!["--certificate", "me.pem", "--private-key", "me.key"],
            vec!["--cert", "both.pem"],
            vec!["--cert", "me.pem", "--key", "sec1.key"],
            vec!["--cert", "me.pem", "--key", "locked.key", "--pass-file", "pass"],
            vec!["--cert", "me.pem:geheim", "--key", "locked.key"],
            vec!["--cert", "me.pem:geheim", "--key", "des3.key"],
            vec!["--cert", "me.pem:geheim", "--key", "sha1.key"],
            vec!["--cert", "me.pem:geheim", "--key", "scrypt.key"],
            vec!["--cert", "me.p12", "--pass-file", "pass"],
            vec!["--cert", "me.p12:geheim"],
            vec!["--cert", "open.p12"],
            vec!["--cert", "me.der", "--key", "key.der"],
            vec!["--cert", "me.der", "--key", "me.key"],
        ]
    })
}

#[test]
fn nginx_and_apache_are_shown_a_certificate_in_every_form() {
    let sandbox = sandbox_with_www();
    let bytes = pattern(3 << 20, 1);
    sandbox.write("www/x", &bytes);
    certificates(&sandbox);
    let Some(identities) = identities(&sandbox) else { return skip("no openssl here") };
    let here = sandbox.path("");
    let here = here.display();
    // nginx makes a certificate of its own, and answers 400 to a client that shows none.
    let Some(nginx) =
        Nginx::start(&sandbox, &format!("ssl_client_certificate {here}/ca.pem; ssl_verify_client on;"))
    else {
        return skip("no nginx here");
    };
    std::fs::copy(sandbox.path("cert.pem"), sandbox.path("nginx.pem")).unwrap();
    let at_nginx = format!("https://127.0.0.1:{}/x", nginx.https);
    let run = sandbox.get([&*at_nginx, "--cacert", "nginx.pem", "-o", "out"]).run();
    run.fails(1, &["answered 400", "client certificate: --cert FILE"]);
    for identity in &identities {
        for lanes in ["1", "3"] {
            let run = sandbox
                .get([&*at_nginx, "--cacert", "nginx.pem", "-o", "out", "-c", lanes, "-vv"])
                .args(identity)
                .run();
            run.succeeds().hides("geheim");
            assert!(sandbox.read("out") == bytes, "{identity:?}");
        }
    }
    drop(nginx);
    certificates_of_server(&sandbox);
    let port = free_port();
    let directives = format!(
        "Listen 127.0.0.1:{port}\n<VirtualHost 127.0.0.1:{port}>\nSSLEngine on\nSSLCertificateFile {here}/cert.pem\n\
         SSLCertificateKeyFile {here}/key.pem\nSSLCACertificateFile {here}/ca.pem\nSSLVerifyClient require\n</VirtualHost>"
    );
    let Some(_apache) = Apache::with(&sandbox, &["socache_shmcb", "ssl"], &directives) else {
        return skip("no Apache here");
    };
    let at_apache = format!("https://127.0.0.1:{port}/x");
    for identity in identities.iter().take(3) {
        sandbox.get([&*at_apache, "-k", "-o", "out"]).args(identity).run().succeeds();
        assert!(sandbox.read("out") == bytes);
    }
    std::fs::remove_file(sandbox.path("out")).unwrap();
    fails(&sandbox, port, &["-k"], &["client certificate", "--cert FILE and --key FILE"]);
}

/// A certificate as `openssl x509 -req` makes it where it is told no more, and its key.
const VERSION_1: &str = include_str!("../support/version1.pem");

#[test]
fn certificates_of_version_1() {
    let sandbox = Sandbox::new();
    let one = sandbox.write("one.pem", VERSION_1);
    let one = one.to_str().unwrap();
    for version in ["-tls1_2", "-tls1_3"] {
        sandbox.write("ca.pem", VERSION_1);
        let Some(server) = s_server(&["-cert", one, "-key", one, version]) else {
            return skip("no openssl here");
        };
        fails(&sandbox, server.port, &[], &["X.509 version 1", "-k accepts it"]);
        let url = format!("https://127.0.0.1:{}/", server.port);
        sandbox.get([&*url, "-k", "-o", "out"]).run().succeeds();
        std::fs::remove_file(sandbox.path("out")).unwrap();
        // Shown by a client, it is the server's to judge.
        certificates(&sandbox);
        let path = |name: &str| sandbox.path(name).to_str().unwrap().to_owned();
        let (cert, key) = (path("cert.pem"), path("key.pem"));
        let asks =
            ["-cert", &cert, "-key", &key, "-CAfile", one, version, "-Verify", "1", "-verify_return_error"];
        let server = s_server(&asks).unwrap();
        let url = format!("https://127.0.0.1:{}/", server.port);
        openssl(&sandbox, &["x509", "-in", "one.pem", "-outform", "DER", "-out", "one.der"]);
        for shown in [&["--cert", "one.pem"][..], &["--cert", "one.der", "--key", "one.pem"]] {
            sandbox.get([&*url, "--cacert", "ca.pem", "-o", "out"]).args(shown).run().succeeds();
            std::fs::remove_file(sandbox.path("out")).unwrap();
        }
        let run = sandbox.get([&*url, "--cacert", "ca.pem", "--cert", "one.pem", "--key", "me.key"]).run();
        run.fails(1, &["me.key: it is not the key of that certificate"]);
    }
}

/// The server's own certificate, from the sandbox's authority no longer: [`Nginx`] has written another.
fn certificates_of_server(sandbox: &Sandbox) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    sandbox.write("cert.pem", made.cert.pem());
    sandbox.write("key.pem", made.signing_key.serialize_pem());
}

#[test]
fn files_that_are_no_identity_are_named_with_a_way_out() {
    let sandbox = Sandbox::new();
    certificates(&sandbox);
    if identities(&sandbox).is_none() {
        return skip("no openssl here");
    }
    openssl(&sandbox, &["ec", "-in", "me.key", "-aes128", "-passout", "pass:geheim", "-out", "old.key"]);
    sandbox.write("junk", "junk");
    sandbox.write("junk.der", [0x30, 0x82, 1, 1, 2]);
    sandbox.write("wrong", "falsch\n");
    for (args, says) in [
        (&["--cert", "nowhere.pem"][..], &["nowhere.pem", "no such file"][..]),
        (&["--cert", "nowhere.pem:geheim"], &["nowhere.pem", "no such file"]),
        (&["--cert", "me.pem"], &["me.pem", "no private key", "--key FILE"]),
        (&["--cert", "me.key"], &["me.key", "no certificate"]),
        (&["--cert", "me.der"], &["me.der", "--key FILE"]),
        (&["--cert", "me.pem", "--key", "key.pem"], &["key.pem", "not the key of that certificate"]),
        (&["--cert", "me.pem", "--key", "locked.key"], &["locked.key", "--pass-file FILE"]),
        (
            &["--cert", "me.pem", "--key", "locked.key", "--pass-file", "wrong"],
            &["locked.key", "wrong password"],
        ),
        (
            &["--cert", "me.pem", "--key", "old.key", "--pass-file", "pass"],
            &["old.key", "openssl pkcs8 -topk8"],
        ),
        (&["--cert", "me.p12"], &["me.p12", "--pass-file FILE"]),
        (&["--cert", "me.p12:falsch"], &["me.p12", "wrong password"]),
        (&["--cert", "junk"], &["junk", "neither PEM nor PKCS#12"]),
        (&["--cert", "junk.der", "--pass-file", "pass"], &["junk.der"]),
    ] {
        let run = sandbox.get(["https://127.0.0.1:1/x"]).args(args).run();
        run.fails(1, says).hides("geheim").hides("falsch");
    }
    sandbox.get(["https://127.0.0.1:1/x", "--key", "me.key"]).run().fails(2, &["--cert FILE"]);
}

/// What has come cannot be gone on with: the error says so, and nothing behind it says otherwise.
#[test]
fn a_cut_body_is_told_with_one_way_out() {
    let server = Server::start_tls(|_, wire| {
        wire.head("200 OK", &[("Connection", "close")])?;
        wire.body(&pattern(100_000, 1))?;
        wire.cut()
    });
    let run = Sandbox::new().get([&*server.url("x"), "-k", "-o", "out", "--retries", "0"]).run();
    run.fails(4, &["are kept; the same command starts again"]).hides("to resume");
}

/// A server that speaks HTTP/2 without being asked, as those of remote procedure calls do.
#[test]
fn http2_that_nobody_agreed_on_is_recognised() {
    let settings = |_: &support::Request, wire: &mut support::Wire| {
        wire.raw(&frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100]))?;
        wire.wait_for_close()
    };
    for (server, way) in [
        (Server::start(settings), "say --http2 to speak it"),
        (Server::start_tls(settings), "its TLS has to agree on that (ALPN), and did not"),
    ] {
        let run = Sandbox::new().get([&*server.url("x"), "-k", "-o", "out", "--retries", "0"]).run();
        run.fails(1, &["it speaks HTTP/2 alone", way]).hides("check the scheme");
    }
}
