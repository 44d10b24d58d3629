//! A sender and a reader as an application would write them: buffers set or not, paces, one connection or
//! many.
//!
//! The reader connects, asks with one byte, and reads the answer; the sender answers with the bytes. Both are
//! threads of the lab with ordinary blocking sockets.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};
use rustix::net::{AddressFamily, SocketType, connect, socket};

use super::{Done, PORT, Stage, WorkError};
use crate::scenario::{Setting, Socket};

pub(super) fn play(stage: &Stage<'_>, work: &Socket) -> Result<Done, WorkError> {
    let address = SocketAddr::from((stage.bed.far_address(), PORT));
    let most = stage.scenario.far.wmem_max.map_or(u64::MAX, |most| most.0);
    let sender = Sender {
        work: work.clone(),
        // What setsockopt grants where net.core.wmem_max is this (net/core/sock.c, sk_setsockopt).
        send_buffer: match work.send_buffer {
            Setting::Kernel => None,
            Setting::Bytes(bytes) => Some(bytes.min(most) as usize),
        },
    };
    let listener = stage
        .bed
        .far()
        .run(|| sender.listen(address))?
        .map_err(WorkError::program("cannot listen at the remote end"))?;
    let subject = Arc::clone(stage.sender);
    let sending = stage.bed.far().spawn(move || {
        subject.is_this_thread();
        sender.serve(&listener)
    })?;
    let start = Instant::now();
    let read = stage.bed.near().run(|| {
        stage.reader.is_this_thread();
        read_all(stage, work, address)
    })?;
    let wall = start.elapsed();
    let bytes = match read {
        Ok(bytes) => bytes,
        Err(_) if stage.stop.load(Relaxed) => return Err(WorkError::Interrupted),
        Err(cause) => return Err(WorkError::program("the reader at the local end failed")(cause)),
    };
    // It ends with its last connection; what it says of broken ones the reader has said.
    let _ = sending.join();
    Ok(Done { bytes, wall, ..Done::default() })
}

struct Sender {
    work: Socket,
    send_buffer: Option<usize>,
}

impl Sender {
    fn listen(&self, address: SocketAddr) -> io::Result<TcpListener> {
        let listener = TcpListener::bind(address)?;
        if let Some(size) = self.send_buffer {
            // Inherited by what it accepts.
            set_socket_send_buffer_size(&listener, size)?;
        }
        Ok(listener)
    }

    fn serve(&self, listener: &TcpListener) -> io::Result<()> {
        let connections = if self.work.kept { 1 } else { self.work.requests };
        let answers = if self.work.kept { self.work.requests } else { 1 };
        for _ in 0..connections {
            let (mut socket, _) = listener.accept()?;
            socket.set_nodelay(self.work.no_delay)?;
            for _ in 0..answers {
                socket.read_exact(&mut [0])?;
                std::thread::sleep(self.work.delay.map(|delay| delay.0.0).unwrap_or_default());
                self.answer(&mut socket)?;
            }
        }
        Ok(())
    }

    fn answer(&self, socket: &mut TcpStream) -> io::Result<()> {
        let message = vec![b'w'; self.work.message.0.0 as usize];
        let mut pace = Pace::new(self.work.send_rate.map(|rate| rate.0.0));
        let mut left = self.work.bytes.0.0;
        while left > 0 {
            let length = left.min(message.len() as u64) as usize;
            pace.wait_for(length);
            socket.write_all(&message[..length])?;
            left -= length as u64;
        }
        Ok(())
    }
}

fn read_all(stage: &Stage<'_>, work: &Socket, address: SocketAddr) -> io::Result<u64> {
    let mut bytes = 0;
    let mut kept: Option<TcpStream> = None;
    for _ in 0..work.requests {
        let mut socket = match kept.take() {
            Some(socket) => socket,
            None => connect_to(work, address)?,
        };
        socket.write_all(b"?")?;
        bytes += read_answer(stage, work, &mut socket)?;
        kept = work.kept.then_some(socket);
    }
    Ok(bytes)
}

fn connect_to(work: &Socket, address: SocketAddr) -> io::Result<TcpStream> {
    let end = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    if let Setting::Bytes(bytes) = work.receive_buffer {
        // Before the handshake: it sets the window's scale.
        set_socket_recv_buffer_size(&end, bytes as usize)?;
    }
    connect(&end, &address)?;
    let socket = TcpStream::from(end);
    // So that an interrupt is noticed on a path that stalls.
    socket.set_read_timeout(Some(Duration::from_millis(200)))?;
    Ok(socket)
}

fn read_answer(stage: &Stage<'_>, work: &Socket, socket: &mut TcpStream) -> io::Result<u64> {
    // A reader with a pace reads what its program works on at a time; one without, as much as helps.
    let piece = if work.read_rate.is_some() { work.message.0.0 } else { 256 << 10 };
    let mut buffer = vec![0; piece as usize];
    let mut pace = Pace::new(work.read_rate.map(|rate| rate.0.0));
    let mut bytes = 0;
    while bytes < work.bytes.0.0 {
        if stage.stop.load(Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match socket.read(&mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => {
                bytes += length as u64;
                pace.wait_for(length);
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

/// Sleeps so that bytes pass at a rate.
struct Pace {
    rate: Option<f64>,
    start: Instant,
    bytes: u64,
}

impl Pace {
    fn new(rate: Option<f64>) -> Pace {
        Pace { rate, start: Instant::now(), bytes: 0 }
    }

    /// Returns when `length` more bytes are due.
    fn wait_for(&mut self, length: usize) {
        let Some(rate) = self.rate else { return };
        self.bytes += length as u64;
        let due = Duration::from_secs_f64(self.bytes as f64 / rate);
        std::thread::sleep(due.saturating_sub(self.start.elapsed()));
    }
}
