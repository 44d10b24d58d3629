//! How is HTTP/1.1 served over TLS? As `plain` does it over a bare socket, in pieces that pass through user
//! space.

use std::io;

use http::StatusCode;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};

use crate::answer::Answer;
use crate::client::Client;
use crate::connections::IDLE;
use crate::exchange::{self, After, Asked, Inbox};
use crate::payload::{PIECE, Payload};
use crate::plain::{LINGER, LINGER_BYTES};
use crate::source::Source;

/// Serves a connection to its end; an error is a client that went away, or a file that shrank.
pub(crate) async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, client: Client) -> io::Result<()> {
    Connection { stream, client, inbox: Inbox::default() }.run().await
}

struct Connection<S> {
    stream: S,
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
                Err(_) => Some(Err(StatusCode::REQUEST_TIMEOUT)),
            };
            let Some(taken) = taken else { break };
            let _open = self.client.activity.open();
            let (answer, source, after) = match taken {
                Ok(Asked { request, after }) => {
                    let Client { site, address, activity, .. } = &self.client;
                    let (answer, source) = site.answer_async(request, *address, activity).await?;
                    (answer, source, site.after(after))
                }
                Err(status) => (self.client.site.refuse(status, self.client.address), None, After::Linger),
            };
            if !self.client.site.delay.is_zero() {
                tokio::time::sleep(self.client.site.delay).await;
            }
            self.send_answer(answer, source, after).await?;
            match after {
                After::KeepAlive => {}
                After::Close => break,
                After::Linger => return self.linger().await,
            }
        }
        // The end is said inside TLS too, or the client could not tell it from an attack. It need not hear
        // it.
        let _ = timeout(LINGER, self.stream.shutdown()).await;
        Ok(())
    }

    /// Reads until a request is complete; `None` at the end of the stream.
    async fn next_request(&mut self) -> io::Result<Option<Result<Asked, StatusCode>>> {
        loop {
            if let Some(taken) = self.inbox.take() {
                return Ok(Some(taken.map_err(exchange::status)));
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
    async fn linger(&mut self) -> io::Result<()> {
        let until = Instant::now() + LINGER;
        let _ = timeout_at(until, self.stream.shutdown()).await;
        let mut scrap = [0; 4096];
        let mut left = LINGER_BYTES;
        while left > 0 {
            match timeout_at(until, self.stream.read(&mut scrap)).await {
                Ok(Ok(count)) if count > 0 => left = left.saturating_sub(count),
                _ => break,
            }
        }
        Ok(())
    }
}
