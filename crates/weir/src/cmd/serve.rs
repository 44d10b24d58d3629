//! `weir serve`: files below a folder over HTTP or HTTPS, as fast or as slow as asked.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use signal_hook::consts::SIGHUP;
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithRawSiginfo;
use weir_observe::nic::addresses;
use weir_serve::{Config, Content, ServeError, Server, TlsSource};
use weir_units::threads;

use super::bench;
use crate::args::Serve;
use crate::caught::is_of_session;
use crate::interrupt;
use crate::output;
use crate::stdout;
use crate::tui;
use crate::voice::{self, Printed};

/// Serves until SIGINT or SIGTERM; SIGHUP reopens the folder and rereads the certificate.
pub fn run(serve: &Serve) -> anyhow::Result<u8> {
    voice::start_log(serve.quiet, serve.verbose);
    raise_descriptors();
    let server = Arc::new(Server::bind(config(serve)).map_err(with_way_out)?);
    let stop = interrupt::stop()?;
    let hang_ups = HangUps::listen()?;
    let (measured, answers) = match serve.bench {
        Some(listen) => {
            let (places, answer) = bench::net::server::beside(listen, serve.quiet, Arc::clone(&stop))?;
            (places, Some(threads::start("bench", answer)?))
        }
        None => (Vec::new(), None),
    };
    let served = Arc::clone(&server);
    threads::start("signals", move || hear(&served, &stop, hang_ups))?;
    if let (Some(path), Some(pem)) = (&serve.save_cert, server.certificate_pem()) {
        output::write(path, pem.as_bytes())?;
    }
    // Who closed stdout has not asked for that.
    if !serve.quiet && !stdout::was_closed() {
        announce(serve, server.addresses(), &measured).printed("where the server listens")?;
    }
    server.run();
    // Tests that run are told to end.
    if let Some(answers) = answers {
        let _ = answers.join();
    }
    Ok(0)
}

/// Says where files are served, and where measurements are answered.
fn announce(serve: &Serve, served: &[SocketAddr], measured: &[SocketAddr]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for address in served {
        let scheme = if serve.tls || serve.cert.is_some() { "https" } else { "http" };
        writeln!(out, "serving {} at {scheme}://{address}/", serve.root.display())?;
    }
    for place in measured {
        writeln!(out, "answering weir bench net and iperf3 at {place}")?;
    }
    out.flush()
}

/// What SIGHUP means: that the terminal has gone, or that all is to be read anew.
struct HangUps {
    told: SignalsInfo<WithRawSiginfo>,
    /// The server ends with its terminal. One without a terminal does not, and not one under nohup(1), which
    /// has SIGHUP ignored.
    ends_with_terminal: bool,
}

impl HangUps {
    fn listen() -> io::Result<HangUps> {
        let ends_with_terminal = interrupt::is_heeded(&SIGHUP) && tui::terminal().is_ok();
        // Also where it is ignored: that does not mean a certificate that is to be read anew.
        let told = interrupt::while_held(|| SignalsInfo::new([SIGHUP]))?;
        Ok(HangUps { told, ends_with_terminal })
    }

    /// What came since the last call: whether it tells of the terminal's end.
    fn came(&mut self) -> Option<bool> {
        let told: Vec<_> = self.told.pending().collect();
        // A shell that exits says so a moment before it gives its terminal up.
        let is_end = || {
            told.iter().any(is_of_session) && {
                std::thread::sleep(Duration::from_millis(50));
                has_gone(&tui::terminal())
            }
        };
        (!told.is_empty()).then(|| self.ends_with_terminal && is_end())
    }
}

/// Not merely one that cannot be opened now, as for want of descriptors.
fn has_gone(terminal: &io::Result<std::fs::File>) -> bool {
    let errno = |error: &io::Error| matches!(error.raw_os_error(), Some(libc::ENXIO | libc::EIO));
    terminal.as_ref().is_err_and(errno)
}

