//! How bytes travel: one plain connection, ssh's channel, weir's lanes.

use weir_units::{Bytes, Rate};

/// What an OpenSSH channel may have in flight, whatever TCP allows: 64 packets of 32 KiB
/// (`CHAN_SES_WINDOW_DEFAULT` in its channels.h).
pub const SSH_WINDOW: Bytes = Bytes(2 << 20);

/// What OpenSSH's one thread encrypts and sends where nobody measured it: scp over loopback on a processor
/// with AES instructions.
pub const SSH_CIPHER: Rate = Rate(340e6);

/// Connections that weir opens for one transfer, at most.
pub const LANES_MOST: u32 = 64;

/// Round trips of an ssh session before its first payload byte: TCP, versions, key exchange (2), service,
/// authentication (2), channel.
const SSH_ROUND_TRIPS: u32 = 8;

/// A way for the bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Transport {
    /// `tcp`, `ssh`, `weir`.
    pub name: &'static str,
    /// Connections that share the bytes.
    pub connections: u32,
    /// Bytes that a connection may have in flight beyond what TCP's windows say.
    pub channel_window: Option<Bytes>,
    /// Bytes that one thread encrypts, and decrypts, per second; `None` where nothing is encrypted.
    pub cipher: Option<Rate>,
    /// Threads that encrypt.
    pub threads: u32,
    /// Round trips before the first payload byte leaves.
    pub round_trips: u32,
}

impl Transport {
    /// One plain connection, as `nc` has it.
    pub fn tcp() -> Transport {
        Transport {
            name: "tcp",
            connections: 1,
            channel_window: None,
            cipher: None,
            threads: 1,
            round_trips: 1,
        }
    }

    /// A channel of one ssh connection, whose one thread encrypts at `cipher`.
    pub fn ssh(cipher: Rate) -> Transport {
        Transport {
            name: "ssh",
            channel_window: Some(SSH_WINDOW),
            cipher: Some(cipher),
            round_trips: SSH_ROUND_TRIPS,
            ..Transport::tcp()
        }
    }

    /// weir's own connections, each with a thread that encrypts at `cipher`, agreed upon over ssh.
    pub fn lanes(connections: u32, cipher: Option<Rate>) -> Transport {
        Transport {
            name: "weir",
            connections: connections.clamp(1, LANES_MOST),
            cipher,
            threads: connections.clamp(1, LANES_MOST),
            round_trips: SSH_ROUND_TRIPS + 1,
            ..Transport::tcp()
        }
    }
}
