//! The ways in which lanes are made, and what a user may say about that.

use std::time::Duration;

use crate::wire::message::{Ports, Transport};

/// How long one direction is tried: a lost SYN is sent again after a second (RFC 6298), so this survives one.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(1500);

/// How lanes are to be made.
#[derive(Debug, Clone, Default)]
pub struct LaneOptions {
    /// Only so.
    pub transport: Option<Transport>,
    /// On these ports.
    pub ports: Option<Ports>,
    /// Between two others never from one to the other.
    pub through_here: bool,
    /// Under no cipher.
    pub plain: bool,
    /// This many.
    pub count: Option<u32>,
}

/// How a lane is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// This end connects to the far one.
    There,
    /// The far end connects to this one.
    Back,
    /// This one connects to both far ends and hands on what comes.
    Relay,
    /// Inside ssh.
    Ssh,
}
