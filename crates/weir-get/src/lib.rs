//! Moving bytes: from a URL into a file, fast, and never a wrong file.
//!
//! What becomes of a download is decided in [`download`], a pure state machine that the lanes drive.
//!
//! A byte's way: [`engine`] starts lanes; a [`lane`] opens an object (what the answer says of it is
//! [`object`]'s), the [`ledger`] hands ranges to lanes, each lane reads its socket ([`http::connection`]) and
//! the [`sink`] puts the bytes in their place; the ledger marks them, the [`journal`] keeps that; after the
//! last range the digests are compared ([`verify`]) and the file gets its name. Parts are put together only
//! where [`version`] proves that they belong together. Another process may follow a file while it grows:
//! [`growing`].
//!
//! A reading's way: each lane's stage clock (`weir-observe`) and socket, and the machine's counters, become
//! intervals of evidence in [`engine`]; the judge of `weir-model` names each interval's limit, and its tuner
//! acts on it.

pub mod download;
pub mod engine;
pub mod error;
mod filter;
pub mod growing;
pub mod http;
pub mod job;
pub mod journal;
pub mod lane;
pub mod ledger;
pub mod list;
mod names;
pub mod object;
pub mod pool;
pub mod ramp;
pub mod ranges;
pub mod sink;
pub mod source;
pub mod transfer;
pub mod verify;
pub mod version;

pub use error::GetError;
