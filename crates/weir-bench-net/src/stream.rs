//! One data connection and the thread that works on it: plain blocking calls in large pieces.

use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_setaffinity};
use weir_observe::thread::current_tid;

use crate::orders::{Counts, Orders};
use crate::outcome::Connected;
use crate::{tcp, udp};

/// A blocked call of a stream's thread returns after this long, to see whether the test is over.
const GLANCE: Duration = Duration::from_millis(20);

/// The largest frame of a stream's thread is 16 KiB (the vectors of 64 messages); 256 threads stay small.
const STACK: usize = 256 << 10;

/// What carries a stream.
#[derive(Debug)]
pub(crate) enum Carrier {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

/// One data connection.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) connection: Connected,
    pub(crate) carrier: Arc<Carrier>,
    pub(crate) counts: Arc<Counts>,
    thread: Option<JoinHandle<()>>,
}

impl Stream {
    pub(crate) fn tcp(id: u32, sends: bool, stream: TcpStream) -> io::Result<Stream> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(GLANCE))?;
        stream.set_write_timeout(Some(GLANCE))?;
        let (local, remote) = (stream.local_addr()?, stream.peer_addr()?);
        Ok(Stream::new(id, sends, local, remote, Carrier::Tcp(stream)))
    }

    pub(crate) fn udp(id: u32, sends: bool, socket: UdpSocket) -> io::Result<Stream> {
        socket.set_read_timeout(Some(GLANCE))?;
        socket.set_write_timeout(Some(GLANCE))?;
        let (local, remote) = (socket.local_addr()?, socket.peer_addr()?);
        Ok(Stream::new(id, sends, local, remote, Carrier::Udp(socket)))
    }

    fn new(id: u32, sends: bool, local: SocketAddr, remote: SocketAddr, carrier: Carrier) -> Stream {
        Stream {
            connection: Connected { id, sends, local, remote },
            carrier: Arc::new(carrier),
            counts: Arc::default(),
            thread: None,
        }
    }

    /// Starts its thread.
    pub(crate) fn start(&mut self, orders: &Arc<Orders>) -> io::Result<()> {
        let (orders, carrier, counts) =
            (Arc::clone(orders), Arc::clone(&self.carrier), Arc::clone(&self.counts));
        let sends = self.connection.sends;
        let name = format!("net {} {}", if sends { "send" } else { "recv" }, self.connection.id);
        let thread = std::thread::Builder::new().name(name).stack_size(STACK).spawn(move || {
            counts.tid.store(current_tid().0, Relaxed);
            if let Some(processor) = orders.affinity {
                bind_to(processor);
            }
            let done = match (&*carrier, sends) {
                (Carrier::Tcp(stream), true) => tcp::send(stream, &orders, &counts),
                (Carrier::Tcp(stream), false) => tcp::receive(stream, &orders, &counts),
                (Carrier::Udp(socket), true) => udp::send(socket, &orders, &counts),
                (Carrier::Udp(socket), false) => udp::receive(socket, &orders, &counts),
            };
            if let Err(cause) = done {
                *counts.failure.lock() = Some(cause);
            }
            counts.ended.store(true, Relaxed);
        })?;
        self.thread = Some(thread);
        Ok(())
    }

    /// Says to the peer that nothing more will come.
    pub(crate) fn finish(&self) {
        if let (Carrier::Tcp(stream), true) = (&*self.carrier, self.connection.sends) {
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
    }

    /// Waits for its thread, which ends by itself within a glance once it is told to.
    pub(crate) fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    pub(crate) fn is_udp(&self) -> bool {
        matches!(*self.carrier, Carrier::Udp(_))
    }
}

/// Binds this thread to one processor. Where that cannot be it works all the same.
fn bind_to(processor: u32) {
    let mut set = CpuSet::new();
    if (processor as usize) < CpuSet::MAX_CPU {
        set.set(processor as usize);
    }
    if let Err(cause) = sched_setaffinity(None, &set) {
        tracing::warn!("cannot bind a stream to processor {processor}, as its client asked: {cause}");
    }
}
