//! A weak HTTP server: answers a few requests at a time and turns any other away with 503 and a page that
//! says so.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

use super::WorkError;
use crate::netns::Namespace;

/// What a client that takes any answer for a success would save.
pub(super) const ERROR_PAGE: &str =
    "<html><body><h1>503 Service Unavailable</h1>too many requests at once</body></html>";

/// Serves until dropped.
pub(super) struct WeakServer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct Manner {
    most: u32,
    delay: Duration,
    bytes: u64,
    at_work: AtomicU32,
}

impl WeakServer {
    pub(super) fn start(
        namespace: &Namespace,
        address: SocketAddr,
        most: u32,
        delay: Duration,
        bytes: u64,
    ) -> Result<WeakServer, WorkError> {
        let listener =
            namespace.run(|| TcpListener::bind(address))?.map_err(WorkError::program("cannot listen"))?;
        // Looked at between arrivals, so that dropping ends it.
        listener.set_nonblocking(true).map_err(WorkError::program("cannot listen"))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let manner = Arc::new(Manner { most, delay, bytes, at_work: AtomicU32::new(0) });
        let thread = std::thread::spawn(move || {
            while !stopped.load(SeqCst) {
                match listener.accept() {
                    Ok((socket, _)) => {
                        let manner = Arc::clone(&manner);
                        std::thread::spawn(move || converse(&socket, &manner));
                    }
                    Err(_) => std::thread::sleep(Duration::from_millis(1)),
                }
            }
        });
        Ok(WeakServer { stop, thread: Some(thread) })
    }
}

impl Drop for WeakServer {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            // It cannot panic.
            let _ = thread.join();
        }
    }
}

fn converse(socket: &TcpStream, manner: &Manner) {
    // A client that does not ask for a minute is gone.
    let _ = socket.set_read_timeout(Some(Duration::from_secs(60)));
    let _ = socket.set_nonblocking(false);
    while read_head(socket).is_ok() {
        let others = manner.at_work.fetch_add(1, SeqCst);
        let answered = if others >= manner.most { refuse(socket) } else { answer(socket, manner) };
        manner.at_work.fetch_sub(1, SeqCst);
        if answered.is_err() {
            return;
        }
    }
}

fn read_head(mut socket: &TcpStream) -> io::Result<()> {
    let mut head = Vec::new();
    let mut piece = [0; 4096];
    while !head.ends_with(b"\r\n\r\n") {
        match socket.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ if head.len() > 64 << 10 => return Err(io::ErrorKind::InvalidData.into()),
            length => head.extend_from_slice(&piece[..length]),
        }
    }
    Ok(())
}

fn refuse(mut socket: &TcpStream) -> io::Result<()> {
    let length = ERROR_PAGE.len();
    write!(
        socket,
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\r\n{ERROR_PAGE}"
    )
}

fn answer(mut socket: &TcpStream, manner: &Manner) -> io::Result<()> {
    std::thread::sleep(manner.delay);
    let length = manner.bytes;
    write!(
        socket,
        "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: {length}\r\n\r\n"
    )?;
    io::copy(&mut io::repeat(b'w').take(length), &mut socket).map(drop)
}
