//! A proxy's TLS session as a transport for HTTP/2, which a library drives with sockets of its own.
//!
//! A session blocks and has one owner, so a thread owns it and carries bytes between it and a pair of
//! sockets. That costs two copies of each byte: HTTP/2 carries small objects, of which the path is the limit.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use crate::http::connection::is_timeout;
use crate::http::tls::{Session, Under};
use weir_observe::stage_clock::StageClock;

/// What is carried at once: four records of TLS (RFC 8446 section 5.1).
const PIECE: usize = 64 << 10;

/// The near end of what runs inside `outer`, the session with a proxy over `socket`. A proxy that takes
/// nothing for as long as `timeout` ends it, and so does either end.
pub fn within(outer: Session, socket: TcpStream, timeout: Duration) -> io::Result<UnixStream> {
    let (near, far) = UnixStream::pair()?;
    std::thread::Builder::new().name("proxy".to_owned()).spawn(move || {
        if let Err(error) = carry(outer, &socket, &far, timeout) {
            tracing::debug!("the session with a proxy ended: {error}");
        }
        let _ = socket.shutdown(Shutdown::Both);
    })?;
    Ok(near)
}

fn carry(mut outer: Session, socket: &TcpStream, mut far: &UnixStream, timeout: Duration) -> io::Result<()> {
    // Nobody's time: lanes wait for their streams.
    let clock = StageClock::new(Instant::now());
    let mut bytes = vec![0; PIECE];
    loop {
        // A reply to what was sent, or a record cut by a full buffer, leaves more in the session: no socket
        // will tell of it.
        while let Some(length) = hand_on(&mut outer, &mut Under::Held(socket), far, &mut bytes, &clock)? {
            if length == 0 {
                return Ok(());
            }
        }
        let (proxy_speaks, far_speaks) = listen(socket, far)?;
        if proxy_speaks
            && hand_on(&mut outer, &mut Under::Socket(socket), far, &mut bytes, &clock)? == Some(0)
        {
            return Ok(());
        }
        if far_speaks {
            let length = far.read(&mut bytes)?;
            if length == 0 {
                return Ok(());
            }
            let began = Instant::now();
            let go_on = || began.elapsed() < timeout;
            outer.send(&mut Under::Socket(socket), &bytes[..length], &go_on)?;
        }
    }
}

/// Carries one piece from the proxy to the far end: how long it is, 0 at the end, `None` where nothing whole
/// is there.
fn hand_on(
    outer: &mut Session,
    under: &mut Under<'_>,
    mut far: &UnixStream,
    bytes: &mut [u8],
    clock: &StageClock,
) -> io::Result<Option<usize>> {
    match outer.read(under, bytes, clock) {
        Ok(length) => far.write_all(&bytes[..length]).map(|()| Some(length)),
        Err(error) if is_timeout(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Who has something to say, or has gone. There is no limit to the wait: who is waited for has limits of its
/// own, and closes its end at the last.
fn listen(socket: &TcpStream, far: &UnixStream) -> io::Result<(bool, bool)> {
    let mut polled = [PollFd::new(socket, PollFlags::IN), PollFd::new(far, PollFlags::IN)];
    match poll(&mut polled, None) {
        Ok(_) => Ok((!polled[0].revents().is_empty(), !polled[1].revents().is_empty())),
        Err(rustix::io::Errno::INTR) => Ok((false, false)),
        Err(error) => Err(error.into()),
    }
}
