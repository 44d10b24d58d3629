//! A load on the path: one URL downloaded again and again over a few connections, and thrown away.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::Builder;
use std::time::{Duration, Instant};

use anyhow::Context;
use url::Url;
use weir_bench::host::load::Load;
use weir_get::GetError;
use weir_get::http::connection::Dial;
use weir_get::http::exchange::{Client, Http, Version, Who};
use weir_get::http::proxy::{Proxies, Said};
use weir_get::http::trust::Trust;
use weir_get::object;
use weir_observe::stage_clock::StageClock;

use crate::cmd::asked_store;
use crate::voice::Usage;

/// Enough that neither one interval nor one server thread is what holds the path back, and no more than a
/// browser opens.
const CONNECTIONS: usize = 4;

/// As weir get reads.
const PIECE: usize = 1 << 20;

/// A server that sends nothing for so long ends the load.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A download that is repeated until it is no longer wanted.
pub struct HttpLoad {
    url: Url,
    http: Http,
}

impl HttpLoad {
    /// Nothing is asked for before the load runs.
    pub fn new(url: &str, trust: Trust) -> anyhow::Result<HttpLoad> {
        let url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = url.ok_or_else(|| Usage("invalid --load: expected an http or https URL".to_owned()))?;
        let proxies =
            Proxies::new(Said::default(), asked_store::own_variable).context("cannot use the proxy")?;
        Ok(HttpLoad { url, http: Http::new(trust, proxies, Version::Http1, Vec::new(), Who::default()) })
    }

    fn fetch(&self, stop: &AtomicBool, moved: &AtomicU64) -> Result<(), GetError> {
        let clock = StageClock::new(Instant::now());
        let never = AtomicBool::new(false);
        let dial = Dial::new(TIMEOUT, [stop, &never]);
        let mut client = Client::new(&self.http, &clock, dial, &|_| {});
        while !stop.load(Relaxed) {
            let mut answer = client.get(&self.url, &self.url, None, None, false)?;
            answer.judge(None)?;
            while !answer.body.is_end() {
                match answer.body.fill(PIECE, &clock, &dial) {
                    Ok(0) => break,
                    Ok(count) => moved.fetch_add(count as u64, Relaxed),
                    Err(_) if stop.load(Relaxed) => return Ok(()),
                    Err(error) => return Err(error),
                };
                if stop.load(Relaxed) {
                    return Ok(());
                }
            }
            client.keep(&self.url, answer.body);
        }
        Ok(())
    }
}

impl Load for HttpLoad {
    fn name(&self) -> String {
        format!("download of {} over {CONNECTIONS} connections", object::shown(&self.url))
    }

    fn run(&self, stop: &AtomicBool) -> Result<u64, String> {
        let moved = AtomicU64::new(0);
        let ends = std::thread::scope(|scope| {
            // Fewer connections, where threads are short, are a load too; none is an error below.
            let fetch = || self.fetch(stop, &moved);
            let workers: Vec<_> =
                (0..CONNECTIONS).filter_map(|_| Builder::new().spawn_scoped(scope, fetch).ok()).collect();
            workers.into_iter().map(|worker| worker.join()).collect::<Vec<_>>()
        });
        // One connection that carried is a load; what the others met is of interest only where none did.
        let failed = |end: &std::thread::Result<Result<(), GetError>>| match end {
            Ok(Ok(())) => None,
            Ok(Err(error)) if stop.load(Relaxed) && matches!(error, GetError::Interrupted) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("a connection's thread broke".to_owned()),
        };
        if ends.is_empty() {
            return Err("cannot start a thread for it".to_owned());
        }
        let errors: Vec<_> = ends.iter().filter_map(failed).collect();
        match errors.into_iter().next_back() {
            Some(why) if moved.load(Relaxed) == 0 => Err(why),
            _ => Ok(moved.load(Relaxed)),
        }
    }
}
