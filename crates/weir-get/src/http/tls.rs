//! A TLS session over a blocking socket, or over another session: inside an https:// proxy's.
//!
//! rustls's unbuffered interface decrypts in place in our own 256 KiB buffer and hands each record out once;
//! its buffered one would read the socket in small pieces and copy each byte twice more.

use std::io::{self, Read};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{ClientConfig, Error as TlsError};

use crate::error::GetError;
use crate::http::connection::{POLL_INTERVAL, is_timeout, send_all};
use crate::http::identity;
pub use crate::http::tls_words::explain;
use crate::http::tls_words::{self, Reached};
use weir_observe::stage_clock::{Stage, StageClock};

/// What carries a session's records.
pub enum Under<'a> {
    /// A socket.
    Socket(&'a TcpStream),
    /// The same, but nothing is received: what is read is in the session already, or the read would block.
    Held(&'a TcpStream),
    /// The session of a proxy, over its socket.
    Session(&'a mut Session, &'a TcpStream, &'a StageClock),
}

impl Under<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Under::Socket(socket) => (&mut &**socket).read(into),
            Under::Held(_) => Err(io::ErrorKind::WouldBlock.into()),
            Under::Session(outer, socket, clock) => outer.read(&mut Under::Socket(socket), into, clock),
        }
    }

    fn send_all(&mut self, bytes: &[u8], go_on: &dyn Fn() -> bool) -> io::Result<()> {
        match self {
            Under::Socket(socket) | Under::Held(socket) => send_all(socket, bytes, go_on),
            Under::Session(outer, socket, _) => outer.send(&mut Under::Socket(socket), bytes, go_on),
        }
    }
}

/// 16 records: few enough to stay in the L2 cache between the kernel's copy and the decryption.
const CIPHERTEXT: usize = 256 << 10;

/// A TLS session over one socket.
pub struct Session {
    tls: UnbufferedClientConnection,
    /// Ciphertext that is not yet decrypted: `incoming[start..end]`.
    incoming: Vec<u8>,
    start: usize,
    end: usize,
    /// Plaintext that did not fit the caller's buffer.
    spare: Vec<u8>,
    spare_at: usize,
    outgoing: Vec<u8>,
    closed: bool,
    /// It carries another session, whose records come whenever they like.
    carries: bool,
    /// The server asked who we are, by a certificate.
    asked: bool,
}

/// What a turn of the state machine came to.
enum Turn {
    Again,
    NeedsRead,
    Writable,
    Data(usize),
    Closed,
}

impl Session {
    /// Starts a session for `host`.
    pub fn new(config: Arc<ClientConfig>, host: &str) -> Result<Session, GetError> {
        let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(bare)
            .map_err(|_| GetError::Refused(format!("'{host}' is not a name that a certificate can have")))?;
        let tls = UnbufferedClientConnection::new(config, name)
            .map_err(|error| GetError::Refused(format!("cannot set up tls: {error}")))?;
        Ok(Session {
            tls,
            incoming: vec![0; 18 << 10],
            start: 0,
            end: 0,
            spare: Vec::new(),
            spare_at: 0,
            outgoing: Vec::new(),
            closed: false,
            carries: false,
            asked: false,
        })
    }

    /// From now on it carries another session.
    pub fn carry(&mut self) {
        self.carries = true;
    }

    /// The server has asked for a certificate of ours.
    pub(crate) fn has_asked(&self) -> bool {
        self.asked
    }

    /// The words for a handshake that failed: how far it came tells what was missing.
    pub fn failure(&self, host: &str, port: u16, error: &io::Error) -> Option<GetError> {
        let reached = Reached {
            chosen: self.tls.negotiated_cipher_suite().is_some(),
            asked: self.asked,
            heard: &self.incoming[..self.end.min(16)],
        };
        tls_words::handshake(host, port, error, &reached)
    }

    /// Runs the handshake to its end. `go_on` says whether to wait on, however much or little comes
    /// meanwhile.
    pub fn handshake(&mut self, under: &mut Under<'_>, go_on: &dyn Fn() -> bool) -> io::Result<()> {
        identity::take_asked();
        let done = self.shake_hands(under, go_on);
        self.asked = identity::take_asked();
        done
    }

