//! How are HTTPS and HTTP/2 served? By hyper on tokio; the bodies are ours (`payload`), the answers too (`answer`).

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use hyper::body::{Body, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use crate::answer::Request;
use crate::condition::Fields;
use crate::connections::Permit;
use crate::payload::{Payload, SharedPacer};
use crate::plain::{IDLE, LINGER, LINGER_BYTES, MAX_HEAD};
use crate::site::Site;
use crate::target;

/// A client that has not finished its handshake by then never will.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Encrypted bytes that rustls may hold while the socket takes no more. Above the size of a chunk, so that a chunk is
/// never cut in the middle of a record.
const TLS_BUFFER: usize = 512 * 1024;
/// Requests at the same time on one HTTP/2 connection.
const MAX_STREAMS: u32 = 256;

/// One connection that hyper serves.
#[derive(Clone)]
pub(crate) struct Secure {
    pub(crate) site: Arc<Site>,
    pub(crate) client: SocketAddr,
    pacer: SharedPacer,
}

impl Secure {
    pub(crate) fn new(site: Arc<Site>, client: SocketAddr) -> Secure {
        let pacer = site.pacer().map(|pacer| Arc::new(Mutex::new(pacer)));
        Secure { site, client, pacer }
    }

    /// Serves HTTPS to the end of the connection, or of the server.
    pub(crate) async fn serve_tls(self, socket: std::net::TcpStream, acceptor: TlsAcceptor, _permit: Permit) {
        let shutdown = self.site.shutdown.clone();
        tokio::select! {
            result = self.tls(socket, acceptor) => self.note_end(result),
            () = shutdown.stopped() => {}
        }
    }

    /// Serves HTTP/2 without TLS, for a client that started with its preface.
    pub(crate) async fn serve_http2(self, socket: std::net::TcpStream, _permit: Permit) {
        let shutdown = self.site.shutdown.clone();
        tokio::select! {
            result = async { self.http2(into_tokio(socket)?).await } => self.note_end(result),
            () = shutdown.stopped() => {}
        }
    }

    async fn tls(&self, socket: std::net::TcpStream, acceptor: TlsAcceptor) -> io::Result<()> {
        let handshake =
            acceptor.accept_with(into_tokio(socket)?, |session| session.set_buffer_limit(Some(TLS_BUFFER)));
        let stream = tokio::time::timeout(HANDSHAKE, handshake).await??;
        match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => self.http2(stream).await,
            _ => self.http1(stream).await,
        }
    }

    async fn http1(&self, stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(IDLE)
            .max_header_size(MAX_HEAD)
            .title_case_headers(true)
            .serve_connection(TokioIo::new(stream), service_fn(|request| self.clone().respond(request)));
        connection.await.map_err(io::Error::other)
    }

    async fn http2(&self, stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
        let this = self.clone();
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(IDLE)
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(MAX_HEAD as u32)
            .serve_connection(TokioIo::new(stream), service_fn(move |request| this.clone().respond(request)));
        connection.await.map_err(io::Error::other)
    }

    async fn respond(self, mut request: http::Request<Incoming>) -> io::Result<http::Response<Payload>> {
        discard(request.body_mut()).await;
        if !self.site.delay.is_zero() {
            tokio::time::sleep(self.site.delay).await;
        }
        let target = target::parse(request.uri().path());
        let asks_for_directory = target.as_ref().is_some_and(|target| target.slash);
        let (site, client) = (self.site.clone(), self.client);
        let decide = move || {
            let fields = request.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
            let asked =
                Request { method: request.method().as_str(), target, fields: Fields::collect(fields) };
            site.answer(&asked, client)
        };
        // Opening a file takes microseconds; reading a large directory may take a second.
        let (answer, source) =
            if asks_for_directory { tokio::task::spawn_blocking(decide).await? } else { decide() };
        let mut response = http::Response::new(Payload::new(answer.body, source, self.pacer, self.site));
        *response.status_mut() = answer.status;
        for (name, value) in answer.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(io::Error::other)?;
            response.headers_mut().append(name, HeaderValue::try_from(value).map_err(io::Error::other)?);
        }
        Ok(response)
    }

    /// Clients that go away, or that are no TLS clients, are worth a line only when someone looks for them.
    fn note_end(&self, result: io::Result<()>) {
        if let Err(err) = result {
            tracing::debug!("connection from {} ended: {err}", self.client);
        }
    }
}

/// Reads what a client sends along with its request, within reason: a stream that is reset while its client still sends
/// loses the answer.
async fn discard(body: &mut Incoming) {
    if body.is_end_stream() {
        return;
    }
    let read = async {
        let mut left = LINGER_BYTES;
        while left > 0 {
            match std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
                Some(Ok(frame)) => {
                    left = left.saturating_sub(frame.data_ref().map_or(0, |data| data.len().max(1)))
                }
                Some(Err(_)) | None => break,
            }
        }
    };
    // Too slow is as good as too much.
    let _ = tokio::time::timeout(LINGER, read).await;
}

fn into_tokio(socket: std::net::TcpStream) -> io::Result<TcpStream> {
    socket.set_nonblocking(true)?;
    TcpStream::from_std(socket)
}
