//! How is HTTP/1.1 served over TLS? As `plain` does it over a bare socket, in pieces that pass through user
//! space.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use weir_http::request::Refusal;

use crate::activity::Open;
use crate::answer::Answer;
use crate::client::Client;
use crate::connections::IDLE;
use crate::exchange::{self, After, Asked, Inbox};
use crate::linger::{GLANCE, LINGER, Lingering};
use crate::payload::{PIECE, Payload};
use crate::source::Source;

/// Serves a connection to its end, over a stream on `socket`; an error is a client that went away, or a file
/// that changed.
pub(crate) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    socket: Arc<TcpStream>,
    client: Client,
) -> io::Result<()> {
    Connection { stream, socket, client, inbox: Inbox::default() }.run().await
}

struct Connection<S> {
    stream: S,
    socket: Arc<TcpStream>,
    client: Client,
    inbox: Inbox,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    async fn run(&mut self) -> io::Result<()> {
        let shutdown = self.client.site.shutdown.clone();
        self.client.activity.hear_stop();
        loop {
            // What has come of a request is waited for: the server gives answers their time.
            let is_between = self.inbox.is_empty();
            let taken = tokio::select! {
                taken = timeout(IDLE, self.next_request()) => taken,
                () = shutdown.stopped(), if is_between => Ok(Ok(None)),
            };
            let taken = match taken {
                Ok(taken) => taken?,
                Err(_) if self.inbox.is_empty() => None,
                Err(_) => Some(Err(exchange::LATE)),
            };
            let Some(taken) = taken else { break };
            let open = self.client.activity.open();
            let (answer, source, after) = match taken {
                Ok(Asked { request, after }) => {
                    let Client { site, address, activity, .. } = &self.client;
                    let (answer, source) = site.answer_async(request, *address, activity).await?;
                    (answer, source, site.after(after))
                }
                Err(refusal) => (self.client.site.refuse(refusal, self.client.address), None, After::Close),
            };
            if !self.client.site.delay.is_zero() {
                tokio::time::sleep(self.client.site.delay).await;
            }
            self.send_answer(answer, source, after).await?;
            match after {
                After::KeepAlive => {}
                After::Close => return self.linger(open).await,
            }
        }
        // The end is said inside TLS too, or the client could not tell it from an attack. It need not hear
        // it.
        let _ = timeout(LINGER, self.stream.shutdown()).await;
        Ok(())
    }

    /// Reads until a request is complete; `None` at the end of the stream.
    async fn next_request(&mut self) -> io::Result<Option<Result<Asked, Refusal>>> {
        loop {
            if let Some(taken) = self.inbox.take() {
                return Ok(Some(taken));
            }
            match self.stream.read(self.inbox.room()).await? {
                0 => return Ok(None),
                count => self.inbox.fill(count),
            }
        }
    }

    async fn send_answer(&mut self, answer: Answer, source: Option<Source>, after: After) -> io::Result<()> {
        let mut head = Vec::new();
        exchange::write_head(&answer, after, &mut head);
        let _lease = answer.lease;
        let mut payload = Payload::new(answer.body, source, self.client.clone());
        // What fits one record leaves in one: most answers about small files.
        let room = (16 * 1024usize).saturating_sub(head.len());
        if (1..=room as u64).contains(&payload.left()) {
            while payload.left() > 0 {
                head.extend_from_slice(&payload.next(PIECE).await?);
            }
        }
        self.stream.write_all(&head).await?;
        drop(head);
        while payload.left() > 0 {
            let piece = payload.next(PIECE).await?;
            self.stream.write_all(&piece).await?;
        }
        self.stream.flush().await
    }

    /// As [`plain`](crate::plain) does it.
    async fn linger(&mut self, open: Open) -> io::Result<()> {
        let socket = self.socket.clone();
        let mut lingering = Lingering::new(&socket, open);
        // There is room for the end once the client has taken some of the answer.
        while timeout(GLANCE, self.stream.shutdown()).await.is_err() && lingering.goes_on(0) {}
        let mut scrap = [0; 4096];
        loop {
            let came = match timeout(GLANCE, self.stream.read(&mut scrap)).await {
                Ok(Ok(0) | Err(_)) => return Ok(()),
                Ok(Ok(count)) => count,
                Err(_) => 0,
            };
            if !lingering.goes_on(came) {
                return Ok(());
            }
        }
    }
}
