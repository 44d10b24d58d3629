//! Host to host: the two ends of `weir cp`, from the words between them to the file in its place.
//!
//! A byte's way: the [`sender`]'s walk finds a file and offers it; the [`receiver`] answers what it wants of it; a worker of
//! the sender reads a block, digests, compresses and encrypts it and sends it on a [`lane`]; a thread of the receiver
//! opens, decompresses, verifies and writes it; when all blocks are there and their [`subtrees`] join to the sender's digest,
//! the file gets its name.
//!
//! A session that only measures, for a prediction: [`measure`].
//!
//! A session: the driver ([`session`]) starts the far end ([`peer`]) through [`ssh`], both say [`hello`], the driver draws a
//! secret ([`secure`]), and lanes are made ([`maker`]). What is said between them is in [`wire`]; `docs/protocol.md` is the
//! page to write another end from.

pub mod addresses;
pub mod between;
pub mod ciphers;
pub mod control;
mod counts;
mod descriptors;
pub mod end;
pub mod error;
pub mod events;
pub mod evidence;
pub mod hello;
mod holes;
pub mod lane;
pub mod list;
mod lost;
pub mod maker;
pub mod measure;
pub mod meter;
pub mod opening;
pub mod patience;
pub mod peer;
pub mod problems;
pub mod receiver;
pub mod roots;
pub mod secret;
pub mod secure;
pub mod sender;
pub mod session;
pub mod speeds;
pub mod ssh;
pub mod subtrees;
mod threads;
mod tuning;
pub mod watch;
pub mod wire;

pub use error::Error;
