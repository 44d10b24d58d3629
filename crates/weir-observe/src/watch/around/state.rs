//! Does a connection owe anything at this moment, or is it owed anything?

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use weir_model::around::{Crowded, Listener};

use crate::flow::LastWord;
use crate::process::Pid;
use crate::sock_diag::{TcpSocket, TcpState};
use crate::watch::discovery::Discovery;
use crate::watch::lanes::Lane;

/// A connection at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionState {
    /// None any more, or not to be judged.
    Over,
    /// A SYN is out.
    Connecting,
    /// The first message of TLS is out.
    Tls,
    /// Connected as far as this end knows, but the full listener dropped the handshake's end.
    Dropped,
    /// A question to a resolver is out.
    Resolver,
    /// Bytes moved since the last sample, lie unread and are no question, or are under way.
    Busy,
    /// The last word was ours, and the peer has it.
    Awaiting,
    /// The last word was a client's, and the program has it.
    Owing,
    /// Nobody owes a word: the last one was the peer's, or cannot be told.
    Resting,
    /// The last word cannot be told of a client's connection: the program may owe an answer.
    Unclear,
}

/// Ports on which a server waits for the client's first message of TLS (IANA: https, and the mail, directory,
/// DNS and MQTT ports; 8443 and 6443 by custom).
const TLS_PORTS: [u16; 11] = [443, 8443, 6443, 465, 636, 853, 990, 993, 995, 5061, 8883];

/// The first message of TLS takes 200 bytes to 2 KB; one with all that browsers put into it stays below this.
const FIRST_MESSAGE: u64 = 4096;

/// No more than this is a question, whose answer is owed while it lies unread; more is an upload, which the
/// program reads or is late to. Servers take heads of 8 KiB at most, half of that is rare.
const QUESTION: u32 = 4 << 10;

/// The ports on which names are asked for (RFC 1035, RFC 7858).
pub(super) const RESOLVER_PORTS: [u16; 2] = [53, 853];

/// Listeners are read anew after this where nothing calls for it sooner.
const AGE: Duration = Duration::from_secs(1);

/// Who listens on this machine, and which of the subject's connections came to a listener.
#[derive(Debug, Default)]
pub(super) struct Served {
    listeners: Vec<(usize, TcpSocket)>,
    ports: HashSet<(usize, u16)>,
    read: Option<Instant>,
    newest: u32,
    /// Where a process was told to talk TLS, by https addresses among its arguments.
    tls: HashMap<Pid, Vec<HttpsAddress>>,
}

impl Served {
    /// Reads who listens: for new connections, and at each sample while one of this machine is being
    /// attempted.
    pub(super) fn refresh(&mut self, lanes: &[Lane], discovery: &mut Discovery, now: Instant) {
        let newest = lanes.iter().map(|lane| lane.number).max().unwrap_or(0);
        let tries = lanes.iter().any(|lane| !lane.is_gone() && is_local(lane) && may_be_dropped(lane));
        // Of a server with thousands of new connections a second not at each sample.
        let age = self.read.map_or(Duration::MAX, |read| now.saturating_duration_since(read));
        let new = newest > self.newest && age >= AGE / 4;
        if !(tries || new || age >= AGE) {
            return;
        }
        (self.newest, self.read) = (newest, Some(now));
        self.listeners = discovery.listeners();
        self.ports = self.listeners.iter().map(|(net, socket)| (*net, socket.id.local.port())).collect();
        let owners: HashSet<Pid> = lanes.iter().filter_map(|lane| lane.owner).collect();
        self.tls.retain(|pid, _| owners.contains(pid));
        for owner in owners {
            self.tls.entry(owner).or_insert_with(|| https_addresses(owner));
        }
    }

    /// Reads who listens now.
    pub(super) fn reread(&mut self, discovery: &mut Discovery) {
        self.listeners = discovery.listeners();
    }

    /// The fullest listener of those sockets whose queue is full.
    pub(super) fn crowded(&self, own: impl Fn(u32) -> bool) -> Option<Crowded> {
        let crowded = self
            .listeners
            .iter()
            .filter(|(_, socket)| own(socket.inode))
            .map(|(_, socket)| Crowded { port: socket.id.local.port(), listener: listener(socket) });
        crowded.filter(|it| it.listener.is_full()).max_by_key(|it| it.listener.queued)
    }

