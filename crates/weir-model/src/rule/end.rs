//! Which end of a connection was watched.

use crate::evidence::LaneInterval;
use crate::path::INITIAL_WINDOW;

/// The end of a connection that was watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It sends the data; the peer sends the requests.
    Sends,
    /// It receives the data, and sends the requests.
    Receives,
}

impl End {
    /// The end that this lane's own socket is. With only the sender's view it sends; with both views, if more
    /// went out than came in; without the sender's, if more went out than requests account for.
    pub(crate) fn of(lane: &LaneInterval) -> End {
        let more = |least| lane.waits.value().is_some_and(|waits| waits.sent > waits.came.max(least));
        let sends = match (lane.sender.value(), lane.tcp.value()) {
            (Some(_), None) => true,
            (Some(_), Some(_)) => more(0),
            (None, _) => more(INITIAL_WINDOW),
        };
        if sends { End::Sends } else { End::Receives }
    }
}
