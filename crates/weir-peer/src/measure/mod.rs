//! A session that measures instead of copying: both ends look at themselves and send a short burst over real lanes.
//!
//! The driver ([`session`]) asks one thing after another, of itself and of the peer, so that two measurements
//! on one machine never disturb each other. What an end measures: its [`source`], of which a [`listing`] says
//! what a copy would move, its [`target`], and the [`burst`] between them, which its [`meter`] sends or
//! receives.

mod burst;
mod listing;
pub mod meter;
pub mod session;
mod source;
mod target;

pub use meter::Meter;
pub use session::{Job, Surveyed, survey};
