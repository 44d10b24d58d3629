//! What the sending end of a connection convicts. The order of decision, which the rules keep among
//! themselves:
//!
//! 0. nothing can be sent whatever the buffers and the path would take: no full segment passes
//!    ([`path_mtu`]), a timer has to fire ([`timeouts`]), a rest waits for an acknowledgement ([`nagle`]),
//!    the next question has to come ([`request_response`]), a window above TCP is shut ([`protocol_window`]);
//! 1. the application has nothing to send ([`application`]; what holds it: [`source_disk`], [`cpu_core`], and
//!    [`latency`] where it is the peer's turn to ask; of an upload the peer's answer, [`answers`], or the
//!    program that writes what is sent, [`upstream`]);
//! 2. its send buffer stops it though congestion and peer window have room ([`send_buffer`]);
//! 3. in flight is pinned at the peer's window: a cap ([`receive_window`]) or a slow reader ([`reader`]).
//!    With a standing queue a filled window is a symptom, and the queue's owner is the limit;
//! 4. else, with data waiting, the network: someone's pacing ([`rate_limit`]), loss ([`path_loss`]), a full
//!    link ([`path_bandwidth`]), or slow start ([`latency`]).

pub(crate) mod answers;
pub mod application;
pub mod cpu_core;
pub(crate) mod flow;
pub mod latency;
pub mod nagle;
pub(crate) mod network;
pub mod path_bandwidth;
pub mod path_loss;
pub mod path_mtu;
pub(crate) mod program;
pub mod protocol_window;
pub mod rate_limit;
pub mod reader;
pub mod receive_window;
pub mod request_response;
pub mod send_buffer;
pub mod source_disk;
pub mod timeouts;
pub mod upstream;
