//! A real transfer over loopback: do the readings follow what the two ends do?
#![allow(clippy::unwrap_used, reason = "clippy takes a test's helper functions for library code")]

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use weir_observe::{LaneProbe, tcp_info, thread};

/// Waits for a condition, not for a time.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Sends until the receiver's window is shut; returns the bytes that this end's kernel took. Loopback
/// segments are as large as half the buffer here, so the last part of the window is filled only by the
/// persist timer, after 0.2 s.
fn send_until_shut(sender: &mut TcpStream, receiver: &TcpStream) -> u64 {
    let chunk = [0x5a_u8; 64 << 10];
    let mut sent = 0;
    sender.set_nonblocking(true).unwrap();
    until("the window is shut", || {
        match sender.write(&chunk) {
            Ok(n) => sent += n as u64,
            Err(err) => assert_eq!(err.kind(), io::ErrorKind::WouldBlock, "cannot send: {err}"),
        }
        tcp_info::read(receiver.as_fd()).unwrap().rcv_wnd == Some(0)
    });
    sender.set_nonblocking(false).unwrap();
    sent
}

#[test]
fn a_receiver_that_stops_reading_and_resumes() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // Accepted sockets inherit it. A fixed buffer turns autotuning off, so that the queue has a known bound.
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 128 << 10).unwrap();
    let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut receiver, _) = listener.accept().unwrap();
    let info = || tcp_info::read(receiver.as_fd()).unwrap();
    let queue = || tcp_info::receive_queue(receiver.as_fd()).unwrap();

    let mut probe = LaneProbe::new(thread::current_tid());
    probe.set_socket(Some(receiver.as_fd().try_clone_to_owned().unwrap()));

    // At rest: nothing came, the interval is open.
    assert_eq!(info().bytes_received, Some(0));
    assert_eq!(queue(), 0);
    let open = info().rcv_wnd.expect("Linux 6.2 or later");
    assert!(open > 16 << 10, "{open}");
    // The kernel doubles what was asked for, to pay for its own overhead.
    assert_eq!(tcp_info::receive_buffer(receiver.as_fd()).unwrap(), 256 << 10);
    assert!(!tcp_info::congestion_control(receiver.as_fd()).unwrap().is_empty());

    // Nobody reads: all that arrived waits in the queue, and the interval shuts.
    let sent = send_until_shut(&mut sender, &receiver);
    let shut = info();
    assert_eq!(shut.bytes_received, Some(queue()));
    assert!(queue() > 16 << 10 && queue() <= 256 << 10, "{}", queue());
    assert!(queue() < sent, "{} of {sent}", queue());
    assert_eq!(shut.rcv_wnd, Some(0));
    probe.look();
    let (own, tcp) = probe.interval();
    let (own, tcp) = (own.value().unwrap(), tcp.value().unwrap());
    assert_eq!((own.looks, own.in_dirty_throttle), (1, 0));
    assert_eq!(tcp.receive_queue, Some(queue()));
    assert_eq!(tcp.receive_buffer, Some(256 << 10));
    assert!(tcp.segments > 0 && tcp.min_rtt.is_some(), "{tcp:?}");

    // The reader takes all of it: the queue empties, the window opens again, the bytes add up.
    sender.shutdown(std::net::Shutdown::Write).unwrap();
    let read = io::copy(&mut Read::by_ref(&mut receiver), &mut io::sink()).unwrap();
    let info = || tcp_info::read(receiver.as_fd()).unwrap();
    assert_eq!(read, sent);
    assert_eq!(tcp_info::receive_queue(receiver.as_fd()).unwrap(), 0);
    until("the window is open again", || info().rcv_wnd.unwrap() > open / 2);
    // One more than the payload: the peer's FIN counts.
    assert_eq!(info().bytes_received, Some(sent + 1));
}
