//! What is on the wire, as pure parsers and writers. On the control connection: [`frame`]s, with messages
//! [`to_sender`] and [`to_receiver`], and between [`driver`] and peer. On lanes: [`record`]s. The page
//! `docs/protocol.md` says it all in one place.

pub mod batch;
pub mod change;
pub mod driver;
pub mod frame;
pub mod measure;
pub mod message;
pub mod messages;
pub mod modes;
pub mod owners;
pub mod patch;
pub mod record;
pub mod selection;
pub mod to_receiver;
pub mod to_sender;
