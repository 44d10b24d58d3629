//! What a watch counted.

use crate::sock_diag::TcpSocket;

/// The run in numbers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Totals {
    /// Bytes received.
    pub received: u64,
    /// Bytes that peers acknowledged.
    pub acked: u64,
    /// Connections seen at all, those that were over between two looks included.
    pub connections: u64,
    /// Of them, those that were over between two looks.
    pub unseen: u64,
    /// The most connections at one time.
    pub at_once: usize,
    /// Looks so far.
    pub looks: u64,
    /// Connections that ended unseen and went where the subject's go: they may be others', and count nowhere
    /// else.
    pub unproven: Unproven,
}

/// Connections of which nobody can say whose they were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unproven {
    /// How many.
    pub connections: u64,
    /// What they carried, each the way that more went.
    pub bytes: u64,
}

impl Unproven {
    pub(super) fn add(&mut self, socket: &TcpSocket) {
        let info = &socket.info;
        let bytes = info.bytes_received.unwrap_or_default().max(info.bytes_acked.unwrap_or_default());
        self.connections += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}
