//! What the sending end of a connection convicts. The order of decision, which the rules keep among themselves:
//!
//! 1. the application has nothing to send ([`application`]; what holds it: [`source_disk`], [`cpu_core`], and
//!    [`latency`] where it is the peer's turn to ask);
//! 2. its send buffer stops it though congestion and peer window have room ([`send_buffer`]);
//! 3. in flight is pinned at the peer's window: a cap ([`receive_window`]) or a slow reader ([`reader`]). With a standing
//!    queue a filled window is a symptom, and the queue's owner is the limit;
//! 4. else, with data waiting, the network: someone's pacing ([`rate_limit`]), loss ([`path_loss`]), a full link
//!    ([`path_bandwidth`]), or slow start ([`latency`]).

pub mod application;
pub mod cpu_core;
pub(crate) mod flow;
pub mod latency;
pub(crate) mod network;
pub mod path_bandwidth;
pub mod path_loss;
pub(crate) mod program;
pub mod rate_limit;
pub mod reader;
pub mod receive_window;
pub mod send_buffer;
pub mod source_disk;
