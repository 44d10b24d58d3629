//! Lanes: connections that carry records. Here their two ends and their first words; [`listen`] accepts them,
//! [`dial`] makes them.

pub mod dial;
pub mod listen;
pub mod way;

use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use parking_lot::Mutex;
use rustix::net::RecvFlags;

use crate::control::{Control, write_both};
use crate::error::LaneError;
use crate::secure::{Direction, Due, Keyring, Opener, Sealer};
use crate::wire::message::Role;
use crate::wire::record::{Footer, HEADER, Header, Kind, Malformed};
use crate::wire::to_sender::Wait;

/// A peer that is silent for longer while it owes an acknowledgement is gone: a lane's TCP_USER_TIMEOUT (RFC
/// 5482).
const GONE: Duration = Duration::from_secs(20);

/// A lane that stands, before its role's end takes it.
#[derive(Debug)]
pub struct Lane {
    /// Its number.
    pub id: u32,
    /// Its connection.
    pub stream: TcpStream,
    /// That this end has the secret.
    proof: [u8; 32],
    /// That the other has it.
    expected: [u8; 32],
    sealer: Sealer,
    opener: Opener,
    due: Due,
    /// Bytes read before the first record after the hello.
    before: u64,
}

/// The sending end of a lane.
#[derive(Debug)]
pub struct LaneSender {
    /// Its number.
    pub id: u32,
    out: Out,
    sealer: Sealer,
}

#[derive(Debug)]
enum Out {
    Tcp(Arc<TcpStream>),
    Ssh(Arc<Control>),
}

/// The receiving end of a lane; several threads may take turns.
#[derive(Debug)]
pub struct LaneReceiver {
    /// Its number.
    pub id: u32,
    stream: Arc<TcpStream>,
    due: Mutex<Due>,
    opener: Opener,
    before: u64,
    /// A thread waits for bytes.
    waiting: AtomicBool,
}

/// Whether a sender that has nothing but a closed window before it waits for as long as that takes.
/// TCP_USER_TIMEOUT ends such a connection too, though each probe of the window is answered
/// (`tcp_probe_timer` of net/ipv4/tcp_timer.c): a disk that stands still for a minute, or a file server that
/// restarts, is no lost path. A receiver that is gone answers none, and its control connection tells it.
pub(crate) fn wait_for_window(stream: &TcpStream, waits: bool) -> io::Result<()> {
    socket2::SockRef::from(stream).set_tcp_user_timeout((!waits).then_some(GONE))
}

