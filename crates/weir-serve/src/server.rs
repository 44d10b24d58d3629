//! How do connections come in, and how does the server start and stop?

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, Socket, Type};
use tokio_rustls::TlsAcceptor;
use weir_units::counted;

use crate::activity::Activity;
use crate::certificate::Tls;
use crate::client::Client;
use crate::connections::{IDLE, Permit, TIMEOUT};
use crate::plain;
use crate::secure;
use crate::shutdown::Shutdown;
use crate::signal::block_sigpipe;
use crate::site::{Site, Stats};
use crate::tasks::Tasks;
use crate::{Config, ServeError};

/// Connections that the kernel completes before they are accepted; it caps this at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;
/// A connection's thread needs about 20 KiB; the rest is address space only, unless a log subscriber is a
/// deep one.
const STACK: usize = 256 * 1024;
/// How long to leave a queue alone that cannot be served now: no descriptors, or no free place.
const RETRY: Duration = Duration::from_millis(50);
/// How often connections are looked at that may be overdue: seconds are nothing beside a minute.
const OVERDUE_INTERVAL: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };
/// For threads and tasks to notice that the server stops. They only have to return.
const STOP: Duration = Duration::from_secs(5);

/// A server that listens; [`run`](Server::run) or [`spawn`](Server::spawn) makes it serve.
pub struct Server {
    site: Arc<Site>,
    listeners: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    tls: Option<Tls>,
    tasks: Arc<Tasks>,
    /// How long answers may take that were begun before the server is to stop.
    drain: Duration,
}

/// A server that runs on its own thread; dropping it stops the server.
pub struct Handle {
    server: Arc<Server>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Opens the content, the certificate and the sockets. Clients can connect from now on.
    pub fn bind(config: Config) -> Result<Server, ServeError> {
        config.check()?;
        let site = Arc::new(Site::new(&config)?);
        let tls = config.tls.as_ref().map(Tls::open).transpose()?;
        let mut listeners = Vec::with_capacity(config.listen.len());
        let mut addresses = Vec::with_capacity(config.listen.len());
        for &address in &config.listen {
            let failed = |source| ServeError::Listen { address, source };
            let listener = listen(address, &config).map_err(failed)?;
            addresses.push(listener.local_addr().map_err(failed)?);
            listeners.push(listener);
        }
        Ok(Server { site, listeners, addresses, tls, tasks: Arc::default(), drain: config.drain })
    }

    /// Where the server listens, with the ports that port 0 became.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The root as a client on this host would name it, such as `http://127.0.0.1:8000/`.
    pub fn url(&self) -> String {
        let mut address = self.addresses[0];
        match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        format!("{}://{address}/", if self.tls.is_some() { "https" } else { "http" })
    }

    /// The self-signed certificate as PEM text, for `--cacert`; `None` without one.
    pub fn certificate_pem(&self) -> Option<&str> {
        self.tls.as_ref()?.self_signed_pem.as_deref()
    }

    /// Opens the served folder again by its name, for the requests to come, and reads the certificate and its
    /// key again, for the connections to come. False where there is no certificate to read: without TLS, and
    /// where it was made at start.
    ///
    /// # Errors
    /// As at the start. The server then goes on with the folder, or the certificate, that it had. Where
    /// neither can be had, this is about the certificate, and a warning is about the folder.
    pub fn reload(&self) -> Result<bool, ServeError> {
        let reopened = self.site.reopen();
        let read = self.tls.as_ref().map_or(Ok(false), Tls::reload);
        if let (Err(error @ ServeError::Root { source, .. }), Err(_)) = (&reopened, &read) {
            tracing::warn!("keeping the old folder: {error}: {}", weir_units::plain(source));
        }
        let read = read?;
        reopened.map(|()| read)
    }

    /// What has been done so far.
    pub fn stats(&self) -> Stats {
        self.site.stats()
    }

    /// The switch that makes [`run`](Server::run) return.
    pub fn shutdown(&self) -> Shutdown {
        self.site.shutdown.clone()
    }

    /// Serves until the [`shutdown`](Server::shutdown) switch is thrown. Then answers that were begun have
    /// [`Config::drain`] to come to their end, and all connections are closed. Once stopped, a server does
    /// not run again.
    pub fn run(&self) {
        let mut looked = Instant::now();
        while !self.site.shutdown.is_stopped() {
            self.accept_ready();
            if looked.elapsed() >= Duration::from_secs(OVERDUE_INTERVAL.tv_sec as u64) {
                self.site.connections.end_overdue();
                looked = Instant::now();
            }
        }
        self.finish_answers();
        self.site.cut.stop();
        self.site.connections.close_all(STOP);
    }

    /// Lets nobody else in, ends the connections that answer nothing, and waits for the others as long as
    /// they may take.
    fn finish_answers(&self) {
        if self.drain.is_zero() {
            return;
        }
        for listener in &self.listeners {
            // Clients are refused at once, and another server may have the port.
            let _ = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
        }
        let since = Instant::now();
        while self.site.connections.end_idle(since) > 0 && since.elapsed() < self.drain {
            self.site.connections.wait_for_place(RETRY);
        }
        let cut = self.site.connections.answering();
        if cut > 0 {
            let cut = counted(cut as u64, "connection");
            tracing::warn!("the time to end is over: {cut} cut in the middle of an answer");
        }
    }

