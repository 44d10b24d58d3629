//! Sockets on loopback seen through the kernel's socket diagnostics: found, read again, and told at their
//! end.
#![allow(clippy::unwrap_used, reason = "clippy takes a test's helper functions for library code")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use weir_observe::flow::FlowProbe;
use weir_observe::sock_diag::{Destroyed, Filter, SockDiag, SocketId, TcpSocket, TcpState};

/// Waits for a condition, not for a time.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A socket once nothing is under way on it.
fn acknowledged(diag: &mut SockDiag, end: &SocketId) -> TcpSocket {
    let mut found = None;
    until("all is acknowledged", || {
        found = diag.one(end).unwrap().filter(|socket| socket.info.unacked == Some(0));
        found.is_some()
    });
    found.unwrap()
}

fn pair(address: &str) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(address).unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    (near, far)
}

fn find(diag: &mut SockDiag, local: SocketAddr) -> Option<TcpSocket> {
    let filter = Filter { port: Some(local.port()), ..Filter::default() };
    diag.tcp(&filter).unwrap().into_iter().find(|socket| socket.id.local == local)
}

#[test]
fn a_socket_is_found_read_again_and_told_at_its_end() {
    let mut diag = SockDiag::open().unwrap();
    let mut destroyed = Destroyed::open().unwrap();
    let (mut near, mut far) = pair("127.0.0.1:0");
    let (local, remote) = (near.local_addr().unwrap(), near.peer_addr().unwrap());
    far.write_all(&[7; 1000]).unwrap();
    near.read_exact(&mut [0; 400]).unwrap();

    let found = find(&mut diag, local).unwrap();
    assert_eq!((found.id.remote, found.state), (remote, TcpState::ESTABLISHED));
    assert_eq!((found.receive_queue, found.send_queue), (600, 0));
    assert_eq!(found.info.bytes_received, Some(1000));
    assert!(found.inode > 0);
    assert!(found.congestion_control.is_some());
    let memory = found.memory.unwrap();
    assert!(
        memory.receive_buffer > 0 && memory.send_buffer > 0 && memory.receive_allocated > 0,
        "{memory:?}"
    );

    let again = diag.one(&found.id).unwrap().unwrap();
    assert_eq!((again.id, again.inode, again.receive_queue), (found.id, found.inode, 600));
    let other = weir_observe::sock_diag::SocketId { cookie: found.id.cookie ^ 1, ..found.id };
    assert_eq!(diag.one(&other).unwrap(), None, "a cookie of another socket");

    let mut told = Vec::new();
    diag.each(&[found.id, other, found.id], |place, socket| told.push((place, socket.map(|it| it.id))))
        .unwrap();
    assert_eq!(told, [(0, Some(found.id)), (1, None), (2, Some(found.id))]);
    let all_quick = diag.quick(&Filter { port: Some(local.port()), ..Filter::default() }).unwrap();
    let quick = all_quick.iter().find(|it| it.id == found.id).unwrap();
    assert_eq!((quick.inode, quick.moved.received), (found.inode, 1000));

    let listening = diag.tcp(&Filter { listening: true, ..Filter::default() }).unwrap();
    assert!(listening.iter().all(|socket| socket.state == TcpState::LISTEN));
    near.read_exact(&mut [0; 600]).unwrap();
    drop((near, far));
    until("the kernel tells the end", || {
        let mut ended = Vec::new();
        assert!(destroyed.read(&mut ended).unwrap());
        ended.iter().any(|socket| socket.id == found.id && socket.info.bytes_received >= Some(1000))
    });
    until("the socket is gone", || diag.one(&found.id).unwrap().is_none());
}

/// Lets a listener's connections be requests until their first byte (TCP_DEFER_ACCEPT, tcp(7)).
#[allow(unsafe_code, reason = "rustix does not know this option")]
fn hold_back(listener: &TcpListener) {
    let seconds: libc::c_int = 20;
    // SAFETY: the descriptor is open, and the value is as long as its length says.
    let rc = unsafe {
        libc::setsockopt(
            listener.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            size_of_val(&seconds) as libc::socklen_t,
        )
    };
    assert_eq!(rc, 0);
}

