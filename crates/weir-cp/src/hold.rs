//! A process that holds: it keeps what comes to its host for those who pass it on, and serves the sessions
//! that bring it and send it on, each over the streams of a process of its own that ssh started.
//!
//! Those hand their streams over (SCM_RIGHTS, unix(7)) through a socket without a file, whose name only tells
//! where to knock: what opens it is the word that the driver drew and told both over ssh, and that it is the
//! same user.

use std::fs::File;
use std::io::{self, BufReader, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Signal, geteuid, getpid, kill_process};

use crate::control::{Control, Outlet};
use crate::error::CopyError;
use crate::events::{Events, lost};
use crate::idle_timeout::{IDLE_TIMEOUT, TimedStream};
use crate::secret::Secret;
use crate::threads;
use crate::wire::driver::{FromDriver, ToDriver};
use crate::wire::frame;

/// Between two signs of life to the driver, which takes a host that says none for lost within seconds.
const SIGN: Duration = Duration::from_millis(500);

/// The time a guest has to say its secret, and the holder to answer.
const KNOCK: Duration = Duration::from_secs(5);

/// How long sessions may take to end once the driver is gone.
const FAREWELL: Duration = Duration::from_secs(2);

/// Sessions at a time: one that comes, those that go, and those that were lost and are not over yet.
const MOST: usize = 64;

/// Serves a session on streams that were handed over, until it ends or is to.
pub(crate) type Serve = Arc<dyn Fn((File, File), &Arc<AtomicBool>) -> Result<(), CopyError> + Send + Sync>;

