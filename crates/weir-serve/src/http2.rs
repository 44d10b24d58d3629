//! How is HTTP/2 served? `h2` speaks the protocol; when bytes of a file are read for which stream is decided
//! here.
//!
//! A stream reads what its client has opened the window for, and what its connection's memory allows, and no
//! more: a client that opens many streams and no window costs the streams alone.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{HeaderName, HeaderValue, Method};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Duration, timeout};
use weir_http::head::MAX_HEAD;
use weir_http::request::{self, Refusal};
use weir_http::{Fields, RequestTarget};

use crate::activity::Doing;
use crate::answer::{Answer, Request};
use crate::client::Client;
use crate::connections::IDLE;
use crate::limits::HANDSHAKE;
use crate::linger::LINGER;
use crate::payload::{PIECE, Payload};
use crate::source::Source;

/// Requests at the same time on one connection.
const MAX_STREAMS: u32 = 256;
/// How long a request waits for its turn when all connections together have as many as the server takes.
const TURN: Duration = Duration::from_secs(1);

/// Serves a connection to its end.
pub(crate) async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, client: Client) -> io::Result<()> {
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(MAX_STREAMS).max_header_list_size(MAX_HEAD as u32);
    let mut connection = timeout(HANDSHAKE, builder.handshake(stream)).await?.map_err(io::Error::other)?;
    // Dropped with the connection, and the streams with it.
    let mut streams = JoinSet::new();
    let shutdown = client.site.shutdown.clone();
    client.activity.hear_stop();
    let mut is_told = false;
    loop {
        tokio::select! {
            accepted = timeout(IDLE, connection.accept()) => match accepted {
                Ok(Some(Ok((request, respond)))) => {
                    streams.spawn(answer(request, respond, client.clone()));
                }
                Ok(Some(Err(err))) => return Err(io::Error::other(err)),
                Ok(None) => return Ok(()),
                // Pings are no reason to stay. Who is told so and stays is cut off by the register.
                Err(_) if client.activity.open_count() == 0 && client.activity.turned().elapsed() >= IDLE => {
                    connection.graceful_shutdown();
                }
                Err(_) => {}
            },
            Some(_) = streams.join_next(), if !streams.is_empty() => {}
            // The streams that there are come to their ends.
            () = shutdown.stopped(), if !is_told => {
                is_told = true;
                connection.graceful_shutdown();
            }
        }
    }
}

/// Answers one request. What fails ends its stream, and says so to the client.
async fn answer(request: http::Request<RecvStream>, mut respond: SendResponse<Bytes>, client: Client) {
    let _open = client.activity.open();
    let Some(_turn) = turn(&client).await else {
        return respond.send_reset(Reason::REFUSED_STREAM);
    };
    let _holds = client.activity.during(Doing::HoldsStream);
    if let Err(err) = respond_to(request, &mut respond, &client).await {
        tracing::debug!("stream of {} ended: {err}", client.address);
        respond.send_reset(Reason::INTERNAL_ERROR);
    }
}

/// Streams take descriptors and memory: all connections together have so many. One that has some and stalls
/// makes room.
async fn turn(client: &Client) -> Option<tokio::sync::OwnedSemaphorePermit> {
    let streams: &Arc<Semaphore> = &client.site.streams;
    if let Ok(turn) = streams.clone().try_acquire_owned() {
        return Some(turn);
    }
    client.site.connections.end_most_stalled(Doing::HoldsStream, &client.activity);
    timeout(TURN, streams.clone().acquire_owned()).await.ok()?.ok()
}

async fn respond_to(
    request: http::Request<RecvStream>,
    respond: &mut SendResponse<Bytes>,
    client: &Client,
) -> io::Result<()> {
    let (parts, mut body) = request.into_parts();
    if !body.is_end_stream() {
        let _awaits = client.activity.during(Doing::AwaitsClient);
        discard(&mut body).await;
    }
    let (answer, source) = match read(&parts) {
        Ok(request) => client.site.answer_async(request, client.address, &client.activity).await?,
        Err(refusal) => {
            let mut answer = client.site.refuse(refusal, client.address);
            if parts.method == Method::HEAD {
                answer.body.clear();
            }
            (answer, None)
        }
    };
    if !client.site.delay.is_zero() {
        tokio::time::sleep(client.site.delay).await;
    }
    send_answer(answer, source, respond, client).await
}

/// What is asked, or why it is refused.
fn read(parts: &http::request::Parts) -> Result<Request, Refusal> {
    let fields =
        Fields::from_checked(parts.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())));
    let method = parts.method.as_str();
    let authority = parts.uri.authority().map(|authority| authority.as_str());
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    // CONNECT has no path (RFC 9113, 8.5); it is refused as a method, not for its form.
    let path = if method == "CONNECT" { authority.unwrap_or_default() } else { path };
    let target = match request::check_http2(method, authority, path, &fields)? {
        RequestTarget::Path(path) => path,
        RequestTarget::Server | RequestTarget::Authority => None,
    };
    Ok(Request { method: method.to_owned(), target, fields })
}

async fn send_answer(
    answer: Answer,
    source: Option<Source>,
    respond: &mut SendResponse<Bytes>,
    client: &Client,
) -> io::Result<()> {
    let mut response = http::Response::new(());
    *response.status_mut() = answer.status;
    for (name, value) in answer.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(io::Error::other)?;
        response.headers_mut().append(name, HeaderValue::try_from(value).map_err(io::Error::other)?);
    }
    let _lease = answer.lease;
    let mut payload = Payload::new(answer.body, source, client.clone());
    let mut stream = respond.send_response(response, payload.left() == 0).map_err(io::Error::other)?;
    while payload.left() > 0 {
        stream.reserve_capacity(payload.left().min(PIECE as u64) as usize);
        while stream.capacity() == 0 {
            let _awaits = client.activity.during(Doing::AwaitsClient);
            match poll_fn(|cx| stream.poll_capacity(cx)).await {
                Some(granted) => granted.map_err(io::Error::other)?,
                None => return Ok(()),
            };
        }
        let piece = payload.next(stream.capacity()).await?;
        stream.send_data(piece, payload.left() == 0).map_err(io::Error::other)?;
    }
    Ok(())
}

/// Reads what a client sends along with its request, for a while: a stream that is reset while its client
/// still sends loses the answer.
async fn discard(body: &mut RecvStream) {
    let read = async {
        while let Some(Ok(data)) = body.data().await {
            let _ = body.flow_control().release_capacity(data.len());
        }
    };
    let _ = timeout(LINGER, read).await;
}