/// A request is no socket yet, and its cookie is not always that of the socket that it becomes.
#[test]
fn a_half_open_request_is_not_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    hold_back(&listener);
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let ends = || {
        let filter = Filter { port: Some(near.peer_addr().unwrap().port()), ..Filter::default() };
        let mut diag = SockDiag::open().unwrap();
        let read: Vec<_> = diag.tcp(&filter).unwrap().into_iter().map(|it| it.id.local).collect();
        let quick: Vec<_> = diag.quick(&filter).unwrap().into_iter().map(|it| it.id.local).collect();
        assert_eq!(read, quick);
        read
    };
    assert_eq!(ends(), [near.local_addr().unwrap()], "the other end is a request still");
    (&near).write_all(b"x").unwrap();
    let (_far, _) = listener.accept().unwrap();
    assert_eq!(ends().len(), 2);
}

#[test]
fn ipv6_and_ipv4_on_an_ipv6_socket() {
    let Ok(listener) = TcpListener::bind("[::]:0") else {
        println!("skipped: no IPv6");
        return;
    };
    let port = listener.local_addr().unwrap().port();
    let mut diag = SockDiag::open().unwrap();
    for host in ["127.0.0.1", "::1"] {
        let near = TcpStream::connect((host, port)).unwrap();
        let (far, _) = listener.accept().unwrap();
        let shown = SocketAddr::new(near.peer_addr().unwrap().ip().to_canonical(), port);
        let found = find(&mut diag, shown).unwrap();
        assert_eq!(found.id.remote, near.local_addr().unwrap(), "{host}");
        assert_eq!(diag.one(&found.id).unwrap().unwrap().id, found.id, "{host}");
        let peers = vec![near.local_addr().unwrap().ip()];
        let peer = Filter { peers, port: Some(port), listening: false };
        assert!(diag.tcp(&peer).unwrap().iter().any(|socket| socket.id == found.id));
        drop(far);
    }
}

/// Binds a socket to the loopback interface; `false` where that needs a privilege (before Linux 5.7).
#[allow(unsafe_code, reason = "rustix does not know this option")]
fn bind_to_loopback(fd: &OwnedFd) -> bool {
    let name = b"lo\0";
    // SAFETY: the descriptor is open, and the name is as long as its length says.
    let rc = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BINDTODEVICE,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        )
    };
    rc == 0
}

#[test]
fn a_socket_that_is_bound_to_an_interface_is_read_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let fd = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None);
    let fd = fd.unwrap();
    if !bind_to_loopback(&fd) {
        println!("skipped: an interface may not be chosen");
        return;
    }
    rustix::net::connect(&fd, &listener.local_addr().unwrap()).unwrap();
    let near = TcpStream::from(fd);
    let (_far, _) = listener.accept().unwrap();
    let mut diag = SockDiag::open().unwrap();
    let found = find(&mut diag, near.local_addr().unwrap()).unwrap().id;
    assert!(found.interface > 0);
    assert_eq!(diag.one(&found).unwrap().map(|socket| socket.id), Some(found));
    let mut told = Vec::new();
    diag.each(&[found], |place, socket| told.push((place, socket.map(|it| it.id)))).unwrap();
    assert_eq!(told, [(0, Some(found))]);
    let own = SocketId::of(&near).unwrap();
    assert_eq!(own.interface, found.interface);
    assert_eq!(diag.one(&own).unwrap().map(|socket| socket.id), Some(found));
}