/// Keeps and serves until the driver is gone. `all_have` hears that all hosts have all.
pub(crate) fn hold(
    word: &Secret,
    serve: Serve,
    mut input: BufReader<TimedStream<File>>,
    control: &Arc<Control>,
    (events, all_have): (&Events, &dyn Fn()),
) -> Result<(), CopyError> {
    let io = |error: io::Error| lost(events, &error);
    let door = UnixListener::bind_addr(&address(word).map_err(io)?).map_err(io)?;
    let stop: Arc<AtomicBool> = Arc::default();
    let (doors_stop, doors_word) = (Arc::clone(&stop), word.clone());
    events.spawn("door", move || open_to(&door, &doors_word, &serve, &doors_stop));
    let (signs, signs_stop) = (Arc::clone(control), Arc::clone(&stop));
    events.spawn("sign", move || {
        let is_told = |control| Outlet::new(control).try_send(&ToDriver::Alive).is_ok();
        while !signs_stop.load(Relaxed) && is_told(&signs) {
            std::thread::sleep(SIGN);
        }
    });
    input.get_mut().limit = Some(IDLE_TIMEOUT);
    let mut body = Vec::new();
    while let Ok(Some(_)) = frame::read(&mut input, &mut body) {
        match events.read(&body) {
            Ok(Some(FromDriver::Echo(number))) => Outlet::new(control).send(&ToDriver::Echo(number)),
            Ok(Some(FromDriver::AllHave)) => all_have(),
            _ => {}
        }
    }
    stop.store(true, Relaxed);
    // Each session holds one; what it has written stays, also where it does not end in time.
    let start = Instant::now();
    while Arc::strong_count(&stop) > 1 && start.elapsed() < FAREWELL {
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// The holder's address: a digest of the secret, which does not reveal it.
fn address(word: &Secret) -> io::Result<SocketAddr> {
    let name = blake3::derive_key("weir cp 1: where one holds", &word.0);
    SocketAddr::from_abstract_name(format!("weir-{}", blake3::Hash::from_bytes(name).to_hex()))
}

/// Lets in whoever has the word.
fn open_to(door: &UnixListener, word: &Secret, serve: &Serve, stop: &Arc<AtomicBool>) {
    while !stop.load(Relaxed) {
        let tick = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        if !matches!(poll(&mut [PollFd::new(door, PollFlags::IN)], Some(&tick)), Ok(1..)) {
            continue;
        }
        let Ok((guest, _)) = door.accept() else { continue };
        let begun = Arc::strong_count(serve) <= MOST && geteuid() == user_of(&guest);
        if !begun {
            continue;
        }
        let (serve, word, stop) = (Arc::clone(serve), word.clone(), Arc::clone(stop));
        let served = threads::start("session", move || match streams_of(&guest, &word) {
            Ok(streams) => serve_guest(&serve, guest, streams, &stop),
            Err(error) => tracing::debug!("at the door: {error}"),
        });
        if let Err(error) = served {
            tracing::warn!("a session less: {}", weir_units::plain(&error));
        }
    }
}

fn user_of(guest: &UnixStream) -> rustix::process::Uid {
    // Of one that cannot be told: nobody.
    socket_peercred(guest).map_or(rustix::process::Uid::from_raw(u32::MAX - 1), |guest| guest.uid)
}

/// The streams handed over by a guest who knows the secret.
fn streams_of(guest: &UnixStream, word: &Secret) -> io::Result<(File, File)> {
    guest.set_read_timeout(Some(KNOCK))?;
    let mut said = [0; 32];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut handed = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
    let got = recvmsg(guest, &mut [IoSliceMut::new(&mut said)], &mut handed, flags)?;
    let streams = handed.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(streams) => Some(streams),
        _ => None,
    });
    let mut streams: Vec<OwnedFd> = streams.flatten().collect();
    let is_told = got.bytes == said.len() && verify_slices_are_equal(&said, &word.0).is_ok();
    match (is_told, streams.pop(), streams.pop()) {
        (true, Some(output), Some(input)) => Ok((File::from(input), File::from(output))),
        _ => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

/// Serves a session until it ends, or who brought it is gone.
fn serve_guest(serve: &Serve, mut guest: UnixStream, streams: (File, File), stop: &Arc<AtomicBool>) {
    let over: Arc<AtomicBool> = Arc::default();
    let (ends, all, watched) = (Arc::clone(&over), Arc::clone(stop), guest.try_clone());
    let watching = threads::start("guest", move || {
        let Ok(mut guest) = watched else { return };
        let _ = guest.set_read_timeout(Some(Duration::from_millis(100)));
        // It says nothing more: its end is all that can be heard.
        let is_there = |guest: &mut UnixStream| match guest.read(&mut [0]) {
            // A process that was stopped and goes on is interrupted.
            Err(error) => matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
            Ok(read) => read > 0,
        };
        while !all.load(Relaxed) && is_there(&mut guest) {}
        ends.store(true, Relaxed);
    });
    if watching.is_ok()
        && let Err(error) = serve(streams, &over)
    {
        tracing::debug!("a session: {error}");
    }
    let _ = guest.write_all(&[0]);
    let _ = guest.shutdown(std::net::Shutdown::Both);
}

/// Ends the process that holds under a word, if it is there still and this user's: one that was stopped, or
/// whose driver's connection was cut, would keep the locks of its files.
pub(crate) fn evict(word: &Secret) {
    let Ok(holder) = address(word).and_then(|at| UnixStream::connect_addr(&at)) else { return };
    // Of a connection: those of the process that listens (unix(7)). It is there as long as that stands.
    let Ok(its) = socket_peercred(&holder) else { return };
    if its.uid == geteuid() && its.pid != getpid() {
        tracing::info!("process {} is ended, which was given up", its.pid.as_raw_nonzero());
        let _ = kill_process(its.pid, Signal::KILL);
        // Its end, which frees its locks; bounded, since nothing hangs on it.
        let _ = holder.set_read_timeout(Some(KNOCK));
        let _ = (&holder).read(&mut [0]);
    }
}

/// Hands this process's streams to the one that holds, and stays until that is done with them: ssh's server
/// would end the connection.
pub(crate) fn join(
    word: &Secret,
    input: &BufReader<TimedStream<File>>,
    (own, output): (File, File),
    events: &Events,
) -> Result<(), CopyError> {
    let io = |error: io::Error| lost(events, &error);
    if !input.buffer().is_empty() {
        return Err(events.out_of_turn("something before it was answered"));
    }
    let mut holder = UnixStream::connect_addr(&address(word).map_err(io)?).map_err(io)?;
    let streams = [own.as_fd(), output.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut handed = SendAncillaryBuffer::new(&mut space);
    handed.push(SendAncillaryMessage::ScmRights(&streams));
    let sent = sendmsg(&holder, &[IoSlice::new(&word.0)], &mut handed, SendFlags::NOSIGNAL);
    sent.map_err(|errno| io(errno.into()))?;
    // Its end, whatever it was.
    while holder.read(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::Interrupted) {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::BorrowedFd;
    use std::sync::atomic::AtomicU32;

    use super::*;

    /// Says so much at a door and hands these streams over. Whether it was let in.
    fn is_let_in(word: &Secret, said: &[u8], handed: &[BorrowedFd<'_>]) -> bool {
        let mut door = UnixStream::connect_addr(&address(word).unwrap()).unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        if !handed.is_empty() {
            rights.push(SendAncillaryMessage::ScmRights(handed));
        }
        // The door may close before all is said.
        let _ = sendmsg(&door, &[IoSlice::new(said)], &mut rights, SendFlags::NOSIGNAL);
        let _ = door.shutdown(std::net::Shutdown::Write);
        matches!(door.read(&mut [0]), Ok(1))
    }

    #[test]
    fn only_the_same_user_with_the_word_and_both_streams_is_let_in() {
        let (word, served) = (Secret::draw().unwrap(), Arc::new(AtomicU32::new(0)));
        let (stop, count): (Arc<AtomicBool>, _) = (Arc::default(), Arc::clone(&served));
        let door = UnixListener::bind_addr(&address(&word).unwrap()).unwrap();
        let serve: Serve = Arc::new(move |_: (File, File), _: &Arc<AtomicBool>| -> Result<(), CopyError> {
            count.fetch_add(1, Relaxed);
            Ok(())
        });
        let (doors_word, doors_stop) = (word.clone(), Arc::clone(&stop));
        let doors = std::thread::spawn(move || open_to(&door, &doors_word, &serve, &doors_stop));
        let (reads, writes) = rustix::pipe::pipe().unwrap();
        let both = [reads.as_fd(), writes.as_fd()];
        let mut other = word.0;
        other[31] ^= 1;
        for (said, handed) in [
            (&other[..], &both[..]),
            (&word.0[..31], &both[..]),
            (&word.0[..], &both[..1]),
            (&word.0[..], &both[..0]),
        ] {
            assert!(!is_let_in(&word, said, handed), "{} bytes, {} streams", said.len(), handed.len());
        }
        if geteuid().is_root() {
            let nobody = rustix::process::Uid::from_raw(65534);
            let knocks =
                || rustix::thread::set_thread_uid(nobody).is_ok() && is_let_in(&word, &word.0, &both);
            let is_in = std::thread::scope(|scope| scope.spawn(knocks).join().unwrap());
            assert!(!is_in, "another user");
        }
        assert_eq!(served.load(Relaxed), 0);
        assert!(is_let_in(&word, &word.0, &both));
        assert_eq!(served.load(Relaxed), 1);
        stop.store(true, Relaxed);
        doors.join().unwrap();
    }
}
