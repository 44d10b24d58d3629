//! What tests of stores need: a line of requests over loopback.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use weir_get::http::authority::Authorizer;
use weir_get::http::exchange::{Http, Version, Who};
use weir_get::http::proxy::Proxies;
use weir_get::http::trust::Trust;
use weir_observe::stage_clock::StageClock;

use crate::caller::{Caller, CallerSetup};

/// Gives `work` a line of requests that `authorizer` speaks for.
pub fn with_caller(authorizer: Arc<dyn Authorizer>, work: impl FnOnce(&mut Caller<'_>)) {
    let http = Http::new(Trust::default(), Proxies::default(), Version::Http1, Vec::new(), Who::default());
    let http = http.authorized_by(vec![authorizer]);
    let (clock, stop) = (StageClock::new(Instant::now()), AtomicBool::new(false));
    let timeout = Duration::from_secs(30);
    work(&mut Caller::new(CallerSetup {
        http: &http,
        clock: &clock,
        on_socket: &|_| {},
        stop: &stop,
        timeout,
        connect_timeout: timeout,
        retries: 0,
    }));
}
