//! A store that a command asks, from its flags and the environment: the bucket, and the way to it.

use std::ffi::OsString;
use std::path::Path;
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
use weir_store::environment::{End, Environment};
use weir_store::network::{Network, Stop};
use weir_store::settings::{Settings, StoreFlags};
use weir_store::store::Store;

use crate::args::{StoreArgs, StoreEndArgs, StoreNetworkArgs};
use crate::voice::Usage;

/// A minute without a byte is a broken path, as for downloads.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// As many attempts as a download has.
pub const RETRIES: u32 = 5;

/// What this process's environment says.
pub fn own_variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The authorities of `--cacert` and of the environment.
pub fn trust(cacert: Option<&Path>) -> Trust {
    trust_by(cacert, std::env::var_os("AWS_CA_BUNDLE"))
}

/// The same where `bundle` is what `AWS_CA_BUNDLE` says.
fn trust_by(cacert: Option<&Path>, bundle: Option<OsString>) -> Trust {
    let authorities = cacert.map(Into::into).or_else(|| std::env::var_os("SSL_CERT_FILE").map(Into::into));
    let of_stores = bundle.filter(|text| !text.is_empty()).map(Into::into);
    Trust { authorities, of_stores, ..Trust::default() }
}

/// The network as `args` and the environment say, until `stop` is set.
pub fn network(args: &StoreNetworkArgs, stop: &Arc<AtomicBool>) -> anyhow::Result<Network> {
    network_by(args, &own_variable, stop)
}

/// The same for one end of a copy.
pub fn network_of_end(
    (ends, end): (&StoreEndArgs, End),
    both: &StoreNetworkArgs,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Network> {
    network_by(&ends.network(end, both), &|name: &str| end.value(&own_variable, name), stop)
}

fn network_by(
    args: &StoreNetworkArgs,
    environment: Environment<'_>,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Network> {
    let said = Said { proxy: args.proxy.as_deref(), exempt: args.noproxy.as_deref() };
    let proxies = Proxies::new(said, environment)?;
    let bundle = environment("AWS_CA_BUNDLE").map(OsString::from);
    let bundle = bundle.or_else(|| std::env::var_os("AWS_CA_BUNDLE"));
    let trust = trust_by(args.cacert.as_deref(), bundle);
    let flag = Stop::default();
    flag.set(stop);
    Ok(Network { trust, proxies: Some(proxies), stop: flag, ..Network::default() })
}

/// The way to stores, and to whoever gives credentials for them.
pub struct StoreWay {
    network: Network,
}

impl StoreWay {
    /// As `args` and the environment say, until `stop` is set.
    pub fn of(args: &StoreNetworkArgs, stop: &Arc<AtomicBool>) -> anyhow::Result<StoreWay> {
        Ok(StoreWay { network: network(args, stop)? })
    }

    /// The same for one end of a copy.
    pub fn of_end(
        (ends, end): (&StoreEndArgs, End),
        both: &StoreNetworkArgs,
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<StoreWay> {
        Ok(StoreWay { network: network_of_end((ends, end), both, stop)? })
    }

    /// The bucket of `url`, or the store alone where it names none.
    pub fn open(&self, args: &StoreArgs, url: &StoreUrl) -> anyhow::Result<Arc<dyn Store>> {
        self.open_by(args.flags()?, url)
    }

    /// The same by these flags.
    pub fn open_by(&self, flags: StoreFlags, url: &StoreUrl) -> anyhow::Result<Arc<dyn Store>> {
        let flags = StoreFlags { network: self.network.clone(), ..flags };
        let settings = Settings { flags, environment: &own_variable };
        settings.open(url).map_err(|error| match error {
            StoreError::Usage(why) => Usage(why).into(),
            other => other.into(),
        })
    }

    /// The way to the network for these, one of them after another where several speak for a URL.
    pub fn http(&self, stores: &[&Arc<dyn Store>]) -> Http {
        let authorizers = stores.iter().map(|store| store.authorizer()).collect();
        let (trust, proxies) = (self.network.trust.clone(), self.network.proxies.clone().unwrap_or_default());
        Http::new(trust, proxies, Version::Http1, Vec::new(), Who::default()).authorized_by(authorizers)
    }
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
