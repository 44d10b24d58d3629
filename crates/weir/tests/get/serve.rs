//! `weir serve` as others use it for long: certificates that fit its addresses, new ones while it runs, and
//! an end that cuts nobody off.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::io::{Read, Write};
use std::net::SocketAddr;

use rustix::process::Signal;
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use support::stranger::{connect, trusting};
use support::{Sandbox, WEIR, unfolded, wait_for};

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("www")).unwrap();
    sandbox
}

/// Whether a client that trusts this certificate (PEM) alone takes the server for the one of this name.
fn trusts(address: SocketAddr, certificate: &[u8], name: &str) -> bool {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut session = ClientConnection::new(trusting(certificate, b"http/1.1"), name).unwrap();
    let mut socket = connect(address);
    while session.is_handshaking() {
        if session.complete_io(&mut socket).is_err() {
            return false;
        }
    }
    true
}

#[test]
fn a_certificate_made_on_the_spot_is_for_other_machines_too() {
    let sandbox = sandbox();
    let names = ["--tls-name", "files.test", "--tls-name", "192.0.2.7"];
    let tls = [&["--tls", "--save-cert", "cert.pem"][..], &names[..]].concat();
    let one = sandbox.serve("www", &[&["--listen", "127.0.0.2:0"][..], &tls[..]].concat());
    let certificate = sandbox.read("cert.pem");
    for name in ["127.0.0.2", "files.test", "192.0.2.7", "localhost"] {
        assert!(trusts(one.address(), &certificate, name), "{name}");
    }
    assert!(!trusts(one.address(), &certificate, "other.test"));
    let every = sandbox.serve("www", &[&["--listen", "0.0.0.0:0"][..], &tls[..]].concat());
    let certificate = sandbox.read("cert.pem");
    for address in weir_observe::nic::addresses::own().unwrap() {
        assert!(trusts(every.address(), &certificate, &address.to_string()), "{address}");
    }
}

#[test]
fn a_hang_up_brings_the_new_certificate() {
    let sandbox = sandbox();
    let renew = || {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        sandbox.write("cert.pem", made.cert.pem());
        sandbox.write("key.pem", made.signing_key.serialize_pem());
        made.cert.pem()
    };
    let first = renew();
    let serving = sandbox.serve_saying("www", &["--cert", "cert.pem", "--key", "key.pem"], "said");
    let shows = |certificate: &str| trusts(serving.address(), certificate.as_bytes(), "localhost");
    assert!(shows(&first));
    let second = renew();
    serving.signal(Signal::HUP);
    wait_for("the new certificate", || shows(&second));
    sandbox.write("key.pem", "no key");
    serving.signal(Signal::HUP);
    let said = || unfolded(&String::from_utf8(sandbox.read("said")).unwrap());
    wait_for("a warning", || said().contains("keeping the old certificate: cannot use key.pem"));
    assert!(shows(&second));
    assert_eq!(serving.end(), Some(0));
}

#[test]
fn a_server_without_a_certificate_outlives_a_hang_up() {
    let sandbox = sandbox();
    let serving = sandbox.serve("www", &[]);
    serving.signal(Signal::HUP);
    sandbox.get([&*serving.url(""), "-o", "listing", "--any-type"]).run().succeeds();
    assert_eq!(serving.end(), Some(0));
}

/// Whatever its stdin is, and in the background too, where the shell tells of it; under nohup(1) there is
/// another reason to go on.
#[test]
fn a_server_ends_with_its_terminal() {
    const TELLS: &str = "trap 'kill -HUP $!; wait $!; exit $?' HUP; ";
    for (before, run, ends) in [("", "exec", true), ("trap '' HUP; ", "exec", false), (TELLS, "", true)] {
        let sandbox = sandbox();
        let after = if run.is_empty() { "& wait" } else { "" };
        let script =
            format!("{before}{run} {WEIR} serve -v www --listen 127.0.0.1:0 </dev/null >out 2>said {after}");
        let (near, _terminal, running) = support::on_terminal(&sandbox, &script);
        let serves = || String::from_utf8_lossy(&sandbox.read("out")).contains("serving");
        wait_for("its handler", || sandbox.path("out").exists() && serves());
        drop(near);
        if !ends {
            let said = || unfolded(&String::from_utf8(sandbox.read("said")).unwrap());
            wait_for("the folder to be opened", || said().contains("opened the folder anew"));
            running.signal(Signal::TERM);
        }
        running.wait().succeeds();
    }
}

#[test]
fn an_answer_under_way_comes_to_its_end() {
    const SIZE: usize = 64 << 20;
    let sandbox = sandbox();
    std::fs::File::create(sandbox.path("www/zeros")).unwrap().set_len(SIZE as u64).unwrap();
    let serving = sandbox.serve("www", &["--drain", "60s"]);
    let mut socket = connect(serving.address());
    socket.write_all(b"GET /zeros HTTP/1.0\r\n\r\n").unwrap();
    socket.read_exact(&mut [0; 1000]).unwrap();
    let rest = std::thread::spawn(move || {
        let mut rest = Vec::new();
        socket.read_to_end(&mut rest).map(|_| rest.len())
    });
    assert_eq!(serving.end(), Some(0));
    assert!(rest.join().unwrap().unwrap() > SIZE - 1000);
}

/// A page in a folder is for people; programs get the list, and a plan has what lies beside the page.
#[test]
fn a_folder_with_a_page_can_be_planned() {
    let sandbox = sandbox();
    sandbox.write("www/index.html", "<h1>Welcome</h1>");
    sandbox.write("www/a.bin", "a");
    let serving = sandbox.serve("www", &[]);
    let url = serving.url("");
    let plan = ["fleet", "plan", &*url, "to", "--ledger", "plan.db", "--json"];
    let planned = sandbox.weir(WEIR, plan).run().succeeds().json();
    assert_eq!(planned["added"]["objects"], 2, "{planned}");
    for (accept, is_page) in [
        ("text/html,application/json", true),
        ("*/*", true),
        ("application/json;q=0", true),
        ("text/html;q=0.9, application/json; Q=0.8", true),
        ("application/json", false),
        ("application/json, text/html;q=0.9, */*;q=0.1", false),
    ] {
        let mut socket = connect(serving.address());
        socket.write_all(format!("GET / HTTP/1.0\r\nAccept: {accept}\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("Vary: Accept"), "{accept}: {answer}");
        let (page, list) = (answer.contains("Welcome"), answer.contains("weir.listing/1"));
        assert_eq!((page, list), (is_page, !is_page), "{accept}: {answer}");
    }
}
