//! From which end of its connections a window was watched.

use super::Context;
use crate::evidence::Window;

/// An end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The one that receives the data.
    Receiver,
    /// The one that sends them.
    Sender,
}

/// The ends that were watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// The receiver of the data was.
    pub receiver: bool,
    /// The sender of the data was.
    pub sender: bool,
}

impl View {
    /// What this window shows. One without a lane (between connections, after the last) is seen as the nearest one that
    /// has some; a run without any is the receiver's, whose disk and digest may still be at work.
    pub fn of(window: &Window, context: &Context<'_>) -> View {
        let earlier = context.before.iter().rev();
        let near = std::iter::once(window).chain(earlier).chain(context.after);
        let seen = near.into_iter().find(|window| !window.lanes.is_empty());
        let Some(seen) = seen else { return View { receiver: true, sender: false } };
        View {
            // A lane of our own without a socket yet has neither reading, and is a receiver.
            receiver: (seen.lanes.iter())
                .any(|lane| lane.tcp.value().is_some() || lane.sender.value().is_none()),
            sender: seen.lanes.iter().any(|lane| lane.sender.value().is_some()),
        }
    }

    /// Seen from the sender's end alone.
    pub fn sender_only(self) -> bool {
        self.sender && !self.receiver
    }
}