/// Does what signals ask for, until one of them ends the server.
fn hear(server: &Server, stop: &AtomicBool, mut hang_ups: HangUps) {
    while !stop.load(Relaxed) {
        match hang_ups.came() {
            // There is nobody to serve for.
            Some(true) => stop.store(true, Relaxed),
            Some(false) => reload(server),
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    }
    server.shutdown().stop();
}

fn reload(server: &Server) {
    match server.reload() {
        Ok(true) => tracing::info!("opened the folder and read the certificate anew"),
        Ok(false) => tracing::info!("opened the folder anew; there is no certificate to read"),
        Err(error) => {
            let is_folder = matches!(error, ServeError::Root { .. });
            let kept = if is_folder { "folder" } else { "certificate" };
            let words = voice::words(&error.into());
            tracing::warn!("keeping the old {kept}: {words}");
        }
    }
}

fn config(serve: &Serve) -> Config {
    let tls = match (&serve.cert, &serve.key) {
        (Some(cert), Some(key)) => Some(TlsSource::Files { cert: cert.clone(), key: key.clone() }),
        _ if serve.tls => Some(TlsSource::SelfSigned { names: certificate_names(serve) }),
        _ => None,
    };
    Config {
        listen: serve.listen.clone(),
        follow_links: serve.follow_links,
        tls,
        limit_rate: serve.limit_rate.0,
        delay: serve.delay.unwrap_or_default(),
        send_buffer: serve.send_buffer,
        connections_at_once: serve.at_once.map(|most| most as usize),
        max_connections: serve.max_connections.map(|most| most as usize),
        drain: serve.drain,
        ..Config::new(Content::Dir(serve.root.clone()))
    }
}

/// By which names clients may ask for this server: the addresses that it listens on, which may be all that
/// this host has, the host's name, and what was named.
fn certificate_names(serve: &Serve) -> Vec<String> {
    let (every, some): (Vec<_>, Vec<_>) =
        serve.listen.iter().map(|listen| listen.ip()).partition(|ip| ip.is_unspecified());
    let own = match every.is_empty() {
        true => Vec::new(),
        false => addresses::own().unwrap_or_else(|error| {
            tracing::warn!("{error}: the certificate lacks this host's addresses; --tls-name adds them");
            Vec::new()
        }),
    };
    let system = rustix::system::uname();
    // Not every host has a name that a certificate may have.
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_name = |name: &&str| !name.is_empty() && name.bytes().all(is_letter);
    let host = system.nodename().to_str().ok().filter(is_name);
    let by_number = some.into_iter().chain(own).map(|address| address.to_string());
    let names: BTreeSet<String> = by_number.chain(host.map(str::to_owned)).collect();
    let named = serve.tls_name.iter().filter(|name| !names.contains(*name)).cloned().collect::<Vec<_>>();
    names.into_iter().chain(named).collect()
}

/// Lets the process have as many descriptors as it may give itself, up to what the most connections that
/// anyone would ask for need (see `weir_serve::Config::max_connections`).
fn raise_descriptors() {
    const ENOUGH: u64 = 256 * 1024;
    // Where it fails, the server holds as many as the limit allows, as before.
    let _ = weir_units::nofile::raise(ENOUGH);
}

/// What may help, behind what went wrong.
fn with_way_out(error: ServeError) -> anyhow::Error {
    use std::io::ErrorKind::{AddrInUse, PermissionDenied};
    let way_out = match &error {
        ServeError::Listen { source, .. } if source.kind() == AddrInUse => "choose another port (--listen)",
        ServeError::Listen { source, .. } if source.kind() == PermissionDenied => {
            "ports below 1024 need CAP_NET_BIND_SERVICE, which root has"
        }
        ServeError::Descriptors { .. } => "raise it (ulimit -Hn) or ask for fewer (--max-connections)",
        _ => return error.into(),
    };
    anyhow::anyhow!("{}; {way_out}", voice::words(&error.into()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        serve: Serve,
    }

    fn names(words: &str) -> Vec<String> {
        certificate_names(&Line::parse_from(words.split(' ')).serve)
    }

    #[test]
    fn a_certificate_is_for_all_that_clients_may_ask_for() {
        let is_there = |names: &[String], name: &str| names.iter().any(|there| there == name);
        let listen = "--listen 192.0.2.7:80 --listen [2001:db8::1]:80";
        let some = names(&format!("serve . --tls {listen} --tls-name files.test"));
        for name in ["192.0.2.7", "2001:db8::1", "files.test"] {
            assert!(is_there(&some, name), "{name}: {some:?}");
        }
        assert!(!is_there(&some, "127.0.0.1"), "nobody asks there: {some:?}");
        for every in [names("serve . --tls --listen 0.0.0.0:80"), names("serve . --tls --listen [::]:80")] {
            assert!(is_there(&every, "127.0.0.1") && !is_there(&every, "0.0.0.0"), "{every:?}");
        }
    }

    #[test]
    fn a_certificate_that_is_not_made_cannot_be_saved() {
        let accepted = |words: &str| Line::try_parse_from(words.split(' ')).is_ok();
        assert!(accepted("serve . --tls --save-cert made.pem"));
        assert!(accepted("serve . --tls --cert cert.pem --key key.pem"));
        assert!(!accepted("serve . --tls --cert cert.pem --key key.pem --save-cert made.pem"));
    }

    #[test]
    fn values_that_no_server_could_honour_are_usage() {
        let accepted = |words: &[&str]| Line::try_parse_from([&["serve", "."][..], words].concat()).is_ok();
        assert!(accepted(&["--drain", "0", "--delay", "0", "--at-once", "1"]));
        for words in [["--at-once", "0"], ["--max-connections", "0"], ["--drain", "-1"]] {
            assert!(!accepted(&words), "{words:?}");
        }
        for (name, is_name) in [("files.test", true), ("*.test", true), ("", false), ("a b", false)] {
            assert_eq!(accepted(&["--tls", "--tls-name", name]), is_name, "{name:?}");
        }
    }

    #[test]
    fn who_may_not_listen_is_told_what_is_missing() {
        let source = std::io::ErrorKind::PermissionDenied.into();
        let address = ([127, 0, 0, 1], 443).into();
        let error = with_way_out(ServeError::Listen { address, source });
        assert_eq!(
            error.to_string(),
            "cannot listen on 127.0.0.1:443: permission denied; \
             ports below 1024 need CAP_NET_BIND_SERVICE, which root has"
        );
    }
}