    pub(super) fn inodes(&self) -> impl Iterator<Item = u32> {
        self.listeners.iter().map(|(_, socket)| socket.inode)
    }

    /// The listener, on this machine, of a connection's peer.
    pub(super) fn listener_of(&self, lane: &Lane) -> Option<Listener> {
        if !is_local(lane) {
            return None;
        }
        let remote = lane.id.remote;
        let matches = |(net, socket): &&(usize, TcpSocket)| {
            let local = socket.id.local;
            *net == lane.key().0
                && local.port() == remote.port()
                && (local.ip().is_unspecified() || local.ip() == remote.ip())
        };
        // The fuller of two that share the port.
        let fullest = self.listeners.iter().filter(matches).max_by_key(|(_, socket)| socket.receive_queue);
        fullest.map(|(_, socket)| listener(socket))
    }

    /// It came to a listener of this machine: its peer is a client.
    pub(super) fn is_served(&self, lane: &Lane) -> bool {
        self.ports.contains(&(lane.key().0, lane.id.local.port()))
    }

    /// The same, where threads were found in a read from these sockets: the kernel's clocks of what went and
    /// what came are of some milliseconds, so an answer and the next question may show the same, and then the
    /// reader knows. `elsewhere`: the program waits for no socket, so what moved before this moment says
    /// nothing of it.
    pub(super) fn state_with(&self, lane: &Lane, read: &HashSet<u32>, elsewhere: bool) -> ConnectionState {
        let asked = lane.last().is_some_and(|socket| socket.info.bytes_sent.unwrap_or_default() > 0);
        match self.state_of(lane, elsewhere) {
            ConnectionState::Resting if asked && read.contains(&lane.inode()) && !self.is_served(lane) => {
                ConnectionState::Awaiting
            }
            ConnectionState::Owing | ConnectionState::Unclear if read.contains(&lane.inode()) => {
                ConnectionState::Resting
            }
            state => state,
        }
    }

    fn state_of(&self, lane: &Lane, elsewhere: bool) -> ConnectionState {
        let Some(socket) = lane.last().filter(|_| !lane.is_gone()) else { return ConnectionState::Over };
        let served = self.is_served(lane);
        let remote = lane.id.remote;
        let mut told = lane.owner.and_then(|owner| self.tls.get(&owner)).into_iter().flatten();
        let tls = TLS_PORTS.contains(&remote.port()) || told.any(|address| address.may_be(remote));
        let full = may_be_dropped(lane) && self.listener_of(lane).is_some_and(Listener::is_full);
        let (word, moved) = (lane.last_word(), lane.moved() && !elsewhere);
        state(socket, SocketContext { served, tls, full, moved, word })
    }
}

/// What is known of a socket besides its own counters.
#[derive(Debug, Clone, Copy)]
struct SocketContext {
    /// It came to a listener of this machine: its peer is a client.
    served: bool,
    /// Its client talks TLS.
    tls: bool,
    /// The peer's listener, on this machine, is full.
    full: bool,
    /// Bytes moved since the last sample.
    moved: bool,
    /// Whose word came last.
    word: LastWord,
}