    /// Runs the server on a thread of its own.
    pub fn spawn(self) -> Result<Handle, ServeError> {
        let server = Arc::new(self);
        let running = server.clone();
        let thread = thread::Builder::new().name("weir-serve".into()).spawn(move || running.run());
        Ok(Handle { server, thread: Some(thread.map_err(ServeError::start("the accept thread"))?) })
    }

    /// Waits for clients and accepts one from each listener that has any.
    fn accept_ready(&self) {
        let mut polled: Vec<_> =
            self.listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN)).collect();
        polled.push(PollFd::new(&self.site.shutdown, PollFlags::IN));
        // An interrupted wait reports nothing ready and is simply repeated.
        if poll(&mut polled, Some(&OVERDUE_INTERVAL)).is_err() {
            return;
        }
        for (listener, polled) in self.listeners.iter().zip(&polled) {
            if polled.revents().is_empty() {
                continue;
            }
            // The place comes first: a client for whom there is none stays in the kernel's queue.
            if !self.site.connections.make_room() {
                return self.site.connections.wait_for_place(RETRY);
            }
            match listener.accept() {
                Ok((socket, client)) => self.start(socket, client),
                Err(err) if is_transient(&err) => {}
                Err(err) => {
                    tracing::warn!("cannot accept a connection: {err}; trying again");
                    self.site.connections.end_longest_idle();
                    self.site.shutdown.sleep(RETRY);
                }
            }
        }
    }

    fn start(&self, socket: TcpStream, client: SocketAddr) {
        let (socket, activity) = (Arc::new(socket), Arc::new(Activity::new()));
        let permit = self.site.connections.hold(&socket, &activity);
        let client = Client::new(self.site.clone(), client, activity);
        let address = client.address;
        let started = match &self.tls {
            Some(tls) => self.start_tls(socket, client, permit, tls),
            None => self.start_plain(socket, client, permit),
        };
        if let Err(err) = started {
            tracing::warn!("cannot serve the connection from {address}: {err}; it is closed");
            // No thread, most likely: the next one shall have one.
            self.site.connections.end_longest_idle();
        }
    }

    fn start_tls(&self, socket: Arc<TcpStream>, client: Client, permit: Permit, tls: &Tls) -> io::Result<()> {
        let acceptor = TlsAcceptor::from(tls.config());
        self.tasks.spawn(secure::serve_tls(socket, acceptor, client, permit))
    }

    fn start_plain(&self, socket: Arc<TcpStream>, client: Client, permit: Permit) -> io::Result<()> {
        let tasks = self.tasks.clone();
        let serve = move || {
            block_sigpipe();
            let address = client.address;
            let result = match plain::starts_with_http2(&socket) {
                Ok(false) => plain::serve(&client.site, &socket, address, &client.activity),
                Ok(true) => tasks.spawn(secure::serve_http2(socket, client, permit)),
                Err(err) => Err(err),
            };
            if let Err(err) = result {
                // Clients that go away are worth a line only when someone looks for them.
                tracing::debug!("connection from {address} ended: {err}");
            }
        };
        thread::Builder::new().name("weir-serve-http".into()).stack_size(STACK).spawn(serve)?;
        Ok(())
    }
}

impl Handle {
    /// As [`Server::addresses`].
    pub fn addresses(&self) -> &[SocketAddr] {
        self.server.addresses()
    }

    /// As [`Server::url`].
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// As [`Server::certificate_pem`].
    pub fn certificate_pem(&self) -> Option<&str> {
        self.server.certificate_pem()
    }

    /// As [`Server::reload`].
    ///
    /// # Errors
    /// As there.
    pub fn reload(&self) -> Result<bool, ServeError> {
        self.server.reload()
    }

    /// As [`Server::stats`].
    pub fn stats(&self) -> Stats {
        self.server.stats()
    }

    /// Closes all connections, waits for the threads and returns what was done.
    pub fn stop(mut self) -> Stats {
        self.end();
        self.server.stats()
    }

    fn end(&mut self) {
        self.server.site.shutdown.stop();
        if let Some(thread) = self.thread.take() {
            // A panic of the accept thread was printed by its hook; there is nothing to add.
            let _ = thread.join();
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.end();
    }
}

/// Opens a listening socket. Linux copies these options to each accepted socket, which saves a call for each
/// of them.
fn listen(address: SocketAddr, config: &Config) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() && config.listen.len() > 1 {
        // Otherwise [::] would take the port of 0.0.0.0 as well.
        socket.set_only_v6(true)?;
    }
    socket.set_tcp_nodelay(true)?;
    socket.set_read_timeout(Some(IDLE))?;
    socket.set_tcp_user_timeout(Some(TIMEOUT))?;
    if let Some(size) = config.send_buffer {
        socket.set_send_buffer_size(size.0.min(i32::MAX as u64) as usize)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// The client of a queued connection left, or a signal came: the next one is accepted as usual.
fn is_transient(err: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, WouldBlock};
    matches!(err.kind(), WouldBlock | Interrupted | ConnectionAborted | ConnectionReset)
}