    fn shake_hands(&mut self, under: &mut Under<'_>, go_on: &dyn Fn() -> bool) -> io::Result<()> {
        loop {
            match self.turn(under, &mut [], go_on)? {
                Turn::Again => {}
                Turn::NeedsRead if !go_on() => return Err(io::ErrorKind::TimedOut.into()),
                Turn::NeedsRead => match self.receive(under) {
                    Err(error) if is_timeout(&error) => {}
                    other => other?,
                },
                Turn::Writable | Turn::Data(_) => return Ok(()),
                Turn::Closed => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }

    /// The protocol that ALPN chose.
    pub fn protocol(&self) -> Option<&[u8]> {
        self.tls.alpn_protocol()
    }

    /// Encrypts and sends `plain`.
    pub fn send(&mut self, under: &mut Under<'_>, plain: &[u8], go_on: &dyn Fn() -> bool) -> io::Result<()> {
        loop {
            let UnbufferedStatus { discard, state } =
                self.tls.process_tls_records(&mut self.incoming[self.start..self.end]);
            if let ConnectionState::WriteTraffic(mut traffic) = state.map_err(tls_error)? {
                let mut sealed = vec![0; plain.len() + 1024];
                let length = match traffic.encrypt(plain, &mut sealed) {
                    Ok(length) => length,
                    Err(EncryptError::InsufficientSize(size)) => {
                        sealed.resize(size.required_size, 0);
                        traffic.encrypt(plain, &mut sealed).map_err(io::Error::other)?
                    }
                    Err(error) => return Err(io::Error::other(error)),
                };
                self.start += discard;
                self.outgoing.extend_from_slice(&sealed[..length]);
                return flush(under, &mut self.outgoing, go_on);
            }
            self.start += discard;
            match self.turn(under, &mut [], go_on)? {
                Turn::Again | Turn::Writable => {}
                Turn::NeedsRead if !go_on() => return Err(io::ErrorKind::TimedOut.into()),
                Turn::NeedsRead => match self.receive(under) {
                    Err(error) if is_timeout(&error) => {}
                    other => other?,
                },
                // Kept for the session within, which asks for it in its time.
                Turn::Data(_) if self.carries => {}
                Turn::Data(_) | Turn::Closed => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }

    /// Reads plaintext into `into`; 0 at a clean end of the session. Records without plaintext, or parts of
    /// one, do not keep it longer than the socket's receive timeout.
    pub fn read(&mut self, under: &mut Under<'_>, into: &mut [u8], clock: &StageClock) -> io::Result<usize> {
        let began = Instant::now();
        let go_on = || began.elapsed() < POLL_INTERVAL;
        let mut received = false;
        loop {
            if self.spare_at < self.spare.len() {
                let length = into.len().min(self.spare.len() - self.spare_at);
                into[..length].copy_from_slice(&self.spare[self.spare_at..self.spare_at + length]);
                self.spare_at += length;
                return Ok(length);
            }
            if self.closed {
                return Ok(0);
            }
            let mut filled = 0;
            let resume = clock.current().0;
            if self.start < self.end {
                clock.enter(Stage::Decrypt);
            }
            let turn = loop {
                match self.turn(under, &mut into[filled..], &go_on)? {
                    Turn::Data(length) => {
                        filled += length;
                        if filled == into.len() || self.spare_at < self.spare.len() {
                            break Turn::Again;
                        }
                    }
                    Turn::Again => {}
                    other => break other,
                }
            };
            clock.enter(resume);
            self.closed |= matches!(turn, Turn::Closed);
            match turn {
                _ if filled > 0 => return Ok(filled),
                Turn::Closed => {}
                Turn::Again | Turn::Data(_) => {}
                Turn::NeedsRead | Turn::Writable if received && !go_on() => {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                Turn::NeedsRead | Turn::Writable => {
                    self.receive(under)?;
                    received = true;
                }
            }
        }
    }

    /// One step of rustls's state machine; plaintext goes to `into`, what does not fit to `spare`.
    fn turn(&mut self, under: &mut Under<'_>, into: &mut [u8], go_on: &dyn Fn() -> bool) -> io::Result<Turn> {
        let UnbufferedStatus { mut discard, state } =
            self.tls.process_tls_records(&mut self.incoming[self.start..self.end]);
        let turn = match state {
            Err(error) => {
                // After an error rustls must not be asked again, so the alert that explains it is not sent.
                self.start += discard;
                return Err(tls_error(error));
            }
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                let mut length = 0;
                while let Some(record) = traffic.next_record() {
                    let record = record.map_err(tls_error)?;
                    discard += record.discard;
                    let fits = record.payload.len().min(into.len() - length);
                    into[length..length + fits].copy_from_slice(&record.payload[..fits]);
                    length += fits;
                    if fits < record.payload.len() {
                        if self.spare_at == self.spare.len() {
                            self.spare.clear();
                            self.spare_at = 0;
                        }
                        self.spare.extend_from_slice(&record.payload[fits..]);
                    }
                }
                Turn::Data(length)
            }
            Ok(ConnectionState::EncodeTlsData(mut data)) => {
                encode(&mut self.outgoing, |out| data.encode(out))?;
                Turn::Again
            }
            Ok(ConnectionState::TransmitTlsData(data)) => {
                let sent = flush(under, &mut self.outgoing, go_on);
                data.done();
                // A record that went out in part cannot be gone on with.
                sent.map_err(
                    |error| if is_timeout(&error) { io::Error::other("it takes no bytes") } else { error },
                )?;
                Turn::Again
            }
            Ok(ConnectionState::BlockedHandshake) => Turn::NeedsRead,
            Ok(ConnectionState::WriteTraffic(_)) => Turn::Writable,
            Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Turn::Closed,
            Ok(_) => Turn::NeedsRead,
        };
        self.start += discard;
        Ok(turn)
    }

    fn receive(&mut self, under: &mut Under<'_>) -> io::Result<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 {
            self.incoming.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.incoming.len() {
            // A full buffer means bulk data (or a large handshake): from here on read it in few large pieces.
            if self.incoming.len() >= CIPHERTEXT {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "a tls message is larger than 256 KiB",
                ));
            }
            self.incoming.resize(CIPHERTEXT, 0);
        }
        match under.read(&mut self.incoming[self.end..])? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            length => {
                self.end += length;
                if self.end == self.incoming.len() && self.end < CIPHERTEXT {
                    self.incoming.resize(CIPHERTEXT, 0);
                }
                Ok(())
            }
        }
    }
}

fn flush(under: &mut Under<'_>, bytes: &mut Vec<u8>, go_on: &dyn Fn() -> bool) -> io::Result<()> {
    under.send_all(bytes, go_on)?;
    bytes.clear();
    Ok(())
}

fn encode(
    outgoing: &mut Vec<u8>,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>,
) -> io::Result<()> {
    let old = outgoing.len();
    outgoing.resize(old + 2048, 0);
    let length = match write(&mut outgoing[old..]) {
        Err(EncodeError::InsufficientSize(size)) => {
            outgoing.resize(old + size.required_size, 0);
            write(&mut outgoing[old..])
        }
        other => other,
    };
    outgoing.truncate(old + length.as_ref().copied().unwrap_or(0));
    length.map(drop).map_err(io::Error::other)
}

fn tls_error(error: TlsError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
