//! A store that a command asks, from its flags and the environment: the bucket, and the way to it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_get::http::exchange::{Http, Version, Who};
use weir_get::http::proxy::{Proxies, Said};
use weir_get::http::trust::Trust;
use weir_observe::stage_clock::StageClock;
use weir_store::StoreError;
use weir_store::address::StoreUrl;
use weir_store::caller::CallerSetup;
use weir_store::settings::Settings;
use weir_store::store::Store;

use crate::args::StoreArgs;
use crate::voice::Usage;

/// A minute without a byte is a broken path, as for downloads.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// As many attempts as a download has.
pub const RETRIES: u32 = 5;

/// The bucket of `url`, or the store alone where it names none.
pub fn open(args: &StoreArgs, url: &StoreUrl) -> anyhow::Result<Arc<dyn Store>> {
    let environment = |name: &str| std::env::var(name).ok();
    let settings = Settings { flags: args.flags()?, environment: &environment };
    settings.open(url).map_err(|error| match error {
        StoreError::Usage(why) => Usage(why).into(),
        other => other.into(),
    })
}

/// The way to the network for these, one of them after another where several speak for a URL.
pub fn http(cacert: Option<PathBuf>, stores: &[&Arc<dyn Store>]) -> anyhow::Result<Http> {
    let of_environment = || ["SSL_CERT_FILE", "AWS_CA_BUNDLE"].into_iter().find_map(std::env::var_os);
    let authorities = cacert.or_else(|| of_environment().map(Into::into));
    let trust = Trust { authorities, ..Trust::default() };
    let proxies = Proxies::new(Said::default(), |name| std::env::var(name).ok())?;
    let authorizers = stores.iter().map(|store| store.authorizer()).collect();
    Ok(Http::new(trust, proxies, Version::Http1, Vec::new(), Who::default()).authorized_by(authorizers))
}

/// How its requests are made where nobody watches the sockets.
pub fn caller<'a>(http: &'a Http, clock: &'a StageClock, stop: &'a AtomicBool) -> CallerSetup<'a> {
    CallerSetup {
        http,
        clock,
        on_socket: &|_| (),
        stop,
        timeout: TIMEOUT,
        connect_timeout: TIMEOUT,
        retries: RETRIES,
    }
}
