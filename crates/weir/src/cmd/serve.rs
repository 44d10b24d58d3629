//! `weir serve`: files below a folder over HTTP or HTTPS, as fast or as slow as asked.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use weir_serve::{Config, Content, Server, TlsSource};

use super::bench;
use crate::args::Serve;
use crate::interrupt;
use crate::output;
use crate::voice;

/// Serves until SIGINT or SIGTERM.
pub fn run(serve: &Serve) -> anyhow::Result<u8> {
    voice::start_log(serve.voice.quiet, serve.voice.verbose);
    if serve.voice.report.is_some() {
        return Err(voice::Usage("serve has no run to report; weir get and weir why have".to_owned()).into());
    }
    raise_descriptors();
    let server = Server::bind(config(serve)).map_err(with_way_out)?;
    let stop = interrupt::stop()?;
    let bench = match serve.bench {
        Some(listen) => Some(bench::net::server::beside(listen, serve.voice.quiet, Arc::clone(&stop))?),
        None => None,
    };
    if let (Some(path), Some(pem)) = (&serve.save_cert, server.certificate_pem()) {
        output::write(path, pem.as_bytes())?;
    }
    if !serve.voice.quiet {
        let mut stdout = std::io::stdout().lock();
        for address in server.addresses() {
            let scheme = if serve.tls || serve.cert.is_some() { "https" } else { "http" };
            writeln!(stdout, "serving {} at {scheme}://{address}/", serve.root.display())?;
        }
        for place in bench.iter().flat_map(|(places, _)| places) {
            writeln!(stdout, "answering weir bench net and iperf3 at {place}")?;
        }
        stdout.flush()?;
    }
    let answers = bench.map(|(_, answer)| std::thread::spawn(answer));
    let shutdown = server.shutdown();
    std::thread::spawn(move || {
        while !stop.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
        }
        shutdown.stop();
    });
    server.run();
    // Tests that run are told to end.
    if let Some(answers) = answers {
        let _ = answers.join();
    }
    Ok(0)
}

fn config(serve: &Serve) -> Config {
    let tls = match (&serve.cert, &serve.key) {
        (Some(cert), Some(key)) => Some(TlsSource::Files { cert: cert.clone(), key: key.clone() }),
        _ if serve.tls => Some(TlsSource::SelfSigned { names: Vec::new() }),
        _ => None,
    };
    Config {
        listen: serve.listen.clone(),
        tls,
        limit_rate: serve.limit_rate,
        delay: serve.delay.unwrap_or_default(),
        send_buffer: serve.send_buffer,
        connections_at_once: serve.at_once,
        max_connections: serve.max_connections.map(|most| most as usize),
        ..Config::new(Content::Dir(serve.root.clone()))
    }
}

/// Lets the process have as many descriptors as it may give itself, up to what the most connections that
/// anyone would ask for need (see `weir_serve::Config::max_connections`).
fn raise_descriptors() {
    const ENOUGH: u64 = 256 * 1024;
    // Where it fails, the server holds as many as the limit allows, as before.
    let _ = weir_units::nofile::raise(ENOUGH);
}

/// What may help, behind what went wrong.
fn with_way_out(error: weir_serve::ServeError) -> anyhow::Error {
    use std::io::ErrorKind::{AddrInUse, PermissionDenied};
    let way_out = match &error {
        weir_serve::ServeError::Listen { source, .. } if source.kind() == AddrInUse => {
            "choose another port (--listen)"
        }
        weir_serve::ServeError::Listen { source, .. } if source.kind() == PermissionDenied => {
            "ports below 1024 need root"
        }
        weir_serve::ServeError::Descriptors { .. } => {
            "raise it (ulimit -Hn) or ask for fewer (--max-connections)"
        }
        _ => return error.into(),
    };
    anyhow::anyhow!("{}; {way_out}", voice::words(&error.into()))
}
