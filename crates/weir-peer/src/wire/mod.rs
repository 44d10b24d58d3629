//! What is on the wire, as pure parsers and writers: [`frame`] and [`message`] of the control connection, [`record`] of
//! the lanes. The page `docs/protocol.md` says it all in one place.

pub mod batch;
pub mod change;
pub mod frame;
pub mod measure;
pub mod message;
pub mod modes;
pub mod owners;
pub mod patch;
pub mod record;
pub mod selection;
