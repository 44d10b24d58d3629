//! How a run reaches its target: the addresses that the user names, the sockets that a proxy makes.

use std::ffi::OsStr;
use std::io;
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use url::Url;
use weir_bench_http::target::{Address, Target};
use weir_bench_http::way::{ProxyFailure, Way};
use weir_get::http::proxy::{Proxies, Said};
use weir_get::http::sockets::Sockets;
use weir_get::http::trust::Trust;

use crate::args::ReachFlags;
use crate::voice::Usage;

/// What of a run's settings follows from it.
#[derive(Default)]
pub struct Reached {
    pub addresses: Vec<Address>,
    pub way: Option<Arc<dyn Way>>,
    /// Requests go whole to a proxy.
    pub whole: Option<Whole>,
}

/// A proxy takes requests with the whole URL in their first line (RFC 9112 section 3.2.2).
pub struct Whole {
    /// `Proxy-Authorization`, where its URL has a user.
    pub authorization: Option<String>,
}

/// Finds out. A proxy that is named is used; those of the environment are not, since a load is for the server
/// that is named.
pub fn reach(
    target: &Target,
    flags: &ReachFlags,
    proxy: Option<&str>,
    trust: &Trust,
    timeout: Duration,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Reached> {
    if let Some(path) = &flags.unix_socket {
        return Ok(Reached { addresses: vec![Address::Unix(path.clone())], ..Reached::default() });
    }
    if let Some(name) = &flags.abstract_unix_socket {
        let path = [b"\0", name.as_bytes()].concat();
        let address = Address::Unix(PathBuf::from(OsStr::from_bytes(&path)));
        return Ok(Reached { addresses: vec![address], ..Reached::default() });
    }
    let reach = flags.reach();
    let is_plain = reach.given.is_empty()
        && reach.instead.is_empty()
        && reach.family.is_none()
        && reach.interface.is_none();
    if proxy.is_none() && is_plain {
        return Ok(Reached::default());
    }
    reach.check().map_err(Usage)?;
    let url = Url::parse(&target.url).map_err(|error| Usage(format!("invalid URL: {error}")))?;
    let proxies = match proxy {
        Some(_) => Proxies::new(Said { proxy, exempt: Some("") }, |_| None)?,
        None => Proxies::default(),
    };
    let leaves_by = reach.interface.is_some();
    let sockets = Sockets::new(&url, reach, proxies, trust.clone(), Arc::clone(stop))?;
    if sockets.proxy().is_none() && !leaves_by {
        let found = sockets.addresses(timeout)?;
        let addresses = found.into_iter().map(Address::Tcp).collect();
        return Ok(Reached { addresses, ..Reached::default() });
    }
    let takes_requests = sockets.proxy().is_some_and(|proxy| proxy.takes_requests()) && !target.tls;
    let whole = takes_requests.then(|| Whole { authorization: sockets.authorization("GET", &target.url) });
    Ok(Reached { addresses: Vec::new(), way: Some(Arc::new(Through(sockets, target.authority()))), whole })
}

/// The sockets of a download, for a load; and the host and port that it is for.
#[derive(Debug)]
struct Through(Sockets, String);

impl Way for Through {
    fn dial(&self, timeout: Duration) -> io::Result<TcpStream> {
        let by_proxy = self.0.proxy().is_some();
        self.0.dial(timeout).map_err(|error| {
            error.into_io(|error| match by_proxy {
                true => io::Error::other(ProxyFailure(error.to_string())),
                false => io::Error::other(error.to_string()),
            })
        })
    }

    fn place(&self) -> String {
        match self.0.proxy() {
            Some(proxy) => format!("the proxy {}", proxy.address()),
            None => self.1.clone(),
        }
    }

    fn hides_server(&self) -> Option<String> {
        self.0.proxy().map(|proxy| format!("it is behind the proxy {}", proxy.address()))
    }
}
