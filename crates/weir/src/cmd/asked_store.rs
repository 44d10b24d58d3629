//! A store that a command asks, from its flags and the environment: the bucket, and the way to it.

use std::collections::BTreeSet;
use std::env::VarError;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;
use weir_get::http::connection::MAX_WAIT;
use weir_get::http::exchange::{Http, Version, Who};
use weir_get::http::proxy::{Proxies, Said};
use weir_get::http::trust::Trust;
use weir_observe::stage_clock::StageClock;
use weir_store::StoreError;
use weir_store::address::StoreUrl;
use weir_store::caller::{Caller, CallerSetup};
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

/// Which authorities are trusted for stores.
const BUNDLE: &str = "AWS_CA_BUNDLE";

/// What this process's environment says. A variable that is not UTF-8 is set all the same: whoever reads it
/// refuses what it then holds, in place of going on as if the user had said nothing.
pub fn own_variable(name: &str) -> Option<String> {
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    match std::env::var(name) {
        Ok(text) => Some(text),
        Err(VarError::NotPresent) => None,
        // Paths, which need not be UTF-8: nothing is looked for in such a home, and the bundle is also read
        // as a path. XDG_CACHE_HOME is none of these: what is kept by --hf-cache would go elsewhere.
        Err(VarError::NotUnicode(_))
            if matches!(name, "HOME" | "XDG_RUNTIME_DIR" | "XDG_STATE_HOME" | BUNDLE) =>
        {
            None
        }
        Err(VarError::NotUnicode(text)) => {
            if TOLD.lock().insert(name.to_owned()) {
                tracing::warn!("{name} is not UTF-8; write it so, or unset it");
            }
            Some(text.to_string_lossy().into_owned())
        }
    }
}

/// The authorities of `--cacert` and of the environment.
pub fn trust(cacert: Option<&Path>) -> Trust {
    trust_by(cacert, std::env::var_os(BUNDLE))
}

/// The same where `bundle` is what `AWS_CA_BUNDLE` says.
fn trust_by(cacert: Option<&Path>, bundle: Option<OsString>) -> Trust {
    let is_set = |text: &OsString| !text.is_empty();
    let named = std::env::var_os("SSL_CERT_FILE").filter(is_set).filter(|_| cacert.is_none());
    let named_by = named.as_ref().map(|_| "SSL_CERT_FILE");
    let authorities = cacert.map(Into::into).or(named.map(Into::into));
    Trust { authorities, named_by, of_stores: bundle.filter(is_set).map(Into::into), ..Trust::default() }
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
    let bundle = environment(BUNDLE).map(OsString::from);
    let bundle = bundle.or_else(|| std::env::var_os(BUNDLE));
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

/// Whether the pattern of `url` is also, letter by letter, the key of an object, which is then meant. If
/// looking is not allowed, it stays a pattern.
pub fn is_an_object(store: &dyn Store, caller: CallerSetup<'_>, url: &StoreUrl) -> Result<bool, StoreError> {
    if url.is_prefix() {
        return Ok(false);
    }
    // Any size will do: whether it is there is all that is asked.
    match store.lists().look(&mut Caller::new(caller), &url.key, None, Some(0)) {
        Ok(looked) => Ok(looked.is_some()),
        Err(StoreError::Key { .. }) => Ok(false),
        Err(error) if error.is_withheld() => Ok(false),
        Err(error) => Err(error),
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
        max_wait: MAX_WAIT,
        retries: RETRIES,
    }
}
