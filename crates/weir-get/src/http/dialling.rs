//! From a host to a line that reaches it: directly, through a proxy that takes requests or makes tunnels, or
//! through one of SOCKS; and the TLS session at its end.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use rustls::ClientConfig;
use weir_observe::stage_clock::Stage;

use crate::error::GetError;
use crate::http::address::{self, Way};
use crate::http::connection::{Connection, Dial, Line, POLL_INTERVAL, explain, is_timeout};
use crate::http::exchange::Client;
use crate::http::logins::{self, Asker, MAX_ANSWERS};
use crate::http::proxy::{Kind, Proxy};
use crate::http::request::Origin;
use crate::http::socks::{self, Target};
use crate::http::tls::{Session, Under};
use crate::object;

impl Client<'_> {
    /// The connection over `line`, after the TLS handshake of an https origin.
    pub(super) fn secure(
        &self,
        origin: &Origin,
        mut line: Line,
        deadline: Instant,
    ) -> Result<Connection, GetError> {
        let broken = |error| explain(&origin.host, error);
        if !origin.tls {
            return Connection::new(&origin.host, line, None).map_err(broken);
        }
        let config = self.http.clients_for(origin)?.http1;
        let session = self.shake_hands((&origin.host, origin.port), config, &mut line, deadline)?;
        if session.has_asked() {
            self.http.note_certificate_wanted(origin);
        }
        if session.protocol() == Some(b"h2") {
            return Err(GetError::OnlyHttp2 { host: origin.host.clone() });
        }
        Connection::new(&origin.host, line, Some(session)).map_err(broken)
    }

    /// A TLS session with `host` at `port`, at the other end of `line`.
    fn shake_hands(
        &self,
        (host, port): (&str, u16),
        config: Arc<ClientConfig>,
        line: &mut Line,
        deadline: Instant,
    ) -> Result<Session, GetError> {
        let mut session = Session::new(config, host)?;
        let broken = |error| explain(host, error);
        line.socket.set_read_timeout(Some(POLL_INTERVAL)).map_err(broken)?;
        line.socket.set_write_timeout(Some(POLL_INTERVAL)).map_err(broken)?;
        let mut under = match &mut line.outer {
            Some(outer) => Under::Session(outer, &line.socket, self.clock),
            None => Under::Socket(&line.socket),
        };
        let go_on = || !self.dial.is_stopped() && Instant::now() < deadline;
        match self.clock.step(Stage::Securing, || session.handshake(&mut under, &go_on)) {
            Ok(()) => Ok(session),
            Err(error) if is_timeout(&error) && self.dial.is_stopped() => Err(GetError::Interrupted),
            Err(error) if is_timeout(&error) => {
                let after = self.dial.connect_timeout;
                Err(GetError::stalled_before(host, "no complete tls handshake", after))
            }
            Err(error) => Err(session.failure(host, port, &error).unwrap_or_else(|| broken(error))),
        }
    }

    /// A line to the origin, or to a proxy that takes requests for it. Others are asked to connect: by
    /// CONNECT for https origins, by SOCKS for all.
    pub(super) fn dial_through(
        &self,
        origin: &Origin,
        proxy: Option<&Proxy>,
        way: &Way<'_>,
    ) -> Result<Line, GetError> {
        if let Some(place) = &way.reach.unix {
            return Ok(Line { socket: address::connect_unix(place, way)?, outer: None });
        }
        let (host, port) = way.reach.place_of(&origin.host, origin.port);
        let Some(proxy) = proxy else {
            return Ok(Line { socket: address::connect(&host, port, way)?, outer: None });
        };
        let place = Origin { host, port, tls: origin.tls };
        if !proxy.takes_requests() {
            return Ok(Line { socket: self.dial_socks(&place, proxy, way)?, outer: None });
        }
        if !origin.tls && place != *origin {
            return Err(GetError::Refused(format!(
                "cannot go to {}:{} for http://{}:{} (--connect-to): the proxy chooses where it connects to; \
                 --proxy '' leaves it out",
                place.host, place.port, origin.host, origin.port
            )));
        }
        let mut answers = 0;
        loop {
            let line = self.dial_proxy(proxy, way)?;
            if !origin.tls {
                return Ok(line);
            }
            match self.tunnel(line, &place, proxy, way) {
                // It closes its connection as often as not, so that the answer goes over another.
                Ok(None) if answers < MAX_ANSWERS => answers += 1,
                Ok(None) => {
                    return Err(GetError::Malformed {
                        host: proxy.host.clone(),
                        detail: "it asks for a login again and again".to_owned(),
                    });
                }
                Ok(Some(line)) => return Ok(line),
                Err(error) => return Err(error),
            }
        }
    }

    /// A line to an HTTP proxy, inside TLS for one of https.
    fn dial_proxy(&self, proxy: &Proxy, way: &Way<'_>) -> Result<Line, GetError> {
        let at_proxy = |error: GetError| error.at_proxy(&proxy.named_by);
        let socket = address::connect(&proxy.host, proxy.port, way).map_err(at_proxy)?;
        let mut line = Line { socket, outer: None };
        if proxy.kind == Kind::Https {
            let config = self.http.clients()?.proxy;
            let session = self.shake_hands((&proxy.host, proxy.port), config, &mut line, way.deadline);
            line.outer = Some(session.map_err(at_proxy)?);
        }
        Ok(line)
    }

    /// A socket to the origin through a SOCKS proxy, by its name or by one of its addresses.
    fn dial_socks(&self, origin: &Origin, proxy: &Proxy, way: &Way<'_>) -> Result<TcpStream, GetError> {
        let go_on = || !self.dial.is_stopped() && Instant::now() < way.deadline;
        let mut failed = None;
        for target in socks_targets(origin, proxy, way)? {
            let socket = address::connect(&proxy.host, proxy.port, way);
            let socket = socket.map_err(|error| error.at_proxy(&proxy.named_by))?;
            match socks::ask(&socket, proxy, &target, origin.port, &go_on) {
                Ok(()) => return Ok(socket),
                Err(_) if self.dial.is_stopped() => return Err(GetError::Interrupted),
                Err(error) if error.is_permanent() => return Err(error),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| GetError::Socks {
            proxy: proxy.address(),
            named_by: proxy.named_by.clone(),
            to: origin.host.clone(),
            detail: "the host has only IPv6 addresses, which SOCKS 4 does not know; socks5h:// does"
                .to_owned(),
            permanent: true,
        }))
    }

    /// A tunnel to an https origin (RFC 9110 section 9.3.6). `None`: the proxy wants another login, and it is
    /// known now.
    fn tunnel(
        &self,
        line: Line,
        origin: &Origin,
        proxy: &Proxy,
        way: &Way<'_>,
    ) -> Result<Option<Line>, GetError> {
        let left = way.deadline.saturating_duration_since(Instant::now());
        let dial = &Dial { timeout: left, ..*way.dial };
        let to = format!("{}:{}", origin.host, origin.port);
        let sent = self.http.for_proxy(proxy, "CONNECT", &to);
        let mut request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n");
        if let Some(sent) = &sent {
            request.push_str(&format!("Proxy-Authorization: {}\r\n", sent.value));
        }
        request.push_str("\r\n");
        let broken = |error| explain(&proxy.host, error);
        let socket = line.socket.try_clone().map_err(broken)?;
        let mut connection = Connection::new(&proxy.host, line, None).map_err(broken)?;
        let head = connection
            .send(request.as_bytes(), self.clock, dial)
            .and_then(|()| connection.read_head("CONNECT", self.clock, dial))
            .map_err(|error| match error {
                GetError::Stalled { host, what, .. } => {
                    GetError::stalled_before(&host, &what, way.dial.connect_timeout)
                }
                other => other,
            })?;
        if (200..300).contains(&head.status) {
            let mut outer = connection.hand_over();
            outer.iter_mut().for_each(Session::carry);
            return Ok(Some(Line { socket, outer }));
        }
        if self.http.can_answer(proxy, &head, sent.as_ref()) {
            return Ok(None);
        }
        let hint = match (head.status, &sent) {
            (407, Some(_)) => "; it did not accept the user and password in its URL",
            (407, None) => {
                logins::unmet(Asker::Proxy, &head.fields).unwrap_or("; give user:password in the proxy's URL")
            }
            _ => "",
        };
        let detail = format!("{} {}{hint}", head.status, object::printable(&head.reason));
        let retry_after = weir_http::retry_after::wait(&head.fields, SystemTime::now());
        Err(GetError::Proxy { proxy: proxy.address(), to, status: head.status, detail, retry_after })
    }
}

/// Whom a SOCKS proxy is asked for: the name, or addresses in the order in which they are tried.
fn socks_targets(origin: &Origin, proxy: &Proxy, way: &Way<'_>) -> Result<Vec<Target>, GetError> {
    /// Each costs a connection to the proxy, and hosts with more have them for other reasons.
    const MOST: usize = 4;
    let (far_names, only_v4) = match proxy.kind {
        Kind::Socks4 { far_names } => (far_names, true),
        Kind::Socks5 { far_names } => (far_names, false),
        Kind::Http | Kind::Https => (true, false),
    };
    if let Ok(address) = origin.host.trim_matches(['[', ']']).parse() {
        return Ok(vec![Target::Address(address)]);
    }
    if far_names {
        return Ok(vec![Target::Name(origin.host.clone())]);
    }
    let found = address::resolve(&origin.host, origin.port, way)?.into_iter().map(|found| found.ip());
    let usable = found.filter(|address| !only_v4 || address.is_ipv4());
    Ok(usable.map(Target::Address).take(MOST).collect())
}
