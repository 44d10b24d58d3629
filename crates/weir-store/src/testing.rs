//! What tests of stores need: a line of requests over loopback.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use weir_get::http::authority::Authorizer;
use weir_get::http::connection::MAX_WAIT;
use weir_get::http::exchange::{Http, Version, Who};
use weir_get::http::proxy::Proxies;
use weir_get::http::trust::Trust;
use weir_observe::stage_clock::StageClock;

use crate::caller::{Caller, CallerSetup};

/// Gives `work` a line of requests that `authorizer` speaks for.
pub fn with_caller(authorizer: Arc<dyn Authorizer>, work: impl FnOnce(&mut Caller<'_>)) {
    with_setup(vec![authorizer], |setup| work(&mut Caller::new(setup)));
}

/// Gives `work` what such a line is made of; `authorizers` speak for it.
pub fn with_setup(authorizers: Vec<Arc<dyn Authorizer>>, work: impl FnOnce(CallerSetup<'_>)) {
    let http = Http::new(Trust::default(), Proxies::default(), Version::Http1, Vec::new(), Who::default());
    let http = http.authorized_by(authorizers);
    let (clock, stop) = (StageClock::new(Instant::now()), AtomicBool::new(false));
    let timeout = Duration::from_secs(30);
    work(CallerSetup {
        http: &http,
        clock: &clock,
        on_socket: &|_| {},
        stop: &stop,
        timeout,
        connect_timeout: timeout,
        max_wait: MAX_WAIT,
        retries: 0,
    });
}