/// Fills `bytes` until then: a stranger who sends one byte now and then gets no longer than one who is
/// silent.
fn read_by(stream: &mut TcpStream, mut bytes: &mut [u8], until: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(more) => bytes = &mut bytes[more..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The system's word for a time that is over on a socket is "try again".
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Which way an end's records go.
pub fn direction(role: Role) -> (Direction, Direction) {
    match role {
        Role::Sender => (Direction::Forward, Direction::Back),
        Role::Receiver => (Direction::Back, Direction::Forward),
    }
}

impl Lane {
    /// A lane before its first words, on which `role` is this end's.
    fn new(id: u32, stream: TcpStream, keyring: &Keyring, role: Role) -> io::Result<Lane> {
        // Neither the second of its first words nor the last record of a file is to wait for an
        // acknowledgement (RFC 896).
        stream.set_nodelay(true)?;
        let (out, back) = direction(role);
        Ok(Lane {
            id,
            stream,
            proof: keyring.proof(id, out),
            expected: keyring.proof(id, back),
            sealer: keyring.sealer(id, out),
            opener: keyring.opener(id, back),
            due: Due::default(),
            before: 0,
        })
    }

    /// Says who this end is.
    fn say_hello(&mut self) -> io::Result<()> {
        let (file, digest) = (self.id.into(), self.proof);
        let hello = Footer { kind: Kind::Hello, codec: 0, raw: 0, file, offset: 0, digest };
        let mut plain = Vec::new();
        hello.push_to(&mut plain);
        let header = self.sealer.seal(&mut plain);
        write_both(&mut self.stream, &header, &plain)
    }

    /// Hears who the other end is, until then.
    fn hear_hello(&mut self, until: Instant) -> Result<(), LaneError> {
        let mut header = [0; HEADER];
        read_by(&mut self.stream, &mut header, until)?;
        let header = self.due.take(&header)?;
        // A hello has no payload: whoever sends more is none of ours, and gets no memory.
        if header.length != crate::wire::record::FOOTER {
            return Err(LaneError::Stranger);
        }
        let mut sealed = vec![0; self.opener.sealed_len(&header)];
        read_by(&mut self.stream, &mut sealed, until)?;
        self.before += (HEADER + sealed.len()) as u64;
        let plain = self.opener.open(&header, &mut sealed).map_err(|_| LaneError::Stranger)?;
        let (_, footer) = Footer::split(plain)?;
        let ours = footer.kind == Kind::Hello && footer.file == u64::from(self.id);
        // In constant time: where no cipher seals it, this is all that keeps strangers out.
        let proven = verify_slices_are_equal(&footer.digest, &self.expected).is_ok();
        if ours && proven { Ok(()) } else { Err(LaneError::Stranger) }
    }

    /// Settings for its working life, after its first words.
    fn settle(&self) -> io::Result<()> {
        self.stream.set_read_timeout(None)?;
        self.stream.set_write_timeout(None)?;
        wait_for_window(&self.stream, false)?;
        socket2::SockRef::from(&self.stream).set_keepalive(true)
    }

    /// As the sender of data holds it.
    pub fn into_sender(self) -> (LaneSender, Arc<TcpStream>) {
        let stream = Arc::new(self.stream);
        (LaneSender { id: self.id, out: Out::Tcp(Arc::clone(&stream)), sealer: self.sealer }, stream)
    }

    /// As the receiver of data holds it.
    pub(crate) fn into_receiver(self) -> LaneReceiver {
        LaneReceiver {
            id: self.id,
            stream: Arc::new(self.stream),
            due: Mutex::new(self.due),
            opener: self.opener,
            before: self.before,
            waiting: AtomicBool::new(false),
        }
    }
}

impl LaneSender {
    /// The lane inside the control connection; ssh seals.
    pub(crate) fn over_ssh(id: u32, control: Arc<Control>, keyring: &Keyring) -> LaneSender {
        LaneSender { id, out: Out::Ssh(control), sealer: keyring.open().sealer(id, Direction::Forward) }
    }

    /// Seals `plain` where it lies and sends it. Returns its sequence.
    pub fn seal(&mut self, plain: &mut Vec<u8>) -> [u8; HEADER] {
        self.sealer.seal(plain)
    }

    /// Sends a sealed record.
    pub fn send(&mut self, header: &[u8; HEADER], sealed: &[u8]) -> io::Result<()> {
        match &self.out {
            Out::Tcp(stream) => write_both(&mut &**stream, header, sealed),
            Out::Ssh(control) => control.send_record(header, sealed),
        }
    }

    /// The sequence of the next record.
    pub fn next(&self) -> u64 {
        self.sealer.next()
    }

    /// No further record comes; those that were sent arrive. False where the lane cannot end before the
    /// session.
    pub fn finish(&self) -> bool {
        match &self.out {
            Out::Tcp(stream) => stream.shutdown(Shutdown::Write).is_ok(),
            Out::Ssh(_) => false,
        }
    }

    /// Cuts it off.
    pub fn close(&self) {
        if let Out::Tcp(stream) = &self.out {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl LaneReceiver {
    /// The socket, for whoever watches.
    pub fn stream(&self) -> &Arc<TcpStream> {
        &self.stream
    }

    /// Reads the next record into `sealed`; `None` at the lane's end. Threads take turns.
    pub fn read(&self, sealed: &mut Vec<u8>) -> Result<Option<Header>, LaneError> {
        let mut due = self.due.lock();
        let mut header = [0; HEADER];
        self.waiting.store(true, Relaxed);
        let header = match self.fill(&mut header, true) {
            Ok(true) => due.take(&header)?,
            Ok(false) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        sealed.resize(self.opener.sealed_len(&header), 0);
        self.fill(sealed, false)?;
        self.waiting.store(false, Relaxed);
        Ok(Some(header))
    }

    /// How far it has come, while a thread waits for more.
    pub fn wait(&self) -> Option<Wait> {
        if !self.waiting.load(Relaxed) {
            return None;
        }
        let info = weir_observe::tcp_info::read(self.stream.as_fd()).ok()?;
        let bytes = info.bytes_received?.saturating_sub(self.before);
        let rto = info.rto.unwrap_or_default().as_millis();
        Some(Wait { lane: self.id, bytes, rto: u32::try_from(rto).unwrap_or(u32::MAX) })
    }

    /// Opens a record where it lies.
    pub fn open<'a>(&self, header: &Header, sealed: &'a mut [u8]) -> Result<&'a [u8], Malformed> {
        self.opener.open(header, sealed)
    }

    /// Wakes whoever reads: the lane is over.
    pub fn close(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Fills all of `bytes` with as few system calls as the kernel allows; false where the stream ended
    /// before the first byte and that is allowed.
    fn fill(&self, bytes: &mut [u8], may_end: bool) -> io::Result<bool> {
        let mut have = 0;
        while have < bytes.len() {
            match rustix::net::recv(&*self.stream, &mut bytes[have..], RecvFlags::WAITALL) {
                Ok((_, 0)) if have == 0 && may_end => return Ok(false),
                Ok((_, 0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((_, more)) => have += more,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }
}
