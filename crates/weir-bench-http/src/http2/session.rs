//! One connection of HTTP/2: made when a stream first needs it, made again when it has ended, shared by its
//! streams.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::oneshot;
use tokio::task::spawn_local;
use tokio_rustls::TlsConnector;

use super::Hub;
use crate::connection::backoff;
use crate::error::LoadError;
use crate::event_loop::{PathSeen, path_seen};
use crate::reason::Reason;
use crate::target::Address;
use crate::way::{Way, dial_beside};

/// What may be on its way for one stream, and for all of a connection: more than any path here holds, and the
/// bound of what a server can make this program keep.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;

/// The most bytes of an answer's fields, as for HTTP/1.1.
const FIELDS: u32 = crate::answer::MAX_HEAD as u32;

/// A connection of a loop.
pub(super) struct Session {
    open: RefCell<Option<Open>>,
    /// Held by the stream that makes the connection; the others wait for it.
    opening: tokio::sync::Mutex<()>,
    generation: Cell<u64>,
    /// Failures since the last answer.
    failures: Cell<u32>,
    /// Bytes that came over all its connections.
    received: Rc<Cell<u64>>,
    /// Keep the socket, to ask for its path at the end.
    keeps_socket: bool,
    socket: RefCell<Option<OwnedFd>>,
}

struct Open {
    client: SendRequest<Bytes>,
    generation: u64,
}

/// A connection as a stream uses it.
pub(super) struct Lease {
    pub(super) client: SendRequest<Bytes>,
    pub(super) generation: u64,
    /// When it was asked for and when it stood, if this stream made it.
    pub(super) connect: Option<(u64, u64)>,
}

impl Session {
    pub(super) fn new(keeps_socket: bool) -> Session {
        Session {
            open: RefCell::new(None),
            opening: tokio::sync::Mutex::new(()),
            generation: Cell::new(0),
            failures: Cell::new(0),
            received: Rc::default(),
            keeps_socket,
            socket: RefCell::new(None),
        }
    }

    /// The connection, made if there is none; `None` where that failed, which is counted.
    pub(super) async fn lease(self: &Rc<Self>, hub: &Rc<Hub>) -> Option<Lease> {
        if self.failures.get() > 1 {
            tokio::time::sleep(backoff(self.failures.get())).await;
        }
        if let Some(lease) = self.standing().await {
            return Some(lease);
        }
        let _guard = self.opening.lock().await;
        if let Some(lease) = self.standing().await {
            return Some(lease);
        }
        let begun = hub.now();
        let opened = hub.in_time(self.dial(hub)).await;
        match opened.unwrap_or(Err(Failure::Timeout)) {
            Ok(client) => {
                let connected = hub.now();
                let took = connected.saturating_sub(begun);
                let tally = &mut hub.meter.borrow_mut().tally;
                tally.connect.saturating_record(took);
                let generation = self.generation.get();
                *self.open.borrow_mut() = Some(Open { client: client.clone(), generation });
                Some(Lease { client, generation, connect: Some((begun, connected)) })
            }
            Err(failure) => {
                self.failed();
                let tally = &mut hub.meter.borrow_mut().tally;
                match failure {
                    Failure::Timeout => tally.failed(Reason::ConnectTimeout, 1),
                    Failure::Connect(why) => tally.refused(why, 1),
                    Failure::NoHttp2 => {
                        tally.failed(Reason::NotConnected, 1);
                        hub.give_up(LoadError::NoHttp2 { authority: hub.question.authority() });
                    }
                }
                None
            }
        }
    }

    /// The connection that stands and takes requests.
    async fn standing(&self) -> Option<Lease> {
        let (client, generation) = {
            let open = self.open.borrow();
            let open = open.as_ref()?;
            (open.client.clone(), open.generation)
        };
        match client.ready().await {
            Ok(client) => Some(Lease { client, generation, connect: None }),
            Err(_) => {
                self.forget(generation);
                None
            }
        }
    }

    /// No further requests go over the connection of this generation; those under way go on.
    pub(super) fn forget(&self, generation: u64) {
        let mut open = self.open.borrow_mut();
        if open.as_ref().is_some_and(|open| open.generation == generation) {
            *open = None;
        }
    }

    /// A request was answered.
    pub(super) fn answered(&self) {
        self.failures.set(0);
    }

