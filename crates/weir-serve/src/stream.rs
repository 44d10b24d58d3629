//! How do tasks use a socket on which the register of connections keeps a hand?

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown as Half, TcpStream};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A socket shared with [`Connections`](crate::connections::Connections), which may shut it down at any time:
/// reads then end and writes fail, as if the client had gone.
pub(crate) struct Stream(AsyncFd<Arc<TcpStream>>);

impl Stream {
    /// To be called on a runtime.
    pub(crate) fn new(socket: Arc<TcpStream>) -> io::Result<Stream> {
        socket.set_nonblocking(true)?;
        // SAFETY: the descriptor stays open and the same while the `Arc` lives, which is as long as the
        // registration.
        let registered = unsafe { AsyncFd::register(socket)? };
        Ok(Stream(registered))
    }

    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        mut send: impl FnMut(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.0.poll_write_ready(cx))?;
            if let Ok(result) = ready.try_io(|socket| send(socket.get_ref())) {
                return Poll::Ready(result);
            }
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.0.poll_read_ready(cx))?;
            let room = buffer.initialize_unfilled();
            if let Ok(result) = ready.try_io(|socket| (&mut &**socket.get_ref()).read(room)) {
                return Poll::Ready(result.map(|count| buffer.advance(count)));
            }
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_send(cx, |mut socket| socket.write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(cx, |mut socket| socket.write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.get_ref().shutdown(Half::Write))
    }
}
