//! Sockets to one origin for a protocol of the caller's own: by the user's words on the way and through a
//! proxy, as a download's connections are made.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use url::Url;

use crate::error::GetError;
use crate::http::address;
use crate::http::connection::Dial;
use crate::http::exchange::{Client, Http, Manner, Version, Who};
use crate::http::proxy::{Proxies, Proxy};
use crate::http::reach::Reach;
use crate::http::request::Origin;
use crate::http::trust::Trust;
use weir_observe::stage_clock::StageClock;

/// Makes them.
pub struct Sockets {
    http: Http,
    origin: Origin,
    proxy: Option<Proxy>,
    /// Set: give up at once.
    stop: Arc<AtomicBool>,
}

impl Sockets {
    /// To the origin of `url`, http or https. `trust` is for an https:// proxy's certificate.
    pub fn new(
        url: &Url,
        reach: Reach,
        proxies: Proxies,
        trust: Trust,
        stop: Arc<AtomicBool>,
    ) -> Result<Sockets, GetError> {
        let origin = Origin::of(url)
            .ok_or_else(|| GetError::Refused("cannot connect: expected a URL of http or https".to_owned()))?;
        let proxy = proxies.for_url(url)?.cloned();
        let http = Http::new(trust, proxies, Version::Http1, Vec::new(), Who::default());
        let http = http.in_manner(Manner { reach, ..Manner::default() });
        Ok(Sockets { http, origin, proxy, stop })
    }

    /// The proxy that they go through.
    pub fn proxy(&self) -> Option<&Proxy> {
        self.proxy.as_ref()
    }

    /// The value of `Proxy-Authorization` for requests that the proxy takes whole.
    pub fn authorization(&self, method: &str, target: &str) -> Option<String> {
        self.http.for_proxy(self.proxy.as_ref()?, method, target).map(|sent| sent.value)
    }

    /// A socket to the origin, or to a proxy that takes its requests whole; all of it within `timeout`.
    pub fn dial(&self, timeout: Duration) -> Result<TcpStream, GetError> {
        self.with_client(timeout, |client| {
            let way = client.way();
            let line = client.dial_through(&self.origin, self.proxy.as_ref(), &way)?;
            match line.outer {
                None => Ok(line.socket),
                Some(_) => Err(GetError::Refused(format!(
                    "cannot hand on a socket inside TLS with the proxy {}; name it as http:// or socks5h://",
                    self.proxy.as_ref().map(Proxy::address).unwrap_or_default()
                ))),
            }
        })
    }

    /// Where the origin's sockets lead without a proxy, in the order in which addresses are tried.
    pub fn addresses(&self, timeout: Duration) -> Result<Vec<SocketAddr>, GetError> {
        self.with_client(timeout, |client| {
            let way = client.way();
            let (host, port) = way.reach.place_of(&self.origin.host, self.origin.port);
            address::resolve(&host, port, &way)
        })
    }

    fn with_client<T>(
        &self,
        timeout: Duration,
        work: impl FnOnce(&Client<'_>) -> Result<T, GetError>,
    ) -> Result<T, GetError> {
        let never = AtomicBool::new(false);
        let clock = StageClock::new(Instant::now());
        work(&Client::new(&self.http, &clock, Dial::new(timeout, [&self.stop, &never]), &|_| {}))
    }
}

impl fmt::Debug for Sockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither the proxy's login nor a key is for a log.
        f.debug_struct("Sockets").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl GetError {
    /// The failure as one of the system's where it is one, so that it can be counted by its reason; `wrap`
    /// makes others'.
    pub fn into_io(self, wrap: impl FnOnce(GetError) -> io::Error) -> io::Error {
        match self {
            GetError::Connect { source, .. } | GetError::Broken { source, .. }
                if source.raw_os_error().is_some() =>
            {
                source
            }
            other => wrap(other),
        }
    }
}