fn state(socket: &TcpSocket, seen: SocketContext) -> ConnectionState {
    let info = &socket.info;
    let received = info.bytes_received.unwrap_or_default();
    let sent = info.bytes_sent.or(info.bytes_acked).unwrap_or_default();
    let under_way = info.unacked.unwrap_or_default() > 0 || info.notsent_bytes.unwrap_or_default() > 0;
    let asked_last = seen.word == LastWord::Own;
    if socket.state == TcpState::SYN_SENT {
        return ConnectionState::Connecting;
    }
    if !seen.served && RESOLVER_PORTS.contains(&socket.id.remote.port()) {
        let asks = (under_way || asked_last) && socket.receive_queue == 0;
        return if asks { ConnectionState::Resolver } else { ConnectionState::Over };
    }
    if !seen.served && received == 0 && sent > 0 {
        // The SYN counts as one byte acknowledged.
        let nothing_acked = info.bytes_acked.unwrap_or_default() <= 1;
        if nothing_acked && seen.full && info.retransmits.unwrap_or_default() > 0 {
            return ConnectionState::Dropped;
        }
        if seen.tls && sent <= FIRST_MESSAGE {
            return ConnectionState::Tls;
        }
    }
    // Where no process has accepted it yet, nobody can have read the question; where one has, it waits for a
    // thread to be free. What was answered and has no process is closed.
    let asks = match socket.inode {
        0 => sent == 0,
        _ => socket.receive_queue <= QUESTION,
    };
    if seen.moved || under_way || (socket.receive_queue > 0 && !(seen.served && asks)) {
        return ConnectionState::Busy;
    }
    match (seen.served, seen.word) {
        (true, LastWord::Peer) => ConnectionState::Owing,
        (false, LastWord::Own) => ConnectionState::Awaiting,
        (true, LastWord::Unclear) => ConnectionState::Unclear,
        (true, LastWord::Own) | (false, LastWord::Peer | LastWord::Unclear) => ConnectionState::Resting,
    }
}

fn listener(socket: &TcpSocket) -> Listener {
    Listener { queued: socket.receive_queue, backlog: socket.send_queue }
}

fn is_local(lane: &Lane) -> bool {
    lane.id.remote.ip().is_loopback() || lane.id.remote.ip() == lane.id.local.ip()
}

/// Its first step is not answered yet.
fn may_be_dropped(lane: &Lane) -> bool {
    lane.last().is_some_and(|socket| {
        socket.state == TcpState::SYN_SENT || socket.info.bytes_received.unwrap_or_default() == 0
    })
}

/// Where an https address leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HttpsAddress {
    /// `None` of a name, which may lead anywhere.
    host: Option<IpAddr>,
    port: u16,
}

impl HttpsAddress {
    /// Reads `https://HOST[:PORT][/...]`.
    fn parse(word: &str) -> Option<HttpsAddress> {
        let rest = word.strip_prefix("https://")?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let (name, port) = match host.rsplit_once(':') {
            // A colon inside brackets is the address's own.
            Some((name, port)) if !port.contains(']') => (name, port.parse().ok()?),
            _ => (host, 443),
        };
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        Some(HttpsAddress { host: bare.parse().ok(), port })
    }

    fn may_be(&self, peer: SocketAddr) -> bool {
        self.port == peer.port() && self.host.is_none_or(|host| host.to_canonical() == peer.ip())
    }
}

