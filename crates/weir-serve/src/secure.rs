//! How are HTTPS and HTTP/2 served? By tasks; this one sees to TLS, `http1` and `http2` to what is inside.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;

use crate::client::Client;
use crate::connections::Permit;
use crate::limits::HANDSHAKE;
use crate::stream::Stream;
use crate::{http1, http2};

/// Encrypted bytes that rustls may hold while the socket takes no more: four records, as many as a piece of a
/// body has.
const TLS_BUFFER: usize = 64 * 1024;

/// Serves HTTPS to the end of the connection, or of the server.
pub(crate) async fn serve_tls(
    socket: Arc<TcpStream>,
    acceptor: TlsAcceptor,
    client: Client,
    _permit: Permit,
) {
    let cut = client.site.cut.clone();
    tokio::select! {
        result = tls(socket, acceptor, &client) => note_end(&client, result),
        () = cut.stopped() => {}
    }
}

/// Serves HTTP/2 without TLS, for a client that started with its preface.
pub(crate) async fn serve_http2(socket: Arc<TcpStream>, client: Client, _permit: Permit) {
    let cut = client.site.cut.clone();
    tokio::select! {
        result = async { http2::serve(Stream::new(socket)?, client.clone()).await } => note_end(&client, result),
        () = cut.stopped() => {}
    }
}

async fn tls(socket: Arc<TcpStream>, acceptor: TlsAcceptor, client: &Client) -> io::Result<()> {
    let raw = Stream::new(socket.clone())?;
    let handshake = acceptor.accept_with(raw, |session| session.set_buffer_limit(Some(TLS_BUFFER)));
    let stream = tokio::time::timeout(HANDSHAKE, handshake).await??;
    match stream.get_ref().1.alpn_protocol() {
        Some(b"h2") => http2::serve(stream, client.clone()).await,
        _ => http1::serve(stream, socket, client.clone()).await,
    }
}

/// Clients that go away, or that are no TLS clients, are worth a line only when someone looks for them.
fn note_end(client: &Client, result: io::Result<()>) {
    if let Err(err) = result {
        tracing::debug!("connection from {} ended: {err}", client.address);
    }
}
