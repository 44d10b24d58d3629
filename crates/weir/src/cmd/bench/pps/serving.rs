//! `weir bench pps -s`: the end that counts.

use std::io::Write;
use std::net::Ipv4Addr;
use std::sync::atomic::Ordering::Relaxed;

use weir_bench::pps::PORT;
use weir_bench::pps::server::{Bounds, Event, Server};
use weir_report::escape::escape;

use crate::args::BenchPps;
use crate::interrupt::{self, INTERRUPTED};

/// Serves until SIGINT or SIGTERM, or until one client is done.
pub fn run(bench: &BenchPps) -> anyhow::Result<u8> {
    let listen = bench.listen.unwrap_or((Ipv4Addr::LOCALHOST, PORT).into());
    let server = Server::bind(listen, Bounds::default())?;
    let stop = interrupt::stop()?;
    if !bench.voice.quiet {
        let mut out = std::io::stdout().lock();
        writeln!(out, "counting packets at {}", server.address()?)?;
        out.flush()?;
    }
    server.run(bench.one_off, &stop, &say);
    Ok(if stop.load(Relaxed) && bench.one_off { INTERRUPTED } else { 0 })
}

fn say(event: Event) {
    match event {
        Event::Came(peer) => tracing::info!("{peer} came"),
        Event::Gone(peer, None) => tracing::info!("{peer} is done"),
        Event::Gone(peer, Some(error)) => {
            tracing::warn!("{peer} is gone: {}", escape(&error.to_string()));
        }
        Event::SentAway(peer, why) => tracing::warn!("{peer} was sent away: {why}"),
    }
}