fn https_addresses(pid: Pid) -> Vec<HttpsAddress> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = line.split(|byte| *byte == 0);
    words.filter_map(|word| HttpsAddress::parse(std::str::from_utf8(word).ok()?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sock_diag::SocketId;
    use crate::tcp_info::TcpInfo;

    const CLIENT: SocketContext =
        SocketContext { served: false, tls: false, full: false, moved: false, word: LastWord::Own };

    /// Established, with so many bytes sent and received.
    fn socket(port: u16, sent: u64, came: u64) -> TcpSocket {
        let info = TcpInfo {
            bytes_sent: Some(sent),
            bytes_acked: Some(sent + 1),
            bytes_received: Some(came),
            ..TcpInfo::default()
        };
        TcpSocket {
            id: SocketId {
                local: "10.0.0.1:40000".parse().unwrap(),
                remote: (std::net::Ipv4Addr::new(10, 0, 0, 2), port).into(),
                cookie: 1,
                interface: 0,
            },
            state: TcpState::ESTABLISHED,
            uid: 0,
            inode: 7,
            receive_queue: 0,
            send_queue: 0,
            info,
            memory: None,
            congestion_control: None,
        }
    }

    #[test]
    fn the_last_word_decides_who_is_owed() {
        let kept = socket(80, 100, 5000);
        let server = SocketContext { served: true, ..CLIENT };
        let after = |seen: SocketContext, word| state(&kept, SocketContext { word, ..seen });
        assert_eq!(after(CLIENT, LastWord::Own), ConnectionState::Awaiting);
        assert_eq!(after(CLIENT, LastWord::Peer), ConnectionState::Resting);
        assert_eq!(after(server, LastWord::Peer), ConnectionState::Owing, "what came was a request");
        assert_eq!(after(server, LastWord::Own), ConnectionState::Resting);
        assert_eq!(after(CLIENT, LastWord::Unclear), ConnectionState::Resting, "owed by nobody");
        assert_eq!(after(server, LastWord::Unclear), ConnectionState::Unclear, "an answer may be owed");
        assert_eq!(state(&kept, SocketContext { moved: true, ..CLIENT }), ConnectionState::Busy);
        let unread = TcpSocket { receive_queue: 1, ..kept.clone() };
        assert_eq!(state(&unread, CLIENT), ConnectionState::Busy);
    }

    #[test]
    fn a_question_that_waits_to_be_read_is_owed_its_answer() {
        let server = SocketContext { served: true, word: LastWord::Peer, ..CLIENT };
        let question = TcpSocket { receive_queue: 80, ..socket(40_000, 0, 80) };
        assert_eq!(state(&question, server), ConnectionState::Owing, "no thread is free for it");
        assert_eq!(state(&question, SocketContext { moved: true, ..server }), ConnectionState::Busy);
        assert_eq!(state(&question, CLIENT), ConnectionState::Busy, "an answer that is not read");
        let upload = TcpSocket { receive_queue: 50_000, ..question.clone() };
        assert_eq!(state(&upload, server), ConnectionState::Busy, "its process reads it, or is late to");
        let waits = TcpSocket { inode: 0, ..question };
        assert_eq!(state(&waits, server), ConnectionState::Owing);
        assert_eq!(state(&waits, SocketContext { moved: true, ..server }), ConnectionState::Busy);
        let mut closed = waits.clone();
        closed.info.bytes_sent = Some(5000);
        assert_eq!(state(&closed, server), ConnectionState::Busy, "its process has closed it");
    }

    #[test]
    fn steps_of_a_handshake_are_told_apart() {
        let syn = TcpSocket { state: TcpState::SYN_SENT, ..socket(443, 0, 0) };
        assert_eq!(state(&syn, CLIENT), ConnectionState::Connecting);
        let hello = socket(443, 517, 0);
        assert_eq!(state(&hello, SocketContext { tls: true, ..CLIENT }), ConnectionState::Tls);
        assert_eq!(state(&hello, CLIENT), ConnectionState::Awaiting, "a request in the clear");
        let upload = socket(443, 50_000, 0);
        assert_eq!(state(&upload, SocketContext { tls: true, ..CLIENT }), ConnectionState::Awaiting);
        let mut dropped = socket(80, 100, 0);
        (dropped.info.bytes_acked, dropped.info.retransmits, dropped.info.unacked) =
            (Some(1), Some(1), Some(1));
        assert_eq!(state(&dropped, SocketContext { full: true, ..CLIENT }), ConnectionState::Dropped);
        assert_eq!(state(&dropped, CLIENT), ConnectionState::Busy, "lost on the path");
        assert_eq!(state(&socket(53, 40, 0), CLIENT), ConnectionState::Resolver);
    }

    #[test]
    fn an_https_address_says_where_tls_is_spoken() {
        let may_be = |word: &str, peer: &str| {
            HttpsAddress::parse(word).is_some_and(|address| address.may_be(peer.parse().unwrap()))
        };
        assert!(may_be("https://host.example/x?y", "10.0.0.2:443"));
        assert!(may_be("https://user:word@host.example:4443", "10.0.0.2:4443"));
        assert!(may_be("https://[2001:db8::1]:4443/", "[2001:db8::1]:4443"));
        assert!(may_be("https://[2001:db8::1]/", "[2001:db8::1]:443"));
        assert!(!may_be("https://host.example/", "10.0.0.2:8080"), "another port");
        assert!(!may_be("https://10.0.0.3:8080/", "10.0.0.2:8080"), "another host");
        assert!(!may_be("http://host.example:443/", "10.0.0.2:443"), "in the clear");
        assert!(!may_be("https://host.example:port/", "10.0.0.2:443"));
    }
}