    /// A request was not answered.
    pub(super) fn failed(&self) {
        self.failures.set(self.failures.get().saturating_add(1));
    }

    /// Bytes received so far.
    pub(super) fn received(&self) -> u64 {
        self.received.get()
    }

    /// The path of the last connection, where it is TCP's.
    pub(super) fn path(&self) -> Option<PathSeen> {
        path_seen(self.socket.borrow().as_ref()?)
    }

    /// A copy of its last connection's socket, which keeps that open.
    pub(super) fn take_socket(&self) -> Option<OwnedFd> {
        self.socket.take()
    }

    async fn dial(self: &Rc<Self>, hub: &Rc<Hub>) -> Result<SendRequest<Bytes>, Failure> {
        match &hub.address {
            Address::Tcp(address) => {
                let socket = match &hub.shared.settings.way {
                    Some(way) => dialed(way, hub.timeout()).await,
                    None => TcpStream::connect(address).await,
                };
                let socket = socket.map_err(Failure::Connect)?;
                let _ = socket.set_nodelay(true);
                if self.keeps_socket {
                    *self.socket.borrow_mut() = socket.as_fd().try_clone_to_owned().ok();
                }
                self.secure(hub, socket).await
            }
            Address::Unix(path) => {
                let socket = UnixStream::connect(path).await.map_err(Failure::Connect)?;
                self.secure(hub, socket).await
            }
        }
    }

    async fn secure<T>(self: &Rc<Self>, hub: &Rc<Hub>, socket: T) -> Result<SendRequest<Bytes>, Failure>
    where
        T: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        let Some(tls) = &hub.shared.settings.tls else { return self.shake(hub, socket).await };
        let connector = TlsConnector::from(tls.config.clone());
        let stream = connector.connect(tls.name.clone(), socket).await.map_err(Failure::Connect)?;
        if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
            return Err(Failure::NoHttp2);
        }
        self.shake(hub, stream).await
    }

    async fn shake<T>(self: &Rc<Self>, hub: &Rc<Hub>, stream: T) -> Result<SendRequest<Bytes>, Failure>
    where
        T: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        let counted =
            Counted { stream, hub: Rc::clone(hub), received: Rc::clone(&self.received), fresh: true };
        let (client, connection) = h2::client::Builder::new()
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(FIELDS)
            .enable_push(false)
            .handshake::<_, Bytes>(counted)
            .await
            .map_err(|why| Failure::Connect(io::Error::other(why)))?;
        let generation = self.generation.get() + 1;
        self.generation.set(generation);
        let session = Rc::clone(self);
        spawn_local(async move {
            let _ = connection.await;
            session.forget(generation);
        });
        Ok(client)
    }
}

/// A connection that `way` makes.
async fn dialed(way: &Arc<dyn Way>, timeout: Duration) -> io::Result<TcpStream> {
    let (sender, receiver) = oneshot::channel();
    dial_beside(way, timeout, move |made| drop(sender.send(made)))?;
    let stream = receiver.await.map_err(io::Error::other)??;
    stream.set_nonblocking(true)?;
    TcpStream::from_std(stream)
}

/// Why there is no connection.
enum Failure {
    Connect(io::Error),
    Timeout,
    /// The server chose another protocol.
    NoHttp2,
}

/// Counts what passes, and notices a server that answers in HTTP/1.
struct Counted<T> {
    stream: T,
    hub: Rc<Hub>,
    received: Rc<Cell<u64>>,
    fresh: bool,
}

impl<T: AsyncRead + Unpin> AsyncRead for Counted<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        let came = &buffer.filled()[before..];
        if !came.is_empty() {
            if std::mem::take(&mut self.fresh) && came.starts_with(b"HTTP/1") {
                self.hub.give_up(LoadError::NoHttp2 { authority: self.hub.question.authority() });
            }
            self.received.set(self.received.get() + came.len() as u64);
            self.hub.meter.borrow_mut().tally.received += came.len() as u64;
        }
        polled
    }
}

impl<T: AsyncWrite + Unpin> Counted<T> {
    fn count(&self, polled: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(count)) = polled {
            self.hub.meter.borrow_mut().tally.sent += *count as u64;
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Counted<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.count(&polled);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.count(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