#[test]
fn one_connection_from_both_its_ends() {
    let mut diag = SockDiag::open().unwrap();
    let (near, far) = pair("127.0.0.1:0");
    let ends =
        [near.local_addr().unwrap(), far.local_addr().unwrap()].map(|end| find(&mut diag, end).unwrap().id);
    let (mut to, mut from) = (FlowProbe::new(), FlowProbe::new());
    let mut look = |to: &mut FlowProbe, from: &mut FlowProbe| {
        from.look(&diag.one(&ends[0]).unwrap().unwrap());
        to.look(&diag.one(&ends[1]).unwrap().unwrap());
    };
    look(&mut to, &mut from);
    let (mut near, mut far) = (near, far);
    let mut room = vec![0; 1 << 20];
    for _ in 0..16 {
        let sender = std::thread::scope(|scope| {
            let written = scope.spawn(|| near.write_all(&vec![1; 1 << 20]));
            far.read_exact(&mut room).unwrap();
            written.join().unwrap()
        });
        sender.unwrap();
        look(&mut to, &mut from);
    }
    let (sent, received) = (from.interval(), to.interval());
    assert_eq!((sent.acked, received.received), (16 << 20, 16 << 20));
    assert_eq!(sent.receiver.missing(), Some("this end only sends"));
    assert_eq!(received.sender.missing(), Some("this end only receives"));
    let sender = sent.sender.value().unwrap();
    assert_eq!((sender.looks, sender.acked), (17, 16 << 20));
    assert!(sender.segment > 0 && sender.cwnd > 0 && sender.rtt.is_some() && sender.send_buffer.is_some());
    assert!(received.receiver.value().unwrap().segments > 0);
    assert_eq!(to.interval().receiver.missing(), Some("the socket was not seen in this interval"));

    // The receiver reads no more: its window and then the sender's buffer fill.
    near.set_nonblocking(true).unwrap();
    until("the window is shut", || {
        while near.write(&room).is_ok() {}
        diag.one(&ends[0]).unwrap().unwrap().info.snd_wnd == Some(0)
    });
    // What left meanwhile made room.
    while near.write(&room).is_ok() {}
    from.look(&diag.one(&ends[0]).unwrap().unwrap());
    to.look(&diag.one(&ends[1]).unwrap().unwrap());
    let (stuck, full) = (from.interval(), to.interval());
    let sender = stuck.sender.value().unwrap();
    assert_eq!(
        (sender.looks, sender.window_filled, sender.buffer_filled, sender.nothing_unsent),
        (1, 1, 1, 0),
        "{sender:?}"
    );
    assert_eq!(full.waiting, 0.0);
    assert!(full.receiver.value().unwrap().receive_queue > Some(1 << 16), "{full:?}");
}

/// An answer and the request after it within a tick: only who sends them knows which came last.
#[test]
fn a_lane_that_sends_knows_what_it_waits_for() {
    let mut diag = SockDiag::open().unwrap();
    let (mut near, mut far) = pair("127.0.0.1:0");
    let end = find(&mut diag, near.local_addr().unwrap()).unwrap().id;
    let mut probe = FlowProbe::from_its_start();
    near.write_all(&[1; 100]).unwrap();
    far.read_exact(&mut [0; 100]).unwrap();
    let socket = acknowledged(&mut diag, &end);
    probe.look_at_sender(&socket, true);
    // As little as a question, and yet what is sent.
    let first = probe.interval().sender.value().cloned().unwrap();
    assert_eq!((first.looks, first.awaiting, first.owing), (1, 1, 0));
    far.write_all(&[2; 10]).unwrap();
    near.read_exact(&mut [0; 10]).unwrap();
    near.write_all(&[1; 100]).unwrap();
    far.read_exact(&mut [0; 100]).unwrap();
    let socket = acknowledged(&mut diag, &end);
    probe.look_at_sender(&socket, true);
    probe.look_at_sender(&socket, false);
    let then = probe.interval().sender.value().cloned().unwrap();
    assert_eq!((then.looks, then.awaiting, then.owing), (2, 1, 1));
}

/// Found by fuzzing: segments, their size and what is sent again multiplied, and bytes sent and received
/// added, to more than 64 bits hold.
#[test]
fn counts_that_no_socket_has_overflow_nothing() {
    for found in [
        &include_bytes!("../../weir-checks/corpus/sock_diag/found-more-in-flight-than-sequence-numbers")[..],
        include_bytes!("../../weir-checks/corpus/sock_diag/found-more-bytes-than-a-counter"),
    ] {
        let socket = weir_observe::sock_diag::parse(found).unwrap();
        let mut flow = FlowProbe::from_its_start();
        flow.look(&socket);
        assert!((0.0..=1.0).contains(&flow.interval().waiting));
    }
}
